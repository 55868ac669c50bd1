"""Importance sampling of z given the visible tokens, for a VAE's conditionals."""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maskevidence.core.errors import InputError
from maskevidence.tables.gaussian.family import log_normals, log_standard_normal
from maskevidence.tables.latent.latent_model import LatentModel
from maskevidence.tables.noise import Noise


class WeightedDraws(NamedTuple):
    """Draws of z for each row, with their weights."""

    decoded: Float[Tensor, "B S D"]  # the decoder's output at each draw
    log_likelihood: Float[Tensor, "B S D"]  # log p(x_j | z_s), nats
    log_weights: Float[Tensor, "B S"]


@runtime_checkable
class Conditioning(Protocol):
    """A rule that draws z given the visible tokens, such as `ImportanceSampling`."""

    @property
    def draws(self) -> int:
        """The number of draws of z for each row."""
        ...

    def weighted_draws(
        self, model: LatentModel, x: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"], noise: Noise
    ) -> WeightedDraws:
        """Draw z for each row; rows are in standard units."""
        ...


def blank_filled(
    model: LatentModel, x: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
) -> Float[Tensor, "B 1 D"]:
    """The rows with `blank` in place of tokens that are not visible, shape (B, 1, D)."""
    return torch.where(visible, x, model.blank)[:, None]


def filled_by(
    model: LatentModel, z: Float[Tensor, "B n K"], x: Tensor, visible: Tensor, noise: Noise
) -> Float[Tensor, "B n D"]:
    """The rows with tokens that are not visible drawn from p(x | z), shape (B, n, D)."""
    return torch.where(visible[:, None], x[:, None], model.draw(model.decode(z), noise))


@dataclass(frozen=True)
class ImportanceSampling:
    """p(x_j | x_visible) from draws of z, weighted by the posterior given the visible tokens.

        p(x_j | x_R) ≈ Σ_s w_s p(x_j | z_s),    w_s ∝ p(x_R | z_s) p(z_s) / r(z_s),    Σ_s w_s = 1

    The proposal r is a mixture. `prior_draws` of the draws come from p(z). The others come in turn from q(z |
    x) for each of `fills` versions of the row, whose hidden tokens were filled by `steps` steps of encoding
    and decoding (with 0 steps there is one version, whose hidden tokens are blank). The weight of every draw
    has the whole mixture in its denominator, so that no weight exceeds draws / prior_draws times the mean
    weight under the prior. The result is exact in the limit of many draws for any encoder.

    Args:
        draws: number of draws of z, including those from the prior.
        steps: steps of encoding and decoding before the draws.
        prior_draws: number of draws from the prior.
        fills: chains of encoding and decoding, at most as many as there are draws from the encoder.

    Raises:
        InputError: no draws, or no draw that is not from the prior.

    Source:
        Owen and Zhou (2000), Safe and Effective Importance Sampling; Veach and Guibas (1995), Optimally
        Combining Sampling Techniques, for the mixture in the denominator.
    """

    draws: int = 64
    steps: int = 5
    prior_draws: int = 8
    fills: int = 16

    def __post_init__(self) -> None:
        if self.steps < 0 or self.fills < 1 or not 0 <= self.prior_draws < self.draws:
            raise InputError(
                f"draws={self.draws}, steps={self.steps}, prior_draws={self.prior_draws}, fills={self.fills}"
                "; give one draw or more, 0 steps or more, fewer draws from the prior than in total, and one "
                "fill or more"
            )

    def weighted_draws(
        self, model: LatentModel, x: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"], noise: Noise
    ) -> WeightedDraws:
        """Draw z given the visible tokens, each with the weight log p(x_visible | z) + log p(z) - log r(z).

        The expectation of the weights is p(x_visible).
        """
        encoder_draws, k = self.draws - self.prior_draws, model.n_components
        filled = blank_filled(model, x, visible)
        with torch.no_grad():
            for _ in range(self.steps):
                mean, log_scale = model.encode(filled)
                z = mean + torch.exp(log_scale) * noise.normal(min(self.fills, encoder_draws), k)
                filled = filled_by(model, z, x, visible, noise)
        mean, log_scale = model.encode(filled)  # (B, F, K)
        of_fill = torch.arange(encoder_draws, device=x.device) % filled.shape[1]
        z = mean[:, of_fill] + torch.exp(log_scale)[:, of_fill] * noise.normal(encoder_draws, k)
        if self.prior_draws:
            z = torch.cat([z, noise.normal(self.prior_draws, k)], 1)
        log_share = torch.log(torch.bincount(of_fill).to(x.dtype) / self.draws)
        log_proposal = torch.logsumexp(log_normals(z, mean, log_scale) + log_share, 2)
        log_prior = log_standard_normal(z)
        if self.prior_draws:
            log_proposal = torch.logaddexp(log_proposal, log_prior + math.log(self.prior_draws / self.draws))
        decoded = model.decode(z)
        log_likelihood = model.log_likelihood(x[:, None], decoded)
        log_visible = torch.where(visible[:, None], log_likelihood, 0.0).sum(2)
        return WeightedDraws(decoded, log_likelihood, log_visible + log_prior - log_proposal)
