"""Masks along the order in which a decoding policy writes the tokens."""

from dataclasses import dataclass
from sys import float_info
from typing import ClassVar

import numpy as np

from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.masks.design import Integers, LearnedKind, MaskDesign, Plan, Summation, check_counts


@dataclass(frozen=True)
class Policy(MaskDesign):
    """The order in which a decoder writes tokens, chosen from the visible tokens alone.

    All tokens are hidden at first, and each step shows `tokens_per_step` of them, or as many as a threshold
    or a bound lets through. Since the order depends on nothing that is still hidden, the chain rule along it
    is the exact log-probability that this decoder, which draws each value from the model, writes the
    observation. Tokens that are shown together are drawn independently, and their probabilities are
    multiplied. An observation takes one pass for each step.

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
    shown tokens. The draw number of a step is the number of tokens that are visible after it, less one.

    Args:
        policy: one of the words above; the last three need a model with `log_distributions`.
        blocks: how many tokens form a block; blocks are written from left to right. None for one block.
        tokens_per_step: how many tokens of a block are shown together.
        order: for "order", the places 0, 1, ... of the tokens in the order in which they are shown; an
            observation of n tokens takes the places below n.
        threshold: for "confidence", a step shows every token of the block whose largest probability of a
            value is at least this, and the most confident token in any case.
        bound: for "entropy", a step shows as many tokens of the block, those of least entropy first, as have
            entropies whose sum less the largest of them is at most this, in nats.

    Source:
        Wu et al. (2025), Fast-dLLM (arXiv 2505.22618), on the threshold; Ben-Hamu et al. (2025), Accelerated
        Sampling from Masked Diffusion Models via Entropy Bounded Unmasking (arXiv 2505.24857), on the bound.

    Example:
        >>> Policy("confidence", blocks=4).n_draws(np.array([10])).tolist()
        [10]
        >>> Policy("left-to-right", blocks=4, tokens_per_step=3).n_draws(np.array([10])).tolist()
        [5]
    """

    policy: str = "confidence"
    blocks: int | None = None
    tokens_per_step: int = 1
    order: tuple[int, ...] | None = None
    threshold: float | None = None
    bound: float | None = None
    name: ClassVar[str] = "policy"
    purpose: ClassVar[str] = "Equal to the log-probability that a decoder writes the observation."
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise unknown_name("policy", self.policy, POLICIES)
        check_counts(self, "tokens_per_step")
        if self.blocks is not None:
            check_counts(self, "blocks")
        if (self.policy == "order") != (self.order is not None):
            raise InputError(
                'an order of places belongs to Policy("order", order=...), policy:order=FILE, and to no other'
            )
        if self.order is not None and sorted(self.order) != list(range(len(self.order))):
            raise InputError(
                f"the order lists {len(self.order)} places; it must have each of 0 to n - 1 exactly once"
            )
        for name, policy, values, highest in (
            ("threshold", "confidence", "a probability from 0 to 1", 1.0),
            ("bound", "entropy", "a number of nats, 0 or more", float_info.max),
        ):
            value = getattr(self, name)
            if value is not None and (self.policy != policy or self.tokens_per_step != 1):
                raise InputError(
                    f"{name}={value} belongs to the policy {policy}, in place of tokens_per_step; write "
                    f"policy:{policy},{name}={value}"
                )
            if value is not None and not 0.0 <= value <= highest:
                raise InputError(f"{name}={value}; give {values}")

    @property
    def is_area(self) -> bool:
        return False

    @property
    def learned_kind(self) -> LearnedKind:
        return "policy"

    @property
    def looks_at_values(self) -> bool:
        """Whether the choice depends on the predicted distributions, and so on visible values."""
        return self.policy in ADAPTIVE_POLICIES

    def n_draws(self, n_tokens: Integers) -> Integers:
        """Number of steps for an observation of n tokens; an upper limit with a threshold or bound."""
        longest = int(n_tokens.max(initial=0))
        if self.order is not None and longest > len(self.order):
            raise InputError(f"the order lists {len(self.order)} places, an observation has {longest} tokens")
        size = n_tokens if self.blocks is None else np.full_like(n_tokens, self.blocks)
        size = np.maximum(size, 1)
        whole, rest = n_tokens // size, n_tokens % size
        return whole * -(-size // self.tokens_per_step) + -(-rest // self.tokens_per_step)

    def sizes(self, n_tokens: Integers, index: Integers) -> Plan:
        raise InputError("the masks of a policy depend on the model; estimate_evidence draws them")

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        zero, n_shown = np.zeros_like(draw), draw + 1 - (n_tokens - size)
        return Summation(n_shown.astype(np.float64), stratum=zero, replicate=zero)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        one_by_one = self.tokens_per_step == 1 and self.threshold is None and self.bound is None
        return one_by_one or n_tokens == 1


ADAPTIVE_POLICIES = ("confidence", "margin", "entropy")
POLICIES = ("left-to-right", "right-to-left", "order", *ADAPTIVE_POLICIES)
