"""Sums of kernels of one width in one column."""

import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence.tables.gaussian.kernels import MAX_ELEMENTS

_REACH, _N_TERMS = 2.0, 25  # 2²⁵/25! is 2e-18
FEWEST = 16  # values in a box, on average; fewer are summed one by one


def log_kernel_sums(
    x: Float[Tensor, " n"], centres: Float[Tensor, " N"], variance: Float[Tensor, ""]
) -> Float[Tensor, " n"]:
    """log Σ_i exp(-(x - c_i)²/2v) of many values.

    Values are in boxes of half-width d = 2 v / (range of the centres). With u_i = b - c_i for the middle b of
    a box, ū their mean under the weights w_i = exp(-u_i²/2v) and δ = x - b,

        Σ_i exp(-(x - c_i)²/2v) = exp(-δ ū/v - δ²/2v) Σ_i w_i exp(-δ (u_i - ū)/v),

    whose last exponents are at most 2 in size, so that 25 terms of their series have all digits.

    Source:
        Greengard and Strain (1991), The Fast Gauss Transform.

    Example:
        >>> x = torch.linspace(-3, 3, 1000, dtype=torch.float64)
        >>> log_kernel_sums(x, torch.zeros(1, dtype=torch.float64), torch.tensor(0.5))[0].item()
        -9.0
    """
    reach = (centres.max() - centres.min()).clamp(min=torch.sqrt(variance) * 1e-3)
    half = _REACH * variance / reach
    boxes, of = torch.unique(torch.round(x / (2 * half)), return_inverse=True)
    if len(boxes) * FEWEST > len(x) or torch.is_grad_enabled():
        scale, at_once = torch.rsqrt(2 * variance), max(1, MAX_ELEMENTS // (4 * len(centres)))
        parts = torch.split(x * scale, at_once)
        return torch.cat([torch.logsumexp(-(x[:, None] - centres * scale).square(), 1) for x in parts])
    middle = boxes * 2 * half
    u = middle[:, None] - centres
    weight = -u.square() / (2 * variance)
    top = weight.amax(1)
    weight = torch.exp(weight - top[:, None])
    mean = (weight * u).sum(1) / weight.sum(1)
    ratio, delta = (u - mean[:, None]) * (-half / variance), x - middle[of]
    series = ratio / torch.arange(1, _N_TERMS, device=x.device)[:, None, None]
    moments = torch.cat([weight[None], series]).cumprod_(0).sum(2)
    powers = torch.linalg.vander(delta / half, N=_N_TERMS)
    total = torch.linalg.vecdot(powers, moments.T[of])
    return torch.log(total) + top[of] - delta * mean[of] / variance - delta.square() / (2 * variance)
