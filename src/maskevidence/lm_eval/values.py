"""Values of continuations with Monte-Carlo errors, and mask designs shared by a question's choices."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt64

from maskevidence import Exhaustive, LeaveOneOut, MaskDesign, MaskKey, Policy
from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.evidence.bounds import linear_scores
from maskevidence.core.masks.design import BoolMatrix, Integers, Plan, Positions, Summation
from maskevidence.core.support.keyed_random import keyed_bits, keyed_ranks, scaled
from maskevidence.core.support.provenance import digest
from maskevidence.lm_eval.texts import Continuation, TextScorer
from maskevidence.texts.published import LLaDA

PER_ORDER = 4  # masks per order, with sizes a quarter of the tokens apart
_SIZE = -1  # key of the sizes, in place of an order's position
SHORT = 6  # up to this many tokens, every mask is scored
_LONGEST_MIXTURE = 12


class ScoredValue(float):
    """A log-probability in nats, with its Monte-Carlo error.

    The harness, its caches and JSON see a float.

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
        """The Monte-Carlo standard error, nats: 0 for exact values, None for a single draw."""
        if not self.n_draws:
            return 0.0
        if self.n_draws == 1:
            return None
        return float(np.sqrt((self.deviations**2).sum() * self.n_draws / (self.n_draws - 1)))

    def errors(self) -> dict[str, Any]:
        """The error, its degrees of freedom and the number of passes, as JSON values."""
        df = max(0, self.n_draws - 1) or None
        return {"mask_se": self.mask_se, "mask_df": df, "passes": self.n_passes}


def summed(values: Sequence[ScoredValue]) -> ScoredValue:
    """Add values with independent masks.

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


def key_of_texts(texts: Iterable[str]) -> int:
    """The key of a question's masks: a hash of the set of its choices' contexts.

    Example:
        >>> key_of_texts(["a", "b"]) == key_of_texts(["b", "a", "b"])
        True
    """
    return int(digest("\x1f".join(sorted(set(texts))).encode(errors="replace"))[:14], 16)


@dataclass(frozen=True)
class QuestionKey(MaskKey):
    """A key for masks that depend on the observation's question."""

    questions: tuple[int, ...] = ()  # the question's key for each observation id

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
        >>> from maskevidence.core.masks.design import drawn_masks
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
        self, key: MaskKey, ids: Integers, n_tokens: Integers, index: Integers, position: Positions = None
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


def _shares(seed: int, key: Integers, draw: Integers) -> UInt64[np.ndarray, " B"]:
    """Each mask's u, in units of 2^-64."""
    order, window = np.divmod(draw, PER_ORDER)
    with np.errstate(over="ignore"):
        step = np.uint64(2**64 // PER_ORDER) * window.astype(np.uint64)
        return keyed_bits(seed, key, order, _SIZE) + step


def _places(n_tokens: Integers) -> Bool[np.ndarray, "B n"]:
    """Which positions 0..n-1 exist in each continuation."""
    return np.arange(n_tokens.max()) < n_tokens[:, None]


def _of_places(
    hidden: Bool[np.ndarray, "B n"], places: Bool[np.ndarray, "B n"], maskable: BoolMatrix
) -> BoolMatrix:
    """Turn masks over positions into masks over the rows' columns."""
    masked = np.zeros_like(maskable)
    masked[maskable] = hidden[places]
    return masked


def design_of(score: str, n_masks: int) -> MaskDesign:
    """The mask design of a score.

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
    """Computes values of continuations without a race."""

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
