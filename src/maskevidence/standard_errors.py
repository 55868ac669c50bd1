"""Standard errors of masked scores: Monte-Carlo error of the masks and sampling error of the observations.

Let e_i = Σ_k contribution_ik be observation i's estimate, ē their mean over n observations. Within a stratum
the R replicates are independent and equally distributed, and strata are independent, so that the variance of
a stratum's mean is estimated by s²/R, s² the sample variance of its replicate totals.

- Own masks: every (observation, stratum) is a stratum; mask_se² = (1/n²) Σ s²/R.
- Shared or pooled masks: all observations move together; their mean is taken first, then mask_se² = Σ s²/R.
- Degrees of freedom by Welch and Satterthwaite: (Σ v)² / Σ v²/(R - 1), v = s²/R. They are too low on average,
  as E s⁴ = σ⁴ (1 + 2/(R - 1)) for normal scores. But scores have heavier tails, for which the corrected
  (R + 1) (Σ v)²/Σ v² - 2 makes intervals too narrow (both are measured in benchmarks/coverage.py).
- data_se: with v̄ the mean mask variance of a single e_i and c the mean covariance of two of them,
  Var(ē | data) = v̄/n + (1 - 1/n)·c and E s²(e) = σ² + v̄ - c, so data_se² = max(0, (s²(e) - v̄ + c)/n).
  With own masks c = 0 and this is s²(e)/n - mask_se².
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

Floats = Float64[np.ndarray, " n_masks"]
Integers = Int64[np.ndarray, " n_masks"]


class MeanWithErrors(NamedTuple):
    """A mean over observations and its two standard errors; an error is None where it cannot be known.

    Attributes:
        mean: the estimate.
        mask_se: Monte-Carlo standard error of the masks, given the observations.
        mask_df: its degrees of freedom; infinite without Monte-Carlo error.
        data_se: sampling standard error of the observations; if mask_se is None, it includes the error of
            own masks (shared masks move all observations together, which it cannot show).
    """

    mean: float
    mask_se: float | None
    mask_df: float | None
    data_se: float | None


def mean_with_errors(
    contribution: Floats,
    observation: Integers,
    stratum: Integers,
    replicate: Integers,
    n_replicates: int,
    *,
    joint: bool,
    deterministic: bool = False,
    min_replicates: int = 2,
) -> MeanWithErrors:
    """The mean over observations of Σ contribution, with both standard errors (formulas above).

    Args:
        contribution: shape (n_masks,); what each mask adds to its observation's estimate.
        observation: shape (n_masks,); 0..n-1.
        stratum: shape (n_masks,); any whole numbers >= 0.
        replicate: shape (n_masks,); 0..R-1.
        n_replicates: R.
        joint: True if the masks of different observations are drawn together (shared or pooled).
        deterministic: True if there is no Monte-Carlo error.
        min_replicates: the number of replicates below which mask_se is None.

    Example:
        >>> import numpy as np
        >>> zero = np.zeros(4, dtype=np.int64)
        >>> mean_with_errors(np.array([1.0, 2.0, 1.0, 3.0]) / 2, np.array([0, 0, 1, 1]), zero,
        ...                  np.array([0, 1, 0, 1]), 2, joint=False)[:2]
        (1.75, 0.5590169943749475)
    """
    n = int(observation.max()) + 1
    estimates = np.bincount(observation, weights=contribution, minlength=n)
    mean = float(estimates.mean())
    spread = float(estimates.var(ddof=1)) if n > 1 else None
    if deterministic:
        return MeanWithErrors(mean, 0.0, math.inf, None if spread is None else math.sqrt(spread / n))
    if n_replicates < min_replicates:
        return MeanWithErrors(mean, None, None, None if spread is None else math.sqrt(spread / n))

    own = cell_variances(contribution, observation * (stratum.max() + 1) + stratum, replicate, n_replicates)
    single = float(own.sum()) / n  # v̄
    parts = cell_variances(contribution, stratum, replicate, n_replicates) / n**2 if joint else own / n**2
    mask_variance = float(parts.sum())
    if mask_variance > 0:
        mask_df = mask_variance**2 / float((parts**2).sum()) * (n_replicates - 1)
    else:
        mask_df = math.inf
    if spread is None:
        return MeanWithErrors(mean, math.sqrt(mask_variance), mask_df, None)
    covariance = (mask_variance - single / n) / (1 - 1 / n)
    data_variance = max(0.0, (spread - single + covariance) / n)
    return MeanWithErrors(mean, math.sqrt(mask_variance), mask_df, math.sqrt(data_variance))


def cell_variances(
    contribution: Floats, cell: Integers, replicate: Integers, n_replicates: int
) -> Float64[np.ndarray, " n_cells"]:
    """Variance of each cell's sum of contributions: R times the sample variance of its replicates' sums."""
    _, dense = np.unique(cell, return_inverse=True)
    n_cells = int(dense.max()) + 1
    totals = np.bincount(
        dense * n_replicates + replicate, weights=contribution, minlength=n_cells * n_replicates
    )
    return totals.reshape(n_cells, n_replicates).var(axis=1, ddof=1) * n_replicates


def student_t_quantile(probability: float, df: float) -> float:
    """The quantile of Student's t distribution; that of the normal distribution for infinite df.

    Args:
        probability: in (0, 1).
        df: degrees of freedom, above 0.

    Example:
        >>> round(student_t_quantile(0.975, 3), 4), round(student_t_quantile(0.975, math.inf), 4)
        (3.1824, 1.96)
    """
    from scipy import special

    return float(special.ndtri(probability) if math.isinf(df) else special.stdtrit(df, probability))


def t_half_width(standard_error: float, df: float, level: float) -> float:
    """Half the width of the two-sided interval at `level`, in the unit of the standard error.

    Example:
        >>> round(t_half_width(1.0, 3, 0.95), 4)
        3.1824
    """
    return standard_error * student_t_quantile(0.5 + level / 2, df) if standard_error else 0.0
