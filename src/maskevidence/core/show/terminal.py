"""Print a page in a terminal: tables, bars of characters and notes. No cell is ever cut.

Control characters in names and words are shown by their code points, so that none reaches the terminal.
"""

import io
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table as Grid
from rich.text import Text

from maskevidence.core.show.parts import BigNumbers, Group, Page, Part, Table, ValueRows
from maskevidence.core.show.words import figures, plain

_MIN_NAME = 12  # least width to which the first column is folded
_PADDING = 2  # padding of a column in the second form, with the gap between columns
_WIDEST_BARS = 60  # characters
_LONG = 36  # longest cell that is not folded if it holds words
_NAMES = 22  # characters of a name without headings


def print_page(screen: Console, page: Page) -> None:
    """Print the headline, tables, intervals and notes of a page.

    Args:
        screen: a console of rich.
        page: the page to print; pictures without a form in characters are left out.

    Example:
        >>> from maskevidence.core.show import Page, Table
        >>> table = Table(("model", "nats"), [("ppca", "-1.25")])
        >>> print_page(Console(width=40), Page("ppca: -1.25", "Log evidence", parts=[table]))
        Log evidence
        <BLANKLINE>
          model    nats
         ───────────────
          ppca    -1.25
        <BLANKLINE>
    """
    screen.print(Text(plain(f"{page.headline}{' ' + page.aside if page.aside else ''}"), style="bold"))
    for part in map(_plain_part, _unfolded(page.parts)):
        shown: Iterable[RenderableType] = [part] if isinstance(part, str) else []
        if isinstance(part, Table):
            shown = _fitting(screen, part)
        elif isinstance(part, ValueRows):
            shown = _bars(part, screen.width)
        for each in shown:
            screen.print(each)
    for note in page.notes:
        screen.print(f"note: {plain(note)}")


def _unfolded(parts: Iterable[Part]) -> Iterator[Part]:
    """The parts in their order, with the headings of groups, and numbers with their words as sentences."""
    for part in parts:
        if isinstance(part, Group):
            yield f"\n{part.title}"
            yield from _unfolded(part.parts)
        elif isinstance(part, BigNumbers):
            for number, words, remark in part.items:
                yield f"{number} {words}{f': {remark}' if remark else ''}"
        else:
            yield part


def _plain_part(part: Part) -> Part:
    """Replace control characters of a part by their names."""
    if isinstance(part, Table):
        rows = [[plain(cell) for cell in row] for row in part.rows]  # bar charts become their characters
        return replace(part, columns=[*map(plain, part.columns)], rows=rows, title=plain(part.title))
    if isinstance(part, ValueRows):
        return replace(part, values=[replace(each, label=plain(each.label)) for each in part.values])
    return plain(part) if isinstance(part, str) else part


def page_text(page: Page) -> str:
    """A page as plain text with lines of at most 110 characters, if its tables allow."""
    screen = Console(file=io.StringIO(), width=110, highlight=False, markup=False, emoji=False)
    with screen.capture() as shown:
        print_page(screen, page)
    return "\n".join(line.rstrip() for line in shown.get().splitlines())


def _fitting(screen: Console, table: Table) -> Iterator[RenderableType]:
    """Lay out a table in the widest of three forms that fits.

    The first form has one line per row, but for sentences, which are folded. The second stands closer, breaks
    headings and words at their spaces, and folds the first column, which holds names, only as far as it must.
    The third gives every row a block of its own, with one line per column.
    """
    if not table.columns:
        yield _named_rows(table)
        return
    wide = _grid(table)
    needed = Measurement.get(screen, screen.options.update(max_width=10_000), wide)
    least = _widths(table, None)
    if (needed.minimum if _long(table) else needed.maximum) <= screen.width:
        yield wide
    elif sum(least) + _PADDING * len(least) <= screen.width:
        yield _grid(table, screen.width)
    else:
        yield from _blocks(table)


def _grid(table: Table, room: int | None = None) -> Grid:
    """A table with columns as wide as their cells, or folded to fit `room` characters."""
    title = table.title or None
    grid = Grid(box=box.SIMPLE, padding=(0, 1), title=title, title_justify="left", title_style="bold")
    grid.collapse_padding, grid.pad_edge = room is not None, room is None
    for number, (column, width) in enumerate(zip(table.columns, _widths(table, room), strict=True)):
        justify: Literal["left", "right"] = "left" if number in {0, *table.words} else "right"
        if room is not None:
            grid.add_column(textwrap.fill(column, width), justify=justify, width=width, overflow="fold")
        elif number in _long(table):
            grid.add_column(column, justify=justify, min_width=_LONG, overflow="fold")
        else:  # rich would take the longest word as the least width and cut longer cells
            cells = [column, *(row[number] for row in table.rows)]
            grid.add_column(column, justify=justify, no_wrap=True, min_width=max(map(cell_len, cells)))
    for row in table.rows:
        grid.add_row(*row)
    return grid


def _named_rows(table: Table) -> Grid:
    """A table of names and values without headings."""
    grid = Grid(box=box.SIMPLE, show_header=False)
    grid.add_column(style="bold", max_width=_NAMES, overflow="fold")
    grid.add_column(overflow="fold")
    for row in table.rows:
        grid.add_row(*row)
    return grid


def _long(table: Table) -> set[int]:
    """The columns, after the first, that hold sentences."""
    return {k for k in table.words if k and any(len(row[k]) > _LONG for row in table.rows)}


def _widths(table: Table, room: int | None) -> list[int]:
    """Column widths of the second form: spare room goes to names, then words, sentences, headings."""
    parts = [
        [
            part
            for cell in (heading, *cells)
            for part in (cell.split() if cell == heading or number in table.words else [cell])
        ]
        for number, (heading, *cells) in enumerate(zip(table.columns, *table.rows, strict=True))
    ]
    least = [max(map(len, words), default=1) for words in parts]
    whole = [max(map(len, cells)) for cells in zip(*table.rows, strict=True)] or least
    whole[0], least[0] = max(least[0], whole[0]), min(least[0], _MIN_NAME)
    spare = 0 if room is None else room - sum(least) - _PADDING * len(least)
    names = sorted({0, *table.words})
    others = [(number, len(heading)) for number, heading in enumerate(table.columns)]
    sentences = [number for number in names if whole[number] > _LONG]
    if len(sentences) > 1:  # sentences share the remaining room
        names = [number for number in names if number not in sentences]
        left = max(0, spare - sum(max(0, whole[number] - least[number]) for number in names))
        total = sum(whole[number] - least[number] for number in sentences)
        for number in sentences:
            wider = min(whole[number] - least[number], left * (whole[number] - least[number]) // total)
            least[number], spare = least[number] + wider, spare - wider
    for number, wanted in [*((number, whole[number]) for number in names), *others]:
        wider = min(max(0, spare), max(0, wanted - least[number]))
        least[number], spare = least[number] + wider, spare - wider
    return least


def _blocks(table: Table) -> Iterator[RenderableType]:
    """The third form of a table: one block per row."""
    if table.title:
        yield f"\n{table.title}"
    for row in table.rows:
        block = Grid(box=None, show_header=False, padding=(0, 1))
        block.add_column(overflow="fold", style="bold")
        block.add_column(overflow="fold")
        for heading, cell in zip(table.columns, row, strict=True):
            if cell:
                block.add_row(heading, cell)
        yield ""
        yield block
    yield ""


def _bars(drawn: ValueRows, room: int) -> Iterator[RenderableType]:
    """Draw intervals with characters, one per line."""
    names = [value.label for value in drawn.values]
    left = min(max(map(len, names)), room // 3)
    width = max(10, min(_WIDEST_BARS, room - left - 4))
    ends = [end for value in drawn.values for end in (value.value, *(value.thin or ()))]
    ends += [0.0] if drawn.zero else []
    low, high = min(ends), max(ends)

    def at(number: float) -> int:
        return round((number - low) / ((high - low) or 1.0) * (width - 1))

    yield ""
    for name, value in zip(names, drawn.values, strict=True):
        cells = [" "] * width
        if drawn.zero:
            cells[at(0.0)] = "┊"
        if value.thin is not None:
            first, last = at(value.thin[0]), at(value.thin[1])
            cells[first : last + 1] = "─" * (last - first + 1)
        cells[at(value.value)] = "●"
        if len(name) > left:  # the name gets lines of its own
            yield Text(f"  {name}", overflow="fold")
        yield Text(f"  {name if len(name) <= left else '':<{left}} {''.join(cells).rstrip()}")
    scale = figures(low).ljust(width - len(figures(high))) + figures(high)
    yield Text(f"  {'':<{left}} {scale}")
    yield Text(f"  {'':<{left}} {' '.join(drawn.x_label.split())}. {drawn.words}", overflow="fold")
