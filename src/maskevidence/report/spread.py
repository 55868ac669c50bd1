"""The log evidence of the single observations: a histogram, with the outliers named."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.comparing.comparison import common_name
from maskevidence.report.cells import unlikely_cells
from maskevidence.report.figures import Figure, figure
from maskevidence.report.reading import ReportedRun
from maskevidence.show.parts import Table
from maskevidence.show.pictures import Histogram
from maskevidence.show.words import count, typeset

OUTLYING = 3.5  # robust standard deviations from the median
NAMED = 8  # outliers that are named on each side
_MAD_OF_NORMAL = 1.4826
_CHARACTER = 0.012  # width of a character, as a share of the width of the picture


@dataclass(frozen=True)
class Spread:
    """How the observations of a run differ.

    Attributes:
        figure: the histogram.
        words: the outliers, in a sentence.
    """

    figure: Figure
    words: str


def outliers(values: Float64[np.ndarray, " N"]) -> tuple[list[int], list[int]]:
    """The places of the values that lie far below and far above the others, the farthest first.

    A value is far if it is more than 3.5 robust standard deviations (1.4826 times the median of the absolute
    deviations) from the median.

    Example:
        >>> outliers(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 50.0, -90.0]))
        ([6], [5])
    """
    far = values - np.median(values)
    scale = _MAD_OF_NORMAL * float(np.median(np.abs(far)))
    if scale == 0:
        return [], []
    order = np.argsort(far, kind="stable")
    low = [int(place) for place in order if far[place] < -OUTLYING * scale]
    high = [int(place) for place in order[::-1] if far[place] > OUTLYING * scale]
    return low, high


def spread_of(run: ReportedRun, noun: str) -> Spread | None:
    """The histogram of a run's observations, per token where they differ in their number of tokens.

    Args:
        run: a run that has an estimate.
        noun: what an observation is.

    Returns:
        None for fewer than 5 observations.
    """
    estimate = run.estimate
    assert estimate is not None
    values = run.values
    if len(values) < 5:
        return None
    _, first = np.unique(estimate.scores.id, return_index=True)
    n_tokens = estimate.scores.n_tokens[first]
    by_token = len(np.unique(n_tokens)) > 1
    unit = "nats per token" if by_token else f"nats per {noun}"
    values = values / n_tokens if by_token else values
    low, high = outliers(values)
    names = estimate.names
    digits = 3 if by_token else 1
    far = [*low[:NAMED], *high[:NAMED]]
    picture = Histogram(values, f"{common_name([estimate])} ({unit})", f"number of {noun}s")
    edges = picture.edges()
    counts, _ = np.histogram(values, edges)
    named = written(values, names, far, edges, counts)
    picture = replace(picture, named=[(float(values[k]), name) for k, name in zip(far, named, strict=True)])
    cells = unlikely_cells(run, low[:NAMED], values)
    words = _in_words(values, names, (low, high), noun, digits, cells)
    summary = (
        f"Histogram of {count(len(values), noun)}: {unit} from {typeset(values.min(), digits)} to "
        f"{typeset(values.max(), digits)}, median {typeset(float(np.median(values)), digits)}. {words}"
    )
    rows = [
        [f"{typeset(start, digits)} to {typeset(end, digits)}", str(n)]
        for (start, end), n in zip(itertools.pairwise(edges), counts.tolist(), strict=True)
        if n
    ]
    table = Table([unit, f"{noun}s"], rows)
    return Spread(figure("spread", f"How the {noun}s differ", summary, picture, table), words)


def written(
    values: Float64[np.ndarray, " N"],
    names: list[str],
    far: list[int],
    edges: Float64[np.ndarray, " n_edges"],
    counts: Int64[np.ndarray, " n_bins"],
) -> list[str]:
    """The names that are written beside their points: the farthest, and others that have room.

    A name is written towards the other observations, over bars that are almost 0, and over no other name.
    """
    middle, per_character = float(np.median(values)), _CHARACTER * float(edges[-1] - edges[0])
    taken: list[tuple[float, float]] = []
    texts = []
    for place in far:
        value = float(values[place])
        reach = per_character * (len(names[place]) + 1)
        start, end = (value, value + reach) if value < middle else (value - reach, value)
        under = counts[(edges[1:] > start) & (edges[:-1] < end)]
        free = all(end < a or b < start for a, b in taken) and under.max(initial=0) <= 0.04 * counts.max()
        first = not any((values[other] < middle) == (value < middle) for other in far[: far.index(place)])
        texts.append(names[place] if free or first else "")
        if texts[-1]:
            taken.append((start, end))
    return texts


def _in_words(
    values: Float64[np.ndarray, " N"],
    names: list[str],
    far: tuple[list[int], list[int]],
    noun: str,
    digits: int,
    cells: Mapping[int, str],
) -> str:
    sentences = []
    for places, where in zip(far, ("below", "above"), strict=True):
        if not places:
            continue
        named = ", ".join(
            f"{names[place]} ({typeset(values[place], digits)}{cells.get(place, '')})"
            for place in places[:NAMED]
        )
        more = f" and {len(places) - NAMED:,} more" if len(places) > NAMED else ""
        lies = "lies" if len(places) == 1 else "lie"
        sentences.append(f"{count(len(places), noun)} {lies} far {where} the others: {named}{more}.")
    if cells:
        sentences.append(
            f"After the colon: the cells that the rest of the {noun} makes least likely, compared with other "
            f"{noun}s."
        )
    return " ".join(sentences) or f"No {noun} lies far from the others."
