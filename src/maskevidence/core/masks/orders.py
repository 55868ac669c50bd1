"""Masks along random orders of the tokens."""

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from jaxtyping import Int64

from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import (
    BoolMatrix,
    Bound,
    Integers,
    MaskDesign,
    MaskKey,
    Masks,
    Plan,
    Summation,
    check_counts,
    constant,
)
from maskevidence.core.support.keyed_random import keyed_ranks

FEWEST_ORDERS = 4  # fewest orders for the jackknife of the importance bound


@dataclass(frozen=True)
class Orderings(MaskDesign):
    """`orders` random orders of the tokens, each with nested masks of all sizes 1..D.

    A single order is an unbiased estimate by the chain rule. The design is fast for a model that gives the
    conditionals at every prefix of an order at once. Weights: 1/n each; the standard error needs n >= 2.

    With bound="importance" the score of a mask is the log-probability of the token that the order shows next,
    so that the scores of an order add up to log p_σ(x). The estimate of an observation is then

        log (1/n) Σ_σ p_σ(x),

    in place of the mean of the log p_σ(x). It is a lower bound on the evidence of the mixture over orders,
    log E_σ p_σ(x), never below the area on average, and rises to the mixture with n. The standard error (by
    the jackknife over orders) needs n >= 4; it is the error of the bound for n orders.

    Args:
        orders: n.
        bound: "area" or "importance".

    Source:
        Burda, Grosse, Salakhutdinov (2016), Importance Weighted Autoencoders, Theorem 1, on the bound.

    Example:
        >>> Orderings(8).n_draws(np.array([61])).tolist()
        [488]
        >>> Orderings(16, bound="importance").settings()
        {'name': 'orderings', 'orders': 16, 'bound': 'importance'}
    """

    orders: int = 8
    bound: Bound = "area"
    name: ClassVar[str] = "orderings"
    purpose: ClassVar[str] = "Unbiased for the sum over sizes: a random order hides its first M tokens."
    extended_by: ClassVar[str] = "orders"
    nested: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_counts(self, "orders")
        if self.bound not in ("area", "importance"):
            raise InputError(f"bound={self.bound!r}; give 'area' or 'importance'")

    @property
    def is_area(self) -> bool:
        return self.bound == "area"

    def scored(
        self, key: MaskKey, ids: Integers, draw: Integers, masked: BoolMatrix, maskable: BoolMatrix
    ) -> BoolMatrix:
        if self.bound == "area":
            return masked
        next_rank = masked.sum(1, keepdims=True) - 1
        return masked & (self.ranks(key, ids, draw, maskable) == next_rank)

    def unknown_error(self, n_tokens: Integers, masks: Masks) -> str | None:
        if self.bound == "area" or self.orders >= FEWEST_ORDERS:
            return super().unknown_error(n_tokens, masks)
        return f"the importance bound has {self.orders} orders and needs {FEWEST_ORDERS}"

    def n_draws(self, n_tokens: Integers) -> Integers:
        return self.orders * n_tokens

    def sizes(self, n_tokens: Integers, index: Integers) -> Plan:
        return index // n_tokens, index % n_tokens + 1

    def ranks(
        self, key: MaskKey, ids: Integers, draw: Integers, maskable: BoolMatrix
    ) -> Int64[np.ndarray, "B D"]:
        """The rank of each token in the order of a draw; the mask of size M hides the ranks below M."""
        return keyed_ranks(key.seed, key.columns(ids, draw), maskable)

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        weight, unseen = constant(1.0 / self.orders, size), (n_tokens > 1).astype(np.float64)
        return Summation(weight, stratum=np.zeros_like(draw), replicate=draw, unseen=unseen)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True


@dataclass(frozen=True)
class LogSizes(MaskDesign):
    """Random orders scored at a few sizes each, for models that are refitted for each mask.

    An order shows its tokens one by one. It has a mask at n = 0, 1, 2, ... visible tokens, which later grow
    by a constant factor: `fits` masks, or one for each token if there are no more. The score of a mask is the
    mean log-probability of the Δ tokens that the order shows before its next mask, and its weight is Δ: an
    order scores each token once. Of what tokens gain from those of their own block, the mean is added and the
    rest is the error (gains.py). With a mask for each token there are no such gains: an order is then the
    chain rule.

    Args:
        fits: the largest number of masks of an order, 2 or more.
        orders: how many.

    Example:
        >>> LogSizes(fits=12).visible(200).tolist()
        [0, 1, 2, 3, 5, 8, 13, 21, 33, 52, 82, 129]
        >>> LogSizes(64).visible(8).tolist()
        [0, 1, 2, 3, 4, 5, 6, 7]
    """

    fits: int = 64
    orders: int = 1
    name: ClassVar[str] = "log-sizes"
    purpose: ClassVar[str] = (
        "Estimates the sum over sizes: between two masks, the score is a + b/(visible tokens + 1)."
    )
    extended_by: ClassVar[str] = "orders"
    nested: ClassVar[bool] = True
    min_replicates: ClassVar[int] = FEWEST_ORDERS

    def __post_init__(self) -> None:
        check_counts(self, "fits", "orders")
        if self.fits < 2:
            raise InputError("fits=1; give 2 or more, since the first fit sees no tokens")

    @property
    def is_area(self) -> bool:
        return False

    def visible(self, n_tokens: int) -> Int64[np.ndarray, " n_masks"]:
        """The numbers of visible tokens at which an order has masks, ascending."""
        return _log_sizes(n_tokens, self.fits)

    def n_draws(self, n_tokens: Integers) -> Integers:
        return np.array([self.orders * len(self.visible(int(n))) for n in n_tokens], dtype=np.int64)

    def sizes(self, n_tokens: Integers, index: Integers) -> Plan:
        draw, size = np.empty_like(index), np.empty_like(index)
        for n in np.unique(n_tokens):
            here, visible = n_tokens == n, self.visible(int(n))
            draw[here], place = np.divmod(index[here], len(visible))
            size[here] = n - visible[place]
        return draw, size

    def scored(
        self, key: MaskKey, ids: Integers, draw: Integers, masked: BoolMatrix, maskable: BoolMatrix
    ) -> BoolMatrix:
        ranks, size = keyed_ranks(key.seed, key.columns(ids, draw), maskable), masked.sum(1)
        return masked & (ranks >= (size - self.n_scored(maskable.sum(1), size))[:, None])

    def n_scored(self, n_tokens: Integers, size: Integers) -> Integers:
        """Δ: the number of tokens that each mask scores."""
        until = {int(n): np.append(self.visible(int(n)), n) for n in np.unique(n_tokens)}
        pairs = zip(n_tokens.tolist(), (n_tokens - size).tolist(), strict=True)
        following = [until[n][np.searchsorted(until[n], visible, "right")] for n, visible in pairs]
        return np.array(following, dtype=np.int64) - n_tokens + size

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        weight, unseen = self.n_scored(n_tokens, size) / self.orders, (n_tokens > 1).astype(np.float64)
        return Summation(weight, np.zeros_like(draw), replicate=draw, unseen=unseen)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True


@lru_cache(256)
def _log_sizes(n_tokens: int, fits: int) -> Int64[np.ndarray, " m"]:
    """The numbers of visible tokens of `LogSizes`: the slowest growth that needs at most `fits` masks."""

    def growing(ratio: float) -> list[int]:
        numbers = [0]
        while (following := max(numbers[-1] + 1, round(numbers[-1] * ratio))) < n_tokens:
            numbers.append(following)
        return numbers

    low, high = 1.0, float(n_tokens)
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if len(growing(middle)) <= fits else (middle, high)
    return np.array(growing(high), dtype=np.int64)
