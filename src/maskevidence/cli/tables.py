"""Tables that fit the terminal: no cell is ever cut."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table

_MIN_NAME = 12  # the first column is folded down to this width, not further
_PADDING = 2  # of a column


@dataclass(frozen=True)
class FittingTable:
    """A plain table, in the widest of three forms that fits.

    The first form has one line per row. The second breaks headings at their spaces and folds the first
    column, which holds names. The third gives every row a block of its own, with one line per column.

    Attributes:
        columns: the headings.
        rows: the cells; the first column is aligned to the left, the others to the right.
        title: above the table.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Called by rich to print the table."""
        wide = self._grid(folded=False)
        unlimited = options.update(max_width=10_000)
        if Measurement.get(console, unlimited, wide).maximum <= options.max_width:
            yield wide
        elif self._folded_width() <= options.max_width:
            yield self._grid(folded=True)
        else:
            yield from self._blocks()

    def _grid(self, *, folded: bool) -> Table:
        grid = Table(
            box=box.SIMPLE, padding=(0, 1), title=self.title, title_justify="left", title_style="bold"
        )
        for place, column in enumerate(self.columns):
            heading = column.replace(" ", "\n") if folded else column
            if place == 0:
                grid.add_column(heading, no_wrap=not folded, overflow="fold", vertical="bottom")
            else:
                grid.add_column(heading, justify="right", no_wrap=True)
        for row in self.rows:
            grid.add_row(*row)
        return grid

    def _folded_width(self) -> int:
        """The smallest width of the second form."""
        widths = [
            max(map(len, [*heading.split(" "), *cells]))
            for heading, *cells in zip(self.columns, *self.rows, strict=True)
        ]
        return min(widths[0], _MIN_NAME) + sum(widths[1:]) + _PADDING * (len(widths) + 1)

    def _blocks(self) -> Iterator[RenderableType]:
        if self.title is not None:
            yield f"\n{self.title}"
        for row in self.rows:
            block = Table(box=None, show_header=False, padding=(0, 1))
            block.add_column(overflow="fold", style="bold")
            block.add_column(overflow="fold")
            for heading, cell in zip(self.columns, row, strict=True):
                if cell:
                    block.add_row(heading, cell)
            yield ""
            yield block
        yield ""
