"""Pictures of arrays, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from maskevidence.core.show.parts import Picture

FEWEST_IN_A_BAND = 7  # points; fewer have a bar each
MOST_BINS = 60
Floats = Float64[np.ndarray, " n_points"]


@dataclass(frozen=True)
class Band:
    """An interval at each point of a line."""

    name: str  # such as "masks"
    low: Floats  # shape (n_points,); NaN where it is not known
    high: Floats  # shape (n_points,)
    words: str  # what the interval is for, in the legend
    wide: bool = False  # whether it is drawn lighter, behind the others


@dataclass(frozen=True)
class Line:
    """A line, with a bar at each point in place of its bands if it has fewer than seven points."""

    label: str  # its name in the legend
    x: Floats  # shape (n_points,), ascending
    y: Floats  # shape (n_points,); NaN where nothing is drawn
    bands: Sequence[Band] = ()  # around it, the widest first
    number: int = 0  # 0, 1, ...; decides the colour, so that a run has one colour in all pictures of a page
    turns: Sequence[float] = ()  # ascending; where the line changes its sign for good, marked in its colour


@dataclass(frozen=True)
class Lines(Picture):
    """Lines over a common axis."""

    lines: Sequence[Line]  # one or more
    x_label: str  # what the horizontal axis shows, with its unit
    y_label: str  # what the vertical axis shows, with its unit
    zero: bool = False  # whether a line is drawn at 0
    # the label of a second axis above the picture, and what x is multiplied by there
    top: tuple[str, float] | None = None
    x_limits: tuple[float, float] | None = None  # ends of the horizontal axis; by default where the lines end
    # ends of the vertical axis; by default all lines and bands fit
    y_limits: tuple[float, float] | None = None
    mark: tuple[float, str] | None = None  # an x with a line of its own, and what it is
    points: Sequence[tuple[float, float, str]] = ()  # x, y and name of points that are marked


@dataclass(frozen=True)
class Histogram(Picture):
    """How often values occur.

    Attributes:
        values: shape (n,).
        x_label: what they are, with their unit.
        y_label: what is counted.
        zero: whether a line is drawn at 0.
        named: values with a mark of their own, and a name beside it, which may be empty.
    """

    values: Float64[np.ndarray, " n"]
    x_label: str
    y_label: str = "number of observations"
    zero: bool = False
    named: Sequence[tuple[float, str]] = ()

    def edges(self) -> Float64[np.ndarray, " n_edges"]:
        """The ends of the bins, 60 or fewer.

        Example:
            >>> Histogram(np.arange(4.0), "nats").edges().tolist()
            [0.0, 1.0, 2.0, 3.0]
        """
        n_bins = len(np.histogram_bin_edges(self.values, "auto")) - 1
        return np.histogram_bin_edges(self.values, min(MOST_BINS, n_bins))


@dataclass(frozen=True)
class ColourGrid(Picture):
    """Numbers around a centre as a grid of colours."""

    values: Float64[np.ndarray, "n_rows n_columns"]
    rows: Sequence[str]  # the names of the rows; empty for none
    columns: Sequence[str]  # the names of the columns
    words: str  # what the colours mean
    x_label: str = ""  # what the columns are
    y_label: str = ""  # what the rows are
    centre: float = 0.0  # the number of the middle colour
    reach: float = 1.0  # how far the numbers of the outermost colours are from it


@dataclass(frozen=True)
class Strip:
    """Points with their errors above one name, in front of an interval."""

    label: str  # the name
    y: Floats  # shape (n_points,)
    error: Floats  # shape (n_points,); one standard deviation of each
    low: float  # the lower end of the interval
    high: float  # the upper end


@dataclass(frozen=True)
class Strips(Picture):
    """Points with their errors, side by side."""

    strips: Sequence[Strip]  # any number of them
    x_label: str  # what the strips are
    y_label: str  # what the vertical axis shows, with its unit
    words: str  # what the points are, in the legend
    interval: str  # what the intervals are, in the legend


def thinned(line: Line, at_most: int) -> Line:
    """The line with at most so many points, evenly spaced, and both ends.

    Example:
        >>> line = Line("a", np.arange(9.0), np.arange(9.0))
        >>> thinned(line, 3).x.tolist()
        [0.0, 4.0, 8.0]
    """
    kept = np.unique(np.linspace(0, len(line.x) - 1, min(len(line.x), at_most)).round().astype(int))
    bands = [replace(band, low=band.low[kept], high=band.high[kept]) for band in line.bands]
    return replace(line, x=line.x[kept], y=line.y[kept], bands=bands)
