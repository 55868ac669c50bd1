"""Values of continuations with their Monte-Carlo errors; those that need no race are computed here."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence import Exhaustive, LeaveOneOut, MaskDesign, Policy
from maskevidence.errors import InputError, unknown_name
from maskevidence.evidence.bounds import linear_scores
from maskevidence.integrations.lm_eval.drawing import QuestionKey
from maskevidence.integrations.lm_eval.scoring import Continuation, TextScorer
from maskevidence.masks.conventions import LLaDA

SHORT = 6  # tokens: up to here, every mask is scored
_LONGEST_MIXTURE = 12


class ScoredValue(float):
    """A log-probability in nats, with its Monte-Carlo error.

    For the harness, its caches and JSON it is a float.

    Args:
        value: the estimate, nats.
        deviations: shape (n_draws,); the centred contribution of each draw. Σ z_k · deviations_k, with
            standard normal z_k, has the distribution of the estimate's error. The values of a
            question share the draws.
        n_passes: the number of masked texts that went through the model.
        draws_key: values with the same key share their draws.
        ties: the metrics for which the race ended in a tie of this choice and others.

    Example:
        >>> value = ScoredValue(-3.0, np.array([0.3, -0.1, -0.2, 0.0]), n_passes=4)
        >>> value + 1, round(value.mask_se, 4), value.n_draws
        (-2.0, 0.432, 4)
        >>> ScoredValue(-3.0).mask_se      # without Monte-Carlo error
        0.0
    """

    deviations: Float64[np.ndarray, " n_draws"]
    n_passes: int
    draws_key: int
    ties: tuple[str, ...]

    def __new__(
        cls,
        value: float,
        deviations: Float64[np.ndarray, " n_draws"] | None = None,
        n_passes: int = 0,
        draws_key: int = 0,
        ties: tuple[str, ...] = (),
    ) -> "ScoredValue":
        number = super().__new__(cls, value)
        number.deviations = np.zeros(0) if deviations is None else deviations
        number.n_passes = n_passes
        number.draws_key = draws_key
        number.ties = ties
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return ScoredValue, (float(self), self.deviations, self.n_passes, self.draws_key, self.ties)

    @property
    def n_draws(self) -> int:
        """The number of independent draws of masks; 0 without Monte-Carlo error."""
        return len(self.deviations)

    @property
    def mask_se(self) -> float | None:
        """The Monte-Carlo standard error, nats: 0 if there is none, None for a single draw."""
        if not self.n_draws:
            return 0.0
        if self.n_draws == 1:
            return None
        return float(np.sqrt((self.deviations**2).sum() * self.n_draws / (self.n_draws - 1)))

    def errors(self) -> dict[str, Any]:
        """The error, its degrees of freedom and the cost, as content for JSON."""
        df = max(0, self.n_draws - 1) or None
        tied = {"tied": list(self.ties)} if self.ties else {}
        return {"mask_se": self.mask_se, "mask_df": df, "passes": self.n_passes, **tied}


def summed(values: Sequence[ScoredValue]) -> ScoredValue:
    """The sum of values with independent masks.

    Example:
        >>> a, b = ScoredValue(-3.0, np.array([0.3, -0.3])), ScoredValue(-2.0, np.array([0.4, -0.4]))
        >>> total = summed([a, b])
        >>> float(total), round(total.mask_se, 4) == round((a.mask_se**2 + b.mask_se**2) ** 0.5, 4)
        (-5.0, True)
    """
    estimated = [value for value in values if value.n_draws > 1]
    n = sum(value.n_draws for value in estimated)
    parts = [
        value.deviations * math.sqrt(value.n_draws / (value.n_draws - 1) * (n - 1) / n) for value in estimated
    ]
    deviations = np.concatenate(parts) if parts else None
    key = estimated[0].draws_key if estimated else 0
    return ScoredValue(sum(values), deviations, sum(value.n_passes for value in values), key)


def design_of(score: str, n_masks: int) -> MaskDesign:
    """The design that a score names.

    Args:
        score: "evidence", the log evidence of a short continuation given its context; "mixture", the log of
            the mean probability over orders; "pll", the pseudo-log-likelihood; "llada", LLaDA's estimator; or
            "policy:confidence" and the like, the log-probability along the order in which a policy writes.

    Example:
        >>> design_of("pll", 64), design_of("llada", 64)
        (LeaveOneOut(), LLaDA(draws=64, batch=32))
    """
    designs = {
        "evidence": Exhaustive(),
        "mixture": Exhaustive(order_mixture=True),
        "pll": LeaveOneOut(),
        "llada": LLaDA(n_masks, min(n_masks, 32)),
    }
    word, _, policy = score.partition(":")
    if word == "policy":
        return Policy(policy)
    if score not in designs:
        raise unknown_name("score", score, (*designs, "policy:confidence"))
    return designs[score]


class Valuer:
    """Values of continuations without a race."""

    def __init__(self, scorer: TextScorer, score: str, seed: int, n_masks: int) -> None:
        self.scorer, self.score, self.seed = scorer, score, seed
        self.design = design_of(score, n_masks)

    def is_known(self, text: Continuation) -> bool:
        """Whether the value is computed here; otherwise a `Decider` estimates it."""
        return self.score != "evidence" or len(text.scored) <= SHORT

    def values(self, texts: Sequence[Continuation], keys: Sequence[int]) -> list[ScoredValue]:
        """The values of texts for which `is_known` is true, nats."""
        result = [ScoredValue(0.0) for _ in texts]
        nonempty = [number for number, text in enumerate(texts) if text.scored]
        if not nonempty:
            return result
        longest = max(len(texts[number].scored) for number in nonempty)
        if self.score == "mixture" and longest > _LONGEST_MIXTURE:
            raise InputError(
                f"score=mixture needs all 2^n masks of a continuation, and one has {longest} tokens (up to "
                f"{_LONGEST_MIXTURE} are possible); use score=evidence"
            )
        key = QuestionKey(self.seed, questions=tuple(keys[number] for number in nonempty))
        repeats = range(self.design.n_repeats)
        table = self.scorer.scores([texts[number] for number in nonempty], self.design, key, repeats)
        weight = self.design.summation(table.n_tokens, table.draw, table.size).weight
        contribution = weight * linear_scores(table, self.design)
        in_order = contribution[np.argsort(table.id, kind="stable")]
        by_text = np.split(in_order, np.cumsum(np.bincount(table.id))[:-1])
        for number, parts in zip(nonempty, by_text, strict=True):
            value, n_passes = float(parts.sum()), len(parts)
            result[number] = ScoredValue(value, n_passes=n_passes)
            if not self.design.deterministic:
                result[number] = ScoredValue(value, parts - value / n_passes, n_passes, keys[number])
        return result
