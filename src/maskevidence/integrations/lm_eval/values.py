"""Values of continuations without a race: each score has a mask design."""

from collections.abc import Sequence

import numpy as np

from maskevidence import Exhaustive, LeaveOneOut, MaskDesign, Policy
from maskevidence.errors import InputError, unknown_name
from maskevidence.evidence.bounds import linear_scores
from maskevidence.integrations.lm_eval.drawing import LLaDA, QuestionKey
from maskevidence.integrations.lm_eval.scored_value import ScoredValue
from maskevidence.integrations.lm_eval.scoring import Continuation, Scorer

SHORT = 6  # tokens: up to here, every mask is scored
_LONGEST_MIXTURE = 12


def design_of(score: str, n_masks: int) -> MaskDesign:
    """The design that a score names.

    Args:
        score: "evidence", the log evidence of a short continuation given its context; "mixture", the log of
            the mean probability over orders; "pll", the pseudo-log-likelihood; "llada", LLaDA's estimator; or
            "policy:confidence" and the like, the log-probability along the order in which a policy writes.
        n_masks: the number of masks of "llada".

    Raises:
        InputError: an unknown name.

    Example:
        >>> design_of("pll", 64), design_of("llada", 64)
        (LeaveOneOut(), LLaDA(draws=64, batch=32))
    """
    designs = {
        "evidence": Exhaustive(),
        "mixture": Exhaustive(order_mixture=True),
        "pll": LeaveOneOut(),
        "llada": LLaDA(n_masks),
    }
    word, _, policy = score.partition(":")
    if word == "policy":
        return Policy(policy)
    if score not in designs:
        raise unknown_name("score", score, (*designs, "policy:confidence"))
    return designs[score]


class Valuer:
    """Values of continuations without a race.

    Args:
        scorer: the model.
        score: as for `design_of`.
        seed: seed of the masks of "llada".
        n_masks: the number of masks of "llada".
    """

    def __init__(self, scorer: Scorer, score: str, seed: int, n_masks: int) -> None:
        self.scorer, self.score, self.seed = scorer, score, seed
        self.design = design_of(score, n_masks)

    def is_known(self, text: Continuation) -> bool:
        """Whether the value is computed here; otherwise a `Decider` estimates it."""
        return self.score != "evidence" or len(text.scored) <= SHORT

    def values(self, texts: Sequence[Continuation], keys: Sequence[int]) -> list[ScoredValue]:
        """The values of texts for which `is_known` is true, nats.

        Args:
            texts: the continuations.
            keys: the keys of their masks.
        """
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
        table = self.scorer.scores([texts[number] for number in nonempty], self.design, key, range(1))
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
