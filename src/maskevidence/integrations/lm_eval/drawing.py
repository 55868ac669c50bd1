"""The masks of a question: the same for all of its choices, as far as their lengths allow.

One draw of a question is a random order of token places and a few mask sizes. Its masks are successive
windows
of the order, which goes on from its beginning at its end: each mask alone is a uniformly random subset of its
size, and together the masks of a draw hide all tokens equally often, up to one time. A choice of n tokens
takes the places below n of the order, and the size floor(u·n) + 1 of the same u: choices of equal length
share their masks. With uniform u, each mask gives

    n/M · Σ_{j masked} log p(x_j | x_visible)

whose expectation is Σ_M S(x; M), the log evidence (Eq. 2), for any number of masks in a draw.
"""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt64

from maskevidence.support.keyed_random import keyed_bits, keyed_ranks, scaled

PER_DRAW = 4  # masks, with sizes a quarter of the number of tokens apart
_SIZE = -1  # where the key of a place would be: the key of the sizes


class Drawn(NamedTuple):
    """Masks and the factors of their sums of log-probabilities.

    Attributes:
        hidden: shape (n_masks, n).
        factor: shape (n_masks,); Σ factor · sum over the masks of a draw estimates the log evidence.
    """

    hidden: Bool[np.ndarray, "n_masks n"]
    factor: np.ndarray


def key_of_texts(texts: Iterable[str]) -> int:
    """The key of the masks of a question: a hash of the set of the contexts of its choices.

    Example:
        >>> key_of_texts(["a", "b"]) == key_of_texts(["b", "a", "b"])
        True
    """
    joined = "\x1f".join(sorted(set(texts))).encode(errors="replace")
    return int.from_bytes(hashlib.sha256(joined).digest()[:7])


def window_masks(seed: int, key: int, draw: int, n_tokens: int) -> Drawn:
    """The masks of one draw for a continuation of n tokens.

    Example:
        >>> drawn = window_masks(seed=0, key=1, draw=0, n_tokens=8)
        >>> drawn.hidden.sum(1).tolist(), bool(np.ptp(drawn.hidden.sum(0)) <= 1)
        ([4, 6, 8, 2], True)
    """
    place = np.ones((1, n_tokens), dtype=np.bool_)
    ranks = keyed_ranks(seed, np.array([[key, draw]]), place)[0]
    size = scaled(_sizes(seed, key, draw), np.full(PER_DRAW, n_tokens)) + 1
    start = np.cumsum(size) - size
    hidden = (ranks[None] - start[:, None]) % n_tokens < size[:, None]
    return Drawn(hidden, n_tokens / (size * PER_DRAW))


def size_controls(seed: int, key: int, draws: Iterable[int]) -> Float64[np.ndarray, " n_masks"]:
    """u - 1/2 of each mask, which all choices share and whose expectation is 0.

    Example:
        >>> size_controls(0, 1, range(1)).round(2).tolist()
        [-0.1, 0.15, 0.4, -0.35]
    """
    return np.concatenate([_sizes(seed, key, draw) / 2.0**64 - 0.5 for draw in draws])


def _sizes(seed: int, key: int, draw: int) -> UInt64[np.ndarray, " n_masks"]:
    """u of each mask of a draw, in units of 2^-64."""
    first = keyed_bits(seed, key, draw, _SIZE)
    with np.errstate(over="ignore"):
        return first + np.uint64(2**64 // PER_DRAW) * np.arange(PER_DRAW, dtype=np.uint64)


def all_masks(n_tokens: int) -> Drawn:
    """Every mask of a short continuation.

    The factor of a mask of size M is 1/(M·C(n, M)), so that the sum is the log evidence without error.

    Example:
        >>> drawn = all_masks(3)
        >>> len(drawn.hidden), drawn.factor[drawn.hidden.sum(1) == 2].tolist()
        (7, [0.16666666666666666, 0.16666666666666666, 0.16666666666666666])
    """
    subset: Int64[np.ndarray, " n_masks"] = np.arange(1, 2**n_tokens)
    hidden = (subset[:, None] >> np.arange(n_tokens)) & 1 == 1
    size = hidden.sum(1)
    count = np.bincount(size, minlength=n_tokens + 1)
    return Drawn(hidden, 1 / (size * count[size]))


def llada_masks(seed: int, key: int, n_masks: int, n_tokens: int, batch: int = 32) -> Drawn:
    """The masks of LLaDA's likelihood: independent subsets, whose sizes are evenly spaced within a batch.

    With k uniform on 1..n, the b masks of a batch have the sizes ((k + round(i·n/b) - 1) mod n) + 1, i =
    0..b-1.

    Args:
        seed: of the run.
        key: of the text.
        n_masks: how many there are in all batches.
        n_tokens: n.
        batch: b, its batch size.

    Source:
        Nie et al. (2025), Large Language Diffusion Models, Algorithm 3, and the evaluation script beside it.

    Example:
        >>> llada_masks(0, 1, n_masks=4, n_tokens=8, batch=4).hidden.sum(1).tolist()
        [8, 2, 4, 6]
    """
    number = np.arange(n_masks)
    first = scaled(keyed_bits(seed, key, _SIZE, number // batch), np.full(n_masks, n_tokens))
    step = np.round(number % batch * n_tokens / min(batch, n_masks)).astype(np.int64)
    size = (first + step) % n_tokens + 1
    keys = np.stack([np.full(n_masks, key), number], axis=1)
    ranks = keyed_ranks(seed, keys, np.ones((n_masks, n_tokens), dtype=np.bool_))
    return Drawn(ranks < size[:, None], n_tokens / (size * n_masks))
