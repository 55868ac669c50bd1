"""Average scores over observations, with standard errors of the mean and of each observation."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.core.evidence.bounds import linear_scores
from maskevidence.core.evidence.conditional_gains import mean_with_gains
from maskevidence.core.evidence.control_variates import (
    FEWEST_TO_PREDICT,
    MAX_MASKS,
    Prediction,
    SizeCurves,
    fitted_curves,
    predict_by_size,
)
from maskevidence.core.evidence.standard_errors import (
    Drops,
    ErrorSums,
    MeanWithErrors,
    Totals,
    cell_variances,
    equal_by_chance,
    totals_of_cells,
    variances_of_cells,
)
from maskevidence.core.evidence.token_means import token_controls
from maskevidence.core.masks.design import (
    MASKS_AT_ONCE,
    Indices,
    MaskDesign,
    MaskKey,
    PerMask,
    Summation,
    lengths_of,
)
from maskevidence.core.masks.orders import LogSizes
from maskevidence.core.model import Conditionals
from maskevidence.core.scores.record import Scores, ScoreTable


class MeanOfScores(NamedTuple):
    """A mean over observations with its errors and components.

    Attributes:
        per_observation: shape (n_observations,); the estimates whose mean it is, nats.
        mean: the mean with its errors.
        worst: the position of the observation with the largest variance of the masks, and its share of all
            variance; None where masks are shared or their error is not known.
        note: a note on the masks, one sentence; None without one.
    """

    per_observation: Float64[np.ndarray, " n"]
    mean: MeanWithErrors
    worst: tuple[int, float] | None
    note: str | None = None


def mean_of_scores(
    record: ScoreTable | Scores,
    design: MaskDesign,
    key: MaskKey,
    conditionals: Conditionals = "learned",
    *,
    of_difference: bool = False,
) -> MeanOfScores:
    """Average the weighted sums of scores over observations, with standard errors.

    Args:
        of_difference: whether the scores are differences of two models, whose tails under shared masks are
            judged by the tails of single observations (standard_errors.py).
    """
    scores = Scores.of(record)
    curves, n = curves_of(scores, design, key), len(scores.ids)
    shared, per_observation = key.masks == "shared", np.empty(n)
    sums = ErrorSums(design.n_replicates, joint=shared or (design.pooled and curves is None))
    lengths, _ = lengths_of(scores.n_tokens)
    n_units = int(design.n_draws(lengths).max()) if design.random_sizes else design.n_replicates
    every, together = math.ceil(scores.n_masks / MASKS_AT_ONCE), Totals(n_units)
    drops, of_rows, largest, variance = Drops(every), Drops(every), (0.0, 0), 0.0
    for rows, table, summation, contribution in _in_parts(scores, design, curves):
        observation = table.observation
        per_observation[rows] = np.bincount(observation, weights=contribution)
        sums.add(contribution, observation, summation)
        if design.deterministic or design.n_replicates < 2:
            continue
        stratum, unit = drawn_together(summation, design, table.draw)
        n_strata = int(stratum.max()) + 1
        if shared:
            together.add(contribution / n, stratum, unit, summation.unseen)
            if not of_difference:
                continue
        cells, totals, correction = totals_of_cells(
            contribution, observation * n_strata + stratum, unit, n_units, summation.unseen
        )
        if shared:
            of_rows.add(totals, correction)
            continue
        drops.add(totals / n, correction)
        each = np.bincount(cells // n_strata, weights=variances_of_cells(totals, correction))
        largest = max(largest, (float(each.max()), -rows.start - int(each.argmax())))
        variance += float(each.sum())
    mean = sums.mean_with_errors(enough_masks=design.unknown_error(scores.n_tokens, key.masks) is None)
    note = None
    if conditionals == "exact" and isinstance(design, LogSizes):
        mean, note = mean_with_gains(mean, scores.table(), design)
        if note is None:
            return MeanOfScores(per_observation, mean, None)
    if not mean.mask_se:
        return MeanOfScores(per_observation, mean, None, note)
    if shared:
        drops.add(*together.table())
    mean = mean._replace(tails=drops.tails(of_rows.lightness() if shared and of_difference else None))
    worst = (-largest[1], largest[0] / variance) if variance and math.isfinite(variance) else None
    return MeanOfScores(per_observation, mean, worst, note)


def _in_parts(
    scores: Scores, design: MaskDesign, curves: SizeCurves | None
) -> Iterator[tuple[slice, ScoreTable, Summation, PerMask]]:
    """Rows, scores, summation and contributions of some observations at a time."""
    for rows, table in scores:
        yield rows, table, summation_of(table, design), contributions(table, design, curves)


def curves_of(scores: Scores, design: MaskDesign, key: MaskKey) -> SizeCurves | None:
    """Fit the curves of the control variates.

    None for designs other than random sizes, shared masks, a single replicate and runs of few masks. Shared
    masks move all observations together, so that these do not tell the error. With few masks, the curves of
    the folds err together (coverage of 95 % intervals with 16 to 40 masks: 88 to 94 %, and 90 to 95 % without
    a prediction; benchmarks/coverage.py).
    """
    if not (design.random_sizes and key.masks == "own" and design.n_replicates > 1):
        return None
    lengths, counts = lengths_of(scores.n_tokens)
    if int((design.n_draws(lengths) * counts)[lengths > 1].sum()) < FEWEST_TO_PREDICT:
        return None
    sample = scores.sample(MAX_MASKS)
    return fitted_curves(sample, summation_of(sample, design).replicate, design.n_replicates)


def predicted(table: ScoreTable, design: MaskDesign, curves: SizeCurves) -> Prediction:
    """Predict the scores of some observations by control variates."""
    replicate = summation_of(table, design).replicate
    prediction = predict_by_size(table, replicate, design.n_replicates, curves)
    if table.hidden is None:
        return prediction
    return prediction._replace(token=token_controls(table, prediction))


def contributions(table: ScoreTable, design: MaskDesign, curves: SizeCurves | None) -> PerMask:
    """The contribution of each mask to the estimate of its observation, nats."""
    weight = summation_of(table, design).weight
    if curves is None:
        return weight * linear_scores(table, design)
    return predicted(table, design, curves).contributions(table, weight, design.n_draws(table.n_tokens))


def summation_of(table: ScoreTable, design: MaskDesign) -> Summation:
    """How the masks of a record are summed; where all of them are scored, none is unseen."""
    summation = design.summation(table.n_tokens, table.draw, table.size)
    return summation._replace(unseen=np.zeros(len(table))) if design.deterministic else summation


def drawn_together(summation: Summation, design: MaskDesign, draw: Indices) -> tuple[Indices, Indices]:
    """The stratum and unit of each mask; a unit is the masks of a stratum that are drawn together."""
    if design.random_sizes:  # each draw is one unit
        return np.zeros_like(draw), draw
    return summation.stratum, summation.replicate


def errors_of_rows(
    scores: Scores, design: MaskDesign, key: MaskKey
) -> Iterator[tuple[slice, Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]]:
    """mask_se and mask_df of each observation, summed over its strata.

    Yields:
        Some positions in the order of the ids, with the standard errors of the masks, NaN where they are not
        known and 0 where all masks were scored, and their degrees of freedom.
    """
    curves = curves_of(scores, design, key)
    for rows, table, summation, each in _in_parts(scores, design, curves):
        yield rows, *errors_of_sums(each, table.observation, summation, design)


def errors_of_sums(
    contribution: PerMask, observation: Indices, summation: Summation, design: MaskDesign
) -> tuple[Float64[np.ndarray, " N"], Float64[np.ndarray, " N"]]:
    """mask_se and mask_df of each observation's sum of contributions; see `errors_of_rows`."""
    n = int(observation.max()) + 1
    unseen = np.ones(len(contribution)) if summation.unseen is None else summation.unseen
    random = np.zeros(n, dtype=np.bool_)
    np.logical_or.at(random, observation, unseen > 0)
    mask_se, mask_df = np.where(random, np.nan, 0.0), np.full(n, np.nan)
    if design.n_replicates < design.min_replicates or not random.any():
        return mask_se, mask_df
    cell = observation * (int(summation.stratum.max()) + 1) + summation.stratum
    _, first = np.unique(cell, return_index=True)
    variances = cell_variances(contribution, cell, summation.replicate, design.n_replicates, unseen)
    owner = observation[first]
    variance = np.bincount(owner, variances, minlength=n)
    squares = np.bincount(owner, variances**2, minlength=n)
    resolved = random & ~equal_by_chance(variance, np.bincount(observation, contribution))
    mask_se[resolved] = np.sqrt(variance[resolved])
    mask_df[resolved] = variance[resolved] ** 2 / squares[resolved] * (design.n_replicates - 1)
    return mask_se, mask_df
