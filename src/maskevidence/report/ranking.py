"""A ranking of the runs of a report by log evidence, with the errors of their differences."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from maskevidence import comparison as compared
from maskevidence.comparison import Comparison, Difference, decided_by_few, verdict
from maskevidence.errors import InputError
from maskevidence.report.reading import ReportedRun
from maskevidence.runs import compare_runs
from maskevidence.wording import digits_for, typeset


@dataclass(frozen=True)
class Ranking:
    """How the runs of a report compare.

    Attributes:
        columns: names of the columns of the table.
        rows: rows of the table, best run first.
        verdicts: for each run but the best, a sentence on whether the two can be told apart.
        notes: what the reader should know, one sentence each, without full stops.
        unit: the unit of the numbers.
        differences: the difference of the best run from each other run, by the name of the other.
        refusal: why the runs are not compared, if they are not.
        comparison: the comparison itself, if there is one.
    """

    columns: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unit: str = ""
    differences: dict[str, Difference] = field(default_factory=dict)
    refusal: str | None = None
    comparison: Comparison | None = None


def rank(runs: Sequence[ReportedRun]) -> Ranking:
    """Compare the finished runs, if they score the same observations."""
    finished = {run.name: run.run for run in runs if run.finished and run.estimate is not None}
    notes = [
        f"{run.name} is not finished and is left out of the comparison"
        for run in runs
        if run.name not in finished
    ]
    if len(finished) < 2:
        return Ranking(notes=notes, refusal="Fewer than two runs are finished.")
    try:
        comparison = compare_runs(finished)
    except InputError as error:
        return Ranking(notes=notes, refusal=f"The runs cannot be compared: {error}.")
    behind = comparison.behind
    digits = digits_for(*(difference.standard_error for difference in behind))
    columns, rows = compared.ranking(comparison, digits, typeset)
    names = comparison.estimates[comparison.names[0]].names
    return Ranking(
        columns=columns,
        rows=rows,
        verdicts=[f"{'. '.join(_told(difference, names, digits))}." for difference in behind],
        notes=list(dict.fromkeys([*notes, *comparison.all_notes()])),
        unit=comparison.unit,
        differences={difference.second: difference for difference in behind},
        comparison=comparison,
    )


def _told(difference: Difference, names: Sequence[str], digits: int) -> list[str]:
    """What a difference says, and which observations decide it where these are few."""
    decided = decided_by_few(difference, names, typeset)
    return [verdict(difference, digits, typeset)] + ([] if decided is None else [decided])
