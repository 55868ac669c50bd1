"""The score against the mask size, with standard errors: the paper's "MPT curve"."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Integer

from maskevidence.evidence.control_variates import SizeCurves
from maskevidence.evidence.gains import with_all_hidden
from maskevidence.evidence.predicted_points import PointOf, predicted_points
from maskevidence.evidence.standard_errors import (
    ErrorSums,
    MeanWithErrors,
    Spread,
    equal_by_chance,
    student_t_quantile,
    t_half_width,
)
from maskevidence.masks.design import MaskDesign, Masks, Summation
from maskevidence.masks.sizes import Rates
from maskevidence.scores.record import Scores, ScoreTable
from maskevidence.show.draw import plot
from maskevidence.show.parts import Page
from maskevidence.show.pictures import FEWEST_IN_A_BAND, Band, Line, Lines
from maskevidence.show.shown import Columns, Shown
from maskevidence.show.words import typeset
from maskevidence.support.files import csv_text

RATE_BINS = (20, 10, 5)  # of which 20 % is an end
_SHORT = 0.05  # share of the observations that may be too short to have a size in every bin
LOW_RATE = 0.2  # about the largest share of tokens that masked language models are mostly trained to predict
CSV_COLUMNS = ("size", "rate", "score", "mask_se", "data_se", "n_masks")


@dataclass(frozen=True, repr=False)
class Curve(Shown):
    """S(x; M) by mask size, averaged over observations; NaN for values that are not known.

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
        """The mean score of some points, nats per hidden token, with its errors.

        The masks' errors of points are independent of each other, those of the data are not.

        Returns:
            The score, mask_se and data_se; NaN for an error that is not known at any of the points.
        """
        known = self.data_se[points & ~np.isnan(self.data_se)]
        mask_se = math.sqrt(float((self.mask_se[points] ** 2).sum())) / int(points.sum())
        data_se = float(known.mean()) if known.size else math.nan
        return float(self.score[points].mean()), mask_se, data_se

    @property
    def low_rates(self) -> Bool[np.ndarray, " n_points"]:
        """The points at which at most 20 % of the tokens are hidden."""
        return self.rate <= LOW_RATE + 1e-9

    def band(
        self, level: float = 0.95
    ) -> tuple[Float64[np.ndarray, " n_points"], Float64[np.ndarray, " n_points"]]:
        """Lower and upper end of each score's Student's t interval for the error of the masks, nats."""
        resolved = ~np.isnan(self.mask_se)
        half = np.full_like(self.score, np.nan)
        half[resolved] = [
            t_half_width(se, df, level)
            for se, df in zip(self.mask_se[resolved], self.mask_df[resolved], strict=True)
        ]
        return self.score - half, self.score + half

    def page(self) -> Page:
        """The first and the last score, and the picture."""
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
        """The curve with the intervals of the masks and of the data."""
        return curve_lines({"score": self}), ""

    def plot(self, ax: Any = None, *, label: str = "score") -> Any:
        """Draw the curve; see `Shown.plot`.

        Args:
            ax: axes of matplotlib, which may hold other curves; by default those of a new figure.
            label: the name of the curve.
        """
        return plot(curve_lines({label: self}), "", ax)

    def columns(self) -> Columns:
        """The columns of `to_csv`, a row for each point."""
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
    """Curves as a picture, by size where all observations of all curves have the same number of tokens.

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
    """The intervals that are known: of the data by the normal distribution, of the masks by Student's t."""
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


def curve_from_scores(
    record: ScoreTable | Scores, design: MaskDesign, masks: Masks, curves: SizeCurves | None = None
) -> Curve:
    """The curve of a run, computed from its record."""
    scores = Scores.of(with_all_hidden(record, design))
    lengths = np.unique(scores.n_tokens)
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
    """The point of a mask on the curve: its size, or a bin of rates if the numbers of tokens differ."""
    if n_tokens is not None:
        return lambda size, _: size
    short = np.quantile(scores.n_tokens, _SHORT, method="lower")
    n_bins = next((n for n in RATE_BINS if n <= short), RATE_BINS[-1])
    return lambda size, length: np.ceil(size / length * n_bins - 1e-9).astype(np.int64)


def _predicted_curve(scores: Scores, design: MaskDesign, curves: SizeCurves, n_tokens: int | None) -> Curve:
    """The curve of random sizes: a point for every size or bin, whether a mask has it or not."""
    points = predicted_points(scores, design, curves, _point_of(n_tokens, scores))
    resolved = (design.n_replicates >= design.min_replicates) & ~np.array(
        [
            equal_by_chance(se**2, mean)
            for se, mean in zip(points.mask_se.tolist(), points.score.tolist(), strict=True)
        ]
    )
    return Curve(
        n_tokens=n_tokens,
        size=points.point.astype(np.float64)
        if n_tokens is not None
        else np.full(len(points.point), math.nan),
        rate=points.rate,
        score=points.score,
        mask_se=np.where(resolved, points.mask_se, math.nan),
        mask_df=np.where(resolved, points.mask_df, math.nan),
        data_se=points.data_se,
        n_masks=points.n_masks,
    )


class _Point:
    """A point of a curve: the mean over observations of their mean scores there, added up in groups."""

    def __init__(self, design: MaskDesign, masks: Masks) -> None:
        self.design, self.masks = design, masks
        self.n_masks, self.rates, self.size = 0, 0.0, 0
        self.random = False  # whether a mask leaves tokens visible
        self.enough = design.n_replicates >= design.min_replicates

    def add(self, table: ScoreTable, summation: Summation) -> None:
        """Add the masks that some observations have at this point."""
        self.n_masks += len(table)
        self.rates += float((table.size / table.n_tokens).sum())
        self.size = int(table.size[0])
        self.random |= bool((table.size < table.n_tokens).any())


class _ByRow(_Point):
    """A point where the masks of each observation are drawn for it alone."""

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
    """A point where the observations and the number of masks are random: a ratio, linearised.

    The spread of the observations that have masks there includes the error of the masks.
    """

    def __init__(self, design: MaskDesign, masks: Masks) -> None:
        super().__init__(design, masks)
        self.rows = Spread()
        self.around: float | None = None  # a score, from which the others are counted
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
