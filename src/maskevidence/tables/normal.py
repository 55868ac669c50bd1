"""Densities, cells and divergences of normal distributions."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence.core.errors import NumericalError


def cholesky(matrices: Float[Tensor, "*B K K"]) -> Float[Tensor, "*B K K"]:
    """The lower Cholesky factors of positive definite matrices.

    Example:
        >>> cholesky(torch.tensor([[4.0]])).tolist()
        [[2.0]]
    """
    factors, failed = torch.linalg.cholesky_ex(matrices)
    if bool(failed.any()):
        raise NumericalError(
            "a covariance of the model is not positive definite in floating-point numbers; look for "
            "extremely large or small parameters, or rescale the data and fit the model again"
        )
    return factors


LOG_2PI = math.log(2 * math.pi)
_NARROW = 0.03  # if (1 + |z|) h is smaller, a cell's mass is its mean density times its width


def normal_log_density(
    residual: Float[Tensor, "*shape"], variance: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """log N(residual; 0, variance), nats."""
    return torch.log(variance).add_(LOG_2PI).add_(residual.square().div_(variance)).mul_(-0.5)


def normal_log_cell(
    residual: Float[Tensor, "*shape"], variance: Float[Tensor, "*shape"], step: Float[Tensor, "*_"]
) -> Float[Tensor, "*shape"]:
    """log [Φ(z + h) - Φ(z - h)] / δ, nats: the mass of the cell of width δ around a value, over its width.

    With s² the variance, z = residual/s and h = δ/2s, both ends are mirrored to the side where Φ is small, so
    that log Φ(b) + log (1 - exp(log Φ(a) - log Φ(b))) keeps its digits in both tails. In a narrow cell the
    mean density is the density at the middle times exp((z² - 1) h²/6), up to terms of (zh)⁴.

    Example:
        >>> one = torch.ones(1, dtype=torch.float64)
        >>> normal_log_cell(40 * one, one, one).item(), normal_log_density(40 * one, one).item()
        (-784.7..., -800.9...)
    """
    wide, scale = residual.double(), variance.double().sqrt()
    z, half = wide.abs() / scale, 0.5 * step / scale
    narrow = half * (1 + z) < _NARROW
    square, of_width = z.square(), half.square()
    middle = -0.5 * (square + LOG_2PI) - torch.log(scale) + (square - 1) * of_width / 6
    middle = middle - (square * (square + 4) - 2) * of_width.square() / 180
    if bool(narrow.all()):
        return middle.to(residual.dtype)
    z, half = torch.where(narrow, 0.0, z), torch.where(narrow, 1.0, half)
    below, above = torch.special.log_ndtr(-z - half), torch.special.log_ndtr(half - z)
    mass = above + torch.log(-torch.expm1(below - above))
    return torch.where(narrow, middle, mass - torch.log(step)).to(residual.dtype)


def log_standard_normal(z: Float[Tensor, "*rows K"]) -> Float[Tensor, "*rows"]:
    """log N(z; 0, I), nats."""
    return -0.5 * (z.square().sum(-1) + z.shape[-1] * LOG_2PI)


def log_normals(
    z: Float[Tensor, "B S K"], mean: Float[Tensor, "B F K"], log_scale: Float[Tensor, "B F K"]
) -> Float[Tensor, "B S F"]:
    """log N(z_s; mean_f, scale_f²) of every draw and Gaussian, nats, by matrix products.

    The squares are expanded around the centre of the Gaussians, to avoid cancellation if the means are far
    from 0.

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


def divergence_from_prior(mean: Float[Tensor, "B K"], log_scale: Float[Tensor, "B K"]) -> Float[Tensor, " B"]:
    """KL(N(mean, scale²) ‖ N(0, I)), nats, shape (B,).

    Source:
        Kingma and Welling (2014), Auto-Encoding Variational Bayes, appendix B.

    Example:
        >>> divergence_from_prior(torch.ones(1, 2), torch.zeros(1, 2)).item()
        1.0
    """
    return 0.5 * (mean.square() + torch.exp(2 * log_scale) - 1).sum(1) - log_scale.sum(1)
