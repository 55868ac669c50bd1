"""Tables of numbers: from .csv, .npy and .parquet files, and the digits that scikit-learn bundles."""

import hashlib
import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.data.sources import reading_parquet
from maskevidence.errors import InputError, import_extra
from maskevidence.tokens import Tokens

SUFFIXES = (".csv", ".npy", ".parquet")
_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")


@dataclass(frozen=True)
class Table:
    """Rows of numbers with named columns.

    Attributes:
        name: where the table comes from, as the user named it.
        values: shape (N, D); NaN where missing.
        columns: D names.
        ids: shape (N,); each row's position in the source.
        notes: what was done to the table, one sentence each.
    """

    name: str
    values: Float64[np.ndarray, "N D"]
    columns: tuple[str, ...]
    ids: Int64[np.ndarray, " N"]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def tokens(self) -> Tokens:
        """The rows as tokens, with NaN as absent."""
        return Tokens.from_array(self.values, ids=self.ids)

    def fingerprint(self) -> str:
        """A hash of values, column names and row positions: equal tables have equal fingerprints."""
        digest = hashlib.sha256("\x1f".join(self.columns).encode())
        digest.update(np.ascontiguousarray(self.ids).tobytes())
        digest.update(np.ascontiguousarray(self.values).tobytes())
        return digest.hexdigest()

    def head(self, limit: int) -> "Table":
        """The first `limit` rows."""
        if limit < 1:
            raise InputError(f"limit={limit}; give a whole number of 1 or more")
        return replace(self, values=self.values[:limit], ids=self.ids[:limit])

    def select(self, columns: list[str]) -> "Table":
        """The named columns, in the order given.

        Raises:
            InputError: a column that does not exist (lists those that do).
        """
        missing = [column for column in columns if column not in self.columns]
        if missing:
            raise InputError(f"{self.name} has no column {missing[0]!r}; it has {', '.join(self.columns)}")
        where = [self.columns.index(column) for column in columns]
        return replace(self, values=self.values[:, where], columns=tuple(columns))

    def split(self, test_fraction: float, seed: int) -> tuple["Table", "Table"]:
        """Split off held-out rows, chosen at random; both parts keep their order.

        Args:
            test_fraction: the fraction of rows to hold out, in (0, 1).
            seed: seed of the choice.

        Raises:
            InputError: a fraction outside (0, 1), or one that leaves a part empty.
        """
        train, test = held_out_rows(len(self), test_fraction, seed)
        return (
            replace(self, values=self.values[train], ids=self.ids[train]),
            replace(self, values=self.values[test], ids=self.ids[test]),
        )

    def constant_columns(self) -> list[str]:
        """The columns whose observed values are all equal, or that have no observed value."""
        observed = ~np.isnan(self.values)
        low = np.where(observed, self.values, np.inf).min(axis=0)
        high = np.where(observed, self.values, -np.inf).max(axis=0)
        return [name for name, same in zip(self.columns, low >= high, strict=True) if same]


def held_out_rows(
    n_rows: int, test_fraction: float, seed: int
) -> tuple[Int64[np.ndarray, " n_train"], Int64[np.ndarray, " n_test"]]:
    """Positions of training and held-out rows, chosen at random; each part is in order.

    Raises:
        InputError: a fraction outside (0, 1), or one that leaves a part empty.

    Example:
        >>> train, test = held_out_rows(5, 0.4, seed=0)
        >>> len(train), len(test), sorted([*train.tolist(), *test.tolist()])
        (3, 2, [0, 1, 2, 3, 4])
    """
    n_test = round(n_rows * test_fraction) if 0.0 < test_fraction < 1.0 else 0
    if not 1 <= n_test < n_rows:
        raise InputError(
            f"a test fraction of {test_fraction:g} of {n_rows} rows leaves no row to train on or none "
            "to score; give a fraction in (0, 1) and more rows"
        )
    shuffled = np.random.default_rng(seed).permutation(n_rows)
    return np.sort(shuffled[n_test:]), np.sort(shuffled[:n_test])


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
        values = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise InputError(f"{str(file)!r} cannot be read as a .npy array of numbers: {error}") from error
    if values.ndim != 2 or values.dtype.kind not in "buif":
        raise InputError(
            f"{str(file)!r} holds shape {values.shape} of {values.dtype}; save an (N, D) array of numbers"
        )
    columns = tuple(f"c{j}" for j in range(values.shape[1]))
    return Table(str(file), values.astype(np.float64), columns, np.arange(len(values)))


def _read_csv(file: Path) -> Table:
    import csv

    import pyarrow as pa
    from pyarrow import csv as pa_csv

    try:
        with file.open(newline="", encoding="utf-8-sig") as lines:
            header = next(csv.reader(lines), [])
    except UnicodeDecodeError as error:
        raise InputError(f"{str(file)!r} is not UTF-8 text ({error}); save it as UTF-8") from error
    headless = all(_is_number(name) for name in header)
    options = pa_csv.ConvertOptions(null_values=list(_MISSING), strings_can_be_null=True)
    try:
        table = pa_csv.read_csv(
            file, read_options=pa_csv.ReadOptions(autogenerate_column_names=headless), convert_options=options
        )
    except pa.ArrowInvalid as error:
        raise InputError(f"{str(file)!r} is not a regular CSV table: {error}") from error
    if headless:
        table = table.rename_columns([f"c{j}" for j in range(table.num_columns)])
    note = ("the first line holds numbers only and was read as data",) if headless else ()
    return _from_arrow(str(file), table, first_line=1 if headless else 2, notes=note)


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
    for j, (column, data) in enumerate(zip(table.column_names, table.columns, strict=True)):
        kind = data.type
        if types.is_string(kind) or types.is_large_string(kind) or types.is_dictionary(kind):
            values[:, j] = _numbers(data.to_pylist(), f"{name!r} has text in column {column!r}", first_line)
        elif types.is_null(kind):
            values[:, j] = np.nan
        elif (
            types.is_boolean(kind)
            or types.is_integer(kind)
            or types.is_floating(kind)
            or types.is_decimal(kind)
        ):
            values[:, j] = data.cast(pa.float64()).to_numpy()
        else:
            raise InputError(f"{name!r} has values of type {kind} in column {column!r}; give numbers only")
    return Table(name, values, tuple(table.column_names), np.arange(len(values)), notes)


def _numbers(cells: list[str | None], where: str, first_line: int) -> list[float]:
    """Cells of text as numbers; the error names the first cell that is not a number."""
    numbers = []
    for row, cell in enumerate(cells):
        if cell is not None and not _is_number(cell):
            place = f"line {first_line + row}" if first_line else f"row {row} (from 0)"
            raise InputError(
                f"{where}, {place}: {cell!r}; give numbers only, and leave cells of missing values empty"
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
