"""The parts of a result's page as plain data, independent of results and renderers.

Bars and bands are 95 % intervals everywhere; ± is one standard error.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

_BLOCKS = " ▁▂▃▄▅▆▇█"


class Bars(str):
    """A cell of a table with a small bar chart; as text, one block character for each bar.

    Example:
        >>> str(Bars([0, 2, 4]))
        ' ▄█'
    """

    __slots__ = ("heights",)
    heights: tuple[float, ...]  # each in [0, 1]

    def __new__(cls, heights: Sequence[float]) -> "Bars":
        top = max(heights, default=0.0) or 1.0
        shares = tuple(height / top for height in heights)
        drawn = super().__new__(cls, "".join(_BLOCKS[round(8 * share)] for share in shares))
        drawn.heights = shares
        return drawn


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        columns: the headings; empty for rows of a name and a value.
        rows: the cells.
        title: above the table.
        words: the places of the columns that hold words and are set to the left; others hold numbers.
        bold: the row and the column of the cells in bold letters.
        marked: those of the cells with a coloured ground, where a page has colours.
        shades: the strength of the ground of a cell, in [0, 1], by its row and column.
        sortable: whether a reader may sort and filter the rows; on paper, the first ones stand for all.
        elsewhere: the file that holds the rows that paper lacks.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    words: Collection[int] = (0,)
    bold: Collection[tuple[int, int]] = ()
    marked: Collection[tuple[int, int]] = ()
    shades: Mapping[tuple[int, int], float] = field(default_factory=dict)
    sortable: bool = False
    elsewhere: str = ""


@dataclass(frozen=True)
class BigNumbers:
    """Numbers in large letters, each with the words that it counts and a remark."""

    items: Sequence[tuple[str, str, str]]


class Picture:
    """A picture that `draw` can draw: `Values` or a class of `pictures`."""


@dataclass(frozen=True)
class Value:
    """A value with its intervals, on one row of a picture."""

    label: str  # name of the row
    value: float
    # interval for all errors; None if not known
    thin: tuple[float, float] | None = None
    # interval for part of the errors, such as the masks' error
    thick: tuple[float, float] | None = None
    group: str = ""  # legend entry of the values with this mark; "" for none
    number: int = 0  # index of colour and mark


@dataclass(frozen=True)
class ValueRows(Picture):
    """Values with intervals, one row each."""

    values: Sequence[Value]  # one or more
    x_label: str  # label of the horizontal axis, with its unit
    zero: bool = False  # whether to draw a line at 0
    words: str = "Bars are 95 % intervals."  # meaning of the bars, printed below the picture


@dataclass(frozen=True)
class Group:
    """Parts under a heading; a page that is a file of its own links to it."""

    title: str
    parts: Sequence["Part"]


Part = Table | BigNumbers | Picture | Group | str


@dataclass(frozen=True)
class Page:
    """All parts of a shown result.

    Attributes:
        line: the result in one line, in plain ASCII: what `repr` gives.
        headline: the answer, without a full stop.
        aside: text after the answer in plain letters, such as its unit.
        parts: tables, pictures and sentences, in their order.
        notes: what a reader needs to know besides the numbers, one sentence each.
        made: the command, the model, the data and what else the result was made of, by name; shown where the
            page is a file of its own.
        about: the line above the headline of a file of its own; by default, the page is about log evidence.
    """

    line: str
    headline: str
    aside: str = ""
    parts: Sequence[Part] = ()
    notes: Sequence[str] = ()
    made: Mapping[str, str] = field(default_factory=dict)
    about: str = ""
