"""Figures of the report: curves of the runs, and their distances below the best run's curve."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from maskevidence.command.pages.page_layout import Figure
from maskevidence.command.pages.reported_runs import ReportedRun
from maskevidence.core.comparing.along_rates import with_turns
from maskevidence.core.comparing.comparison import Comparison
from maskevidence.core.evidence.curve import Curve, curve_lines
from maskevidence.core.show.parts import Table
from maskevidence.core.show.pictures import FEWEST_IN_A_BAND, Floats, Line, Lines
from maskevidence.core.show.words import NOT_KNOWN, typeset

MAX_ROWS = 120
_CUT = "The widest bands go on beyond the picture; its table has their numbers."
_UNITS = (
    "Scores and standard errors are in nats per hidden token; mask_se is the error of the masks, data_se the "
    "error of the observations."
)


def figures_of_curves(runs: Sequence[ReportedRun], comparison: Comparison | None) -> list[Figure]:
    """Draw the curves of all runs, and how far each is below the best run's curve."""
    numbers = {run.name: place for place, run in enumerate(runs)}  # run numbers, which determine the colours
    curves = {run.name: run.estimate.curve for run in runs if run.estimate is not None}
    figures = [_of_curves("Score by mask size", curves, "score", numbers)]
    behind = () if comparison is None else comparison.behind
    below = {f"{each.first} minus {each.second}": each for each in behind if each.curve is not None}
    if below:
        title = next(iter(below)) if len(below) == 1 else f"{behind[0].first} minus each other run"
        differences = {label: each.curve for label, each in below.items() if each.curve is not None}
        places = {label: numbers[each.second] for label, each in below.items()}
        figure = _of_curves(title, differences, "difference of the scores", places, zero=True)
        changes = {label: each.turns for label, each in below.items()}
        assert isinstance(figure.picture, Lines)
        figures.append(replace(figure, picture=with_turns(figure.picture, changes)))
    return figures


def _of_curves(
    title: str, curves: Mapping[str, Curve], value: str, numbers: Mapping[str, int], *, zero: bool = False
) -> Figure:
    places = [numbers[name] for name in curves]
    picture = curve_lines(curves, value, numbers=places, zero=zero)
    left_out = hopeless_bands(picture.lines)
    lines = [
        replace(line, bands=[band for band in line.bands if band.name not in left_out])
        for line in picture.lines
    ]
    window = y_window(lines)
    picture = replace(picture, lines=lines, y_limits=window)
    notes = [_CUT] if window is not None else []
    notes += [
        f"The bands of {name} exceed the curves' differences and are left out; the table has the errors."
        for name in left_out
    ]
    if all(len(curve.score) == 1 for curve in curves.values()):
        each = " for each run" if len(curves) > 1 else ""
        notes.append(f"There is only one mask size, and therefore one point{each} and no curve.")
    summary = (
        f"{value.capitalize()}, nats per hidden token. {' '.join(map(_in_words, curves, curves.values()))}"
    )
    return Figure(title, picture, summary, _table(curves, by_size=picture.top is not None), notes)


def hopeless_bands(lines: Sequence[Line]) -> list[str]:
    """Name the bands whose median width exceeds twice the span of all lines.

    Example:
        >>> from maskevidence.core.show.pictures import Band
        >>> x = np.arange(1.0, 8.0)
        >>> bands = [Band("data", -x - 9, 9 - x, ""), Band("masks", -x - 1, 1 - x, "")]
        >>> hopeless_bands([Line("a", x, -x, bands)])
        ['data']
    """
    if any(len(line.x) < FEWEST_IN_A_BAND for line in lines):
        return []
    span = float(np.ptp(np.concatenate([line.y for line in lines])))
    widths: dict[str, list[Floats]] = {}
    for band in (band for line in lines for band in line.bands):
        widths.setdefault(band.name, []).append(band.high - band.low)
    return [name for name, each in widths.items() if np.nanmedian(np.concatenate(each)) > 2 * span > 0]


def y_window(lines: Sequence[Line]) -> tuple[float, float] | None:
    """Limits of the vertical axis if a few wide bands would flatten the lines; None if all bands fit.

    It holds every line, and around them half of their span or three times the median half-width of the
    bands, whichever is more.

    Example:
        >>> from maskevidence.core.show.pictures import Band
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


def _in_words(label: str, curve: Curve) -> str:
    """Describe the shape of a curve in one sentence."""
    first, last = typeset(float(curve.score[0]), 3), typeset(float(curve.score[-1]), 3)
    start, end = (typeset(100 * float(curve.rate[place]), 1) for place in (0, -1))
    if len(curve.score) == 1:
        return f"{label}: one point, {first} at {start} % hidden."
    return f"{label}: {len(curve.score)} points, from {first} to {last} over {start} to {end} % hidden."


def _table(curves: Mapping[str, Curve], *, by_size: bool) -> Table:
    """A table of the curves' points, thinned evenly if there are many."""
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
