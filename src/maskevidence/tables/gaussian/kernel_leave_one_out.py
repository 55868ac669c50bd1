"""Each visible token of a row given the others under a mixture of kernels, by one pass over the kernels."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence.tables.gaussian.family import LOG_2PI
from maskevidence.tables.gaussian.kernels import MAX_ELEMENTS, KernelPart
from maskevidence.tables.gaussian.precision import DensePrecision

_LOG2_E = math.log2(math.e)  # logs to base 2, since torch's exp2 takes half the time of its exp


@torch.no_grad()
def log_leave_one_out(
    part: KernelPart, centred: Float[Tensor, "b D"], bandwidth: Float[Tensor, ""]
) -> Float[Tensor, "b D"]:
    """log p(x_j | x_R without j) of each visible token j, nats; 0 for hidden ones.

    With Λ_R = Σ_RR⁻¹ and g_i = Λ_R (x - a c_i)_R, kernel i expects x_j at x_j - g_ij / (Λ_R)_jj with variance
    h² / (Λ_R)_jj given the others. So its density of the others is that of x_R over N(g_ij / (Λ_R)_jj; 0,
    h² / (Λ_R)_jj), and x_R needs one pass for all j. Relative to the largest kernel of x_R that sum is at
    least 1, so that no term is taken out of it unless it is more than e⁷⁰⁰.

    Args:
        centred: the rows of the part about μ, 0 where hidden.
    """
    assert isinstance(part.precision, DensePrecision)
    square, log_kernels = bandwidth.square(), part.log_kernels(bandwidth)
    (n_rows, width), n_kernels = centred.shape, log_kernels.shape[1]
    visible = torch.ones_like(centred, dtype=torch.bool).scatter(1, part.hidden, False)
    pull, a = part.precision.times(centred), torch.sqrt(1 - square)
    by_kernels, moved = part.pulls.T.contiguous(), None
    at_once = max(1, MAX_ELEMENTS // (n_kernels * width))
    room = centred.new_empty(min(at_once, n_rows), width, n_kernels)  # new memory costs as much as the sums
    result = torch.zeros_like(centred)
    log_kernels = (log_kernels - log_kernels.amax(1, keepdim=True)).mul_(_LOG2_E)
    whole = torch.log2(torch.exp2(log_kernels).sum(1))
    for rows in torch.split(torch.arange(n_rows), at_once):
        across = part.precision.matrix[part.hidden[rows]]  # Λ_HR, and its other columns
        diagonal = part.precision.diagonal - (across * (part.inverse[rows] @ across)).sum(1)
        scale = torch.where(visible[rows], torch.rsqrt(2 * square * diagonal / _LOG2_E), 0.0)
        of_row = (pull[rows] + (part.shift[rows, None] @ across)[:, 0]) * scale
        if part.hidden.shape[1]:
            moved = (by_kernels - across.mT @ part.moves[rows]) * (a * scale[:, :, None])
        elif moved is None:  # the same for all rows
            moved = by_kernels[None] * (a * scale[:1, :, None])
        g = torch.sub(of_row[:, :, None], moved, out=room[: len(rows)])
        others = torch.log2(torch.addcmul(log_kernels[rows, None], g, g, out=g).exp2_().sum(2))
        far = torch.nonzero(torch.isinf(others).any(1)).flatten()
        if len(far):
            g = of_row[far, :, None] - (moved if len(moved) == 1 else moved[far])
            others[far] = torch.logsumexp((log_kernels[rows[far], None] + g.square()) / _LOG2_E, 2) * _LOG2_E
        constant = 0.5 * (LOG_2PI + torch.log(square / diagonal))
        result[rows] = torch.where(visible[rows], (whole[rows, None] - others) / _LOG2_E - constant, 0.0)
    return result
