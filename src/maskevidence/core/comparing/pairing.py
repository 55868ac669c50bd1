"""Subtract the estimates of two models, mask by mask if they scored the same masks, else by observation.

What is hard for both models cancels mask by mask. Designs that are extended by draws, orders or masks of each
size keep what they have drawn, so that two runs of one seed and different lengths share the masks of the
shorter one: their difference is one estimate from these masks alone. The rest of the longer run is left out
then, which loses more than it gains if the scores of the two models hardly vary together, or if one run is
much longer. Where the numbers of masks differ, the pairing with the smaller mask_se is therefore taken: by
common masks or by observation. Both are unbiased for any number of masks. The choice by the scores adds an
error of the size of the error of mask_se itself, which is small with many masks.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.bounds import linear_scores
from maskevidence.core.evidence.curve import Curve, curve_from_scores
from maskevidence.core.evidence.result import EvidenceEstimate, HowScored, summarize_scores
from maskevidence.core.evidence.standard_errors import Tails
from maskevidence.core.masks.design import MaskDesign, MaskKey, PerMask
from maskevidence.core.masks.design_words import design_from_settings
from maskevidence.core.masks.orders import LogSizes, Orderings
from maskevidence.core.model import Conditionals
from maskevidence.core.scores.record import HiddenTokens, Scores, ScoreTable

Unit = Literal["nats per observation", "nats per byte"]
Pairing = Literal["masks", "observations"]
_APART = (
    "have different masks (design, seed or number): paired by observation only, which makes the error larger"
)


class Paired(NamedTuple):
    """A mean difference with its errors, the difference per observation, and the difference curve."""

    difference: float  # mean over observations
    mask_se: float | None  # Monte-Carlo standard error of the masks; None if not known
    mask_df: float | None  # degrees of freedom of mask_se; None if unknown or infinite
    data_se: float | None  # sampling standard error of the observations; None if not resolved
    per_observation: Float64[np.ndarray, " n_observations"]
    pairing: Pairing
    curve: Curve | None  # the difference by mask size; None unless paired by masks
    tails: Tails  # how far undrawn rare masks could move the ends of an interval (standard_errors.py)


def paired_by(a: EvidenceEstimate, b: EvidenceEstimate, unit: Unit) -> tuple[Paired, str | None]:
    """Return the difference a - b, and how the masks of a and b differ, as the end of a sentence."""
    design = _common_masks(a, b) if unit == "nats per observation" else None
    if design is None:
        return _by_observations(a, b, unit), _APART
    first, second = _first(a, design), _first(b, design)
    both_exact = a.conditionals == b.conditionals == "exact"
    by_masks = _by_masks(first, second, design, a.how.key, both_exact=both_exact)
    n, repeats = design.n_repeats, [each.how.design.n_repeats for each in (a, b)]
    if len({*repeats, n}) == 1:
        return by_masks, None
    by_observations = _by_observations(a, b, unit)
    if _error(by_observations) < _error(by_masks):
        return by_observations, _APART
    assert design.extended_by is not None
    some = f"the first {n} {design.extended_by.replace('_', ' ')} of {repeats[0]} and {repeats[1]}"
    return by_masks, f"have different numbers of masks: paired by {some}"


def _error(paired: Paired) -> float:
    return math.inf if paired.mask_se is None else paired.mask_se


def _common_masks(a: EvidenceEstimate, b: EvidenceEstimate) -> MaskDesign | None:
    """The design of the common masks, if they are all the masks of one estimate; else None."""
    if (a.masks, a.seed, a.design["name"]) != (b.masks, b.seed, b.design["name"]):
        return None
    try:
        both = [design_from_settings(estimate.design) for estimate in (a, b)]
        if both[0].extended_by is not None:
            fewer = {both[0].extended_by: min(design.n_repeats for design in both)}
            both = [design_from_settings({**estimate.design, **fewer}) for estimate in (a, b)]
    except InputError:  # a user's own design, or a number of draws that the replicates do not divide
        return None
    if _drawing(both[0]) != _drawing(both[1]) or not np.array_equal(a.ids, b.ids):
        return None
    first, second = (_first(estimate, both[0]) for estimate in (a, b))
    same = first.n_masks == second.n_masks and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for (_, one), (_, other) in zip(first, second, strict=True)
        for name in ("id", "draw", "size", "n_tokens")
    )
    return both[0] if same else None


def _drawing(design: MaskDesign) -> dict[str, object]:
    """The settings that determine which masks a design draws: replicates beyond the draws do not count."""
    settings = design.settings()
    return settings | {"replicates": design.n_replicates} if "replicates" in settings else settings


def _first(estimate: EvidenceEstimate, design: MaskDesign) -> Scores:
    """The scores of the masks that `design` draws, which may be fewer than the estimate has."""

    def first_of(table: ScoreTable) -> ScoreTable:
        repeat = table.draw
        if not design.random_sizes:  # random sizes: replicates are offsets of several draws
            repeat = design.summation(table.n_tokens, table.draw, table.size).replicate
        kept: Bool[np.ndarray, " n_masks"] = repeat < design.n_repeats
        return table if kept.all() else table.select(kept)

    drawn = estimate.design.get(design.extended_by or "")
    return estimate.record if drawn in (None, design.n_repeats) else estimate.record.changed(first_of)


def _by_masks(a: Scores, b: Scores, design: MaskDesign, key: MaskKey, *, both_exact: bool) -> Paired:
    """Estimate the difference from the differences of the scores, chunk by chunk."""

    def subtracted(linear: Callable[[ScoreTable], PerMask]) -> Scores:
        def read() -> Iterator[ScoreTable]:
            for (_, one), (_, other) in zip(a, b, strict=True):
                score = linear(one) - linear(other)
                yield replace(one, score=score, log_mixture=None, hidden=_hidden(one, other))

        return replace(a, read=read)

    def plain(table: ScoreTable) -> PerMask:
        return table.score

    # The scores of LogSizes are linear in the scores of tokens.
    table = subtracted(plain if isinstance(design, LogSizes) else partial(linear_scores, design=design))
    summed = replace(design, bound="area") if isinstance(design, Orderings) else design
    conditionals: Conditionals = "exact" if both_exact else "learned"
    estimate = summarize_scores(table, HowScored(summed, key, conditionals), of_difference=True)
    curve = estimate.curve
    if not design.is_area:
        table = subtracted(plain)
        curve = curve_from_scores(table, design, key.masks)
    mask_se, mask_df, data_se = estimate.mask_se, estimate.mask_df, estimate.data_se
    equal = not any(each.score.any() for _, each in table)
    if equal:  # the models agree on every mask
        mask_se, mask_df, data_se = 0.0, None, 0.0 if estimate.n_observations > 1 else None
    each = estimate.per_observation
    return Paired(estimate.log_evidence, mask_se, mask_df, data_se, each, "masks", curve, estimate.tails)


def _hidden(a: ScoreTable, b: ScoreTable) -> HiddenTokens | None:
    """Subtract the scores of hidden tokens, if both records have them."""
    if a.hidden is None or b.hidden is None:
        return None
    first, second = a.hidden.packed(a.size), b.hidden.packed(b.size)
    return replace(first, log_prob=first.log_prob - second.log_prob)


def _by_observations(a: EvidenceEstimate, b: EvidenceEstimate, unit: Unit) -> Paired:
    """Subtract two estimates with different masks, observation by observation.

    With e_i the estimates, Δ = mean(u - u'), where u_i = e_i, or per byte the linearised ratio
    u_i = R + (e_i - R·b_i)·n/Σb, R = Σe/Σb. Mask variances add up, and so do tails, which a rare mask of the
    first model makes longer below and of the second model above. As in standard_errors.py, the sampling
    variance is s²(u - u')/n minus the masks' variance within each estimate.
    """
    n = len(a.ids)
    values, variances, tails, lost, within = [], [], [], 0.0, 0.0
    for estimate in (a, b):
        n_bytes, e, scale = estimate.record.n_bytes, estimate.per_observation, 1.0
        if unit == "nats per byte" and n_bytes is not None:
            ratio, scale = float(e.sum() / n_bytes.sum()), n / float(n_bytes.sum())
            values.append(ratio + (e - ratio * n_bytes) * scale)
        else:
            values.append(e)
        tails.append((scale * estimate.tails[0], scale * estimate.tails[1]))
        if estimate.mask_se is not None:
            variances.append((scale * estimate.mask_se) ** 2)
            lost += variances[-1] ** 2 / (estimate.mask_df or math.inf)
            if n > 1:
                within += scale**2 * (float(e.var(ddof=1)) / n - (estimate.data_se or 0.0) ** 2)
    u = values[0] - values[1]
    both_known = len(variances) == 2
    data_se = None
    if n > 1:
        data_variance = float(u.var(ddof=1)) / n - (within if both_known else 0.0)
        data_se = math.sqrt(data_variance) if data_variance > 0 else None
    return Paired(
        difference=float(u.mean()),
        mask_se=math.sqrt(sum(variances)) if both_known else None,
        mask_df=sum(variances) ** 2 / lost if both_known and lost else None,
        data_se=data_se,
        per_observation=u,
        pairing="observations",
        curve=None,
        tails=(tails[0][0] + tails[1][1], tails[0][1] + tails[1][0]),
    )
