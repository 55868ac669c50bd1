"""maskevidence compare: which of several runs has the higher log evidence, and whether one can tell."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.cli import output
from maskevidence.errors import InputError
from maskevidence.kinds.declaring import Argument
from maskevidence.kinds.options import Json
from maskevidence.show.parts import Table
from maskevidence.show.terminal import FittingTable, print_page
from maskevidence.show.words import NOT_KNOWN

if TYPE_CHECKING:
    from maskevidence.comparing.comparison import Difference

MAX_POINTS = 10
DIGITS = 4


def compare_runs(
    runs: Annotated[list[Path], Argument("RUN RUN...", "Two or more run directories.")], json: Json = None
) -> None:
    """Rank runs on the same observations by log evidence, with the errors of their differences.

    Scores of the same observation and mask are subtracted, so that what is hard for both models cancels. Runs
    with another design or seed are paired by observation; runs with different tokenizers, per byte of text.

    Example:

        maskevidence compare runs/a runs/b
    """
    from maskevidence.comparing.comparison import verdict
    from maskevidence.runs import compare_runs as pair_runs
    from maskevidence.runs import read_run
    from maskevidence.runs.pairing import distinct

    if len(runs) < 2:
        raise InputError("one run was given; give two or more to compare")
    names = distinct(list(map(str, runs)))
    comparison = pair_runs({name: read_run(folder) for name, folder in zip(names, runs, strict=True)})
    screen = output.console(json)
    print_page(screen, comparison.page())
    for difference in comparison.behind:
        screen.print(f"{verdict(difference, DIGITS)}.")
    for difference in comparison.behind:
        if len(runs) == 2 and difference.curve is not None:
            screen.print(_by_rate(difference))
    output.write_json(comparison.to_dict(), json)


def _by_rate(difference: "Difference") -> Any:
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
    return FittingTable(Table(["mask rate", "difference", "mask_se"], rows, title))
