"""Bounds on the evidence of the order mixture of learned conditionals, and the spread over orders.

For an order σ, p_σ(x) is the chain rule along it. `Orderings(n, bound="importance")` records log p_σ(x) for n
random orders of each observation. The evidence of the order mixture, p(x) = E_σ p_σ(x), is bounded by

- the area E_σ log p_σ(x), from below;
- L_n = E log (1/n) Σ_k p_σk(x), also from below: L_1 is the area, and L_n rises with n to log p(x);
- log ψ + p(x)/ψ - 1 for any ψ > 0, from above: the tangent of the logarithm at ψ. With ψ from other orders
  and p_σ(x) in place of p(x), the expectation is an upper bound, the tighter the closer ψ is to p(x).
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Integer

from maskevidence.core.evidence.conditional_gains import corrected_scores
from maskevidence.core.evidence.standard_errors import equal_by_chance, t_half_width
from maskevidence.core.masks.design import Indices, MaskDesign, Masks, PerMask
from maskevidence.core.masks.orders import LogSizes, Orderings
from maskevidence.core.masks.sizes import Exhaustive
from maskevidence.core.scores.record import ScoreTable

FEWEST_FOR_UPPER = 16  # fewest orders for an upper bound; with fewer it fails too often
MAX_RELATIVE_ERROR = 0.25  # of the mean of p_σ over orders; above it, no upper bound is given
_PERMUTATIONS = 32  # permutations of the orders behind the curve of the bound


@dataclass(frozen=True)
class Bracket:
    """Lower and upper bounds on the evidence of the order mixture, nats per observation.

    Attributes:
        n_orders: the number of random orders; 0 if the mixture is exact.
        area: the mean of log p_σ(x) over the orders, the area under the curve; a lower bound.
        area_se: its standard error, of the orders; None if it is not known.
        lower: the importance bound for all orders; a lower bound that is never below the area on average.
        lower_se: its standard error.
        upper: the upper bound; None if it cannot be used. Single observations have none: a few orders that
            were not drawn may hold most of their mean of p_σ.
        upper_se: its standard error.
        mixture: the log evidence of the order mixture; None unless it is exact.
        no_upper: the reason for a missing upper bound; None if the bound exists.
        n_averaged: shape (m,); 1, 2, 4, ... and n_orders.
        curve: shape (m,); L_n for each of these n, from the same orders (U-statistics).
        curve_se: shape (m,); their standard errors; NaN where they are not known.
        low: shape (N,); for each observation, the lower bound minus its error at 95 %.
    """

    n_orders: int
    area: float
    area_se: float | None
    lower: float
    lower_se: float | None
    upper: float | None
    upper_se: float | None
    mixture: float | None
    no_upper: str | None
    n_averaged: Integer[np.ndarray, " m"]
    curve: Float64[np.ndarray, " m"]
    curve_se: Float64[np.ndarray, " m"]
    low: Float64[np.ndarray, " N"]

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values, without the numbers of single observations."""
        names = "n_orders area area_se lower lower_se upper upper_se mixture no_upper"
        points = zip(self.n_averaged.tolist(), self.curve.tolist(), self.curve_se.tolist(), strict=True)
        curve = [
            {"orders": n, "bound": bound, "se": None if math.isnan(se) else se} for n, bound, se in points
        ]
        return {name: getattr(self, name) for name in names.split()} | {"curve": curve}


@dataclass(frozen=True)
class OrderSpread:
    """The variation of log p_σ(x) over orders σ, within and between observations.

    Conditionals of one joint density have no spread over orders: it measures how far from a joint learned
    conditionals are, at each observation.

    Attributes:
        per_observation: shape (N,); the standard deviation of log p_σ(x) over orders, nats.
        within: the mean over observations of the variance over orders, nats².
        between: the variance over observations of E_σ log p_σ(x), nats², without the part that random orders
            add; None for a single observation.
        share_within: within / (within + between); None for a single observation.
    """

    per_observation: Float64[np.ndarray, " N"]
    within: float
    between: float | None
    share_within: float | None

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values, without the numbers of single observations."""
        return {name: getattr(self, name) for name in ("within", "between", "share_within")}


def linear_scores(table: ScoreTable, design: MaskDesign) -> PerMask:
    """Return scores whose weighted sum estimates an observation and whose spread over draws gives its error.

    For the area and for policies these are the scores themselves. For the order mixture, all masks of an
    observation have the same number; for the importance bound, all masks of an order do (`lower_bounds`).
    The masks of `LogSizes` get the gains within their blocks.
    """
    if isinstance(design, Exhaustive) and table.log_mixture is not None:
        mixture, observation = _exact_mixture(table, design)
        return (mixture / _n_tokens(table))[observation]
    if isinstance(design, Orderings) and design.bound == "importance":
        logs, observation = log_probs_of_orders(table, design)
        return (lower_bounds(logs) / _n_tokens(table)[:, None])[observation, table.draw]
    return corrected_scores(table, design) if isinstance(design, LogSizes) else table.score


def bracket(table: ScoreTable, design: MaskDesign, masks: Masks) -> Bracket | None:
    """Compute the bounds from a record; None if the design records neither orders nor the mixture.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.Gaussian(n_features=3)
        >>> estimate = me.estimate_evidence(model, [[0.0, 1.0, 2.0]], me.Exhaustive(order_mixture=True))
        >>> estimate.bracket.lower == estimate.bracket.mixture == estimate.bracket.upper
        True
    """
    if isinstance(design, Exhaustive) and design.order_mixture:
        mixture, _ = _exact_mixture(table, design)
        weight = design.summation(table.n_tokens, table.draw, table.size).weight
        area, value = float((weight * table.score).sum()) / len(mixture), float(mixture.mean())
        empty = np.zeros(0)
        none = np.zeros(0, dtype=np.int64)
        return Bracket(0, area, 0.0, value, 0.0, value, 0.0, value, None, none, empty, empty, mixture)
    if not isinstance(design, Orderings) or design.bound != "importance" or design.orders < 2:
        return None
    logs, _ = log_probs_of_orders(table, design)
    lowers, no_upper = lower_bounds(logs), _why_no_upper(logs)
    of_area, of_lower = _with_error(logs, masks), _with_error(lowers, masks)
    of_upper: tuple[float | None, float | None] = (None, None)
    if no_upper is None:
        of_upper = _with_error(upper_bounds(logs), masks)
    points = _curve(logs, masks)
    points[2][-1] = math.nan if of_lower[1] is None else of_lower[1]
    half = t_half_width(1.0, design.orders - 1, 0.95)
    low = lowers.mean(1) - half * lowers.std(axis=1, ddof=1) / math.sqrt(design.orders)
    return Bracket(design.orders, *of_area, *of_lower, *of_upper, None, no_upper, *points, low)


def order_spread(table: ScoreTable, design: MaskDesign) -> OrderSpread | None:
    """Compute the spread of log p_σ(x) over random orders; None without two or more recorded orders."""
    if not isinstance(design, Orderings) or design.bound != "importance" or design.orders < 2:
        return None
    logs, _ = log_probs_of_orders(table, design)
    variance = logs.var(axis=1, ddof=1)
    within, between, share = float(variance.mean()), None, None
    if len(logs) > 1:
        between = max(0.0, float(logs.mean(1).var(ddof=1)) - within / design.orders)
        total = within + between
        share = within / total if total else None
    return OrderSpread(np.sqrt(variance), within, between, share)


def log_probs_of_orders(
    table: ScoreTable, design: Orderings
) -> tuple[Float64[np.ndarray, "N n_orders"], Indices]:
    """log p_σ(x) of each observation and order, shape (N, n), and the observation of each mask, 0..N-1."""
    ids, observation = np.unique(table.id, return_inverse=True)
    shape = (len(ids), design.orders)
    flat = observation * design.orders + table.draw
    return np.bincount(flat, weights=table.score, minlength=math.prod(shape)).reshape(shape), observation


def _exact_mixture(table: ScoreTable, design: Exhaustive) -> tuple[Float64[np.ndarray, " N"], Indices]:
    """The log mixture of each observation, and the observation of each mask, 0..N-1."""
    assert table.log_mixture is not None
    _, observation = np.unique(table.id, return_inverse=True)
    _, subset, of_block = design.subset(table.n_tokens, table.draw)
    whole = np.bitwise_count(subset) == of_block
    return np.bincount(observation, weights=np.where(whole, table.log_mixture, 0.0)), observation


def _n_tokens(table: ScoreTable) -> Integer[np.ndarray, " N"]:
    _, first = np.unique(table.id, return_index=True)
    return table.n_tokens[first]


def _log_mean_exp(logs: Float64[np.ndarray, "N n_orders"]) -> Float64[np.ndarray, " N"]:
    largest = logs.max(1, keepdims=True)
    return largest[:, 0] + np.log(np.exp(logs - largest).mean(1))


def _log_means_of_others(logs: Float64[np.ndarray, "N n_orders"]) -> Float64[np.ndarray, "N n_orders"]:
    """For each order, the log of the mean of p_σ over the other orders."""
    before = np.logaddexp.accumulate(logs, axis=1)[:, :-1]
    after = np.logaddexp.accumulate(logs[:, ::-1], axis=1)[:, ::-1][:, 1:]
    edge = np.full((len(logs), 1), -math.inf)
    others = np.logaddexp(np.hstack([edge, before]), np.hstack([after, edge]))
    return others - math.log(logs.shape[1] - 1)


def upper_bounds(logs: Float64[np.ndarray, "N n_orders"]) -> Float64[np.ndarray, "N n_orders"]:
    """For each order, log ψ + p_σ/ψ - 1 with ψ the mean of the other orders: upper bounds in expectation.

    Their mean hardly depends on ψ where ψ is close to p, so that they spread over orders as p_σ/ψ does, and
    their standard deviation over √n is the error of the mean.
    """
    log_psi = _log_means_of_others(logs)
    with np.errstate(over="ignore"):
        return log_psi + np.exp(logs - log_psi) - 1.0


def lower_bounds(logs: Float64[np.ndarray, "N n_orders"]) -> Float64[np.ndarray, "N n_orders"]:
    """One number per order. Their mean is the importance bound; their spread gives its standard error.

    They are the pseudo-values of the jackknife, shifted so that their mean is the bound.
    """
    n = logs.shape[1]
    value = _log_mean_exp(logs)[:, None]
    if n < 3:
        return np.repeat(value, n, axis=1)
    without = _log_means_of_others(logs)
    return value - (n - 1) * (without - without.mean(1, keepdims=True))


def _with_error(values: Float64[np.ndarray, "N n_orders"], masks: Masks) -> tuple[float, float | None]:
    """The mean over orders and observations, and its standard error.

    With shared masks all observations have the same orders, and it comes from the spread of their means.
    """
    n_rows, n = values.shape
    mean = float(values.mean())
    if masks == "own":
        variance = float(values.var(axis=1, ddof=1).sum()) / n / n_rows**2
    else:
        variance = float(values.mean(0).var(ddof=1)) / n
    return mean, None if equal_by_chance(variance, mean) else math.sqrt(variance)


def _relative_error(logs: Float64[np.ndarray, "N n_orders"]) -> Float64[np.ndarray, " N"]:
    """The relative standard error of the mean of p_σ over orders, for each observation.

    It is the larger of the error that the p_σ show and √((exp s² - 1)/n), the error for normal log p_σ: a few
    orders seldom include those that dominate the mean of very different p_σ.
    """
    n = logs.shape[1]
    p = np.exp(logs - logs.max(1, keepdims=True))
    seen = p.std(axis=1, ddof=1) / p.mean(1)
    normal = np.sqrt(np.expm1(np.minimum(logs.var(axis=1, ddof=1), 100.0)))
    return np.maximum(seen, normal) / math.sqrt(n)


def _why_no_upper(logs: Float64[np.ndarray, "N n_orders"]) -> str | None:
    """Why these orders give no upper bound; None if they give a bound."""
    if logs.shape[1] < FEWEST_FOR_UPPER:
        return f"{logs.shape[1]} orders are too few for a mean of p; give {FEWEST_FOR_UPPER} or more"
    usable = _relative_error(logs) <= MAX_RELATIVE_ERROR
    if usable.all():
        return None
    spread = logs.std(axis=1, ddof=1)[~usable].max()
    return (
        f"in {(~usable).sum():,} of {len(usable):,} observations log p varies too much over orders for a "
        f"mean of p (standard deviation up to {spread:.2g} nats); give more orders, or enumerate the masks"
    )


def _curve(
    logs: Float64[np.ndarray, "N n_orders"], masks: Masks
) -> tuple[Integer[np.ndarray, " m"], Float64[np.ndarray, " m"], Float64[np.ndarray, " m"]]:
    """L_n for n = 1, 2, 4, ... and all orders, averaged over permutations split into disjoint sets.

    The value of a union of two sets is never below the mean of theirs, so that the curve rises at each
    doubling. The error is computed from the sets of one permutation, which are independent; the mean over
    permutations varies less.
    """
    n = logs.shape[1]
    sizes = np.unique([*(2**k for k in range(int(math.log2(n)) + 1)), n])
    rng = np.random.default_rng(0)
    values, variances = np.zeros(len(sizes)), np.zeros(len(sizes))
    for _ in range(_PERMUTATIONS):
        shuffled = logs[:, rng.permutation(n)]
        for k, size in enumerate(sizes):
            n_sets = n // size
            sets = shuffled[:, : n_sets * size].reshape(-1, size)
            means = _log_mean_exp(sets).reshape(len(logs), n_sets)
            values[k] += means.mean() / _PERMUTATIONS
            _, error = _with_error(means, masks) if n_sets > 1 else (0.0, None)
            variances[k] += (math.nan if error is None else error**2) / _PERMUTATIONS
    return sizes, values, np.sqrt(variances)
