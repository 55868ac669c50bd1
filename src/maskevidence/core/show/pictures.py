"""Plain data of pictures: lines, histograms, grids and strips."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int8

from maskevidence.core.show.parts import Picture

FEWEST_IN_A_BAND = 7  # points; a line with fewer has error bars instead
MOST_BINS = 60
Floats = Float64[np.ndarray, " n_points"]


@dataclass(frozen=True)
class Band:
    """An interval at each point of a line."""

    name: str  # for example "masks"
    low: Floats  # shape (n_points,); NaN where not known
    high: Floats  # shape (n_points,)
    words: str  # legend entry
    wide: bool = False  # whether to draw it lighter and behind other bands


@dataclass(frozen=True)
class Line:
    """A line with bands, or with error bars if it has fewer than seven points."""

    label: str  # legend entry
    x: Floats  # shape (n_points,), ascending
    y: Floats  # shape (n_points,); NaN leaves a gap
    bands: Sequence[Band] = ()  # bands around the line, widest first
    number: int = 0  # index of the colour; a run has the same index in all pictures of a page
    turns: Sequence[float] = ()  # marked x, ascending, where the line changes sign for good


@dataclass(frozen=True)
class Lines(Picture):
    """Lines on common axes."""

    lines: Sequence[Line]  # one or more
    x_label: str  # label of the horizontal axis, with its unit
    y_label: str  # label of the vertical axis, with its unit
    zero: bool = False  # whether to draw a line at 0
    # label of a second axis on top, and the factor from x to its scale
    top: tuple[str, float] | None = None
    x_limits: tuple[float, float] | None = None  # horizontal limits; by default the ends of the lines
    # vertical limits; by default around all lines and bands
    y_limits: tuple[float, float] | None = None
    mark: tuple[float, str] | None = None  # position and label of a vertical line
    points: Sequence[tuple[float, float, str]] = ()  # x, y and name of marked points


@dataclass(frozen=True)
class Histogram(Picture):
    """A histogram of values.

    Attributes:
        values: shape (n,).
        x_label: what they are, with their unit.
        y_label: the noun for what is counted.
        zero: whether a line is drawn at 0.
        named: values with a mark of their own and a label, which may be empty.
    """

    values: Float64[np.ndarray, " n"]
    x_label: str
    y_label: str = "number of observations"
    zero: bool = False
    named: Sequence[tuple[float, str]] = ()

    def edges(self) -> Float64[np.ndarray, " n_edges"]:
        """The edges of the bins, 60 or fewer.

        Example:
            >>> Histogram(np.arange(4.0), "nats").edges().tolist()
            [0.0, 1.0, 2.0, 3.0]
            >>> Histogram(np.array([-1.0, 0.5, 3.0]), "nats", zero=True).edges().round(1).tolist()
            [-1.3, 0.0, 1.3, 2.7, 4.0]
        """
        n_bins = len(np.histogram_bin_edges(self.values, "auto")) - 1
        edges = np.histogram_bin_edges(self.values, min(MOST_BINS, n_bins))
        if not self.zero or not edges[0] < 0 < edges[-1]:
            return edges
        width = edges[1] - edges[0]
        return width * np.arange(np.floor(edges[0] / width), np.ceil(edges[-1] / width) + 1)  # no bar over 0


@dataclass(frozen=True)
class ColourGrid(Picture):
    """A matrix of numbers as colours on both sides of a centre."""

    values: Float64[np.ndarray, "n_rows n_columns"]
    rows: Sequence[str]  # names of the rows; empty for none
    columns: Sequence[str]  # names of the columns
    words: str  # meaning of the colours
    x_label: str = ""  # meaning of the columns
    y_label: str = ""  # meaning of the rows
    centre: float = 0.0  # number of the middle colour
    reach: float = 1.0  # distance of the outermost colours from the centre


@dataclass(frozen=True)
class CellMap(Picture):
    """A table from far away, one line of pixels a row.

    Attributes:
        states: the state of each cell, as its place among `names`.
        columns: names of the columns.
        names: of the states: the ground, and at most three others; the last one is drawn largest.
    """

    states: Int8[np.ndarray, "n_rows n_columns"]
    columns: Sequence[str]
    names: Sequence[str]

    def lines(self, at_most: int) -> Int8[np.ndarray, "n_lines n_columns"]:
        """The states of at most this many lines: of a line's first row, or the last state of any of its rows.

        Example:
            >>> picture = CellMap(np.array([[1], [0], [0], [2]], dtype=np.int8), ["a"], ["", "hole", "wrong"])
            >>> picture.lines(2).tolist()
            [[1], [2]]
        """
        if not len(self.states):
            return self.states
        starts = np.unique(np.linspace(0, len(self.states), at_most, endpoint=False).astype(int))
        last = np.int8(len(self.names) - 1)
        worst = np.maximum.reduceat(np.where(self.states == last, last, np.int8(0)), starts)
        return np.maximum(self.states[starts], worst)


@dataclass(frozen=True)
class Strip:
    """Points with error bars above one name, in front of an interval."""

    label: str  # the name
    y: Floats  # shape (n_points,)
    error: Floats  # shape (n_points,); one standard deviation
    low: float  # lower end of the interval
    high: float  # upper end of the interval


@dataclass(frozen=True)
class Strips(Picture):
    """Strips of points side by side."""

    strips: Sequence[Strip]  # any number of them
    x_label: str  # meaning of the strips
    y_label: str  # label of the vertical axis, with its unit
    words: str  # legend entry of the points
    interval: str  # legend entry of the intervals


def thinned(line: Line, at_most: int) -> Line:
    """Thin a line to at most this many evenly spaced points, including both ends.

    Example:
        >>> line = Line("a", np.arange(9.0), np.arange(9.0))
        >>> thinned(line, 3).x.tolist()
        [0.0, 4.0, 8.0]
    """
    kept = np.unique(np.linspace(0, len(line.x) - 1, min(len(line.x), at_most)).round().astype(int))
    bands = [replace(band, low=band.low[kept], high=band.high[kept]) for band in line.bands]
    return replace(line, x=line.x[kept], y=line.y[kept], bands=bands)
