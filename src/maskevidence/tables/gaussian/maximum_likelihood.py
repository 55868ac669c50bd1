"""Maximum likelihood for the Gaussian family: checks and the closed form."""

import warnings
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import ConvergenceWarning, InputError, NumericalError
from maskevidence.core.table import spreads
from maskevidence.core.tokens import called

Vector = Float64[np.ndarray, " D"]
Matrix = Float64[np.ndarray, "D K"]
DataRows = Float64[np.ndarray, "N D"]
NOISE_BOUND = 1e-4  # share of a column's variance; below it a factor model's likelihood can grow without end


class LowRankParameters(NamedTuple):
    """Parameters of N(mean, loadings loadingsᵀ + diag(noise))."""

    mean: Float64[np.ndarray, " D"]
    loadings: Float64[np.ndarray, "D K"]
    noise: Float64[np.ndarray, " D"]  # variances
    n_iterations: int = 0  # of the fit; 0 for a closed form


_LARGEST = 1e150  # of a value whose squares can be summed


def check_table(
    table: DataRows,
    n_components: int,
    tolerance: float,
    max_iterations: int,
    names: Sequence[str] | None = None,
) -> None:
    """Check that a model can be fitted to a table."""
    if len(table) < max(2, n_components + 1):
        what = f" for {n_components} components" if n_components else ""
        raise InputError(f"{len(table)} rows are too few{what}; give at least {max(2, n_components + 1)}")
    if not tolerance > 0 or max_iterations < 2:
        raise InputError(
            f"tolerance={tolerance:g}, max_iterations={max_iterations}; the first must be above 0 and the "
            "second 2 or more, because the gain of an iteration is compared with the tolerance"
        )
    largest, smallest = np.nanmax(table, axis=0), np.nanmin(table, axis=0)
    if (largest == smallest).all():
        raise InputError("every column is constant; there is nothing to fit")
    reach, width = np.maximum(np.abs(largest), np.abs(smallest)), largest / 2 - smallest / 2
    bad = (reach > _LARGEST) | ((width > 0) & (width < 1 / _LARGEST))
    if bad.any():
        column = int(np.argmax(bad))
        raise InputError(
            f"column {called(names, column)} reaches {reach[column]:.3g} and varies by "
            f"{2 * width[column]:.3g}, and their squares are no floating-point numbers; give it in another "
            "unit"
        )


def refuse_constant(table: DataRows, names: Sequence[str] | None = None) -> None:
    """Raise an InputError for a column that does not vary."""
    spread = spreads(table)
    if not spread.all():
        column = called(names, int(np.argmin(spread)))
        raise InputError(f"column {column} does not vary, its variance would be 0; leave it out")


class PrincipalAxes(NamedTuple):
    """The eigenvectors of a covariance, from which PPCA with any number of components follows."""

    mean: Float64[np.ndarray, " D"]
    eigenvalues: Float64[np.ndarray, " D"]  # descending
    axes: Float64[np.ndarray, "r D"]  # the eigenvectors of the first r = min(N, D) eigenvalues

    def of(self, n_components: int) -> LowRankParameters:
        """Maximum likelihood PPCA with K components, in closed form.

        Source:
            Tipping and Bishop (1999), Probabilistic Principal Component Analysis, Eq. 7 and 8.
        """
        eigenvalues, n_features = self.eigenvalues, len(self.mean)
        noise = float(eigenvalues[n_components:].mean())
        if noise <= eigenvalues[0] * np.finfo(np.float64).eps * n_features:
            raise no_noise_left(n_components)
        scale = np.sqrt(np.maximum(eigenvalues[:n_components] - noise, 0.0))  # not below 0 by rounding
        loadings = self.axes[:n_components].T * scale
        return LowRankParameters(self.mean, loadings, np.full(n_features, noise))


def principal_axes(table: DataRows, ddof: int = 0) -> PrincipalAxes:
    """The eigenvectors of the covariance of complete data.

    Example:
        >>> axes = principal_axes(np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [2.0, 1.0]]))
        >>> axes.eigenvalues.tolist(), axes.of(1).noise.tolist()
        ([1.0, 0.25], [0.25, 0.25])
    """
    n_rows, n_features = table.shape
    if n_rows <= ddof:
        raise InputError(f"{n_rows} rows are too few for ddof={ddof}; give more rows")
    mean = table.mean(0)
    _, singular, axes = np.linalg.svd(table - mean, full_matrices=False)
    eigenvalues = np.zeros(n_features)
    eigenvalues[: len(singular)] = singular**2 / (n_rows - ddof)
    return PrincipalAxes(mean, eigenvalues, axes)


def no_noise_left(n_components: int) -> NumericalError:
    """The error for PPCA of data without noise."""
    return NumericalError(
        f"the data lie in a space of {n_components} dimensions or fewer, so that no noise variance is left; "
        "use fewer components"
    )


def warn_not_converged(name: str, max_iterations: int, rise: float, tolerance: float) -> None:
    """Warn that a fit ended before its log evidence stood still; `rise` is its last relative change."""
    warnings.warn(
        f"{name} did not converge in {max_iterations} iterations: the last ones still changed the log "
        f"evidence by {rise:.2g} of its size (tolerance {tolerance:g}), and the fit is as good as they left "
        "it; raise max_iterations or the tolerance",
        ConvergenceWarning,
        stacklevel=2,
    )


def smallest_correlation_eigenvalue(covariance: Float64[np.ndarray, "D D"]) -> float:
    """The smallest eigenvalue of a covariance scaled to a unit diagonal, which does not depend on units.

    Example:
        >>> round(smallest_correlation_eigenvalue(np.array([[4e12, 1.0], [1.0, 1e-12]])), 9)
        0.5
    """
    scale = np.sqrt(np.abs(np.diagonal(covariance)))
    scale = np.where(scale > 0, scale, 1.0)
    return float(np.linalg.eigvalsh(covariance / scale[:, None] / scale)[0])
