"""Compute the curve from a record of scores: one point per size or bin, predicted if sizes are random.

Where sizes are random, a point is the prediction plus the residuals there. With the prediction ĝ of
`control_variates.py`, the score at size M is estimated by

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
from typing import Any

import numpy as np
from jaxtyping import Float64, Integer

from maskevidence.core.evidence.conditional_gains import with_all_hidden
from maskevidence.core.evidence.control_variates import Prediction, SizeCurves
from maskevidence.core.evidence.curve import Curve
from maskevidence.core.evidence.score_means import predicted
from maskevidence.core.evidence.standard_errors import ErrorSums, MeanWithErrors, Spread, equal_by_chance
from maskevidence.core.masks.design import MaskDesign, Masks, Summation, lengths_of
from maskevidence.core.masks.orders import LogSizes
from maskevidence.core.masks.sizes import Rates
from maskevidence.core.scores.record import Scores, ScoreTable

RATE_BINS = (20, 10, 5)  # 20 % is an edge of each
_SHORT = 0.05  # share of observations that may have fewer tokens than there are bins
NEAREST, SHARE = 32, 1 / 4  # masks used for the spread at a point: the minimum, and the share of all masks
PointOf = Callable[[Integer[np.ndarray, " n"], Integer[np.ndarray, " n"]], Integer[np.ndarray, " n"]]


def curve_from_scores(
    record: ScoreTable | Scores, design: MaskDesign, masks: Masks, curves: SizeCurves | None = None
) -> Curve:
    """Compute the curve from a record."""
    scores = Scores.of(with_all_hidden(record) if isinstance(design, LogSizes) else record)
    lengths, _ = lengths_of(scores.n_tokens)
    n_tokens = int(lengths[0]) if len(lengths) == 1 else None
    if curves is not None:
        return _predicted_curve(scores, design, curves, n_tokens)
    by_stratum = n_tokens is None and isinstance(design, Rates)
    of_point: type[_Pooled | _ByRow] = _Pooled if design.pooled else _ByRow
    points: dict[int, _Pooled | _ByRow] = {}
    point_of = _point_of(n_tokens, scores)
    for _, table in scores:
        summation = design.summation(table.n_tokens, table.draw, table.size)
        point = summation.stratum if by_stratum else point_of(table.size, table.n_tokens)
        order = np.argsort(point, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(point[order])) + 1):
            number = int(point[part[0]])
            if number not in points:
                points[number] = of_point(design, masks)
            here: list[Any] = [each if each is None else each[part] for each in summation]
            points[number].add(table.select(part), Summation(*here))
    found = [points[number] for number in sorted(points)]
    means = [each.mean_with_errors() for each in found]

    def column(name: str) -> Float64[np.ndarray, " n_points"]:
        values = [getattr(mean, name) for mean in means]
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)

    sizes = [each.size if n_tokens is not None else math.nan for each in found]
    return Curve(
        n_tokens=n_tokens,
        size=np.array(sizes, dtype=np.float64),
        rate=np.array([each.rates / each.n_masks for each in found], dtype=np.float64),
        score=column("mean"),
        mask_se=column("mask_se"),
        mask_df=column("mask_df"),
        data_se=column("data_se"),
        n_masks=np.array([each.n_masks for each in found], dtype=np.int64),
    )


def _point_of(n_tokens: int | None, scores: Scores) -> PointOf:
    """Map a mask to a point of the curve: its size, or a bin of rates if observations differ in length."""
    if n_tokens is not None:
        return lambda size, _: size
    short = np.quantile(scores.n_tokens, _SHORT, method="lower")
    n_bins = next((n for n in RATE_BINS if n <= short), RATE_BINS[-1])
    return lambda size, length: np.ceil(size / length * n_bins - 1e-9).astype(np.int64)


class _Point:
    """A point of the curve, accumulated over groups of observations."""

    def __init__(self, design: MaskDesign, masks: Masks) -> None:
        self.design, self.masks = design, masks
        self.n_masks, self.rates, self.size = 0, 0.0, 0
        self.random = False  # whether any mask leaves tokens visible
        self.enough = design.n_replicates >= design.min_replicates

    def add(self, table: ScoreTable, summation: Summation) -> None:
        """Add the masks of some observations at this point."""
        self.n_masks += len(table)
        self.rates += float((table.size / table.n_tokens).sum())
        self.size = int(table.size[0])
        self.random |= bool((table.size < table.n_tokens).any())


class _ByRow(_Point):
    """A point where each observation has its own masks."""

    def __init__(self, design: MaskDesign, masks: Masks) -> None:
        super().__init__(design, masks)
        self.sums = ErrorSums(design.n_replicates, joint=masks == "shared")

    def add(self, table: ScoreTable, summation: Summation) -> None:
        super().add(table, summation)
        weight, observation = summation.weight, table.observation
        unseen = (table.size < table.n_tokens).astype(np.float64) * (not self.design.deterministic)
        if summation.unseen is not None:
            unseen *= summation.unseen
        mean = table.score * weight / np.bincount(observation, weights=weight)[observation]
        self.sums.add(mean, observation, summation._replace(unseen=unseen))

    def mean_with_errors(self) -> MeanWithErrors:
        return self.sums.mean_with_errors(enough_masks=self.enough)


class _Pooled(_Point):
    """A point where observations and number of masks are random: a linearised ratio estimate.

    The spread of the observations that have masks there includes the error of the masks.
    """

    def __init__(self, design: MaskDesign, masks: Masks) -> None:
        super().__init__(design, masks)
        self.rows = Spread()
        self.around: float | None = None  # offset subtracted from all scores
        self.sums, self.counts = np.zeros((2, design.n_replicates))

    def add(self, table: ScoreTable, summation: Summation) -> None:
        super().add(table, summation)
        observation, n = table.observation, self.design.n_replicates
        self.rows.add(np.bincount(observation, weights=table.score) / np.bincount(observation))
        self.around = float(table.score.mean()) if self.around is None else self.around
        self.sums += np.bincount(summation.replicate, weights=table.score - self.around, minlength=n)
        self.counts += np.bincount(summation.replicate, minlength=n)

    def mean_with_errors(self) -> MeanWithErrors:
        assert self.around is not None
        apart = float(self.sums.sum()) / self.n_masks
        mean, n = self.around + apart, self.rows.n
        data_se = math.sqrt(self.rows.square / (n - 1)) / math.sqrt(n) if n > 1 else math.nan
        unknown = MeanWithErrors(mean, None, None, data_se)
        if not self.enough or not self.counts.all():
            return unknown
        totals = (self.sums - apart * self.counts) / self.n_masks
        variance = float(totals.var(ddof=1)) * self.design.n_replicates
        if equal_by_chance(variance, mean) and self.random:
            return unknown
        return MeanWithErrors(mean, math.sqrt(variance), self.design.n_replicates - 1, data_se)


def _predicted_curve(scores: Scores, design: MaskDesign, curves: SizeCurves, n_tokens: int | None) -> Curve:
    """The curve of random sizes, with a point for every size or bin, even without masks."""
    lengths, point_of = np.unique(scores.n_tokens), _point_of(n_tokens, scores)
    n_points = int(point_of(lengths, lengths).max()) + 1
    sums = np.zeros((n_points, 4))  # sums of scores, sizes, rates, and the variance for s² = 1
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
    unknown = equal_by_chance(mask_se**2, score) | (design.n_replicates < design.min_replicates)
    return Curve(
        n_tokens=n_tokens,
        size=np.full(len(point), math.nan) if n_tokens is None else point.astype(np.float64),
        rate=rates / n_sizes,
        score=score,
        mask_se=np.where(unknown, math.nan, mask_se),
        mask_df=np.where(unknown, math.nan, df[kept]),
        data_se=data_se,
        n_masks=n_masks[kept],
    )


def _spread(
    scores: Scores, design: MaskDesign, curves: SizeCurves, point_of: PointOf, n_points: int
) -> tuple[Float64[np.ndarray, " n_points"], ...]:
    """Compute s² of each point, its degrees of freedom, and v/N, from the masks of every k-th observation.

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
    """Per-size sums for observations of D tokens, one row per size."""
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
    """Average squares around each point with linearly decreasing weights; return degrees of freedom, too.

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
    """Average each row with its neighbours in a window; the window is truncated at the ends.

    Example:
        >>> _running_mean(np.array([[0.0], [3.0], [6.0], [0.0]]), 3).ravel().tolist()
        [1.5, 3.0, 3.0, 3.0]
    """
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0)])
    row = np.arange(len(values))
    low = np.maximum(row - window // 2, 0)
    high = np.minimum(row + (window + 1) // 2, len(values))
    return (sums[high] - sums[low]) / (high - low)[:, None]
