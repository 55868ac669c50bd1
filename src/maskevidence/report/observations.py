"""The observations of a report: the hardest and easiest, all in a table, and how they spread."""

import base64
import io
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.comparing.comparison import common_name
from maskevidence.errors import import_extra
from maskevidence.inputs.words import own_file
from maskevidence.report.figures import Figure, Ranking, figure
from maskevidence.report.reading import (
    Content,
    ImageContent,
    ReportedRun,
    RowContent,
    TextContent,
    Unavailable,
)
from maskevidence.report.tokens import (
    Shades,
    Span,
    aligned,
    cell_scores,
    of_densities,
    of_probabilities,
    read_tokens,
    spans_of_tokens,
    token_scores,
    unlikely_cells,
)
from maskevidence.show.parts import Table
from maskevidence.show.pictures import Histogram
from maskevidence.show.words import MINUS, capital, count, plain, typeset

OUTLYING = 3.5  # robust standard deviations from the median
NAMED = 8  # outliers that are named on each side
_MAD_OF_NORMAL = 1.4826
_CHARACTER = 0.012  # width of a character, as a share of the width of the picture


@dataclass(frozen=True)
class Spread:
    """How the observations of a run differ."""

    figure: Figure  # the histogram
    words: str  # the outliers, in a sentence


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
    low = [int(row) for row in order if far[row] < -OUTLYING * scale]
    high = [int(row) for row in order[::-1] if far[row] > OUTLYING * scale]
    return low, high


def spread_of(run: ReportedRun, noun: str) -> Spread | None:
    """The histogram of a run's observations, per token where they differ in their number of tokens.

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
    for row in far:
        value = float(values[row])
        reach = per_character * (len(names[row]) + 1)
        start, end = (value, value + reach) if value < middle else (value - reach, value)
        under = counts[(edges[1:] > start) & (edges[:-1] < end)]
        free = all(end < a or b < start for a, b in taken) and under.max(initial=0) <= 0.04 * counts.max()
        first = not any((values[other] < middle) == (value < middle) for other in far[: far.index(row)])
        texts.append(names[row] if free or first else "")
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
            f"{names[row]} ({typeset(values[row], digits)}{cells.get(row, '')})" for row in places[:NAMED]
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


MAX_ROWS = 5000
MAX_RUNS = 2  # the best one and the next: more columns do not fit on a phone


@dataclass(frozen=True)
class AllObservations:
    """The table, as the page's script reads it."""

    columns: list[str]  # names of the columns; the first is the observation's name
    main: int  # the column of the log evidence, which a filter compares
    rows: list[list[str | float | None]]  # a name and numbers; None where a number is not known
    digits: list[int]  # decimals of each column of numbers
    note: str | None  # what is left out, if anything


def all_observations(
    run: ReportedRun, others: Sequence[ReportedRun], ranking: Ranking | None, noun: str = "observation"
) -> AllObservations:
    """The observations of a run, with the numbers of the runs that it is compared with."""
    estimate = run.estimate
    assert estimate is not None
    _, first = np.unique(estimate.scores.id, return_index=True)
    n_tokens = estimate.scores.n_tokens[first]
    compared = [] if ranking is None or ranking.comparison is None else list(ranking.comparison.names)
    by_name = {each.name: each for each in others if each.name in compared}
    shown = [run, *(by_name[name] for name in compared if name in by_name)][:MAX_RUNS]
    several = len(shown) > 1
    exact = all(each.is_exact for each in shown)
    estimates = [each.estimate for each in shown if each.estimate is not None]
    values = [each.values for each in shown] if exact else [each.per_observation for each in estimates]
    by_token = len(np.unique(n_tokens)) > 1  # otherwise these columns say nothing new
    columns = [noun, *(["tokens", "nats per token"] if by_token else [])]
    columns += [each.name for each in shown] if several else [common_name([estimate])]
    numbers = [*([n_tokens.astype(float), values[0] / n_tokens] if by_token else []), *values]
    digits = [*([0, 3] if by_token else []), *[2] * len(values)]
    if several:
        columns.append(f"{shown[0].name} minus {shown[1].name}")
        numbers.append(values[0] - values[1])
        digits.append(2)
    order = np.argsort(values[0] / n_tokens, kind="stable")[:MAX_ROWS]
    names = estimate.names
    rows: list[list[str | float | None]] = [
        [plain(names[row])]
        + [round(float(column[row]), n) for column, n in zip(numbers, digits, strict=True)]
        for row in order
    ]
    notes = ["The numbers are closed forms."] if exact else []
    if len(estimate.ids) > MAX_ROWS:
        notes.append(
            f"These are the {MAX_ROWS:,} hardest of {count(len(estimate.ids), noun)}; "
            "observations.csv in the run directory has all of them."
        )
    if len(by_name) + 1 > MAX_RUNS:
        notes.append(f"The numbers are those of the best two of {len(by_name) + 1} runs.")
    main = 3 if by_token else 1
    return AllObservations([plain(each) for each in columns], main, rows, digits, " ".join(notes) or None)


@dataclass(frozen=True)
class Shading:
    """The scores of the tokens of an image, as a picture of shades."""

    width: int
    height: int
    paths: list[tuple[int, str]]  # each step of the shade, with the outline of its pixels as an SVG path
    description: str  # what the picture shows


@dataclass(frozen=True)
class Card:
    """One observation in the page."""

    id: int  # id of the observation
    name: str  # its label, or its number if it has none
    log_evidence: float  # nats
    per_token: float  # nats per token
    n_tokens: int  # number of tokens
    spans: list[Span] | None = None  # the text, split at its tokens if these have scores; None for other data
    prompt: str | None = None  # the text that was visible before the scored text, if any
    # name, value and log-density of each column; None for other data
    cells: list[tuple[str, str, float | None]] | None = None
    picture: tuple[str, str] | None = None  # data URI and description of the image; None for other data
    shading: Shading | None = None  # the scores of the tokens of the image, if they have any


@dataclass(frozen=True)
class Extremes:
    """The hardest and the easiest observations of a run."""

    hardest: list[Card]  # the observations with the fewest nats per token, hardest first
    # the observations with the most nats per token, easiest first; empty if `hardest` has all
    easiest: list[Card]
    ranked_by: str  # how the observations are ranked, as a sentence
    shades: Shades | None  # the shades of the tokens, if tokens have scores
    missing: str | None  # why the observations cannot be shown, if they cannot
    note: str | None  # why the texts are not coloured, if they are not


def find_extremes(run: ReportedRun, how_many: int, noun: str = "observation") -> Extremes:
    """Find the hardest and the easiest observations, by log evidence per token."""
    estimate, manifest = run.estimate, run.manifest
    assert estimate is not None
    _, first = np.unique(estimate.scores.id, return_index=True)
    n_tokens = estimate.scores.n_tokens[first]
    values = run.values
    per_token = values / n_tokens
    order = np.argsort(per_token, kind="stable")
    hardest, easiest = order, order[:0]
    if len(order) > 2 * how_many:
        hardest, easiest = order[:how_many], order[-how_many:][::-1]
    contents = run.contents
    scores = token_scores(estimate.scores, str(manifest.design.get("name")))
    if not scores:
        scores = cell_scores(run, estimate.ids[[*hardest, *easiest]].tolist())
    is_text = manifest.data.text_fingerprint is not None
    tokens, shades, note = None, None, None
    if is_text:
        tokens = read_tokens(run.folder, scores) if scores else None
        shades = None if tokens is None else of_probabilities()
        note = _why_not_coloured(one_at_a_time=bool(scores)) if tokens is None else None
    elif scores and not isinstance(contents, Unavailable):
        shades = of_densities(list(scores.values()))
    elif own_file(manifest.model) is not None:
        note = "The cells have no scores: a report does not run the model's code. Use --design leave-one-out."

    names, how = estimate.names, " in closed form" if run.is_exact else ""

    def show(row: int) -> Card:
        key = int(estimate.ids[row])
        content = None if isinstance(contents, Unavailable) else contents(key)
        return Card(
            key,
            names[row] if estimate.labels is not None else f"{capital(noun)} {key}",
            float(values[row]),
            float(per_token[row]),
            int(n_tokens[row]),
            **_parts(content, scores.get(key), None if tokens is None else tokens.get(key), shades),
        )

    return Extremes(
        hardest=[show(int(place)) for place in hardest],
        easiest=[show(int(place)) for place in easiest],
        ranked_by=f"Ranked by nats per token{how}, among {count(estimate.n_observations, noun)}.",
        shades=shades,
        missing=contents.reason if isinstance(contents, Unavailable) else None,
        note=note,
    )


def _why_not_coloured(*, one_at_a_time: bool) -> str:
    if not one_at_a_time:
        return (
            "The texts are not coloured: tokens have scores of their own only with "
            "--design leave-one-out:per-token."
        )
    return (
        "The texts are not coloured: the run keeps no tokens. Run its command again with "
        "--design leave-one-out:per-token, which writes them and scores nothing again."
    )


def _parts(
    content: Content | None,
    scores: Float64[np.ndarray, " D"] | None,
    tokens: list[str] | None,
    shades: Shades | None,
) -> dict[str, Any]:
    """The fields of `Card` that hold the content of an observation."""
    if isinstance(content, TextContent):
        if tokens is None or scores is None:
            return {"spans": [Span(content.text)], "prompt": content.prompt}
        return {"spans": aligned(content.text, tokens, scores.tolist()), "prompt": content.prompt}
    if isinstance(content, RowContent):
        return {"cells": _cells(content, scores)}
    if isinstance(content, ImageContent):
        shading = None if scores is None or shades is None else _shading(content, scores, shades)
        return {"picture": _picture(content), "shading": shading}
    if tokens is not None and scores is not None:
        return {"spans": spans_of_tokens(tokens, scores.tolist())}
    return {}


def _cells(row: RowContent, scores: Float64[np.ndarray, " D"] | None) -> list[tuple[str, str, float | None]]:
    cells: list[tuple[str, str, float | None]] = []
    token = 0
    for column, value in zip(row.columns, row.values, strict=True):
        if math.isnan(value):
            cells.append((column, "missing", None))
            continue
        score = None if scores is None else float(scores[token])
        cells.append((column, f"{value:.6g}".replace("-", MINUS), score))
        token += 1
    return cells


def _picture(picture: ImageContent) -> tuple[str, str]:
    """Data URI and description of an image."""
    height, width, channels = picture.pixels.shape
    image = import_extra("PIL.Image", "plots", "pictures in the report")
    levels = image.fromarray(picture.pixels[:, :, 0] if channels == 1 else picture.pixels)
    buffer = io.BytesIO()
    levels.save(buffer, format="PNG", optimize=True)
    address = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    return address, f"{'grey' if channels == 1 else 'colour'} image of {height} × {width} pixels"


def _shading(picture: ImageContent, scores: Float64[np.ndarray, " D"], shades: Shades) -> Shading | None:
    """The shades of the tokens of an image; None unless the tokens are pixels or square patches."""
    height, width, channels = picture.pixels.shape
    steps = [shades.step(score) for score in scores.tolist()]
    if picture.place is not None:
        if channels > 1 or len(picture.place) != len(steps):
            return None
        side, corners = 1, picture.place.tolist()
    else:
        side = math.isqrt(height * width // len(steps))
        if side * side * len(steps) != height * width or height % side or width % side:
            return None
        corners = [(row, column) for row in range(0, height, side) for column in range(0, width, side)]
    outlines: dict[int, list[str]] = {}
    for (row, column), step in zip(corners, steps, strict=True):
        if step:
            outlines.setdefault(step, []).append(f"M{column} {row}h{side}v{side}h-{side}z")
    description = f"log-probability of its tokens; the lowest is {typeset(float(scores.min()))} nats"
    paths = [(step, "".join(parts)) for step, parts in sorted(outlines.items())]
    return Shading(width, height, paths, description)
