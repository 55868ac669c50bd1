"""The score as a function of mask size, with standard errors: the paper's "MPT curve"."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Integer

from maskevidence.core.evidence.standard_errors import student_t_quantile, t_half_width
from maskevidence.core.show.draw import plot
from maskevidence.core.show.parts import Page
from maskevidence.core.show.pictures import FEWEST_IN_A_BAND, Band, Line, Lines
from maskevidence.core.show.shown import Columns, Shown
from maskevidence.core.show.words import typeset
from maskevidence.core.support.files import csv_text

LOW_RATE = 0.2  # roughly the largest share of tokens hidden in the training of most masked language models
ONE_RATE = 0.15  # the rate that masked models are mostly trained and judged at
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
            The rate between the two points that the mean divides best; None if all are on one side.

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
