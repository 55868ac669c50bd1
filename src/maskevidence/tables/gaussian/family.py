"""What all Gaussian models share: normal densities, checks of a fit, its closed form, the base class."""

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from maskevidence.core.errors import ConvergenceWarning, InputError, NumericalError
from maskevidence.core.model import DENSITY, Conditionals
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.support.checks import whole_number
from maskevidence.core.table import spreads
from maskevidence.core.tokens import Tokens, called
from maskevidence.tables.base import TableModel, keeping_dtype
from maskevidence.tables.noise import KeyedNoise, row_keys

_LARGEST = 1e150  # of a value whose squares can be summed
LOG_2PI = math.log(2 * math.pi)
_NARROW = 0.03  # if (1 + |z|) h is smaller, a cell's mass is its mean density times its width


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


def cholesky(matrices: Float[Tensor, "*B K K"]) -> Float[Tensor, "*B K K"]:
    """The lower Cholesky factors of positive definite matrices.

    Example:
        >>> cholesky(torch.tensor([[4.0]])).tolist()
        [[2.0]]
    """
    factors, failed = torch.linalg.cholesky_ex(matrices)
    if bool(failed.any()):
        raise NumericalError(
            "a covariance of the model is not positive definite in floating-point numbers; look for "
            "extremely large or small parameters, or rescale the data and fit the model again"
        )
    return factors


def normal_log_density(
    residual: Float[Tensor, "*shape"], variance: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """log N(residual; 0, variance), nats."""
    return torch.log(variance).add_(LOG_2PI).add_(residual.square().div_(variance)).mul_(-0.5)


def normal_log_cell(
    residual: Float[Tensor, "*shape"], variance: Float[Tensor, "*shape"], step: Float[Tensor, "*_"]
) -> Float[Tensor, "*shape"]:
    """log [Φ(z + h) - Φ(z - h)] / δ, nats: the mass of the cell of width δ around a value, over its width.

    With s² the variance, z = residual/s and h = δ/2s, both ends are mirrored to the side where Φ is small, so
    that log Φ(b) + log (1 - exp(log Φ(a) - log Φ(b))) keeps its digits in both tails. In a narrow cell the
    mean density is the density at the middle times exp((z² - 1) h²/6), up to terms of (zh)⁴.

    Example:
        >>> one = torch.ones(1, dtype=torch.float64)
        >>> normal_log_cell(40 * one, one, one).item(), normal_log_density(40 * one, one).item()
        (-784.7..., -800.9...)
    """
    wide, scale = residual.double(), variance.double().sqrt()
    z, half = wide.abs() / scale, 0.5 * step / scale
    narrow = half * (1 + z) < _NARROW
    square, of_width = z.square(), half.square()
    middle = -0.5 * (square + LOG_2PI) - torch.log(scale) + (square - 1) * of_width / 6
    middle = middle - (square * (square + 4) - 2) * of_width.square() / 180
    if bool(narrow.all()):
        return middle.to(residual.dtype)
    z, half = torch.where(narrow, 0.0, z), torch.where(narrow, 1.0, half)
    below, above = torch.special.log_ndtr(-z - half), torch.special.log_ndtr(half - z)
    mass = above + torch.log(-torch.expm1(below - above))
    return torch.where(narrow, middle, mass - torch.log(step)).to(residual.dtype)


def log_standard_normal(z: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows"]:
    """log N(z; 0, I), nats."""
    return -0.5 * (z.square().sum(-1) + z.shape[-1] * LOG_2PI)


def log_normals(
    z: Float[Tensor, "B S K"], mean: Float[Tensor, "B F K"], log_scale: Float[Tensor, "B F K"]
) -> Float[Tensor, "B S F"]:
    """log N(z_s; mean_f, scale_f²) of every draw and Gaussian, nats, by matrix products.

    The squares are expanded around the centre of the Gaussians, to avoid cancellation if the means are far
    from 0.

    Example:
        >>> one = torch.ones(1, 1, 1)
        >>> log_normals(2 * one, one, 0 * one).item() == log_standard_normal(one).item()
        True
    """
    centre = mean.mean(1, keepdim=True).detach()
    z, mean, precision = z - centre, mean - centre, torch.exp(-2 * log_scale)
    cross = (z @ (mean * precision).mT) - 0.5 * (z.square() @ precision.mT)
    constant = (0.5 * mean.square() * precision + log_scale).sum(2) + 0.5 * z.shape[2] * LOG_2PI
    return cross - constant[:, None]


def divergence_from_prior(mean: Float[Tensor, "B K"], log_scale: Float[Tensor, "B K"]) -> Float[Tensor, " B"]:
    """KL(N(mean, scale²) ‖ N(0, I)), nats, shape (B,).

    Source:
        Kingma and Welling (2014), Auto-Encoding Variational Bayes, appendix B.

    Example:
        >>> divergence_from_prior(torch.ones(1, 2), torch.zeros(1, 2)).item()
        1.0
    """
    return 0.5 * (mean.square() + torch.exp(2 * log_scale) - 1).sum(1) - log_scale.sum(1)


class GaussianFamily(TableModel):
    """A Gaussian density over D features.

    A subclass computes conditionals and marginals of centred rows from its parameters. The mean is float64,
    whatever the dtype of the others, and rows are centred before they are cast.

    Args:
        mean: μ, shape (D,).
    """

    conditionals: Conditionals = "exact"
    base_measure = DENSITY
    keeps_units = False
    refits = True
    mean: nn.Parameter

    def __init__(self, mean: Float[Tensor, " D"]) -> None:
        super().__init__(len(mean))
        self.mean = nn.Parameter(mean.detach().clone().double())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "GaussianFamily":
        return super()._apply(keeping_dtype(fn, (self.mean,)), recurse)  # type: ignore[no-untyped-call]

    @property
    @abstractmethod
    def covariance(self) -> Float[Tensor, "D D"]:
        """The covariance of the features, shape (D, D)."""

    @abstractmethod
    def _conditional_moments(
        self, centred: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        """Mean (about μ) and variance of every token that is not visible, given rows about μ, 0 elsewhere."""

    @abstractmethod
    def _log_density(
        self, centred: Float[Tensor, "B D"], present: Bool[Tensor, "B D"]
    ) -> Float[Tensor, " B"]:
        """log p of the present tokens, the others integrated out, nats, shape (B,)."""

    def _centred(self, values: Float[Tensor, "B D"], known: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """x - μ in the model's dtype, 0 where not known."""
        centred = values - self.mean
        if not bool(known.all()):
            centred = torch.where(known, centred, 0.0)
        return centred.to(self._like().dtype)

    @abstractmethod
    def score_moments(self, moments: GaussianMoments, masked: Bool[Tensor, "P D"]) -> Float[Tensor, " P"]:
        """The score of each of P masks, averaged over the rows behind the moments, nats, shape (P,)."""

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log N(x_j; mean, variance given the visible tokens) in nats, shape (B, D); 0 where not masked."""
        return normal_log_density(*self._given_visible(tokens, masked)) * masked

    def log_cells(
        self, tokens: Tokens, masked: Bool[Tensor, "B D"], step: Float[Tensor, " D"]
    ) -> Float[Tensor, "B D"]:
        """The log mass of the cell of width `step` about each masked value, over the step; see `CellMass`."""
        return normal_log_cell(*self._given_visible(tokens, masked), step) * masked

    def _given_visible(
        self, tokens: Tokens, masked: Bool[Tensor, "B D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        """Residual and variance of every masked token given the visible ones; 0 and 1 for the others."""
        self.check_width(tokens.width)
        visible = tokens.visible(masked)
        centred = self._centred(tokens.values, visible | masked)  # absent values are not read
        # centred values are finite, so that a product, ten times as fast as `where`, sets them to 0
        mean, variance = self._conditional_moments(centred * visible, visible)
        return (centred - mean) * masked, torch.where(masked, variance, 1.0)

    def log_evidence(self, tokens: Tokens) -> Float[Tensor, " B"]:
        """log p(maskable tokens | context), in closed form, nats per observation, shape (B,).

        Example:
            >>> import maskevidence as me
            >>> model = me.models.Gaussian(torch.zeros(1), torch.eye(1))
            >>> model.log_evidence(me.Tokens.from_array([[0.0]])).item()
            -0.918938533204...
        """
        self.check_width(tokens.width)
        joint = self._log_density_of(tokens.values, tokens.maskable | tokens.context)
        if not bool(tokens.context.any()):
            return joint
        return joint - self._log_density_of(tokens.values, tokens.context)

    def _log_density_of(self, values: Tensor, present: Tensor) -> Float[Tensor, " B"]:
        return self._log_density(self._centred(values, present), present)

    def units(
        self, values: Float64[np.ndarray, "N D"]
    ) -> tuple[Float64[np.ndarray, " D"], Float64[np.ndarray, " D"]]:
        refuse_constant(values, self.columns)
        return np.nanmean(values, axis=0), spreads(values)

    def rescale(self, shift: Float64[np.ndarray, " D"], scale: Float64[np.ndarray, " D"]) -> None:
        with torch.no_grad():
            self.mean.mul_(self._as_parameter(scale)).add_(self._as_parameter(shift))
            self._rescale_covariance(self._as_parameter(scale).to(self._like().dtype))

    @abstractmethod
    def _rescale_covariance(self, scale: Float[Tensor, " D"]) -> None:
        """Multiply every entry Σ_jk of the covariance by scale_j scale_k, in place."""

    def _as_parameter(self, vector: Float64[np.ndarray, " D"]) -> Float[Tensor, " D"]:
        return torch.from_numpy(vector).to(self.mean)

    def _missing_moments(self, tokens: Tokens) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        centred = self._centred(tokens.values, tokens.maskable)
        mean, variance = self._conditional_moments(centred, tokens.maskable)
        return self.mean + mean, variance

    def _draw_missing(self, tokens: Tokens, seed: int) -> Float[Tensor, "B D"]:
        """x̃_M + E[x_M | x_R - x̃_R] about μ, for a row x̃ from the model: a draw of the missing tokens M.

        The residual x̃_M - E[x_M | x̃_R] does not depend on x̃_R, and has the conditional covariance of M.

        Source:
            Hoffman and Ribak (1991), Constrained Realizations of Gaussian Fields; Matheron's rule.
        """
        seen = tokens.maskable
        noise = KeyedNoise(row_keys(seed, tokens.ids.cpu().numpy(), seen.cpu().numpy()), self._like())
        drawn = noise.normal(self.n_features) @ torch.linalg.cholesky(self.covariance).T
        rest = torch.where(seen, self._centred(tokens.values, seen) - drawn, 0.0)
        mean, _ = self._conditional_moments(rest, seen)
        return self.mean + drawn + mean

    def _draw_rows(self, n: int, seed: int) -> Float[Tensor, "n D"]:
        factor = torch.linalg.cholesky(self.covariance).cpu()
        generator = torch.Generator().manual_seed(whole_number("seed", seed))
        noise = torch.randn(n, self.n_features, generator=generator, dtype=factor.dtype)
        return self.mean.cpu() + noise @ factor.T


def expected_score(
    second_moment: Float[Tensor, "P D"], variance: Float[Tensor, "P D"], masked: Bool[Tensor, "P D"]
) -> Float[Tensor, " P"]:
    """Mean over masked tokens of E log N(residual; 0, variance), from E residual², nats, shape (P,)."""
    variance = torch.where(masked, variance, 1.0)
    expected = -0.5 * (LOG_2PI + torch.log(variance) + second_moment / variance)
    return torch.where(masked, expected, 0.0).sum(1) / masked.sum(1)
