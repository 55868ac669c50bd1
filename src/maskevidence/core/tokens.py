"""A batch of observations, each of which is a row of tokens."""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, SupportsIndex

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64, Shaped
from torch import Tensor

from maskevidence.core.errors import InputError
from maskevidence.core.support.checks import MAX_WHOLE, NUMBER
from maskevidence.core.support.provenance import digest

_NUMBERS_AT_ONCE = 2**16  # number of cells that fits into a processor's cache


@dataclass(frozen=True)
class Tokens:
    """A batch of B observations with up to D tokens each.

    A token that is neither `maskable` nor `context` is absent: padding, or a missing value. Its entry in
    `values` has no meaning and is never read.

    Attributes:
        values: shape (B, D), or (B, D, ...) for vector tokens; any dtype.
        maskable: shape (B, D); True where a token can be hidden and scored.
        context: shape (B, D); True where a token is always visible and never scored.
        ids: shape (B,); a stable number for each observation (its row in the source), which keys its masks.
        n_bytes: shape (B,); the bytes of text behind an observation's maskable tokens; None without text.
        text: shape (B,); a hash of the text that an observation was cut from, the same for every tokenizer;
            None where it is unknown.
        spelled: shape (B,); a hash of the text that the tokens spell, which may lack its case, accents or
            blanks; None where it is unknown.
        position: shape (B, 2); the rank of each observation's id among all that are scored together, and
            their number, which decide the sizes of random-size masks; None before scoring.

    Example:
        >>> tokens = Tokens.from_array([[1.0, 2.0], [float("nan"), 3.0]])
        >>> tokens.maskable.tolist(), tokens.n_tokens.tolist()
        ([[True, True], [False, True]], [2, 1])
    """

    values: Shaped[Tensor, "B D *token"]
    maskable: Bool[Tensor, "B D"]
    context: Bool[Tensor, "B D"]
    ids: Int64[Tensor, " B"]
    n_bytes: Int64[Tensor, " B"] | None = None
    text: Int64[Tensor, " B"] | None = None
    position: Int64[Tensor, "B 2"] | None = None
    spelled: Int64[Tensor, " B"] | None = None

    @classmethod
    def from_array(
        cls, x: object, ids: object = None, dtype: torch.dtype = torch.float64, *, empty_rows: bool = False
    ) -> "Tokens":
        """Convert a table of numbers to tokens; NaN marks a missing value.

        Args:
            x: shape (B, D), anything that numpy reads as numbers (array, list, tensor, data frame, `Table`);
                masked entries of a masked array are missing values.
            ids: shape (B,), whole numbers; by default the ids of a `Table`, and 0..B-1 for other data.
            dtype: dtype of the values.
            empty_rows: whether a row may be without an observed value.

        Raises:
            InputError: data that are not a two-dimensional table of numbers or are empty, an infinite value,
                a whole number that float64 cannot hold, or a row without an observed value.

        Example:
            >>> Tokens.from_array([[1.0, float("inf")]])
            Traceback (most recent call last):
            ...
            maskevidence.core.errors.InputError: the value in row 0, column 1 is infinite; \
give a finite number, or NaN where it is missing
        """
        array = _finite_table(x)
        values = torch.from_numpy(np.nan_to_num(array, nan=0.0)).to(dtype)
        if dtype.is_floating_point and not bool(torch.isfinite(values).all()):
            row, column = torch.nonzero(~torch.isfinite(values))[0].tolist()
            raise InputError(
                f"the value in row {row}, column {called(column_names(x), column)}, {array[row, column]:g}, "
                f"is too large for {dtype}; rescale the column, or use torch.float64"
            )
        observed = ~np.isnan(array)
        if not empty_rows and not observed.any(axis=1).all():
            row = int(np.flatnonzero(~observed.any(axis=1))[0])
            raise InputError(f"row {row} has no observed value; leave such rows out")
        return cls(
            values=values,
            maskable=torch.from_numpy(observed),
            context=torch.zeros(array.shape, dtype=torch.bool),
            ids=torch.from_numpy(_row_ids(x, ids, len(array))),
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, rows: Int64[Tensor, " b"] | slice) -> "Tokens":
        """Select observations by their positions in the batch, which may repeat."""
        return self._each(lambda tensor: tensor[rows])

    def to(self, device: torch.device | str) -> "Tokens":
        """Copy the tokens to a device; return the same object if they are already there."""
        if torch.device(device) == self.values.device:
            return self
        return self._each(lambda tensor: tensor.to(device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Tokens":
        values = (getattr(self, field.name) for field in fields(self))
        return Tokens(*(None if value is None else change(value) for value in values))  # type: ignore[arg-type]

    def scored_together(self) -> "Tokens":
        """Add each observation's position: the rank of its id, and the number of observations.

        Example:
            >>> Tokens.from_array([[1.0], [2.0], [3.0]], ids=[53, 0, 106]).scored_together().position.tolist()
            [[1, 3], [0, 3], [2, 3]]
        """
        position = torch.from_numpy(positions(self.ids.cpu().numpy()))
        return replace(self, position=position.to(self.ids.device))

    def fingerprint(self) -> str:
        """Hash the scored and conditioned values and their roles.

        The order of the rows, padding, the device and the values of absent tokens do not change it. It is the
        SHA-256 of the values in float32. Where these are rounded, a hyphen and the SHA-256 in float64 follow,
        so that a table can be recognised whether a model reads it in float32 or in float64.

        Example:
            >>> first, second = (Tokens.from_array([[1.0, x]]).fingerprint() for x in (2.0, 3.0))
            >>> first == second
            False
        """
        present = self.maskable | self.context
        width = int(present.any(0).nonzero().max()) + 1 if bool(present.any()) else 0
        shape = (len(self), width, *self.values.shape[2:])
        rounded, exact, differ = hashlib.sha256(str(shape).encode()), hashlib.sha256(), False
        rows_at_once = max(1, _NUMBERS_AT_ONCE // max(1, math.prod(shape[1:])))
        for rows in torch.split(torch.argsort(self.ids), rows_at_once):
            roles = self.maskable[rows].to(torch.uint8) + 2 * self.context[rows].to(torch.uint8)
            absent = (roles[:, :width] == 0).reshape(len(rows), width, *[1] * (self.values.ndim - 2))
            values = self.values[rows, :width].masked_fill(absent, 0).detach().cpu().double()
            values += 0.0  # -0.0 + 0.0 is 0.0
            single = values.float()
            rounded.update(_bytes(roles[:, :width]))
            rounded.update(_bytes(single))
            exact.update(_bytes(values))
            differ = differ or not torch.equal(single.double(), values)
        return f"{rounded.hexdigest()}-{exact.hexdigest()}" if differ else rounded.hexdigest()

    def text_fingerprint(self) -> str | None:
        """A hash of the texts behind the tokens, equal for all tokenizers; None if not known."""
        return self._hashed(self.text)

    def spelled_fingerprint(self) -> str | None:
        """A hash of what the tokens spell; None where it is unknown."""
        return self._hashed(self.spelled)

    def _hashed(self, of_each: Int64[Tensor, " B"] | None) -> str | None:
        if of_each is None:
            return None
        return digest(of_each[torch.argsort(self.ids)])

    @property
    def width(self) -> int:
        """D, the number of columns with padding."""
        return self.maskable.shape[1]

    @property
    def n_tokens(self) -> Int64[Tensor, " B"]:
        """Number of maskable tokens of each observation, shape (B,)."""
        return self.maskable.sum(1)

    def visible(self, masked: Bool[Tensor, "B D"]) -> Bool[Tensor, "B D"]:
        """The tokens to condition on when `masked` are hidden: present and not masked; shape (B, D)."""
        return (self.maskable | self.context) & ~masked


def column_names(x: object) -> list[str] | None:
    """The column names of a `Table` or data frame; None for data without column names.

    Columns 0, 1, ... of a data frame, in this order, have no names; other labels are names as text.

    Example:
        >>> from maskevidence.data import Table
        >>> column_names(Table("t", np.ones((1, 2)), ("a", "b"), np.arange(1))), column_names(np.ones((1, 2)))
        (['a', 'b'], None)
    """
    labels = getattr(x, "columns", None)
    names = [] if labels is None or callable(labels) else list(labels)
    if not all(isinstance(name, str) for name in names):
        names = [str(name) for name in names] if hasattr(x, "iloc") and names != [*range(len(names))] else []
    if not names:
        return None
    if len({*names}) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise InputError(f"the data have two columns with the name {twice!r}; give each its own name")
    return names


def number_labels(x: object) -> dict[Any, str]:
    """The names of the columns that a data frame labels with numbers; empty where a number is a position.

    Example:
        >>> import pandas
        >>> number_labels(pandas.DataFrame({2023: [1.0], "b": [2.0]})), number_labels(np.ones((1, 2)))
        ({2023: '2023'}, {})
    """
    if not hasattr(x, "iloc") or column_names(x) is None:
        return {}
    numbers = (label for label in x.columns if isinstance(label, Real) and not isinstance(label, bool))  # type: ignore[attr-defined]
    return {label: str(label) for label in numbers}


def columns_among(names: Sequence[str] | None, width: int, data: object) -> list[int] | None:
    """Find the position in the data of each column, by name if both sides have names.

    This is the one place where the names of data meet others, such as those of a model. Columns without names
    are called 0, 1, ..., as a data frame calls them.

    Args:
        names: of the columns; None if they have none.
        width: their number.

    Returns:
        As many positions; None where columns go by position.

    Raises:
        InputError: the data lack one of the columns.

    Example:
        >>> from maskevidence.data import Table
        >>> columns_among(["a", "b"], 2, Table("t", np.ones((1, 3)), ("b", "c", "a"), np.arange(1)))
        [2, 0]
    """
    given = column_names(data)
    nameless = given is None and hasattr(data, "iloc")
    listed = map(str, range(len(data.columns))) if nameless else ()  # type: ignore[attr-defined]
    position = {name: place for place, name in enumerate(given or listed)}
    own = [str(k) for k in range(width)] if names is None else names
    lacking = [name for name in own if name not in position]
    if not lacking:
        return [position[name] for name in own] if own else None
    if names is None or given is None:
        return None
    raise InputError(
        f"the data have no column {lacking[0]!r}, to which the model was fitted; they have {', '.join(given)}"
    )


def called(names: Sequence[str] | None, column: SupportsIndex) -> str:
    """Name a column in a message: its name in quotes, or its position.

    Example:
        >>> called(["a", "b"], 1), called(None, 1)
        ("'b'", '1')
    """
    return str(column) if names is None else repr(names[int(column)])


def without_mask(x: object) -> object:
    """Replace the masked entries of a numpy masked array by NaN; return other data unchanged.

    Example:
        >>> without_mask(np.ma.masked_array([1.0, 9.0], [False, True])).tolist()
        [1.0, nan]
    """
    if not isinstance(x, np.ma.MaskedArray):
        return x
    array: np.ndarray = np.array(x.data, dtype=None if x.dtype.kind == "f" else object)
    array[np.ma.getmaskarray(x)] = np.nan
    return array


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().numpy().tobytes()


def _finite_table(x: object) -> Float64[np.ndarray, "B D"]:
    """Convert a table to float64 and refuse infinite values; NaN is allowed."""
    x = without_mask(x)
    try:
        cells = np.asarray(x.detach().cpu() if isinstance(x, Tensor) else x)
        if cells.dtype.kind in "cmM":
            raise TypeError(f"they are of type {cells.dtype}")
        if cells.dtype.kind in "OUS" and cells.ndim == 2:
            _refuse_words(cells, column_names(x))
        if cells.dtype.kind == "O" and hasattr(type(x), "isna"):  # pandas has its own missing value
            array = np.where(x.isna(), np.nan, cells).astype(np.float64)  # type: ignore[attr-defined]
        else:
            array = cells.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"the data are not a table of numbers ({error}); give an (N, D) array") from error
    if array.ndim != 2 or array.size == 0:
        raise InputError(f"the data have shape {array.shape}; give an (N, D) table with N, D >= 1")
    if np.isinf(array).any():
        row, column = np.argwhere(np.isinf(array))[0]
        raise InputError(
            f"the value in row {row}, column {called(column_names(x), column)} is infinite; "
            "give a finite number, or NaN where it is missing"
        )
    refuse_rounded(array, x if hasattr(x, "iloc") else cells)
    return array


def refuse_rounded(values: Float64[np.ndarray, "B D"], x: Any) -> None:
    """Raise an InputError for a whole number in a data frame or array whose float64 value is another."""
    if not hasattr(x, "iloc") and x.dtype.kind == "f":
        return
    for column in np.flatnonzero((np.abs(values) >= MAX_WHOLE).any(axis=0)):
        far = np.flatnonzero(np.abs(values[:, column]) >= MAX_WHOLE)
        cells = x.iloc[far, column] if hasattr(x, "iloc") else x[far, column]
        for row, value in zip(far, cells, strict=True):
            if isinstance(value, int | np.integer) and abs(int(value)) > MAX_WHOLE:
                raise InputError(
                    f"the value in row {row}, column {called(column_names(x), column)}, {value}, is a whole "
                    "number beyond 2^53, which would be rounded; leave the column out if it holds "
                    "identifiers, or subtract an offset"
                )


def _row_ids(x: object, ids: object, n_rows: int) -> Int64[np.ndarray, " B"]:
    """The ids of the rows: the argument, the ids of a `Table`, or 0..B-1."""
    if ids is None and callable(getattr(type(x), "tokens", None)):  # a Table
        ids = x.ids  # type: ignore[attr-defined]
    numbers = np.arange(n_rows) if ids is None else np.asarray(ids)
    if numbers.shape != (n_rows,) or numbers.dtype.kind not in "iu":
        raise InputError(
            f"ids have shape {numbers.shape} and dtype {numbers.dtype}; give {n_rows} whole numbers"
        )
    return numbers.astype(np.int64)


def _refuse_words(cells: np.ndarray, names: list[str] | None) -> None:
    """Raise one InputError for all columns with cells that are not numbers."""
    bad: dict[int, str] = {}
    for index, cell in enumerate(cells.flat):
        if isinstance(cell, str) or not isinstance(cell, int | float | np.number | np.bool_ | None):
            row, column = divmod(index, cells.shape[1])
            if column not in bad and not _is_number(cell):
                bad[column] = f"{str(cell)!r:.60} in row {row}"
    if bad:
        listed = ", ".join(called(names, column) for column in bad)
        hold, them = (
            ("column {} holds", "it") if len(bad) == 1 else ("columns {} hold words, such as", "them")
        )
        raise InputError(
            f"the data are not a table of numbers: {hold.format(listed)} {next(iter(bad.values()))}; leave "
            f"{them} out, or encode categories as 0 and 1 (pandas.get_dummies); NaN marks a missing value"
        )


def _is_number(cell: object) -> bool:
    """Whether a cell is a number, the text of a number, or pandas' missing values."""
    if isinstance(cell, str):
        return re.match(NUMBER, cell.strip()) is not None
    try:
        float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(cell) in ("<NA>", "NaT")
    return True


def positions(ids: Int64[np.ndarray, " B"]) -> Int64[np.ndarray, "B 2"]:
    """The position of each observation among those scored together: its id's rank, and their number.

    Example:
        >>> positions(np.array([53, 0, 106])).tolist()
        [[1, 3], [0, 3], [2, 3]]
    """
    rank = np.argsort(np.argsort(ids))
    return np.stack([rank, np.full_like(rank, len(rank))], axis=1)
