"""Locate the table in a text: the row of column names, and rows that hold no data."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
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
_RULER = re.compile(r"^[ \t|:+=]*-{3,}[ \t|:+=-]*[\r\n]*$", re.M)  # of a table as text
_TOTAL = re.compile(
    r"(?i)((grand|sub|over-?all)[ -]?)?"
    r"(totals?|sum|summe|gesamt(summe)?|insgesamt|totaux|average|mean|mittelwert|durchschnitt)\b[\s:.]*"
)

SheetRow = tuple[int, tuple[str, ...]]  # a row's line, and its cells


@dataclass(frozen=True)
class Layout:
    """The text of a table from its header on, and the lines above.

    Attributes:
        text: without the lines that are left out.
        lines: the line in the file of each line of the text.
        above: the lines above, as they stand.
        findings: what was left out.
    """

    text: str
    lines: Sequence[int]
    above: str = ""
    findings: tuple[Finding, ...] = ()


def lay_out(
    name: str,
    text: str,
    guess: Callable[[str], str],
    header: int | None = None,
    comment: str | None = None,
    skip: Sequence[range] = (),
) -> Layout:
    """Find the header.

    Args:
        guess: finds the delimiter of a text.
        header: the line that has them; None to find it.
        comment: the mark of lines to leave out.
        skip: lines to leave out.
    """
    of_rulers = _RULER.search(text, 0, _HEAD_CHARACTERS) is not None
    special = header is not None or comment or skip or of_rulers or text.lstrip().startswith("#")
    long = not special and len(text) > _HEAD_CHARACTERS
    every = _split(text[:_HEAD_CHARACTERS])[:-1] if long else _split(text)
    if header is not None and not 1 <= header <= len(every):
        raise InputError(f"--header {header}: {name!r} has {count(len(every), 'line')}; give one of them")
    rulers = {k for k, line in enumerate(every[:_HEAD_LINES], 1) if _RULER.fullmatch(line)}
    left_out = {k for part in skip for k in part} | rulers
    marked = [k for k, line in enumerate(every, 1) if comment and line.startswith(comment)]
    kept = [k for k in range(1, len(every) + 1) if k not in left_out and k not in {*marked}]
    start, findings = (header, []) if header is not None else _header_of(every, kept, guess)
    if not special and not findings:
        return Layout(text, range(1, len(text) + 2))
    if long:
        every = _split(text)
        kept = list(range(1, len(every) + 1))
    above = "".join(every[: start - 1])
    lines = [k for k in kept if k >= start]
    first = every[start - 1]
    body = [
        first.lstrip("#").lstrip() if first.startswith("#") else first,
        *(every[k - 1] for k in lines if k > start),
    ]
    for what, gone in (("comments", marked), ("skipped", sorted(left_out & {*range(1, len(every) + 1)}))):
        if gone:
            at = [CellAt(-1, k, every[k - 1].rstrip("\r\n")) for k in gone]
            findings.append(finding(what, None, at, f"{count(len(gone), 'line')} left out", "", RECORD))
    return Layout("".join(body), [start, *(k for k in lines if k > start)], above, tuple(findings))


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
    first, second, below = rows[place], rows[place + 1], rows[place + 2 :]
    if all(is_number(cell) for cell in first) and len(first) == len(second):
        of_numbers = _columns_of_numbers(below, len(first))
        words = [j for j in of_numbers if second[j].strip() and cell_of(second[j].strip()) is None]
        if of_numbers and 2 * len(words) > len(of_numbers):
            return place + 1
    return place


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
    at = [CellAt(-1, k, every[k - 1].rstrip("\r\n")) for k in gone]
    if not at:
        return start, []
    marked = all(every[k - 1].startswith("#") for k in gone)
    n_lines, are = count(len(at), "line"), "is" if len(at) == 1 else "are"
    note = f"{n_lines} above the names of the columns (line {start}) {are} left out"
    return start, [finding("comments" if marked else "header", None, at, note, f"--header {gone[0]}", LOOK)]


def apart(
    columns: Sequence[Any], names: Sequence[str], lines: Sequence[int]
) -> tuple[int, int, tuple[int, ...], list[Finding]]:
    """Find rows that hold no data.

    Args:
        columns: chunked arrays of text, without the names.
        names: of the columns.
        lines: the line of each row.

    Returns:
        How many rows below the names hold units or other names, how many at the end are totals or footnotes,
        where rows repeat the names of the columns, and the findings.
    """
    if len(columns) < 2 or len(columns[0]) <= _ENOUGH:
        return 0, 0, (), []
    n = len(columns[0])

    def rows(start: int, stop: int) -> list[tuple[str, ...]]:
        return list(zip(*(column.slice(start, stop - start).to_pylist() for column in columns), strict=True))

    top = rows(0, min(n, _HEAD_LINES))
    n_head = 0
    while n_head < 2 and _is_of_units(top[n_head], top[n_head + 1 :]):
        n_head += 1
    end = rows(max(n_head, n - _HEAD_LINES), n)
    n_foot = 0
    while n_foot < min(5, len(end) - _ENOUGH) and _foot(end, n_foot):
        n_foot += 1
    while n_foot and not any(cell.strip() for cell in end[len(end) - n_foot]):
        n_foot -= 1
    again = _repeated(columns, names)
    findings = []
    for what, places, found, noun in (
        ("units row", range(n_head), top[:n_head], "of units or names"),
        ("totals", range(n - n_foot, n), end[len(end) - n_foot :], "of totals or footnotes"),
    ):
        if found:
            at = [CellAt(-1, lines[k], _shown(row)) for k, row in zip(places, found, strict=True)]
            note = f"{count(len(at), 'row')} {noun} {'is' if len(at) == 1 else 'are'} no row of data"
            findings.append(finding(what, None, at, note, "", LOOK))
    if again:
        at = [CellAt(-1, lines[k], _shown(names)) for k in again]
        verb = "repeats" if len(at) == 1 else "repeat"
        note = f"{count(len(at), 'row')} {verb} the names of the columns: left out"
        findings.append(finding("header", None, at, note, "", LOOK))
    return n_head, n_foot, again, findings


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
    if len(cells) == 1 and len(of_numbers) == 1:
        (cell,) = cells.values()
        others = {j: cell.strip() for j, cell in enumerate(row) if j not in of_numbers and cell.strip()}
        if not others:
            return len(cell) <= 20
        # a row of questions: no cell of it comes again, though others do
        words = {j: [other[j].strip() for other in below] for j in others}
        again = any(2 * len({*each}) < len(each) for each in words.values())
        new = all(cell not in words[j] for j, cell in others.items())
        return again and new and len(cell.split()) > 1 and cell.casefold() not in CODES
    return 2 * len(cells) >= len(of_numbers) and len(cells) > 1


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
        and (len(text.split()) > 2 or text.startswith("*"))
        and not is_number(text)
    )


def _repeated(columns: Sequence[Any], names: Sequence[str]) -> tuple[int, ...]:
    """Indices of rows that repeat the header."""
    from pyarrow import compute

    from maskevidence.tables.reading.columns import arrow_texts

    column, name = next(((c, n) for c, n in zip(columns, names, strict=True) if n), (None, ""))
    if column is None or is_number(name):
        return ()
    equal = compute.is_in(column, arrow_texts([name], column.type))
    if not compute.any(equal).as_py():
        return ()
    places = compute.indices_nonzero(equal).to_pylist()
    return tuple(k for k in places if [c[k].as_py() for c in columns] == list(names))


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
