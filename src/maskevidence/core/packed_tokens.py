"""Observations of token ids in a temporary file (32 bits a token, no padding), read block by block."""

import tempfile
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64, Integer
from torch import Tensor

from maskevidence.core.errors import InputError
from maskevidence.core.support.provenance import digest
from maskevidence.core.tokens import Tokens

_OF_ROW = np.dtype([("n_bytes", "<i4"), ("text", "<i8")])
_ROWS_AT_ONCE = 2**14
_LARGEST = 2**31 - 1


class PackedTokens:
    """Observations like `Tokens`, of which only the lengths are in memory; a slice of them is `Tokens`.

    The ids are 0, 1, ... in the order of the rows. 10 million texts of 25 tokens take 40 MB of memory and
    1.1 GB of the folder for temporary files (TMPDIR).

    Args:
        parts: the observations, some at a time; the tokens of each are to the left, all in one dtype.
        pad: the value of places without a token.

    Attributes:
        width: D, the number of columns of each slice.
        spelled: a hash of what all of the tokens spell, which each observation gets; None if not known.

    Raises:
        InputError: vector tokens, a gap between tokens, or a value that is negative or beyond 2^31 - 1.

    Example:
        >>> tokens = Tokens(*map(torch.tensor, ([[5, 6], [7, 0]], [[True] * 2, [True, False]],
        ...     [[False] * 2] * 2, [0, 1])))
        >>> packed = PackedTokens([tokens[:1], tokens[1:]])
        >>> packed.n_tokens.tolist(), packed[1:].values.tolist(), len(packed)
        ([2, 1], [[7, 0]], 2)
    """

    def __init__(self, parts: Iterable[Tokens], pad: int = 0, spelled: int | None = None) -> None:
        self.pad, self.spelled = pad, spelled
        self._ids, self._rows = (tempfile.TemporaryFile() for _ in range(2))  # noqa: SIM115
        for file in (self._ids, self._rows):
            weakref.finalize(self, file.close)
        n_present, n_tokens = [], []
        self._has = dict.fromkeys(("n_bytes", "text"), True)
        self._dtype = torch.int64
        for part in parts:
            self._write(part)
            n_present.append(_small((part.maskable | part.context).sum(1).numpy()))
            n_tokens.append(_small(part.n_tokens.numpy()))
        self._ids.flush()
        self._rows.flush()
        self._n_present, self._n_tokens = map(_joined, (n_present, n_tokens))
        edges = range(0, len(self._n_present), _ROWS_AT_ONCE)
        sizes = [int(self._n_present[first : first + _ROWS_AT_ONCE].sum(dtype=np.int64)) for first in edges]
        self._start = np.cumsum([0, *sizes])  # of every 16,384th row
        self.width = int(self._n_present.max(initial=0))

    def _write(self, part: Tokens) -> None:
        """Append some observations to the files; a context token is written as -1 - its id."""
        present = (part.maskable | part.context).numpy()
        values, self._dtype = part.values.numpy(), part.values.dtype
        if values.ndim != 2 or values.dtype.kind not in "iu":
            raise InputError("only token ids can be packed, whole numbers of shape (B, D)")
        if bool((present[:, 1:] & ~present[:, :-1]).any()):
            raise InputError("tokens to be packed must stand to the left, without a gap")
        ids = values[present]
        if len(ids) and not 0 <= ids.min() <= ids.max() <= _LARGEST:
            raise InputError(f"token ids from {ids.min()} to {ids.max()}; give 0 to {_LARGEST}")
        ids = ids.astype("<i4")
        np.invert(ids, where=part.context.numpy()[present], out=ids)
        self._ids.write(ids.tobytes())
        rows = np.zeros(len(part), dtype=_OF_ROW)
        for name in self._has:
            column = getattr(part, name)
            self._has[name] &= column is not None
            if column is not None:
                rows[name] = column.numpy()
        self._rows.write(rows.tobytes())

    def __len__(self) -> int:
        return len(self._n_tokens)

    @property
    def n_tokens(self) -> Int64[Tensor, " B"]:
        """Number of maskable tokens of each observation, shape (B,)."""
        return torch.from_numpy(self._n_tokens.astype(np.int64))

    @property
    def ids(self) -> Int64[Tensor, " B"]:
        """0, 1, ..., shape (B,)."""
        return torch.arange(len(self))

    def spelled_fingerprint(self) -> str | None:
        """As of `Tokens`."""
        return None if self.spelled is None else digest(torch.full((len(self),), self.spelled))

    def scored_together(self) -> "PackedTokens":
        """The observations themselves: each slice knows its positions."""
        return self

    def __getitem__(self, rows: Int64[Tensor, " b"] | slice) -> Tokens:
        """Read observations by their positions."""
        if isinstance(rows, slice):
            return self._read(*rows.indices(len(self))[:2])
        each = [self._read(row, row + 1) for row in rows.tolist()]
        columns: dict[str, Any] = {name: [getattr(row, name) for row in each] for name in vars(each[0])}
        joined: dict[str, Any] = {n: None if x[0] is None else torch.cat(x) for n, x in columns.items()}
        return Tokens(**joined)

    def whole(self) -> Tokens:
        """All observations in memory."""
        return self[:]

    def parts(self) -> Iterable[Tokens]:
        """All observations, some at a time."""
        return (self[first : first + _ROWS_AT_ONCE] for first in range(0, len(self), _ROWS_AT_ONCE))

    def digest_of(self, *before: Any) -> str:
        """SHA-256 of some parts, and of ids, values, maskable and context, as of `Tokens` in memory."""
        columns = ("ids", "values", "maskable", "context")
        return digest(*before, *(map(attrgetter(name), self.parts()) for name in columns))

    def _read(self, first: int, last: int) -> Tokens:
        group = first // _ROWS_AT_ONCE
        begin = int(self._start[group])
        begin += int(self._n_present[group * _ROWS_AT_ONCE : first].sum(dtype=np.int64))
        n_present = self._n_present[first:last].astype(np.int64)
        ids = np.frombuffer(_bytes(self._ids, 4 * begin, 4 * int(n_present.sum())), dtype="<i4")
        of_row = _bytes(self._rows, _OF_ROW.itemsize * first, _OF_ROW.itemsize * (last - first))
        rows = np.frombuffer(of_row, dtype=_OF_ROW)
        present = np.arange(self.width) < n_present[:, None]
        values = np.full(present.shape, self.pad, dtype=np.int64)
        values[present] = np.where(ids < 0, ~ids, ids)
        context = np.zeros(present.shape, dtype=np.bool_)
        context[present] = ids < 0
        row = torch.arange(first, last)
        extra = {
            name: torch.from_numpy(rows[name].astype(np.int64)) for name, has in self._has.items() if has
        }
        if self.spelled is not None:
            extra["spelled"] = torch.full((last - first,), self.spelled)
        return Tokens(
            values=torch.from_numpy(values).to(self._dtype),
            maskable=torch.from_numpy(present & ~context),
            context=torch.from_numpy(context),
            ids=row,
            position=torch.stack([row, torch.full_like(row, len(self))], 1),
            **extra,
        )


def _joined(parts: list[Integer[np.ndarray, " _"]]) -> Integer[np.ndarray, " B"]:
    """Concatenate parts of non-negative numbers in the smallest dtype that holds them."""
    dtype = max((part.dtype for part in parts), default=np.dtype(np.uint8))
    return np.concatenate([np.zeros(0, dtype), *(part.astype(dtype, copy=False) for part in parts)])


def _small(numbers: Integer[np.ndarray, " _"]) -> Integer[np.ndarray, " _"]:
    return numbers.astype(np.min_scalar_type(numbers.max(initial=0)))


Observations = Tokens | PackedTokens


def _bytes(file: Any, begin: int, n: int) -> bytes:
    file.seek(begin)
    return file.read(n)


@dataclass(frozen=True)
class StoredTokens(Tokens):
    """Tokens of which only ascending ids and counts are in memory; `values` and roles have no rows.

    Attributes:
        counts: shape (B,); the number of maskable tokens of each observation.
        read: gives the tokens of the rows from a position to another, with their ids.
    """

    counts: Int64[Tensor, " B"] = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    read: Callable[[int, int], Tokens] | None = None

    @property
    def n_tokens(self) -> Int64[Tensor, " B"]:
        return self.counts

    def scored_together(self) -> "StoredTokens":
        """The same; each slice knows its positions."""
        return self

    def __getitem__(self, rows: Int64[Tensor, " b"] | slice) -> Tokens:
        """Read a slice of the rows."""
        assert isinstance(rows, slice)
        assert self.read is not None
        start, stop, _ = rows.indices(len(self))
        rank = torch.arange(start, stop)
        return replace(
            self.read(start, stop), position=torch.stack([rank, torch.full_like(rank, len(self))], 1)
        )
