"""VAEs with linear-Gaussian decoders, and the equivalent PPCAs."""

import numpy as np
import torch
from torch import nn

import maskevidence as me

D, K, NOISE = 6, 2, 0.5


class LinearEncoder(nn.Module):
    """q(z | x) = N(A x, diag scale²)."""

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.log_scale = nn.Parameter(torch.log(scale))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean = x @ self.weight.T
        return mean, self.log_scale.expand_as(mean)


class LinearDecoder(nn.Module):
    """The linear decoder W z."""

    def __init__(self, loadings: torch.Tensor) -> None:
        super().__init__()
        self.loadings = nn.Parameter(loadings)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        return z @ self.loadings.T


def loadings(d: int = D, k: int = K, seed: int = 0) -> torch.Tensor:
    """W with orthogonal columns, so that complete rows have posteriors with independent dimensions."""
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(d, k, generator=generator, dtype=torch.float64)).Q
    return basis * torch.linspace(1.5, 2.5, k, dtype=torch.float64)


def linear_vae(
    w: torch.Tensor, noise: float = NOISE, *, skill: float = 1.0, wider: float = 1.0, **options: object
) -> tuple[me.models.VAE, me.models.PPCA]:
    """A VAE with its own units that equals a PPCA, and that PPCA.

    Args:
        w: loadings with orthogonal columns, in standard units.
        noise: σ² in standard units.
        skill: the factor from the posterior's means to the encoder's.
        wider: the factor from the posterior's scales to the encoder's.
        options: of the VAE.
    """
    curvature = (w.square().sum(0) + noise) / noise
    encoder = LinearEncoder(skill * (w / noise / curvature).T.contiguous(), wider / curvature.sqrt())
    vae = me.models.VAE(encoder, LinearDecoder(w.clone()), n_features=len(w), **options)
    vae.tokens_given_latent.set_noise_variance(noise)
    shift, scale = torch.linspace(-1, 2, len(w), dtype=torch.float64), 1.7
    with torch.no_grad():
        vae.tokens_given_latent.shift.copy_(shift)
        vae.tokens_given_latent.scale.fill_(scale)
    return vae, me.models.PPCA.from_parameters(scale * w, scale**2 * noise, shift)


def rows_and_masks(ppca: me.models.PPCA, n: int = 30, seed: int = 0) -> tuple[me.Tokens, torch.Tensor]:
    """Rows drawn from the model with some absent tokens, and a mask for each."""
    rng = np.random.default_rng(seed)
    x = ppca.sample(n, seed=seed)
    x[rng.random(x.shape) < 0.15] = np.nan
    x[:, 0] = np.nan_to_num(x[:, 0])
    tokens = me.Tokens.from_array(x, ids=np.arange(n) * 3 + 1)
    masked = tokens.maskable & torch.from_numpy(rng.random(x.shape) < 0.5)
    masked[~masked.any(1), 0] = True
    return tokens, masked
