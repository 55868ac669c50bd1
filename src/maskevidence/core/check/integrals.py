"""Adaptive quadrature of a density over the real line or a range."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float64

FloatVector = Float64[np.ndarray, " n"]
More = Float64[np.ndarray, " m"]
Density = Callable[[FloatVector], FloatVector]

_BEYOND = 100.0 ** np.arange(-4, 7)  # extra nodes on both sides, in ranges of the points
_MOST_MODES, _ROUNDS = 16, 50
_MOST_NODES = 8192
# Lobatto's rule with 4 nodes and its Kronrod extension to 7 (Gander and Gautschi, Adaptive quadrature
# revisited, BIT 40, 2000, p. 84). Both have nodes at the ends, so a narrow mode at an end is found.
_NODE = np.array([-1, -np.sqrt(2 / 3), -np.sqrt(1 / 5), 0, np.sqrt(1 / 5), np.sqrt(2 / 3), 1])
_WEIGHT = np.array([77, 432, 625, 672, 625, 432, 77]) / 1470
_LOBATTO = np.array([1, 0, 5, 0, 5, 0, 1]) / 6

_Nodes = Float64[np.ndarray, " nodes"]
# The log-density at the nodes, the log weight of each node, the estimated error summed over the intervals,
# and the end towards which the density grows without bound; None if it does not.
Integral = tuple[_Nodes, _Nodes, float, float | None]


def integrate(log_prob: Density, points: FloatVector, tolerance: float, *, line: bool = True) -> Integral:
    """Integrate exp(log_prob) by halving intervals until the error is below the tolerance.

    Intervals end at the given points and at the modes, so that a mode of any width is seen if a point lies in
    it, or if the log-density rises towards it. They reach 10¹² widths beyond the points: tails may be heavy.

    Args:
        log_prob: the log-density of any number of values.
        points: starting nodes in rising order.
        tolerance: the tolerance of the whole integral.
        line: whether to integrate over the real line; otherwise from the first to the last point.

    Example:
        >>> def two_narrow_modes(x):
        ...     return -0.5 * ((np.abs(x) - 5) / 1e-4) ** 2 - np.log(2e-4 * np.sqrt(2 * np.pi))
        >>> log_prob, log_weight, *_ = integrate(two_narrow_modes, np.array([-5.0001, 4.9999]), 1e-6)
        >>> bool(abs(np.exp(log_prob + log_weight).sum() - 1) < 1e-5)
        True
    """
    if line:
        beyond = max(points[-1] - points[0], 1e-3 * abs(points[-1]), 1e-6) * _BEYOND
        points = np.concatenate([points[0] - beyond[::-1], points, points[-1] + beyond])
    x, log_p = _with_modes(log_prob, points, log_prob(points))
    grows = float(x[log_p.argmax()]) if line and log_p.argmax() in (0, len(x) - 1) else None
    low, high, error, n, kept = x[:-1], x[1:], 0.0, 0, []
    while len(low):
        nodes = ((low + high)[:, None] + (high - low)[:, None] * _NODE) / 2
        log_p, half = log_prob(nodes.ravel()).reshape(nodes.shape), (high - low) / 2
        with np.errstate(over="ignore", invalid="ignore"):
            errors = half * np.abs(np.exp(log_p) @ (_WEIGHT - _LOBATTO))
        n += nodes.size
        halved = (errors > tolerance / len(x)) & (n < _MOST_NODES) & (grows is None)
        kept.append((log_p[~halved], np.log(half[~halved, None] * _WEIGHT)))
        error += float(errors[~halved].sum())
        middle = (low + high)[halved] / 2
        low, high = np.append(low[halved], middle), np.append(middle, high[halved])
    log_p, log_weight = (np.concatenate(part).ravel() for part in zip(*kept, strict=True))
    return log_p, log_weight, error, grows


def _with_modes(log_prob: Density, x: FloatVector, log_p: FloatVector) -> tuple[More, More]:
    """Add nodes next to each local maximum until its neighbours are at least half as high."""
    for _ in range(_ROUNDS):
        inner = np.arange(1, len(x) - 1)
        inner = inner[(log_p[inner] > log_p[inner - 1]) & (log_p[inner] >= log_p[inner + 1])]
        inner = inner[np.argsort(-log_p[inner])[:_MOST_MODES]]
        inner = inner[log_p[inner] - np.minimum(log_p[inner - 1], log_p[inner + 1]) > np.log(2)]
        new = np.setdiff1d(np.append(x[inner] + x[inner - 1], x[inner] + x[inner + 1]) / 2, x)
        if len(new) == 0:
            break
        order = np.append(x, new).argsort()
        x, log_p = np.append(x, new)[order], np.append(log_p, log_prob(new))[order]
    return x, log_p
