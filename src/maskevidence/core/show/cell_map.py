"""A table from far away as SVG, without matplotlib, in the colours of the page around it."""

from html import escape

import numpy as np

from maskevidence.core.show.pictures import CellMap
from maskevidence.core.show.words import plain

# ground, and up to three states, as attributes of SVG; blue, grey and vermilion are told apart by all eyes
STYLES = (
    'fill="currentColor" fill-opacity="0.13"',
    'fill="#3987c5"',
    'fill="#8a8a8a" fill-opacity="0.6"',
    'fill="#d55e00"',
)
_MOST_LINES, _HEIGHT, _WIDTH = 360, 330.0, 640.0  # the sizes are those of a page
_LEAST_MARK = 2.4  # height of a cell of the last state
_LEFT, _LETTER = 44.0, 6.2  # room for numbers of rows; width of a letter
_MOST_LETTERS = 16
_LEAST_WIDTH = 420.0  # of the legend


def cell_map_svg(picture: CellMap, summary: str) -> str:
    """Draw the cells as rectangles, with the names of the columns above and a legend below.

    Args:
        picture: the table.
        summary: a description for readers who cannot see it.
    """
    lines = picture.lines(_MOST_LINES)
    n_lines, n_columns = lines.shape
    width = min(64.0, max(7.0, _WIDTH / max(1, n_columns)))
    height = min(14.0, _HEIGHT / max(1, n_lines))
    names = [_short(name) for name in picture.columns]
    longest = max(map(len, names), default=0) * _LETTER
    turned = longest > width - 4
    top = 10 + (0.75 * longest if turned else 10)
    right = 0.75 * longest if turned else 6.0
    below = top + n_lines * height
    parts = [_label(name, _LEFT + (k + 0.5) * width, top - 5, turned) for k, name in enumerate(names)]
    parts += [
        f'<text x="{_LEFT - 6:.1f}" y="{y:.1f}" font-size="10" text-anchor="end">{row}</text>'
        for row, y in ((1, top + 8), (len(picture.states), below))
    ]
    for state, style in enumerate(_styles(picture)):
        least = _LEAST_MARK if state == len(picture.names) - 1 else 0.0
        outline = "".join(
            f"M{_LEFT + column * width:.1f} {y:.1f}h{width - 1:.1f}v{tall:.1f}h-{width - 1:.1f}z"
            for column in range(n_columns)
            for y, tall in _runs(lines[:, column] == state, top, height, least)
        )
        parts.append(f'<path d="{outline}" {style}/>')
    parts.append(_legend(picture, below + 22))
    across = max(_LEFT + n_columns * width + right, _LEAST_WIDTH)
    style = f"display:block;width:100%;max-width:{across / 14:.0f}em;height:auto"
    return (
        f'<svg class="map" viewBox="0 0 {across:.0f} {below + 32:.0f}" '
        f'preserveAspectRatio="xMinYMin" style="{style}" role="img" '
        f'aria-label="{escape(plain(summary))}" fill="currentColor" font-family="sans-serif" '
        f'shape-rendering="crispEdges">{"".join(parts)}</svg>'
    )


def _styles(picture: CellMap) -> tuple[str, ...]:
    """A style for each state; the last one is the most striking."""
    return (*STYLES[: len(picture.names) - 1], STYLES[-1])


def _runs(here: np.ndarray, top: float, height: float, least: float) -> list[tuple[float, float]]:
    """Top and height of each run of lines that are `here`."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], here.astype(np.int8), [0]])))
    runs = []
    for start, end in edges.reshape(-1, 2).tolist():
        tall = max(least, (end - start) * height)
        runs.append((top + (start + end) / 2 * height - tall / 2, tall))
    return runs


def _label(name: str, x: float, y: float, turned: bool) -> str:
    place = f'transform="translate({x:.1f} {y:.1f}) rotate(-48)"' if turned else f'x="{x:.1f}" y="{y:.1f}"'
    anchor = "start" if turned else "middle"
    return f'<text {place} font-size="11" text-anchor="{anchor}">{escape(plain(name))}</text>'


def _legend(picture: CellMap, y: float) -> str:
    parts, x = [], _LEFT
    for name, style in zip(picture.names, _styles(picture), strict=True):
        parts.append(f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="12" height="10" {style}/>')
        parts.append(f'<text x="{x + 17:.1f}" y="{y:.1f}" font-size="11">{escape(plain(name))}</text>')
        x += 17 + _LETTER * len(name) + 16
    return "".join(parts)


def _short(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"
