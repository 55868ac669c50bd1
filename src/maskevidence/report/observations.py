"""The observations that a model finds hardest and easiest, ready to be shown."""

import base64
import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import import_extra
from maskevidence.report.cells import cell_scores
from maskevidence.report.reading import ReportedRun
from maskevidence.report.shading import Shades, of_densities, of_probabilities
from maskevidence.report.sources import Content, Picture, Row, Text, Unavailable
from maskevidence.report.tokens import Span, aligned, read_tokens, spans_of_tokens, token_scores
from maskevidence.show.words import MINUS, count, typeset


@dataclass(frozen=True)
class Shading:
    """The scores of the tokens of an image, as a picture of shades.

    Attributes:
        width: width of the image in pixels.
        height: height of the image in pixels.
        paths: each step of the shade, with the outline of its pixels as an SVG path.
        description: what the picture shows.
    """

    width: int
    height: int
    paths: list[tuple[int, str]]
    description: str


@dataclass(frozen=True)
class Shown:
    """One observation in the page.

    Attributes:
        id: id of the observation.
        name: its label, or its number if it has none.
        log_evidence: nats.
        per_token: nats per token.
        n_tokens: number of tokens.
        spans: the text, split at its tokens if these have scores; None for other data.
        prompt: the text that was visible before the scored text, if any.
        cells: name, value and log-density of each column; None for other data.
        picture: data URI and description of the image; None for other data.
        shading: the scores of the tokens of the image, if they have any.
    """

    id: int
    name: str
    log_evidence: float
    per_token: float
    n_tokens: int
    spans: list[Span] | None = None
    prompt: str | None = None
    cells: list[tuple[str, str, float | None]] | None = None
    picture: tuple[str, str] | None = None
    shading: Shading | None = None


@dataclass(frozen=True)
class Extremes:
    """The hardest and the easiest observations of a run.

    Attributes:
        hardest: the observations with the fewest nats per token, hardest first.
        easiest: the observations with the most nats per token, easiest first; empty if `hardest` has all.
        ranked_by: how the observations are ranked, as a sentence.
        shades: the shades of the tokens, if tokens have scores.
        missing: why the observations cannot be shown, if they cannot.
        note: why the texts are not coloured, if they are not.
    """

    hardest: list[Shown]
    easiest: list[Shown]
    ranked_by: str
    shades: Shades | None
    missing: str | None
    note: str | None


def find_extremes(run: ReportedRun, how_many: int) -> Extremes:
    """Find the hardest and the easiest observations, by log evidence per token.

    Args:
        run: a run that has an estimate.
        how_many: number of hardest, and of easiest, observations.
    """
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

    names, how = estimate.names, " in closed form" if run.is_exact else ""

    def show(place: int) -> Shown:
        key = int(estimate.ids[place])
        content = None if isinstance(contents, Unavailable) else contents(key)
        return Shown(
            key,
            names[place] if estimate.labels is not None else f"Observation {key}",
            float(values[place]),
            float(per_token[place]),
            int(n_tokens[place]),
            **_parts(content, scores.get(key), None if tokens is None else tokens.get(key), shades),
        )

    return Extremes(
        hardest=[show(int(place)) for place in hardest],
        easiest=[show(int(place)) for place in easiest],
        ranked_by=f"Ranked by nats per token{how}, among {count(estimate.n_observations, 'observation')}.",
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
    """The fields of `Shown` that hold the content of an observation."""
    if isinstance(content, Text):
        if tokens is None or scores is None:
            return {"spans": [Span(content.text)], "prompt": content.prompt}
        return {"spans": aligned(content.text, tokens, scores.tolist()), "prompt": content.prompt}
    if isinstance(content, Row):
        return {"cells": _cells(content, scores)}
    if isinstance(content, Picture):
        shading = None if scores is None or shades is None else _shading(content, scores, shades)
        return {"picture": _picture(content), "shading": shading}
    if tokens is not None and scores is not None:
        return {"spans": spans_of_tokens(tokens, scores.tolist())}
    return {}


def _cells(row: Row, scores: Float64[np.ndarray, " D"] | None) -> list[tuple[str, str, float | None]]:
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


def _picture(picture: Picture) -> tuple[str, str]:
    """Data URI and description of an image."""
    height, width, channels = picture.pixels.shape
    image = import_extra("PIL.Image", "plots", "pictures in the report")
    levels = image.fromarray(picture.pixels[:, :, 0] if channels == 1 else picture.pixels)
    buffer = io.BytesIO()
    levels.save(buffer, format="PNG", optimize=True)
    address = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    return address, f"{'grey' if channels == 1 else 'colour'} image of {height} × {width} pixels"


def _shading(picture: Picture, scores: Float64[np.ndarray, " D"], shades: Shades) -> Shading | None:
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
