"""The columns of a file as rows of numbers: which are used, and what is refused."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.data.one_hot import Encoded, encode
from maskevidence.data.table import Table, note_on_codes
from maskevidence.data.table_files import MISSING, RawTable, is_number
from maskevidence.errors import InputError
from maskevidence.support.checks import NUMBER
from maskevidence.tokens import MAX_WHOLE

MAX_MAGNITUDE = 1e100  # squares, and sums of squares, stay finite
_MAX_NAMED = 6  # columns in an error
_FEW_WORDS = 3  # among numbers, which may stand for missing values
_ENOUGH_ROWS = 5  # to call a column an index
_MAX_SHOWN = 60  # characters of a cell in an error
TRUE, FALSE = ["1", "true", "TRUE", "True"], ["0", "false", "FALSE", "False"]


@dataclass(frozen=True)
class Selection:
    """Which columns of a file are used, and how.

    Attributes:
        columns: the columns to use, in this order; None for all.
        drop: columns to leave out.
        id_column: the column with the names of the rows, which is not data; None for none.
        one_hot: columns of categories.
        missing: words and numbers that stand for missing values.
    """

    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    id_column: str | None = None
    one_hot: Sequence[str] = ()
    missing: Sequence[str] = ()


class _Unusable(NamedTuple):
    """Why a column cannot be read as numbers.

    Attributes:
        name: of the column.
        place: of the first cell that is no number, and the cell; or the type of the column.
        words: the different cells that are no numbers, at most one more than `_FEW_WORDS`.
        among_numbers: whether other cells are numbers.
    """

    name: str
    place: str
    words: frozenset[str]
    among_numbers: bool


def to_table(raw: RawTable, selection: Selection = Selection(), *, empty_rows: bool = False) -> Table:
    """The chosen columns of a file in float64.

    Args:
        raw: the columns as they are in the file.
        selection: which of them are used, and how.
        empty_rows: whether a row may be without any value.

    Raises:
        InputError: no rows, a column that does not exist or cannot be read as numbers, two columns of one
            name, an infinite or rounded value, or a row or column without any value.
    """
    names = names_of(raw)
    if not raw.columns.num_columns or not raw.columns.num_rows:
        raise InputError(f"{raw.name!r} has no rows; give a table with at least one")
    id_column = selection.id_column or raw.index
    _check_names(
        raw.name, names, [*(selection.columns or ()), *selection.drop, *selection.one_hot], id_column
    )
    wanted = names if selection.columns is None else list(selection.columns)
    left_out = {*selection.drop, id_column}
    used = [name for name in wanted if name not in left_out]
    if not used:
        raise InputError(f"no column of {raw.name!r} is left; name one or more that are data")
    for name in selection.one_hot:
        if name not in used:
            raise InputError(f"--one-hot {name!r} is not among the columns that are used: {', '.join(used)}")
    read, unusable, encoded = {}, [], {}
    places = {name: place for place, name in enumerate(names)}
    for name in used:
        column = raw.columns.column(places[name])
        if name in selection.one_hot:
            encoded[name] = encode(raw.name, name, column, selection.missing)
            continue
        found = _numbers(name, column, raw, selection.missing)
        if isinstance(found, _Unusable):
            unusable.append(found)
        else:
            read[name] = found
    if unusable:
        raise _refusal(raw.name, unusable)
    _check_exact(raw, names, read)
    table = _assembled(raw, used, read, encoded)
    labels = None if id_column is None else _labels(raw, names.index(id_column))
    return _checked(_with_notes(table, labels, raw, id_column), empty_rows)


def names_of(raw: RawTable) -> list[str]:
    """The names of a file's columns, where a column without a name is called by its place, c0, c1, ..."""
    return [name or f"c{j}" for j, name in enumerate(raw.columns.column_names)]


def _check_names(file: str, names: list[str], chosen: Sequence[str], id_column: str | None) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"{file!r} has two columns named {twice[0]!r}; rename or remove one")
    known = set(names)
    for name in [*chosen, *([] if id_column is None else [id_column])]:
        if name not in known:
            raise InputError(f"{file!r} has no column {name!r}; it has {', '.join(names)}")


def _numbers(
    name: str, column: Any, raw: RawTable, missing: Sequence[str]
) -> Float64[np.ndarray, " N"] | _Unusable:
    """A column in float64 with NaN where a value is missing, or why it cannot be read so."""
    import pyarrow as pa
    from pyarrow import types

    kind = column.type
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
        return _Unusable(name, f"values of type {kind}", frozenset([str(kind)]), among_numbers=False)
    values = column.cast(pa.float64(), safe=False).to_numpy().astype(np.float64)
    for marker in missing:
        if is_number(marker) and marker.strip() not in MISSING:
            values[values == float(marker)] = np.nan
    return values


def _from_text(name: str, column: Any, raw: RawTable, missing: Sequence[str]) -> Any:
    """Cells of text in float64, null where a value is missing; truth values are 0 and 1."""
    import pyarrow as pa
    from pyarrow import compute

    absent = pa.array(sorted({*MISSING, *missing}), column.type)
    cells = compute.utf8_trim_whitespace(column)
    cells = compute.if_else(compute.is_in(cells, absent), None, cells)
    if raw.decimal != ".":  # where the decimal mark is a comma
        cells = compute.replace_substring(compute.replace_substring(cells, ".", "_"), raw.decimal, ".")
    try:
        numbers = cells.cast(pa.float64())
        if not compute.any(compute.is_nan(numbers)).as_py():  # of a word such as nan(x)
            return numbers
    except pa.ArrowInvalid:
        pass
    wrong = compute.invert(compute.match_substring_regex(cells, NUMBER))
    if not compute.any(wrong).as_py():
        return compute.utf8_ltrim(cells, "+").cast(pa.float64())
    if compute.all(compute.is_in(compute.drop_null(cells), pa.array(TRUE + FALSE, column.type))).as_py():
        true = compute.is_in(cells, pa.array(TRUE, column.type)).cast(pa.float64())
        return compute.if_else(compute.is_null(cells), None, true)
    bad = np.flatnonzero(compute.fill_null(wrong, False).to_numpy())
    words = compute.unique(column.filter(compute.fill_null(wrong, False))).to_pylist()[: _FEW_WORDS + 1]
    n_numbers = len(column) - cells.null_count - len(bad)
    place = f"{place_of(int(bad[0]), raw.first_line)}: {_short(column[int(bad[0])].as_py())}"
    return _Unusable(name, place, frozenset(words), n_numbers > 0)


def _short(cell: str) -> str:
    """A cell in quotes, cut if it is long."""
    return repr(cell if len(cell) <= _MAX_SHOWN else f"{cell[:_MAX_SHOWN]}...")


def _refusal(file: str, columns: list[_Unusable]) -> InputError:
    """All columns that cannot be read, each with its first cell, and what the user can do."""
    names = [column.name for column in columns]
    listed = ",".join(names[:_MAX_NAMED]) + (",..." if len(names) > _MAX_NAMED else "")
    if len(columns) == 1:
        what = f"text in column {names[0]!r}, {columns[0].place}"
    else:
        more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
        each = "; ".join(f"{column.name!r}, {column.place}" for column in columns[:_MAX_NAMED])
        what = f"text in {len(columns)} columns ({each}{more})"
    remedies = [
        f"--drop {listed} leaves {'it' if len(columns) == 1 else 'them'} out",
        "--id-column takes a column for the names of the rows",
        "--one-hot encodes categories",
    ]
    holed = [column for column in columns if column.among_numbers and len(column.words) <= _FEW_WORDS]
    words = sorted(frozenset().union(*(column.words for column in holed)))
    if words and len(words) <= _FEW_WORDS:
        remedies.append(f"--missing '{','.join(words)}' reads what stands among numbers as missing values")
    return InputError(f"{file!r} has {what}; give numbers only: {', '.join(remedies)}")


def _check_exact(raw: RawTable, names: list[str], read: dict[str, Float64[np.ndarray, " N"]]) -> None:
    """Refuse whole numbers that float64 cannot hold: rounded, different ones would become equal."""
    large = [name for name, values in read.items() if (np.abs(values) >= MAX_WHOLE).any()]
    if not large:
        return
    for name in large:
        cells = raw.columns.column(names.index(name)).to_pylist()
        for row in np.flatnonzero(np.abs(read[name]) >= MAX_WHOLE).tolist():
            try:
                number = int(cells[row])
                whole = isinstance(cells[row], str) or number == cells[row]
            except (ValueError, OverflowError):  # text such as 1e20
                continue
            if whole and not isinstance(cells[row], float) and abs(number) > MAX_WHOLE:
                raise InputError(
                    f"{raw.name!r} has the whole number {number} in column {name!r}, "
                    f"{place_of(row, raw.first_line)}, beyond 2^53, which would be rounded; leave the column "
                    "out if it holds identifiers (--drop or --id-column), or subtract an offset"
                )


def place_of(row: int, first_line: int) -> str:
    """Where a row is in its file.

    Example:
        >>> place_of(3, first_line=2), place_of(3, first_line=0)
        ('line 5', 'row 3 (from 0)')
    """
    return f"line {first_line + row}" if first_line else f"row {row} (from 0)"


def _assembled(
    raw: RawTable, used: list[str], read: dict[str, Float64[np.ndarray, " N"]], encoded: dict[str, Encoded]
) -> Table:
    """The columns side by side, categories as several."""
    columns: dict[str, Float64[np.ndarray, " N"]] = {}
    for name in used:
        parts = encoded[name].columns if name in encoded else {name: read[name]}
        for part, values in parts.items():
            if part in columns or (part != name and part in read):
                raise InputError(f"{raw.name!r} would have two columns named {part!r}; rename one")
            columns[part] = values
    values = np.column_stack(list(columns.values()))
    categories = {name: one.categories for name, one in encoded.items()}
    return Table(raw.name, values, tuple(columns), np.arange(len(values)), raw.notes, categories=categories)


def _labels(raw: RawTable, place: int) -> tuple[str, ...]:
    cells = raw.columns.column(place).to_pylist()
    return tuple("" if cell is None else str(cell) for cell in cells)


def _with_notes(table: Table, labels: tuple[str, ...] | None, raw: RawTable, id_column: str | None) -> Table:
    """The table with its labels, and with notes on columns that look like an index."""
    notes = list(table.notes)
    if raw.index is not None and id_column == raw.index:
        notes.append(f"the rows are named by the index of the data frame, {raw.index!r}")
    if labels is not None and len(set(labels)) < len(labels):
        notes.append(f"only {len(set(labels)):,} of the {len(labels):,} names in {id_column!r} are different")
    for name, values in zip(table.columns, table.values.T, strict=True):
        start = values[0]
        if len(values) >= _ENOUGH_ROWS and start in (0, 1) and (np.diff(values) == 1).all():
            notes.append(
                f"column {name!r} counts {start:.0f}, {start + 1:.0f}, {start + 2:.0f}, ...: if it is an "
                "index and not data, leave it out (--drop), or let it name the rows (--id-column)"
            )
    notes += note_on_codes(table.values, table.columns)
    return replace(table, labels=labels, notes=tuple(notes))


def _checked(table: Table, empty_rows: bool) -> Table:
    infinite = np.argwhere(np.isinf(table.values))
    if len(infinite):
        row, column = infinite[0]
        raise InputError(
            f"{table.name!r} has an infinite value in column {table.columns[column]!r}, row {row} (from 0); "
            "give a finite number, or leave the cell of a missing value empty"
        )
    extreme = np.argwhere(np.abs(table.values) > MAX_MAGNITUDE)
    if len(extreme):
        row, column = extreme[0]
        raise InputError(
            f"{table.name!r} has the value {table.values[row, column]:g} in column "
            f"{table.columns[column]!r}, row {row} (from 0), beyond {MAX_MAGNITUDE:g}, whose "
            "square float64 cannot hold; rescale the column"
        )
    missing = np.isnan(table.values)
    if missing.all(axis=0).any():
        empty = [name for name, none in zip(table.columns, missing.all(axis=0), strict=True) if none]
        which = f"column {empty[0]!r}" if len(empty) == 1 else f"columns {', '.join(map(repr, empty))}"
        out = "it" if len(empty) == 1 else "them"
        raise InputError(
            f"{table.name!r} has no value in {which}; leave {out} out (--drop {','.join(empty)})"
        )
    if missing.all(axis=1).any() and not empty_rows:
        row = int(np.flatnonzero(missing.all(axis=1))[0])
        raise InputError(f"{table.name!r} has no value in row {row} (from 0); leave it out")
    return table
