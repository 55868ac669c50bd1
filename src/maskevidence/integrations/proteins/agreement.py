"""Spearman's rank correlation, and its bootstrap interval over mutants."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import InputError

_Floats = Float64[np.ndarray, " N"]
RESAMPLES = 1000
MIN_PAIRS = 3


class Correlation(NamedTuple):
    """Spearman's rank correlation with its interval."""

    value: float  # the correlation
    low: float  # the lower end of its interval
    high: float  # the upper end
    n: int  # how many mutants have both numbers


def spearman(a: _Floats, b: _Floats) -> float:
    """Spearman's rank correlation, the correlation of the ranks; ties get the mean of their ranks.

    Pairs with a NaN are left out. The answer is NaN if all values of `a` or all values of `b` are equal.

    Example:
        >>> round(spearman(np.array([1.0, 2.0, 3.0, np.nan]), np.array([5.0, 9.0, 8.0, 1.0])), 4)
        0.5
    """
    from scipy.stats import rankdata

    both = ~(np.isnan(a) | np.isnan(b))
    x, y = (rankdata(values[both]) for values in (a, b))
    x, y = x - x.mean() if len(x) else x, y - y.mean() if len(y) else y
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale else float("nan")


def spearman_interval(a: _Floats, b: _Floats, seed: int = 0) -> Correlation:
    """Spearman's rank correlation with a 95 % percentile interval of the bootstrap over pairs.

    Source:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, Section 13.3.

    Example:
        >>> x = np.arange(40.0)
        >>> value, low, high, n = spearman_interval(x, x**2 - 5 * x)
        >>> 0.9 < low < value < high <= 1, n
        (True, 40)
    """
    both = ~(np.isnan(a) | np.isnan(b))
    n = int(both.sum())
    if n < MIN_PAIRS:
        raise InputError(f"{n} mutants have both numbers; a rank correlation needs {MIN_PAIRS} or more")
    a, b = a[both], b[both]
    if np.isnan(spearman(a, b)):
        raise InputError(f"of the {n} mutants with both numbers, one of the two is always the same")
    rng = np.random.default_rng(seed)
    resampled = [spearman(a[rows], b[rows]) for rows in (rng.integers(n, size=n) for _ in range(RESAMPLES))]
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return Correlation(spearman(a, b), float(low), float(high), n)
