"""The columns of a table's file as pyarrow reads them: CSV, Parquet, Feather or .npy, local or remote."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from maskevidence.data.remote import is_remote, name_in, read_remote
from maskevidence.data.sources import check_utf_8, long_cells, reading_parquet
from maskevidence.errors import InputError
from maskevidence.support.checks import NUMBER
from maskevidence.support.files import reading

SUFFIXES = (".csv", ".tsv", ".parquet", ".feather", ".npy")
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_HEAD = 2**18  # bytes that are looked at to guess how a CSV file is written
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d+,\d+\s*")
_DECIMAL_POINT = re.compile(r"\s*[+-]?\d+\.\d+\s*")


@dataclass(frozen=True)
class RawTable:
    """The columns of a file.

    Attributes:
        name: the file as the user named it.
        columns: a `pyarrow.Table`; those of a CSV file are text, as it stands in the file.
        first_line: the line of the first row in a CSV file; 0 for other files.
        notes: what was guessed, one sentence each.
        delimiter: what separates the cells of a CSV file; a comma for other files.
        decimal: what separates the decimals of a number in a CSV file.
        index: the column that pandas wrote as the index, if there is one.
        text: reads the whole text of a CSV file; None for other files.
    """

    name: str
    columns: Any
    first_line: int = 0
    notes: tuple[str, ...] = ()
    delimiter: str = ","
    decimal: str = "."
    index: str | None = None
    text: Callable[[], str] | None = None


def kind_of_file(name: str) -> str:
    """The ending of a file that says how it is written; that of its compression is left out.

    Example:
        >>> kind_of_file("a.CSV.gz"), kind_of_file("a.parquet"), kind_of_file("a.parquet.gz")
        ('.csv', '.parquet', '.gz')
    """
    path = PurePosixPath(name.lower())
    inner = PurePosixPath(path.stem).suffix
    return inner if path.suffix in COMPRESSIONS and inner in (".csv", ".tsv") else path.suffix


def read_raw(path: str | Path, delimiter: str | None = None) -> RawTable:
    """Read the columns of a file.

    Args:
        path: a file or an address, with one of the endings of `SUFFIXES`; a CSV file may be compressed
            (.csv.gz).
        delimiter: one character that separates the cells of a CSV file; by default it is guessed.

    Raises:
        InputError: a file that is missing, empty, damaged or of another kind.
        MissingExtraError: the package that reads the address is not installed.
    """
    name, remote = str(path), is_remote(str(path))
    kind = kind_of_file(name_in(name) if remote else name)
    if kind not in SUFFIXES:
        raise InputError(f"{name!r} is not a {', '.join(SUFFIXES)} file; convert it to one of these")
    if delimiter is not None and kind not in (".csv", ".tsv"):
        raise InputError(f"--delimiter belongs to CSV tables; leave it out for {name!r}")
    if not remote and not Path(name).is_file():
        raise InputError(f"there is no file {name!r}; check the path")
    content = read_remote(name) if remote else None
    if (Path(name).stat().st_size if content is None else len(content)) == 0:
        raise InputError(f"{name!r} is empty; give a table with at least one row")
    file = _File(name, content)
    if kind == ".npy":
        return _read_npy(file)
    if kind in (".csv", ".tsv"):
        return _read_csv(file, "\t" if kind == ".tsv" and delimiter is None else delimiter)
    return _read_columns(file, kind)


class _File(NamedTuple):
    """A file that can be opened again and again.

    Attributes:
        name: as the user named it.
        content: of a remote file; None for a local one.
    """

    name: str
    content: bytes | None

    def open(self) -> Any:
        """A stream of pyarrow over the uncompressed content."""
        import pyarrow as pa

        compression = COMPRESSIONS.get(PurePosixPath(self.name.lower().partition("?")[0]).suffix)
        source = str(Path(self.name)) if self.content is None else pa.py_buffer(self.content)
        return pa.input_stream(source, compression=compression)

    def source(self) -> Any:
        """What readers of pyarrow take."""
        import pyarrow as pa

        return str(Path(self.name)) if self.content is None else pa.BufferReader(self.content)


def _read_npy(file: _File) -> RawTable:
    import pyarrow as pa

    try:
        with reading(Path(file.name)):
            content = Path(file.name).read_bytes() if file.content is None else file.content
        values = np.load(io.BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError, SyntaxError, BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file.name!r} cannot be read as a .npy array of numbers: {error}") from error
    if not isinstance(values, np.ndarray):
        values.close()
        raise InputError(f"{file.name!r} is an .npz archive of arrays; save one (N, D) array with numpy.save")
    if values.ndim != 2 or values.dtype.kind not in "buif":
        raise InputError(
            f"{file.name!r} holds shape {values.shape} of {values.dtype}; save an (N, D) array of numbers"
        )
    values = values.astype(np.float64) if values.dtype.kind == "f" else values
    columns = {f"c{j}": pa.array(np.ascontiguousarray(values[:, j])) for j in range(values.shape[1])}
    return RawTable(file.name, pa.table(columns))


def _read_columns(file: _File, kind: str) -> RawTable:
    """A Parquet or Feather file, and the column in which pandas keeps the index."""
    from pyarrow import feather, parquet

    if kind == ".parquet":
        with reading_parquet(Path(file.name)):
            table = parquet.read_table(file.source())
    else:
        with reading_parquet(Path(file.name), "Feather"):
            table = feather.read_table(file.source())
    check_utf_8(file.name, table)
    index = [
        one
        for one in (table.schema.pandas_metadata or {}).get("index_columns", ())
        if one in table.column_names
    ]
    return RawTable(file.name, table, index=index[0] if len(index) == 1 else None)


class _Style(NamedTuple):
    """How a CSV file is written.

    Attributes:
        delimiter: what separates the cells.
        decimal: what separates the decimals of a number.
        first: the cells of the first line that is not empty.
        n_empty: the number of empty lines before it.
        notes: what was guessed.
    """

    delimiter: str
    decimal: str
    first: list[str]
    n_empty: int
    notes: tuple[str, ...]

    @property
    def headless(self) -> bool:
        """Whether the first line holds numbers only."""
        return all(map(self.is_number, self.first))

    def is_number(self, cell: str) -> bool:
        """Whether a cell is a number, or a word for a missing one."""
        return is_number(cell.replace(self.decimal, "."))


def _read_csv(file: _File, delimiter: str | None) -> RawTable:
    import pyarrow as pa
    from pyarrow import csv as pa_csv

    try:
        with long_cells():
            style = _style(file, delimiter)
    except csv.Error as error:
        raise InputError(f"{file.name!r} is not a regular CSV table: {error}") from error
    except OSError as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{file.name!r} cannot be read ({reason}); check the file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file.name!r} is not UTF-8 text ({error}); save it as UTF-8") from error

    names = [f"c{j}" for j in range(len(style.first))] if style.headless else style.first
    places = [str(j) for j in range(len(names))]
    convert = pa_csv.ConvertOptions(column_types=dict.fromkeys(places, pa.string()))  # no word is a null
    n_skipped = 0 if style.headless else style.n_empty + 1
    rows = pa_csv.ReadOptions(column_names=places, skip_rows_after_names=n_skipped)
    parse = pa_csv.ParseOptions(delimiter=style.delimiter, newlines_in_values=True)
    try:
        table = pa_csv.read_csv(file.open(), read_options=rows, parse_options=parse, convert_options=convert)
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{file.name!r} is not a regular CSV table: {reason}") from error

    def text() -> str:
        with file.open() as stream:
            return stream.read().decode("utf-8-sig")

    last = table.column(-1)[-1].as_py() if table.num_rows else ""
    if ("\n" in last or "\r" in last) and not text().rstrip("\r\n").endswith('"'):
        raise InputError(f"{file.name!r} is not a regular CSV table: it has quotes that are not closed")
    return RawTable(
        file.name,
        table.rename_columns(names),
        first_line=1 if style.headless else 2,
        notes=style.notes,
        delimiter=style.delimiter,
        decimal=style.decimal,
        text=text,
    )


def as_written(raw: RawTable) -> Any:
    """The cells of a CSV file as they are written in it, quotes included, as a `pyarrow.Table`.

    Args:
        raw: the columns of a CSV file.

    Raises:
        InputError: the file has changed, or cannot be divided into the same cells.
    """
    import pyarrow as pa

    assert raw.text is not None
    text = raw.text()
    rows, regular = [line.split(raw.delimiter) for line in re.split("\r\n|\r|\n", text) if line], True
    if '"' in text:
        rows, regular = _quoted_rows(text, raw.delimiter)
    names = raw.columns.column_names if raw.first_line == 1 else rows.pop(0)
    regular = regular and all(len(row) == raw.columns.num_columns for row in [names, *rows])
    if not regular or len(rows) != raw.columns.num_rows:
        raise InputError(f"{raw.name!r} is not a regular CSV table: it has quotes that are not closed")
    columns = [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
    return pa.Table.from_arrays(columns, names)


def _quoted_rows(text: str, delimiter: str) -> tuple[list[list[str]], bool]:
    """The cells of each line that is not empty, quotes included, and whether all quotes are closed."""
    mark = re.escape(delimiter)
    cell = re.compile(rf'("[^"]*+(?:""[^"]*+)*+")?([^{mark}\r\n]*)({mark}|\r\n|\r|\n|\Z)')
    rows: list[list[str]] = []
    row: list[str] = []
    regular = True
    for in_quotes, rest, end in cell.findall(text):
        regular = regular and (in_quotes != "" or not rest.startswith('"'))
        row.append(in_quotes + rest)
        if end != delimiter:
            rows += [row] if row != [""] else []
            row = []
    return rows, regular


def _style(file: _File, delimiter: str | None) -> _Style:
    """How the first lines of a CSV file are written."""
    with file.open() as stream:
        content = more = stream.read(_HEAD)
        while more and b"\n" not in content:
            content += (more := stream.read(_HEAD))
        if stream.read(1):
            content = content[: content.rfind(b"\n") + 1]  # whole lines
    text = content.decode("utf-8-sig")
    notes = []
    if delimiter is None:
        delimiter = _guessed_delimiter(text)
        if delimiter != ",":
            notes.append(f"cells are separated by {'tabs' if delimiter == chr(9) else repr(delimiter)}")
    rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    cells = [cell for row in rows for cell in row]
    decimal = "."
    if delimiter != "," and any(map(_DECIMAL_COMMA.fullmatch, cells)):
        if any(map(_DECIMAL_POINT.fullmatch, cells)):
            raise InputError(
                f"{file.name!r} has numbers with a decimal comma and others with a decimal point; write all "
                "in one way"
            )
        decimal = ","
        notes.append("numbers are read with a decimal comma")
    n_empty, first = next(((k, row) for k, row in enumerate(rows) if row), (0, []))
    style = _Style(delimiter, decimal, first, n_empty, tuple(notes))
    numbers = [cell for cell in style.first if style.is_number(cell) and cell.strip() not in MISSING]
    if style.headless:
        notes.append("the first line holds numbers only and was read as data")
    elif numbers:
        shown = ", ".join(map(repr, numbers[:3])) + (", ..." if len(numbers) > 3 else "")
        notes.append(f"the first line was taken for the names of the columns, though {shown} are numbers")
    return style._replace(notes=tuple(notes))


def _guessed_delimiter(text: str) -> str:
    """A semicolon, tab or bar that cuts the first lines equally, or alone cuts the first; else a comma."""

    def widths(delimiter: str) -> list[int]:
        return [len(row) for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]

    first = text.partition("\n")[0]
    for delimiter in (";", "\t", "|"):
        cells = widths(delimiter) if delimiter in first else [1]
        if cells[0] > 1 and (len(set(cells)) == 1 or widths(",")[0] == 1):
            return delimiter
    return ","


def is_number(cell: str) -> bool:
    """Whether a cell is a number in the digits 0 to 9, or a word for a missing one.

    Example:
        >>> is_number("1e3"), is_number("NA"), is_number("red"), is_number("1_000")
        (True, True, False, False)
    """
    return re.match(NUMBER, cell.strip()) is not None or cell.strip() in MISSING
