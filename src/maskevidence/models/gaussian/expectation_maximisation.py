"""Expectation maximisation for the Gaussian family, from rows with missing values."""

import math

import numpy as np
import torch
from jaxtyping import Float64

from maskevidence.errors import NumericalError
from maskevidence.models.gaussian import maximum_likelihood
from maskevidence.models.gaussian.maximum_likelihood import (
    NOISE_BOUND,
    LowRankParameters,
    Matrix,
    Table,
    Vector,
    principal_components,
    smallest_correlation_eigenvalue,
)


def start_of_em(table: Table, n_components: int) -> LowRankParameters:
    """The closed form for the table with every hole filled by the mean of its column."""
    filled = np.where(np.isnan(table), np.nanmean(table, axis=0), table)
    return principal_components(filled, n_components, ddof=0)


def fit_low_rank_em(
    table: Table,
    start: LowRankParameters,
    tolerance: float,
    max_iterations: int,
    *,
    isotropic: bool,
) -> LowRankParameters:
    """Maximum likelihood of a low-rank Gaussian from rows with missing values, by EM.

    E-step, for every row i with observed tokens R: z | x_R ~ N(m_i, A_i⁻¹). M-step, for every feature j: the
    regression of x_ij on (z, 1) over the rows where j is observed gives w_j and μ_j, and its mean squared
    residual ψ_j (if `isotropic`, one σ² for all features).

    Args:
        table: shape (N, D), NaN where a value is missing.
        start: the first parameters.
        tolerance: EM ends when an iteration raises the log evidence by less, nats per observation.
        max_iterations: the largest number of iterations.
        isotropic: True for PPCA, False for factor analysis.

    Raises:
        NumericalError: no convergence.

    Source:
        Ilin and Raiko (2010), Practical Approaches to Principal Component Analysis in the Presence of Missing
        Values, section 4; Little and Rubin (2002), chapter 8.
    """
    observed = ~np.isnan(table)
    shift = np.nanmean(table, axis=0)  # near 0, for accuracy
    x = np.where(observed, table - shift, 0.0)
    seen = observed.astype(np.float64)
    n_seen = seen.sum(0)
    k = start.loadings.shape[1]
    variance = np.nanvar(table, axis=0)

    def step(old: LowRankParameters) -> tuple[LowRankParameters, float]:
        scaled = old.loadings / old.noise[:, None]
        outer = (scaled[:, :, None] * old.loadings[:, None, :]).reshape(-1, k * k)
        precision = np.eye(k) + (seen @ outer).reshape(-1, k, k)
        covariance = np.linalg.inv(precision)
        centred = np.where(observed, x - old.mean, 0.0)
        projected = centred @ scaled
        latent = (covariance @ projected[:, :, None])[:, :, 0]
        distance = (centred**2 / old.noise).sum() - (projected * latent).sum()
        constant = (seen @ np.log(2 * np.pi * old.noise)).sum() + np.linalg.slogdet(precision)[1].sum()
        log_evidence = -0.5 * (constant + distance) / len(x)

        design = np.concatenate([latent, np.ones((len(x), 1))], axis=1)
        second = design[:, :, None] * design[:, None, :]
        second[:, :k, :k] += covariance
        gram = (seen.T @ second.reshape(len(x), -1)).reshape(-1, k + 1, k + 1)
        target = x.T @ design
        solution = np.linalg.solve(gram, target[:, :, None])[:, :, 0]
        residual = (x**2).sum(0) - (target * solution).sum(1)
        if isotropic:
            noise = np.full_like(residual, residual.sum() / n_seen.sum())
        else:
            noise = np.maximum(residual / n_seen, NOISE_BOUND * variance)
        return LowRankParameters(solution[:, k], solution[:, :k], noise), float(log_evidence)

    first = LowRankParameters(start.mean - shift, start.loadings, start.noise)
    last = maximum_likelihood.climb(step, first, "EM", tolerance, max_iterations)
    return LowRankParameters(last.mean + shift, last.loadings, last.noise)


def fit_full_em(table: Table, tolerance: float, max_iterations: int) -> tuple[Vector, Matrix]:
    """Maximum likelihood mean and covariance from rows with missing values, by EM.

    The E-step fills each row with its conditional mean, and adds the conditional covariance of the missing
    values, once per pattern of observed columns.

    Args:
        table: shape (N, D), NaN where a value is missing.
        tolerance: EM ends when an iteration raises the log evidence by less, nats per observation.
        max_iterations: the largest number of iterations.

    Returns:
        Mean, shape (D,), and covariance, shape (D, D).

    Raises:
        NumericalError: no convergence, or a covariance that is not positive definite.

    Source:
        Little and Rubin (2002), Statistical Analysis with Missing Data, section 11.2.
    """
    observed = ~np.isnan(table)
    shift = np.nanmean(table, axis=0)
    x = np.where(observed, table - shift, 0.0)
    patterns, pattern_of, n_rows = np.unique(observed, axis=0, return_inverse=True, return_counts=True)
    pattern_of = pattern_of.ravel()
    width = table.shape[1]
    both = patterns[:, :, None] & patterns[:, None, :]
    rest = np.where(patterns, 0.0, 1.0)[:, :, None] * np.eye(width)

    def step(old: tuple[Vector, Matrix]) -> tuple[tuple[Vector, Matrix], float]:
        mean, covariance = old
        smallest = smallest_correlation_eigenvalue(covariance)
        if smallest <= math.sqrt(np.finfo(np.float64).eps):  # differences below are rounding
            raise NumericalError(
                "EM runs into a covariance that is not positive definite: scaled to a unit diagonal, its "
                f"smallest eigenvalue is {smallest:.1g}; leave out column {_most_dependent(covariance)}, all "
                "but determined by the others, give more rows, or use ppca or factor-analysis"
            )
        block = np.where(both, covariance, 0.0) + rest
        factor = torch.linalg.cholesky(torch.from_numpy(block))  # twice as fast as numpy's inv
        inverse = torch.cholesky_inverse(factor).numpy() - rest
        log_determinant = 2 * torch.log(torch.diagonal(factor, dim1=1, dim2=2)).sum(1).numpy()
        weights = inverse @ covariance  # (P, D, D): column j regresses token j on the observed ones
        centred = np.where(observed, x - mean, 0.0)
        distance = np.einsum("nd,nde,ne->", centred, inverse[pattern_of], centred)
        constant = observed.sum() * np.log(2 * np.pi) + log_determinant[pattern_of].sum()
        complete = mean + np.where(observed, centred, (centred[:, None, :] @ weights[pattern_of])[:, 0])
        missing = covariance - covariance @ weights
        new_mean = complete.mean(0)
        new = (complete - new_mean).T @ (complete - new_mean) + np.einsum("p,pde->de", n_rows * 1.0, missing)
        return (new_mean, (new + new.T) / (2 * len(x))), float(-0.5 * (constant + distance) / len(x))

    mean, covariance = maximum_likelihood.climb(
        step, (np.zeros(width), np.diag(np.nanvar(table, axis=0))), "EM", tolerance, max_iterations
    )
    return mean + shift, covariance


def _most_dependent(covariance: Float64[np.ndarray, "D D"]) -> int:
    """The column with the largest weight in the eigenvector of the smallest eigenvalue of the correlation."""
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(np.float64).tiny))
    return int(np.abs(np.linalg.eigh(covariance / scale[:, None] / scale)[1][:, 0]).argmax())
