"""The points of a curve from masks of random sizes: the prediction at each size plus the residuals there.

With the prediction ĝ of `control_variates.py`, the score at size M is estimated by

    (1/N) Σ_i (1/K) Σ_k ĝ_r(k)(x_i; M) + (1/N) Σ_{masks of size M} w_k · (S_k - ĝ_r(k)(x_i; M)),

which is unbiased by the proof there, size by size, and the points add up to the log evidence. A size that no
mask has is estimated, too. Observations of different lengths have points at bins of the rate: the same sums,
divided by the number of sizes in the bin.

The error assumes independent residuals. Their variance is s²/M for masks of size M, where s² changes slowly
with M; s² is the mean of M · (S - ĝ)² over the masks of the point and those next to it, with weights that
fall to 0 over a quarter of all masks on either side (`SHARE`). Otherwise a few very unlikely values would
make the error of one size many times the errors of its neighbours.

The sampling error of the observations includes the error of the masks: data_se² = v/N + mask_se², where v is
the mean of (S - ĉ(M) - mean)² over the same masks, the variance of the observations around their curve, and N
is the number of observations, all of which have a part in the point through their levels. Of large records,
every k-th observation gives s² and v.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Integer

from maskevidence.evidence.control_variates import Prediction, SizeCurves
from maskevidence.evidence.score_means import predicted
from maskevidence.masks.design import MaskDesign
from maskevidence.scores.record import Scores, ScoreTable

NEAREST, SHARE = 32, 1 / 4  # of the masks that give the spread at a point: the fewest, and their share of all
PointOf = Callable[[Integer[np.ndarray, " n"], Integer[np.ndarray, " n"]], Integer[np.ndarray, " n"]]


class Points(NamedTuple):
    """The points of a curve in ascending order; all arrays have shape (n_points,)."""

    point: Integer[np.ndarray, " n_points"]  # their numbers
    rate: Float64[np.ndarray, " n_points"]  # the mean rate of the sizes of a point
    score: Float64[np.ndarray, " n_points"]  # nats per masked token
    # Monte-Carlo standard error; NaN where all residuals are equal by chance
    mask_se: Float64[np.ndarray, " n_points"]
    mask_df: Float64[np.ndarray, " n_points"]  # its degrees of freedom
    # sampling standard error of the observations, including the masks' error; NaN for one row
    data_se: Float64[np.ndarray, " n_points"]
    n_masks: Integer[np.ndarray, " n_points"]  # how many masks were scored


def predicted_points(scores: Scores, design: MaskDesign, curves: SizeCurves, point_of: PointOf) -> Points:
    """The points of the curve from the record of a design of random sizes."""
    lengths = np.unique(scores.n_tokens)
    n_points = int(point_of(lengths, lengths).max()) + 1
    sums = np.zeros((n_points, 4))  # of scores, of sizes, of rates, and of the variance for s² = 1
    n_masks = np.zeros(n_points, dtype=np.int64)
    for _, table in scores:
        here, prediction = point_of(table.size, table.n_tokens), predicted(table, design, curves)
        weight = design.summation(table.n_tokens, table.draw, table.size).weight
        left = weight / table.n_tokens * prediction.residuals(table)
        sums[:, 0] += np.bincount(here, weights=left, minlength=n_points)
        n_masks += np.bincount(here, minlength=n_points)
        for length in np.unique(table.n_tokens):
            size = np.arange(1, length + 1)
            point = point_of(size, np.full(length, length))
            np.add.at(sums, point, _expected(table, design, prediction, size))
    square, df, between = _spread(scores, design, curves, point_of, n_points)
    kept = sums[:, 1] > 0
    total, n_sizes, rates, variance = sums[kept].T
    with np.errstate(invalid="ignore"):
        mask_se = np.sqrt(variance * square[kept]) / n_sizes
        data_se = np.sqrt(between[kept] + mask_se**2)
    point, score = np.flatnonzero(kept), total / n_sizes
    return Points(point, rates / n_sizes, score, mask_se, df[kept], data_se, n_masks[kept])


def _spread(
    scores: Scores, design: MaskDesign, curves: SizeCurves, point_of: PointOf, n_points: int
) -> tuple[Float64[np.ndarray, " n_points"], ...]:
    """s² of each point and its degrees of freedom, and v/N, from the masks of every k-th observation.

    v/N is the variance of the observations around their curve, over their number.
    """
    table = scores.sample()
    point, prediction = point_of(table.size, table.n_tokens), predicted(table, design, curves)
    n_masks = np.bincount(point, minlength=n_points)
    square, df = _nearest_squares(point, table.size * prediction.residuals(table) ** 2, n_masks)
    n_rows = np.zeros(n_points)
    for length, rows in zip(*np.unique(scores.n_tokens, return_counts=True), strict=True):
        size = np.arange(1, length + 1)
        n_rows[np.unique(point_of(size, np.full(length, length)))] += rows
    around = table.score - curves.at(table.size, table.n_tokens, prediction.fold)
    apart, _ = _nearest_squares(point, (around - around.mean()) ** 2, n_masks)
    return square, df, np.where(n_rows > 1, apart / np.maximum(n_rows - 1, 1), math.nan)


def _expected(
    table: ScoreTable, design: MaskDesign, prediction: Prediction, size: Integer[np.ndarray, " n"]
) -> Float64[np.ndarray, "n 4"]:
    """What the observations with D tokens, one per size, add to the sums of each size."""
    n_tokens, n_folds = np.full_like(size, len(size)), len(prediction.curves.values)
    of_length = table.n_tokens == len(size)
    fold = prediction.fold[of_length]
    n_draws = int(design.n_draws(n_tokens[:1])[0])
    n_masks = np.bincount(fold, minlength=n_folds)
    curves = [prediction.curves.at(size, n_tokens, np.full_like(size, number)) for number in range(n_folds)]
    predicted = (n_masks @ np.array(curves) + prediction.level[of_length].sum()) / n_draws
    weight = design.summation(n_tokens, np.zeros_like(size), size).weight
    n_rows = n_masks.sum() / n_draws
    columns = (
        predicted,
        np.full(len(size), n_rows),
        n_rows * size / len(size),
        n_rows * weight / (len(size) * size),
    )
    return np.column_stack(columns) / len(size)


def _nearest_squares(
    point: Integer[np.ndarray, " n"],
    square: Float64[np.ndarray, " n"],
    n_masks: Integer[np.ndarray, " n_points"],
) -> tuple[Float64[np.ndarray, " n_points"], Float64[np.ndarray, " n_points"]]:
    """The mean square around each point and its degrees of freedom, with weights that fall off linearly.

    The weights come from a running mean over a window of the masks, in the order of their points, taken
    twice. With the squares y of n masks, the degrees of freedom are 2 · mean(y)² · n / var(y), at most n;
    the weights count as n = 3/2 of a window.
    """
    window = min(len(point), max(NEAREST, math.ceil(SHARE * len(point))))
    order = np.argsort(point, kind="stable")
    moments = np.column_stack([square, square**2])[order]
    last = np.cumsum(n_masks)
    middle = np.clip((2 * last - n_masks) // 2, 0, len(point) - 1)
    mean, mean_square = _running_mean(_running_mean(moments, window), window)[middle].T
    n = min(len(point), 1.5 * window)
    variance = np.maximum(mean_square - mean**2, 0.0)
    return mean, np.minimum(n, 2 * mean**2 * n / np.maximum(variance, 1e-300))


def _running_mean(values: Float64[np.ndarray, "n k"], window: int) -> Float64[np.ndarray, "n k"]:
    """The mean of each row and its neighbours; fewer neighbours at the ends.

    Example:
        >>> _running_mean(np.array([[0.0], [3.0], [6.0], [0.0]]), 3).ravel().tolist()
        [1.5, 3.0, 3.0, 3.0]
    """
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    row = np.arange(len(values))
    low = np.maximum(row - window // 2, 0)
    high = np.minimum(row + (window + 1) // 2, len(values))
    return (sums[high] - sums[low]) / (high - low)[:, None]
