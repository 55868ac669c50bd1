"""The score as a function of mask size, with standard errors: the paper's "MPT curve".

There is one point per size or bin of the rate. Where sizes are random, it is the prediction plus the
residuals there. With the prediction ĝ of `control_variates.py`, the score at size M is estimated by

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
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Integer

from maskevidence.core.evidence.conditional_gains import with_all_hidden
from maskevidence.core.evidence.control_variates import Prediction, SizeCurves
from maskevidence.core.evidence.score_means import predicted, summation_of
from maskevidence.core.evidence.standard_errors import (
    ErrorSums,
    MeanWithErrors,
    Spread,
    equal_by_chance,
    student_t_quantile,
    t_half_width,
)
from maskevidence.core.masks.design import Indices, MaskDesign, Masks, PerMask, Summation, lengths_of
from maskevidence.core.masks.orders import LogSizes
from maskevidence.core.masks.sizes import Rates
from maskevidence.core.scores.record import Scores, ScoreTable
from maskevidence.core.show.draw import plot
from maskevidence.core.show.parts import Page
from maskevidence.core.show.pictures import FEWEST_IN_A_BAND, Band, Line, Lines
from maskevidence.core.show.shown import Columns, Shown
from maskevidence.core.show.words import typeset
from maskevidence.core.support.files import csv_text

LOW_RATE = 0.2  # roughly the largest share of tokens hidden in the training of most masked language models
ONE_RATE = 0.15  # the rate that masked models are mostly trained and judged at
_ROWS_AT_ONCE = 2**16
CSV_COLUMNS = ("size", "rate", "score", "mask_se", "data_se", "n_masks")


@dataclass(frozen=True, repr=False)
class Curve(Shown):
    """The mean score S(x; M) by mask size over observations; NaN for unknown values.

    If all observations have D tokens, each point is a size. If D varies, each point is a rate: one of the
    design's rates, or a bin of width 1/20, or of 1/10 or 1/5 where more than 5 % of the observations have
    fewer than 20 or 10 tokens: in narrower bins, these would be in some points and not in others.

    Attributes:
        n_tokens: D, or None if it varies.
        size: shape (n_points,); M, NaN if D varies.
        rate: shape (n_points,); M/D.
        score: shape (n_points,); mean log-probability of a masked token, nats.
        mask_se: shape (n_points,); Monte-Carlo standard error of the masks.
        mask_df: shape (n_points,); its degrees of freedom.
        data_se: shape (n_points,); sampling standard error of the observations (including the error of the
            masks if that is not known, and always for random sizes).
        n_masks: shape (n_points,); how many masks were scored.
    """

    n_tokens: int | None
    size: Float64[np.ndarray, " n_points"]
    rate: Float64[np.ndarray, " n_points"]
    score: Float64[np.ndarray, " n_points"]
    mask_se: Float64[np.ndarray, " n_points"]
    mask_df: Float64[np.ndarray, " n_points"]
    data_se: Float64[np.ndarray, " n_points"]
    n_masks: Integer[np.ndarray, " n_points"]

    @property
    def area(self) -> float | None:
        """The sum of the scores over sizes 1..D (Eq. 2), nats per observation; None if a size is missing.

        Example:
            >>> import maskevidence as me, torch
            >>> model = me.models.Gaussian(torch.zeros(3), torch.eye(3))
            >>> estimate = me.estimate_evidence(model, [[0.0, 1.0, 2.0]], me.Exhaustive())
            >>> bool(np.isclose(estimate.curve.area, estimate.log_evidence))
            True
        """
        if self.n_tokens is None or len(self.size) != self.n_tokens:
            return None
        return float(self.score.sum())

    def mean_at(self, points: Bool[np.ndarray, " n_points"]) -> tuple[float, float, float]:
        """Average the score over some points, nats per hidden token, with standard errors.

        The mask errors of different points are independent, the data errors are not.

        Returns:
            The score, mask_se and data_se; NaN for an error that is not known at any of the points.
        """
        known = self.data_se[points & ~np.isnan(self.data_se)]
        mask_se = math.sqrt(float((self.mask_se[points] ** 2).sum())) / int(points.sum())
        data_se = float(known.mean()) if known.size else math.nan
        return float(self.score[points].mean()), mask_se, data_se

    @property
    def low_rates(self) -> Bool[np.ndarray, " n_points"]:
        """True at points with at most 20 % of the tokens hidden."""
        return self.rate <= LOW_RATE + 1e-9

    def crossing(self, mean: float) -> float | None:
        """Find the rate up to which the score is above its mean over all sizes, and from which it is below.

        D·S(x; M) at one rate alone says more than the area before it, and less after it.

        Args:
            mean: the score averaged over all sizes, which is the log evidence per token, nats.

        Returns:
            The rate between the two points that the mean divides best; None if all are on one side, or if
            the two sides differ by less than three standard errors of the masks.

        Example:
            >>> zero, size = np.zeros(4), np.arange(1.0, 5)
            >>> score = np.array([-1.0, -2, -4, -5])
            >>> curve = Curve(4, size, size / 4, score, zero, zero, zero, np.full(4, 8))
            >>> curve.crossing(-3.0), curve.crossing(-9.0)
            (0.625, None)
        """
        above = self.score - mean
        last = int(np.cumsum(above).argmax())  # the last point above, but for noise
        if last + 1 == len(above) or not above[last] > 0 > above[last + 1]:
            return None
        before = (last + 1) / len(above)
        unknown = np.isnan(self.mask_se)
        typical = 0.0 if unknown.all() else float((self.mask_se[~unknown] ** 2).mean())
        variance = np.where(unknown, typical, self.mask_se**2)
        of_sides = np.where(np.arange(len(above)) <= last, 1 - before, before) ** 2
        if above[: last + 1].sum() < 3 * math.sqrt(float((of_sides * variance).sum())):
            return None
        share = above[last] / (above[last] - above[last + 1])
        return float(self.rate[last] + share * (self.rate[last + 1] - self.rate[last]))

    def band(
        self, level: float = 0.95
    ) -> tuple[Float64[np.ndarray, " n_points"], Float64[np.ndarray, " n_points"]]:
        """The ends of each score's Student's t interval for the mask error, nats."""
        resolved = ~np.isnan(self.mask_se)
        half = np.full_like(self.score, np.nan)
        half[resolved] = [
            t_half_width(se, df, level)
            for se, df in zip(self.mask_se[resolved], self.mask_df[resolved], strict=True)
        ]
        return self.score - half, self.score + half

    def page(self) -> Page:
        """The first and last score, and the picture."""
        by = "rates" if self.n_tokens is None else f"sizes of {self.n_tokens} tokens"
        first, last = float(self.score[0]), float(self.score[-1])
        line = f"Curve({len(self.score)} {by}, score {first:.3f} to {last:.3f} nats per hidden token)"
        ends = sorted({0, len(self.score) - 1})
        answer = " and ".join(
            f"{typeset(float(self.score[k]), 3)} at {typeset(100 * float(self.rate[k]), 0)} % hidden"
            for k in ends
        )
        return Page(line, f"Score {answer}", "(nats per hidden token)", [self.picture()[0]])

    def picture(self) -> tuple[Lines, str]:
        """The curve with intervals for masks and for data."""
        return curve_lines({"score": self}), ""

    def plot(self, ax: Any = None, *, label: str = "score") -> Any:
        """Draw the curve; see `Shown.plot`.

        Args:
            ax: axes of matplotlib, which may hold other curves; by default the axes of a new figure.
            label: the name of the curve.
        """
        return plot(curve_lines({label: self}), "", ax)

    def columns(self) -> Columns:
        """The columns of `to_csv`, one row per point."""
        return Columns({name: getattr(self, name) for name in CSV_COLUMNS})

    def to_csv(self) -> str:
        """CSV text with the columns size,rate,score,mask_se,data_se,n_masks; unknown values are empty."""
        rows = zip(*(getattr(self, column) for column in CSV_COLUMNS), strict=True)
        return csv_text(CSV_COLUMNS, ([_whole_or_float(float(value)) for value in row] for row in rows))


def curve_lines(
    curves: Mapping[str, Curve],
    value: str = "score S(x; M)",
    *,
    numbers: Sequence[int] | None = None,
    zero: bool = False,
) -> Lines:
    """Draw curves by size if all observations have the same number of tokens, else by rate.

    Args:
        numbers: the number of each curve among the runs, which decides its colour; by default 0, 1, ...
    """
    lengths = {curve.n_tokens for curve in curves.values()}
    n_tokens = lengths.pop() if len(lengths) == 1 else None
    lines = [
        Line(label, 100 * curve.rate if n_tokens is None else curve.size, curve.score, _bands(curve), k)
        for k, (label, curve) in zip(numbers or range(len(curves)), curves.items(), strict=True)
    ]
    y_label, by_rate = f"{value}  (nats per hidden token)", "mask rate (% of tokens hidden)"
    if n_tokens is None:
        return Lines(lines, by_rate, y_label, zero)
    has_bars = any(len(line.x) < FEWEST_IN_A_BAND for line in lines)
    room = max(0.5, n_tokens / 40) if has_bars else 0.0
    limits = min(1, n_tokens - 1) - room, n_tokens + room
    top = by_rate, 100 / n_tokens
    return Lines(lines, "mask size M (hidden tokens)", y_label, zero, top, limits)


def _bands(curve: Curve) -> list[Band]:
    """The known intervals: normal for the data, Student's t for the masks."""
    bands = []
    half = student_t_quantile(0.975, math.inf) * curve.data_se
    if not np.isnan(half).all():
        low, high = curve.score - half, curve.score + half
        bands.append(Band("data", low, high, "95 % interval, data", wide=True))
    low, high = curve.band(0.95)
    if np.nanmax(np.where(np.isnan(high), 0.0, high - low), initial=0.0) > 0:
        bands.append(Band("masks", low, high, "95 % interval, masks"))
    return bands


def _whole_or_float(value: float) -> float:
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


RATE_BINS = (20, 10, 5)  # 20 % is an edge of each
_SHORT = 0.05  # share of observations that may have fewer tokens than there are bins
NEAREST, SHARE = 32, 1 / 4  # masks used for the spread at a point: the minimum, and the share of all masks
_OfPoints = Float64[np.ndarray, " n_points"]
_Sizes = Integer[np.ndarray, " n"]
PointOf = Callable[[_Sizes, _Sizes], _Sizes]


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
    points: dict[int, ErrorSums | _Pooled] = {}
    n_masks, rates, point_of = Counter[int](), defaultdict[int, float](float), _point_of(n_tokens, scores)
    for _, table in scores:
        summation = summation_of(table, design)
        point = summation.stratum if by_stratum else point_of(table.size, table.n_tokens)
        order = np.argsort(point, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(point[order])) + 1):
            number, some = int(point[part[0]]), table.select(part)
            here: list[Any] = [each if each is None else each[part] for each in summation]
            values, how = _at_point(some, Summation(*here), pooled=design.pooled)
            points.setdefault(number, _new_point(design, masks)).add(values, some.observation, how)
            n_masks[number] += len(some)
            rates[number] += float((some.size / some.n_tokens).sum())
    numbers, enough = sorted(points), design.n_replicates >= design.min_replicates
    means = [points[number].mean_with_errors(enough_masks=enough) for number in numbers]

    def column(values: Iterable[float | None]) -> _OfPoints:
        return np.array([math.nan if value is None else value for value in values], dtype=np.float64)

    size = column(number if n_tokens is not None else None for number in numbers)
    rate = column(rates[number] / n_masks[number] for number in numbers)
    names = ("mean", "mask_se", "mask_df", "data_se")
    score, mask_se, mask_df, data_se = (column(getattr(each, name) for each in means) for name in names)
    counts = np.array([n_masks[number] for number in numbers])
    return Curve(n_tokens, size, rate, score, mask_se, mask_df, data_se, counts)


def _point_of(n_tokens: int | None, scores: Scores) -> PointOf:
    """Map a mask to a point of the curve: its size, or a bin of rates if observations differ in length."""
    if n_tokens is not None:
        return lambda size, _: size
    short = np.quantile(scores.n_tokens, _SHORT, method="lower")
    n_bins = next((n for n in RATE_BINS if n <= short), RATE_BINS[-1])
    return lambda size, length: np.ceil(size / length * n_bins - 1e-9).astype(np.int64)


def _new_point(design: MaskDesign, masks: Masks) -> "ErrorSums | _Pooled":
    n = design.n_replicates
    return _Pooled(n) if design.pooled else ErrorSums(n, joint=masks == "shared")


def _at_point(table: ScoreTable, summation: Summation, *, pooled: bool) -> tuple[PerMask, Summation]:
    """What each mask adds to the mean at its point, where a mask that hides all tokens has no error."""
    unseen = (table.size < table.n_tokens).astype(np.float64)
    if summation.unseen is not None:
        unseen *= summation.unseen
    weight, observation, values = summation.weight, table.observation, table.score
    if not pooled:
        values = values * weight / np.bincount(observation, weights=weight)[observation]
    return values, summation._replace(unseen=unseen)


class _Pooled:
    """`ErrorSums` of a point where observations and number of masks are random: a linearised ratio estimate.

    The spread of the observations that have masks there includes the error of the masks.
    """

    def __init__(self, n_replicates: int) -> None:
        self.rows, self.random = Spread(), False
        self.around: float | None = None  # offset subtracted from all scores
        self.sums, self.counts = np.zeros((2, n_replicates))

    def add(self, score: PerMask, observation: Indices, summation: Summation) -> None:
        n = len(self.sums)
        self.random |= bool(np.any(summation.unseen))
        self.rows.add(np.bincount(observation, weights=score) / np.bincount(observation))
        self.around = float(score.mean()) if self.around is None else self.around
        self.sums += np.bincount(summation.replicate, weights=score - self.around, minlength=n)
        self.counts += np.bincount(summation.replicate, minlength=n)

    def mean_with_errors(self, *, enough_masks: bool) -> MeanWithErrors:
        assert self.around is not None
        n_masks, n_replicates, n = self.counts.sum(), len(self.sums), self.rows.n
        apart = float(self.sums.sum() / n_masks)
        mean = self.around + apart
        data_se = math.sqrt(self.rows.square / (n - 1)) / math.sqrt(n) if n > 1 else math.nan
        unknown = MeanWithErrors(mean, None, None, data_se)
        if not enough_masks or not self.counts.all():
            return unknown
        totals = (self.sums - apart * self.counts) / n_masks
        variance = float(totals.var(ddof=1)) * n_replicates
        if equal_by_chance(variance, mean) and self.random:
            return unknown
        return MeanWithErrors(mean, math.sqrt(variance), n_replicates - 1, data_se)


def _predicted_curve(scores: Scores, design: MaskDesign, curves: SizeCurves, n_tokens: int | None) -> Curve:
    """The curve of random sizes, with a point for every size or bin, even without masks."""
    lengths, point_of = lengths_of(scores.n_tokens)[0], _point_of(n_tokens, scores)
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
    mask_se, mask_df = (np.where(unknown, math.nan, each) for each in (mask_se, df[kept]))
    size = np.full(len(point), math.nan) if n_tokens is None else point.astype(np.float64)
    return Curve(n_tokens, size, rates / n_sizes, score, mask_se, mask_df, data_se, n_masks[kept])


def _spread(
    scores: Scores, design: MaskDesign, curves: SizeCurves, point_of: PointOf, n_points: int
) -> tuple[_OfPoints, ...]:
    """Compute s² of each point, its degrees of freedom, and v/N, from the masks of every k-th observation.

    v/N is the variance of the observations around their curve, over their number.
    """
    table = scores.sample()
    point, prediction = point_of(table.size, table.n_tokens), predicted(table, design, curves)
    n_masks = np.bincount(point, minlength=n_points)
    left = table.size * prediction.residuals(table) ** 2
    around = table.score - curves.at(table.size, table.n_tokens, prediction.fold)
    del table, prediction  # as large as the copies that follow
    square, df = _nearest_squares(point, left, n_masks)
    n_rows = np.zeros(n_points)
    for length, rows in zip(*lengths_of(scores.n_tokens), strict=True):
        size = np.arange(1, length + 1)
        n_rows[np.unique(point_of(size, np.full(length, length)))] += rows
    apart, _ = _nearest_squares(point, (around - around.mean()) ** 2, n_masks)
    return square, df, np.where(n_rows > 1, apart / np.maximum(n_rows - 1, 1), math.nan)


def _expected(
    table: ScoreTable, design: MaskDesign, prediction: Prediction, size: _Sizes
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
    point: _Sizes, square: Float64[np.ndarray, " n"], n_masks: Integer[np.ndarray, " n_points"]
) -> tuple[_OfPoints, _OfPoints]:
    """Average squares around each point with linearly decreasing weights; return degrees of freedom, too.

    The weights come from a running mean over a window of the masks, in the order of their points, taken
    twice. With the squares y of n masks, the degrees of freedom are 2 · mean(y)² · n / var(y), at most n;
    the weights count as n = 3/2 of a window.
    """
    window = min(len(point), max(NEAREST, math.ceil(SHARE * len(point))))
    square = square[np.argsort(point, kind="stable")]
    moments = np.column_stack([square, square**2])
    last = np.cumsum(n_masks)
    middle = np.clip((2 * last - n_masks) // 2, 0, len(point) - 1)
    mean, mean_square = _running_mean(_running_mean(moments, window), window, middle).T
    n = min(len(point), 1.5 * window)
    variance = np.maximum(mean_square - mean**2, 0.0)
    return mean, np.minimum(n, 2 * mean**2 * n / np.maximum(variance, 1e-300))


def _running_mean(
    values: Float64[np.ndarray, "n k"], window: int, row: Integer[np.ndarray, " m"] | None = None
) -> Float64[np.ndarray, "m k"]:
    """Average each row, or some, with its neighbours in a window; the window is truncated at the ends.

    Example:
        >>> _running_mean(np.array([[0.0], [3.0], [6.0], [0.0]]), 3).ravel().tolist()
        [1.5, 3.0, 3.0, 3.0]
    """
    row = np.arange(len(values)) if row is None else row
    sums, mean = np.zeros((len(values) + 1, values.shape[1])), np.empty((len(row), values.shape[1]))
    np.cumsum(values, axis=0, out=sums[1:])
    for first in range(0, len(row), _ROWS_AT_ONCE):  # which bounds the memory of a copy
        some = slice(first, first + _ROWS_AT_ONCE)
        low = np.maximum(row[some] - window // 2, 0)
        high = np.minimum(row[some] + (window + 1) // 2, len(values))
        mean[some] = (sums[high] - sums[low]) / (high - low)[:, None]
    return mean
