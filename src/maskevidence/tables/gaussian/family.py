"""The base of all Gaussian models: densities and imputations from conditional means and variances."""

from abc import abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from maskevidence.core.model import DENSITY, Conditionals
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.support.checks import whole_number
from maskevidence.core.table import spreads
from maskevidence.core.tokens import Tokens
from maskevidence.tables.base import TableModel, keeping_dtype
from maskevidence.tables.gaussian.maximum_likelihood import refuse_constant
from maskevidence.tables.noise import KeyedNoise, row_keys
from maskevidence.tables.normal import LOG_2PI, normal_log_cell, normal_log_density


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

    def score_samples(self, x: object) -> Float64[np.ndarray, " N"]:
        """log p of each row, nats, as scikit-learn names it; NaN is missing. Shape (N,)."""
        with torch.no_grad():
            return self.log_evidence(self.tokens(x)).cpu().double().numpy()

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
