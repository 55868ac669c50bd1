"""Gaussians whose covariance is low rank plus diagonal, by K×K solves."""

from abc import abstractmethod
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from maskevidence.errors import InputError
from maskevidence.models._family import LOG_2PI, GaussianFamily, expected_score
from maskevidence.moments import GaussianMoments

_MASKS_AT_ONCE = 64  # keeps the (masks, K, D) intermediates of a chunk in the processor's cache


class _Posterior(NamedTuple):
    """The latent posterior given the visible tokens.

    Attributes:
        factor: shape (B, K, K); Cholesky factor of A = I + W_Rᵀ Ψ_R⁻¹ W_R, the posterior precision.
        covariance: shape (B, K, K); A⁻¹.
    """

    factor: Float[Tensor, "B K K"]
    covariance: Float[Tensor, "B K K"]


class LowRankGaussian(GaussianFamily):
    """N(μ, W Wᵀ + Ψ) with loadings W of shape (D, K) and a diagonal Ψ.

    With R the visible tokens and A = I + W_Rᵀ Ψ_R⁻¹ W_R (K×K):

        var_j = ψ_j + w_jᵀ A⁻¹ w_j,    mean_j = μ_j + w_jᵀ A⁻¹ W_Rᵀ Ψ_R⁻¹ (x_R - μ_R)

    for all masks of a batch together: A is one matrix product of the masks with the D outer products
    w_j w_jᵀ/ψ_j, and so are the variances with A⁻¹.
    """

    def __init__(self, n_features: int, n_components: int, seed: int, dtype: torch.dtype) -> None:
        super().__init__()
        if not 1 <= n_components < n_features:
            raise InputError(
                f"n_components={n_components} with n_features={n_features}; "
                "give at least one component and fewer than features"
            )
        self.n_features = n_features
        self.n_components = n_components
        self.columns: list[str] | None = None
        generator = torch.Generator().manual_seed(seed)
        loadings = torch.randn(n_features, n_components, generator=generator, dtype=dtype)
        self.mean = nn.Parameter(torch.zeros(n_features, dtype=dtype))
        self.loadings = nn.Parameter(loadings)

    @property
    @abstractmethod
    def noise_variances(self) -> Float[Tensor, " D"]:
        """ψ, the noise variance of each feature, shape (D,)."""

    @property
    def covariance(self) -> Float[Tensor, "D D"]:
        return self.loadings @ self.loadings.T + torch.diag(self.noise_variances)

    def arguments(self) -> dict[str, Any]:
        return {"n_features": self.n_features, "n_components": self.n_components}

    def conditional_moments(
        self, values: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        noise = self.noise_variances
        posterior = self._posterior(visible)
        centred = torch.where(visible, values - self.mean, 0.0)
        projected = centred @ (self.loadings / noise[:, None])
        latent = torch.cholesky_solve(projected[:, :, None], posterior.factor)[:, :, 0]
        return self.mean + latent @ self.loadings.T, noise + self._quadratic(posterior.covariance)

    def log_density(self, values: Float[Tensor, "B D"], present: Bool[Tensor, "B D"]) -> Float[Tensor, " B"]:
        noise = self.noise_variances
        factor = self._posterior(present).factor
        centred = torch.where(present, values - self.mean, 0.0)
        projected = centred @ (self.loadings / noise[:, None])
        white = torch.linalg.solve_triangular(factor, projected[:, :, None], upper=False)[:, :, 0]
        log_determinant = 2 * torch.log(torch.diagonal(factor, dim1=1, dim2=2)).sum(1)
        log_noise = torch.where(present, LOG_2PI + torch.log(noise), 0.0).sum(1)
        distance = (centred.square() / noise).sum(1) - white.square().sum(1)
        return -0.5 * (log_noise + log_determinant + distance)

    def score_moments(self, moments: GaussianMoments, masked: Bool[Tensor, "P D"]) -> Float[Tensor, " P"]:
        """The score of each of P shared masks, averaged over the complete rows behind the moments.

        With U = A⁻¹ Wᵀ, V = Ψ_R⁻¹ W_R, S the rows' second moments about the mean, the mean squared residual
        of token j is S_jj - 2 u_jᵀ (VᵀS)_j + u_jᵀ (VᵀSV) u_j, whatever the number of rows.

        Args:
            moments: of complete rows.
            masked: shape (P, D).

        Returns:
            Shape (P,), nats per masked token.

        Example:
            >>> import maskevidence as me
            >>> model = me.models.PPCA(n_features=4, n_components=1)
            >>> x = model.sample(10)
            >>> masked = torch.tensor([[True, True, False, False]])
            >>> rows = me.score_masks(model, me.Tokens.from_array(x), masked.expand(10, 4)).mean()
            >>> bool(torch.isclose(model.score_moments(me.GaussianMoments.from_rows(x), masked)[0], rows))
            True
        """
        self._check_width(len(moments.mean))
        noise = self.noise_variances
        scaled = self.loadings / noise[:, None]
        second = moments.about(self.mean).to(noise.dtype)
        scores = []
        for part in masked.split(_MASKS_AT_ONCE):
            posterior = self._posterior(~part)
            weights = torch.where(part[:, None, :], 0.0, scaled.T)  # (P, K, D), VᵀS by one matrix product
            projected = weights @ second
            inner = projected @ weights.mT
            latent = posterior.covariance @ self.loadings.T
            spread = posterior.covariance @ inner @ posterior.covariance
            residual = (
                torch.diagonal(second) - 2 * (latent * projected).sum(1) + self._quadratic(spread)
            )
            scores.append(expected_score(residual, noise + self._quadratic(posterior.covariance), part))
        return torch.cat(scores)

    def _posterior(self, visible: Bool[Tensor, "B D"]) -> _Posterior:
        k = self.n_components
        scaled = self.loadings / self.noise_variances[:, None]
        outer = (scaled[:, :, None] * self.loadings[:, None, :]).reshape(self.n_features, k * k)
        precision = (visible.to(outer.dtype) @ outer).reshape(-1, k, k)
        factor = torch.linalg.cholesky(precision + torch.eye(k, dtype=outer.dtype, device=outer.device))
        return _Posterior(factor, torch.cholesky_inverse(factor))

    def _quadratic(self, matrix: Float[Tensor, "B K K"]) -> Float[Tensor, "B D"]:
        """w_jᵀ C w_j for every matrix C and feature j, as one matrix product."""
        k = self.n_components
        outer = (self.loadings[:, :, None] * self.loadings[:, None, :]).reshape(self.n_features, k * k)
        return matrix.reshape(-1, k * k) @ outer.T
