"""Masks along the order in which a decoding policy fills in the tokens."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maskevidence.errors import InputError, unknown_name
from maskevidence.masks.design import (
    BoolMatrix,
    Integers,
    LearnedKind,
    MaskDesign,
    MaskKey,
    Plan,
    Positions,
    Summation,
    check_counts,
)


@dataclass(frozen=True)
class Policy(MaskDesign):
    """The order in which a decoder writes: it chooses the next tokens by what is visible alone.

    All tokens are hidden at first, and each step shows `tokens_per_step` of them. Since the order depends on
    nothing that is still hidden, the chain rule along it is the exact log-probability that this decoder,
    which draws each value from the model, writes the observation. Tokens that are shown together are drawn
    independently, and their probabilities are multiplied. An observation takes one pass for each step.

    The next tokens come from the first block with a hidden token: the tokens that are first in the order, or
    whose distributions rank first (ties go to the earlier token):

    | policy | next |
    | --- | --- |
    | `left-to-right`, `right-to-left` | the first, or the last token |
    | `order` | the token that a given order lists first |
    | `confidence` | the largest probability of a value |
    | `margin` | the largest difference between the two most probable values |
    | `entropy` | the smallest entropy |

    Weights: how many tokens a step shows, so that the sum is log p of the policy. The scores are those of the
    shown tokens.

    Args:
        policy: one of the words above; the last three need a model with `log_distributions`.
        blocks: how many tokens form a block; blocks are written from left to right. None for one block.
        tokens_per_step: how many tokens of a block are shown together.
        order: for "order", the places 0, 1, ... of the tokens in the order in which they are shown; an
            observation of n tokens takes the places below n.

    Example:
        >>> Policy("confidence", blocks=4).n_draws(np.array([10])).tolist()
        [10]
        >>> policy = Policy("left-to-right", blocks=4, tokens_per_step=3)
        >>> policy.plan(MaskKey(), *[np.full(5, 10)] * 2, np.arange(5))[1].tolist()
        [10, 7, 6, 3, 2]
    """

    policy: str = "confidence"
    blocks: int | None = None
    tokens_per_step: int = 1
    order: tuple[int, ...] | None = None
    name: ClassVar[str] = "policy"
    purpose: ClassVar[str] = "Equal to the log-probability that a decoder writes the observation."
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise unknown_name("policy", self.policy, POLICIES)
        check_counts(tokens_per_step=self.tokens_per_step)
        if self.blocks is not None:
            check_counts(blocks=self.blocks)
        if (self.policy == "order") != (self.order is not None):
            raise InputError(
                'an order of places belongs to Policy("order", order=...), policy:order=FILE, and to it alone'
            )
        if self.order is not None and sorted(self.order) != list(range(len(self.order))):
            raise InputError(
                f"the order lists {len(self.order)} places; it must have each of 0 to n - 1 exactly once"
            )

    @property
    def is_area(self) -> bool:
        return False

    @property
    def learned_kind(self) -> LearnedKind:
        return "policy"

    @property
    def looks_at_values(self) -> bool:
        """Whether the next tokens depend on the distributions, and so on the visible values."""
        return self.policy in ADAPTIVE_POLICIES

    def steps(self, n_tokens: Integers, step: Integers) -> tuple[Integers, Integers, Integers]:
        """The block of each step, how many tokens are shown before it, and how many it shows."""
        size = n_tokens if self.blocks is None else np.full_like(n_tokens, self.blocks)
        per_block = -(-size // self.tokens_per_step)
        block, within = step // per_block, step % per_block * self.tokens_per_step
        in_block = np.minimum(size, n_tokens - block * size)
        return block, block * size + within, np.minimum(self.tokens_per_step, in_block - within)

    def n_draws(self, n_tokens: Integers) -> Integers:
        longest = int(n_tokens.max(initial=0))
        if self.order is not None and longest > len(self.order):
            raise InputError(f"the order lists {len(self.order)} places, an observation has {longest} tokens")
        size = n_tokens if self.blocks is None else np.full_like(n_tokens, self.blocks)
        size = np.maximum(size, 1)
        whole, rest = n_tokens // size, n_tokens % size
        return whole * -(-size // self.tokens_per_step) + -(-rest // self.tokens_per_step)

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        return index, n_tokens - self.steps(n_tokens, index)[1]

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        raise InputError("the masks of a policy depend on the model; estimate_evidence draws them")

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        zero = np.zeros_like(draw)
        return Summation(self.steps(n_tokens, draw)[2].astype(np.float64), stratum=zero, replicate=zero)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return self.tokens_per_step == 1 or n_tokens == 1


ADAPTIVE_POLICIES = ("confidence", "margin", "entropy")
POLICIES = ("left-to-right", "right-to-left", "order", *ADAPTIVE_POLICIES)
