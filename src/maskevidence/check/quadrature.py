"""The integral of a density of one number over the real line, however narrow its modes are."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

Floats = Float64[np.ndarray, " n"]
_REACH = 32.0  # nodes reach to sinh(32) = 3.9e13 widths of the points, which may all be equal
_GRID = 129
_MOST_MODES = 16  # that are searched
_ROUNDS, _BETWEEN = 9, 21  # of a search, each of which looks ten times closer
_MOST_NODES = 8192
_CLOSEST = 1e-13


class Nodes(NamedTuple):
    """Nodes of an integral.

    Attributes:
        log_prob: shape (n,); the log-density at the nodes.
        log_weight: shape (n,); the log weight of each.
        error: what the last refinement has changed, added up over the intervals.
        runs_away: the end of the line towards which the density grows; None if it does not.
    """

    log_prob: Floats
    log_weight: Floats
    error: float
    runs_away: float | None = None


def integrate(
    log_prob: Callable[[Floats], Floats], points: Floats, tolerance: float, *, line: bool = True
) -> Nodes:
    """Nodes for the integral of exp(log_prob), by Simpson's rule on intervals that are halved where it errs.

    Intervals end at the given points and at the modes, so that a mode of any width is seen if a point lies
    in it, or if the log-density rises towards it. On the real line x = m + w·sinh(t), with m and w the middle
    and the width of the points, and intervals are those of t: tails may be heavy.

    Args:
        log_prob: the log-density at an array of values.
        points: values to begin with, in rising order.
        tolerance: the error at which no interval is halved any more.
        line: whether to integrate over the real line; otherwise from the first to the last point.

    Example:
        >>> def two_narrow_modes(x):
        ...     return -0.5 * ((np.abs(x) - 5) / 1e-4) ** 2 - np.log(2e-4 * np.sqrt(2 * np.pi))
        >>> nodes = integrate(two_narrow_modes, np.array([-5.0001, 4.9999]), 1e-6)
        >>> bool(abs(np.exp(nodes.log_prob + nodes.log_weight).sum() - 1) < 1e-5)
        True
    """
    low, high = float(points[0]), float(points[-1])
    middle, width = (low + high) / 2, max(high - low, 1e-3 * abs(high), 1e-6)
    if line:
        t = np.union1d(np.linspace(-_REACH, _REACH, _GRID), np.arcsinh((points - middle) / width))
    else:
        t = np.union1d(np.linspace(low, high, _GRID), points)

    def answers(t: Floats) -> Floats:
        return log_prob(middle + width * np.sinh(t) if line else t)

    log_p = answers(t)
    if line and (best := int(log_p.argmax())) in (0, len(t) - 1):
        return Nodes(log_p, np.zeros(len(t)), 0.0, runs_away=middle + width * float(np.sinh(t[best])))
    t, log_p = _with_modes(answers, t, log_p)
    return _halved(
        answers, t, log_p, tolerance, (lambda t: np.log(width * np.cosh(t))) if line else np.zeros_like
    )


def _with_modes(
    answers: Callable[[Floats], Floats], t: Floats, log_p: Floats
) -> tuple[Float64[np.ndarray, " m"], Float64[np.ndarray, " m"]]:
    """The nodes and those that close in on each local maximum, until its neighbours are half as high."""
    inner = np.arange(1, len(t) - 1)
    inner = inner[(log_p[inner] > log_p[inner - 1]) & (log_p[inner] >= log_p[inner + 1])]
    inner = inner[np.argsort(-log_p[inner])[:_MOST_MODES]]
    left, right = t[inner - 1], t[inner + 1]
    for _ in range(_ROUNDS):
        if len(left) == 0:
            break
        between = np.linspace(left, right, _BETWEEN, axis=1)
        found = answers(between.ravel()).reshape(between.shape)
        t, first = np.unique(np.concatenate([t, between.ravel()]), return_index=True)
        log_p = np.concatenate([log_p, found.ravel()])[first]
        best = found.argmax(1)
        row = np.arange(len(best))
        before, after = np.maximum(best - 1, 0), np.minimum(best + 1, _BETWEEN - 1)
        fall = found[row, best] - np.minimum(found[row, before], found[row, after])
        steep = (fall > np.log(2)) & (right - left > _CLOSEST * np.maximum(np.abs(left), 1))
        left, right = between[row, before][steep], between[row, after][steep]
    return t, log_p


def _halved(
    answers: Callable[[Floats], Floats],
    t: Floats,
    log_p: Floats,
    tolerance: float,
    log_slope: Callable[[Floats], Floats],
) -> Nodes:
    """Simpson's rule between neighbouring nodes; the intervals that err most are halved."""

    def simpson(ends: Float64[np.ndarray, "k 3"], at: Float64[np.ndarray, "k 3"]) -> Floats:
        return np.exp(at + log_slope(ends)) @ np.array([1, 4, 1]) * (ends[:, 2] - ends[:, 0]) / 6

    with np.errstate(over="ignore", invalid="ignore"):
        middle = (t[:-1] + t[1:]) / 2
        place = np.stack([t[:-1], middle, t[1:]], 1)
        at = np.stack([log_p[:-1], answers(middle), log_p[1:]], 1)
        n = len(t) + len(middle)
        area = simpson(place, at)
        edges = np.exp(at[:, [0, 2]] + log_slope(place[:, [0, 2]])).sum(1) * (t[1:] - t[:-1]) / 2
        error = np.abs(area - edges)
        while error.sum() > tolerance and n < _MOST_NODES:
            order = np.argsort(-error)
            left_over = error.sum() - np.cumsum(error[order])
            worst = order[: min(int((left_over > tolerance / 2).sum()) + 1, (_MOST_NODES - n) // 2 + 1)]
            quarters = (place[worst][:, [0, 1]] + place[worst][:, [1, 2]]) / 2
            found = answers(quarters.ravel()).reshape(-1, 2)
            n += found.size
            new_place = _two(place[worst], quarters)
            new_at = _two(at[worst], found)
            new_area = simpson(new_place, new_at)
            change = np.abs(new_area.reshape(2, -1).sum(0) - area[worst]) / 2
            kept = np.ones(len(error), dtype=bool)
            kept[worst] = False
            place, at = np.concatenate([place[kept], new_place]), np.concatenate([at[kept], new_at])
            area = np.concatenate([area[kept], new_area])
            error = np.concatenate([error[kept], change, change])
        weight = (place[:, [2]] - place[:, [0]]) / 6 * np.array([1, 4, 1])
        log_weight = np.log(np.maximum(weight, 1e-300)) + log_slope(place)
    return Nodes(at.ravel(), log_weight.ravel(), float(error.sum()))


def _two(
    whole: Float64[np.ndarray, "k 3"], quarters: Float64[np.ndarray, "k 2"]
) -> Float64[np.ndarray, "two_k 3"]:
    """The left halves, then the right ones: both ends and the middle of each."""
    left = np.stack([whole[:, 0], quarters[:, 0], whole[:, 1]], 1)
    return np.concatenate([left, np.stack([whole[:, 1], quarters[:, 1], whole[:, 2]], 1)])
