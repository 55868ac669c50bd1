"""The two ways in which a VAE computes its conditionals."""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maskevidence.models.noise import Noise
from maskevidence.models.vae.encoding_decoding import EncodingDecoding, encode_decode
from maskevidence.models.vae.importance_sampling import ImportanceSampling, WeightedDraws, weighted_draws
from maskevidence.models.vae.latent_model import LatentModel

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
    """Draws of z given the visible tokens, with weights that sum to 1 over the draws of a row.

    Args:
        model: networks and likelihood.
        x: shape (B, D); finite, and anything where neither visible nor to be predicted.
        visible: shape (B, D).
        rule: how z is drawn.
        noise: the source of the draws.
    """
    if isinstance(rule, ImportanceSampling):
        draws = weighted_draws(model, x, visible, rule, noise)
        return draws._replace(log_weights=torch.log_softmax(draws.log_weights, 1))
    decoded = model.decode(encode_decode(model, x, visible, rule, noise))
    log_weights = decoded.new_full(decoded.shape[:2], -math.log(rule.chains))
    return WeightedDraws(decoded, model.log_likelihood(x[:, None], decoded), log_weights)
