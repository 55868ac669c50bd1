"""Pictures of arrays, as plain data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Float64

from maskevidence.show.parts import Picture

FEWEST_IN_A_BAND = 7  # points; fewer have a bar each
MOST_BINS = 60
Floats = Float64[np.ndarray, " n_points"]


@dataclass(frozen=True)
class Band:
    """An interval at each point of a line.

    Attributes:
        name: such as "masks"; bands of one name are switched on and off together.
        low: shape (n_points,); NaN where it is not known.
        high: shape (n_points,).
        words: what the interval is for, in the legend.
        wide: whether it is drawn lighter, behind the others.
    """

    name: str
    low: Floats
    high: Floats
    words: str
    wide: bool = False


@dataclass(frozen=True)
class Line:
    """A line, with a bar at each point in place of its bands if it has fewer than seven points.

    Attributes:
        label: its name in the legend.
        x: shape (n_points,), ascending.
        y: shape (n_points,); NaN where nothing is drawn.
        bands: around it, the widest first.
        number: 0, 1, ...; decides the colour, so that a run has one colour in all pictures of a page.
        words: what a page says of each point, such as the value with its errors; empty for the value alone.
    """

    label: str
    x: Floats
    y: Floats
    bands: Sequence[Band] = ()
    number: int = 0
    words: Sequence[str] = ()


@dataclass(frozen=True)
class Lines(Picture):
    """Lines over a common axis.

    Attributes:
        lines: one or more.
        x_label: what the horizontal axis shows, with its unit.
        y_label: what the vertical axis shows, with its unit.
        zero: whether a line is drawn at 0.
        top: the label of a second axis above the picture, and what x is multiplied by there.
        x_limits: ends of the horizontal axis; by default where the lines end.
        y_limits: ends of the vertical axis; by default all lines and bands fit.
        mark: an x with a line of its own, and what it is.
        points: x, y and name of points that are marked.
    """

    lines: Sequence[Line]
    x_label: str
    y_label: str
    zero: bool = False
    top: tuple[str, float] | None = None
    x_limits: tuple[float, float] | None = None
    y_limits: tuple[float, float] | None = None
    mark: tuple[float, str] | None = None
    points: Sequence[tuple[float, float, str]] = ()


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
    """Numbers of -1 to 1 as a grid of colours.

    Attributes:
        values: shape (n_rows, n_columns).
        rows: the names of the rows; empty for none.
        columns: the names of the columns.
        words: what the colours mean.
        x_label: what the columns are.
        y_label: what the rows are.
    """

    values: Float64[np.ndarray, "n_rows n_columns"]
    rows: Sequence[str]
    columns: Sequence[str]
    words: str
    x_label: str = ""
    y_label: str = ""


@dataclass(frozen=True)
class Strip:
    """Points with their errors above one name, in front of an interval.

    Attributes:
        label: the name.
        y: shape (n_points,).
        error: shape (n_points,); one standard deviation of each.
        low: the lower end of the interval.
        high: the upper end.
    """

    label: str
    y: Floats
    error: Floats
    low: float
    high: float


@dataclass(frozen=True)
class Strips(Picture):
    """Points with their errors, side by side.

    Attributes:
        strips: any number of them.
        x_label: what the strips are.
        y_label: what the vertical axis shows, with its unit.
        words: what the points are, in the legend.
        interval: what the intervals are, in the legend.
    """

    strips: Sequence[Strip]
    x_label: str
    y_label: str
    words: str
    interval: str


@dataclass(frozen=True)
class ImageGrid(Picture):
    """Images in rows and columns.

    Attributes:
        images: shape (n_rows, n_columns, height, width, 3); red, green and blue in [0, 1].
        columns: the headings of the columns.
        words: what stands below each image, row by row; "" for nothing.
    """

    images: Float[np.ndarray, "n_rows n_columns height width 3"]
    columns: Sequence[str]
    words: Sequence[Sequence[str]]


def thinned(line: Line, at_most: int) -> Line:
    """The line with at most so many points, evenly spaced, and both ends.

    Example:
        >>> line = Line("a", np.arange(9.0), np.arange(9.0))
        >>> thinned(line, 3).x.tolist()
        [0.0, 4.0, 8.0]
    """
    kept = np.unique(np.linspace(0, len(line.x) - 1, min(len(line.x), at_most)).round().astype(int))
    bands = [replace(band, low=band.low[kept], high=band.high[kept]) for band in line.bands]
    words = [line.words[point] for point in kept] if line.words else ()
    return replace(line, x=line.x[kept], y=line.y[kept], bands=bands, words=words)
