"""Statistics of the study: how well a criterion ranks models, what choosing by it costs, and intervals."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.evidence.standard_errors import student_t_quantile

DRAWS = 4000
FEWEST_MODELS = 3  # to be ranked
Floats = Float64[np.ndarray, " n"]


def ranks(values: Floats) -> Floats:
    """The ranks 1..n, with the mean rank for values that are equal.

    Example:
        >>> ranks(np.array([5.0, 1.0, 5.0])).tolist()
        [2.5, 1.0, 2.5]
    """
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(count) - (count - 1) / 2)[place]


def rank_correlation(criterion: Floats, target: Floats) -> float:
    """Spearman's correlation, that of the ranks.

    It is NaN for fewer than 3 models, or if the criterion or the target is constant.

    Example:
        >>> rank_correlation(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0, 9.0]))
        0.5
    """
    if len(criterion) < FEWEST_MODELS:
        return math.nan
    x, y = (ranks(values) - (len(values) + 1) / 2 for values in (criterion, target))
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size else math.nan


def regret(criterion: Floats, target: Floats) -> float:
    """The best target minus that of the model with the largest criterion, the first one of several such.

    It is NaN for fewer than 3 models, which leave no choice.

    Example:
        >>> regret(np.array([1.0, 3.0, 2.0]), np.array([0.9, 0.7, 0.8])).__round__(12)
        0.2
    """
    return float(target.max() - target[criterion.argmax()]) if len(target) >= FEWEST_MODELS else math.nan


class Mean(NamedTuple):
    """A mean over units.

    Attributes:
        value: the mean.
        low: the lower end of its 95 % interval; NaN if there are too few units.
        high: the upper end.
        n_units: the number of units on the highest level that is drawn.
    """

    value: float
    low: float
    high: float
    n_units: int


def hierarchical_mean(groups: Mapping[str, Sequence[float]], *, fixed: bool = False, seed: int = 0) -> Mean:
    """The mean over groups of the means of their units, with an interval from the hierarchical bootstrap.

    Groups are drawn with replacement, then the units within each drawn group. Since n units drawn from n
    vary by (n - 1)/n of their variance, that of the draws is multiplied by n/(n - 1); the interval is
    Student's t with n - 1 degrees of freedom, n being the number of groups. If the groups are fixed, only
    units are drawn: n is then their number in a group, and the degrees of freedom are those of all groups. A
    single group is fixed. Units without a value are left out, and so are groups without one.

    Args:
        groups: the values of the units, by group; NaN for a unit without one.
        fixed: whether the groups are all there are.
        seed: of the draws.

    Source:
        Davison and Hinkley (1997), Bootstrap Methods and their Application, Section 3.8, on nested data.

    Example:
        >>> mean = hierarchical_mean({"a": [1.0, 2.0, 3.0]})
        >>> mean.value, mean.n_units, -1 < mean.low < 0 < 4 < mean.high < 5
        (2.0, 3, True)
    """
    known = [np.array([x for x in values if not math.isnan(x)]) for values in groups.values()]
    known = [values for values in known if len(values)]
    if not known:
        return Mean(math.nan, math.nan, math.nan, 0)
    fixed = fixed or len(known) == 1
    value = float(np.mean([values.mean() for values in known]))
    rng, n, sizes = np.random.default_rng(seed), len(known), np.array([len(values) for values in known])
    if fixed and sizes.min() < 2:
        return Mean(value, math.nan, math.nan, int(sizes.sum()))
    if fixed:
        drawn = _means_of_draws(known, np.broadcast_to(np.arange(n), (DRAWS, n)), rng)
        variance = float((sizes / (sizes - 1) * drawn.var(0)).sum()) / n**2
        df, n_units = int((sizes - 1).sum()), int(sizes.sum())
    else:
        drawn = _means_of_draws(known, rng.integers(0, n, (DRAWS, n)), rng)
        variance, df, n_units = n / (n - 1) * float(drawn.mean(1).var()), n - 1, n
    half = student_t_quantile(0.975, df) * math.sqrt(variance)
    return Mean(value, value - half, value + half, n_units)


def _means_of_draws(
    groups: Sequence[Floats], chosen: Int64[np.ndarray, "draws n"], rng: np.random.Generator
) -> Float64[np.ndarray, "draws n"]:
    """The means of units of the chosen groups, as many as each has, drawn with replacement."""
    sizes = np.array([len(values) for values in groups])[chosen][:, :, None]
    widest = max(map(len, groups))
    padded = np.stack([np.pad(values, (0, widest - len(values))) for values in groups])
    place = (rng.random((*chosen.shape, widest)) * sizes).astype(np.int64)
    drawn = np.where(np.arange(widest) < sizes, padded[chosen[:, :, None], place], 0.0)
    return drawn.sum(2) / sizes[:, :, 0]
