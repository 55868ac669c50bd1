"""Estimate the log evidence of a model; `Precise` draws masks until their error reaches a target.

Random sizes are drawn in stages; each stage adds draws to every observation. After a stage with K
draws for each of N observations, let s be the masks' standard error, ν its degrees of freedom, and s₀ the
required error: the target, or the share `negligible` of the data error if that is more. With the 5 %
quantile of the χ² distribution, s·√(ν / χ²_ν) is an upper 95 % bound on the error that s estimates, and is to
be at most 1.2·s₀. The masks' variance falls as 1/K, so that the draws end if K is at least

    K · (c·s / s₀)²,   c = max(1, √(ν / χ²_ν) / 1.2),

which is s <= s₀ from 49 degrees of freedom on. Otherwise the next stage has this number of draws, but at most
twice as many as this stage, since control variates get better with more masks, and at least 5 % more.

Each stage keeps the draws of the stage before, and each draw is a replicate. Draw k of an observation depends
on (seed, position, N, k) alone, so that `RandomSize(K, K)` draws the same masks, whatever the stages were. A
run that was interrupted takes up the stage that it was in, and the stages after it follow from the scores.

That the number of draws depends on the scores makes the estimate neither biased to first order nor its
interval too narrow, as long as s has many degrees of freedom at every stage: s then hardly varies, and the
draws end where they would with the true error. Random sizes with own masks have about N·(K - 1), and the
first stage has enough masks for the error to be known and for control variates. Rows whose scores have heavy
tails end too early in runs that met few of the rare bad masks, so that the mean of all runs is too high. The
interval allows for rare masks of which it has met one (standard_errors.py). A first stage therefore has 400
masks or more, 8 for each of 50 rows and more of fewer rows: without a mask that is met once in 100, it would
be in 0.99^400 = 2 % of runs. Nothing is promised for rarer ones. The benchmark `stopping.py` measures
coverage, the error at the end, and the ratio of the passes to an oracle's; `coverage.py` has few rows.

Source:
    Chow and Robbins (1965), On the asymptotic theory of fixed-width sequential confidence intervals for the
    mean, Annals of Mathematical Statistics 36. Stein (1945), A two-sample test for a linear hypothesis whose
    power is independent of the variance, Annals of Mathematical Statistics 16, on two stages.
"""

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int64

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.evidence.result import EvidenceEstimate, HowScored, summarize_scores
from maskevidence.core.masks.design import BYTES_PER_MASK, MaskDesign, MaskKey, Masks
from maskevidence.core.masks.design_words import as_design
from maskevidence.core.masks.policy import Policy
from maskevidence.core.masks.sizes import EverySize, LeaveOneOut, RandomSize
from maskevidence.core.model import (
    MaskedModel,
    as_tokens,
    base_measure_of,
    check_conditionals,
    for_limits,
    to_device_of,
)
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.scores.ask import check_listed
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.scores.score_masks import (
    Scoring,
    check_first_batch,
    check_tokens,
    score_in_memory,
    score_shared_moments,
)
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import free_memory, whole_number
from maskevidence.core.tokens import Tokens

NEGLIGIBLE = 0.1  # makes the total error 0.5 % larger than without mask error
SLACK, LOWER_TAIL = 1.2, 0.05
LARGEST_STEP, SMALLEST_STEP = 2.0, 1.05
FEW_TOKENS = 20  # up to this length, random sizes cost as much as every size for the same error
# Up to this number, each draw is a replicate. With 4 draws, runs stop before they meet a rare bad mask.
FEWEST = RandomSize(8, replicates=2**20)
FEWEST_MASKS = 400  # masks before the first decision; with 100, intervals over 10 rows covered 68 %


@dataclass(frozen=True)
class Precise:
    """Draw random sizes until the mask error reaches a target; takes the place of a design.

    The masks are drawn in stages until their standard error is at the target, or is negligible relative to
    the sampling error of the observations: at a tenth of data_se, the total error √(mask_se² + data_se²) is
    0.5 % larger than without any error of the masks. A note of the estimate says which it was. The stages
    and their formula are explained in `precise.py`.

    Args:
        target_se: the target for the standard error of the masks, nats per observation. Without a target,
            only the data error ends the draws.
        target_relative: the same as a share of the log evidence, such as 0.01, in place of `target_se`.
        max_passes: the largest number of masks, over all observations. By default there is none, but a target
            that takes more masks than this machine's memory holds ends the draws at once.
        negligible: the share of the data error below which the error of the masks no longer matters; 0 goes
            on to the target in any case, as comparisons on the same observations may need it.

    Raises:
        InputError: both targets, no target with `negligible=0`, or a number outside its range.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> x = model.sample(50, seed=1)
        >>> estimate = me.estimate_evidence(model, x, me.Precise(target_se=0.1, negligible=0), seed=0)
        >>> estimate.mask_se <= 0.1, estimate.n_masks == 50 * estimate.design["draws"]
        (True, True)
        >>> estimate.notes[-1].startswith("the draws ended at 1")
        True
    """

    target_se: float | None = None
    target_relative: float | None = None
    max_passes: int | None = None
    negligible: float = NEGLIGIBLE

    def __post_init__(self) -> None:
        targets = {"target_se": self.target_se, "target_relative": self.target_relative}
        chosen = {name: value for name, value in targets.items() if value is not None}
        if len(chosen) == 2 or not (chosen or self.negligible):
            both = "both are given" if chosen else "none is given"
            raise InputError(f"target_se or target_relative is needed, and {both}; give one")
        for name, value in chosen.items():
            if not 0.0 < value < math.inf:
                raise InputError(f"{name}={value}; give a number above 0, such as 0.05")
        if self.max_passes is not None:
            whole_number("max_passes", self.max_passes, 1)
        if not 0.0 <= self.negligible < math.inf:
            raise InputError(
                f"negligible={self.negligible}; give a share of the data error, such as 0.1, or 0"
            )

    def settings(self) -> dict[str, Any]:
        """The arguments other than None, as run.json stores them.

        Example:
            >>> Precise(target_se=0.05).settings()
            {'target_se': 0.05, 'negligible': 0.1}
        """
        return {name: value for name, value in asdict(self).items() if value is not None}

    def first(
        self, n_tokens: Int64[np.ndarray, " N"], design: RandomSize | None = None, *, begun: bool = False
    ) -> RandomSize:
        """The design of the first stage: 400 masks, or more if the error needs more draws to be known.

        Args:
            n_tokens: shape (N,).
            design: the design whose draws are extended; by default `FEWEST`.
            begun: whether the design was scored before; it may then have more draws than `max_passes`.

        Raises:
            InputError: the draws are more than `max_passes`, or have too few replicates to know their error.

        Example:
            >>> Precise(target_se=0.05).first(np.full(1000, 61)).draws
            8
        """
        design = FEWEST if design is None else design
        enough, n_random = design.enough_draws(n_tokens, "own"), int((n_tokens > 1).sum())
        if n_random:
            enough = max(enough, math.ceil(FEWEST_MASKS / n_random))
        design = replace(design, draws=design.possible_draws(enough))
        if design.n_replicates < design.min_replicates:
            raise InputError(
                f"the error of {design} is not known; begin a new run, whose draws have replicates"
            )
        n, passes = len(n_tokens), len(n_tokens) * design.draws
        if not begun and self.max_passes is not None and passes > self.max_passes:
            raise InputError(
                f"max_passes={self.max_passes} is too few: the error of {count(n, 'observation')} needs "
                f"{design.draws} draws each, {passes:,} passes; give that or more, or fewer observations"
            )
        return design

    def drawn(self, design: RandomSize, score: Callable[[RandomSize], EvidenceEstimate]) -> EvidenceEstimate:
        """Draw in stages; return the estimate of the last stage.

        Args:
            design: the design of the first stage.
            score: scores the draws of a design that were not scored before, and gives the estimate of all.
        """
        while True:
            estimate = score(design)
            following = self.following(design, estimate)
            if following is None:
                return estimate
            design = following

    def following(self, design: RandomSize, estimate: EvidenceEstimate) -> RandomSize | None:
        """The design of the next stage; None after the last stage.

        Args:
            design: the design of the last stage.
            estimate: from all draws so far.
        """
        draws, n = design.draws, estimate.n_observations
        needed = self.needed(draws, estimate)
        if needed <= draws or (self.max_passes is None and _too_many(needed * n)):
            return None
        next_draws = min(max(needed, draws * SMALLEST_STEP), draws * LARGEST_STEP)
        most = math.inf if self.max_passes is None else self.max_passes // n
        following = design.possible_draws(min(next_draws, most))
        return replace(design, draws=following) if draws < following <= most else None

    def verdict(self, estimate: EvidenceEstimate) -> str:
        """Say in one sentence, for the notes, why drawing stopped.

        Args:
            estimate: from all draws.
        """
        draws, se = estimate.design["draws"], estimate.mask_se
        if self.target_se is None and self.target_relative is None:
            return _verdict_without_target(draws, estimate)
        ended = f"the draws ended at {draws} for each observation"
        if se is None:
            return f"{ended}, {estimate.n_masks:,} passes, since more of them would not tell their error"
        if se == 0:
            return f"{ended}, since there is nothing to draw: every mask is scored"
        target, needed = self.target(estimate.log_evidence), self.needed(draws, estimate)
        asked = f"the target of {_brief(target)}"
        if self.target_relative is not None:
            asked = f"{self.target_relative:.3g} of the log evidence, {_brief(target)}"
        if needed > draws:
            outlook = "is never reached"
            if target > 0:
                for_target = max(needed, draws * _square(se / target))
                outlook = f"takes {_passes(for_target, estimate)}"
                if needed < for_target:
                    enough = _passes(needed, estimate)
                    outlook += f"; with {enough} it no longer matters beside the data error"
            reached = f"the mask error is {_brief(se)}, and {asked} {outlook}"
            if self.max_passes is not None:
                return f"{ended} by max_passes={self.max_passes}: {reached}"
            if _too_many(needed * estimate.n_observations):
                return (
                    f"{ended}, since memory does not hold the masks that the target takes: {reached}; 100 "
                    f"times as many passes would reach {_brief(se / 10)}"
                )
            return f"{ended}, and more are needed: {reached}; run the command again"
        if se > target:
            assert estimate.data_se is not None
            share = 100 * se / estimate.data_se
            return (
                f"{ended}: the mask error is {share:.2g} % of the data error and no longer matters beside it "
                f"({asked} takes {_passes(draws * _square(se / target), estimate)})"
            )
        return f"{ended}: the mask error is {_brief(se)}, {asked} is reached"

    def target(self, log_evidence: float) -> float:
        """The target for the mask error, nats; 0 if there is none.

        Example:
            >>> Precise(target_relative=0.01).target(-50.0)
            0.5
        """
        if self.target_relative is not None:
            return self.target_relative * abs(log_evidence)
        return self.target_se or 0.0

    def enough(self, estimate: EvidenceEstimate) -> float:
        """The mask error at which drawing stops, nats: the target, or a share of the data error if larger."""
        return max(self.target(estimate.log_evidence), self.negligible * (estimate.data_se or 0.0))

    def needed(self, draws: int, estimate: EvidenceEstimate) -> float:
        """Estimate the draws per observation that reach the error `enough`; at most `draws` if it is reached.

        Args:
            draws: the draws per observation of the estimate.
            estimate: its errors, log evidence and number of observations are used.
        """
        if not estimate.mask_se:  # 0, or None because all masks gave the same number
            return 0.0
        enough = self.enough(estimate)
        if enough == 0.0:
            return math.inf
        bound = _upper_bound(math.inf if estimate.mask_df is None else estimate.mask_df)
        return draws * _square(estimate.mask_se * max(1.0, bound / SLACK) / enough)


def default_design(n_tokens: Int64[np.ndarray, " N"], masks: Masks = "own") -> MaskDesign | Precise:
    """Choose the default design for these numbers of tokens.

    `EverySize(masks_per_size=4)` for observations of at most 20 tokens, for shared masks, and for very few
    observations. Otherwise random sizes until the masks' error is 0.4 of the data error, which makes the
    total error 8 % larger, and no more masks than `EverySize` would draw.

    Args:
        n_tokens: shape (N,).
        masks: "own" for each observation, or "shared" by all.

    Example:
        >>> default_design(np.full(50, 20)), default_design(np.full(50, 21)).max_passes
        (EverySize(masks_per_size=4), 4200)
    """
    every_size = EverySize()
    if masks == "shared" or len(n_tokens) < 2 or n_tokens.max() <= FEW_TOKENS:
        return every_size
    precise = Precise(negligible=0.4, max_passes=every_size.masks_per_size * int(n_tokens.sum()))
    first_stage = replace(precise, max_passes=None).first(n_tokens)
    return precise if first_stage.draws * len(n_tokens) <= (precise.max_passes or 0) else every_size


def _verdict_without_target(draws: int, estimate: EvidenceEstimate) -> str:
    drawn = f"{draws} random sizes for each observation"
    share = ""
    if estimate.mask_se is not None and estimate.data_se:
        share = f", whose error is {100 * estimate.mask_se / estimate.data_se:.2g} % of the data error"
    return f"{drawn}{share}; the design every-size:4 scores every size"


def _upper_bound(df: float) -> float:
    """√(df / χ²) with the 5 % quantile of χ²: ratio of an upper 95 % bound on an error to its estimate.

    Example:
        >>> round(_upper_bound(10), 2), round(_upper_bound(1000), 2)
        (1.59, 1.04)
    """
    if math.isinf(df):
        return 1.0
    from scipy import special

    return math.sqrt(df / float(special.chdtri(df, 1.0 - LOWER_TAIL)))


def _brief(value: float) -> str:
    return f"{value:.3g} nats"


def _square(ratio: float) -> float:
    return ratio * ratio  # overflows to infinity; ratio**2 would raise an OverflowError


def _passes(draws: float, estimate: EvidenceEstimate) -> str:
    """Format a number of passes with two digits."""
    n = draws * estimate.n_observations
    if math.isinf(n):
        return "more passes than any machine makes"
    return f"about {n:.2g} passes" if n >= 1e7 else f"about {int(float(f'{n:.2g}')):,} passes"


def _too_many(n_masks: float) -> bool:
    """Whether the masks need more than the free memory."""
    free = free_memory()
    return free is not None and n_masks * BYTES_PER_MASK > free


def estimate_evidence(
    model: MaskedModel,
    data: object,
    design: MaskDesign | Precise | str | None = None,
    *,
    seed: int = 0,
    masks: Masks = "own",
    batch_size: int | None = None,
    refine: bool = True,
    check: bool = True,
    per_token: bool = False,
    share_contexts: bool = False,
) -> EvidenceEstimate:
    """Estimate the log evidence of a model on data: the area under its curve (Eq. 2).

    log p(x) = Σ_{M=1}^{D} S(x; M), S(x; M) = E_masks of size M [(1/M) Σ_{j masked} log p(x_j | x_visible)].

    The result depends on (seed, observation ids, design) alone: not on the batch size, the order of the rows
    or any global random state.

    A model with a method `refine`, such as a `BernoulliPCA`, is copied, and the copy is refined for these
    data before its masks are scored; a note says what was done. The model itself stays as it is.

    Args:
        model: any `MaskedModel`.
        data: `Tokens`, or what the model's `tokens` reads, such as an (N, D) table with NaN for missing
            values; or `GaussianMoments` for models that score them (all rows then share their masks, and
            data_se is not known).
        design: how masks are drawn, or a word of the command line such as "random-size:8,per-token" or
            "fixed-rate:0.15,shared", which also sets `masks` and `per_token`. `Precise(target_se=0.05)`
            draws as many random sizes as that error takes. By default `EverySize(masks_per_size=4)` for up to
            20 tokens, and otherwise random sizes until the masks' error is 0.4 of the data error.
        seed: seed of the masks.
        masks: "own" for each observation, or "shared" by all.
        batch_size: number of masks in one call of the model; by default 1,024.
        refine: whether a model that can refine its numerical integrals does so; False scores it as it is.
        check: whether a row or two are checked first, for at most one pass in twenty: answers outside the
            masks, and answers that change with hidden values; `check_model` checks more.
        per_token: whether the score of each hidden token is kept, which makes the masks' error of random
            sizes smaller without further passes (token_means.py), for 6 bytes each. Those of `LeaveOneOut`
            and `LogSizes` are kept in any case.
        share_contexts: whether masks that leave the same tokens visible share one pass of the model, also
            across observations, such as the answers to one prompt; for tokens that are whole numbers and a
            model with `log_distributions`. Random masks of long texts hardly ever share contexts.

    Raises:
        InputError: data, design, options or answers of the model that cannot be used.
        NumericalError: a log-probability that is not finite, or integrals that cannot be refined.

    Source:
        Moreno-Muñoz, Recasens, Hauberg (2023), On Masked Pre-training and the Marginal Likelihood, Prop. 1.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> x = model.sample(50, seed=1)
        >>> estimate = me.estimate_evidence(model, x, design=me.EverySize(masks_per_size=8), seed=0)
        >>> low, high = estimate.interval(0.999)
        >>> low < float(model.score_samples(x).mean()) < high
        True
    """
    if design is not None and not isinstance(design, Precise):
        word = as_design(design, masks, per_token)
        design, masks = word.design, word.masks
        per_token = word.per_token and not isinstance(design, LeaveOneOut)
    check_conditionals(model)
    batch_size = Scoring.batch_size if batch_size is None else whole_number("batch_size", batch_size, 1)
    key = MaskKey(seed, "shared" if isinstance(data, GaussianMoments) else masks)
    if isinstance(design, Precise) and key.masks != "own":
        raise InputError("a target for the mask error needs masks='own', separate masks for each row")
    if isinstance(data, GaussianMoments):
        if share_contexts:
            raise InputError("share_contexts belongs to tokens that are whole numbers, not to moments")
        assert not isinstance(design, Precise)
        return _of_moments(model, data, Scoring(design or EverySize(), key, batch_size))
    model, of_limits = for_limits(model, data)
    tokens = as_tokens(model, data)
    design = default_design(tokens.n_tokens.cpu().numpy(), masks) if design is None else design
    of_data = model.notes_on(tokens, data) if hasattr(model, "notes_on") else ()
    model, of_integrals = _refined(model, tokens) if refine else (model, ())
    notes = [*of_limits, *of_data, *of_integrals]
    first = FEWEST if isinstance(design, Precise) else design
    if share_contexts:
        _check_shared(model, tokens, first)
    scoring = Scoring(first, key, batch_size, timed=True, per_token=per_token, share=share_contexts)
    labels = labels_of(data)
    extended = _in_memory(model, tokens, scoring, labels)
    if check:
        check_first_batch(model, tokens, first)
    if isinstance(design, Precise):
        check_tokens(tokens)
        estimate = design.drawn(design.first(tokens.n_tokens.cpu().numpy()), extended)
        estimate = replace(estimate, notes=(*estimate.notes, design.verdict(estimate)))
    else:
        estimate = extended(design)
    notes += filter(None, [getattr(model, "call_note", None)])
    return _of_data(replace(estimate, notes=(*notes, *estimate.notes)), tokens, labels)


def _of_data(estimate: EvidenceEstimate, tokens: Tokens, labels: Mapping[int, Any]) -> EvidenceEstimate:
    """An estimate with the fingerprints of its data and the labels of its rows."""
    return replace(
        estimate,
        data_fingerprint=tokens.fingerprint(),
        text_fingerprint=tokens.text_fingerprint(),
        spelled_fingerprint=tokens.spelled_fingerprint(),
        labels=tuple(labels[number] for number in estimate.ids.tolist()) if labels else None,
    )


def _of_moments(model: MaskedModel, moments: GaussianMoments, scoring: Scoring) -> EvidenceEstimate:
    """Estimate the evidence of the rows behind the moments, with shared masks."""
    table, n_calls = score_shared_moments(model, moments, scoring)
    estimate = summarize_scores(table, _how_scored(model, scoring), n_calls)
    return replace(
        estimate,
        n_observations=moments.n_rows,
        n_tokens=moments.n_rows * estimate.n_tokens,
        data_se=None,
        data_fingerprint=moments.fingerprint(),
    )


def _check_shared(model: MaskedModel, tokens: Tokens, design: MaskDesign) -> None:
    """Raise an InputError if contexts cannot be shared."""
    if isinstance(design, Policy):
        raise InputError("share_contexts belongs to masks, and a policy asks for one step after another")
    check_listed(model, tokens, "share_contexts", "leave it out")
    if getattr(model, "widened", None) is not None:
        raise InputError(
            f"{type(model).__name__} hides whole words, which depend on the row; contexts cannot be shared"
        )


def labels_of(data: object) -> dict[int, Any]:
    """Map row ids to the labels of a `Table` or the index of a data frame; {} for other data.

    Example:
        >>> import pandas as pd
        >>> labels_of(pd.DataFrame({"a": [0.5, 1.5]}, index=["x", "y"]))
        {0: 'x', 1: 'y'}
    """
    if getattr(data, "labels", None) is not None and hasattr(data, "ids"):
        return dict(zip(data.ids.tolist(), data.labels, strict=True))  # type: ignore[attr-defined]
    if hasattr(data, "columns") and hasattr(data, "index"):
        return dict(enumerate(data.index))
    return {}


def _in_memory(
    model: MaskedModel, tokens: Tokens, scoring: Scoring, labels: Mapping[int, Any]
) -> Callable[[MaskDesign], EvidenceEstimate]:
    """Return a function that scores the repeats still missing for a design and summarises all scores."""
    scores, n_calls, n_repeats = list[ScoreTable](), 0, 0

    def extended(design: MaskDesign) -> EvidenceEstimate:
        nonlocal scores, n_calls, n_repeats
        own = replace(scoring, design=design)
        table, calls = score_in_memory(model, tokens, own, range(n_repeats, design.n_repeats))
        scores = [ScoreTable.merged([*scores, table])]
        del table
        n_calls, n_repeats = n_calls + calls, design.n_repeats
        return summarize_scores(scores[0], _how_scored(model, own), n_calls, labels)

    return extended


def _how_scored(model: MaskedModel, scoring: Scoring) -> HowScored:
    return HowScored(scoring.design, scoring.key, model.conditionals, base_measure_of(model))


def _refined(model: Any, tokens: Tokens) -> tuple[Any, tuple[str, ...]]:
    """A copy of the model refined for these tokens, with a note; the model itself if it cannot be refined."""
    if not hasattr(model, "refine"):
        return model, ()
    refined = copy.deepcopy(model)
    try:
        return refined, (refined.refine(to_device_of(refined, tokens)),)
    except NumericalError as error:
        raise NumericalError(f"{error}; with refine=False, the model is scored as it is") from error
