"""What conditionals and evidence estimators need of a latent-variable model, and densities they share."""

import math
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence.models.vae.noise import Noise

LOG_2PI = math.log(2 * math.pi)


@runtime_checkable
class LatentModel(Protocol):
    """z ~ N(0, I_K), x ~ p(x | z) with independent tokens, and an encoder q(z | x) = N(mean, scale²)."""

    n_components: int

    @property
    def blank(self) -> float:
        """What stands for a token that is not seen, in standard units."""
        ...

    def encode(
        self, x: Float[Tensor, "*rows D"]
    ) -> tuple[Float[Tensor, "*rows K"], Float[Tensor, "*rows K"]]:
        """Mean and log scale of q(z | x)."""
        ...

    def decode(self, z: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows D"]:
        """The parameter of p(x_j | z) for each token."""
        ...

    def log_likelihood(
        self, x: Float[Tensor, "*rows_x D"], decoded: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows D"]:
        """log p(x_j | z) of each token, nats."""
        ...

    def draw(self, decoded: Float[Tensor, "B n D"], noise: Noise) -> Float[Tensor, "B n D"]:
        """x ~ p(x | z)."""
        ...


def log_standard_normal(z: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows"]:
    """log N(z; 0, I), nats."""
    return -0.5 * (z.square().sum(-1) + z.shape[-1] * LOG_2PI)


def log_normals(
    z: Float[Tensor, "B S K"], mean: Float[Tensor, "B F K"], log_scale: Float[Tensor, "B F K"]
) -> Float[Tensor, "B S F"]:
    """log N(z_s; mean_f, scale_f²) of every draw under every Gaussian, nats, by matrix products.

    About the Gaussians' centre, so that little cancels where their means are far from 0.

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
