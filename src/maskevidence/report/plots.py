"""Plots of curves for plotly, each with a table of its numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.curve import Curve
from maskevidence.display.curve_picture import Band, Floats, common_length, curve_bands
from maskevidence.wording import NOT_KNOWN, plus_minus, typeset

# Each colour has a contrast of at least 3 on the light and on the dark background of the page.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#B0609A", "#8C7A2B", "#7A7A7A", "#7465D2", "#BF4A5E")
DASHES = {"solid": "solid", "dash": "dashed", "dot": "dotted"}  # plotly's words and those of CSS
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
MAX_ROWS = 120
LEVEL = 0.95


@dataclass(frozen=True)
class Plot:
    """One interactive plot and its table.

    Attributes:
        key: short name, unique in the page.
        title: heading of the plot.
        summary: what the plot shows, for a reader who cannot see it.
        figure: what plotly draws, data and layout.
        series: place among the runs, name and colour of each curve.
        bands: names of the bands: "masks", "observations".
        columns: names of the columns of the table.
        rows: rows of the table.
        note: what the table leaves out, if anything.
        by_size: whether the axis can show mask sizes as well as mask rates.
        single: whether there is only one mask size, and therefore no curve.
        cut: what lies beyond the vertical axis at first, if anything.
    """

    key: str
    title: str
    summary: str
    figure: dict[str, Any]
    series: list[tuple[int, str, str]]
    bands: list[str]
    columns: list[str]
    rows: list[list[str]]
    note: str | None
    by_size: bool
    single: bool
    cut: str | None = None

    @property
    def dashes(self) -> dict[int, str]:
        """How the line of each run is drawn, in the words of CSS."""
        return {place: list(DASHES.values())[_round(place)] for place, _, _ in self.series}


def plot_curves(
    key: str,
    title: str,
    curves: Mapping[str, Curve],
    value: str,
    *,
    places: Sequence[int] | None = None,
    zero: bool = False,
) -> Plot:
    """Plot one or more curves with the 95 % bands of the masks (Student's t) and of the observations.

    Args:
        key: short name, unique in the page.
        title: heading of the plot.
        curves: the curves by label.
        value: what the vertical axis shows, with its unit.
        places: the place of each curve among all runs, which gives it its colour; by default 0, 1, ...
        zero: draw the line of no difference.
    """
    by_size = common_length(curves.values()) is not None
    places = places or range(len(curves))
    traces: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    for place, (label, curve) in zip(places, curves.items(), strict=True):
        bands = curve_bands(curve, LEVEL)
        names |= dict.fromkeys(name for name, _, _ in bands)
        traces += [_band_trace(curve, band, place, by_size=by_size) for band in bands]
        traces.append(_line(curve, label, place, by_size=by_size))
    columns, rows, note = _table(curves, by_size=by_size)
    layout = _layout(curves, value, by_size=by_size, zero=zero)
    window = y_window(list(curves.values()))
    if window is not None:
        layout["yaxis"]["range"] = list(window)
    return Plot(
        key=key,
        title=title,
        summary=_summary(title, curves, value),
        figure={"data": traces, "layout": layout},
        series=[(place, label, _colour(place)) for place, label in zip(places, curves, strict=True)],
        bands=list(names),
        columns=columns,
        rows=rows,
        note=note,
        by_size=by_size,
        single=all(len(curve.score) == 1 for curve in curves.values()),
        cut=None if window is None else "The widest bands go on beyond the plot; “All” shows them whole.",
    )


def y_window(curves: Sequence[Curve]) -> tuple[float, float] | None:
    """A vertical axis for curves that a few wide bands would press flat; None where all bands fit.

    It holds every curve, and around them half of their span or three times the median half-width of the
    bands, whichever is more.

    Example:
        >>> import maskevidence as me
        >>> x = me.models.PPCA(n_features=6, n_components=2, seed=1).sample(200)
        >>> y_window([me.estimate_evidence(me.models.PPCA(6, 2).fit(x), x).curve])
    """
    bands = [band for curve in curves for band in curve_bands(curve, LEVEL)]
    if not bands or any(len(curve.score) < 3 for curve in curves):
        return None
    scores = np.concatenate([curve.score for curve in curves])
    lows, highs = (np.concatenate([band[side] for band in bands]) for side in (1, 2))
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    room = max((high - low) / 2, 3 * float(np.nanmedian(highs - lows)) / 2)
    if np.nanmin(lows) >= low - 2 * room and np.nanmax(highs) <= high + 2 * room:
        return None
    return max(low - room, float(np.nanmin(lows))), min(high + room, float(np.nanmax(highs)))


def plot_of(
    key: str,
    title: str,
    summary: str,
    traces: list[dict[str, Any]],
    axes: tuple[str, str],
    columns: list[str],
    rows: list[list[str]],
    *,
    note: str | None = None,
) -> Plot:
    """A plot that is no curve of scores, in the same style.

    Args:
        key: short name, unique in the page.
        title: heading of the plot.
        summary: what the plot shows, for a reader who cannot see it.
        traces: what plotly draws; `meta` names the place of each point, for the readout.
        axes: what the axes show, with their units.
        columns: names of the columns of the table.
        rows: rows of the table.
        note: what the table leaves out, if anything.
    """
    layout = _layout_with(*axes)
    layout["hovermode"] = "closest"
    figure = {"data": traces, "layout": layout}
    return Plot(key, title, summary, figure, [], [], columns, rows, note, by_size=False, single=False)


def _round(place: int) -> int:
    """How often all colours were used before, for runs that need more of them."""
    return place // len(COLOURS) % len(DASHES)


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]


def _x(curve: Curve, *, by_size: bool) -> list[float]:
    return (curve.size if by_size else 100 * curve.rate).tolist()


def _band_trace(curve: Curve, band: Band, place: int, *, by_size: bool) -> dict[str, Any]:
    """A filled band, or error bars where there are too few points for a band."""
    name, low, high = band
    meta = {"band": name, "series": place, "rate": (100 * curve.rate).tolist()}
    trace = {"type": "scatter", "hoverinfo": "skip", "showlegend": False, "meta": meta}
    x, colour = _x(curve, by_size=by_size), _colour(place)
    if len(x) < 3:
        bars = {
            "type": "data",
            "array": _numbers(high - curve.score),
            "color": colour,
            "thickness": 2.5 if name == "masks" else 1,
            "width": 8 if name == "masks" else 14,
        }
        points = {"x": x, "y": _numbers(curve.score), "mode": "markers", "error_y": bars}
        return trace | points | {"marker": {"color": colour, "size": 1}}
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    known = ~np.isnan(low)

    def around(there: Floats, back: Floats) -> Float64[np.ndarray, " n_outline"]:
        return np.concatenate([there[known], back[known][::-1]])

    sizes = np.array(x)
    return trace | {
        "meta": meta | {"rate": (100 * around(curve.rate, curve.rate)).tolist()},
        "mode": "lines",
        "line": {"width": 0},
        "x": around(sizes, sizes).tolist(),
        "y": _numbers(around(high, low)),
        "fill": "toself",
        "fillcolor": f"rgba({red},{green},{blue},{0.34 if name == 'masks' else 0.14})",
    }


def _line(curve: Curve, label: str, place: int, *, by_size: bool) -> dict[str, Any]:
    x = _x(curve, by_size=by_size)
    words = [
        plus_minus(score, mask_se if mask_se > 0 else None, 4, typeset)
        for score, mask_se in zip(curve.score.tolist(), curve.mask_se.tolist(), strict=True)
    ]
    dash = list(DASHES)[_round(place)]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) <= 40 else "lines",
        "name": escape(label),
        "x": x,
        "y": _numbers(curve.score),
        "customdata": words,
        "hovertemplate": escape(label) + "  %{customdata}<extra></extra>",
        "line": {"color": _colour(place), "width": 2, "dash": dash},
        "marker": {
            "size": 11 if len(x) < 3 else 6 if len(x) <= 20 else 4,
            "symbol": MARKERS[place % len(MARKERS)],
        },
        "meta": {"series": place, "rate": (100 * curve.rate).tolist()},
        "showlegend": False,
    }


def _numbers(values: Floats) -> list[float | None]:
    """Numbers for JSON, with six significant digits; NaN becomes null."""
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in values]


def _layout(curves: Mapping[str, Curve], value: str, *, by_size: bool, zero: bool) -> dict[str, Any]:
    x_title = "hidden tokens (mask size M)" if by_size else "hidden tokens (%)"
    x = np.concatenate([_x(curve, by_size=by_size) for curve in curves.values()])
    layout = _layout_with(x_title, value)
    layout["yaxis"]["zeroline"] = zero
    layout["xaxis"]["hoverformat"] = "d" if by_size else ".1f"
    if by_size and np.ptp(x) < 10:
        layout["xaxis"]["dtick"] = 1
    return layout


def _layout_with(x_title: str, y_title: str) -> dict[str, Any]:
    """The style of every plot."""
    return {
        "autosize": True,
        "margin": {"l": 64, "r": 12, "t": 12, "b": 52},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "x unified",
        "hoverdistance": -1,
        "hoverlabel": {
            "bgcolor": "#1b1f24",
            "bordercolor": "#1b1f24",
            "font": {"color": "#ffffff", "size": 13},
        },
        "showlegend": False,
        "font": {"family": "inherit", "size": 13},
        "xaxis": {"title": {"text": x_title}, "zeroline": False, "ticks": "outside", "ticklen": 4},
        "yaxis": {"title": {"text": y_title}, "zeroline": False, "automargin": True, "nticks": 7},
    }


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
    return f"{title}, {value}. {' '.join(parts)}"


def _table(curves: Mapping[str, Curve], *, by_size: bool) -> tuple[list[str], list[list[str]], str | None]:
    """Columns, rows and a note; a table of many points is thinned evenly."""
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
    note = "Evenly spaced points; curve.csv in the run directory has all of them." if thinned else None
    return columns, rows, note


def _error(value: float) -> str:
    if math.isnan(value):
        return NOT_KNOWN
    return typeset(float(value), 4) if value else "0"
