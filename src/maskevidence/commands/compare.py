"""maskevidence compare: which of several runs has the higher log evidence, and whether one can tell."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from maskevidence.commands.result import Reported
from maskevidence.errors import InputError
from maskevidence.kinds.declaring import Argument
from maskevidence.show.parts import Table
from maskevidence.show.words import NOT_KNOWN

if TYPE_CHECKING:
    from maskevidence.comparing.comparison import Difference

MAX_POINTS = 10
DIGITS = 4


def compare_runs(
    runs: Annotated[list[Path], Argument("RUN RUN...", "Two or more run directories.")],
) -> Reported:
    """Rank runs on the same observations by log evidence, with the errors of their differences.

    Scores of the same observation and mask are subtracted, so that what is hard for both models cancels. Runs
    with another design or seed are paired by observation; runs with different tokenizers, per byte of text.

    Example:

        maskevidence compare runs/a runs/b

    Args:
        runs: two or more run directories.

    Raises:
        InputError: fewer than two runs, or runs that cannot be compared.
    """
    from maskevidence.comparing.comparison import verdict
    from maskevidence.runs import compare_runs as pair_runs
    from maskevidence.runs import read_run
    from maskevidence.runs.pairing import distinct

    if len(runs) < 2:
        raise InputError("one run was given; give two or more to compare")
    names = distinct(list(map(str, runs)))
    comparison = pair_runs({name: read_run(folder) for name, folder in zip(names, runs, strict=True)})
    page = comparison.page()
    verdicts = [f"{verdict(difference, DIGITS)}." for difference in comparison.behind]
    curves = [_by_rate(each) for each in comparison.behind if len(runs) == 2 and each.curve is not None]
    return Reported(replace(page, parts=[*page.parts, *verdicts, *curves]), comparison.to_dict())


def _by_rate(difference: "Difference") -> Table:
    """The curve of a difference at up to ten evenly spaced rates."""
    import numpy as np

    curve = difference.curve
    assert curve is not None
    rows = [
        [
            f"{curve.rate[k]:.1%}",
            f"{curve.score[k]:.4f}",
            NOT_KNOWN if np.isnan(curve.mask_se[k]) else f"{curve.mask_se[k]:.4f}",
        ]
        for k in np.unique(np.linspace(0, len(curve.rate) - 1, MAX_POINTS).round().astype(int))
    ]
    title = f"{difference.first} minus {difference.second}, nats per masked token"
    return Table(["mask rate", "difference", "mask_se"], rows, title)
