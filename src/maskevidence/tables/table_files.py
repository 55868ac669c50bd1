"""Read tables of numbers from files by pandas and pyarrow, check their columns, and write tables."""

import codecs
import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError, missing_extra
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import (
    MAX_WHOLE,
    MISSING,
    NUMBER,
    check_memory,
    is_number,
    some_of,
    typed,
    word_of,
)
from maskevidence.core.support.files import CsvText, reading, write_atomic
from maskevidence.core.support.sources import (
    check_distinct,
    check_utf_8,
    is_remote,
    lines_of,
    long_cells,
    name_in,
    read_remote,
    reading_parquet,
    utf_8_text,
)
from maskevidence.core.table import Table, column_of, note_on_codes, note_on_copies, place_of

SUFFIXES = (".csv", ".tsv", ".parquet", ".feather", ".npy")
ENDINGS = (".csv", ".tsv", ".parquet", ".feather")  # of tables to write
MAX_MAGNITUDE = 1e100  # squares and their sums stay finite
MAX_CATEGORIES = 50
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_CHUNK = 2**26  # bytes unpacked per chunk
_COPIES = 3  # copies of a CSV file's text in memory while it is read
_HEAD = 2**13  # characters or cells inspected to guess a CSV file's format
_MAX_TYPED = 30  # columns in an option suggested by an error
_FEW_WORDS = 3  # words among numbers that may mark missing values
_ENOUGH_ROWS = 5  # fewest rows to call a column an index
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_END = "\0"  # cells of the row that marks the end of a CSV file
_MAX_SHOWN = 60  # characters of a cell quoted in an error
TRUE, FALSE = ["1", "true", "TRUE", "True"], ["0", "false", "FALSE", "False"]


@dataclass(frozen=True)
class RawTable:
    """A file's columns before conversion to numbers."""

    name: str  # the file, as the user named it
    columns: Any  # a `pyarrow.Table`; cells of a CSV file are text
    first_line: int = 0  # of a CSV file, the line of the first row; 0 for other files
    notes: tuple[str, ...] = ()  # the reader's guesses, one sentence each
    delimiter: str = ","  # between the cells of a CSV file
    decimal: str = "."  # the decimal mark of a CSV file
    index: str | None = None  # the column in which pandas stored the index, if any
    lines: Sequence[int] | None = None  # of a CSV file, the line of each row; None for other files


@dataclass(frozen=True)
class ColumnSelection:
    """Which columns of a file to use, and how."""

    columns: Sequence[str] | None = None  # the columns to use, in this order; None for all
    drop: Sequence[str] = ()  # columns to leave out
    id_column: str | None = None  # the column with the rows' names; not data
    one_hot: Sequence[str] = ()  # columns to encode as 0 and 1
    missing: Sequence[str] = ()  # words and numbers that mark missing values
    # whether to read columns of text as categories, coded by position among their words
    words: bool = False
    categories: Sequence[str] = ()  # columns to read as categories, whatever they hold; with `words`
    # columns to read as numbers, even with only two values; with `words`
    numbers: Sequence[str] = ()


def read_table(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    id_column: str | None = None,
    one_hot: Sequence[str] = (),
    delimiter: str | None = None,
    missing: str | float | Sequence[str | float] = (),
    words: bool = False,
    categories: Sequence[str] = (),
    numbers: Sequence[str] = (),
) -> Table:
    """Read a table of numbers; an empty CSV cell, NA, NaN or null is a missing value.

    Args:
        path: a .csv, .tsv, .parquet or .feather file, or a .npy file with a two-dimensional array; or an
            address such as "s3://bucket/table.parquet", which fsspec reads. CSV files may be compressed
            (.csv.gz). Their first line names the columns, unless it holds numbers only: then it is data, and
            a note says so.
        columns: the columns to use, in this order; by default all.
        drop: columns to leave out.
        id_column: the column that names the rows: it gives the `labels`, and is not data.
        one_hot: columns of categories; every category but the first becomes a column of 0 and 1.
        delimiter: the character that separates the cells of a CSV file; by default a comma, or a semicolon,
            tab or bar if that cuts the first lines evenly.
        missing: words and numbers that stand for missing values, too, such as ["?", -999].
        words: whether a column of text is a category, for `MaskedNetwork`: its values are positions among
            `levels`, its words.
        categories: columns that are categories, whatever they hold; with `words`.
        numbers: columns that are numbers, even if they hold two different ones; with `words`.

    Raises:
        InputError: a file that is missing, empty, damaged or of another kind; text or an infinite value in a
            column (the message names all such columns); a row or column without any value.
        MissingExtraError: the package that reads an address is not installed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "table.csv"
        >>> _ = path.write_text("name;a;b\\nx;1;2\\ny;3;?\\n")
        >>> table = read_table(path, id_column="name", missing=["?"])
        >>> table.values.tolist(), table.columns, table.labels
        ([[1.0, 2.0], [3.0, nan]], ('a', 'b'), ('x', 'y'))
    """
    raw = read_raw(path, delimiter)
    markers = tuple(map(str, [missing] if isinstance(missing, str | int | float) else missing))
    selection = ColumnSelection(columns, drop, id_column, one_hot, markers, words, categories, numbers)
    table = to_table(raw, selection)
    refuse_empty_columns(table)
    return table


def digits() -> Table:
    """The 1,797 handwritten digits that scikit-learn bundles: 8×8 pixels of 0..16, as 64 columns.

    Example:
        >>> digits().values.shape
        (1797, 64)
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise missing_extra("scikit-learn", "sklearn", "the digits data set")
    # read here because sklearn.datasets takes seconds to import
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    values = np.loadtxt(file, delimiter=",")[:, :-1]
    names = [f"pixel_{row}_{column}" for row in range(8) for column in range(8)]
    return Table("digits", values, tuple(names), np.arange(len(values)))


def kind_of_file(name: str) -> str:
    """The file name's ending without that of a compression.

    Example:
        >>> kind_of_file("a.CSV.gz"), kind_of_file("a.parquet"), kind_of_file("a.parquet.gz")
        ('.csv', '.parquet', '.gz')
    """
    path = PurePosixPath(name.lower())
    inner = PurePosixPath(path.stem).suffix
    return inner if path.suffix in _COMPRESSIONS and inner in (".csv", ".tsv") else path.suffix


def check_file(name: str) -> None:
    """Refuse a path without a file; addresses are checked when they are read."""
    if kind_of_file(name) in SUFFIXES and not is_remote(name) and not Path(name).is_file():
        raise InputError(f"there is no file {name!r}; check the path")


def read_raw(path: str | Path, delimiter: str | None = None) -> RawTable:
    """Read the columns of a file.

    Args:
        path: a file or an address, with one of the endings of `SUFFIXES`; a CSV file may be compressed
            (.csv.gz).
        delimiter: one ASCII character that separates the cells of a CSV file; by default it is guessed.
    """
    name, remote = str(path), is_remote(str(path))
    kind = kind_of_file(name_in(name) if remote else name)
    if kind not in SUFFIXES:
        raise InputError(f"{name!r} is not a {', '.join(SUFFIXES)} file; convert it to one of these")
    if delimiter is not None and kind not in (".csv", ".tsv"):
        raise InputError(f"--delimiter belongs to CSV tables; leave it out for {name!r}")
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise InputError(f"--delimiter {delimiter!r}; give one character of ASCII, such as ';', or tab")
    check_file(name)
    content = _content(name, remote)
    if not content:
        raise InputError(f"{name!r} is empty; give a table with at least one row")
    if kind == ".npy":
        return _read_npy(name, content)
    if kind in (".csv", ".tsv"):
        return _read_csv(name, content, "\t" if kind == ".tsv" and delimiter is None else delimiter)
    return _read_columns(name, content, kind)


def _content(name: str, remote: bool) -> bytes:
    """The content of a file or address, decompressed."""
    import pyarrow as pa

    compression = _COMPRESSIONS.get(PurePosixPath(name_in(name).lower() if remote else name.lower()).suffix)
    with reading(Path(name)):
        content = read_remote(name) if remote else Path(name).read_bytes()
    if compression is None or not content:
        return content
    chunks, n_bytes = list[bytes](), 0
    try:
        with pa.input_stream(pa.py_buffer(content), compression=compression) as stream:
            while chunk := stream.read(_CHUNK):
                chunks.append(chunk)
                n_bytes += len(chunk)
                size = f"{n_bytes / 2**30:,.1f} GiB and more of {name!r}, unpacked,"
                check_memory(_COPIES * n_bytes, size, "give fewer rows")
        return b"".join(chunks)
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{name!r} cannot be read ({reason}); check the file") from error


def _read_npy(name: str, content: bytes) -> RawTable:
    """Read a two-dimensional array; its columns are named c0, c1, ..."""
    import pyarrow as pa

    try:
        values = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError, SyntaxError, BadZipFile) as error:
        raise InputError(f"{name!r} cannot be read as a .npy array of numbers: {error}") from error
    if not isinstance(values, np.ndarray):
        values.close()
        raise InputError(f"{name!r} is an .npz archive of arrays; save one (N, D) array with numpy.save")
    if values.ndim != 2 or values.dtype.kind not in "buif":
        raise InputError(
            f"{name!r} holds shape {values.shape} of {values.dtype}; save an (N, D) array of numbers"
        )
    values = values.astype(np.float64) if values.dtype.kind == "f" else values
    columns = {f"c{j}": pa.array(np.ascontiguousarray(values[:, j])) for j in range(values.shape[1])}
    return RawTable(name, pa.table(columns))


def _read_columns(name: str, content: bytes, kind: str) -> RawTable:
    """Read a Parquet or Feather file with its types, and find the index column that pandas stored."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    form, read = ("Parquet", parquet.read_table) if kind == ".parquet" else ("Feather", feather.read_table)
    with reading_parquet(Path(name), form):
        table = read(pa.BufferReader(content))
    views = [field for field in table.schema if pa.types.is_string_view(field.type)]
    for field in views:  # most of pyarrow does not take string views
        number = table.schema.get_field_index(field.name)
        table = table.set_column(number, field.name, table.column(number).cast(pa.large_string()))
    check_utf_8(name, table)
    try:
        stored = (table.schema.pandas_metadata or {}).get("index_columns", ())
        index = [column for column in stored if column in table.column_names]
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{name!r} has metadata of pandas that cannot be read; write it again") from error
    return RawTable(name, table, index=index[0] if len(index) == 1 else None)


def _read_csv(name: str, content: bytes, delimiter: str | None) -> RawTable:
    """Read a CSV file with all cells as text; the first line has the names unless it holds numbers only."""
    text = utf_8_text(name, content)
    if "\0" in text:  # which no text has, and which ends the cells here
        raise InputError(f"{name!r} has a zero byte, which no text has; save it as UTF-8 text")
    guessed, delimiter = delimiter is None, delimiter or _guessed_delimiter(text)
    cells = _cells(name, content.removeprefix(codecs.BOM_UTF8), text, delimiter)
    notes = []
    if guessed and delimiter != "," and cells.num_columns > 1:
        notes.append(f"cells are separated by {'tabs' if delimiter == chr(9) else repr(delimiter)}")
    lines, blank = _lines(text, delimiter, cells.num_rows, cells.num_columns)
    if blank:
        left_out = count(len(blank), "blank line") + (" is" if len(blank) == 1 else " are")
        notes.append(f"{left_out} no row of the table (first: line {blank[0]})")
    decimal = _decimal(name, cells, lines) if delimiter != "," else "."
    if decimal == ",":
        notes.append("numbers are read with a decimal comma")
    first = [column[0].as_py() for column in cells.columns]
    numbers = [cell for cell in first if is_number(cell.replace(decimal, "."))]
    headless = len(numbers) == len(first)
    shown = [repr(cell) for cell in numbers if cell.strip() not in MISSING]
    if headless:
        notes.append("the first line holds numbers only and was read as data")
    elif shown:
        some = ", ".join(shown[:3]) + (", ..." if len(shown) > 3 else "")
        notes.append(f"the first line was taken for the names of the columns, though {some} are numbers")
    names = [f"c{j}" for j in range(len(first))] if headless else first
    start = 0 if headless else 1
    table = cells.slice(start).rename_columns(names)
    return RawTable(name, table, start + 1, tuple(notes), delimiter, decimal, lines=lines[start:])


def _cells(name: str, content: bytes, text: str, delimiter: str) -> Any:
    """The cells of a CSV file as text, a `pyarrow.Table`; refuses rows of other widths, and open quotes."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    with long_cells():
        rows = csv.reader((line[0] for line in re.finditer(_LINE, text)), delimiter=delimiter)
        width = next((len(row) for row in rows if len(row) > 1 or "".join(row).strip()), 0)
    if not width:
        raise InputError(f"{name!r} has no rows; give a table with at least one")
    blank = " \t".replace(delimiter, "")
    content = re.sub(rf"\A(?:[{blank}]*[\r\n])+".encode(), b"", content)
    if width == 1:  # a blank line between others is a cell
        content = content.rstrip(f"{blank}\r\n".encode())
    end = [_END] * width  # a row of its own if all quotes are closed
    last = "\n" + delimiter.join(end)
    try:
        cells = arrow_csv.read_csv(
            pa.py_buffer(content + last.encode()),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, block_size=_CHUNK, autogenerate_column_names=True
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                ignore_empty_lines=width > 1,
                invalid_row_handler=lambda row: "error" if row.text.strip(blank) else "skip",
            ),
            convert_options=arrow_csv.ConvertOptions(
                check_utf8=False, column_types={f"f{j}": pa.large_string() for j in range(width)}
            ),
        )
        if [column[-1].as_py() for column in cells.columns] != end:
            raise pa.ArrowInvalid("its quotes are not those of a CSV file")
    except pa.ArrowInvalid as error:
        _check_widths(name, text + last, delimiter, end)
        reason = str(error).splitlines()[0].removeprefix("CSV parse error: ")
        raise InputError(f"{name!r} is not a regular CSV table: {reason}") from error
    return cells.slice(0, cells.num_rows - 1)


def _guessed_delimiter(text: str) -> str:
    """Guess the delimiter: the mark of ; tab | , that cuts the first lines evenly, or occurs in the first."""
    lines = lines_of(text[:_HEAD])
    lines = lines if len(text) <= _HEAD else lines[:-1] or lines  # complete lines only
    sniffer = csv.Sniffer()
    sniffer.preferred = [";", "\t", "|", ","]
    try:
        return sniffer.sniff("\n".join(lines), ";\t|,").delimiter
    except csv.Error:
        first = next(filter(None, lines), "")
        return next((mark for mark in ";\t|" if mark in first), ",")


def _check_widths(name: str, text: str, delimiter: str, end: list[str]) -> None:
    """Refuse open quotes, and rows with more or fewer cells than the first one; `end` is the last row."""
    wrong, row = None, list[str]()
    with long_cells():
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        for row in rows:
            blank = len(row) < 2 and not "".join(row).strip()
            if len(row) != len(end) and not blank and wrong is None:
                wrong = f"{len(row)} cells in line {rows.line_num}, {len(end)} above"
    if row != end:
        wrong = "quotes that are not closed"
    if wrong:
        raise InputError(f"{name!r} is not a regular CSV table: it has {wrong}")


def _lines(text: str, delimiter: str, n_rows: int, n_columns: int) -> tuple[Sequence[int], Sequence[int]]:
    """The line of each row of a CSV file, as cells may span lines; and the blank lines between rows."""
    if text.count("\n") + (not text.endswith("\n")) == n_rows:
        return range(1, n_rows + 1), ()
    found, blank, line = list[int](), list[int](), 1
    with long_cells():
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        for row in rows:
            if "".join(row).strip() or len(row) > 1 or (n_columns == 1 and found):
                found.append(line)
            else:
                blank.append(line)
            line = rows.line_num + 1
    if len(found) < n_rows:
        return range(1, n_rows + 1), ()
    return found, [each for each in blank if found[0] < each < found[-1]]


def _decimal(name: str, cells: Any, lines: Sequence[int]) -> str:
    """The decimal mark in the first rows: a comma if a number has one, else a point."""
    some = cells.slice(0, 2 + _HEAD // cells.num_columns)
    head: Any = np.array([column.to_pylist() for column in some.columns], dtype=object).T
    with_comma, with_point = (
        next((place for place in np.ndindex(head.shape) if re.fullmatch(number, head[place])), None)
        for number in (r"\s*[+-]?\d+,\d+\s*", r"\s*[+-]?\d+\.\d+\s*")
    )
    if with_comma is not None and with_point is not None:
        comma, point = (
            f"{head[row, column]!r} in column {head[0, column]!r}, line {lines[row]}"
            for row, column in (with_comma, with_point)
        )
        raise InputError(
            f"{name!r} has numbers with a decimal comma ({comma}) and others with a decimal point ({point}); "
            "write all in one way"
        )
    return "," if with_comma is not None else "."


class _Unusable(NamedTuple):
    """Why a column cannot be read as numbers."""

    name: str  # of the column
    where: str  # line and text of the first bad cell, or the column's type
    words: frozenset[str]  # distinct bad cells, at most `_FEW_WORDS` + 1 of them
    among_numbers: bool  # whether other cells are numbers
    is_text: bool = True  # whether the cells are text and may be categories
    names_rows: bool = False  # whether all cells differ and may name the rows
    crowded: bool = False  # whether there are too many words for a category


def to_table(
    raw: RawTable,
    selection: ColumnSelection = ColumnSelection(),
    *,
    empty_rows: bool = False,
    notes: bool = True,
) -> Table:
    """Convert the selected columns of a file to float64, with notes or without, which take longer."""
    names = names_of(raw)
    if not raw.columns.num_columns or not raw.columns.num_rows:
        raise InputError(f"{raw.name!r} has no rows; give a table with at least one")
    id_column = raw.index if selection.id_column is None else selection.id_column
    used = _used_columns(raw.name, names, selection, id_column)
    cells = dict(zip(names, raw.columns.columns, strict=True))
    for name in [*selection.one_hot, *selection.categories, *([] if id_column is None else [id_column])]:
        _check_words(raw.name, name, cells[name].type)
    columns: dict[str, Float64[np.ndarray, " N"]] = {}
    levels: dict[str, tuple[str, ...]] = {}
    categories, unusable, crowded = {}, [], dict[str, int]()
    for name in used:
        if name in selection.one_hot:
            categories[name], parts = _encode(raw.name, name, cells[name], selection.missing)
        elif name in selection.categories:
            levels[name], values = _coded(cells[name], selection.missing)
            parts = {name: values}
        else:
            read = _numbers(name, cells[name], raw, selection.missing)
            if isinstance(read, _Unusable) and _may_be_category(read, selection):
                levels[name], values = _coded(cells[name], selection.missing)
                if _names_rows(levels[name], values):
                    crowded[name] = len(levels[name])
                    continue
            elif isinstance(read, _Unusable):
                unusable.append(read)
                continue
            else:
                values = read
            parts = {name: values}
        for twice in columns.keys() & parts.keys():
            raise InputError(f"{raw.name!r} would have two columns named {twice!r}; rename one")
        columns |= parts
    if unusable or crowded:
        refused = [_refusal(raw.name, unusable, selection)] if unusable else []
        refused += [_too_many_words(raw.name, crowded, raw.columns.num_rows)] if crowded else []
        raise InputError("; ".join([*refused, *_codes_of(columns)]))
    labels = None
    if id_column is not None:
        labels = tuple("" if cell is None else str(cell) for cell in cells[id_column].to_pylist())
    values = np.column_stack(list(columns.values()))
    table = Table(
        raw.name,
        values,
        tuple(columns),
        np.arange(len(values)),
        labels=labels,
        categories=categories,
        levels=levels,
        kinds=dict.fromkeys(selection.categories, "category") | dict.fromkeys(selection.numbers, "number"),
        lines=raw.lines,
    )
    _check_values(table, empty_rows)
    if not notes:
        return table
    guesses = _guesses(table) if selection.words else []
    return replace(table, notes=(*raw.notes, *_notes(table, raw, id_column), *guesses))


def _used_columns(
    name: str, names: list[str], selection: ColumnSelection, id_column: str | None
) -> list[str]:
    """The columns of data; every column named by an option must exist and be used."""
    said = [*selection.categories, *selection.numbers]
    _check_names(
        name, names, [*(selection.columns or ()), *selection.drop, *selection.one_hot, *said], id_column
    )
    chosen = names if selection.columns is None else list(selection.columns)
    left_out = {*selection.drop, id_column}
    used = [column for column in chosen if column not in left_out]
    if not used:
        raise InputError(f"no column of {name!r} is left; name one or more that are data")
    for column in selection.one_hot:
        if column not in used:
            raise InputError(
                f"--one-hot {column!r} is not among the columns that are used: {', '.join(used)}"
            )
    _check_kinds(selection, used)
    return used


def _check_kinds(selection: ColumnSelection, used: Sequence[str]) -> None:
    """Refuse --categories and --numbers for unused columns, and columns given two kinds."""
    for option, names in (("--categories", selection.categories), ("--numbers", selection.numbers)):
        if names and not selection.words:
            raise InputError(f"{option} is for masked-net, which takes columns of any kind; leave it out")
        for name in names:
            if name not in used:
                raise InputError(
                    f"{option} {name!r} is not among the columns that are used: {', '.join(used)}"
                )
    said = [*selection.categories, *selection.numbers, *selection.one_hot]
    for name in (name for number, name in enumerate(said) if name in said[:number]):
        raise InputError(f"column {name!r} has two of --categories, --numbers and --one-hot; give one")


def _may_be_category(column: "_Unusable", selection: ColumnSelection) -> bool:
    """Whether a column of text holds categories, rather than numbers with words for missing values."""
    if not selection.words or column.name in selection.numbers or not column.is_text:
        return False
    return not (column.among_numbers and len(column.words) <= _FEW_WORDS)


def _coded(column: Any, missing: Sequence[str]) -> tuple[tuple[str, ...], Float64[np.ndarray, " N"]]:
    """A column's distinct words in order, and its cells as positions among them."""
    absent = {*MISSING, *missing}
    cells = [word_of(cell) for cell in column.to_pylist()]
    levels = tuple(sorted({cell for cell in cells if cell not in absent}))
    position = {word: float(code) for code, word in enumerate(levels)}
    return levels, np.array([position.get(cell, np.nan) for cell in cells])


def _check_words(file: str, name: str, kind: Any) -> None:
    """Refuse a column of bytes, lists or structures: its cells are not words."""
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    binary = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if binary or types.is_nested(kind):
        raise InputError(
            f"{file!r} has values of type {kind} in column {name!r}, which are not words; write them as "
            f"text, or leave the column out (--drop {typed([name])})"
        )


def _codes_of(columns: dict[str, Float64[np.ndarray, " N"]]) -> list[str]:
    """Notes on likely codes for missing values, to be added to a refusal."""
    return note_on_codes(np.column_stack(list(columns.values())), list(columns)) if columns else []


def _names_rows(words: Sequence[str], values: Float64[np.ndarray, " N"]) -> bool:
    """Whether a column has so many distinct words that it seems to name the rows."""
    present = int((~np.isnan(values)).sum())
    all_differ = len(words) == present >= _ENOUGH_ROWS
    return all_differ or len(words) > max(MAX_CATEGORIES, len(values) / 2)


def _too_many_words(file: str, n_words: dict[str, int], n_rows: int) -> str:
    """The refusal of columns that seem to name the rows, with remedies."""
    option, naming = typed(list(n_words)), typed([max(n_words, key=lambda name: n_words[name])])
    if len(n_words) == 1:
        counts = f"column {next(iter(n_words))!r} has {max(n_words.values()):,} different words"
        that, them, category = "it", "it", "a category"
    else:
        named = ", ".join(f"{name!r} {n:,}" for name, n in n_words.items())
        counts = f"{len(n_words)} columns have many different words ({named})"
        that, them, category = "that", "them", "categories"
    return (
        f"{file!r}: {counts} in {n_rows:,} rows, too many for {category}: --drop {option} leaves {them} out, "
        f"--id-column {naming} takes {that} for the names of the rows, --categories {option} calls {them} "
        f"{category} all the same"
    )


def _guesses(table: Table) -> list[str]:
    """A note on the guessed kinds of columns; at most one sentence."""
    guessed: dict[str, list[str]] = {"categories": [], "yes/no": [], "numbers": []}
    for name, values in zip(table.columns, table.values.T, strict=True):
        if name in table.kinds:
            continue
        two = len(np.unique(values[~np.isnan(values)])) == 2
        guessed["categories" if name in table.levels else "yes/no" if two else "numbers"].append(name)
    parts = []
    for kind, names in guessed.items():
        if names:
            parts.append(f"{kind}: {some_of(names)}")
    return [f"{'; '.join(parts)} (say --categories or --numbers if that is wrong)"] if parts else []


def names_of(raw: RawTable) -> list[str]:
    """The names of a file's columns; a column without a name is named by its position, c0, c1, ..."""
    return [name or f"c{j}" for j, name in enumerate(raw.columns.column_names)]


def _check_names(file: str, names: list[str], chosen: Sequence[str], id_column: str | None) -> None:
    check_distinct(file, names)
    for name in [*chosen, *([] if id_column is None else [id_column])]:
        if name not in names:
            raise InputError(f"{file!r} has no column {name!r}; it has {', '.join(names)}")


def _numbers(
    name: str, column: Any, raw: RawTable, missing: Sequence[str]
) -> Float64[np.ndarray, " N"] | _Unusable:
    """Convert a column to float64 with NaN for missing values, or say why it cannot be converted."""
    import pyarrow as pa
    from pyarrow import types

    cells, kind = column, column.type
    if types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if types.is_string(kind) or types.is_large_string(kind):
        column = _from_text(name, column, raw, missing)
        if isinstance(column, _Unusable):
            return column
    elif types.is_null(kind):
        return np.full(len(column), np.nan)
    elif not (
        types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind) or types.is_decimal(kind)
    ):
        return _Unusable(
            name, f"values of type {kind}", frozenset([str(kind)]), among_numbers=False, is_text=False
        )
    values = _floats(column.cast(pa.float64(), safe=False))
    for marker in missing:
        if is_number(marker) and marker.strip() not in MISSING:
            values[values == float(marker)] = np.nan
    _check_exact(name, values, cells, raw)
    return values


def _floats(column: Any) -> Float64[np.ndarray, " N"]:
    """A column of float64, NaN where it is null; its own `to_numpy` imports pandas."""
    import pyarrow as pa
    from pyarrow import compute

    nan = _texts(["nan"], pa.large_string()).cast(pa.float64())[0]
    full = compute.if_else(compute.is_null(column), nan, column)
    return np.concatenate([np.empty(0), *map(np.from_dlpack, full.chunks)])


def _texts(texts: Sequence[str], kind: Any) -> Any:
    """Texts as an Arrow array; `pa.array` imports pandas, which takes a fifth of a small command."""
    import pyarrow as pa

    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(texts), buffers).cast(kind)


def _from_text(name: str, column: Any, raw: RawTable, missing: Sequence[str]) -> Any:
    """Convert cells of text to float64, with null for missing values and 0 and 1 for truth values."""
    import pyarrow as pa
    from pyarrow import compute

    cells = compute.utf8_trim_whitespace(column)
    absent = compute.is_in(cells, _texts(sorted({*MISSING, *missing}), column.type))
    cells = compute.if_else(absent, pa.nulls(1, column.type)[0], cells)
    if raw.decimal != ".":  # where the decimal mark is a comma
        cells = compute.replace_substring(compute.replace_substring(cells, ".", "_"), raw.decimal, ".")
    try:
        numbers = cells.cast(pa.float64())
        if not compute.any(compute.is_nan(numbers)).as_py():  # from a word such as nan(x)
            return numbers
    except pa.ArrowInvalid:
        pass
    wrong = compute.invert(compute.match_substring_regex(cells, NUMBER))
    if not compute.any(wrong).as_py():
        return compute.utf8_ltrim(cells, "+").cast(pa.float64())
    if compute.all(compute.is_in(compute.drop_null(cells), _texts(TRUE + FALSE, column.type))).as_py():
        true = compute.is_in(cells, _texts(TRUE, column.type)).cast(pa.float64())
        return compute.if_else(compute.is_null(cells), pa.nulls(1, pa.float64())[0], true)
    bad = np.flatnonzero(compute.fill_null(wrong, False).to_numpy())
    different = compute.unique(column.filter(compute.fill_null(wrong, False))).to_pylist()
    n_numbers = len(column) - cells.null_count - len(bad)
    where = f"{place_of(int(bad[0]), raw.lines)}: {_short(column[int(bad[0])].as_py())}"
    names_rows = len(different) == len(column) >= _ENOUGH_ROWS
    words = frozenset(different[: _FEW_WORDS + 1])
    crowded = len(different) > MAX_CATEGORIES
    return _Unusable(name, where, words, n_numbers > 0, names_rows=names_rows, crowded=crowded)


def _short(cell: str) -> str:
    """Quote a cell, shortened if it is long."""
    return repr(cell if len(cell) <= _MAX_SHOWN else f"{cell[:_MAX_SHOWN]}...")


def _refusal(file: str, columns: list[_Unusable], selection: ColumnSelection) -> str:
    """The refusal of columns that are not numbers, each with its first bad cell, and the remedies."""
    names = [column.name for column in columns]
    if len(columns) == 1:
        cause = f"text in column {names[0]!r}, {columns[0].where}"
    else:
        each = [f"{column.name!r}, {column.where}" for column in columns]
        cause = f"text in {len(columns)} columns ({some_of(each, between='; ')})"
    if {*names} <= {*selection.numbers}:
        return f"{file!r} has {cause}; give numbers only: the saved model, or --numbers, has numbers there"
    remedies = []
    holed = [column for column in columns if column.among_numbers and len(column.words) <= _FEW_WORDS]
    words = sorted(frozenset().union(*(column.words for column in holed)))
    if words and len(words) <= _FEW_WORDS:
        remedies.append(f"--missing {_as_typed(words)} reads what stands among numbers as missing values")
        columns = [column for column in columns if column not in holed]
    naming = [column for column in columns if column.names_rows][:1]
    others = [column.name for column in columns if column not in naming]
    if naming:
        remedies.append(f"--id-column {typed([naming[0].name])} takes that for the names of the rows")
    if others:
        them, category = ("it", "a category") if len(others) == 1 else ("them", "categories")
        listed = typed(others) if len(others) <= _MAX_TYPED else "with their names"
        many = [column.name for column in columns if column.name in others and column.crowded]
        few = [name for name in others if name not in many]
        if few and many:
            remedies.append(f"--drop {typed(many)} leaves out columns of more than {MAX_CATEGORIES} words")
            listed, category = typed(few), "categories"
        else:
            remedies.append(f"--drop {listed} leaves {them} out")
        if few:
            remedies.append(f"--one-hot {listed} encodes {category}")
        if selection.words:
            remedies.append(f"--categories {listed} calls {them} {category}")
        else:
            remedies.append("the model masked-net takes words as they are")
    return f"{file!r} has {cause}; give numbers only: {', '.join(remedies)}"


def _as_typed(words: Sequence[str]) -> str:
    """Join words by commas, always in quotes: a shell may expand ? and *."""
    text = typed(words)
    return text if text.startswith("'") else f"'{text}'"


def _check_exact(name: str, values: Float64[np.ndarray, " N"], column: Any, raw: RawTable) -> None:
    """Refuse whole numbers beyond 2^53: in float64, different numbers would become equal."""
    for row in np.flatnonzero(np.abs(values) >= MAX_WHOLE).tolist():
        cell = column[row].as_py()
        try:
            number = int(cell)
        except (ValueError, OverflowError):  # text such as 1e20
            continue
        whole = isinstance(cell, str) or number == cell
        if whole and not isinstance(cell, float) and abs(number) > MAX_WHOLE:
            raise InputError(
                f"{raw.name!r} has the whole number {number} in column {name!r}, "
                f"{place_of(row, raw.lines)}, beyond 2^53, which would be rounded; leave the column "
                "out if it holds identifiers (--drop or --id-column), or subtract an offset"
            )


def _notes(table: Table, raw: RawTable, id_column: str | None) -> list[str]:
    """Notes on names of rows, formulas, likely index columns, codes for missing values, and copied rows."""
    notes, labels = [], table.labels
    if raw.index is not None and id_column == raw.index:
        notes.append(f"the rows are named by the index of the data frame, {raw.index!r}")
    if labels is not None and len(set(labels)) < len(labels):
        notes.append(f"only {len(set(labels)):,} of the {len(labels):,} names in {id_column!r} are different")
    words = [word for words in table.levels.values() for word in words]
    formulas = [word for word in (*(labels or ()), *words) if word.startswith("=")]
    if formulas:
        notes.append(
            f"{_short(formulas[0])} is a formula to a spreadsheet (of {count(len(formulas), 'such word')}): "
            "import written CSV files as text"
        )
    for name, values in zip(table.columns, table.values.T, strict=True):
        start = values[0]
        if len(values) >= _ENOUGH_ROWS and start in (0, 1) and (np.diff(values) == 1).all():
            notes.append(
                f"column {name!r} counts {start:.0f}, {start + 1:.0f}, {start + 2:.0f}, ...: if it is an "
                "index and not data, leave it out (--drop), or let it name the rows (--id-column)"
            )
    return notes + note_on_codes(table.values, table.columns) + note_on_copies(table.values)


def _check_values(table: Table, empty_rows: bool) -> None:
    """Refuse infinite and extreme values, and rows without any value."""
    beyond = np.argwhere(np.abs(table.values) > MAX_MAGNITUDE)
    infinite = np.argwhere(np.isinf(table.values))
    for row, column in [*infinite[:1], *beyond[:1]]:
        where = f"in column {table.columns[column]!r}, {table.place(row)}"
        if len(infinite):
            raise InputError(
                f"{table.name!r} has an infinite value {where}; give a finite number, or leave the cell of a "
                "missing value empty"
            )
        raise InputError(
            f"{table.name!r} has the value {table.values[row, column]:g} {where}, beyond {MAX_MAGNITUDE:g}, "
            "whose square float64 cannot hold; rescale the column"
        )
    empty = np.isnan(table.values).all(axis=1)
    if empty.any() and not empty_rows:
        row = int(np.flatnonzero(empty)[0])
        raise InputError(f"{table.name!r} has no value in {table.place(row)}; leave it out")


def refuse_empty_columns(table: Table) -> None:
    """Refuse columns without any value, because no model can be fitted to them.

    Example:
        >>> refuse_empty_columns(Table("t", np.array([[1.0, np.nan]]), ("a", "b"), np.arange(1)))
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: 't' has no value in column 'b'; leave it out (--drop b)
    """
    missing = np.isnan(table.values).all(axis=0)
    if missing.any():
        empty = [name for name, none in zip(table.columns, missing, strict=True) if none]
        which = f"column {empty[0]!r}" if len(empty) == 1 else f"columns {', '.join(map(repr, empty))}"
        out = "it" if len(empty) == 1 else "them"
        raise InputError(f"{table.name!r} has no value in {which}; leave {out} out (--drop {typed(empty)})")


def _encode(
    file: str, name: str, column: Any, missing: Sequence[str]
) -> tuple[tuple[str, ...], dict[str, Float64[np.ndarray, " N"]]]:
    """A column's categories in order, and 0/1 columns (NaN where missing) for all but the first."""
    absent = {*MISSING, *missing}
    cells = [
        None if cell is None or str(cell).strip() in absent else str(cell) for cell in column.to_pylist()
    ]
    categories = tuple(sorted({cell for cell in cells if cell is not None}))
    if not 2 <= len(categories) <= MAX_CATEGORIES:
        count = "more than 50" if len(categories) > MAX_CATEGORIES else f"only {len(categories)}"
        raise InputError(
            f"column {name!r} of {file!r} has {count} different values; --one-hot is for 2 to "
            f"{MAX_CATEGORIES} categories, so leave it out (--drop {name})"
        )
    present = np.array([cell is not None for cell in cells])
    columns = {
        column_of(name, category): np.where(present, [float(cell == category) for cell in cells], np.nan)
        for category in categories[1:]
    }
    return categories, columns


def check_ending(path: Path) -> None:
    """Refuse a file name whose ending is no format for tables.

    Example:
        >>> check_ending(Path("filled.xlsx"))
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: 'filled.xlsx' has to end in .csv, .tsv, .parquet, .feather; ...
    """
    if kind_of_file(path.name) not in ENDINGS:
        raise InputError(f"{str(path)!r} has to end in {', '.join(ENDINGS)}; give such a name")


def is_text(path: Path) -> bool:
    """Whether a file's cells are text, by the file's ending.

    Example:
        >>> is_text(Path("a.csv.gz")), is_text(Path("a.parquet"))
        (True, False)
    """
    return kind_of_file(path.name) in (".csv", ".tsv")


def with_new_types(table: Any, before: Any) -> Any:
    """Update the types in a table's pandas metadata to those of its columns, as pandas requires.

    Args:
        before: the same columns, of the types that the metadata name.

    Example:
        >>> import pandas, pyarrow as pa
        >>> before = pa.Table.from_pandas(pandas.DataFrame({"n": pandas.array([1, None], "Int64")}))
        >>> table = before.set_column(0, "n", pa.array([1.0, 2.5]))
        >>> str(with_new_types(table, before).to_pandas()["n"].dtype)
        'Float64'
    """
    import pyarrow as pa

    stored = table.schema.pandas_metadata
    changed = {
        field.name
        for field in before.schema
        if field.name in table.column_names and table.schema.field(field.name).type != field.type
    }
    if not stored or not changed:
        return table
    for column in stored["columns"]:
        name = column.get("field_name") or column.get("name")
        if name in changed:
            text, old = pa.types.is_string(table.schema.field(name).type), str(column["numpy_type"])
            kind = (
                "double[pyarrow]" if old.endswith("[pyarrow]") else "float64" if old.islower() else "Float64"
            )
            kind = "Float64" if old == "boolean" else kind
            of_text = {"pandas_type": "unicode", "numpy_type": "object"}
            column |= of_text if text else {"pandas_type": "float64", "numpy_type": kind}
            column["metadata"] = None
    schema = {**table.schema.metadata, b"pandas": json.dumps(stored).encode()}
    return table.replace_schema_metadata(schema)


def write_table(table: Any, path: Path, delimiter: str = ",") -> None:
    """Write a table atomically.

    Args:
        path: the file; its ending names the form. A .csv or .tsv file is compressed if .gz, .bz2 or .zst
            follows.
    """
    import pandas
    import pyarrow as pa
    from pyarrow import feather, parquet

    kind, sink = kind_of_file(path.name), pa.BufferOutputStream()
    try:
        if kind == ".parquet":
            parquet.write_table(table, sink)
        elif kind == ".feather":
            feather.write_feather(table, sink)
        else:
            nested = [field.name for field in table.schema if pa.types.is_nested(field.type)]
            if nested:
                raise pa.ArrowInvalid(f"column {nested[0]!r} holds lists or structures")
            compression = _COMPRESSIONS.get(path.suffix.lower())
            frame = table.to_pandas(types_mapper=pandas.ArrowDtype, ignore_metadata=True)
            text = CsvText()
            frame.to_csv(text, sep="\t" if kind == ".tsv" else delimiter, index=False, lineterminator="\r\n")
            with sink if compression is None else pa.CompressedOutputStream(sink, compression) as stream:
                stream.write(text.getvalue().encode())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{str(path)!r} cannot hold this table: {reason}; write a .parquet file") from error
    write_atomic(path, sink.getvalue().to_pybytes())
