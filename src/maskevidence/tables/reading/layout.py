"""Locate the table in a text: the row of column names, and rows that hold no data."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from maskevidence.core.errors import InputError
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import MISSING, is_number
from maskevidence.core.support.sources import long_cells
from maskevidence.tables.reading.description import LOOK, RECORD, CellAt, Finding, finding
from maskevidence.tables.reading.numbers import CODES, cell_of

_HEAD_LINES, _HEAD_CHARACTERS = 60, 2**18
_MOST_ABOVE = 20  # lines above the names of the columns
_ROWS_AT_ONCE = 100
_ENOUGH = 3  # fewest rows of data to tell other rows from
_NUMBERS = 0.75  # share of numbers in a column below a row of units
LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_RULER = re.compile(r"^[ \t|:+=]*+---[ \t|:+=-]*+[\r\n]*$", re.M)  # of a table as text
_TOTAL = re.compile(
    r"(?i)((grand|sub|over-?all)[ -]?)?"
    r"(totals?|sum|summe|gesamt(summe)?|insgesamt|totaux|average|mean|mittelwert|durchschnitt)\b[\s:.]*"
)

SheetRow = tuple[int, tuple[str, ...]]  # a row's line, and its cells


def lay_out(
    name: str,
    text: str,
    guess: Callable[[str], str],
    header: int | None = None,
    comment: str | None = None,
    skip: Sequence[range] = (),
) -> tuple[str, Sequence[int], str, list[Finding]]:
    """Find the header.

    Args:
        guess: finds the delimiter of a text.
        header: the line that has the names; None to find it.
        comment: the mark of lines to leave out.
        skip: lines to leave out.

    Returns:
        The text from the header on, without lines that are left out; the number of each line in the file; the
        text above; and findings.
    """
    of_rulers = _RULER.search(text, 0, _HEAD_CHARACTERS) is not None
    special = header is not None or comment or skip or of_rulers or text.lstrip().startswith("#")
    long = not special and len(text) > _HEAD_CHARACTERS
    every = _split(text[:_HEAD_CHARACTERS])[:-1] if long else _split(text)
    if header is not None and not 1 <= header <= len(every):
        raise InputError(f"--header {header}: {name!r} has {count(len(every), 'line')}; give one of them")
    numbers = range(1, len(every) + 1)
    gone = {k for k in numbers[:_HEAD_LINES] if _RULER.fullmatch(every[k - 1])}
    gone |= {k for part in skip for k in part if k in numbers}
    marked = [k for k in numbers if comment and every[k - 1].startswith(comment)]
    kept = [k for k in numbers if k not in gone and k not in {*marked}]
    start, findings = (header, []) if header is not None else _header_of(every, kept, guess)
    if not special and not findings:
        return text, range(1, len(text) + 2), "", []
    if long:
        every = _split(text)
        kept = list(range(1, len(every) + 1))
    lines = [start, *(k for k in kept if k > start)]
    names = every[start - 1]
    body = [
        names.lstrip("#").lstrip() if names.startswith("#") else names,
        *(every[k - 1] for k in lines[1:]),
    ]
    for what, places in (("comments", marked), ("skipped", sorted(gone))):
        if places:
            note = f"{count(len(places), 'line')} left out"
            findings.append(finding(what, None, _lines_at(every, places), note, "", RECORD))
    return "".join(body), lines, "".join(every[: start - 1]), findings


def numbered_rows(
    lines: Iterable[str], delimiter: str, escape: str | None = None, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """The rows of a CSV text, each with its first line, from 1."""
    before, reader = 1, csv.reader(lines, delimiter=delimiter, escapechar=escape, strict=strict)
    failure: csv.Error | None = None
    rows: list[tuple[list[str], int]] | None = None
    while rows is None or (rows and failure is None):
        rows = []
        with long_cells():  # not while the caller has a row, since it may never ask for the next
            try:
                rows += ((row, reader.line_num) for row in islice(reader, _ROWS_AT_ONCE))
            except csv.Error as error:
                failure = error
        for row, end in rows:
            yield before, row
            before = end + 1
    if failure is not None:
        raise failure


def is_blank(row: Sequence[str]) -> bool:
    """Whether a row is a blank line."""
    return len(row) < 2 and not "".join(row).strip()


def _split(text: str) -> list[str]:
    """The lines of a text with their ends."""
    return [line[0] for line in re.finditer(LINE, text)]


def _lines_at(every: Sequence[str], places: Sequence[int]) -> list[CellAt]:
    """Lines of a text, by their numbers from 1."""
    return [CellAt(-1, k, every[k - 1].rstrip("\r\n")) for k in places]


def _place_of_names(rows: Sequence[Sequence[str]]) -> int:
    """The index of the header among the first rows that are not blank."""
    width = Counter(len(row) for row in rows).most_common(1)[0][0] if rows else 0
    if width < 2 or sum(len(row) >= width for row in rows) < _ENOUGH:
        return 0

    def is_title(row: Sequence[str]) -> bool:
        n_full = sum(bool(cell.strip()) for cell in row)
        if len(row) < width:
            return len(row) < width - 1 or width == 2
        return width > 2 and n_full < 2 and len(rows) > 2 * _ENOUGH

    place = next((k for k, row in enumerate(rows[: _MOST_ABOVE + 1]) if not is_title(row)), 0)
    if len(rows) < place + 1 + _ENOUGH:
        return 0 if len(rows) < 1 + _ENOUGH else place
    names = place  # below rows of which half of the cells are empty, or numbers in the place of names
    if all(is_number(cell) for cell in rows[place]):
        names += 1
    while names < min(len(rows) - _ENOUGH, _MOST_ABOVE) and _is_half_empty(rows[names]):
        names += 1
    if names > place and sum(bool(cell.strip()) for cell in rows[names]) == width:
        of_numbers = _columns_of_numbers(rows[names + 1 :], width)
        words = [j for j in of_numbers if not is_number(rows[names][j])]
        if of_numbers and 2 * len(words) > len(of_numbers):
            return names
    return place


def _is_half_empty(row: Sequence[str]) -> bool:
    """Whether half of the cells hold nothing, as in a row of titles or merged names."""
    return 2 * sum(bool(cell.strip()) for cell in row) <= len(row)


def _columns_of_numbers(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """The columns with nothing but numbers in these rows."""
    found = []
    for j in range(width):
        cells = [row[j].strip() for row in rows if j < len(row)]
        cells = [cell for cell in cells if cell not in MISSING and cell.casefold() not in CODES]
        n = sum(cell_of(cell) is not None for cell in cells)
        if n and n >= _NUMBERS * len(cells):
            found.append(j)
    return found


def _header_of(
    every: Sequence[str], kept: Sequence[int], guess: Callable[[str], str]
) -> tuple[int, list[Finding]]:
    """The line of the header, and findings on the lines above."""
    full = [k for k in kept if every[k - 1].strip()]
    n_marked = next((n for n, k in enumerate(full) if not every[k - 1].startswith("#")), len(full))
    rest = full[n_marked:]
    if not rest:
        return 1, []
    kept_lines = [k for k in kept if k >= rest[0]]
    lines = [every[k - 1] for k in kept_lines]
    delimiter = guess("".join(lines))
    first = numbered_rows(lines[:_HEAD_LINES], delimiter)
    rows = [(line, row) for line, row in first if "".join(row).strip()]
    place = _place_of_names([row for _, row in rows])
    if not place and not n_marked and len(kept) == len(every):
        return rest[0], []
    start = kept_lines[rows[place][0] - 1]
    if n_marked and place == 0:
        last = full[n_marked - 1]
        names = next(csv.reader([every[last - 1].lstrip("#").strip()], delimiter=delimiter), [])
        if len(names) == len(rows[0][1]) > 1 and all(is_number(cell) for cell in rows[0][1]):
            start = last
    gone = [k for k in full if k < start]
    if not gone:
        return start, []
    at = _lines_at(every, gone)
    marked = all(every[k - 1].startswith("#") for k in gone)
    n_lines, are = count(len(at), "line"), "is" if len(at) == 1 else "are"
    note = f"{n_lines} above the names of the columns (line {start}) {are} left out"
    what, option = ("comments", "") if marked else ("header", f"--header {gone[0]}")
    return start, [finding(what, None, at, note, option, LOOK)]


def apart(
    columns: Any, lines: Sequence[int], below: Sequence[SheetRow], headless: bool
) -> tuple[range, Sequence[int], range, list[Finding]]:
    """Find rows that hold no data: of units, of totals and footnotes, and those that repeat the header.

    Args:
        columns: a `pyarrow.Table` of text.
        lines: the line of each row.
        below: short lines below the table, which were found before.
        headless: whether no row names the columns.

    Returns:
        The rows of units or second names below the names, those of data, those of totals, and the findings.
    """
    n, names, n_head, n_foot, again = columns.num_rows, columns.column_names, 0, 0, list[int]()

    def rows(start: int, stop: int) -> list[tuple[str, ...]]:
        part = columns.slice(start, stop - start)
        return list(zip(*(column.to_pylist() for column in part.columns), strict=True))

    if len(names) > 1 and n > _ENOUGH and not headless:
        top = rows(0, min(n, _HEAD_LINES))
        while n_head < 2 and _is_of_units(top[n_head], top[n_head + 1 :]):
            n_head += 1
        end = rows(max(n_head, n - _HEAD_LINES), n)
        while n_foot < min(5, len(end) - _ENOUGH) and _foot(end, n_foot):
            n_foot += 1
        again = _repeated(columns.columns, names)
    head, foot = range(n_head), range(n - n_foot, n)
    at = [CellAt(-1, lines[k], _shown(rows(k, k + 1)[0])) for k in (*head, *foot, *again)]
    at += [CellAt(-1, line, row[0]) for line, row in below]
    findings = []
    for what, n_rows, noun, rest in (
        ("units row", n_head, "row", " of units or names {} no row of data"),
        ("totals", n_foot, "row", " of totals or footnotes {} no row of data"),
        ("header", len(again), "row", " {} the names of the columns: left out"),
        ("totals", len(below), "line", " below the table {} no row of data"),
    ):
        verb = ("repeats", "repeat") if what == "header" else ("is", "are")
        if n_rows:
            note = count(n_rows, noun) + rest.format(verb[n_rows > 1])
            findings.append(finding(what, None, at[:n_rows], note, "", LOOK))
        at = at[n_rows:]
    data = range(n_head, n - n_foot)
    return head, [k for k in data if k not in {*again}] if again else data, foot, findings


def _shown(cells: Sequence[str]) -> str:
    """The first cells of a row that are not empty."""
    return ", ".join([cell.strip() for cell in cells if cell.strip()][:4])


def _is_of_units(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Whether a row holds units, or second names, above columns of numbers."""
    below = below[:_HEAD_LINES]
    of_numbers = _columns_of_numbers(below, len(row)) if len(below) >= _ENOUGH else []
    cells = {j: row[j].strip() for j in of_numbers if row[j].strip() not in MISSING}
    if not cells or any(
        re.search("[0-9]", re.sub(r"(?<=[^\W\d_])\^?-?[123]", "", cell)) for cell in cells.values()
    ):
        return False
    if any(not any(letter.isalpha() or letter in "%°‰$€£" for letter in cell) for cell in cells.values()):
        return False
    if len(cells) > 1 or len(of_numbers) > 1:
        return len(cells) > 1 and 2 * len(cells) >= len(of_numbers)
    alone = "".join(cell.strip() for cell in row)
    return alone in cells.values() and len(alone) <= 20


def _foot(rows: Sequence[Sequence[str]], n_below: int) -> bool:
    """Whether a row at the end is a total, a footnote, or a blank line above one."""
    row = rows[len(rows) - 1 - n_below]
    full = [(j, cell.strip()) for j, cell in enumerate(row) if cell.strip()]
    if not full:
        return n_below > 0 and n_below < 5
    above = rows[: len(rows) - 1 - n_below]
    place, text = full[0]
    others = {other[place].strip() for other in above}
    if _TOTAL.fullmatch(text) and text not in others and len(full) > 1:
        return True
    alone = len(full) == 1 and len(row) > 2 and place == 0
    many = sum(sum(bool(cell.strip()) for cell in other) > 1 for other in above[-20:])
    return (
        alone
        and 2 * many > len(above[-20:])
        and (len(text.split()) > 2 or not text[0].isalnum())
        and not is_number(text)
    )


def _repeated(columns: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Indices of rows that repeat the header."""
    from pyarrow import compute

    from maskevidence.tables.reading.columns import arrow_texts

    column, name = next(((c, n) for c, n in zip(columns, names, strict=True) if n), (None, ""))
    if column is None or is_number(name):
        return []
    places = compute.indices_nonzero(compute.is_in(column, arrow_texts([name], column.type))).to_pylist()
    return [k for k in places if [c[k].as_py() for c in columns] == list(names)]


def mended(
    name: str, text: str, delimiter: str, width: int
) -> tuple[list[tuple[int, list[str]]], list[str], list[SheetRow]]:
    r"""Read rows of unequal width: an escaped delimiter (\,), a last separator that is missing, footnotes.

    Returns:
        The rows with their lines, notes, and footnotes.
    """

    def read(escape: str | None) -> list[tuple[int, list[str]]]:
        rows = numbered_rows(io.StringIO(text, newline=""), delimiter, escape, strict=True)
        return [(line, row) for line, row in rows if not is_blank(row)]

    irregular, notes, foot = f"{name!r} is not a regular CSV table", list[str](), list[SheetRow]()
    try:
        rows = read(None)
        if f"\\{delimiter}" in text and any(len(row) > width for _, row in rows):
            rows = read("\\")
            notes.append(f"a backslash before a {delimiter!r} makes it part of a cell")
    except csv.Error as error:
        raise InputError(f"{irregular}: it has quotes that are not closed ({error})") from error
    while width > 1 and rows and len(rows[-1][1]) < max(width - 1, 2) and _is_note(rows[-1][1]):
        line, cells = rows.pop()
        foot.insert(0, (line, (*cells, *[""] * (width - len(cells)))))
    data = rows[1:]
    short = [line for line, row in data if len(row) == width - 1]
    if short and not any(row[-1].strip() for _, row in data if len(row) == width):
        notes.append(f"{count(len(short), 'row')} without the last separator: their last cell is empty")
        rows = [(line, [*row, ""] if len(row) == width - 1 else row) for line, row in rows]
    if all(len(row) == width + 1 and not row[-1].strip() for _, row in data):
        rows = [rows[0], *((line, row[:-1]) for line, row in data)]
    for line, row in rows:
        if len(row) != width:
            raise InputError(f"{irregular}: it has {len(row)} cells in line {line}, {width} above")
    return rows, notes, foot


def _is_note(row: Sequence[str]) -> bool:
    """Whether a short last row is a footnote: only its first cell holds words."""
    text = row[0].strip()
    return not any(cell.strip() for cell in row[1:]) and (len(text.split()) > 1 or text.startswith("*"))
