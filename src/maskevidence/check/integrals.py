"""Integrals of a density: over the real line by quadrature, and over vectors by importance sampling."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

Floats = Float64[np.ndarray, " n"]
Table = Float64[np.ndarray, "n K"]

_REACH = 32.0  # nodes reach to sinh(32) = 3.9e13 widths of the points, which may all be equal
_GRID = 129
_MOST_MODES = 16  # that are searched
_ROUNDS, _BETWEEN = 9, 21  # of a search, each of which looks ten times closer
_MOST_NODES = 8192
_CLOSEST = 1e-13
N_SAMPLES = 256
_FEWEST_EFFECTIVE = 230  # of 256: with fewer the entries depend on each other, and the error is too small
_STEPS = 9
_UNIFORM = 1e-3  # the share of a uniform distribution in the proposal, so that no level is left out
_LEVELS = 256


class IntegralNodes(NamedTuple):
    """Nodes of an integral, which is Σ exp(log_prob + log_weight)."""

    log_prob: Floats  # shape (n,); the log-density at the nodes
    log_weight: Floats  # shape (n,); the log weight of each
    # the standard error of a sample; or the change of the last refinement, added up over intervals
    error: float
    note: str = ""  # why the integral is not to be trusted; empty if it is


def integrate(
    log_prob: Callable[[Floats], Floats], points: Floats, tolerance: float, *, line: bool = True
) -> IntegralNodes:
    """Nodes for the integral of exp(log_prob), by Simpson's rule on intervals that are halved where it errs.

    Intervals end at the given points and at the modes, so that a mode of any width is seen if a point lies
    in it, or if the log-density rises towards it. On the real line x = m + w·sinh(t), with m and w the middle
    and the width of the points, and intervals are those of t: tails may be heavy.

    Args:
        line: whether to integrate over the real line; otherwise from the first to the last point.

    Example:
        >>> def two_narrow_modes(x):
        ...     return -0.5 * ((np.abs(x) - 5) / 1e-4) ** 2 - np.log(2e-4 * np.sqrt(2 * np.pi))
        >>> nodes = integrate(two_narrow_modes, np.array([-5.0001, 4.9999]), 1e-6)
        >>> bool(abs(np.exp(nodes.log_prob + nodes.log_weight).sum() - 1) < 1e-5)
        True
    """
    low, high = float(points[0]), float(points[-1])
    if not line:
        t = np.union1d(np.linspace(low, high, _GRID), points)
        return _halved(log_prob, *_with_modes(log_prob, t, log_prob(t)), tolerance, np.zeros_like)
    middle, width = (low + high) / 2, max(high - low, 1e-3 * abs(high), 1e-6)

    def on_line(t: Floats) -> Floats:
        return log_prob(middle + width * np.sinh(t))

    def log_slope(t: Float64[np.ndarray, "..."]) -> Float64[np.ndarray, "..."]:
        return np.log(width * np.cosh(t))

    t = np.union1d(np.linspace(-_REACH, _REACH, _GRID), np.arcsinh((points - middle) / width))
    log_p = on_line(t)
    if (best := int(log_p.argmax())) in (0, len(t) - 1):
        end = middle + width * float(np.sinh(t[best]))
        return IntegralNodes(
            log_p, np.zeros(len(t)), 0.0, f"the density grows without end as the value goes to {end:.3g}"
        )
    return _halved(on_line, *_with_modes(on_line, t, log_p), tolerance, log_slope)


def _with_modes(
    log_prob: Callable[[Floats], Floats], t: Floats, log_p: Floats
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
        new = log_prob(between.ravel()).reshape(between.shape)
        t, first = np.unique(np.concatenate([t, between.ravel()]), return_index=True)
        log_p = np.concatenate([log_p, new.ravel()])[first]
        best = new.argmax(1)
        row = np.arange(len(best))
        before, after = np.maximum(best - 1, 0), np.minimum(best + 1, _BETWEEN - 1)
        fall = new[row, best] - np.minimum(new[row, before], new[row, after])
        steep = (fall > np.log(2)) & (right - left > _CLOSEST * np.maximum(np.abs(left), 1))
        left, right = between[row, before][steep], between[row, after][steep]
    return t, log_p


def _halved(
    log_prob: Callable[[Floats], Floats],
    t: Floats,
    log_p: Floats,
    tolerance: float,
    log_slope: Callable[[Float64[np.ndarray, "..."]], Float64[np.ndarray, "..."]],
) -> IntegralNodes:
    """Simpson's rule between neighbouring nodes; the intervals that err most are halved."""

    def simpson(t: Float64[np.ndarray, "k 3"], log_p: Float64[np.ndarray, "k 3"]) -> Floats:
        return np.exp(log_p + log_slope(t)) @ np.array([1, 4, 1]) * (t[:, 2] - t[:, 0]) / 6

    with np.errstate(over="ignore", invalid="ignore"):
        middle = (t[:-1] + t[1:]) / 2
        n = len(t) + len(middle)
        width = t[1:] - t[:-1]
        t, log_p = _triples(t, middle), _triples(log_p, log_prob(middle))
        area = simpson(t, log_p)
        trapezium = np.exp(log_p[:, [0, 2]] + log_slope(t[:, [0, 2]])).sum(1) * width / 2
        error = np.abs(area - trapezium)
        while error.sum() > tolerance and n < _MOST_NODES:
            order = np.argsort(-error)
            left_over = error.sum() - np.cumsum(error[order])
            worst = order[: min(int((left_over > tolerance / 2).sum()) + 1, (_MOST_NODES - n) // 2 + 1)]
            quarters = (t[worst][:, :2] + t[worst][:, 1:]) / 2
            log_p_quarters = log_prob(quarters.ravel()).reshape(-1, 2)
            n += quarters.size
            new_t, new_log_p = _halves(t[worst], quarters), _halves(log_p[worst], log_p_quarters)
            new_area = simpson(new_t, new_log_p)
            change = np.abs(new_area.reshape(2, -1).sum(0) - area[worst]) / 2
            t = np.concatenate([np.delete(t, worst, 0), new_t])
            log_p = np.concatenate([np.delete(log_p, worst, 0), new_log_p])
            area = np.concatenate([np.delete(area, worst), new_area])
            error = np.concatenate([np.delete(error, worst), change, change])
        weight = (t[:, [2]] - t[:, [0]]) / 6 * np.array([1, 4, 1])
        log_weight = np.log(np.maximum(weight, 1e-300)) + log_slope(t)
    return IntegralNodes(log_p.ravel(), log_weight.ravel(), float(error.sum()))


def _triples(ends: Floats, middle: Float64[np.ndarray, " n_minus_1"]) -> Float64[np.ndarray, "k 3"]:
    """Each interval's left end, middle and right end."""
    return np.stack([ends[:-1], middle, ends[1:]], 1)


def _halves(
    whole: Float64[np.ndarray, "k 3"], quarters: Float64[np.ndarray, "k 2"]
) -> Float64[np.ndarray, "two_k 3"]:
    """The triples of all left halves, then of all right halves."""
    left = np.stack([whole[:, 0], quarters[:, 0], whole[:, 1]], 1)
    return np.concatenate([left, np.stack([whole[:, 1], quarters[:, 1], whole[:, 2]], 1)])


def sample(
    log_prob: Callable[[Table], Floats],
    start: Float64[np.ndarray, " K"],
    scale: float | None,
    rng: np.random.Generator,
) -> IntegralNodes:
    """Draws of a vector from a proposal, whose mean weight is the total probability.

    The entries of the proposal are independent. Each is fitted to the log-density along that entry, with the
    others as they are: a parabola through nine values, and for levels 0..255 the log-density itself at both
    ends. If the entries of the density are independent as well, all weights are equal.

    Example:
        >>> def normal(x):
        ...     return -0.5 * (x**2).sum(1) - np.log(2 * np.pi)
        >>> nodes = sample(normal, np.zeros(2), 1.0, np.random.default_rng(0))
        >>> round(float(np.exp(nodes.log_prob + nodes.log_weight).sum()), 6)
        1.0
    """
    k = len(start)
    if scale is None:
        grid = np.tile(np.round(np.linspace(0, _LEVELS - 1, _STEPS)), (k, 1))
    else:
        grid = start[:, None] + scale * np.linspace(-2, 2, _STEPS)
    vectors = np.tile(start, (k * _STEPS, 1))
    vectors[np.arange(k * _STEPS), np.repeat(np.arange(k), _STEPS)] = grid.ravel()
    along = log_prob(vectors).reshape(k, _STEPS)
    draws, log_q = (_draw_levels if scale is None else _draw_normal)(grid, along, rng)
    log_p = log_prob(draws)
    log_weight = -log_q - np.log(N_SAMPLES)
    weight = np.exp(np.clip(log_p + log_weight, -700, 700))
    error = float(weight.std(ddof=1) * np.sqrt(N_SAMPLES))
    effective = float(weight.sum() ** 2 / (weight**2).sum()) if weight.sum() > 0 else 0.0
    if effective >= _FEWEST_EFFECTIVE:
        return IntegralNodes(log_p, log_weight, error)
    note = f"the entries depend on each other: only {effective:.0f} of {N_SAMPLES} draws are effective"
    return IntegralNodes(log_p, log_weight, error, note)


def _parabola(x: Floats, y: Floats) -> tuple[float, float]:
    """Mean and variance of the normal density nearest to the points; a wide one if they bend upwards."""
    second, first, _ = np.polyfit(x, y, 2, w=np.exp(np.clip((y - y.max()) / 100, -20, 0)))
    if second >= -1e-12:
        return float(x[len(x) // 2]), float(np.ptp(x)) ** 2
    return float(-first / (2 * second)), float(-1 / (2 * second))


def _draw_levels(
    grid: Float64[np.ndarray, "K s"], along: Float64[np.ndarray, "K s"], rng: np.random.Generator
) -> tuple[Table, Floats]:
    """Draws of levels 0..255, and their log-probability under the proposal."""
    draws, log_q = np.empty((N_SAMPLES, len(grid))), np.zeros(N_SAMPLES)
    level = np.arange(_LEVELS)
    for k, (x, y) in enumerate(zip(grid, along, strict=True)):
        mean, variance = _parabola(x[1:-1], y[1:-1])
        log_prob = -((level - mean) ** 2) / (2 * variance)
        log_prob += (y - np.interp(x, level, log_prob))[1:-1].mean()
        log_prob[[0, -1]] = y[[0, -1]]
        probability = np.exp(log_prob - log_prob.max())
        probability = (1 - _UNIFORM) * probability / probability.sum() + _UNIFORM / _LEVELS
        draws[:, k] = rng.choice(level, size=N_SAMPLES, p=probability / probability.sum())
        log_q += np.log(probability[draws[:, k].astype(int)])
    return draws, log_q


def _draw_normal(
    grid: Float64[np.ndarray, "K s"], along: Float64[np.ndarray, "K s"], rng: np.random.Generator
) -> tuple[Table, Floats]:
    """Draws of real numbers, and their log-density under the proposal."""
    mean, variance = np.array([_parabola(x, y) for x, y in zip(grid, along, strict=True)]).T
    scale, noise = np.sqrt(variance), rng.standard_normal((N_SAMPLES, len(grid)))
    log_q = -0.5 * (noise**2).sum(1) - np.log(scale).sum() - 0.5 * len(grid) * np.log(2 * np.pi)
    return mean + scale * noise, log_q
