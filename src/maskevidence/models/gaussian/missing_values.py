"""Maximum likelihood of the Gaussian family from rows with missing values."""

import numpy as np

from maskevidence.errors import NumericalError
from maskevidence.models.gaussian.maximum_likelihood import (
    NOISE_BOUND,
    LowRankParameters,
    Matrix,
    Table,
    Vector,
    no_noise_left,
    principal_components,
    smallest_correlation_eigenvalue,
)
from maskevidence.models.gaussian.observed_likelihood import (
    FullLikelihood,
    LowRankLikelihood,
    MissingRows,
    gather_rows,
)
from maskevidence.models.gaussian.quasi_newton import Point, maximise

_NO_NOISE = 1e-12  # share of the variance of every column; below it PPCA's likelihood grows without end
_SINGULAR = float(np.sqrt(np.finfo(np.float64).eps))  # differences below are rounding


def fit_low_rank(
    table: Table,
    n_components: int,
    tolerance: float,
    max_iterations: int,
    *,
    isotropic: bool,
    like: LowRankParameters | None = None,
) -> LowRankParameters:
    """Maximum likelihood of a low-rank Gaussian from rows with missing values.

    The ascent works in standard units and starts from the closed form of PPCA for the table with every hole
    filled by the mean of its column; or, `like` a fit with fewer components, by what that fit expects there.

    Args:
        table: shape (N, D), NaN where a value is missing.
        n_components: K.
        tolerance: the ascent ends when 20 iterations raise the log evidence in standard units by less,
            relative to its size.
        max_iterations: the largest number of iterations.
        isotropic: True for PPCA, False for factor analysis.
        like: a fit with fewer components.

    Returns:
        The parameters in the units of the table.

    Raises:
        NumericalError: PPCA whose components leave no noise.
    """
    rows = gather_rows(table)
    objective = LowRankLikelihood(rows, n_components, isotropic=isotropic)
    filled = np.where(np.isnan(table), rows.shift if like is None else expected_values(table, like), table)
    start, lower = starting_point(rows, filled, objective)

    def check(point: Point) -> None:
        if isotropic and (objective.parts(point)[2] < _NO_NOISE).all():
            raise no_noise_left(n_components)

    point, n_iterations = maximise(objective, start, lower, tolerance, max_iterations, check)
    loadings, mean, noise = objective.parts(point)
    return LowRankParameters(
        mean * rows.scale + rows.shift, loadings * rows.scale[:, None], noise * rows.scale**2, n_iterations
    )


def starting_point(rows: MissingRows, table: Table, objective: LowRankLikelihood) -> tuple[Point, Point]:
    """Where the ascent of a low-rank Gaussian starts, and the lower bounds of its coordinates.

    Args:
        rows: the table as `gather_rows` gives it.
        table: shape (N, D), with its holes filled.
        objective: the likelihood.

    Returns:
        Loadings and mean in standard units, and log noise variances, as one vector; and its bounds, of which
        only those of factor analysis's noise are finite.
    """
    isotropic = objective.isotropic
    unit = rows.scale if isotropic else np.ones_like(rows.scale)
    standard = (table - rows.shift) / rows.scale * unit
    closed_form = principal_components(standard, objective.n_components, ddof=0)
    loadings, noise = closed_form.loadings, closed_form.noise
    log_noise = np.log(noise[:1]) if isotropic else np.log(np.maximum(noise, NOISE_BOUND))
    start = np.concatenate([(loadings / unit[:, None]).ravel(), np.zeros(len(unit)), log_noise])
    lower = np.full(len(start), -np.inf)
    if not isotropic:
        lower[-len(unit) :] = np.log(NOISE_BOUND)
    return start, lower


def expected_values(table: Table, fitted: LowRankParameters) -> Table:
    """The mean of every value given the observed ones of its row, shape (N, D)."""
    seen, noise = ~np.isnan(table), fitted.noise
    centred = np.where(seen, table - fitted.mean, 0.0)
    scaled = fitted.loadings / noise[:, None]
    k = fitted.loadings.shape[1]
    outer = (scaled[:, :, None] * fitted.loadings[:, None, :]).reshape(-1, k * k)
    precision = np.eye(k) + (seen.astype(np.float64) @ outer).reshape(-1, k, k)
    latent = np.linalg.solve(precision, (centred @ scaled)[:, :, None])[:, :, 0]
    return fitted.mean + latent @ fitted.loadings.T


def fit_full(table: Table, tolerance: float, max_iterations: int) -> tuple[Vector, Matrix, int]:
    """Maximum likelihood mean and covariance from rows with missing values.

    Args:
        table: shape (N, D), NaN where a value is missing.
        tolerance: the ascent ends when 20 iterations raise the log evidence in standard units by less,
            relative to its size.
        max_iterations: the largest number of iterations.

    Returns:
        Mean, shape (D,), covariance, shape (D, D), in the units of the table, and the number of iterations.

    Raises:
        NumericalError: a covariance that is not positive definite.
    """
    rows = gather_rows(table)
    objective = FullLikelihood(rows)

    def check(point: Point) -> None:
        _refuse_singular(objective.parts(point)[1])

    width = len(rows.shift)
    start = objective.point(np.zeros(width), np.diag(np.nanstd((table - rows.shift) / rows.scale, axis=0)))
    point, n_iterations = maximise(
        objective, start, np.full(len(start), -np.inf), tolerance, max_iterations, check
    )
    mean, factor = objective.parts(point)
    factor = factor * rows.scale[:, None]
    return mean * rows.scale + rows.shift, factor @ factor.T, n_iterations


def _refuse_singular(factor: Matrix) -> None:
    """Stop where the likelihood grows without end, because columns determine each other."""
    covariance = factor @ factor.T
    smallest = smallest_correlation_eigenvalue(covariance)
    if smallest > _SINGULAR:
        return
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(np.float64).tiny))
    weights = np.linalg.eigh(covariance / scale[:, None] / scale)[1][:, 0]
    raise NumericalError(
        "the fit runs into a covariance that is not positive definite: scaled to a unit diagonal, its "
        f"smallest eigenvalue is {smallest:.1g}; leave out column {int(np.abs(weights).argmax())}, all but "
        "determined by the others, give more rows, or use ppca or factor-analysis"
    )
