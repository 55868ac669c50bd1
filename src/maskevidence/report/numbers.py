"""The numbers of one run, in the words that the terminal and a notebook have for them."""

from collections.abc import Sequence

from maskevidence.evidence.result import page_of_numbers
from maskevidence.report.reading import ReportedRun
from maskevidence.show.parts import Page
from maskevidence.show.words import digits_for


def common_digits(runs: Sequence[ReportedRun]) -> int:
    """The number of decimals that shows every error of these runs."""
    estimates = [run.estimate for run in runs if run.estimate is not None]
    return digits_for(*(error for each in estimates for error in (each.mask_se, each.data_se)))


def numbers(run: ReportedRun) -> Page:
    """The numbers of a run that has an estimate."""
    assert run.estimate is not None
    exact = {"closed_form": run.closed_form, "closed_form_se": run.estimate.closed_form_se}
    return page_of_numbers(run.run.result() | exact)


def caution(run: ReportedRun) -> str | None:
    """What a reader must know before the numbers of a run that has an estimate, if anything."""
    estimate = run.estimate
    assert estimate is not None
    if not run.finished:
        return (
            f"This run is not finished: {run.n_done:,} of its {run.n_blocks:,} blocks of rows have all their "
            f"masks. The numbers are of the {estimate.n_observations:,} observations that are done."
        )
    if estimate.n_observations == 1:
        return "This run has one observation: the numbers say nothing about others."
    return None
