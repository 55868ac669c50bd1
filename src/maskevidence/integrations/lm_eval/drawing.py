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
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, UInt64

from maskevidence.masks import BoolMatrix, Integers, MaskDesign, MaskKey, Plan, Positions, Summation
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


@dataclass(frozen=True)
class LLaDA(MaskDesign):
    """The masks of LLaDA's likelihood: independent subsets, whose sizes are evenly spaced within a batch.

    With k uniform on 1..n, the b masks of a batch have the sizes ((k + round(i·n/b) - 1) mod n) + 1, i =
    0..b-1. A mask depends on the places of the tokens that it may hide, 0, 1, ..., and not on their columns.

    Args:
        draws: masks in all batches.
        batch: b, its batch size.

    Source:
        Nie et al. (2025), Large Language Diffusion Models, Algorithm 3, and the evaluation script beside it.

    Example:
        >>> from maskevidence.masks import drawn_masks
        >>> every = np.ones((1, 8), dtype=np.bool_)
        >>> drawn_masks(LLaDA(4, batch=4), MaskKey(0), np.array([1]), every).size.tolist()
        [8, 2, 4, 6]
    """

    draws: int = 64
    batch: int = 32
    name: ClassVar[str] = "llada"
    purpose: ClassVar[str] = "LLaDA's estimator of the log-probability."

    def n_draws(self, n_tokens: Integers) -> Integers:
        return np.full_like(n_tokens, self.draws)

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        first = scaled(keyed_bits(key.seed, key.columns(ids)[:, 0], _SIZE, index // self.batch), n_tokens)
        step = np.round(index % self.batch * n_tokens / min(self.batch, self.draws)).astype(np.int64)
        return index, (first + step) % n_tokens + 1

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        n_tokens = maskable.sum(1)
        places = np.arange(n_tokens.max()) < n_tokens[:, None]
        ranks = keyed_ranks(key.seed, key.columns(ids, draw), places)
        masked = np.zeros_like(maskable)
        masked[maskable] = (ranks < size[:, None])[places]
        return masked

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        return Summation(n_tokens / self.draws, stratum=np.zeros_like(draw), replicate=draw)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True
