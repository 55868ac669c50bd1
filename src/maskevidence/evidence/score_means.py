"""The mean of the scores over observations with its errors, and the error of each observation."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.evidence.bounds import linear_scores
from maskevidence.evidence.control_variates import FEWEST_TO_PREDICT, Prediction, predict_by_size
from maskevidence.evidence.gains import mean_with_gains
from maskevidence.evidence.standard_errors import (
    UNKNOWN_TAILS,
    MeanWithErrors,
    cell_variances,
    equal_by_chance,
    mean_with_errors,
    tails,
)
from maskevidence.evidence.token_means import token_controls
from maskevidence.masks.design import MaskDesign, MaskKey, Summation
from maskevidence.masks.orders import LogSizes
from maskevidence.model import Conditionals
from maskevidence.scores.record import ScoreTable


class MeanOfScores(NamedTuple):
    """A mean over observations, and what it comes from.

    Attributes:
        prediction: the control variates; None for designs other than random sizes, shared masks, a single
            replicate and runs of few masks. Shared masks move all observations together, so that these do not
            tell the error. With few masks, the curves of the folds err together (coverage of 95 % intervals
            with 16 to 40 masks: 88 to 94 %, and 90 to 95 % without a prediction; benchmarks/coverage.py).
        contribution: shape (n_masks,); what each mask adds to the estimate of its observation, nats.
        mean: the mean with its errors.
        by_row: shape (n_observations,); the masks' variance of each observation's estimate, nats²; None where
            masks are shared or their error is not known.
    """

    prediction: Prediction | None
    contribution: Float64[np.ndarray, " n_masks"]
    mean: MeanWithErrors
    by_row: Float64[np.ndarray, " n"] | None


def mean_of_scores(
    table: ScoreTable,
    design: MaskDesign,
    key: MaskKey,
    unknown_tails: int = UNKNOWN_TAILS,
    conditionals: Conditionals = "learned",
) -> MeanOfScores:
    """The mean over observations of their weighted sums of scores, with its errors."""
    _, first, observation = np.unique(table.id, return_index=True, return_inverse=True)
    summation = design.summation(table.n_tokens, table.draw, table.size)
    prediction = prediction_of(table, design, key)
    if prediction is None:
        contribution = summation.weight * linear_scores(table, design)
    else:
        contribution = prediction.contributions(table, summation.weight, design.n_draws(table.n_tokens))
    mean = mean_with_errors(
        contribution,
        observation,
        summation._replace(unseen=np.zeros_like(contribution)) if design.deterministic else summation,
        design.n_replicates,
        joint=key.masks == "shared" or (design.pooled and prediction is None),
        enough_masks=design.unknown_error(table.n_tokens[first], key.masks) is None,
    )
    if conditionals == "exact" and isinstance(design, LogSizes):
        return MeanOfScores(None, contribution, mean_with_gains(mean, table, design), None)
    by_row = None
    if mean.mask_se:
        stratum, unit = drawn_together(summation, design, table.draw)
        cell = stratum if key.masks == "shared" else observation * (stratum.max() + 1) + stratum
        mean = mean._replace(
            tails=tails(contribution / len(first), cell, unit, summation.unseen, unknown_tails)
        )
        if key.masks == "own":
            n_units = int(unit.max()) + 1
            variance = cell_variances(contribution, cell, unit, n_units, summation.unseen)
            _, of_cell = np.unique(cell, return_index=True)
            by_row = np.bincount(observation[of_cell], weights=variance)
    return MeanOfScores(prediction, contribution, mean, by_row)


def prediction_of(table: ScoreTable, design: MaskDesign, key: MaskKey) -> Prediction | None:
    """The control variates of random sizes; None for other designs, and for too few masks."""
    enough = design.n_replicates > 1 and int((table.n_tokens > 1).sum()) >= FEWEST_TO_PREDICT
    if not (design.random_sizes and key.masks == "own" and enough):
        return None
    replicate = design.summation(table.n_tokens, table.draw, table.size).replicate
    prediction = predict_by_size(table, replicate, design.n_replicates)
    if table.hidden is None:
        return prediction
    return prediction._replace(token=token_controls(table, prediction))


def drawn_together(
    summation: Summation, design: MaskDesign, draw: Int64[np.ndarray, " n_masks"]
) -> tuple[Int64[np.ndarray, " n_masks"], Int64[np.ndarray, " n_masks"]]:
    """The stratum of each mask, and its unit: equal for the masks of a stratum that are drawn together."""
    if design.random_sizes:  # each draw is a mask of its own
        return np.zeros_like(draw), draw
    return summation.stratum, summation.replicate


def errors_of_rows(
    table: ScoreTable, design: MaskDesign, key: MaskKey
) -> tuple[Float64[np.ndarray, " N"], Float64[np.ndarray, " N"]]:
    """mask_se and mask_df of each observation: the variances of its strata add up.

    Returns:
        In the order of the ids: the standard error of the masks, NaN where it is not known and 0 where all
        masks were scored, and its degrees of freedom.
    """
    _, observation = np.unique(table.id, return_inverse=True)
    summation = design.summation(table.n_tokens, table.draw, table.size)
    return errors_of_sums(mean_of_scores(table, design, key).contribution, observation, summation, design)


def errors_of_sums(
    contribution: Float64[np.ndarray, " n_masks"],
    observation: Int64[np.ndarray, " n_masks"],
    summation: Summation,
    design: MaskDesign,
) -> tuple[Float64[np.ndarray, " N"], Float64[np.ndarray, " N"]]:
    """mask_se and mask_df of the sum of each observation's contributions, as `errors_of_rows` gives them."""
    n = int(observation.max()) + 1
    unseen = np.ones(len(contribution)) if summation.unseen is None else summation.unseen
    if design.deterministic:
        unseen = np.zeros(len(contribution))
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
    pairs = zip(variance.tolist(), np.bincount(observation, contribution).tolist(), strict=True)
    resolved = random & ~np.array([equal_by_chance(*pair) for pair in pairs])
    mask_se[resolved] = np.sqrt(variance[resolved])
    mask_df[resolved] = variance[resolved] ** 2 / squares[resolved] * (design.n_replicates - 1)
    return mask_se, mask_df
