"""Figures of the report: a picture, what a script needs to switch and read it, and a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maskevidence.evidence.curve import Curve, curve_lines
from maskevidence.report.ranking import Ranking
from maskevidence.report.reading import ReportedRun
from maskevidence.show.draw import COLOURS, DASHES, svg
from maskevidence.show.html import table
from maskevidence.show.parts import Picture, Table
from maskevidence.show.pictures import FEWEST_IN_A_BAND, Line, Lines
from maskevidence.show.words import NOT_KNOWN, typeset

MAX_ROWS = 120
_DASHES = dict(zip(DASHES, ("solid", "dashed", "dotted"), strict=True))  # in the words of CSS
_CUT = "The widest bands go on beyond the picture; its table has their numbers."
_UNITS = (
    "Scores and standard errors are in nats per hidden token; mask_se is the error of the masks, data_se the "
    "error of the observations."
)


class Drawn(NamedTuple):
    """A run in the legend of a figure: its number in the report, its name, and how its line looks."""

    number: int
    name: str
    colour: str
    dash: str


@dataclass(frozen=True)
class Figure:
    """A figure of the page.

    Attributes:
        key: unique in the page.
        title: its heading.
        svg: the picture.
        table: its numbers as HTML; empty where the page has them elsewhere.
        runs: the runs of the legend, which can be switched off; empty for a single one.
        bands: the names of bands or bars, which can be switched off.
        few: whether lines have a bar at each point in place of bands.
        notes: below the picture.
        where: what is said of a point before its values, with {x} and {share} in place of numbers; empty for
            a figure from which no values are read off.
        factor: what {x} is multiplied by for {share}.
    """

    key: str
    title: str
    svg: str
    table: str
    runs: Sequence[Drawn] = ()
    bands: Sequence[str] = ()
    few: bool = False
    notes: Sequence[str] = ()
    where: str = ""
    factor: float = 1.0


def figure(
    key: str,
    title: str,
    summary: str,
    picture: Picture,
    numbers: Table | None = None,
    *,
    notes: Sequence[str] = (),
    where: str = "",
    factor: float = 1.0,
) -> Figure:
    """Draw a picture as a figure; the arguments are its attributes.

    Args:
        key: unique in the page.
        title: its heading.
        summary: what it shows, for readers who cannot see it.
        picture: what is drawn.
        numbers: its table.
        notes: below it.
        where: what is said of a point.
        factor: of the numbers there.
    """
    lines = picture.lines if isinstance(picture, Lines) else ()
    runs = [_drawn(line) for line in lines] if len(lines) > 1 else []
    return Figure(
        key=key,
        title=title,
        svg=svg(picture, summary, key, points=bool(where), legend=not lines),
        table="" if numbers is None else table(numbers, label=f"{title}, as a table"),
        runs=runs,
        bands=list(dict.fromkeys(band.name for line in lines for band in line.bands)),
        few=all(len(line.x) < FEWEST_IN_A_BAND for line in lines),
        notes=notes,
        where=where,
        factor=factor,
    )


def numbers_of(runs: Sequence[ReportedRun]) -> dict[str, int]:
    """The number of each run in the report, which decides its colour in all figures."""
    return {run.name: place for place, run in enumerate(runs)}


def figures_of_curves(runs: Sequence[ReportedRun], ranking: Ranking | None) -> list[Figure]:
    """The curves of all runs, and how far each is below the curve of the best one.

    Args:
        runs: the runs of the report.
        ranking: how they compare, if there are several.
    """
    numbers = numbers_of(runs)
    curves = {run.name: run.estimate.curve for run in runs if run.estimate is not None}
    if not curves:
        return []
    figures = [_of_curves("curves", "Score by mask size", curves, "score", numbers)]
    behind = {} if ranking is None else ranking.differences
    below = {name: each.curve for name, each in behind.items() if each.curve is not None}
    if below:
        best = next(iter(behind.values())).first
        others = next(iter(below)) if len(below) == 1 else "each other run"
        title = f"{best} minus {others}"
        figures.append(_of_curves("differences", title, below, "difference of the scores", numbers))
    return figures


def _of_curves(
    key: str, title: str, curves: Mapping[str, Curve], value: str, numbers: Mapping[str, int]
) -> Figure:
    places = [numbers[name] for name in curves]
    picture = curve_lines(curves, value, numbers=places, zero=key == "differences")
    lines = [
        replace(line, words=_words(curve)) for line, curve in zip(picture.lines, curves.values(), strict=True)
    ]
    window = y_window(lines)
    picture = replace(picture, lines=lines, y_limits=window)
    notes = [] if window is None else [_CUT]
    if all(len(curve.score) == 1 for curve in curves.values()):
        each = " for each run" if len(curves) > 1 else ""
        notes.append(f"There is only one mask size, and therefore one point{each} and no curve.")
    by_size = picture.top is not None
    if by_size and all(len(line.x) < FEWEST_IN_A_BAND for line in lines):
        picture = replace(picture, x_limits=_room_for_bars(lines))
    return figure(
        key,
        title,
        _summary(title, curves, value),
        picture,
        _table(curves, by_size=by_size),
        notes=notes,
        where="mask size {x} ({share} % hidden)" if by_size else "{share} % hidden",
        factor=1.0 if picture.top is None else picture.top[1],
    )


def y_window(lines: Sequence[Line]) -> tuple[float, float] | None:
    """A vertical axis for lines that a few wide bands would press flat; None where all bands fit.

    It holds every line, and around them half of their span or three times the median half-width of the
    bands, whichever is more.

    Example:
        >>> from maskevidence.show.pictures import Band
        >>> x = np.arange(1.0, 8.0)
        >>> y_window([Line("a", x, -x, [Band("masks", -x - 0.1, 0.1 - x, "masks")])])
    """
    bands = [band for line in lines for band in line.bands]
    if not bands or any(len(line.x) < 3 for line in lines):
        return None
    scores = np.concatenate([line.y for line in lines])
    lows, highs = (np.concatenate([getattr(band, side) for band in bands]) for side in ("low", "high"))
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    room = max((high - low) / 2, 3 * float(np.nanmedian(highs - lows)) / 2)
    if np.nanmin(lows) >= low - 2 * room and np.nanmax(highs) <= high + 2 * room:
        return None
    return max(low - room, float(np.nanmin(lows))), min(high + room, float(np.nanmax(highs)))


def _room_for_bars(lines: Sequence[Line]) -> tuple[float, float]:
    """The ends of a horizontal axis that cuts no bar."""
    low, high = min(line.x[0] for line in lines), max(line.x[-1] for line in lines)
    room = 1.0 if high == low else max(0.5, (high - low) / 20)
    return float(low - room), float(high + room)


def _drawn(line: Line) -> Drawn:
    dash = DASHES[line.number // len(COLOURS) % len(DASHES)]
    return Drawn(line.number, line.label, COLOURS[line.number % len(COLOURS)], _DASHES[dash])


def _words(curve: Curve) -> list[str]:
    """Each score with its errors."""
    columns = (curve.score.tolist(), curve.mask_se.tolist(), curve.data_se.tolist())
    words = []
    for score, *errors in zip(*columns, strict=True):
        known = [
            f"{name} ± {typeset(error, 4)}"
            for name, error in zip(("masks", "data"), errors, strict=True)
            if error > 0
        ]
        words.append(", ".join([typeset(score, 4), *known]))
    return words


def _summary(title: str, curves: Mapping[str, Curve], value: str) -> str:
    """One sentence on the shape of each curve."""
    parts = []
    for label, curve in curves.items():
        first, last = typeset(float(curve.score[0]), 3), typeset(float(curve.score[-1]), 3)
        if len(curve.score) == 1:
            parts.append(f"{label}: one point, {first} at {typeset(100 * float(curve.rate[0]), 1)} % hidden.")
        else:
            span = f"{typeset(100 * curve.rate[0], 1)} to {typeset(100 * curve.rate[-1], 1)} % hidden"
            parts.append(f"{label}: {len(curve.score)} points, from {first} to {last} over {span}.")
    return f"{title}: {value}, nats per hidden token. {' '.join(parts)}"


def _table(curves: Mapping[str, Curve], *, by_size: bool) -> Table:
    """The points of the curves, thinned evenly where there are many."""
    several = len(curves) > 1
    columns = ["run"] * several + (["size"] if by_size else []) + ["hidden"]
    columns += ["score", "mask_se", "data_se", "masks"]
    rows: list[list[str]] = []
    max_rows = max(20, MAX_ROWS // len(curves))
    thinned = any(len(curve.score) > max_rows for curve in curves.values())
    for label, curve in curves.items():
        n_points = len(curve.score)
        for k in np.unique(np.linspace(0, n_points - 1, min(n_points, max_rows)).round().astype(int)):
            row = [label] * several + ([f"{curve.size[k]:.0f}"] if by_size else [])
            row += [f"{typeset(100 * curve.rate[k], 1)} %", typeset(curve.score[k], 4)]
            row += [_error(curve.mask_se[k]), _error(curve.data_se[k]), f"{curve.n_masks[k]:,}"]
            rows.append(row)
    note = " Evenly spaced points; curve.csv in the run directory has all of them." if thinned else ""
    return Table(columns, rows, title=f"{_UNITS}{note}")


def _error(value: float) -> str:
    if np.isnan(value):
        return NOT_KNOWN
    return typeset(float(value), 4) if value else "0"
