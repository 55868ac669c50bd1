"""Draw pictures with matplotlib: on the user's axes, as a file, or as SVG in a page."""

import io
import math
import re
import textwrap
from dataclasses import replace
from functools import singledispatch
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from maskevidence.core.errors import InputError, MissingExtraError, import_extra
from maskevidence.core.show import pictures
from maskevidence.core.show.parts import Picture, ValueRows
from maskevidence.core.show.words import plain
from maskevidence.core.support.files import write_atomic

# After Okabe and Ito; each has a contrast of at least 3 on white and on the dark backgrounds of notebooks.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#B0609A", "#8C7A2B", "#7A7A7A", "#7465D2", "#BF4A5E")
DASHES = ("-", "--", ":")  # used when there are more lines than colours
MARKERS = ("o", "s", "D", "^", "v", "P")
_RINGS = ("s", "o")  # outline of marked points
_NARROW, _WIDE = 0.45, 0.17  # opacity of a band in front, and of a band behind it
_MOST_MARKED = 40  # most points of a line that get markers
_MOST_IN_SVG = 150  # most points of a line in a page
_WRITTEN = 200  # most cells of a grid that are labelled with their numbers
_TALL = 30  # most rows of a grid that is not drawn tall
_UPRIGHT = 4  # letters of the longest name below a column, else names are turned
_TITLE_WIDTH = 84  # characters
_STATES = ("#dcdcd8", "#3987c5", "#8a8a8a", "#d55e00")  # of cells: the ground, and up to three others
_TURN = "the difference changes its sign"
_SMALL = {"fontsize": 8, "frameon": False}  # a legend
_ROW, _SIZE = 0.3, (7.0, 4.6)  # inches


def draw(picture: Picture, axes: Any) -> None:
    """Draw a picture on matplotlib axes, which may already have content."""
    _draw(picture, axes)
    axes.set_xlabel(_label(getattr(picture, "x_label", "")))
    axes.set_ylabel(_label(getattr(picture, "y_label", "")))


@singledispatch
def _draw(picture: Picture, axes: Any) -> None:
    raise TypeError(f"{type(picture).__name__} is no picture")


@_draw.register
def _(picture: pictures.Lines, axes: Any) -> None:
    n_before = sum(not line.get_label().startswith("_") for line in axes.lines)
    for line in picture.lines:
        number = line.number + n_before
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number // len(COLOURS) % len(DASHES)]
        for band in line.bands:
            style = {"color": colour, "alpha": _WIDE if band.wide else _NARROW, "label": _label(band.words)}
            if len(line.x) >= pictures.FEWEST_IN_A_BAND:
                axes.fill_between(line.x, band.low, band.high, linewidth=0, **style)
            else:
                axes.vlines(line.x, band.low, band.high, linewidth=7 if band.wide else 4, **style)
        n_points = int((~np.isnan(line.y)).sum())
        marker = MARKERS[number % len(MARKERS)] if n_points < _MOST_MARKED else None
        style = {"color": colour, "linestyle": dash, "linewidth": 1.5, "marker": marker, "markersize": 4}
        axes.plot(line.x, line.y, label=_label(line.label), **style)
        for x in line.turns:
            label = None if _TURN in axes.get_legend_handles_labels()[1] else _TURN
            axes.axvline(x, color=colour, linewidth=1.2, linestyle=":", label=label)
    if picture.zero:
        axes.axhline(0.0, color="0.5", linewidth=1, linestyle="--")
    if picture.mark is not None:
        axes.axvline(picture.mark[0], color="0.5", linewidth=1, linestyle=":", label=_label(picture.mark[1]))
    for (x, y, words), marker in zip(picture.points, _RINGS * len(picture.points), strict=False):
        ring = {"markersize": 13, "markerfacecolor": "none", "markeredgecolor": "0.5"}
        axes.plot(x, y, marker, linestyle="none", label=_label(words), **ring)
    if not n_before:
        _set_limits(axes, picture)
    tickers = import_extra("matplotlib.ticker", "plots", "a picture")
    locator = axes.xaxis.get_major_locator()
    whole = [(line.x % 1 == 0).all() for line in picture.lines if len(line.x) > 1]  # not points at the side
    if isinstance(locator, tickers.MaxNLocator) and whole and all(whole):
        locator.set_params(integer=True)
    axes.grid(alpha=0.25)
    _legend(axes)


@_draw.register
def _(picture: ValueRows, axes: Any) -> None:
    for row, value in enumerate(picture.values):
        label = _label(value.group) if value.group else None
        colour = COLOURS[value.number % len(COLOURS)]
        for ends, width in ((value.thin, 1.5), (value.thick, 4.5)):
            if ends is not None:
                axes.plot(ends, [row, row], color=colour, linewidth=width, solid_capstyle="butt")
        marker = MARKERS[value.number % len(MARKERS)]
        style = {"color": colour, "marker": marker, "linestyle": "none"}
        axes.plot(value.value, row, label=label, markersize=6, **style)
    if picture.zero:
        axes.axvline(0.0, color="0.5", linewidth=1, linestyle="--")
    names = [shortened(_label(value.label)) for value in picture.values]
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(axes, picture.words)


@_draw.register
def _(picture: pictures.Histogram, axes: Any) -> None:
    counts, edges = np.histogram(picture.values, picture.edges())
    axes.stairs(counts, edges, fill=True, color=COLOURS[0])
    axes.yaxis.get_major_locator().set_params(integer=True)
    middle = float(np.median(picture.values)) if picture.named else 0.0
    height, above = 9, 0.0
    for value, name in picture.named:
        axes.plot(value, 0, color=COLOURS[1], marker="D", markersize=6, linestyle="none", clip_on=False)
        side = "left" if value < middle else "right"
        if not name:
            continue
        offset = {"xytext": (0, height), "textcoords": "offset points"}
        reach = (1 if side == "left" else -1) * 0.015 * len(shortened(name)) * (edges[-1] - edges[0])
        ends = sorted((value, value + reach))
        below = counts[(edges[1:] >= ends[0]) & (edges[:-1] <= ends[1])]
        above = max(above, float(below.max(initial=0)))  # bars start below the names
        axes.annotate(shortened(_label(name)), (value, above), ha=side, fontsize=8, **offset)
        height += 12  # one line each, since long names would overlap
    if picture.zero:
        axes.axvline(0.0, color="0.5", linewidth=1, linestyle="--")
    axes.spines[["top", "right"]].set_visible(False)


@_draw.register
def _(picture: pictures.ColourGrid, axes: Any) -> None:
    low, high = picture.centre - picture.reach, picture.centre + picture.reach
    axes.axhspan(-0.5, len(picture.values) - 0.5, color=_STATES[0], zorder=-1)  # cells without a number
    image = axes.imshow(picture.values, cmap="PuOr", vmin=low, vmax=high, aspect="auto")
    where = {"location": "top", "aspect": 30, "pad": 0.01} if _is_tall(picture) else {}
    words = _label(picture.words).replace("; ", "\n")  # a bar may be shorter than a line of both
    bar = axes.figure.colorbar(image, ax=axes, label=words, **where)
    if np.nanmin(picture.values, initial=high) >= picture.centre:  # half of the colours are not used
        (bar.ax.set_xlim if where else bar.ax.set_ylim)(picture.centre, high)
    names = [shortened(_label(name)) for name in picture.columns]
    axes.set_xticks(range(len(names)), names, rotation=90 if _longest(picture) > _UPRIGHT else 0)
    if picture.rows:
        axes.set_yticks(range(len(picture.rows)), [shortened(_label(name)) for name in picture.rows])
    if picture.values.size <= _WRITTEN:
        for (row, column), value in np.ndenumerate(picture.values):
            if np.isnan(value):
                continue
            colour = "#ffffff" if abs(value - picture.centre) > 0.6 * picture.reach else "#111111"
            text = f"{round(value, 2) + 0.0:.2f}".replace("-", "\N{MINUS SIGN}")
            axes.text(column, row, text, ha="center", va="center", fontsize=8, color=colour)


@_draw.register
def _(picture: pictures.CellMap, axes: Any) -> None:
    colormaps = import_extra("matplotlib.colors", "plots", "a picture")
    patches = import_extra("matplotlib.patches", "plots", "a picture")
    colours = [*_STATES[: len(picture.names) - 1], _STATES[-1]]
    limits = {"vmin": 0, "vmax": len(colours) - 1, "interpolation": "nearest", "aspect": "auto"}
    axes.imshow(picture.lines(_MOST_IN_SVG), cmap=colormaps.ListedColormap(colours), **limits)
    names = [shortened(_label(name)) for name in picture.columns]
    axes.set_xticks(range(len(names)), names, rotation=90)
    axes.set_yticks([])
    each = zip(colours, picture.names, strict=True)
    handles = [patches.Patch(color=colour, label=name) for colour, name in each]
    axes.legend(handles=handles, ncols=4, loc="lower left", bbox_to_anchor=(0, 1), **_SMALL)


@_draw.register
def _(picture: pictures.Strips, axes: Any) -> None:
    for position, strip in enumerate(picture.strips):
        first, n_points = not position, len(strip.y)
        words = _label(picture.interval) if first else None
        band = {"color": "0.6", "alpha": 0.4, "linewidth": 0, "zorder": 0, "label": words}
        axes.bar(position, strip.high - strip.low, 0.8, strip.low, **band)
        x = position + 0.7 * ((np.arange(n_points) + 0.5) / n_points - 0.5)
        style = {"color": COLOURS[0], "fmt": "o", "markersize": 2.5, "elinewidth": 0.8}
        axes.errorbar(x, strip.y, strip.error, label=_label(picture.words) if first else None, **style)
    names = [shortened(_label(strip.label)) for strip in picture.strips]
    longest = max(map(len, names), default=0)
    axes.set_xticks(range(len(names)), names, rotation=90 if longest > 4 else 0)
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(axes, room=0.5 if longest <= 4 else 0.6 + 0.08 * longest)


def plot(picture: Picture, title: str, ax: Any = None) -> Any:
    """Draw a picture on axes and return the axes.

    Args:
        ax: axes of matplotlib; by default the axes of a new figure, which a notebook shows.
    """
    if ax is not None and not hasattr(ax, "get_legend_handles_labels"):
        raise InputError(f"ax is of type {type(ax).__name__}; give axes of matplotlib, such as plt.gca()")
    if ax is None:
        pyplot = import_extra("matplotlib.pyplot", "plots", "plot()")
        ax = pyplot.subplots(figsize=_size(picture), layout="constrained")[1]
    draw(picture, ax)
    if title and not ax.get_title():
        ax.set_title(_filled(title), fontsize=10)
    return ax


def draw_into(file: Path, picture: Picture, title: str) -> str | None:
    """Write a picture to a file; without matplotlib, return a line that says so."""
    try:
        write_atomic(file, image(picture, title))
    except MissingExtraError as error:
        return f"{file.name} was not drawn: {error}"
    return None


def image(picture: Picture, title: str, kind: str = "png") -> bytes:
    """Render a picture as the bytes of an image file.

    Args:
        picture: a part of a page.
        title: above it.
        kind: "png", "pdf" or "svg".

    Raises:
        MissingExtraError: matplotlib is not installed.

    Example:
        >>> image(pictures.Histogram(np.array([0.0, 1.0]), "nats"), "two values")[1:4]
        b'PNG'
    """
    figure = _new_figure(picture)
    plot(picture, title, figure.subplots())
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=150, metadata={"Software": None} if kind == "png" else None)
    return buffer.getvalue()


def svg(picture: Picture, summary: str, key: str = "picture") -> str:
    """Render a picture as SVG whose text and black lines take the page's text colour.

    Args:
        picture: a part of a page.
        summary: a description of the picture for readers who cannot see it.
        key: the prefix of the picture's ids, different for each picture of a page.
    """
    matplotlib = import_extra("matplotlib", "plots", "a picture")
    if isinstance(picture, pictures.Lines):
        picture = replace(picture, lines=[pictures.thinned(line, _MOST_IN_SVG) for line in picture.lines])
    figure = _new_figure(picture)
    figure.set_dpi(72)  # one dot per SVG unit, so saving keeps the layout
    draw(picture, figure.subplots())
    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": key, "svg.fonttype": "none"}):
        none = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(buffer, format="svg", transparent=True, metadata=none)
    text = buffer.getvalue()
    box = re.search(r'viewBox="([^"]*)"', text)
    assert box is not None
    body = text[text.index(">", text.index("<svg")) + 1 :]
    body = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", "", body, flags=re.S)
    body = re.sub(r' id="(?![pm][0-9a-f]{9,}")[^"]*"', "", body)
    body = re.sub(r'(id="|url\(#|href="#)([pm][0-9a-f]{9,})', rf"\g<1>{key}-\g<2>", body)
    body = re.sub(r"<[^>]*>", lambda tag: re.sub(r"-?\d+\.\d{2,}", _one_decimal, tag[0]), body)
    body = re.sub(r" font-family: [^;\"]*;?| transform=\"rotate\(-0 [^\"]*\"", "", body)
    body = body.replace("xlink:href", "href")
    body = re.sub(r"#000000|(?<=fill: )black", "currentColor", body)
    body = re.sub(r"\s*\n\s*", "\n", body)
    size = f"display:block;width:100%;max-width:{float(box[1].split()[2]) / 14:.0f}em;height:auto"
    label = escape(plain(summary), quote=False).replace('"', "&quot;")
    head = (
        f'<svg viewBox="{box[1]}" style="{size}" role="img" aria-label="{label}" '
        f'fill="currentColor" font-family="sans-serif" stroke-linejoin="round" stroke-linecap="butt">'
    )
    return head + body


def _one_decimal(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}"


def _new_figure(picture: Picture) -> Any:
    """An empty figure that no window or notebook displays."""
    figures = import_extra("matplotlib.figure", "plots", "a picture")
    return figures.Figure(figsize=_size(picture), layout="constrained")


def _size(picture: Picture) -> tuple[float, float]:
    """Width and height of a new figure, in inches."""
    if isinstance(picture, ValueRows):
        return _SIZE[0], 1.4 + _ROW * len(picture.values)
    if isinstance(picture, pictures.ColourGrid):
        if _is_tall(picture):
            return 1.4 + 0.21 * len(picture.columns), 2.2 + 0.22 * min(len(picture.values), 60)
        names = 0.08 * max(_longest(picture) - _UPRIGHT, 0)
        of_cell = (0.6, 0.28) if picture.values.size <= _WRITTEN else (0.26, 0.22)
        return 3.4 + of_cell[0] * len(picture.columns), 1.6 + names + of_cell[1] * min(
            len(picture.values), 60
        )
    if isinstance(picture, pictures.Strips):
        return max(6.4, 1.6 + 0.45 * len(picture.strips)), 4.8
    return _SIZE


def _longest(picture: pictures.ColourGrid) -> int:
    """The length of the longest name of a column."""
    return max((len(shortened(_label(name))) for name in picture.columns), default=0)


def _is_tall(picture: pictures.ColourGrid) -> bool:
    """Whether a grid is so tall that its colour scale goes on top."""
    return len(picture.values) > _TALL


def _set_limits(axes: Any, picture: pictures.Lines) -> None:
    """Set the limits of both axes and add the second x axis."""
    if picture.x_limits is not None:
        axes.set_xlim(*picture.x_limits)
    if picture.y_limits is not None:
        axes.set_ylim(*picture.y_limits)
    axes.spines["right"].set_visible(False)
    axes.spines["top"].set_visible(picture.top is not None)
    if picture.top is not None:
        label, factor = picture.top
        above = axes.secondary_xaxis("top", functions=(lambda x: factor * x, lambda x: x / factor))
        above.set_xlabel(_label(label), fontsize=8)
        above.tick_params(labelsize=8)


def _legend(axes: Any, title: str = "", room: float = 0.5) -> None:
    """Place the legend below the axes, `room` inches down, so that it covers no data."""
    transforms = import_extra("matplotlib.transforms", "plots", "a picture")
    below = transforms.ScaledTranslation(0, -room, axes.figure.dpi_scale_trans)
    handles: dict[str, Any] = {}  # of lines with the same label, the first
    for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
        handles.setdefault(label, handle)
    if not handles and not title:
        return
    ncols = 2 if max(map(len, handles), default=0) < 48 else 1
    place = {"loc": "upper left", "bbox_to_anchor": (0, 0), "bbox_transform": axes.transAxes + below}
    style = {"title_fontsize": 8, "borderaxespad": 0, "alignment": "left"} | _SMALL
    axes.legend(handles.values(), handles, title=_filled(title) or None, ncols=ncols, **place, **style)


def _label(text: object) -> str:
    """Text for matplotlib: formulas are escaped, invisible characters are named."""
    label = plain(text).replace("$", r"\$")
    return f" {label}" if label.startswith("_") else label


def shortened(name: str, at_most: int = 36) -> str:
    """Shorten a name in the middle; its end often distinguishes it from others.

    Example:
        >>> shortened("masked-lm-small-seed-3", 15)
        'masked-…-seed-3'
    """
    half = at_most // 2
    return name if len(name) <= at_most else f"{name[: at_most - half - 1]}…{name[-half:]}"


def _filled(title: str) -> str:
    """Break a long title into lines of about equal length."""
    title = _label(title) if title else ""
    n_lines = max(1, math.ceil(len(title) / _TITLE_WIDTH))
    return textwrap.fill(title, _TITLE_WIDTH if n_lines == 1 else math.ceil(len(title) / n_lines) + 6)
