"""The observations of a report: their spread, the outliers, and the hardest and easiest ones in full."""

import base64
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from maskevidence.command.options import own_file
from maskevidence.command.pages.page_layout import Block, Figure, Html, Section, note
from maskevidence.command.pages.reported_runs import (
    Content,
    ImageContent,
    ReportedRun,
    RowContent,
    TextContent,
)
from maskevidence.command.pages.token_shades import (
    Shades,
    of_densities,
    of_probabilities,
    read_tokens,
    scores_of_tokens,
)
from maskevidence.core.comparing.comparison import common_name
from maskevidence.core.errors import import_extra
from maskevidence.core.show.html import text
from maskevidence.core.show.pictures import Histogram
from maskevidence.core.show.words import capital, cell_text, count, typeset
from maskevidence.core.support.checks import some_of

NAMED = 8  # most outliers named on each side
OUTLYING = 3.5  # robust standard deviations from the median that make an outlier
_MAD_OF_NORMAL = 1.4826


def outliers(values: Float64[np.ndarray, " N"]) -> tuple[list[int], list[int]]:
    """Find the values far below and far above the others; return their positions, farthest first.

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


def section_of_observations(
    run: ReportedRun, how_many: int, noun: str, *, several: bool = False
) -> list[Section]:
    """The section on a run's observations; [] without an estimate or if none are asked for.

    Args:
        several: whether the page is about several runs, so that the heading names this one.
    """
    if not how_many or run.estimate is None:
        return []
    hardest, easiest, shades = find_extremes(run, how_many, noun)
    how = " in closed form" if run.is_exact else ""
    ranked = f"Ranked by nats per token{how}, among {count(run.estimate.n_observations, noun)}."
    parts: list[Block] = [*spread_of(run, noun), ranked]
    has_scores = any(shown.scores is not None for shown in hardest)
    parts += map(note, _remarks(run, has_scores=has_scores, coloured=shades is not None))
    parts += [] if shades is None else [_legend(shades)]
    parts.append(_cards("Hardest" if easiest else "All, hardest first", hardest, shades))
    parts += [_cards("Easiest", easiest, shades)] if easiest else []
    title = f"{capital(noun)}s" + (f" of {run.name}" if several else "")
    return [Section("observations", title, parts)]


def spread_of(run: ReportedRun, noun: str) -> list[Block]:
    """Describe the outliers, and draw a histogram; per token if observations differ in length.

    Returns:
        Nothing for fewer than 5 observations.
    """
    estimate = run.estimate
    assert estimate is not None
    values, n_tokens = run.values, run.n_tokens
    if len(values) < 5:
        return []
    by_token = len(np.unique(n_tokens)) > 1
    unit, digits = ("nats per token", 3) if by_token else (f"nats per {noun}", 1)
    values = values / n_tokens if by_token else values
    far = outliers(values)
    names, cells = estimate.names, run.kind.unlikely_cells(run, far[0][:NAMED], values)
    words = _in_words(values, names, far, noun, digits, cells)
    farthest = [side[0] for side in far if side]
    marked = [(float(values[k]), names[k] if k in farthest else "") for k in (*far[0], *far[1])]
    picture = Histogram(values, f"{common_name([estimate])} ({unit})", f"number of {noun}s", named=marked)
    low, middle, high = (typeset(float(value), digits) for value in np.quantile(values, (0, 0.5, 1)))
    summary = (
        f"Histogram of {count(len(values), noun)}: {unit} from {low} to {high}, median {middle}. {words}"
    )
    return [words, Figure(f"How the {noun}s differ", picture, summary)]


def _in_words(
    values: Float64[np.ndarray, " N"],
    names: Sequence[str],
    far: tuple[list[int], list[int]],
    noun: str,
    digits: int,
    cells: Mapping[int, str],
) -> str:
    sentences = []
    for places, where in zip(far, ("below", "above"), strict=True):
        if not places:
            continue
        named = [f"{names[row]} ({typeset(values[row], digits)}{cells.get(row, '')})" for row in places]
        lies = "lies" if len(places) == 1 else "lie"
        sentences.append(
            f"{count(len(places), noun)} {lies} far {where} the others: {some_of(named, NAMED)}."
        )
    if cells:
        sentences.append(
            f"After the colon: the cells that the rest of the {noun} makes least likely, compared with other "
            f"{noun}s."
        )
    return " ".join(sentences) or f"No {noun} lies far from the others."


@dataclass(frozen=True)
class ShownObservation:
    """An observation on the page."""

    id: int  # id
    name: str  # label, or noun and id
    log_evidence: float  # nats
    n_tokens: int  # number of tokens
    content: Content | None  # content; None if not known
    # log p of each token or cell given all others; None if not known
    scores: Float64[np.ndarray, " D"] | None
    tokens: list[str] | None  # tokens of a text, if they have scores

    @property
    def per_token(self) -> float:
        """Nats per token."""
        return self.log_evidence / self.n_tokens


def find_extremes(
    run: ReportedRun, how_many: int, noun: str = "observation"
) -> tuple[list[ShownObservation], list[ShownObservation], Shades | None]:
    """The hardest and easiest observations by nats per token, and shades for their tokens.

    The hardest is the first of the hardest, the easiest the first of the easiest; where there are few, all
    are among the hardest. Without scores of tokens there are no shades.
    """
    estimate, contents = run.estimate, run.contents
    assert estimate is not None
    order = np.argsort(run.values / run.n_tokens, kind="stable").tolist()
    hardest, easiest = order, []
    if len(order) > 2 * how_many:
        hardest, easiest = order[:how_many], order[-how_many:][::-1]
    scores = scores_of_tokens(estimate.scores, str(run.manifest.design.get("name")))
    if not scores:
        scores = run.kind.cell_scores(run, estimate.ids[[*hardest, *easiest]].tolist())
    tokens, shades = None, None
    if run.kind.tells_tokens:
        tokens = read_tokens(run.folder, scores) if scores else None
        shades = None if tokens is None else of_probabilities()
    elif scores and not isinstance(contents, str):
        shades = of_densities(list(scores.values()))

    def show(row: int) -> ShownObservation:
        key = int(estimate.ids[row])
        return ShownObservation(
            key,
            estimate.names[row] if estimate.labels is not None else f"{capital(noun)} {key}",
            float(run.values[row]),
            int(run.n_tokens[row]),
            None if isinstance(contents, str) else contents(key),
            scores.get(key),
            None if tokens is None else tokens.get(key),
        )

    return list(map(show, hardest)), list(map(show, easiest)), shades


def _remarks(run: ReportedRun, *, has_scores: bool, coloured: bool) -> list[str]:
    """Say why observations are not shown or not coloured."""
    remarks = [run.contents] if isinstance(run.contents, str) else []
    remarks += run.kind.remarks(has_scores=has_scores, coloured=coloured)
    if not has_scores and own_file(run.manifest.model) is not None:
        remarks.append(
            "The cells have no scores: a report does not run the model's code. Use --design leave-one-out."
        )
    return remarks


def _legend(shades: Shades) -> Html:
    steps = "".join(f'<span class="shade-{step}">{name}</span>' for step, name in enumerate(shades.names))
    return Html(f'<p class="note legend">{text(shades.unit)} {steps}</p>')


def _cards(title: str, listed: Sequence[ShownObservation], shades: Shades | None) -> Html:
    """A heading with one card per observation."""
    small = " pictures" if isinstance(listed[0].content, ImageContent) else ""
    cards = "\n".join(card(shown, shades) for shown in listed)
    return Html(f'<h3>{title}</h3>\n<ol class="cards{small}">\n{cards}\n</ol>')


def card(shown: ShownObservation, shades: Shades | None) -> Html:
    """A card with an observation's numbers and content."""
    head = (
        f"<strong>{text(shown.name)}</strong> <span>{typeset(shown.per_token, 3)} nats/token</span> "
        f"<span>{typeset(shown.log_evidence, 2)} nats in all</span> "
        f"<span>{count(shown.n_tokens, 'token')}</span>"
    )
    content, scores = shown.content, None if shown.scores is None else shown.scores.tolist()
    body = ""
    if isinstance(content, TextContent):
        if content.prompt:
            body += note(f"Prompt, always visible and not scored: {content.prompt}")
        body += f'<p class="text" dir="auto">{text(content.text)}</p>'
    if shown.tokens is not None and scores is not None:
        body += _chips(
            [("", token, score) for token, score in zip(shown.tokens, scores, strict=True)], shades
        )
    if isinstance(content, RowContent):
        body += _chips(_cells(content, scores), shades)
    if isinstance(content, ImageContent):
        body += f'<p class="images">{_image(content, shown.name)}'
        body += "" if scores is None or shades is None else _shading(content, scores, shades, shown.name)
        body += "</p>"
    return Html(f'<li><p class="note head">{head}</p>{body}</li>')


_Cell = tuple[str, str, float | None]  # column name, value, and log-density if known


def _chips(cells: Sequence[_Cell], shades: Shades | None) -> str:
    """Render tokens or cells with their log-probabilities."""
    chips = []
    for name, value, score in cells:
        step = "" if score is None or shades is None else f' class="shade-{shades.step(score)}"'
        number = "" if score is None else f" <small>{typeset(score, 2)}</small>"
        label = f"<small>{text(name)}</small> " if name else ""
        chips.append(f"<li{step}>{label}<bdi>{text(value)}</bdi>{number}</li>")
    return f'<ul class="chips">{"".join(chips)}</ul>'


def _cells(row: RowContent, scores: Sequence[float] | None) -> list[_Cell]:
    """The cells of a row; `scores` skips missing cells."""
    left = iter(scores or ())
    return [
        (column, cell_text(row.cell(j)), None if missing else next(left, None))
        for j, (column, missing) in enumerate(zip(row.columns, np.isnan(row.values), strict=True))
    ]


def _image(picture: ImageContent, name: str) -> str:
    height, width, channels = picture.pixels.shape
    image = import_extra("PIL.Image", "plots", "pictures in the report")
    levels = image.fromarray(picture.pixels[:, :, 0] if channels == 1 else picture.pixels)
    buffer = io.BytesIO()
    levels.save(buffer, format="PNG", optimize=True)
    address = "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
    kind = "grey" if channels == 1 else "colour"
    return f'<img src="{address}" alt="{text(name)}: {kind} image of {height} × {width} pixels">'


def _shading(picture: ImageContent, scores: Sequence[float], shades: Shades, name: str) -> str:
    """Shade the tokens of an image, if they are pixels or square patches."""
    height, width, channels = picture.pixels.shape
    if picture.place is not None:
        if channels > 1 or len(picture.place) != len(scores):
            return ""
        side, corners = 1, picture.place.tolist()
    else:
        side = math.isqrt(height * width // len(scores))
        if side * side * len(scores) != height * width or height % side or width % side:
            return ""
        corners = [(row, column) for row in range(0, height, side) for column in range(0, width, side)]
    outlines: dict[int, str] = {}
    for (row, column), score in zip(corners, scores, strict=True):
        if step := shades.step(score):
            outlines[step] = outlines.get(step, "") + f"M{column} {row}h{side}v{side}h-{side}z"
    paths = "".join(f'<path class="shade-{step}" d="{path}"/>' for step, path in sorted(outlines.items()))
    words = f"{text(name)}: log-probability of its tokens; the lowest is {typeset(min(scores))} nats"
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{words}">{paths}</svg>'
