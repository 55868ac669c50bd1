"""All subsets of a few tokens, in a fixed order."""

import math
from functools import cache
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Int64, Integer

_Integers = Integer[np.ndarray, " B"]
_BoolMatrix = Bool[np.ndarray, "B D"]


def n_subsets(n_tokens: _Integers, size: _Integers, limit: int) -> _Integers:
    """C(n, M), the number of subsets of a size, or 0 if it exceeds `limit`; shape (B,).

    Example:
        >>> n_subsets(np.array([5, 5, 100]), np.array([2, 5, 50]), 32).tolist()
        [10, 1, 0]
    """
    few = n_tokens <= limit  # n > limit tokens have n or more subsets of every size but n
    counts = _binomials(limit)[np.where(few, n_tokens, 0), np.where(few, size, 0)]
    return np.where(few, counts, (size == n_tokens) & (limit > 0))


@cache
def _binomials(limit: int) -> Int64[np.ndarray, "n m"]:
    """C(n, m), or 0 if it exceeds `limit`, for n and m from 0 to `limit`."""
    span = range(limit + 1)
    counts = np.array([[math.comb(n, m) for m in span] for n in span], dtype=np.int64)
    counts[counts > limit] = 0
    return counts


def listed_subsets(n_tokens: _Integers, size: _Integers, limit: int) -> Int64[np.ndarray, "B limit"]:
    """List the subsets of a size in lexicographic order; bit j of a number stands for token j of n.

    Args:
        limit: the largest number of subsets. Rows with fewer of them end in zeros.

    Example:
        >>> [f"{subset:03b}" for subset in listed_subsets(np.array([3]), np.array([2]), 4)[0]]
        ['011', '101', '110', '000']
    """
    return _all_listed(limit)[n_tokens, size]


@cache
def _all_listed(limit: int) -> Int64[np.ndarray, "n m limit"]:
    counts = _binomials(limit)
    listed = np.zeros((*counts.shape, limit), dtype=np.int64)
    for n, m in np.argwhere(counts):
        listed[n, m, : counts[n, m]] = [sum(1 << j for j in subset) for subset in combinations(range(n), m)]
    return listed


def subset_of(masked: _BoolMatrix, maskable: _BoolMatrix) -> _Integers:
    """Encode masks as numbers, one bit per maskable token, at most 62; shape (B,).

    Example:
        >>> subset_of(np.array([[True, False, True]]), np.array([[True, False, True]])).tolist()
        [3]
    """
    return (masked * np.left_shift(1, _places(maskable))).sum(1)


def mask_of(subset: _Integers, maskable: _BoolMatrix) -> _BoolMatrix:
    """Decode subsets of the maskable tokens to masks of shape (B, D).

    Example:
        >>> mask_of(np.array([3]), np.array([[True, False, True]])).tolist()
        [[True, False, True]]
    """
    return (np.right_shift(subset[:, None], _places(maskable)) & 1 == 1) & maskable


def _places(maskable: _BoolMatrix) -> Int64[np.ndarray, "B D"]:
    return np.where(maskable, maskable.cumsum(1) - 1, 0)
