"""What all Gaussian models share: densities and imputations from conditional means and variances."""

import math
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from maskevidence.errors import InputError
from maskevidence.gaussian_moments import GaussianMoments
from maskevidence.imputation import Imputation
from maskevidence.model import Conditionals
from maskevidence.models.saving import save_model
from maskevidence.tokens import Tokens

LOG_2PI = math.log(2 * math.pi)


class GaussianFamily(nn.Module, ABC):
    """A Gaussian density over D features, by its conditionals and its marginals."""

    conditionals: Conditionals = "exact"
    n_features: int
    mean: nn.Parameter

    @property
    @abstractmethod
    def covariance(self) -> Float[Tensor, "D D"]:
        """The covariance of the features, shape (D, D)."""

    @abstractmethod
    def arguments(self) -> dict[str, Any]:
        """What the class is built with again when the model is loaded."""

    @abstractmethod
    def conditional_moments(
        self, values: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        """Mean and variance of every token that is not visible, given those that are; others mean nothing."""

    @abstractmethod
    def log_density(self, values: Float[Tensor, "B D"], present: Bool[Tensor, "B D"]) -> Float[Tensor, " B"]:
        """log p of the present tokens, the others integrated out, nats, shape (B,)."""

    @abstractmethod
    def score_moments(self, moments: GaussianMoments, masked: Bool[Tensor, "P D"]) -> Float[Tensor, " P"]:
        """The score of each of P masks, averaged over the rows behind the moments, nats, shape (P,)."""

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log N(x_j; mean, variance given the visible tokens) in nats, shape (B, D); 0 where not masked."""
        self._check_width(tokens.width)
        mean, variance = self.conditional_moments(tokens.values, tokens.visible(masked))
        residual = torch.where(masked, tokens.values - mean, 0.0)  # absent values are never read
        log_density = normal_log_density(residual, torch.where(masked, variance, 1.0))
        return torch.where(masked, log_density, 0.0)

    def log_evidence(self, tokens: Tokens) -> Float[Tensor, " B"]:
        """log p(maskable tokens | context), in closed form, nats per observation, shape (B,).

        Example:
            >>> import maskevidence as me
            >>> model = me.models.Gaussian(torch.zeros(1), torch.eye(1))
            >>> model.log_evidence(me.Tokens.from_array([[0.0]])).item()
            -0.918938533204...
        """
        self._check_width(tokens.width)
        joint = self.log_density(tokens.values, tokens.maskable | tokens.context)
        if not bool(tokens.context.any()):
            return joint
        return joint - self.log_density(tokens.values, tokens.context)

    def score_samples(self, x: object) -> Float64[np.ndarray, " N"]:
        """log p of each row, nats, as scikit-learn names it; NaN is missing. Shape (N,)."""
        with torch.no_grad():
            return self.log_evidence(self.tokens(x)).cpu().numpy().astype(np.float64)

    def impute(self, x: object) -> Imputation:
        """Conditional mean and variance of every missing (NaN) value given the row's observed ones.

        Args:
            x: shape (N, D).
        """
        tokens = self.tokens(x)
        self._check_width(tokens.width)
        with torch.no_grad():
            mean, variance = self.conditional_moments(tokens.values, tokens.maskable)
            values = torch.where(tokens.maskable, tokens.values, mean)
            variance = torch.where(tokens.maskable, 0.0, variance)
        return Imputation(*(t.cpu().double().numpy() for t in (values, variance)))

    def sample(self, n: int, seed: int = 0) -> Float64[np.ndarray, "n D"]:
        """Draw n rows from the model, shape (n, D); the same for the same seed.

        Raises:
            InputError: n below 0.
        """
        if n < 0:
            raise InputError(f"n={n}; give a whole number of rows, 0 or more")
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            factor = torch.linalg.cholesky(self.covariance).cpu()
            noise = torch.randn(n, self.n_features, generator=generator, dtype=factor.dtype)
            return (self.mean.cpu() + noise @ factor.T).numpy().astype(np.float64)

    def save(self, folder: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into a folder; `me.models.load` reads them."""
        save_model(self, self.arguments(), folder)

    def tokens(self, x: object) -> Tokens:
        """Rows as tokens in the model's dtype and on its device."""
        return Tokens.from_array(x, dtype=self.mean.dtype).to(self.mean.device)

    def _check_width(self, width: int) -> None:
        if width != self.n_features:
            raise InputError(
                f"the data have {width} columns, the model has {self.n_features} features; "
                "give the columns that it was fitted to"
            )


def normal_log_density(
    residual: Float[Tensor, "*shape"], variance: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """log N(residual; 0, variance), nats."""
    return -0.5 * (LOG_2PI + torch.log(variance) + residual.square() / variance)


def expected_score(
    second_moment: Float[Tensor, "P D"], variance: Float[Tensor, "P D"], masked: Bool[Tensor, "P D"]
) -> Float[Tensor, " P"]:
    """Mean over masked tokens of E log N(residual; 0, variance), from E residual², nats, shape (P,)."""
    variance = torch.where(masked, variance, 1.0)
    expected = -0.5 * (LOG_2PI + torch.log(variance) + second_moment / variance)
    return torch.where(masked, expected, 0.0).sum(1) / masked.sum(1)
