"""All subsets of a few tokens, in a fixed order."""

import math
from functools import cache
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Int64

Integers = Int64[np.ndarray, " B"]


def n_subsets(n_tokens: Integers, size: Integers, limit: int) -> Integers:
    """The number of subsets of a size, C(n, M), if it is at most `limit`, otherwise 0; shape (B,).

    Args:
        n_tokens: shape (B,); n.
        size: shape (B,); M, from 1 to n.
        limit: the largest number that is counted.

    Example:
        >>> n_subsets(np.array([5, 5, 100]), np.array([2, 5, 50]), 32).tolist()
        [10, 1, 0]
    """
    few = n_tokens <= limit  # more than `limit` tokens have more than `limit` subsets, except for all of them
    counts = _binomials(limit)[np.where(few, n_tokens, 0), np.where(few, size, 0)]
    return np.where(few, counts, (size == n_tokens) & (limit > 0))


@cache
def _binomials(limit: int) -> Int64[np.ndarray, "n m"]:
    """C(n, m) if it is at most `limit`, otherwise 0, for n and m from 0 to `limit`."""
    span = range(limit + 1)
    counts = np.array([[math.comb(n, m) for m in span] for n in span], dtype=np.int64)
    counts[counts > limit] = 0
    return counts


@cache
def subsets(n_tokens: int, size: int) -> Bool[np.ndarray, "n_subsets n_tokens"]:
    """Every subset of a size in lexicographic order, as rows with True for its tokens.

    Example:
        >>> subsets(3, 2).astype(int).tolist()
        [[1, 1, 0], [1, 0, 1], [0, 1, 1]]
    """
    chosen = np.array(list(combinations(range(n_tokens), size)), dtype=np.int64)
    rows = np.zeros((len(chosen), n_tokens), dtype=np.bool_)
    np.put_along_axis(rows, chosen, True, axis=1)
    return rows
