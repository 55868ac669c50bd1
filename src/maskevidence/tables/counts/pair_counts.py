"""Joint counts of the codes of two columns, without a row's own copies."""

import numpy as np
from jaxtyping import Float64, Int64

_Places = Int64[np.ndarray, " _"]
_Ints = Int64[np.ndarray, " B"]
_Floats = Float64[np.ndarray, " B"]

_DENSE = 2**20  # pairs that are stored one by one
PRIOR = 0.2  # rows that the column's own frequencies count for


class PairCounts:
    """p(b | a) = (n_ab + κ p(b)) / (n_a + κ) with κ = 0.2, from rows in which both are known.

    Args:
        a: the codes of N rows, -1 for none; None for the frequencies p(b) alone.
        b: likewise, of the column that is predicted.
        sizes: how many codes each may have.
    """

    def __init__(self, a: _Ints | None, b: _Ints, sizes: tuple[int, int]) -> None:
        self.n_b = sizes[1]
        a = np.zeros_like(b) if a is None else a
        there = (a >= 0) & (b >= 0)
        self.rows = np.flatnonzero(there)
        key = a[there] * self.n_b + b[there]
        self.of_a = np.bincount(a[there], minlength=sizes[0])
        self.dense = (
            np.bincount(key, minlength=sizes[0] * self.n_b) if sizes[0] * self.n_b <= _DENSE else None
        )
        self.keys, self.counts = np.unique(key, return_counts=True)
        by_a = np.argsort(a[there], kind="stable")
        self.by_a, self.start = self.rows[by_a], np.cumsum(self.of_a) - self.of_a

    def pairs(self, a: _Ints, b: _Ints) -> _Ints:
        """n_ab; 0 where either has no code."""
        key = np.where((a >= 0) & (b >= 0), a * self.n_b + b, -1)
        if self.dense is not None:
            return np.where(key >= 0, self.dense[key], 0)
        if not len(self.keys):
            return np.zeros(len(a), dtype=np.int64)
        place = np.minimum(np.searchsorted(self.keys, key), len(self.keys) - 1)
        return np.where(self.keys[place] == key, self.counts[place], 0)

    def of(self, a: _Ints) -> _Ints:
        """n_a; 0 where there is no code."""
        return np.where(a >= 0, self.of_a[a], 0)

    def dense_counts(self) -> _Places:
        """n_b of every b, over all rows."""
        return np.bincount(self.keys % self.n_b, self.counts, self.n_b).astype(np.int64)

    def rows_of(self, a: int) -> tuple[_Places, _Places]:
        """The codes b that occur with a, and their counts."""
        first, last = np.searchsorted(self.keys, (a * self.n_b, (a + 1) * self.n_b))
        return self.keys[first:last] - a * self.n_b, self.counts[first:last]

    def drawn(self, a: _Ints, uniform: _Floats) -> _Ints:
        """A training row with each a, drawn at random; a must occur."""
        n = self.of_a[a]
        return self.by_a[self.start[a] + np.minimum((uniform * n).astype(np.int64), n - 1)]
