"""Quasi-Newton ascent whose first guess of the curvature is the step of expectation maximisation."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import NumericalError
from maskevidence.core.support.progress import progress
from maskevidence.tables.gaussian.family import warn_not_converged

Point = Float64[np.ndarray, " n"]
_MEMORY = 20  # pairs of steps and changes of the gradient
_WINDOW = 20  # iterations whose common gain is compared with the tolerance
_MAX_HALVINGS = 25
_SUFFICIENT = 1e-4  # share of the gain that the gradient promises
_MIN_CURVATURE = 1e-12  # of a pair, relative to the lengths of step and change


class Evaluation(NamedTuple):
    """An objective at one point."""

    value: float  # to be made as large as possible; -inf where the point is not allowed
    gradient: Point  # shape (n,)
    # turns a gradient into a step by a symmetric, positive definite linear map; for the likelihood of
    # incomplete data, the step of EM
    metric: Callable[[Point], Point]


_Pair = tuple[Point, Point]  # a step, and the old minus the new gradient


def maximise(
    objective: Callable[[Point], Evaluation],
    start: Point,
    lower: Point,
    tolerance: float,
    max_iterations: int,
    check: Callable[[Point], None],
) -> tuple[Point, int]:
    """Maximise a smooth objective under lower bounds.

    Every iteration moves along an L-BFGS direction with `Evaluation.metric` in place of a multiple of the
    identity, and halves the step until the objective rises enough. Coordinates at their bound stay there as
    long as the gradient pushes against it.

    Args:
        tolerance: the ascent ends when 20 iterations raise the value by less, relative to the value (or to 1,
            if its size is smaller).
        max_iterations: the largest number of iterations; beyond it, a `ConvergenceWarning` says what the last
            ones gained.
        check: raises an error at a point from which the ascent would not end.

    Returns:
        The maximum, and the number of iterations.

    Source:
        Jamshidian and Jennrich (1997), Acceleration of the EM Algorithm by Using Quasi-Newton Methods;
        Nocedal and Wright (2006), Numerical Optimization, section 7.2.
    """
    check(start)
    point, now = start, objective(start)
    pairs: list[_Pair] = []
    if not math.isfinite(now.value):
        raise NumericalError(f"the fit starts from a log evidence of {now.value}; check the data's scale")
    values = [now.value]
    with progress("fit", max_iterations) as advance:
        for _ in range(max_iterations):
            moved = _move(objective, point, now, lower, pairs)
            if moved is None and pairs:
                pairs = []
                moved = _move(objective, point, now, lower, pairs)
            if moved is None:  # no larger value in floating point
                return point, len(values) - 1
            new, then = moved
            step, change = new - point, now.gradient - then.gradient
            if step @ change > _MIN_CURVATURE * math.sqrt(
                (step @ step) * (change @ change)
            ):  # curves downwards
                pairs = [*pairs, (step, change)][-_MEMORY:]
            point, now = new, then
            check(point)
            values.append(now.value)
            advance(1, None, min(max_iterations, _forecast(values, tolerance)))
            if len(values) > _WINDOW and _gain(values) < tolerance:
                return point, len(values) - 1
    warn_not_converged("the fit", max_iterations, _gain(values), tolerance)
    return point, max_iterations


def _direction(pairs: list[_Pair], gradient: Point, metric: Callable[[Point], Point]) -> Point:
    """The two-loop recursion of L-BFGS over the last steps and changes of the gradient."""
    rest, shares = gradient.copy(), []
    for step, change in reversed(pairs):
        shares.append(step @ rest / (step @ change))
        rest -= shares[-1] * change
    step_of_rest = metric(rest)
    for (step, change), share in zip(pairs, reversed(shares), strict=True):
        step_of_rest += step * (share - change @ step_of_rest / (step @ change))
    return step_of_rest


def _gain(values: list[float]) -> float:
    """The gain of the last iterations, relative to the value."""
    return (values[-1] - values[-1 - min(_WINDOW, len(values) - 1)]) / max(1.0, abs(values[-1]))


def _forecast(values: list[float], tolerance: float) -> int:
    """The iterations after which the ascent is likely to end: gains go on shrinking as they do."""
    n, gain = len(values) - 1, _gain(values)
    before = _gain(values[:-_WINDOW]) if n > 2 * _WINDOW else 0.0
    if not 0 < tolerance <= gain < before:
        return n + max(n, _WINDOW)
    return n + math.ceil(_WINDOW * math.log(tolerance / gain) / math.log(gain / before))


def _move(
    objective: Callable[[Point], Evaluation], point: Point, now: Evaluation, lower: Point, pairs: list[_Pair]
) -> tuple[Point, Evaluation] | None:
    """The next point, and the objective there; None if no step along the direction raises the objective."""
    free = (point > lower) | (now.gradient > 0)
    gradient = np.where(free, now.gradient, 0.0)
    direction = np.where(free, _direction(pairs, gradient, now.metric), 0.0)
    length = 1.0
    for _ in range(_MAX_HALVINGS):
        new = np.maximum(point + length * direction, lower)
        promised = gradient @ (new - point)
        if not promised > 0:
            return None
        then = objective(new)
        if then.value >= now.value + _SUFFICIENT * promised:
            return new, then
        length /= 2
    return None
