"""Find the mask rates at which each of two models is ahead; with learned conditionals the lead can change."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from maskevidence.core.evidence.curve import LOW_RATE, Curve
from maskevidence.core.show.pictures import Lines
from maskevidence.core.show.words import number

_BINS, _FEW_BINS = 10, 5  # intervals of rates; the second number for curves of fewer than ten points
_TWO_SIDED = 1.96
_QUANTILE = 2.81  # standard normal quantile for 99.5 %, which is 95 % for all bins together


class _Bin(NamedTuple):
    """The mean difference of the scores in one interval of rates."""

    low: float  # lowest rate
    high: float  # highest rate
    difference: float  # nats per hidden token
    se: float  # for masks and data; NaN if not known


def notes_on_rates(curve: Curve, first: str, second: str) -> list[str]:
    """Notes: where the lead changes, where most of the difference lies, and who leads at low rates.

    Args:
        curve: the score of the first model minus the score of the second, by size or rate.

    Example:
        >>> zero, size = np.zeros(10), np.arange(1.0, 11)
        >>> score = np.where(size < 7, 0.5, -4.0)
        >>> curve = Curve(10, size, size / 10, score, zero + 0.01, zero + 9, zero + 0.05, np.full(10, 8))
        >>> for note in notes_on_rates(curve, "a", "b"):
        ...     print(note)
        a is ahead by 0.50 nats per hidden token from 0 to 60 % hidden, b by 4.00 from 60 to 100 %
        60 to 90 % hidden hold more than half of what a and b differ by, in nats summed over the rates
        at up to 20 % hidden, a is ahead of b by 0.50 ± 0.05 nats per hidden token
    """
    bins = _binned(curve)
    runs, half = _runs(bins), _half(bins)
    notes = [_who_is_ahead(runs, first, second)] if _places(runs) else []
    if half is not None:
        notes.append(
            f"{100 * half[0]:.0f} to {100 * half[1]:.0f} % hidden hold more than half of what {first} and "
            f"{second} differ by, in nats summed over the rates"
        )
    if not curve.low_rates.any():
        notes.append(
            f"no mask hides {100 * LOW_RATE:.0f} % or less, the rates that masked models are mostly trained "
            "at; the design leave-one-out scores each token given all others"
        )
    else:
        found = _mean(curve, curve.low_rates, 0.0, LOW_RATE)
        ahead, behind = (first, second) if found.difference > 0 else (second, first)
        error = "" if math.isnan(found.se) else f" ± {number(found.se, 2)}"
        words = f"{ahead} is ahead of {behind} by {number(abs(found.difference), 2)}{error}"
        if abs(found.difference) <= _TWO_SIDED * found.se:
            words = f"{ahead} and {behind} cannot be told apart: {number(abs(found.difference), 2)}{error}"
        notes.append(f"at up to {100 * LOW_RATE:.0f} % hidden, {words} nats per hidden token")
    return notes


def turns(curve: Curve) -> tuple[float, ...]:
    """Find the rates, ascending in [0, 1], at which the difference of two curves changes sign.

    `notes_on_rates` names the same rates; a turn between two ranges is in the middle.

    Example:
        >>> zero, size = np.zeros(10), np.arange(1.0, 11)
        >>> score = np.where(size < 7, 0.5, -4.0)
        >>> turns(Curve(10, size, size / 10, score, zero + 0.01, zero + 9, zero + 0.05, np.full(10, 8)))
        (0.6,)
    """
    return _places(_runs(_binned(curve)))


def with_turns(picture: Lines, at: Mapping[str, Sequence[float]]) -> Lines:
    """Mark in a picture of differences the rates at which each line changes sign.

    Args:
        at: the rates by the label of a line.
    """
    scale = 100.0 if picture.top is None else 100.0 / picture.top[1]  # the axis shows rates in % or sizes
    lines = [replace(line, turns=[scale * rate for rate in at.get(line.label, ())]) for line in picture.lines]
    return replace(picture, lines=lines)


def _binned(curve: Curve) -> list[_Bin]:
    n = _BINS if len(curve.rate) >= _BINS else _FEW_BINS
    place = np.clip(np.ceil(curve.rate * n - 1e-9) - 1, 0, n - 1).astype(np.int64)
    return [_mean(curve, place == k, k / n, (k + 1) / n) for k in np.unique(place).tolist()]


def _mean(curve: Curve, points: Bool[np.ndarray, " n_points"], low: float, high: float) -> _Bin:
    difference, mask_se, data_se = curve.mean_at(points)
    return _Bin(low, high, difference, mask_se if math.isnan(data_se) else math.hypot(mask_se, data_se))


def _runs(bins: list[_Bin]) -> list[list[_Bin]]:
    """Join neighbouring bins in which the same model is significantly ahead."""
    runs: list[list[_Bin]] = []
    for each in bins:
        if not _beyond_error(each):
            continue
        if runs and runs[-1][-1].high == each.low and runs[-1][0].difference * each.difference > 0:
            runs[-1].append(each)
        else:
            runs.append([each])
    return runs


def _places(runs: list[list[_Bin]]) -> tuple[float, ...]:
    """The rates at which the lead changes."""
    return tuple(
        (before[-1].high + after[0].low) / 2
        for before, after in pairwise(runs)
        if before[0].difference * after[0].difference < 0
    )


def _who_is_ahead(runs: list[list[_Bin]], first: str, second: str) -> str:
    """Say at which rates each model is ahead, and by how much."""
    words: list[str] = []
    for run in runs:
        sizes = sorted(abs(each.difference) for each in run)
        by = dict.fromkeys(number(size, 2) for size in (sizes[0], sizes[-1]))
        unit, verb = (" nats per hidden token", "is ahead by") if not words else ("", "by")
        name = first if run[0].difference > 0 else second
        rates = f"from {100 * run[0].low:.0f} to {100 * run[-1].high:.0f} %{' hidden' if not words else ''}"
        words.append(f"{name} {verb} {' to '.join(by)}{unit} {rates}")
    return ", ".join(words)


def _beyond_error(each: _Bin) -> bool:
    return abs(each.difference) > _QUANTILE * each.se


def _half(bins: list[_Bin]) -> tuple[float, float] | None:
    """The shortest range of rates with more than half of Σ |difference|; None if that is most rates."""
    sizes = np.array([abs(each.difference) if _beyond_error(each) else 0.0 for each in bins])
    for n in range(1, len(bins) // 2):
        sums = np.convolve(sizes, np.ones(n), "valid")
        if sums.max() > 0.5 * sizes.sum():
            start = int(sums.argmax())
            return bins[start].low, bins[start + n - 1].high
    return None
