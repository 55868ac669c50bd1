"""Several runs ranked by log evidence, with the errors of their differences, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from maskevidence import wording
from maskevidence.comparison import Difference
from maskevidence.errors import InputError
from maskevidence.report.reading import ReportedRun
from maskevidence.runs import compare_runs
from maskevidence.wording import digits_for, typeset, verdict


@dataclass(frozen=True)
class Ranking:
    """How the runs of a report compare.

    Attributes:
        columns: of the table.
        rows: best first.
        verdicts: a sentence for each run but the best: told apart from it, or not.
        notes: what a reader should know, one sentence each.
        unit: of the numbers.
        differences: by run, of the best one from it.
        refused: why there is no comparison; None where there is one.
    """

    columns: list[str]
    rows: list[list[str]]
    verdicts: list[str]
    notes: list[str]
    unit: str
    differences: dict[str, Difference]
    refused: str | None = None


def rank(runs: Sequence[ReportedRun]) -> Ranking:
    """Compare the finished runs, if they are of the same observations."""
    finished = {run.name: run.run for run in runs if run.finished and run.estimate is not None}
    left_out = [run.name for run in runs if run.name not in finished]
    notes = [f"{name} is not finished and is left out of the comparison" for name in left_out]
    if len(finished) < 2:
        return Ranking([], [], [], notes, "", {}, "Fewer than two runs are finished.")
    try:
        comparison = compare_runs(finished)
    except InputError as error:
        return Ranking([], [], [], notes, "", {}, f"The runs cannot be compared: {error}.")
    differences = {difference.second: difference for difference in comparison.behind}
    digits = digits_for(*(difference.standard_error for difference in comparison.behind))
    columns, rows = wording.ranking(comparison, digits, typeset)
    all_notes = dict.fromkeys([*notes, *(note for each in comparison.behind for note in each.notes)])
    verdicts = [f"{verdict(difference, digits, typeset)}." for difference in comparison.behind]
    return Ranking(columns, rows, verdicts, list(all_notes), comparison.unit, differences)
