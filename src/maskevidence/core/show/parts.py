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
    """A picture that `draw` can draw: `Values`, or one of those in `pictures`."""


@dataclass(frozen=True)
class Value:
    """A value with its intervals, in a row of its own."""

    label: str  # the name of the row
    value: float
    # both ends of the interval for all errors; None if it is not known
    thin: tuple[float, float] | None = None
    # both ends of an interval for a part of them, such as that of the masks alone
    thick: tuple[float, float] | None = None
    group: str = ""  # what values with this mark have in common, in the legend; "" for none
    number: int = 0  # decides colour and mark


@dataclass(frozen=True)
class Values(Picture):
    """Values with their intervals, one below the other."""

    values: Sequence[Value]  # one or more
    x_label: str  # what the horizontal axis shows, with its unit
    zero: bool = False  # whether a line is drawn at 0
    words: str = "Bars are 95 % intervals."  # what the bars are, said once below the picture


Part = Table | Picture | str


@dataclass(frozen=True)
class Page:
    """Everything that is shown of a result.

    Attributes:
        line: the result in one line, in plain ASCII: what `repr` gives.
        headline: the answer, without a full stop.
        aside: what follows the answer in plain letters, such as its unit.
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
