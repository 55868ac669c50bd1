"""The paper's linear encoder: a Gaussian over the latent space whose mean and scale are affine in x."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


class LinearEncoder(nn.Module):
    """q(z | x) = N(A x + a, diag exp(2 (C x + c))).

    Args:
        n_features: D.
        n_components: K.
        generator: of the initial A, whose entries have standard deviation 1/√D; C, a and c start at 0.
    """

    def __init__(self, n_features: int, n_components: int, generator: torch.Generator) -> None:
        super().__init__()
        start = torch.randn(n_components, n_features, generator=generator, dtype=torch.float64)
        self.mean_weight = nn.Parameter(start / math.sqrt(n_features))
        self.mean_bias = nn.Parameter(torch.zeros(n_components, dtype=torch.float64))
        self.scale_weight = nn.Parameter(torch.zeros(n_components, n_features, dtype=torch.float64))
        self.scale_bias = nn.Parameter(torch.zeros(n_components, dtype=torch.float64))

    def forward(self, x: Float[Tensor, "B D"]) -> tuple[Float[Tensor, "B K"], Float[Tensor, "B K"]]:
        """Mean and log standard deviation of z, each of shape (B, K)."""
        return x @ self.mean_weight.T + self.mean_bias, x @ self.scale_weight.T + self.scale_bias
