"""Folds of rows that keep copies of a row together."""

import heapq
import math
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64, Int64, UInt64

from maskevidence.core.support.keyed_random import keyed_bits

_FEW_VALUES = 20  # a column of more values tells rows apart
_BY_CHANCE, _SHARE = 1.0, 0.05  # most pairs due to chance: number, share of those found
_MOST_CELLS = 2**22  # most cells of a table that is searched for nearly equal rows
_MOST_COMMON = 5  # a row above a fifth of all rows is not a copy: every fit has to see it

_Rows = Float64[np.ndarray, "N D"]


@runtime_checkable
class Shuffles(Protocol):
    """NumPy's old or new random generator."""

    def permutation(self, x: int, /) -> np.ndarray:
        """The numbers 0 to x - 1 in random order."""
        ...


def folds_of(rows: _Rows, n: int, rng: Shuffles) -> list[Int64[np.ndarray, " _"]]:
    """Divide rows at random into n folds; copies of a row share a fold (see `first_copies`).

    Without copies these are the parts of `np.array_split` of a random order. Otherwise copies go, the most
    numerous first, where the fewest rows are, and the other rows level the folds. With fewer different rows
    than folds, there are fewer folds.

    Args:
        rows: shape (N, D), NaN where a value is missing.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(6, 4))
        >>> folds = folds_of(np.tile(x, (2, 1)), 3, np.random.default_rng(1))
        >>> [sorted((fold % 6).tolist()) for fold in folds]
        [[1, 1, 4, 4], [2, 2, 5, 5], [0, 0, 3, 3]]
    """
    order, first = rng.permutation(len(rows)), first_copies(rows)
    n_copies = np.bincount(first, minlength=len(rows))
    together = (n_copies > 1) & (n_copies <= len(rows) / min(n, _MOST_COMMON))
    fold, load = np.full(len(rows), -1), np.zeros(n, dtype=np.int64)
    heads = order[together[order]]
    heap = [(0, k) for k in range(n)]
    for head in heads[np.argsort(-n_copies[heads], kind="stable")].tolist():
        _, k = heap[0]
        fold[head], load[k] = k, load[k] + n_copies[head]
        heapq.heapreplace(heap, (int(load[k]), k))
    fold = np.where(together[first], fold[first], -1)
    alone = order[fold[order] < 0]
    fold[alone] = np.repeat(np.arange(n), _levelling(load, len(alone)))
    ordered = order[np.argsort(fold[order], kind="stable")]
    parts = np.split(ordered, np.cumsum(np.bincount(fold, minlength=n))[:-1])
    return [part for part in parts if len(part)]


def held_out_first(rows: _Rows, order: Int64[np.ndarray, " N"], n: int) -> tuple[np.ndarray, np.ndarray]:
    """Split off about n rows from the front of an order; copies of a row stay on one side.

    Copies move up to the first of them. If the cut would go through them, none of them is held out, or all
    if no other row is.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(4, 4))
        >>> [part.tolist() for part in held_out_first(x[[0, 1, 2, 3, 1]], np.arange(5), 2)]
        [[0], [1, 4, 2, 3]]
    """
    rank, first = np.empty(len(order), dtype=np.int64), first_copies(rows)
    rank[order] = np.arange(len(order))
    lowest = np.full(len(order), len(order))
    np.minimum.at(lowest, first, rank)
    order = order[np.argsort(lowest[first[order]], kind="stable")]
    same = np.flatnonzero(first[order] == first[order[n]]) if 0 < n < len(order) else order[:0]
    if len(same) and same[0] < n:
        n = next((cut for cut in (same[0], same[-1] + 1) if 0 < cut < len(order)), n)
    return order[:n], order[n:]


def first_copies(rows: _Rows) -> Int64[np.ndarray, " N"]:
    """For each row, the index of the first equal row, its own if there is none; missing cells are equal.

    Where equal rows may be chance they are no copies, and each gets its own number: where independent columns
    with these values would have more than one pair of equal rows, or more than 5 % of the pairs there are;
    and, in a table whose columns have at most 20 values, where as many rows differ from another one in a
    single cell as stand more than once.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(3, 4))
        >>> first_copies(x[[0, 1, 0, 2, 1]]).tolist(), first_copies((x[[0, 1, 0]] > 0).astype(float)).tolist()
        ([0, 1, 0, 3, 1], [0, 1, 2])
    """
    alone = np.arange(len(rows))
    _, place, group, n_each = np.unique(
        _keys(rows), return_index=True, return_inverse=True, return_counts=True
    )
    if len(place) == len(rows):
        return alone
    n_values, agree = _values_of(rows)
    chance, n_equal = math.comb(len(rows), 2) * math.prod(agree), float(n_each @ (n_each - 1.0)) / 2
    if chance > min(_BY_CHANCE, _SHARE * n_equal):
        return alone
    if max(n_values) <= _FEW_VALUES and n_nearly_equal(rows) >= (n_each > 1).sum():
        return alone
    first = place[group]
    same = (rows == rows[first]) | (np.isnan(rows) & np.isnan(rows[first]))
    return np.where(same.all(axis=1), first, alone)


def n_nearly_equal(rows: _Rows) -> int:
    """Number of distinct rows that differ from an earlier row in exactly one cell.

    Example:
        >>> n_nearly_equal(np.array([[0.0, 1.0], [0.0, 1.0], [0.0, 2.0], [1.0, 3.0]]))
        1
    """
    keys = _keys(rows)
    keys, place = np.unique(keys, return_index=True)
    near, order = np.zeros(len(place), dtype=bool), np.argsort(place)
    for j, column in enumerate(rows[place[order]].T):
        near |= ~np.isin(np.arange(len(near)), np.unique(keys[order] - _key(j, column), return_index=True)[1])
    return int(near.sum())


def nearly_copies(rows: _Rows) -> int:
    """`n_nearly_equal`, or 0 if independent columns could explain such rows or the table is large.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 4))
        >>> nearly_copies(np.concatenate([x, x[:3] + [0, 0, 0, 1]])), nearly_copies(x.round())
        (3, 0)
    """
    if len(rows) < 2 or rows.size > _MOST_CELLS:
        return 0
    n_values, agree = _values_of(rows)
    if sum(n > _FEW_VALUES for n in n_values) < 2:  # then rows may agree by chance
        return 0
    others = [math.prod(agree[:j] + agree[j + 1 :]) for j in range(len(agree))]
    n_near = n_nearly_equal(rows)
    return n_near if math.comb(len(rows), 2) * sum(others) <= min(_BY_CHANCE, _SHARE * n_near) else 0


def _values_of(rows: _Rows) -> tuple[list[int], list[float]]:
    """For each column, the number of values and the share of pairs of rows that agree."""
    counts = [np.unique(column, return_counts=True)[1] for column in rows.T]
    n_pairs = math.comb(len(rows), 2)
    return [len(n) for n in counts], [float(n @ (n - 1.0)) / 2 / n_pairs for n in counts]


def _keys(rows: _Rows) -> UInt64[np.ndarray, " N"]:
    """A 64-bit hash of each row, the sum of the hashes of its cells."""
    keys = np.zeros(len(rows), dtype=np.uint64)
    for j, column in enumerate(rows.T):
        keys += _key(j, column)
    return keys


def _key(j: int, column: Float64[np.ndarray, " N"]) -> UInt64[np.ndarray, " N"]:
    """A 64-bit hash of each cell of column j."""
    one_zero = np.where(np.isnan(column), np.nan, column.astype(np.float64)) + 0.0
    return keyed_bits(j, one_zero.view(np.int64))


def _levelling(load: Int64[np.ndarray, " n"], n_rows: int) -> Int64[np.ndarray, " n"]:
    """Number of single rows to add to each fold, so that the folds are as even as possible."""
    ordered = np.sort(load)
    room = ordered * np.arange(1, len(load) + 1) - np.cumsum(ordered)  # to fill the first k up to the k-th
    k = int(np.searchsorted(room, n_rows, side="right"))
    level = -(-(n_rows + int(ordered[:k].sum())) // k)
    given = np.maximum(level - load, 0)
    given[np.flatnonzero(given)[::-1][: int(given.sum()) - n_rows]] -= 1
    return given
