"""Maximum likelihood factor analysis of complete data."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.tables.gaussian.family import (
    NOISE_BOUND,
    DataRows,
    LowRankParameters,
    Matrix,
    Vector,
    principal_axes,
    warn_not_converged,
)

_ENOUGH = 1e-3  # share of the tolerance below which the gain that a step promises ends the climb
_LONGEST = 2.0  # step of a log noise variance
_MAX_HALVINGS = 25
_FLATTEST = 1e-9  # curvature, relative to the largest


class _Profile(NamedTuple):
    """The likelihood of the noise variances, with the best loadings for them."""

    correlation: Float64[np.ndarray, "D D"]  # of the standardised data
    n_components: int
    constant: float  # of the log evidence in standard units, nats per observation

    def best_loadings(self, noise: Vector) -> tuple[Matrix, float]:
        """The best loadings for given noise, and the log evidence with them, nats per observation."""
        root = np.sqrt(noise)
        eigenvalues, vectors = np.linalg.eigh(self.correlation / np.outer(root, root))
        leading = np.maximum(eigenvalues[-self.n_components :], 1.0)
        loadings = root[:, None] * vectors[:, -self.n_components :] * np.sqrt(leading - 1.0)
        explained = (eigenvalues[-self.n_components :] * (1.0 - 1.0 / leading)).sum()
        log_determinant = np.log(noise).sum() + np.log(leading).sum()
        return loadings, float(self.constant - 0.5 * (log_determinant + eigenvalues.sum() - explained))

    def derivatives(self, noise: Vector) -> tuple[Vector, Matrix]:
        """Slope and curvature of the log evidence in θ = log ψ, nats per observation, (D,) and (D, D).

        With the eigenvalues λ and eigenvectors u of Ψ^-½ S Ψ^-½, m over those without loadings, n over the
        others, and dλ, du from perturbation theory,

            slope_j = ½ Σ_m (λ_m - 1) u_jm²
            curvature_ij = -½ (Σ_m λ_m u_im u_jm)(Σ_m u_im u_jm)
                           - ½ Σ_m (1 - λ_m) u_im u_jm Σ_n u_in u_jn (λ_n + λ_m)/(λ_n - λ_m)

        Source:
            Clarke (1970), A Rapidly Convergent Method for Maximum-Likelihood Factor Analysis.
        """
        root = np.sqrt(noise)
        eigenvalues, vectors = np.linalg.eigh(self.correlation / np.outer(root, root))
        n_left = len(noise) - min(self.n_components, int((eigenvalues > 1.0).sum()))
        left, others = eigenvalues[:n_left], eigenvalues[n_left:]
        u, v = vectors[:, :n_left], vectors[:, n_left:]
        slope = 0.5 * (u**2) @ (left - 1.0)
        curvature = -0.5 * ((u * left) @ u.T) * (u @ u.T)
        if len(others):
            ratio = (1.0 - left)[:, None] * (others + left[:, None]) / (others - left[:, None])
            pairs = np.einsum("im,mn,in->imn", u, ratio, v).reshape(len(u), -1)
            products = (u[:, :, None] * v[:, None, :]).reshape(len(u), -1)
            curvature -= 0.5 * pairs @ products.T
        return slope, curvature

    def climb(self, start: Vector, tolerance: float, max_iterations: int) -> tuple[Vector, int]:
        """The noise variances of a maximum, from a start, and the number of Newton steps.

        The steps are in θ = log ψ between log b and 0. Coordinates at a bound stay there while the gradient
        pushes against it, curvatures count by their size, and a step is halved until the likelihood rises.
        """
        lowest, theta = math.log(NOISE_BOUND), np.log(np.clip(start, NOISE_BOUND, 1.0))
        value = self.best_loadings(np.exp(theta))[1]
        gain = math.inf
        for step in range(max_iterations):
            slope, curvature = self.derivatives(np.exp(theta))
            free = ((theta > lowest) | (slope > 0)) & ((theta < 0) | (slope < 0))
            direction = _newton(slope, curvature, free)
            if direction @ slope < _ENOUGH * tolerance * max(1.0, abs(value)):
                return np.exp(theta), step
            length = min(1.0, _LONGEST / np.abs(direction).max())
            for _ in range(_MAX_HALVINGS):
                new = np.clip(theta + length * direction, lowest, 0.0)
                new_value = self.best_loadings(np.exp(new))[1]
                if new_value > value:
                    break
                length /= 2
            else:  # no larger value in floating point
                return np.exp(theta), step
            theta, value, gain = new, new_value, (new_value - value) / max(1.0, abs(new_value))
        warn_not_converged("factor analysis", max_iterations, gain, tolerance)
        return np.exp(theta), max_iterations


def _newton(slope: Vector, curvature: Matrix, free: Bool[np.ndarray, " D"]) -> Vector:
    """The Newton step for this slope and curvature, upwards; 0 for fixed parameters."""
    direction = np.zeros(len(slope))
    if free.any():
        sizes, axes = np.linalg.eigh(curvature[np.ix_(free, free)])
        sizes = np.maximum(np.abs(sizes), _FLATTEST * max(np.abs(sizes).max(), _FLATTEST))
        direction[free] = axes @ ((axes.T @ slope[free]) / sizes)
    return direction


def fit_factor_analysis(
    table: DataRows,
    n_components: int,
    tolerance: float,
    max_iterations: int,
    like: LowRankParameters | None = None,
) -> LowRankParameters:
    """Maximum likelihood factor analysis of complete data.

    For given noise the best loadings come from the leading eigenvectors of Ψ^-½ S Ψ^-½. What remains is a
    function of ψ alone with ∂/∂ψ_j = ½ (S_jj - |w_j|² - ψ_j)/ψ_j², nats per observation, which Newton's
    method climbs in log ψ_j >= log b S_jj, b = `NOISE_BOUND`. (Alternating between loadings and noise slows
    down as a ψ_j tends to 0, and stops short of the maximum.)

    The likelihood can have several maxima. The climb starts where EM starts, from half of each variance, and
    from the variance of each column that the others leave unexplained; the best of the three ends is kept.

    Args:
        tolerance: a climb ends when a thousandth of it is more than a step promises to gain, relative to the
            log evidence in standard units.
        like: a fit with fewer components, whose noise takes the place of the first two starts.

    Source:
        Jöreskog (1967), Some Contributions to Maximum Likelihood Factor Analysis.
    """
    mean = table.mean(0)
    scale = table.std(0)
    correlation = (table - mean).T @ (table - mean) / len(table) / np.outer(scale, scale)
    constant = -0.5 * len(scale) * math.log(2 * math.pi)
    profile = _Profile(correlation, n_components, constant)
    unexplained = 1.0 / np.diagonal(np.linalg.pinv(correlation, hermitian=True))
    if like is None:
        residual = principal_axes((table - mean) / scale).eigenvalues[n_components:].mean()  # 0 is allowed
        starts = [np.full(len(scale), residual), np.full(len(scale), 0.5), unexplained]
    else:
        starts = [like.noise / scale**2, unexplained]
    ends = [profile.climb(start, tolerance, max_iterations) for start in starts]
    noise, n_steps = max(ends, key=lambda end: profile.best_loadings(end[0])[1])
    loadings, _ = profile.best_loadings(noise)
    return LowRankParameters(mean, loadings * scale[:, None], noise * scale**2, n_steps)
