"""Tables of numbers: from .csv, .npy and .parquet files, and the digits that scikit-learn bundles."""

import math
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from maskevidence.data.sources import reading_parquet
from maskevidence.data.table import Table
from maskevidence.errors import InputError, import_extra
from maskevidence.tokens import MAX_WHOLE

SUFFIXES = (".csv", ".npy", ".parquet")
_MAX_MAGNITUDE = 1e100  # squares, and sums of squares, stay finite
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")


def read_table(path: str | Path) -> Table:
    """Read a table of numbers; an empty CSV cell or NaN is a missing value.

    Args:
        path: a .csv file, a .npy file with a two-dimensional array, or a .parquet file. The first line of a
            .csv file names the columns, unless it holds numbers only: then it is data.

    Raises:
        InputError: a file that is missing, empty, damaged or of another kind; text or an infinite value in a
            column; a row or column without any value (the message names the place).

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "table.csv"
        >>> _ = path.write_text("a,b\\n1,2\\n3,\\n")
        >>> read_table(path).values.tolist()
        [[1.0, 2.0], [3.0, nan]]
    """
    file = Path(path)
    if file.suffix.lower() not in SUFFIXES:
        raise InputError(f"{str(path)!r} is not a {', '.join(SUFFIXES)} file; convert it to one of these")
    if not file.is_file():
        raise InputError(f"there is no file {str(path)!r}; check the path")
    if file.stat().st_size == 0:
        raise InputError(f"{str(path)!r} is empty; give a table with at least one row")
    if file.suffix.lower() == ".npy":
        table = _read_npy(file)
    else:
        table = _read_csv(file) if file.suffix.lower() == ".csv" else _read_parquet(file)
    return _checked(table)


def digits() -> Table:
    """The 1,797 handwritten digits that scikit-learn bundles: 8×8 pixels of 0..16, as 64 columns.

    Example:
        >>> digits().values.shape
        (1797, 64)
    """
    datasets = import_extra("sklearn.datasets", "sklearn", "the digits data set")
    bunch = datasets.load_digits()
    values = np.asarray(bunch.data, dtype=np.float64)
    return Table("digits", values, tuple(bunch.feature_names), np.arange(len(values)))


def _read_npy(file: Path) -> Table:
    try:
        with file.open("rb") as content:
            values = np.load(content, allow_pickle=False)
    except (ValueError, EOFError, OSError, MemoryError, SyntaxError, BadZipFile) as error:
        raise InputError(f"{str(file)!r} cannot be read as a .npy array of numbers: {error}") from error
    if not isinstance(values, np.ndarray):
        values.close()
        raise InputError(f"{str(file)!r} is an .npz archive of arrays; save one (N, D) array with numpy.save")
    if values.ndim != 2 or values.dtype.kind not in "buif":
        raise InputError(
            f"{str(file)!r} holds shape {values.shape} of {values.dtype}; save an (N, D) array of numbers"
        )
    columns = tuple(f"c{j}" for j in range(values.shape[1]))
    table = Table(str(file), values.astype(np.float64), columns, np.arange(len(values)))
    if values.dtype.kind in "iu":
        for j in range(len(columns)):
            _check_exact(table, j, values[:, j], first_line=0)
    return table


def _read_csv(file: Path) -> Table:
    import csv

    import pyarrow as pa
    from pyarrow import csv as pa_csv

    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            header = next(csv.reader(lines), [])
    except csv.Error as error:
        raise InputError(f"{str(file)!r} is not a regular CSV table: {error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{str(file)!r} is not UTF-8 text ({error}); save it as UTF-8") from error
    headless = all(_is_number(name) for name in header)

    def read(column_types: dict[str, pa.DataType] | None = None) -> pa.Table:
        options = pa_csv.ConvertOptions(
            null_values=list(_MISSING), strings_can_be_null=True, column_types=column_types
        )
        names = pa_csv.ReadOptions(autogenerate_column_names=headless)
        return pa_csv.read_csv(file, read_options=names, convert_options=options)

    try:
        raw = read()
    except pa.ArrowInvalid as error:
        raise InputError(f"{str(file)!r} is not a regular CSV table: {error}") from error
    names = [f"c{j}" for j in range(raw.num_columns)] if headless else raw.column_names
    note = ("the first line holds numbers only and was read as data",) if headless else ()
    first_line = 1 if headless else 2
    table = _from_arrow(str(file), raw.rename_columns(names), first_line, note)
    # A column of large whole numbers, or with some that are not whole, is read as floating point.
    large = [
        j
        for j, kind in enumerate(raw.schema.types)
        if pa.types.is_floating(kind) and (np.abs(table.values[:, j]) >= MAX_WHOLE).any()
    ]
    cells = read(dict.fromkeys(raw.column_names, pa.string())) if large else raw
    for j in large:
        _check_exact(table, j, cells.column(j).to_pylist(), first_line)
    return table


def _read_parquet(file: Path) -> Table:
    from pyarrow import parquet

    with reading_parquet(file):
        table = parquet.read_table(file)
    return _from_arrow(str(file), table, first_line=0)


def _from_arrow(name: str, table: "object", first_line: int, notes: tuple[str, ...] = ()) -> Table:
    """Arrow columns as float64; messages count lines from `first_line`, or rows from 0 if that is 0."""
    import pyarrow as pa
    from pyarrow import types

    assert isinstance(table, pa.Table)
    if not table.num_columns or not table.num_rows:
        raise InputError(f"{name!r} has no rows; give a table with at least one")
    values = np.empty((table.num_rows, table.num_columns))
    read = Table(name, values, tuple(table.column_names), np.arange(len(values)), notes)
    for j, (column, data) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if types.is_dictionary(data.type):
            data = data.cast(data.type.value_type)
        kind, cells = data.type, None
        if types.is_string(kind) or types.is_large_string(kind):
            cells = data.to_pylist()
            values[:, j] = _numbers(cells, f"{name!r} has text in column {column!r}", first_line)
        elif types.is_null(kind):
            values[:, j] = np.nan
        elif types.is_integer(kind):
            cells = data.fill_null(0).to_numpy()
            values[:, j] = data.cast(pa.float64(), safe=False).to_numpy()
        elif types.is_boolean(kind) or types.is_floating(kind) or types.is_decimal(kind):
            cells = data.to_pylist() if types.is_decimal(kind) else None
            values[:, j] = data.cast(pa.float64()).to_numpy()
        else:
            raise InputError(f"{name!r} has values of type {kind} in column {column!r}; give numbers only")
        if cells is not None:
            _check_exact(read, j, cells, first_line)
    return read


def _check_exact(table: Table, j: int, cells: Any, first_line: int) -> None:
    """Refuse whole numbers that float64 cannot hold: rounded, different ones would become equal.

    Args:
        table: the table with the numbers as float64.
        j: the number of the column.
        cells: a sequence of the entries of the column, as the file holds them.
        first_line: see `_from_arrow`.
    """
    for row in np.flatnonzero(np.abs(table.values[:, j]) >= MAX_WHOLE).tolist():
        try:
            number = int(cells[row])
            whole = isinstance(cells[row], str) or number == cells[row]
        except (ValueError, OverflowError):  # text such as 1e20
            continue
        if whole and abs(number) > MAX_WHOLE:
            raise InputError(
                f"{table.name!r} has the whole number {number} in column {table.columns[j]!r}, "
                f"{_place(row, first_line)}, beyond 2^53, which would be rounded; leave the column out if it "
                "holds identifiers, or subtract an offset"
            )


def _place(row: int, first_line: int) -> str:
    return f"line {first_line + row}" if first_line else f"row {row} (from 0)"


def _numbers(cells: list[str | None], where: str, first_line: int) -> list[float]:
    """Cells of text as numbers; the error names the first cell that is not a number."""
    numbers = []
    for row, cell in enumerate(cells):
        if cell is not None and not _is_number(cell):
            raise InputError(
                f"{where}, {_place(row, first_line)}: {cell!r}; "
                "give numbers only, and leave cells of missing values empty"
            )
        numbers.append(math.nan if cell is None or cell.strip() in _MISSING else float(cell))
    return numbers


def _checked(table: Table) -> Table:
    if not table.values.size:
        raise InputError(f"{table.name!r} has no rows; give a table with at least one")
    if len(set(table.columns)) < len(table.columns):
        twice = next(name for place, name in enumerate(table.columns) if name in table.columns[:place])
        raise InputError(f"{table.name!r} has two columns named {twice!r}; rename or remove one")
    infinite = np.argwhere(np.isinf(table.values))
    if len(infinite):
        row, column = infinite[0]
        raise InputError(
            f"{table.name!r} has an infinite value in column {table.columns[column]!r}, row {row} (from 0); "
            "give a finite number, or leave the cell of a missing value empty"
        )
    extreme = np.argwhere(np.abs(table.values) > _MAX_MAGNITUDE)
    if len(extreme):
        row, column = extreme[0]
        raise InputError(
            f"{table.name!r} has the value {table.values[row, column]:g} in column "
            f"{table.columns[column]!r}, row {row} (from 0), beyond {_MAX_MAGNITUDE:g}, whose "
            "square float64 cannot hold; rescale the column"
        )
    missing = np.isnan(table.values)
    if missing.all(axis=0).any():
        column = int(np.flatnonzero(missing.all(axis=0))[0])
        raise InputError(f"{table.name!r} has no value in column {table.columns[column]!r}; leave it out")
    if missing.all(axis=1).any():
        row = int(np.flatnonzero(missing.all(axis=1))[0])
        raise InputError(f"{table.name!r} has no value in row {row} (from 0); leave it out")
    return table


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.strip() in _MISSING
    return True
