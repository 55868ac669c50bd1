"""The curves as plotly draws them in a page, and as a table of their numbers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.curve import Curve
from maskevidence.standard_errors import student_t_quantile
from maskevidence.wording import typeset

# Each has a contrast of 3 at least on the page's light and on its dark background.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#B0609A", "#8C7A2B", "#7A7A7A")
DASHES = ("solid", "dash", "dot", "dashdot")
MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
MOST_ROWS = 120
LEVEL = 0.95

Floats = Float64[np.ndarray, " n_points"]


@dataclass(frozen=True)
class Plot:
    """One interactive picture and its table.

    Attributes:
        key: short name, unique in the page.
        title: above it.
        summary: what it shows, for a reader who does not see it.
        figure: what plotly draws: data and layout.
        series: place among the runs, name and colour of each curve.
        bands: which bands there are: "masks", "observations".
        columns: of the table.
        rows: of the table.
        note: on the table, where it leaves something out.
        by_size: whether the axis can be sizes as well as shares.
        single: whether there is one mask size only, and so no curve.
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


def plot_curves(
    key: str,
    title: str,
    curves: Mapping[str, Curve],
    value: str,
    *,
    places: Sequence[int] | None = None,
    zero: bool = False,
) -> Plot:
    """One or more curves, with the 95 % bands of the masks (Student's t) and of the observations.

    Args:
        key: short name, unique in the page.
        title: above the plot.
        curves: by label.
        value: what the vertical axis shows, with its unit.
        places: of the curves among all runs, which give them their colours; by default 0, 1, ...
        zero: draw the line of no difference.
    """
    lengths = {curve.n_tokens for curve in curves.values()}
    by_size = len(lengths) == 1 and None not in lengths
    traces: list[dict[str, Any]] = []
    bands: dict[str, None] = {}
    series = []
    for place, (label, curve) in zip(places or range(len(curves)), curves.items(), strict=True):
        colour = COLOURS[place % len(COLOURS)]
        series.append((place, label, colour))
        for band, low, high in _bands(curve):
            bands[band] = None
            traces += _band_traces(curve, low, high, band, label, colour, place, by_size=by_size)
        traces.append(_line(curve, label, colour, place, by_size=by_size))
    columns, rows, note = _table(curves, by_size=by_size)
    return Plot(
        key=key,
        title=title,
        summary=_summary(title, curves, value),
        figure={"data": traces, "layout": _layout(curves, value, by_size=by_size, zero=zero)},
        series=series,
        bands=list(bands),
        columns=columns,
        rows=rows,
        note=note,
        by_size=by_size,
        single=all(len(curve.score) == 1 for curve in curves.values()),
    )


def _bands(curve: Curve) -> list[tuple[str, Floats, Floats]]:
    """The bands that a curve has: name, lower and upper end."""
    found = []
    low, high = curve.band(LEVEL)
    half = student_t_quantile(0.5 + LEVEL / 2, math.inf) * curve.data_se
    if not np.isnan(half).all():
        found.append(("observations", curve.score - half, curve.score + half))
    if np.nanmax(np.where(np.isnan(high), 0.0, high - low), initial=0.0) > 0:
        found.append(("masks", low, high))
    return found


def _x(curve: Curve, *, by_size: bool) -> list[float]:
    return (curve.size if by_size else 100 * curve.rate).tolist()


def _band_traces(
    curve: Curve,
    low: Floats,
    high: Floats,
    band: str,
    label: str,
    colour: str,
    place: int,
    *,
    by_size: bool,
) -> list[dict[str, Any]]:
    """A filled band, or error bars where points are too few to make one."""
    meta = {"band": band, "series": place, "rate": (100 * curve.rate).tolist()}
    shared = {"type": "scatter", "hoverinfo": "skip", "showlegend": False, "meta": meta}
    x = _x(curve, by_size=by_size)
    if len(x) < 3:
        bars = {
            "type": "data",
            "array": _numbers(high - curve.score),
            "color": colour,
            "thickness": 2.5 if band == "masks" else 1,
            "width": 8 if band == "masks" else 14,
        }
        marker = {"color": colour, "size": 1}
        return [
            {
                **shared,
                "x": x,
                "y": _numbers(curve.score),
                "mode": "markers",
                "marker": marker,
                "error_y": bars,
            }
        ]
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    fill = f"rgba({red},{green},{blue},{0.34 if band == 'masks' else 0.14})"
    known = ~np.isnan(low)
    around_x = np.concatenate([np.array(x)[known], np.array(x)[known][::-1]])
    around_y = np.concatenate([high[known], low[known][::-1]])
    rate = 100 * np.concatenate([curve.rate[known], curve.rate[known][::-1]])
    outline = {**shared, "meta": {**meta, "rate": rate.tolist()}, "mode": "lines", "line": {"width": 0}}
    return [{**outline, "x": around_x.tolist(), "y": _numbers(around_y), "fill": "toself", "fillcolor": fill}]


def _line(curve: Curve, label: str, colour: str, place: int, *, by_size: bool) -> dict[str, Any]:
    x = _x(curve, by_size=by_size)
    words = [
        typeset(score, 4) + (f" ± {typeset(mask_se, 4)}" if mask_se > 0 else "")
        for score, mask_se in zip(curve.score.tolist(), curve.mask_se.tolist(), strict=True)
    ]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(x) <= 40 else "lines",
        "name": escape(label),
        "x": x,
        "y": _numbers(curve.score),
        "customdata": words,
        "hovertemplate": escape(label) + "  %{customdata}<extra></extra>",
        "line": {"color": colour, "width": 2, "dash": DASHES[place // len(COLOURS) % len(DASHES)]},
        "marker": {
            "size": 11 if len(x) < 3 else 6 if len(x) <= 20 else 4,
            "symbol": MARKERS[place % len(MARKERS)],
        },
        "meta": {"series": place, "rate": (100 * curve.rate).tolist()},
        "showlegend": False,
    }


def _numbers(values: Floats) -> list[float | None]:
    """As JSON holds them, to six significant digits."""
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in values]


def _layout(curves: Mapping[str, Curve], value: str, *, by_size: bool, zero: bool) -> dict[str, Any]:
    x_title = "hidden tokens (mask size M)" if by_size else "hidden tokens (%)"
    x = np.concatenate([_x(curve, by_size=by_size) for curve in curves.values()])
    layout: dict[str, Any] = {
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
        "yaxis": {"title": {"text": value}, "zeroline": zero, "automargin": True, "nticks": 7},
    }
    layout["xaxis"]["hoverformat"] = "d" if by_size else ".1f"
    if by_size and np.ptp(x) < 10:
        layout["xaxis"]["dtick"] = 1
    return layout


def _summary(title: str, curves: Mapping[str, Curve], value: str) -> str:
    """The shape of each curve in a sentence."""
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
    several = len(curves) > 1
    columns = ["run"] * several + (["size"] if by_size else []) + ["hidden"]
    columns += ["score", "mask_se", "data_se", "masks"]
    rows: list[list[str]] = []
    most = max(20, MOST_ROWS // len(curves))
    left_out = False
    for label, curve in curves.items():
        places: Sequence[int] = range(len(curve.score))
        if len(places) > most:
            places = np.unique(np.linspace(0, len(places) - 1, most).round().astype(int)).tolist()
            left_out = True
        for k in places:
            row = [label] * several + ([f"{curve.size[k]:.0f}"] if by_size else [])
            row += [f"{typeset(100 * curve.rate[k], 1)} %", typeset(curve.score[k], 4)]
            row += [_error(curve.mask_se[k]), _error(curve.data_se[k]), f"{curve.n_masks[k]:,}"]
            rows.append(row)
    note = "Evenly chosen points; curve.csv in the run has all of them." if left_out else None
    return columns, rows, note


def _error(value: float) -> str:
    return "not known" if math.isnan(value) else typeset(float(value), 4) if value else "0"
