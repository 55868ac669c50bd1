"""The parts that a result is shown with, as plain data: no part knows a result, and no renderer does.

Bars and bands are 95 % intervals everywhere; ± is one standard error.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field


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
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    words: Collection[int] = (0,)
    bold: Collection[tuple[int, int]] = ()
    marked: Collection[tuple[int, int]] = ()


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
class Values(Picture):
    """Values with intervals, one row each."""

    values: Sequence[Value]  # one or more
    x_label: str  # label of the horizontal axis, with its unit
    zero: bool = False  # whether to draw a line at 0
    words: str = "Bars are 95 % intervals."  # meaning of the bars, printed below the picture


Part = Table | Picture | str


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
    """

    line: str
    headline: str
    aside: str = ""
    parts: Sequence[Part] = ()
    notes: Sequence[str] = ()
    made: Mapping[str, str] = field(default_factory=dict)
