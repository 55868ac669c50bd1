"""The paper's conditionals of a VAE: recursive encoding and decoding."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

import maskevidence as me
from maskevidence.tables.latent.conditioning import WeightedDraws, blank_filled, filled_by
from maskevidence.tables.latent.latent_model import LatentModel
from maskevidence.tables.noise import Noise


@dataclass(frozen=True)
class EncodingDecoding:
    """p(x_j | x_visible) by a chain z ~ q(z | x), x_hidden ~ p(x | z) whose visible tokens are held fixed.

        p(x_j | x_R) ≈ (1/chains) Σ_s p(x_j | z_s),    z_s the latent draw of chain s after `steps` steps

    If q were the posterior of the complete row, the chain would be a Gibbs sampler whose limit is the exact
    conditional. It starts from blank hidden tokens (their mean), so that few steps leave a bias; an encoder
    that is not the posterior leaves a bias after any number of steps. The prior enters only through the
    encoder. Training differentiates through the last step alone.

    Args:
        chains: number of independent chains.
        steps: number of encodings in each chain, 1 or more.

    Raises:
        InputError: a number below 1.

    Source:
        Rezende, Mohamed, Wierstra (2014), Stochastic Backpropagation, appendix F.

    Example:
        >>> rule = EncodingDecoding(chains=4, steps=2)
        >>> model = me.models.VAE(n_features=3, n_components=1, hidden=(2,), conditioning=rule)
        >>> me.estimate_evidence(model, torch.zeros(2, 3).numpy(), me.EverySize(1)).kind
        'approximate'
    """

    chains: int = 16
    steps: int = 10

    def __post_init__(self) -> None:
        if self.chains < 1 or self.steps < 1:
            raise me.InputError(f"chains={self.chains}, steps={self.steps}; give one or more of each")

    @property
    def draws(self) -> int:
        """The number of draws of z: one for each chain."""
        return self.chains

    def weighted_draws(
        self, model: LatentModel, x: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"], noise: Noise
    ) -> WeightedDraws:
        """The latent draw of each chain at its last step, with equal weights."""
        filled = blank_filled(model, x, visible)
        with torch.no_grad():
            for _ in range(self.steps - 1):
                filled = filled_by(model, self._latent(model, filled, noise), x, visible, noise)
        decoded = model.decode(self._latent(model, filled, noise))
        log_likelihood = model.log_likelihood(x[:, None], decoded)
        return WeightedDraws(decoded, log_likelihood, decoded.new_zeros(decoded.shape[:2]))

    def _latent(
        self, model: LatentModel, filled: Float[Tensor, "B n D"], noise: Noise
    ) -> Float[Tensor, "B chains K"]:
        mean, log_scale = model.encode(filled)
        return mean + torch.exp(log_scale) * noise.normal(self.chains, mean.shape[-1])
