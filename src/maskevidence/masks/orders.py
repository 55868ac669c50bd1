"""Masks along random orders of the tokens."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Int64

from maskevidence.errors import InputError
from maskevidence.masks.design import (
    BoolMatrix,
    Bound,
    Integers,
    MaskDesign,
    MaskKey,
    Masks,
    Plan,
    Positions,
    Summation,
    check_counts,
    constant,
)
from maskevidence.support.keyed_random import (
    keyed_ranks,
)

FEWEST_ORDERS = 4  # from which the jackknife of the importance bound is used


@dataclass(frozen=True)
class Orderings(MaskDesign):
    """`orders` random orders; each gives nested masks of all sizes 1..D.

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
        check_counts(orders=self.orders)
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

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        return index // n_tokens, index % n_tokens + 1

    def ranks(
        self, key: MaskKey, ids: Integers, draw: Integers, maskable: BoolMatrix
    ) -> Int64[np.ndarray, "B D"]:
        """The order of each draw: the mask of size M hides the maskable tokens of rank below M."""
        return keyed_ranks(key.seed, key.columns(ids, draw), maskable)

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        weight, unseen = constant(1.0 / self.orders, size), (n_tokens > 1).astype(np.float64)
        return Summation(weight, stratum=np.zeros_like(draw), replicate=draw, unseen=unseen)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True
