"""Estimate the log evidence of a model as the area under its curve."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.evidence.precise import FEWEST, Precise, check_own_masks, default_design
from maskevidence.core.evidence.result import EvidenceEstimate, HowScored, summarize_scores
from maskevidence.core.masks.design import MaskDesign, MaskKey, Masks
from maskevidence.core.masks.design_words import as_design
from maskevidence.core.masks.policy import Policy
from maskevidence.core.masks.sizes import EverySize, LeaveOneOut
from maskevidence.core.model import (
    HasNotesOn,
    HasRefine,
    HasTimedBatches,
    MaskedModel,
    as_tokens,
    base_measure_of,
    check_conditionals,
    for_limits,
    to_device_of,
)
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.scores.ask import check_batch_size, check_shared
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.scores.score_masks import (
    Scoring,
    check_first_batch,
    check_tokens,
    score_in_memory,
    score_shared_moments,
)
from maskevidence.core.tokens import Tokens


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
    batch_size = check_batch_size(batch_size) or Scoring.batch_size
    key = MaskKey(seed, "shared" if isinstance(data, GaussianMoments) else masks)
    if isinstance(design, Precise):
        check_own_masks(key)
    if isinstance(data, GaussianMoments):
        if share_contexts:
            raise InputError("share_contexts belongs to tokens that are whole numbers, not to moments")
        assert not isinstance(design, Precise)
        return _of_moments(model, data, Scoring(design or EverySize(), key, batch_size))
    model, of_limits = for_limits(model, data)
    tokens = as_tokens(model, data)
    design = default_design(tokens.n_tokens.cpu().numpy(), masks) if design is None else design
    notes = (*of_limits, *(model.notes_on(tokens, data) if isinstance(model, HasNotesOn) else ()))
    if refine and isinstance(model, HasRefine):
        model, refined = _refined(model, tokens)
        notes = (*notes, *refined)
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
    if isinstance(model, HasTimedBatches) and model.call_note is not None:
        notes = (*notes, model.call_note)
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
    check_shared(model, tokens)


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
    """A copy of the model refined for these tokens, with a note."""
    refined = copy.deepcopy(model)
    try:
        return refined, (refined.refine(to_device_of(refined, tokens)),)
    except NumericalError as error:
        raise NumericalError(f"{error}; with refine=False, the model is scored as it is") from error
