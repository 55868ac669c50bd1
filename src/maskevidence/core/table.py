"""Tables of numbers with named columns, and the choice of held-out rows."""

import numbers
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.errors import InputError
from maskevidence.core.support.checks import whole_number, word_of
from maskevidence.core.support.keyed_random import held_out_first
from maskevidence.core.support.provenance import digest


def spreads(table: Float64[np.ndarray, "N D"]) -> Float64[np.ndarray, " D"]:
    """Standard deviation of each column's observed values; exactly 0 if they are all equal.

    That of equal numbers is often a rounding error above 0. NaN where a column has no value.

    Example:
        >>> x = np.array([[0.1, 1.0], [0.1, np.nan], [0.1, 3.0]])
        >>> spreads(x).tolist(), bool(x[:, 0].std() > 0)
        ([0.0, 1.0], True)
    """
    return np.where(np.nanmin(table, axis=0) == np.nanmax(table, axis=0), 0.0, np.nanstd(table, axis=0))


def varies(table: Float64[np.ndarray, "N D"]) -> Bool[np.ndarray, " D"]:
    """Which columns have at least two different observed values.

    Example:
        >>> varies(np.array([[0.1, 1.0, np.nan], [0.1, np.nan, np.nan], [0.1, 3.0, np.nan]])).tolist()
        [False, True, False]
    """
    seen = ~np.isnan(table)
    return np.where(seen, table, np.inf).min(axis=0) < np.where(seen, table, -np.inf).max(axis=0)


def with_values(table: Float64[np.ndarray, "N D"]) -> Bool[np.ndarray, " N"]:
    """Which rows have at least one observed value.

    Example:
        >>> with_values(np.array([[np.nan, 1.0], [np.nan, np.nan]])).tolist()
        [True, False]
    """
    return ~np.isnan(table).all(axis=1)


if TYPE_CHECKING:
    from maskevidence.core.tokens import Tokens

PIXEL = re.compile(r"(?:pixel_|r)(\d+)(?:_|c)(\d+)(?:b([012]))?")  # a column's name: row, column, colour


@dataclass(frozen=True)
class Table:
    """Rows of numbers with named columns, accepted as an array by numpy and by this package.

    Attributes:
        name: where the table comes from, as the user named it.
        values: shape (N, D); NaN where missing.
        columns: D names.
        ids: shape (N,); each row's position in the source.
        notes: changes of the values, and guesses of the reader, one sentence each.
        labels: N names of the rows; None if they have none.
        categories: for columns of categories that were made columns of 0 and 1, all categories in order; the
            first one has no column of its own.
        levels: for columns of words, the words in order; the values of the column are positions among them.
        kinds: "yes/no", "category" or "number" for columns whose kind the user set.
        lines: the line of each row of the source in its file; None if that has no lines.
        odd: cells that are no number among numbers, as they stand, by column and by the id of their row. They
            are NaN among the values, but no holes.
        codes: words that are repeated among numbers, likewise.
        limits: ends (low, high) of the intervals that cells such as <0.5 stand for, likewise.
        forms: how columns write their numbers and dates, by column: objects with `write(value)`; columns of
            plain numbers have none.

    Example:
        >>> import maskevidence as me
        >>> values = np.array([[0.0, 1.0], [2.0, np.nan], [1.0, 3.0], [3.0, 2.0]])
        >>> table = Table("t", values, ("a", "b"), np.arange(4))
        >>> model = me.models.Gaussian(n_features=2).fit(table)
        >>> model.columns, me.estimate_evidence(model, table).n_tokens
        (['a', 'b'], 7)
    """

    kind: ClassVar[str] = "rows"  # the kind that reads the data again for a report

    name: str
    values: Float64[np.ndarray, "N D"]
    columns: tuple[str, ...]
    ids: Int64[np.ndarray, " N"]
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    lines: Sequence[int] | None = None
    odd: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    codes: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    limits: Mapping[str, Mapping[int, tuple[float, float]]] = field(default_factory=dict)
    forms: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def holes(self) -> Bool[np.ndarray, "N D"]:
        """Which cells are holes: missing, and neither odd nor a repeated word; limits are holes."""
        holes, place = np.isnan(self.values), {int(key): k for k, key in enumerate(self.ids)}
        for cells in (self.odd, self.codes):
            for name, rows in cells.items():
                if name in self.columns:
                    known = [place[row] for row in rows if row in place]
                    holes[known, self.columns.index(name)] = False
        return holes

    def place(self, row: int) -> str:
        """Locate a row in the data: its line in a CSV file, or its position."""
        return place_of(int(self.ids[row]), self.lines)

    def __repr__(self) -> str:
        n_missing = int(np.isnan(self.values).sum())
        return f"Table({self.name!r}: {len(self):,} rows, {len(self.columns)} columns, {n_missing:,} missing)"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=copy)

    def to_frame(self) -> Any:
        """Convert the rows to a pandas data frame, with words decoded; indexed by label or id."""
        from pandas import DataFrame

        index = self.ids if self.labels is None else list(self.labels)
        frame = DataFrame(self.values, columns=list(self.columns), index=index)
        for name, words in self.levels.items():
            frame[name] = [None if np.isnan(code) else words[int(code)] for code in frame[name]]
        return frame

    def tokens(self) -> "Tokens":
        """Convert the rows to tokens; NaN marks absent tokens."""
        from maskevidence.core.tokens import Tokens

        return Tokens.from_array(self.values, ids=self.ids)

    def fingerprint(self) -> str:
        """A hash of values, words, column names and row positions; equal tables have equal fingerprints."""
        words = ("\x1f".join([name, *words]) for name, words in self.levels.items())
        return digest("\x1f".join(self.columns), self.ids, self.values, words)

    def head(self, limit: int) -> "Table":
        """The first `limit` rows."""
        return self.take(np.arange(min(whole_number("limit", limit, 1), len(self))))

    def take(self, rows: Int64[np.ndarray, " n"]) -> "Table":
        """Select rows by position, in this order."""
        labels = None if self.labels is None else tuple(self.labels[row] for row in rows)
        return replace(self, values=self.values[rows], ids=self.ids[rows], labels=labels)

    def select(self, columns: list[str]) -> "Table":
        """Select columns by name, in the order given.

        Raises:
            InputError: a column that does not exist (lists those that do).
        """
        names = set(self.columns)
        missing = [column for column in columns if column not in names]
        if missing:
            raise InputError(f"{self.name} has no column {missing[0]!r}; it has {', '.join(self.columns)}")
        places = {name: number for number, name in enumerate(self.columns)}
        where = [places[column] for column in columns]
        levels = {name: self.levels[name] for name in columns if name in self.levels}
        kinds = {name: self.kinds[name] for name in columns if name in self.kinds}
        return replace(self, values=self.values[:, where], columns=tuple(columns), levels=levels, kinds=kinds)

    def words(self, name: str) -> set[str]:
        """The distinct words in a column."""
        codes = self.values[:, self.columns.index(name)]
        return {self.levels[name][int(code)] for code in np.unique(codes[~np.isnan(codes)])}

    def split(self, test_fraction: float, seed: int) -> tuple["Table", "Table"]:
        """Split off random held-out rows; copies stay on one side and both parts keep their order.

        Args:
            test_fraction: the fraction of rows to hold out, in (0, 1).
            seed: seed of the choice.

        Raises:
            InputError: a fraction outside (0, 1), or one that leaves a part empty.
        """
        train, test = held_out_rows(self.values, test_fraction, seed)
        return self.take(train), self.take(test)

    def constant_columns(self) -> list[str]:
        """The columns with at most one distinct observed value."""
        return [name for name, other in zip(self.columns, varies(self.values), strict=True) if not other]


def place_of(row: int, lines: Sequence[int] | None) -> str:
    """Locate a row in its file, whose lines are counted from 1.

    Example:
        >>> place_of(1, [2, 5]), place_of(1, None)
        ('line 5', 'row 1 (from 0)')
    """
    return f"row {row} (from 0)" if lines is None else f"line {lines[row]}"


def cell_value(value: float, words: Sequence[str] | None) -> float | str:
    """Return a cell as a number, or as the word at its position.

    Example:
        >>> cell_value(1.0, ["blue", "red"]), cell_value(2.0, ["blue", "red"]), cell_value(1.0, None)
        ('red', 'another word', 1.0)
    """
    if words is None or np.isnan(value):
        return float(value)
    return words[int(value)] if value < len(words) else "another word"


def held_out_rows(
    rows: int | Float64[np.ndarray, "N D"], test_fraction: float, seed: int
) -> tuple[Int64[np.ndarray, " n_train"], Int64[np.ndarray, " n_test"]]:
    """Choose training and held-out rows at random; return their positions, each part in order.

    Args:
        rows: the rows, whose copies stay on one side, or their number.

    Example:
        >>> train, test = held_out_rows(5, 0.4, seed=0)
        >>> len(train), len(test), sorted([*train.tolist(), *test.tolist()])
        (3, 2, [0, 1, 2, 3, 4])
    """
    n_rows = rows if isinstance(rows, int) else len(rows)
    n_test = round(n_rows * test_fraction) if 0.0 < test_fraction < 1.0 else 0
    if not 1 <= n_test < n_rows:
        raise InputError(
            f"a test fraction of {test_fraction:g} of {n_rows} rows leaves no row to train on or none "
            "to score; give a fraction in (0, 1) and more rows"
        )
    shuffled = np.random.default_rng(seed).permutation(n_rows)
    if isinstance(rows, int):
        return np.sort(shuffled[n_test:]), np.sort(shuffled[:n_test])
    test, train = held_out_first(rows, shuffled, n_test)
    return np.sort(train), np.sort(test)


def as_table(data: Any, words: Collection[str] = ()) -> Table:
    """Convert any rows to a table, with words as positions among the words of their column.

    Words are read from a data frame: a column with one, or of pandas' dtype "category". Its index names rows.

    Args:
        words: columns that hold words, whatever a data frame has there.

    Example:
        >>> import pandas
        >>> table = as_table(pandas.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["red", None, "blue"]}))
        >>> table.levels, table.values[:, 1].tolist()
        ({'b': ('blue', 'red')}, [1.0, nan, 0.0])
    """
    from maskevidence.core.tokens import Tokens, column_names, refuse_rounded

    if isinstance(data, Table):
        return data
    names, levels, labels = column_names(data), dict[str, tuple[str, ...]](), None
    blank = list[str]()
    if names is not None and hasattr(data, "iloc"):
        columns = {name: data.iloc[:, place] for place, name in enumerate(names)}
        for name, column in columns.items():
            check_cells(name, column)
            if name in words or is_words(column):
                cells = _words(column)
                levels[name] = tuple(sorted({*cells} - {""}))
                blank += [blank_note(name)] if cells.count("") > column.isna().sum() else []
        if not np.array_equal(data.index, np.arange(len(data))):
            labels = tuple(map(str, data.index))
        if levels:
            frame, of_numbers = data, [j for j, name in enumerate(names) if name not in levels]
            data = np.column_stack([_as_numbers(columns[name], levels.get(name)) for name in names])
            refuse_rounded(data[:, of_numbers], frame.iloc[:, of_numbers])
    tokens = Tokens.from_array(data, empty_rows=True)
    values = np.where(tokens.maskable.numpy(), tokens.values.numpy(), np.nan)
    columns_of = tuple(names or [f"c{j}" for j in range(values.shape[1])])
    ids, notes = np.arange(len(values)), tuple(blank)
    return Table("the data", values, columns_of, ids, notes, labels=labels, levels=levels)


def blank_note(name: str) -> str:
    """The note on a column of a data frame with words of no letter."""
    return f"'' in column {name!r} is read as missing"


def with_levels_of(table: Table, levels: Mapping[str, Sequence[str]]) -> Table:
    """Encode words by their positions in a model's lists; unknown words get the next number.

    Example:
        >>> table = Table("t", np.array([[1.0], [0.0]]), ("c",), np.arange(2), levels={"c": ("a", "b")})
        >>> with_levels_of(table, {"c": ("b", "d")}).values.tolist()
        [[0.0], [2.0]]
    """
    values = table.values.copy()
    for number, name in enumerate(table.columns):
        words = table.levels.get(name)
        if (words is None) != (name not in levels):
            inside, before = ("numbers", "words") if words is None else ("words", "numbers")
            raise InputError(
                f"column {name!r} of {table.name!r} holds {inside}, the model was fitted to {before}"
            )
        if words is None:
            continue
        position = {word: code for code, word in enumerate(levels[name])}
        codes = np.array([*(position.get(word, len(position)) for word in words), len(position)], float)
        seen = ~np.isnan(values[:, number])
        values[seen, number] = codes[np.minimum(values[seen, number].astype(np.int64), len(words))]
    own = {name: tuple(levels[name]) for name in table.columns if name in levels}
    return replace(table, values=values, levels=own)


def is_words(column: Any) -> bool:
    """Whether a data frame column holds anything but numbers, booleans and missing values."""
    if getattr(column.dtype, "kind", "O") in "biuf":
        return False
    return any(isinstance(cell, str) for cell in column) or str(column.dtype) == "category"


def _words(column: Any) -> list[str]:
    """The cells of a data frame column as words; "" for missing cells."""
    return ["" if missing else word_of(cell) for cell, missing in zip(column, column.isna(), strict=True)]


def _as_numbers(column: Any, levels: Sequence[str] | None) -> Float64[np.ndarray, " N"]:
    """Convert a data frame column to float64, with words as their positions among the levels."""
    if levels is None:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    position = {word: float(code) for code, word in enumerate(levels)}
    return np.array([position.get(word, np.nan) for word in _words(column)])


def check_cells(name: str, column: Any) -> None:
    """Raise an InputError for a column with a cell that is neither number nor word, such as a date."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "biuf" or str(column.dtype) == "category":
        return
    known = (str, numbers.Real, np.bool_, Decimal)
    cells = zip(column, column.isna(), strict=True)
    strange = next((cell for cell, missing in cells if not missing and not isinstance(cell, known)), None)
    if strange is not None or kind in "mM":
        raise InputError(
            f"column {name!r} of the data holds {str(strange)!r:.60}, which is neither a number nor a word; "
            "leave it out, or make it numbers, such as days since a date, or words"
        )


def are_pixels(columns: Sequence[str]) -> bool:
    """Whether all column names are names of pixels.

    Example:
        >>> are_pixels(["r0c0", "r1c2"]), are_pixels(["age"]), are_pixels([])
        (True, False, False)
    """
    return bool(columns) and all(PIXEL.fullmatch(column) for column in columns)
