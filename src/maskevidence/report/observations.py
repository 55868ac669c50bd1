"""The observations that a model finds hardest and easiest, ready to be shown."""

import base64
import io
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import import_extra
from maskevidence.evidence import EvidenceEstimate
from maskevidence.report.reading import ReportedRun
from maskevidence.report.shading import Shades, of_densities, of_probabilities
from maskevidence.report.sources import Content, NotThere, Picture, Row, Text, read_back
from maskevidence.report.tokens import Span, aligned, glued, read_tokens, scores_of_tokens
from maskevidence.wording import count, typeset


@dataclass(frozen=True)
class Shading:
    """The scores of an image's tokens, as a picture of shades.

    Attributes:
        width: in pixels of the image.
        height: likewise.
        paths: step of the shade, and the outline of its pixels as SVG draws it.
        description: in words.
    """

    width: int
    height: int
    paths: list[tuple[int, str]]
    description: str


@dataclass(frozen=True)
class Shown:
    """One observation in the page.

    Attributes:
        id: its number in the source.
        log_evidence: nats.
        per_token: nats per token.
        n_tokens: how many tokens it has.
        spans: its text, in tokens where these have scores; None for others.
        prompt: what was visible before the text.
        cells: name, value and log-density of each column; None for others.
        picture: data URI and description of the image; None for others.
        shading: of its tokens; None where they have no scores.
    """

    id: int
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
        hardest: fewest nats per token first.
        easiest: most nats per token first; empty where all observations are among the hardest.
        shades: of their tokens; None where tokens have no scores.
        missing: why the observations are not shown; None where they are.
        note: on their tokens; None where there is nothing to say.
    """

    hardest: list[Shown]
    easiest: list[Shown]
    shades: Shades | None
    missing: str | None
    note: str | None


def find_extremes(run: ReportedRun, how_many: int) -> Extremes:
    """The hardest and easiest observations, by log evidence per token.

    Args:
        run: with an estimate.
        how_many: of each.
    """
    estimate, manifest = run.estimate, run.manifest
    assert estimate is not None
    _, first = np.unique(estimate.scores.id, return_index=True)
    n_tokens = estimate.scores.n_tokens[first]
    per_token = estimate.per_observation / n_tokens
    order = np.argsort(per_token, kind="stable")
    few = len(order) <= 2 * how_many
    chosen = [order, order[:0]] if few else [order[:how_many], order[-how_many:][::-1]]
    contents = read_back(manifest, estimate.ids)
    scores = scores_of_tokens(estimate.scores, str(manifest.design.get("name")))
    words, note = None, None
    is_text = manifest.data.text_fingerprint is not None
    if is_text:
        if scores and run.folder is not None:
            words = read_tokens(run.folder, scores)
        note = None if words is not None else _why_no_tokens(one_at_a_time=bool(scores))
    shades = None
    if scores and (words is not None or (not is_text and not isinstance(contents, NotThere))):
        shades = of_probabilities() if is_text else of_densities(list(scores.values()))

    def show(place: int) -> Shown:
        key = int(estimate.ids[place])
        content = None if isinstance(contents, NotThere) else contents(key)
        return Shown(
            key,
            float(estimate.per_observation[place]),
            float(per_token[place]),
            int(n_tokens[place]),
            **_parts(content, scores.get(key), None if words is None else words.get(key), shades),
        )

    hardest, easiest = ([show(int(place)) for place in places] for places in chosen)
    missing = contents.reason if isinstance(contents, NotThere) else None
    return Extremes(hardest, easiest, shades, missing, note)


def _why_no_tokens(*, one_at_a_time: bool) -> str:
    if not one_at_a_time:
        return (
            "The texts are not coloured: tokens have scores of their own only with "
            "--design leave-one-out --per-token."
        )
    return (
        "The texts are not coloured: the run keeps no tokens. Its command once more with --per-token writes "
        "them, and scores nothing again."
    )


def _parts(
    content: Content | None,
    scores: Float64[np.ndarray, " D"] | None,
    words: list[str] | None,
    shades: Shades | None,
) -> dict[str, Any]:
    """What `Shown` holds of an observation's content."""
    if isinstance(content, Text):
        if words is None or scores is None:
            return {"spans": [Span(content.text)], "prompt": content.prompt}
        return {"spans": aligned(content.text, words, scores.tolist()), "prompt": content.prompt}
    if isinstance(content, Row):
        return {"cells": _cells(content, scores)}
    if isinstance(content, Picture):
        shading = None if scores is None or shades is None else _shading(content, scores, shades)
        return {"picture": _picture(content), "shading": shading}
    if words is not None and scores is not None:
        return {"spans": glued(words, scores.tolist())}
    return {}


def _cells(row: Row, scores: Float64[np.ndarray, " D"] | None) -> list[tuple[str, str, float | None]]:
    cells: list[tuple[str, str, float | None]] = []
    token = 0
    for column, value in zip(row.columns, row.values, strict=True):
        if math.isnan(value):
            cells.append((column, "missing", None))
            continue
        cells.append(
            (column, f"{value:.6g}".replace("-", "−"), None if scores is None else float(scores[token]))
        )
        token += 1
    return cells


def _picture(picture: Picture) -> tuple[str, str]:
    """The image's data URI and description."""
    height, width, channels = picture.pixels.shape
    image = import_extra("PIL.Image", "plots", "pictures in the report")
    levels = image.fromarray(picture.pixels[:, :, 0] if channels == 1 else picture.pixels)
    buffer = io.BytesIO()
    levels.save(buffer, format="PNG", optimize=True)
    address = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    return address, f"{'grey' if channels == 1 else 'colour'} image of {height} × {width} pixels"


def _shading(picture: Picture, scores: Float64[np.ndarray, " D"], shades: Shades) -> Shading | None:
    """The shades of tokens, where they are in the image; None where they are no pixels or square patches."""
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
    words = f"log-probability of its tokens; the least is {typeset(float(scores.min()))} nats"
    return Shading(width, height, [(step, "".join(parts)) for step, parts in sorted(outlines.items())], words)


def describe(estimate: EvidenceEstimate) -> str:
    """How the observations were ranked."""
    return f"Ranked by nats per token, among {count(estimate.n_observations, 'observation')}."
