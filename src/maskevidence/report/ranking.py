"""Several runs ranked by log evidence, with the errors of their differences, in words."""

from collections.abc import Sequence
from dataclasses import dataclass

from maskevidence.comparison import Difference
from maskevidence.errors import InputError
from maskevidence.report.reading import ReportedRun
from maskevidence.report.words import digits_for, number
from maskevidence.runs import compare_runs


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
    densities = any(difference.log_bayes_factor is not None for difference in comparison.behind)
    columns = ["run", "log evidence", "behind best", "wins"] + ["log Bayes factor"] * densities
    best = comparison.names[0]
    rows = [[best, number(comparison.log_evidence[0], digits), "best", "", *([""] * densities)]]
    for value, difference in zip(comparison.log_evidence[1:], comparison.behind, strict=True):
        row = [
            difference.second,
            number(value, digits),
            _plus_minus(difference.difference, difference.standard_error, digits),
            f"{1 - difference.win_share:.0%}".replace("%", " %"),
        ]
        if densities:
            factor = difference.log_bayes_factor
            row.append("" if factor is None else _plus_minus(-factor, difference.log_bayes_factor_se, 1))
        rows.append(row)
    all_notes = dict.fromkeys([*notes, *(note for each in comparison.behind for note in each.notes)])
    verdicts = [_verdict(difference, digits) for difference in comparison.behind]
    return Ranking(columns, rows, verdicts, list(all_notes), comparison.unit, differences)


def _plus_minus(value: float, se: float | None, digits: int) -> str:
    return number(value, digits) + ("" if se is None else f" ± {number(se, digits)}")


def _verdict(difference: Difference, digits: int) -> str:
    interval = difference.interval()
    if interval is None:
        return f"{difference.first} and {difference.second} cannot be told apart: the error is not known."
    low, high = (number(end, digits) for end in interval)
    if difference.told_apart:
        return f"{difference.first} is better than {difference.second}: 95 % interval {low} to {high}."
    return (
        f"{difference.first} and {difference.second} cannot be told apart: 95 % interval {low} to {high} "
        "holds zero."
    )
