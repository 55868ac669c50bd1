"""Read tables of numbers from files by pandas and pyarrow, check their columns, and write tables."""

import codecs
import csv
import io
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import BadZipFile

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError, missing_extra, unknown_name
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import (
    MAX_WHOLE,
    MISSING,
    check_memory,
    in_short,
    is_number,
    join_words,
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
    name_in,
    read_remote,
    reading_parquet,
)
from maskevidence.core.table import Table, as_table, place_of
from maskevidence.tables.category_columns import column_of
from maskevidence.tables.reading.columns import (
    ENOUGH_ROWS,
    FIRST_COMPACT,
    MAX_CATEGORIES,
    Cells,
    FileOptions,
    ReadColumn,
    are_compact_dates,
    arrow_texts,
    floats,
    left_out,
    read_columns,
)
from maskevidence.tables.reading.contents import SHEETS, sheet_text, text_of, unzipped
from maskevidence.tables.reading.dates import Order
from maskevidence.tables.reading.describing import described, folded_word
from maskevidence.tables.reading.description import (
    LOOK,
    RECORD,
    Finding,
    TableDescription,
    finding,
    quoted,
)
from maskevidence.tables.reading.layout import (
    LINE,
    SheetRow,
    apart,
    is_blank,
    lay_out,
    mended,
    numbered_rows,
)
from maskevidence.tables.reading.numbers import Choice, NumberForm, signs_of
from maskevidence.tables.reading.table_notes import note_on_codes, note_on_copies

SUFFIXES = (".csv", ".tsv", ".txt", ".tab", ".dat", ".xlsx", ".parquet", ".feather", ".npy")
ENDINGS = (".csv", ".tsv", ".parquet", ".feather")  # of tables to write
MAX_MAGNITUDE = 1e100  # squares and their sums stay finite
_COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_CHUNK = 2**26  # bytes unpacked per chunk
_COPIES = 3  # copies of a CSV file's text in memory while it is read
_LONG = 2**20  # bytes of a text that is worth a second way of reading
_BLOCK = 2**12  # rows that are stacked at once
_CELLS_NOTED, _FEWEST_NOTED = 2**18, 1000  # cells, rows of a long table in which codes and copies are sought
_HEAD = 2**13  # characters or cells inspected to guess a CSV file's format
_MAX_TYPED = 30  # columns in an option suggested by an error
_ALL = FileOptions()
_END = "\0"  # cells of the row that marks the end of a CSV file
_ALWAYS = ("comments", "skipped")  # findings for the record that are noted, too
_TEXTS = (".csv", ".tsv", ".txt", ".tab", ".dat")
_OF_TEXT, _OF_LINES = ("delimiter", "encoding"), ("header", "comment", "skip")  # options of texts and sheets


@dataclass(frozen=True)
class RawTable:
    """A file's columns before conversion to numbers."""

    name: str  # the file, as the user named it
    columns: Any  # a `pyarrow.Table`; cells of a CSV file are text
    first_line: int = 0  # of a CSV file, the line of the first row; 0 for other files
    notes: tuple[str, ...] = ()  # the reader's guesses, one sentence each
    delimiter: str = ","  # between the cells of a CSV file
    index: str | None = None  # the column in which pandas stored the index, if any
    lines: Sequence[int] | None = None  # of a CSV file, the line of each row; None for other files
    encoding: str = "utf-8"  # of a CSV file
    line_end: str = "\n"  # of a CSV file
    above: str = ""  # the lines above the names of the columns
    head: tuple[SheetRow, ...] = ()  # rows of units below the names of the columns
    foot: tuple[SheetRow, ...] = ()  # rows of totals and footnotes
    findings: tuple[Finding, ...] = ()  # on rows and the file


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
    decimal: Choice | None = None,
    thousands: str = "",
    dates: str | None = None,
    day_0: Mapping[str, str] | None = None,
    fold_words: bool = False,
    near_unique: bool = False,
    header: int | None = None,
    comment: str | None = None,
    skip_rows: str = "",
    encoding: str | None = None,
) -> Table:
    """Read a table of numbers; an empty CSV cell, NA, NaN or null is a missing value.

    A column of which nine tenths are numbers is one of numbers, however they are written: with a decimal
    comma, separators of thousands, a unit. Its other cells are neither words nor holes: `odd`. A limit such
    as <0.5 is an interval: `limits`. Dates are days since the first, durations days. Columns without a value,
    names of rows and near-unique text are left out, and rows without a value; `describe` says what was found.

    Args:
        path: a .csv, .tsv, .txt, .xlsx, .parquet or .feather file, or a .npy file with a two-dimensional
            array; or an address such as "s3://bucket/table.parquet", which fsspec reads. CSV files may be
            compressed (.csv.gz, .zip). Their first line names the columns, unless it holds numbers only: then
            it is data, and a note says so.
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
        numbers: columns that are numbers, even if they hold two different ones, or many other cells.
        decimal, thousands: "." or ",", and the mark between thousands; by default each column says them.
        dates: "day-first" or "month-first", for dates that do not say it.
        day_0: day 0 of columns of dates, such as {"day": "2024-01-01"}; by default their first. Give it where
            two files are read for one model.
        fold_words: whether words that differ by case, blanks or composition are one, the commonest.
        near_unique: whether near-unique text and names of rows are categories, too; with `words`.
        header: the line with the names of the columns, from 1; by default it is found.
        comment: the mark of lines to leave out, such as "#".
        skip_rows: lines to leave out, such as "3,5-7".
        encoding: of a text file; by default by its byte order mark, UTF-8 or Windows-1252.

    Raises:
        InputError: a file that is missing, empty, damaged or of another kind; text or an infinite value in a
            column (the message names all such columns), numbers that can be read in two ways; no value.
        MissingExtraError: the package that reads an address or a spreadsheet is not installed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "table.csv"
        >>> _ = path.write_text("name;a;b\\nx;1;2\\ny;3;?\\nz;4,5;2.500 kg\\n")
        >>> table = read_table(path, id_column="name")
        >>> table.values.tolist(), table.columns, table.labels
        ([[1.0, 2.0], [3.0, nan], [4.5, 2500.0]], ('a', 'b'), ('x', 'y', 'z'))
    """
    table = read_file(path, said(**{name: value for name, value in locals().items() if name != "path"}))
    refuse_empty_columns(table)
    return table


def said(
    *,
    missing: str | float | Sequence[str | float] = (),
    dates: str | None = None,
    day_0: Mapping[str, str] | None = None,
    skip_rows: str | None = None,
    **options: Any,
) -> FileOptions:
    """The options of `read_table`, checked."""
    markers = tuple(map(str, [missing] if isinstance(missing, str | int | float) else missing))
    days = {name: _iso_date(name, day) for name, day in (day_0 or {}).items()}
    skip = _line_ranges(skip_rows or "")
    orders: dict[str | None, Order | None] = {None: None, "day-first": "dmy", "month-first": "mdy"}
    if dates not in orders:
        raise unknown_name("order of dates", str(dates), [order for order in orders if order])
    return FileOptions(missing=markers, dates=orders[dates], day_0=days, skip=skip, **options)


def read_file(path: str | Path, options: FileOptions) -> Table:
    """Read the table of a file; a long text of plain numbers at once, unless an option needs its cells."""
    of_text = (options.id_column, options.one_hot, options.categories, options.decimal, options.thousands)
    return converted(read_raw(path, options, as_numbers=not any(of_text)), options)[0]


def raw_of(table: Any, choices: FileOptions = _ALL) -> RawTable:
    """The columns of a file, a data frame, an Arrow table, or a `Table`."""
    import pyarrow as pa

    if isinstance(table, str | Path):
        return read_raw(table, choices)
    name, lines = "the data", None
    if isinstance(table, Table):
        name, lines, table = table.name, table.lines, table.to_frame()
    if isinstance(table, pa.Table):
        return RawTable(name, table)
    if hasattr(table, "iloc"):
        table = table if hasattr(table, "columns") else table.to_frame()
        names = list(map(str, table.columns))
        check_distinct(name, names)
        columns = {each: _arrow_column(each, table.iloc[:, j]) for j, each in enumerate(names)}
    elif hasattr(table, "to_arrow"):
        return RawTable(name, table.to_arrow())
    else:
        try:
            if np.iscomplexobj(table):
                raise TypeError("complex numbers")
            values = np.asarray(table, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"the data are {in_short(table)}; give a file, a data frame or (N, D) numbers"
            ) from error
        if values.ndim != 2:
            raise InputError(
                f"the data have the shape {values.shape}; give (N, D) rows, a data frame or a file"
            )
        columns = {f"c{j}": pa.array(column.copy(), from_pandas=True) for j, column in enumerate(values.T)}
    return RawTable(name, pa.table(columns), lines=lines)


def _arrow_column(name: str, column: Any) -> Any:
    """A column of a data frame as an Arrow array; cells that Arrow cannot hold become text."""
    import pyarrow as pa
    from pyarrow import compute, types

    if hasattr(column, "sparse"):
        column = column.sparse.to_dense()
    if getattr(column.dtype, "kind", "") == "c":
        raise InputError(f"column {name!r} holds complex numbers; give its real and imaginary parts")
    try:
        cells = pa.array(column, from_pandas=True)
        values = cells.dictionary if types.is_dictionary(cells.type) else cells
        if types.is_timestamp(values.type):
            compute.min_max(values).as_py()  # fails beyond the years 1 to 9999 of Python's dates
        cells[:1].cast(values.type)  # fails for categories of intervals
        return cells
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    texts = (str(cell).encode(errors="backslashreplace").decode() for cell in column)
    return pa.array(
        [None if blank else text for text, blank in zip(texts, column.isna(), strict=True)], pa.string()
    )


def dated_table(data: Any, like: Mapping[str, Any] = {}) -> Table:
    """Any rows as a table, with a data frame's dates as days since the first of their column.

    Args:
        like: the date formats of another table, whose days 0 are taken.

    Example:
        >>> import pandas
        >>> dates = pandas.to_datetime(["2024-01-31", "2024-02-02"])
        >>> table = dated_table(pandas.DataFrame({"day": dates}))
        >>> table.values.tolist(), table.forms["day"].write(2.0)
        ([[0.0], [2.0]], '2024-02-02 00:00:00')
    """
    frame, forms = dated_frame(
        data, {name: form.origin for name, form in like.items() if hasattr(form, "origin")}
    )
    table = as_table(frame)
    return replace(table, forms=forms) if forms else table


def dated_frame(data: Any, day_0: Mapping[str, str] = {}) -> tuple[Any, dict[str, Any]]:
    """A data frame with its dates as days, and their formats; other rows as they are.

    Args:
        day_0: of some columns; by default their first.
    """
    import pyarrow as pa
    from pyarrow import types

    frame, forms, options = data, dict[str, Any](), FileOptions(day_0=day_0)
    for place, dtype in enumerate(data.dtypes if hasattr(data, "iloc") else ()):
        name, column = str(data.columns[place]), data.iloc[:, place]
        if name in day_0 and column.isna().all():
            column = as_missing_dates(column)
        elif getattr(dtype, "kind", "O") in "biuf" or str(dtype) == "category":
            continue
        cells = pa.table({name: _arrow_column(name, column)}).column(0)
        if types.is_date(cells.type) or types.is_timestamp(cells.type):
            read = read_columns({name: cells}, None, options)[name]
            frame = frame if forms else data.copy(deep=False)
            frame.isetitem(place, read.values)
            forms[name] = read.form
    return frame, forms


def as_missing_dates(column: Any) -> Any:
    """A data frame column without any value as a column of dates."""
    return (
        column
        if getattr(column.dtype, "kind", "O") == "M"
        else column.isna().map({}).astype("datetime64[ns]")
    )


def days_0_of(table: Table) -> dict[str, str]:
    """The day from which each of a table's columns of dates counts, by name."""
    of = table.forms
    return {name: of[name].origin for name in table.columns if getattr(of.get(name), "order", None)}


def join_days(days: Mapping[str, str]) -> str:
    """Days 0 as --day-0 takes them."""
    return join_words(f"{name}={day}" for name, day in days.items())


def described_file(
    raw: RawTable, options: FileOptions, read: dict[str, ReadColumn] | None = None
) -> TableDescription:
    """Describe the columns of a file; `read` holds them if they were read before."""
    cells = dict(zip(names_of(raw), raw.columns.columns, strict=True))
    if read is None:
        used = _used_columns(raw, options)
        read = read_columns({name: cells[name] for name in used}, raw.lines, options, raw.delimiter)
    marks = {column.form.decimal for column in read.values() if isinstance(column.form, NumberForm)}
    file = {"delimiter": raw.delimiter, "decimal": "," if marks == {","} else ".", "encoding": raw.encoding}
    found = described(raw.name, cells, read, raw.findings, **file)
    return replace(found, findings=tuple(each for each in found.findings if not _is_decided(each, options)))


def _is_decided(one: Finding, options: FileOptions) -> bool:
    """Whether an option that a finding names was given for its column."""
    given = {
        "--fold-words": options.fold_words,
        "--categories": one.column in options.categories,
        "--numbers": one.column in options.numbers,
        "--id-column": one.column == options.id_column,
    }
    return one.column is not None and any(given[flag] and flag in one.option for flag in given)


def _line_ranges(text: str) -> list[range]:
    """Lines to leave out, as typed.

    Example:
        >>> _line_ranges("3,5-7")
        [range(3, 4), range(5, 8)]
    """
    found = []
    for part in filter(None, text.replace(" ", "").split(",")):
        ends = re.fullmatch("([0-9]+)(?:-([0-9]+))?", part)
        if ends is None or not 1 <= int(ends[1]) <= int(ends[2] or ends[1]):
            raise InputError(f"--skip-rows {text!r} has {part!r}; give lines, from 1, such as 3,5-7")
        found.append(range(int(ends[1]), int(ends[2] or ends[1]) + 1))
    return found


def _iso_date(column: str, day: str) -> str:
    """A date as typed, such as 2024-01-31."""
    try:
        return str(np.datetime64(day, "D"))
    except ValueError as error:
        raise InputError(f"--day-0 {column}={day}: {day!r} is no date; write it as in 2024-01-31") from error


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
    path = PurePosixPath(path.stem) if path.suffix == ".zip" else path
    inner = PurePosixPath(path.stem).suffix
    return inner if path.suffix in _COMPRESSIONS and inner in _TEXTS else path.suffix or Path(name).suffix


def check_file(name: str) -> None:
    """Refuse a path without a file; addresses are checked when they are read."""
    if kind_of_file(name) in (*SUFFIXES, ".zip") and not is_remote(name) and not Path(name).is_file():
        raise InputError(f"there is no file {name!r}; check the path")


def read_raw(path: str | Path, choices: FileOptions = _ALL, *, as_numbers: bool = False) -> RawTable:
    """Read the columns of a file.

    Args:
        path: a file or an address, with one of the endings of `SUFFIXES`; a CSV file may be compressed
            (.csv.gz, .zip).
        choices: what the user said about the text of the file.
        as_numbers: whether a long text of plain numbers alone is read as such, three times as fast; its cells
            are not kept as text then.
    """
    name, remote, delimiter = str(path), is_remote(str(path)), choices.delimiter
    kind = kind_of_file(name_in(name) if remote else name)
    if kind not in (*SUFFIXES, ".zip"):
        raise InputError(f"{name!r} is not a {', '.join(SUFFIXES)} file; convert it to one of these")
    check_file(name)
    content = _content(name, remote)
    if not content:
        raise InputError(f"{name!r} is empty; give a table with at least one row")
    if name.lower().endswith(".zip"):
        inside, content = unzipped(name, content)
        kind = kind_of_file(inside)
        if kind not in SUFFIXES:
            raise InputError(f"{name!r} holds {inside!r}, no {', '.join(SUFFIXES)} file; give one of these")
    of_text = () if kind in _TEXTS else _OF_TEXT if kind in SHEETS else (*_OF_TEXT, *_OF_LINES)
    for option in of_text:
        if getattr(choices, option):
            flag = option.replace("skip", "skip-rows")
            raise InputError(f"--{flag} belongs to CSV tables; leave it out for {name!r}")
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise InputError(f"--delimiter {delimiter!r}; give one character of ASCII, such as ';', or tab")
    if kind == ".npy":
        return _read_npy(name, content)
    if kind in SHEETS:
        text, notes = sheet_text(name, content)
        raw = _read_csv(name, text.encode(), replace(choices, delimiter=","))
        return replace(raw, notes=(*notes, *raw.notes))
    if kind in _TEXTS:
        known = "\t" if kind in (".tsv", ".tab") and delimiter is None else delimiter
        return _read_csv(name, content, replace(choices, delimiter=known), as_numbers)
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
        table = read(pa.BufferReader(content), use_threads=False)
    views = [each.name for each in table.schema if pa.types.is_string_view(each.type)]
    for view in views:  # most of pyarrow does not take string views
        number = table.schema.get_field_index(view)
        table = table.set_column(number, view, table.column(number).cast(pa.large_string()))
    check_utf_8(name, table)
    try:
        stored = (table.schema.pandas_metadata or {}).get("index_columns", ())
        index = [column for column in stored if column in table.column_names]
    except (ValueError, AttributeError, TypeError) as error:
        raise InputError(f"{name!r} has metadata of pandas that cannot be read; write it again") from error
    return RawTable(name, table, index=index[0] if len(index) == 1 else None)


def _read_csv(name: str, content: bytes, choices: FileOptions, as_numbers: bool = False) -> RawTable:
    """Read a CSV file with all cells as text; the first line has the names unless it holds numbers only."""
    no_lines = (choices.header, choices.comment, choices.skip, choices.encoding)
    if as_numbers and len(content) > _LONG and not any(no_lines):
        plain = _plain_numbers(name, content, choices.delimiter)
        if plain is not None:
            return plain
    text, encoding = text_of(name, content, choices.encoding)
    if "\0" in text:  # which no text has, and which ends the cells here
        raise InputError(f"{name!r} has a zero byte, which no text has; save it as UTF-8 text")

    line_end = "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"
    excel = re.match(r"sep=([;,|\t])\r?\n", text)  # a line that only spreadsheets read
    if excel is not None and choices.delimiter in (None, excel[1]):
        choices = replace(choices, delimiter=excel[1], skip=(range(1, 2), *choices.skip))

    def guess(text: str) -> str:
        return choices.delimiter or _guessed_delimiter(text)

    text, line_of, above, findings = lay_out(name, text, guess, choices.header, choices.comment, choices.skip)
    delimiter, notes, joined = guess(text), list[str](), any(each.what == "header" for each in findings)
    if encoding not in ("utf-8", "utf-16") and choices.encoding is None:
        note = f"the text is no UTF-8: read as {'Windows-1252' if encoding == 'cp1252' else encoding}"
        findings.append(finding("encoding", None, [], note, "--encoding latin-1", RECORD))
        notes.append(f"{note} (--encoding)")
    cells, rows, blank, mends, foot = _cells(name, text, delimiter)
    if choices.delimiter is None and cells.num_columns > 1:
        notes += _notes_on_delimiter(delimiter)
    elif cells.num_columns == 1:
        _refuse_blanks(name, cells.column(0))
    lines = rows if isinstance(line_of, range) else [line_of[line - 1] for line in rows]
    findings += [finding("separator", None, [], mend, "", LOOK) for mend in mends]
    if blank:
        left_out = count(len(blank), "blank line") + (" is" if len(blank) == 1 else " are")
        first_blank = line_of[blank[0] - 1]
        notes.append(f"{left_out} no row of the table (first: line {first_blank})")
    first = [column[0].as_py() for column in cells.columns]
    decimal = "." if delimiter == "," else ","
    numbers = [cell for cell in first if is_number(cell) or is_number(cell.replace(decimal, "."))]
    headless = len(numbers) == len(first) and choices.header is None
    shown = [repr(cell) for cell in numbers if cell.strip() not in MISSING]
    if headless:
        notes.append("the first line holds numbers only and was read as data")
    elif shown:
        some = ", ".join(shown[:3]) + (", ..." if len(shown) > 3 else "")
        notes.append(f"the first line was taken for the names of the columns, though {some} are numbers")
    names = [f"c{j}" for j in range(len(first))] if headless else first
    if joined:
        names = _distinct(names)
    start = 0 if headless else 1
    table, lines = cells.slice(start).rename_columns(names), lines[start:]
    foot = tuple((line_of[line - 1], row) for line, row in foot)
    raw = RawTable(name, table, start + 1, tuple(notes), delimiter, None, lines, encoding, line_end, above)
    return _without_rows_apart(replace(raw, foot=foot, findings=tuple(findings)), headless)


def _refuse_blanks(name: str, column: Any) -> None:
    """Refuse a table whose columns stand between blanks, which would be one column of words."""
    first, *rows = [cell.replace('"', "").split() for cell in column.slice(0, _HEAD).to_pylist()]
    widths, cells = {len(row) for row in rows}, [cell for row in rows for cell in row[1:]]
    if rows and len(first) > 1 and widths in ({len(first)}, {len(first) + 1}) and all(map(is_number, cells)):
        raise InputError(
            f"{name!r} has {len(first)} columns between blanks; save it with a comma or tab between cells"
        )


def _notes_on_delimiter(delimiter: str) -> list[str]:
    """A note on a guessed delimiter other than the comma."""
    said = {",": [], "\t": ["cells are separated by tabs"]}
    return said.get(delimiter, [f"cells are separated by {delimiter!r}"])


def _plain_numbers(name: str, content: bytes, delimiter: str | None) -> RawTable | None:
    """Fast path for a text of plain numbers below names; None for any other text."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    text = content[: content.find(b"\n", _HEAD) + 1 or None].decode(errors="replace")
    mark = delimiter or _guessed_delimiter(text)
    names, *rows = csv.reader(re.findall(LINE, text), delimiter=mark)
    quoted_cells = content.find(b'"', content.find(b"\n") + 1) >= 0  # below the names
    other_ends = b"\r" in content and content.count(b"\r") != content.count(b"\r\n")
    if quoted_cells or other_ends or content.startswith((codecs.BOM_UTF8, b"#")):
        return None
    if "\ufffd" in text or len({*names} - {""}) < len(names) or any(map(is_number, names)):
        return None
    convert = arrow_csv.ConvertOptions(
        check_utf8=False, column_types=dict.fromkeys(names, pa.float64()), null_values=list(MISSING)
    )
    size = min(len(content) + 1, 2**31 - 1)  # one block, whose columns need no copy
    options = arrow_csv.ReadOptions(use_threads=False, block_size=size, column_names=names, skip_rows=1)
    parse = arrow_csv.ParseOptions(delimiter=mark)
    try:
        table = arrow_csv.read_csv(
            pa.py_buffer(content), read_options=options, parse_options=parse, convert_options=convert
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != content.count(b"\n") - content.endswith(b"\n"):
        return None
    for j, column in enumerate(table.columns):
        known = floats(column.drop_null() if column.null_count else column, own=False)
        # NaN also comes from a word such as nan(x); whole numbers have to be exact
        most = max(-known.min(), known.max()) if len(known) else np.nan
        if not most < MAX_WHOLE:
            return None
        if most >= FIRST_COMPACT and are_compact_dates(known):
            return None
        whole = (np.floor(known) == known).all()
        cells = [row[j].strip().lstrip("+-") for row in rows if j < len(row) and "." in row[j]]
        if not whole and not signs_of(Counter(cells)).point and most < 1000:
            return None  # 1.417 beside 907
    if any(re.search(re.escape(before) + b"0[0-9]", content) for before in (mark.encode(), b"\n")):
        return None  # codes such as 02208, perhaps
    notes = _notes_on_delimiter(mark) if delimiter is None else []
    return RawTable(name, table, 2, tuple(notes), mark, lines=range(2, table.num_rows + 2))


def _distinct(names: Sequence[str]) -> list[str]:
    """Column names in two lines, joined; repeated names get a number."""
    seen, found = Counter[str](), list[str]()
    for name in names:
        seen[name] += 1
        found.append(f"{name} ({seen[name]})" if seen[name] > 1 and name else name)
    return found


def _without_rows_apart(raw: RawTable, headless: bool) -> RawTable:
    """Remove rows of units, totals and repeated names."""
    import pyarrow as pa

    assert raw.lines is not None
    columns, lines = raw.columns, raw.lines
    head, data, foot, found = apart(columns, lines, raw.foot, headless)

    def rows(places: range) -> tuple[SheetRow, ...]:
        return tuple((lines[k], tuple(column[k].as_py() for column in columns.columns)) for k in places)

    below, findings = (*rows(foot), *raw.foot), (*raw.findings, *found)
    raw = replace(raw, head=rows(head), foot=below, findings=findings)
    if len(data) == len(columns):
        return raw
    table = columns.slice(data[0], len(data)) if isinstance(data, range) else columns.take(pa.array(data))
    return replace(raw, columns=table, lines=[lines[k] for k in data])


def _cells(
    name: str, text: str, delimiter: str
) -> tuple[Any, Sequence[int], Sequence[int], list[str], tuple[SheetRow, ...]]:
    """Read a CSV text; refuse rows of other widths, and open quotes.

    Returns:
        The cells as text, a `pyarrow.Table`; the line of each row; blank lines; notes and footnotes of a text
        that had to be mended.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    rows = numbered_rows((line[0] for line in re.finditer(LINE, text)), delimiter)
    width = next((len(row) for _, row in rows if not is_blank(row)), 0)
    if not width:
        raise InputError(f"{name!r} has no rows; give a table with at least one")
    names, blank = [f"f{j}" for j in range(width)], " \t".replace(delimiter, "")
    content = re.sub(rf"\A(?:[{blank}]*[\r\n])+", "", text)
    if width == 1:  # a blank line between others is a cell
        content = content.rstrip(f"{blank}\r\n")
    end = [_END] * width  # a row of its own if all quotes are closed
    try:
        cells = arrow_csv.read_csv(
            pa.py_buffer(f"{content}\n{delimiter.join(end)}".encode()),
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=_CHUNK, column_names=names),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                ignore_empty_lines=width > 1,
                invalid_row_handler=lambda row: "error" if row.text.strip(blank) else "skip",
            ),
            convert_options=arrow_csv.ConvertOptions(
                check_utf8=False, column_types=dict.fromkeys(names, pa.large_string())
            ),
        )
        if [column[-1].as_py() for column in cells.columns] == end:
            cells = cells.slice(0, cells.num_rows - 1)
            return cells, *_lines(text, delimiter, cells.num_rows, width), [], ()
    except pa.ArrowInvalid:
        pass
    found, notes, foot = mended(name, text, delimiter, width)
    columns = [arrow_texts([row[j] for _, row in found], pa.large_string()) for j in range(width)]
    cells = pa.table([pa.chunked_array([column]) for column in columns], names)
    return cells, [line for line, _ in found], (), notes, tuple(foot)


def _guessed_delimiter(text: str) -> str:
    """Guess the delimiter: the mark of ; tab | , that cuts most of the first rows into as many cells."""
    lines = lines_of(text[:_HEAD])
    lines = lines if len(text) <= _HEAD else lines[:-1] or lines  # complete lines only
    found, best = ",", 0.0
    for mark in ";\t|,":
        widths = Counter(len(row) for row in csv.reader(lines, delimiter=mark))
        share = max((n for width, n in widths.items() if width > 1), default=0) / max(1, widths.total())
        found, best = (mark, share) if share > best else (found, best)
    return found


def _lines(text: str, delimiter: str, n_rows: int, n_columns: int) -> tuple[Sequence[int], Sequence[int]]:
    """The line number of each row of a CSV file, whose cells may span lines, and the blank lines."""
    if text.count("\n") + (not text.endswith("\n")) == n_rows:
        return range(1, n_rows + 1), ()
    found, blank = list[int](), list[int]()
    for line, row in numbered_rows(io.StringIO(text, newline=""), delimiter):
        (blank if is_blank(row) and not (n_columns == 1 and found) else found).append(line)
    if len(found) < n_rows:
        return range(1, n_rows + 1), ()
    return found, [each for each in blank if found[0] < each < found[-1]]


def converted(
    raw: RawTable, selection: FileOptions = _ALL, *, empty_rows: bool = False, notes: bool = True
) -> tuple[Table, dict[str, ReadColumn]]:
    """The selected columns of a file as float64, and how each was read; rows without a value are left out.

    Args:
        empty_rows: whether to keep rows without a value.
        notes: whether to note what was found, which takes longer.
    """
    if not raw.columns.num_columns or not raw.columns.num_rows:
        raise InputError(f"{raw.name!r} has no rows; give a table with at least one")
    id_column = raw.index if selection.id_column is None else selection.id_column
    used = _used_columns(raw, selection)
    cells = dict(zip(names_of(raw), raw.columns.columns, strict=True))
    for name in [*selection.one_hot, *selection.categories, *([] if id_column is None else [id_column])]:
        _check_words(raw.name, name, cells[name].type)
    read = read_columns({name: cells[name] for name in used}, raw.lines, selection, raw.delimiter)
    found = _Converted(raw, selection)
    for name in used:
        found.add(name, cells[name], read[name])
    found.refuse()
    labels = None
    if id_column is not None:
        labels = tuple("" if cell is None else str(cell) for cell in cells[id_column].to_pylist())
    values = _stacked(list(found.columns.values()))
    of_words = {name for name in used if name in selection.one_hot or name in found.levels}
    read_as_numbers = {
        name: column for name, column in read.items() if name in found.columns and name not in of_words
    }
    table = Table(
        raw.name,
        values,
        tuple(found.columns),
        np.arange(len(values)),
        labels=labels,
        categories=found.categories,
        levels=found.levels,
        kinds=dict.fromkeys(selection.categories, "category")
        | {name: "number" for name in selection.numbers if selection.words},
        lines=raw.lines,
        odd={name: column.odd for name, column in read_as_numbers.items() if column.odd},
        codes={name: column.codes for name, column in read_as_numbers.items() if column.codes},
        limits={name: column.limits for name, column in read_as_numbers.items() if column.limits},
        forms=_forms(read_as_numbers),
    )
    _check_values(table)
    table, left_out = _without_empty_rows(table, raw, empty_rows)
    if not notes:
        return table, read
    said = [*raw.notes, *_sentences([*raw.findings, *found.findings])]
    guesses = _guesses(table) if selection.words else []
    return replace(table, notes=(*said, *left_out, *_notes(table, raw, id_column), *guesses)), read


def _stacked(columns: Sequence[Float64[np.ndarray, " N"]]) -> Float64[np.ndarray, "N D"]:
    """`numpy.column_stack` in blocks of rows, three times as fast for long columns."""
    values = np.empty((len(columns[0]), len(columns)))
    for start in range(0, len(values), _BLOCK):
        block = values[start : start + _BLOCK]
        for j, column in enumerate(columns):
            block[:, j] = column[start : start + _BLOCK]
    return values


def _forms(read: dict[str, ReadColumn]) -> dict[str, Any]:
    """The number formats of columns; whole numbers take the decimal comma of the others."""
    forms = {name: column.form for name, column in read.items() if column.form is not None}
    marks = {form.decimal for form in forms.values() if isinstance(form, NumberForm)}
    if marks == {","}:
        others = [name for name, column in read.items() if column.form is None]
        forms |= dict.fromkeys(others, NumberForm(","))
    return forms


def _sentences(findings: Sequence[Finding]) -> list[str]:
    """Notes on what was found; one for all columns with a decimal comma."""
    commas = any(each.what == "decimal" for each in findings)
    notes = ["numbers are read with a decimal comma"] if commas else []
    return notes + [each.sentence() for each in findings if each.weight >= LOOK or each.what in _ALWAYS]


def _without_empty_rows(table: Table, raw: RawTable, keep: bool) -> tuple[Table, list[str]]:
    """The table without rows that have no value, and a note on them."""
    if not np.isnan(table.values.sum()):  # most often, and far faster than what follows
        return table, []
    empty = np.isnan(table.values).all(axis=1)
    if not empty.any():
        return table, []
    if empty.all():
        row = int(np.flatnonzero(empty)[0])
        raise InputError(
            f"{table.name!r} has no value in {table.place(row)}, nor in any other row; give some"
        )
    places = ", ".join(place_of(row, raw.lines) for row in np.flatnonzero(empty)[:3].tolist())
    n = int(empty.sum())
    more = ", ..." if n > 3 else ""
    note = f"{n:,} of {len(table):,} rows {'has' if n == 1 else 'have'} no value ({places}{more})"
    if keep:
        return table, [note]
    return table.take(np.flatnonzero(~empty)), [f"{note}: left out"]


class _Converted:
    """The columns of a table while it is built, and those that cannot be read."""

    def __init__(self, raw: RawTable, selection: FileOptions) -> None:
        self.raw, self.selection = raw, selection
        self.columns: dict[str, Float64[np.ndarray, " N"]] = {}
        self.levels: dict[str, tuple[str, ...]] = {}
        self.categories: dict[str, tuple[str, ...]] = {}
        self.words, self.crowded = list[ReadColumn](), dict[str, int]()
        self.refused, self.findings = list[str](), list[Finding]()

    def add(self, name: str, cells: Any, read: ReadColumn) -> None:
        """Add a column, or the reason why it is left out or refused."""
        selection, one, parts = self.selection, read.described, dict[str, Float64[np.ndarray, " N"]]()
        if name in selection.one_hot:
            assert read.cells is not None
            self.categories[name], parts = _encode(self.raw.name, name, read.cells)
        elif read.refusal and one.used_as is None and one.kind == "number":
            has = ":" if "may be" in read.refusal else " has"
            self.refused.append(f"column {name!r}{has} {read.refusal}")
        elif self._is_unused(name, read):
            self.findings.append(left_out(one))
        elif read.values is not None:
            parts = {name: read.values}
            self.findings += read.findings
        elif read.cells is not None and selection.words and name not in selection.numbers:
            self.levels[name], parts[name] = _coded(read.cells, selection.fold_words)
            asked = name in selection.categories or selection.near_unique
            self.findings += [] if name in selection.categories else read.findings
            if one.used_as is None and not asked:
                self.crowded[name] = len(self.levels[name])
        else:
            self.words.append(read)
        for twice in self.columns.keys() & parts.keys():
            raise InputError(f"{self.raw.name!r} would have two columns named {twice!r}; rename one")
        self.columns |= parts

    def _is_unused(self, name: str, read: ReadColumn) -> bool:
        """Whether to leave out a column that tells nothing about other columns and that no option names."""
        selection, one = self.selection, read.described
        if name in selection.categories:
            return False
        if one.kind == "empty":
            return name not in (selection.columns or ())
        if read.values is not None or selection.near_unique:
            return False
        if name in (*(selection.columns or ()), *selection.numbers):
            return False
        if one.kind == "constant":
            return not selection.words
        return one.kind in ("text", "id") and one.used_as is None

    def refuse(self) -> None:
        """Raise an InputError that names all columns that cannot be read, if there are any."""
        if not (self.words or self.crowded or self.refused):
            if not self.columns:
                raise InputError(f"no column of {self.raw.name!r} has numbers or words to use; give one")
            return
        refused = [_refusal(self.raw.name, self.words, self.selection)] if self.words else []
        if self.refused:
            refused.append(f"{self.raw.name!r}: {'; '.join(self.refused)}")
        if self.crowded:
            refused.append(_too_many_words(self.raw.name, self.crowded, self.raw.columns.num_rows))
        codes = (
            note_on_codes(np.column_stack([*self.columns.values()]), [*self.columns]) if self.columns else []
        )
        raise InputError("; ".join([*refused, *codes]))


def _used_columns(raw: RawTable, options: FileOptions) -> list[str]:
    """The columns of data; every column named by an option must exist and be used, as one kind at most."""
    file, names = raw.name, names_of(raw)
    kinds = {"--one-hot": options.one_hot, "--categories": options.categories, "--numbers": options.numbers}
    of_kinds = [name for each in kinds.values() for name in each]
    id_column = raw.index if options.id_column is None else options.id_column
    chosen = names if options.columns is None else list(options.columns)
    check_distinct(file, names)
    for name in [*chosen, *options.drop, *of_kinds, *([] if id_column is None else [id_column])]:
        if name not in names:
            known = ", ".join(join_words([each]) for each in names)
            raise InputError(f"{file!r} has no column {name!r}; it has {known}")
    used = [name for name in chosen if name not in (*options.drop, id_column)]
    if not used:
        raise InputError(f"no column of {file!r} is left; name one or more that are data")
    if options.categories and not options.words:
        raise InputError("--categories is for models that take words, such as auto; leave it out")
    for option, each in kinds.items():
        if unused := [name for name in each if name not in used]:
            raise InputError(
                f"{option} {unused[0]!r} is not among the columns that are used: {', '.join(used)}"
            )
    for name, n in Counter(of_kinds).items():
        if n > 1:
            raise InputError(f"column {name!r} has two of --categories, --numbers and --one-hot; give one")
    return used


def _coded(cells: Cells, fold: bool) -> tuple[tuple[str, ...], Float64[np.ndarray, " N"]]:
    """A column's distinct words in order, and its cells as positions among them.

    Args:
        fold: whether the commonest of words that differ by case, blanks or composition stands for all.
    """
    words, n_of, best = list(map(word_of, cells.texts)), Counter[str](), dict[str, str]()
    if fold:
        for word, n in zip(words, cells.counts, strict=True):
            n_of[word] += n
        for word, _ in n_of.most_common():
            best.setdefault(folded_word(word), word)
        words = [best[folded_word(word)] for word in words]
    levels = tuple(sorted({*words}))
    position = {word: float(code) for code, word in enumerate(levels)}
    return levels, np.array([*(position[word] for word in words), np.nan])[cells.codes]


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


def _too_many_words(file: str, n_words: dict[str, int], n_rows: int) -> str:
    """The refusal of columns that seem to name the rows, with remedies."""
    option, naming = typed(list(n_words)), typed([max(n_words, key=lambda name: n_words[name])])
    that, them, category = ("it", "it", "a category") if len(n_words) == 1 else ("that", "them", "categories")
    named = ", ".join(f"{name!r} {n:,}" for name, n in n_words.items())
    counts = f"{len(n_words)} columns have many different words ({named})"
    if len(n_words) == 1:
        counts = f"column {next(iter(n_words))!r} has {max(n_words.values()):,} different words"
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
    parts = [f"{kind}: {some_of(names)}" for kind, names in guessed.items() if names]
    return [f"{'; '.join(parts)} (say --categories or --numbers if that is wrong)"] if parts else []


def names_of(raw: RawTable) -> list[str]:
    """The names of a file's columns; those without one are c0, c1, ... by position."""
    names = [name.strip() if raw.first_line else name for name in raw.columns.column_names]
    return [name or f"c{j}" for j, name in enumerate(names)]


def _refusal(file: str, columns: list[ReadColumn], selection: FileOptions) -> str:
    """The refusal of columns that are not numbers, each with its first bad cell, and the remedies."""
    names = [column.described.name for column in columns]
    each = [f"{one.described.name!r}, {one.refusal or one.word}" for one in columns]
    several = f"text in {len(each)} columns ({some_of(each, between='; ')})"
    cause = f"text in column {each[0]}" if len(each) == 1 else several
    if {*names} <= {*selection.numbers}:
        return f"{file!r} has {cause}; give numbers only: the saved model, or --numbers, has numbers there"
    them, category = ("it", "a category") if len(names) == 1 else ("them", "categories")
    listed = typed(names) if len(names) <= _MAX_TYPED else "with their names"
    many = [column.described.name for column in columns if column.described.n_different > MAX_CATEGORIES]
    few = [name for name in names if name not in many]
    remedies = [f"--drop {listed} leaves {them} out"]
    if few and many:
        remedies = [f"--drop {typed(many)} leaves out columns of more than {MAX_CATEGORIES} words"]
        listed, category = typed(few), "categories"
    remedies += [f"--one-hot {listed} encodes {category}"] if few else []
    words = f"--categories {listed} calls {them} {category}"
    remedies.append(words if selection.words else "the model auto takes words as they are")
    return f"{file!r} has {cause}; give numbers only: {', '.join(remedies)}"


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
            f"{quoted(formulas[0])} is a formula to a spreadsheet (of {count(len(formulas), 'such word')}): "
            "import written CSV files as text"
        )
    for name, values in zip(table.columns, table.values.T, strict=True):
        start = values[0]
        if len(values) >= ENOUGH_ROWS and start in (0, 1) and (np.diff(values) == 1).all():
            notes.append(
                f"column {name!r} counts {start:.0f}, {start + 1:.0f}, {start + 2:.0f}, ...: if it is an "
                "index and not data, leave it out (--drop), or let it name the rows (--id-column)"
            )
    n = max(_FEWEST_NOTED, _CELLS_NOTED // max(1, table.values.shape[1]))
    some = table.values[:n]  # a part of a long table says as much
    found = note_on_codes(some, table.columns) + note_on_copies(some)
    return notes + ([f"{note} (in the first {n:,} rows)" for note in found] if n < len(table) else found)


def _check_values(table: Table) -> None:
    """Refuse infinite and extreme values."""
    low, high = np.fmin.reduce(table.values, axis=None), np.fmax.reduce(table.values, axis=None)
    if not max(-low, high) > MAX_MAGNITUDE:
        return
    infinite = np.argwhere(np.isinf(table.values))
    row, column = (infinite if len(infinite) else np.argwhere(np.abs(table.values) > MAX_MAGNITUDE))[0]
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


def refuse_empty_columns(table: Table) -> None:
    """Refuse columns without any value, because no model can be fitted to them.

    Example:
        >>> refuse_empty_columns(Table("t", np.array([[1.0, np.nan]]), ("a", "b"), np.arange(1)))
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: 't' has no value in column 'b'; leave it out (--drop b)
    """
    missing = np.isnan(np.fmax.reduce(table.values)) if len(table) else np.zeros(0)
    if missing.any():
        empty = [name for name, none in zip(table.columns, missing, strict=True) if none]
        which = f"column {empty[0]!r}" if len(empty) == 1 else f"columns {', '.join(map(repr, empty))}"
        out = "it" if len(empty) == 1 else "them"
        what = "nothing but limits" if any(table.limits.get(name) for name in empty) else "no value"
        raise InputError(f"{table.name!r} has {what} in {which}; leave {out} out (--drop {typed(empty)})")


def _encode(
    file: str, name: str, cells: Cells
) -> tuple[tuple[str, ...], dict[str, Float64[np.ndarray, " N"]]]:
    """A column's categories in order, and 0/1 columns (NaN where missing) for all but the first."""
    categories = tuple(sorted(cells.texts))
    if not 2 <= len(categories) <= MAX_CATEGORIES:
        n = "more than 50" if len(categories) > MAX_CATEGORIES else f"only {len(categories)}"
        raise InputError(
            f"column {name!r} of {file!r} has {n} different values; --one-hot is for 2 to "
            f"{MAX_CATEGORIES} categories, so leave it out (--drop {name})"
        )
    each = {text: np.array([*(float(text == other) for other in cells.texts), np.nan]) for text in categories}
    return categories, {column_of(name, text): each[text][cells.codes] for text in categories[1:]}


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
    if not stored:
        return table
    changed = {
        field.name
        for field in before.schema
        if field.name in table.column_names and table.schema.field(field.name).type != field.type
    }
    if not changed:
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


def write_table(
    table: Any,
    path: Path,
    delimiter: str = ",",
    *,
    above: str = "",
    encoding: str = "utf-8",
    line_end: str = "\n",
) -> None:
    """Write a table atomically.

    Args:
        path: the file; its ending names the form. A .csv or .tsv file is compressed if .gz, .bz2 or .zst
            follows.
        delimiter, above, encoding, line_end: of a text: between cells, the lines above the names, its
            encoding, and the end of a line.
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
            text = CsvText() if line_end == "\n" else io.StringIO(newline="")
            frame.to_csv(text, sep="\t" if kind == ".tsv" else delimiter, index=False, lineterminator="\r\n")
            with sink if compression is None else pa.CompressedOutputStream(sink, compression) as stream:
                stream.write((above + text.getvalue()).encode(encoding))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{str(path)!r} cannot hold this table: {reason}; write a .parquet file") from error
    write_atomic(path, sink.getvalue().to_pybytes())
