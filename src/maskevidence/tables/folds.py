"""Folds of the rows of a table, which keep copies together."""

import heapq

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.support.keyed_random import first_copies

_MOST_COMMON = 5  # a row above a fifth of all rows is not a copy: every fit has to see it


def folds_of(
    rows: Float64[np.ndarray, "N D"],
    n: int,
    rng: np.random.Generator | np.random.RandomState,
    first: Int64[np.ndarray, " N"] | None = None,
) -> list[Int64[np.ndarray, " _"]]:
    """Divide rows at random into n folds; copies of a row share a fold (see `first_copies`).

    Without copies these are the parts of `np.array_split` of a random order. Otherwise copies go, the most
    numerous first, where the fewest rows are, and the other rows level the folds. With fewer different rows
    than folds, there are fewer folds.

    Args:
        rows: shape (N, D), NaN where a value is missing.
        first: for each row, the first one that shares its fold; by default `first_copies`.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(6, 4))
        >>> folds = folds_of(np.tile(x, (2, 1)), 3, np.random.default_rng(1))
        >>> [sorted((fold % 6).tolist()) for fold in folds]
        [[1, 1, 4, 4], [2, 2, 5, 5], [0, 0, 3, 3]]
    """
    order, first = rng.permutation(len(rows)), first_copies(rows) if first is None else first
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


def _levelling(load: Int64[np.ndarray, " n"], n_rows: int) -> Int64[np.ndarray, " n"]:
    """Number of single rows to add to each fold, so that the folds are as even as possible."""
    ordered = np.sort(load)
    room = ordered * np.arange(1, len(load) + 1) - np.cumsum(ordered)  # to fill the first k up to the k-th
    k = int(np.searchsorted(room, n_rows, side="right"))
    level = -(-(n_rows + int(ordered[:k].sum())) // k)
    given = np.maximum(level - load, 0)
    given[np.flatnonzero(given)[::-1][: int(given.sum()) - n_rows]] -= 1
    return given
