"""maskevidence compare: which of several runs has the higher log evidence, and whether one can tell."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from maskevidence.command.options import Argument, Option, Result
from maskevidence.core.errors import InputError

if TYPE_CHECKING:
    from maskevidence.core.comparing.comparison import Difference
    from maskevidence.core.show.parts import Table
    from maskevidence.runs import Run

MAX_POINTS = 10


def compare_command(
    runs: Annotated[list[Path], Argument("RUN RUN...", "Two or more run directories.")],
    unpaired: Annotated[
        bool, Option("For two sets of observations under one model: subtract their means.")
    ] = False,
) -> Result:
    """Rank runs on the same observations by log evidence, with the errors of their differences.

    Scores of the same observation and mask are subtracted, so that what is hard for both models cancels. Runs
    with another design or seed are paired by observation; runs with different tokenizers, per byte of text.

    Two runs of one model on different data, such as real and shuffled sentences, are compared pair by pair if
    both have the same names (--id-column), or with --unpaired by their means, with the data errors of both.

    Examples:

        maskevidence compare runs/a runs/b
        maskevidence compare runs/real runs/shuffled --unpaired
    """
    from maskevidence.runs import compare_runs, read_run
    from maskevidence.runs.comparing import are_two_sets, distinct
    from maskevidence.runs.manifest import common_noun

    if len(runs) < 2:
        raise InputError("one run was given; give two or more to compare")
    names = distinct(list(map(str, runs)))
    read = {name: read_run(folder) for name, folder in zip(names, runs, strict=True)}
    if are_two_sets(read):
        return _two_sets(read, unpaired=unpaired)
    if unpaired:
        raise InputError("--unpaired is for two runs of one model on different data; leave it out")
    comparison = compare_runs(read)
    page = comparison.page(common_noun(run.manifest for run in read.values()))
    curves = [_by_rate(each) for each in comparison.behind if len(runs) == 2 and each.curve is not None]
    return Result(replace(page, parts=[*page.parts, *curves]), comparison.to_dict())


def _two_sets(runs: "Mapping[str, Run]", *, unpaired: bool) -> Result:
    """Compare two sets of observations under one model, as pairs with common names or as two samples."""
    from maskevidence.core.comparing.pairs import pair_texts, subtract_sets

    (a, first), (b, second) = ((name, run.estimate) for name, run in runs.items())
    if unpaired:
        apart = subtract_sets(first, second, (a, b))
        return Result(apart.page(), apart.to_dict())
    if first.labels is None or second.labels is None or {*first.labels} != {*second.labels}:
        raise InputError(
            f"{a!r} and {b!r} are of one model on different data: score both with --id-column, with the same "
            "names, to compare them pair by pair, or compare their means with --unpaired"
        )
    pairs = pair_texts(first, second, (a, b), dtypes=[run.manifest.dtype for run in runs.values()])
    return Result(pairs.page(), pairs.to_dict())


def _by_rate(difference: "Difference") -> "Table":
    """A table of the difference at up to ten evenly spaced rates."""
    import numpy as np

    from maskevidence.core.show.parts import Table
    from maskevidence.core.show.words import NOT_KNOWN, typeset

    curve = difference.curve
    assert curve is not None
    rows = [
        [
            f"{100 * curve.rate[k]:.1f} %",
            typeset(float(curve.score[k]), 4),
            NOT_KNOWN if np.isnan(curve.mask_se[k]) else f"{curve.mask_se[k]:.4f}",
        ]
        for k in np.unique(np.linspace(0, len(curve.rate) - 1, MAX_POINTS).round().astype(int))
    ]
    title = f"{difference.first} minus {difference.second}, nats per masked token"
    return Table(["mask rate", "difference", "mask_se"], rows, title)
