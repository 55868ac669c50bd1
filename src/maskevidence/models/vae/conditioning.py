"""The two ways in which a VAE computes its conditionals: importance sampling, or encoding and decoding."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maskevidence.errors import InputError
from maskevidence.models.noise import Noise
from maskevidence.models.normal import log_normals, log_standard_normal
from maskevidence.models.vae.latent_model import LatentModel


@dataclass(frozen=True)
class EncodingDecoding:
    """p(x_j | x_visible) by a chain z ~ q(z | x), x_hidden ~ p(x | z) whose visible tokens are held fixed.

        p(x_j | x_R) ≈ (1/chains) Σ_s p(x_j | z_s),    z_s the latent draw of chain s after `steps` steps

    If q were the posterior of the complete row, the chain would be a Gibbs sampler whose limit is the exact
    conditional. It starts from blank hidden tokens (their mean), so that few steps leave a bias; an encoder
    that is not the posterior leaves a bias after any number of steps. The prior enters only through the
    encoder.

    Args:
        chains: number of independent chains.
        steps: number of encodings in each chain, 1 or more.
        gradient_steps: number of steps, the last ones, that are differentiated through. Draws of 0/1 tokens
            pass a gradient as if they were their probabilities.

    Raises:
        InputError: a number below 1, or more gradient steps than steps.

    Source:
        Rezende, Mohamed, Wierstra (2014), Stochastic Backpropagation, appendix F.
    """

    chains: int = 16
    steps: int = 10
    gradient_steps: int = 1

    def __post_init__(self) -> None:
        if self.chains < 1 or self.steps < 1 or not 1 <= self.gradient_steps <= self.steps:
            raise InputError(
                f"chains={self.chains}, steps={self.steps}, gradient_steps={self.gradient_steps}; give one "
                "or more of each, and no more gradient steps than steps"
            )

    @property
    def draws(self) -> int:
        """The number of draws of z: one for each chain."""
        return self.chains


def encode_decode(
    model: LatentModel,
    x: Float[Tensor, "B D"],
    visible: Bool[Tensor, "B D"],
    rule: EncodingDecoding,
    noise: Noise,
) -> Float[Tensor, "B chains K"]:
    """The latent draw of each chain at its last step."""
    filled = blank_filled(model, x, visible)
    for step in range(rule.steps):
        differentiable = torch.is_grad_enabled() and rule.steps - step <= rule.gradient_steps
        with torch.set_grad_enabled(differentiable):
            mean, log_scale = model.encode(filled)
            z = mean + torch.exp(log_scale) * noise.normal(rule.chains, mean.shape[-1])
            if step + 1 == rule.steps:
                return z
            filled = filled_by(model, z, x, visible, noise)
    raise AssertionError("a rule has one step or more")


def blank_filled(
    model: LatentModel, x: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
) -> Float[Tensor, "B 1 D"]:
    """The rows with blanks for the tokens that are not visible, shape (B, 1, D)."""
    return torch.where(visible, x, model.blank)[:, None]


def filled_by(
    model: LatentModel, z: Float[Tensor, "B n K"], x: Tensor, visible: Tensor, noise: Noise
) -> Float[Tensor, "B n D"]:
    """The rows with draws from p(x | z) for the tokens that are not visible, shape (B, n, D)."""
    return torch.where(visible[:, None], x[:, None], model.draw(model.decode(z), noise))


@dataclass(frozen=True)
class ImportanceSampling:
    """p(x_j | x_visible) by draws of z that are weighted with the posterior given the visible tokens.

        p(x_j | x_R) ≈ Σ_s w_s p(x_j | z_s),    w_s ∝ p(x_R | z_s) p(z_s) / r(z_s),    Σ_s w_s = 1

    The proposal r is a mixture. `prior_draws` of the draws come from p(z). The others come in turn from
    q(z | x) for each of `fills` versions of the row, whose hidden tokens were filled by `steps` steps of
    encoding and decoding (with 0 steps there is one version, whose hidden tokens are blank). The weight of
    every draw has the whole mixture in its denominator, so that none exceeds draws / prior_draws times its
    mean under the prior. The answer is exact in the limit of many draws, whatever the encoder is.

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


class WeightedDraws(NamedTuple):
    """Draws of z with their weights."""

    decoded: Float[Tensor, "B S D"]  # the decoder's answer at each draw
    log_likelihood: Float[Tensor, "B S D"]  # log p(x_j | z_s), nats
    log_weights: Float[Tensor, "B S"]


def weighted_draws(
    model: LatentModel,
    x: Float[Tensor, "B D"],
    visible: Bool[Tensor, "B D"],
    rule: ImportanceSampling,
    noise: Noise,
) -> WeightedDraws:
    """Draws of z given the visible tokens, with log p(x_visible | z) + log p(z) - log r(z) as log weights.

    The expectation of the weights is p(x_visible).
    """
    encoder_draws, k = rule.draws - rule.prior_draws, model.n_components
    filled = blank_filled(model, x, visible)
    if rule.steps:
        with torch.no_grad():
            chains = EncodingDecoding(min(rule.fills, encoder_draws), rule.steps)
            filled = filled_by(model, encode_decode(model, x, visible, chains, noise), x, visible, noise)
    mean, log_scale = model.encode(filled)  # (B, F, K)
    of_fill = torch.arange(encoder_draws, device=x.device) % filled.shape[1]
    z = mean[:, of_fill] + torch.exp(log_scale)[:, of_fill] * noise.normal(encoder_draws, k)
    if rule.prior_draws:
        z = torch.cat([z, noise.normal(rule.prior_draws, k)], 1)
    log_share = torch.log(torch.bincount(of_fill).to(x.dtype) / rule.draws)
    log_proposal = torch.logsumexp(log_normals(z, mean, log_scale) + log_share, 2)
    log_prior = log_standard_normal(z)
    if rule.prior_draws:
        log_proposal = torch.logaddexp(log_proposal, log_prior + math.log(rule.prior_draws / rule.draws))
    decoded = model.decode(z)
    log_likelihood = model.log_likelihood(x[:, None], decoded)
    log_visible = torch.where(visible[:, None], log_likelihood, 0.0).sum(2)
    return WeightedDraws(decoded, log_likelihood, log_visible + log_prior - log_proposal)


Conditioning = ImportanceSampling | EncodingDecoding


def conditioning_from(settings: Conditioning | dict[str, Any]) -> Conditioning:
    """The rule with these fields, as a saved model's config.json holds them; a rule is returned unchanged.

    Example:
        >>> conditioning_from({"chains": 4, "steps": 2})
        EncodingDecoding(chains=4, steps=2, gradient_steps=1)
    """
    if not isinstance(settings, dict):
        return settings
    return EncodingDecoding(**settings) if "chains" in settings else ImportanceSampling(**settings)


def posterior_draws(
    model: LatentModel,
    x: Float[Tensor, "B D"],
    visible: Bool[Tensor, "B D"],
    rule: Conditioning,
    noise: Noise,
) -> WeightedDraws:
    """Draws of z given the visible tokens, with weights that sum to 1 over the draws of a row."""
    if isinstance(rule, ImportanceSampling):
        draws = weighted_draws(model, x, visible, rule, noise)
        return draws._replace(log_weights=torch.log_softmax(draws.log_weights, 1))
    decoded = model.decode(encode_decode(model, x, visible, rule, noise))
    log_weights = decoded.new_full(decoded.shape[:2], -math.log(rule.chains))
    return WeightedDraws(decoded, model.log_likelihood(x[:, None], decoded), log_weights)
