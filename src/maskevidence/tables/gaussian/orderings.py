"""The scores of all nested masks of an order, from one Cholesky factor of a Gaussian's covariance.

The order of the tokens is: context, then the tokens to hide (those hidden first at the end), then the rest.
With C = L Lᵀ and z = L⁻¹(x - μ), given the first r tokens, token t >= r has residual Σ_{s=r}^{t} L_ts z_s and
variance Σ_{s=r}^{t} L_ts². At size M the tokens t >= r are hidden, r = n_context + n_tokens - M.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from maskevidence.tables.gaussian.family import LOG_2PI, normal_log_density

_BLOCK = 12  # prefixes per step: more take more work, fewer more steps


def scores_of_own_orders(
    factor: Float[Tensor, "b D D"],
    centred: Float[Tensor, "b D"],
    n_context: Int64[Tensor, " b"],
    n_tokens: Int64[Tensor, " b"],
) -> Float[Tensor, "b D"]:
    """Scores at sizes 1..D, nats, for rows with different orders, and so different factors.

    Residuals and variances are reversed cumulative sums along the rows of L∘z and L∘L.
    """
    width = centred.shape[1]
    white = torch.linalg.solve_triangular(factor, centred[:, :, None], upper=False)[:, :, 0]
    residual = (factor * white[:, None, :]).flip(2).cumsum(2).flip(2)
    variance = factor.square().flip(2).cumsum(2).flip(2)
    position = torch.arange(width, device=centred.device)
    hidden = (position[:, None] >= position) & (
        position[None, :, None] < (n_context + n_tokens)[:, None, None]
    )
    log_density = normal_log_density(residual, torch.where(hidden, variance, 1.0))
    total = torch.where(hidden, log_density, 0.0).sum(1)
    size = position + 1
    first = (n_context + n_tokens)[:, None] - size
    score = total.gather(1, first.clamp(min=0)) / size
    return torch.where(size <= n_tokens[:, None], score, 0.0)


def scores_of_one_order(
    factor: Float[Tensor, "E E"], centred: Float[Tensor, "b E"], n_context: int
) -> Float[Tensor, "b n"]:
    """Scores at sizes 1..n, nats, n = E - n_context, for rows that share one order.

    All variances are one (E, E) matrix. The residuals, (b, E, E) numbers, are never formed: for a block of
    prefixes r, with a_t the residual of token t when only the tokens after the block are hidden,

        Σ_t (a_t + Σ_{s in block, s>=r} L_ts z_s)² / var_rt

    is expanded into products of a², a and z with matrices that all rows share.
    """
    width = len(factor)
    white = torch.linalg.solve_triangular(factor, centred.mT, upper=False).mT
    variance = factor.square().flip(1).cumsum(1).flip(1)
    hidden = torch.ones_like(factor, dtype=torch.bool).tril()  # token t (row) is hidden at prefix r (column)
    variance = torch.where(hidden, variance, 1.0)
    precision = torch.where(hidden, 1.0 / variance, 0.0)
    log_determinant = torch.where(hidden, LOG_2PI + torch.log(variance), 0.0).sum(0)

    residual = centred[:, :0]  # a_t of the tokens t >= end
    distances = []
    for end in range(width, n_context, -_BLOCK):
        start = max(n_context, end - _BLOCK)
        n_block = end - start
        residual = torch.cat([torch.zeros_like(centred[:, start:end]), residual], dim=1)
        loadings, weight = factor[start:, start:end], precision[start:, start:end]
        latent = white[:, start:end]
        kept = torch.ones_like(factor[:n_block, :n_block]).triu()  # (r, s): s >= r
        weighted = weight[:, :, None] * loadings[:, None, :] * kept  # (t, r, s)
        gram = (weighted.permute(1, 2, 0) @ loadings) * kept[:, None, :]  # (r, s, s')
        slope = 2 * residual @ weighted.flatten(1) + latent @ gram.permute(2, 0, 1).flatten(1)
        slope = slope.unflatten(1, (n_block, n_block))  # (b, r, s)
        distances.append(residual.square() @ weight + (slope @ latent[:, :, None])[:, :, 0])
        residual = residual + latent @ loadings.mT
    size = torch.arange(width - n_context, 0, -1, device=factor.device)
    distance = torch.cat(distances[::-1], dim=1)
    return (-0.5 * (log_determinant[n_context:] + distance) / size).flip(1)
