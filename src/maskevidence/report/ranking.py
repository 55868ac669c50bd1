"""The runs of a report compared, or why they are not."""

from collections.abc import Sequence
from dataclasses import dataclass

from maskevidence.comparing.comparison import Comparison, Difference, decided_by_few, ranking, verdict
from maskevidence.errors import InputError
from maskevidence.report.reading import ReportedRun
from maskevidence.runs import compare_runs
from maskevidence.show.parts import Table
from maskevidence.show.words import digits_for, typeset


@dataclass(frozen=True)
class Ranking:
    """How the runs of a report compare.

    Attributes:
        notes: what the reader should know, one sentence each, without full stops.
        refusal: why the runs are not compared, if they are not.
        comparison: the comparison, if there is one.
    """

    notes: list[str]
    refusal: str | None = None
    comparison: Comparison | None = None

    @property
    def differences(self) -> dict[str, Difference]:
        """The difference of the best run from each other run, by the name of the other."""
        behind = () if self.comparison is None else self.comparison.behind
        return {difference.second: difference for difference in behind}

    @property
    def table(self) -> Table:
        """A row for each compared run, the best one first."""
        assert self.comparison is not None
        return Table(*ranking(self.comparison, self._digits, typeset))

    @property
    def verdicts(self) -> list[str]:
        """For each run but the best, whether the two can be told apart, and by which observations if few."""
        assert self.comparison is not None
        names = self.comparison.estimates[self.comparison.names[0]].names
        told = []
        for difference in self.comparison.behind:
            decided = decided_by_few(difference, names, typeset)
            words = [verdict(difference, self._digits, typeset), *([] if decided is None else [decided])]
            told.append(f"{'. '.join(words)}.")
        return told

    @property
    def _digits(self) -> int:
        return digits_for(*(difference.standard_error for difference in self.differences.values()))


def rank(runs: Sequence[ReportedRun]) -> Ranking:
    """Compare the finished runs, if they score the same observations."""
    finished = {run.name: run.run for run in runs if run.finished and run.estimate is not None}
    notes = [
        f"{run.name} is not finished and is left out of the comparison"
        for run in runs
        if run.name not in finished
    ]
    if len(finished) < 2:
        return Ranking(notes, "Fewer than two runs are finished.")
    try:
        comparison = compare_runs(finished)
    except InputError as error:
        return Ranking(notes, f"The runs cannot be compared: {error}.")
    return Ranking(list(dict.fromkeys([*notes, *comparison.all_notes()])), comparison=comparison)
