"""Masks that the choices of a question share: choices of equal length have equal masks."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt64

from maskevidence import MaskDesign, MaskKey
from maskevidence.masks.design import BoolMatrix, Integers, Plan, Positions, Summation
from maskevidence.support.keyed_random import keyed_bits, keyed_ranks, scaled

PER_ORDER = 4  # masks, with sizes a quarter of the number of tokens apart
_SIZE = -1  # where the key of a place would be: the key of the sizes


def key_of_texts(texts: Iterable[str]) -> int:
    """The key of the masks of a question: a hash of the set of the contexts of its choices.

    Example:
        >>> key_of_texts(["a", "b"]) == key_of_texts(["b", "a", "b"])
        True
    """
    joined = "\x1f".join(sorted(set(texts))).encode(errors="replace")
    return int.from_bytes(hashlib.sha256(joined).digest()[:7])


@dataclass(frozen=True)
class QuestionKey(MaskKey):
    """The key of masks that depend on the question that an observation belongs to."""

    questions: tuple[int, ...] = ()  # the key of the question of each observation, by its id

    def columns(self, ids: Integers, *draw: Integers) -> Int64[np.ndarray, "B n"]:
        return np.stack([np.array(self.questions)[ids], *draw], axis=1)


@dataclass(frozen=True)
class Windows(MaskDesign):
    """The masks are four consecutive windows of a random order of the tokens; the order wraps around.

    The sizes of the windows are a quarter of the tokens apart. Each mask is a uniformly random subset of a
    uniform size. The four masks of an order hide every token equally often, up to one time. A choice of n
    tokens takes the positions below n of the order and the sizes floor(u·n) + 1 with the u of the question,
    so choices of equal length share their masks.

    Example:
        >>> from maskevidence.masks.drawing import drawn_masks
        >>> every = np.ones((1, 8), dtype=np.bool_)
        >>> hidden = drawn_masks(Windows(1), QuestionKey(0, questions=(1,)), np.array([0]), every).masked()
        >>> hidden.sum(1).tolist(), bool(np.ptp(hidden.sum(0)) <= 1)
        ([4, 6, 8, 2], True)
    """

    orders: int = 16
    name: ClassVar[str] = "question-windows"
    purpose: ClassVar[str] = "Unbiased for the sum over sizes: each mask's size is uniform on 1..D."
    extended_by: ClassVar[str] = "orders"

    def n_draws(self, n_tokens: Integers) -> Integers:
        return np.full_like(n_tokens, PER_ORDER * self.orders)

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        return index, scaled(_shares(key.seed, key.columns(ids)[:, 0], index), n_tokens) + 1

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        n_tokens, (order, window) = maskable.sum(1), np.divmod(draw, PER_ORDER)
        sizes = [self.plan(key, ids, n_tokens, PER_ORDER * order + k)[1] for k in range(PER_ORDER)]
        start = np.where(np.arange(PER_ORDER)[:, None] < window, sizes, 0).sum(0)
        places = _places(n_tokens)
        ranks = keyed_ranks(key.seed, key.columns(ids, order), places)
        return _of_places((ranks - start[:, None]) % n_tokens[:, None] < size[:, None], places, maskable)

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        weight = np.full(draw.shape, 1 / (PER_ORDER * self.orders)) * n_tokens
        return Summation(weight, stratum=np.zeros_like(draw), replicate=draw // PER_ORDER)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True


def size_controls(seed: int, key: int, draws: range) -> Float64[np.ndarray, " n_masks"]:
    """u - 1/2 of masks of `Windows`: a control variate that all choices of a question share.

    Example:
        >>> size_controls(0, 1, range(4)).round(2).tolist()
        [-0.1, 0.15, 0.4, -0.35]
    """
    draw = np.array(draws, dtype=np.int64)
    return _shares(seed, np.full_like(draw, key), draw) / 2.0**64 - 0.5


def _shares(seed: int, key: Integers, draw: Integers) -> UInt64[np.ndarray, " B"]:
    """u of each mask, in units of 2^-64."""
    order, window = np.divmod(draw, PER_ORDER)
    with np.errstate(over="ignore"):
        step = np.uint64(2**64 // PER_ORDER) * window.astype(np.uint64)
        return keyed_bits(seed, key, order, _SIZE) + step


def _places(n_tokens: Integers) -> Bool[np.ndarray, "B n"]:
    """The positions 0..n-1 of the tokens within each continuation."""
    return np.arange(n_tokens.max()) < n_tokens[:, None]


def _of_places(
    hidden: Bool[np.ndarray, "B n"], places: Bool[np.ndarray, "B n"], maskable: BoolMatrix
) -> BoolMatrix:
    """Masks of positions as masks of the columns of the rows."""
    masked = np.zeros_like(maskable)
    masked[maskable] = hidden[places]
    return masked
