"""Mean and covariance of rows with missing values, with the correlations shrunk towards 0."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.support.progress import progress
from maskevidence.tables.gaussian.family import DataRows, Matrix, Vector
from maskevidence.tables.gaussian.precision import DensePrecision, Precision, ThinPrecision

_Holes = list[tuple[Int64[np.ndarray, " b"], Int64[np.ndarray, "b m"]]]


class Span(NamedTuple):
    """Σ = diag(s) ((1 - λ) XᵀX / N + λ I) diag(s) of N complete rows, fewer than columns."""

    rows: Float64[np.ndarray, "N D"]  # X, about their mean
    scale: Float64[np.ndarray, " D"]  # s
    shrinkage: float  # λ

    def covariance(self) -> Float64[np.ndarray, "D D"]:
        """Σ."""
        second = self.rows.T @ self.rows / len(self.rows)
        return _shrunk(second, self.shrinkage) * np.outer(self.scale, self.scale)

    def precision(self) -> ThinPrecision:
        """Σ⁻¹."""
        rows = np.sqrt((1.0 - self.shrinkage) / len(self.rows)) * self.rows
        return ThinPrecision.of(rows, self.scale, self.shrinkage)


@dataclass(frozen=True)
class ShrunkFit:
    """What `fit_shrunk` finds."""

    mean: Float64[np.ndarray, " D"]
    spread: Float64[np.ndarray, "D D"] | Span
    filled: Float64[np.ndarray, "N D"]  # the rows, with the conditional means of their missing values
    n_iterations: int  # of EM; 1 if no value is missing

    @property
    def covariance(self) -> Float64[np.ndarray, "D D"]:
        """The covariance Σ; with fewer complete rows than columns, it is computed on first use."""
        return self.spread.covariance() if isinstance(self.spread, Span) else self.spread

    def precision(self) -> Precision:
        """Σ⁻¹, in the span of the rows if there are fewer complete ones than columns."""
        if isinstance(self.spread, Span):
            return self.spread.precision()
        return DensePrecision.of(torch.linalg.cholesky(torch.from_numpy(self.spread)))


def fit_shrunk(
    table: DataRows,
    shrinkage: float,
    tolerance: float = 1e-3,
    max_iterations: int = 1000,
    start: ShrunkFit | None = None,
) -> ShrunkFit:
    """The mode of mean and covariance under a prior that shrinks correlations, by EM.

    With S the expected second moments about the mean, an iteration gives Σ = (1 - λ) S + λ diag(s²), s² the
    variances of the observed values: the M-step under an inverse-Wishart prior that counts as much as
    λ N / (1 - λ) rows of uncorrelated columns. It is the likelihood's own step for λ = 0, and keeps Σ
    positive definite for λ > 0. The E-step needs only the blocks of the precision Λ = Σ⁻¹ of the missing
    values H: x_H has the conditional mean μ_H - Λ_HH⁻¹ Λ_HR (x_R - μ_R) and covariance Λ_HH⁻¹.

    Args:
        table: shape (N, D), NaN where a value is missing. A column that does not vary, or has no value, gets
            the prior's variance of 1.
        tolerance: EM ends when no entry of the covariance, in units of the columns, changes by more.

    Source:
        Little and Rubin (2002), Statistical Analysis with Missing Data, section 11.2; Schafer (1997),
        Analysis of Incomplete Multivariate Data, section 5.2.

    Example:
        >>> x = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, np.nan]])
        >>> fit_shrunk(x[:3], 0.5).covariance.round(3).tolist()
        [[0.667, 0.333], [0.333, 0.667]]
        >>> fit_shrunk(x, 1e-6, tolerance=1e-9).filled[3].round(2).tolist()
        [3.0, 3.0]
    """
    missing = np.isnan(table)
    shift, scale = _units(table, missing)
    x = np.where(missing, 0.0, (table - shift) / scale)
    groups = _holes(missing)
    width = table.shape[1]
    mean, covariance = np.zeros(width), np.eye(width)
    if start is not None:
        mean, covariance = (start.mean - shift) / scale, start.covariance / np.outer(scale, scale)
    if not groups and len(x) < width:
        mean = x.mean(0)
        return ShrunkFit(mean * scale + shift, Span(x - mean, scale, shrinkage), table, 1)
    n_iterations, change = 0, np.inf
    with progress("EM", 1) as advance:
        while change > tolerance and n_iterations < max_iterations:
            filled, spread = _expected(x, mean, covariance, groups)
            mean = filled.mean(0)
            second = ((filled - mean).T @ (filled - mean) + spread) / len(x)
            new, before = _shrunk(second, shrinkage), change
            change, covariance = float(np.abs(new - covariance).max()) if groups else 0.0, new
            n_iterations += 1
            advance(1, None, n_iterations + _more_steps(before, change, tolerance))
    filled, _ = _expected(x, mean, covariance, groups)
    return ShrunkFit(
        mean * scale + shift,
        covariance * np.outer(scale, scale),
        np.where(missing, filled * scale + shift, table),
        n_iterations,
    )


def _more_steps(before: float, change: float, tolerance: float) -> int:
    """The number of further steps, if changes keep shrinking at the rate of the last two."""
    if not 0 < tolerance < change < before < np.inf:
        return int(change > tolerance)
    return int(np.ceil(np.log(change / tolerance) / np.log(before / change)))


def _shrunk(second: Float64[np.ndarray, "D D"], shrinkage: float) -> Float64[np.ndarray, "D D"]:
    """(1 - λ) S + λ I."""
    return (1.0 - shrinkage) * second + shrinkage * np.eye(len(second))


def log_evidence_under(fitted: ShrunkFit, table: DataRows) -> float:
    """The total log evidence of rows under N(mean, covariance), nats; a missing value is integrated out.

    Example:
        >>> fitted = ShrunkFit(np.zeros(2), np.eye(2), np.zeros((0, 2)), 1)
        >>> round(log_evidence_under(fitted, np.array([[0.0, 1.0], [np.nan, 0.0]])), 4)
        -3.2568
    """
    missing = np.isnan(table)
    x = np.where(missing, 0.0, table - fitted.mean)
    if isinstance(fitted.spread, Span) and not missing.any():
        thin, centred = fitted.spread.precision(), torch.from_numpy(x)
        constant = x.size * np.log(2 * np.pi) + len(x) * thin.log_determinant.item()
        return -0.5 * (constant + (centred * thin.times(centred)).sum().item())
    root = np.linalg.cholesky(fitted.covariance)
    log_determinants = 2 * len(x) * np.log(np.diagonal(root)).sum()
    if not missing.any():
        white = torch.linalg.solve_triangular(*map(torch.from_numpy, (root, x.T)), upper=False)
        distance = white.square().sum().item()
        return float(-0.5 * (x.size * np.log(2 * np.pi) + log_determinants + distance))
    precision = np.linalg.inv(fitted.covariance)
    distance = ((x @ precision) * x).sum()
    for rows, columns in _holes(missing):
        pull = np.take_along_axis(x[rows] @ precision, columns, axis=1)[:, :, None]
        block = precision[columns[:, :, None], columns[:, None, :]]
        distance -= (pull * np.linalg.solve(block, pull)).sum()
        log_determinants += np.linalg.slogdet(block)[1].sum()
    return float(-0.5 * ((~missing).sum() * np.log(2 * np.pi) + log_determinants + distance))


def _units(table: DataRows, missing: Bool[np.ndarray, "N D"]) -> tuple[Vector, Vector]:
    """Mean and standard deviation of the observed values of each column; 1 for one that does not vary."""
    count = np.maximum((~missing).sum(0), 1)
    shift = np.where(missing, 0.0, table).sum(0) / count
    variance = (np.where(missing, 0.0, table - shift) ** 2).sum(0) / count
    low, high = np.where(missing, np.inf, table).min(0), np.where(missing, -np.inf, table).max(0)
    return shift, np.where(high > low, np.sqrt(variance), 1.0)


def _holes(missing: Bool[np.ndarray, "N D"]) -> _Holes:
    """The rows with equally many missing values, and the columns that are missing in each."""
    counts = missing.sum(1)
    groups = [(np.flatnonzero(counts == count), count) for count in np.unique(counts[counts > 0])]
    return [(rows, np.nonzero(missing[rows])[1].reshape(len(rows), count)) for rows, count in groups]


def _inverse(covariance: Matrix) -> Matrix:
    root, failed = torch.linalg.cholesky_ex(torch.from_numpy(covariance))
    return np.linalg.inv(covariance) if int(failed) else torch.cholesky_inverse(root).numpy()


def _expected(
    x: DataRows, mean: Vector, covariance: Matrix, groups: _Holes
) -> tuple[Float64[np.ndarray, "N D"], Float64[np.ndarray, "D D"]]:
    """The rows with conditional means for missing values, and the sum of their conditional covariances."""
    width = x.shape[1]
    filled, spread = x.copy(), np.zeros(width * width)
    precision = _inverse(covariance) if groups else covariance
    for rows, columns in groups:
        centred = x[rows] - mean
        np.put_along_axis(centred, columns, 0.0, axis=1)
        pull = np.take_along_axis(centred @ precision, columns, axis=1)
        of_holes = np.linalg.inv(precision[columns[:, :, None], columns[:, None, :]])
        expected = mean[columns] - (of_holes @ pull[:, :, None])[:, :, 0]
        filled[rows[:, None], columns] = expected
        pair = columns[:, :, None] * width + columns[:, None, :]
        spread += np.bincount(pair.ravel(), weights=of_holes.ravel(), minlength=width * width)
    return filled, spread.reshape(width, width)
