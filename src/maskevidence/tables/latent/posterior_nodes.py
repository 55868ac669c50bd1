"""Bernoulli tokens given each row's own latent nodes, by importance sampling from the posteriors.

For latent spaces that a grid cannot cover. The log posterior of z given visible tokens is concave (a logistic
regression with a Gaussian prior), so Newton's method finds its only mode.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus
from torch.utils.checkpoint import checkpoint

from maskevidence.core.errors import NumericalError
from maskevidence.tables.gaussian.family import cholesky
from maskevidence.tables.latent.quadrature import Importance
from maskevidence.tables.latent.shared_nodes import Decoder

_MAX_ELEMENTS = 2**19  # of an array over a batch's rows, their nodes and all tokens
_WIDER = 1.5  # the proposal's standard deviations, relative to the curvature's at the mode
_MAX_STEPS = 100
_TOLERANCE = 1e-8


def posterior_mode(
    decoder: Decoder, values: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
) -> tuple[Float[Tensor, "B K"], Float[Tensor, "B K K"]]:
    """The mode of each row's log p(z | x_visible), and the Cholesky factor of its curvature there.

    Newton's method with step halving, until no step is longer than `_TOLERANCE` times 1 + |z|.
    """
    loadings, k = decoder.loadings, decoder.loadings.shape[1]
    x, seen = torch.where(visible, values, 0.0), visible.to(values.dtype)
    outer = (loadings[:, :, None] * loadings[:, None, :]).flatten(1)
    identity = torch.eye(k, dtype=x.dtype, device=x.device)

    def log_joint(z: Tensor) -> Tensor:
        logits = decoder.logits(z)
        return (x * logits - seen * softplus(logits)).sum(1) - 0.5 * z.square().sum(1)

    def curvature(z: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.sigmoid(decoder.logits(z))
        return (seen * p * (1 - p)) @ outer, (x - seen * p) @ loadings - z

    z = torch.zeros(len(x), k, dtype=x.dtype, device=x.device)
    value = log_joint(z)
    smallest = max(_TOLERANCE, 50 * float(torch.finfo(x.dtype).eps))
    for _ in range(_MAX_STEPS):
        flat, gradient = curvature(z)
        factor = cholesky(flat.reshape(-1, k, k) + identity)
        step = torch.cholesky_solve(gradient[:, :, None], factor)[:, :, 0]
        if bool((step.abs().amax(1) <= smallest * (1 + z.abs().amax(1))).all()):
            return z, factor
        share = torch.ones_like(value)
        for _ in range(30):
            new = log_joint(z + share[:, None] * step)
            worse = new < value - 1e-12 * value.abs()
            if not bool(worse.any()):
                break
            share = torch.where(worse, share / 2, share)
        z = z + share[:, None] * step
        value = log_joint(z)
    raise NumericalError(
        f"the mode of the latent posterior was not found in {_MAX_STEPS} Newton steps; "
        "the loadings may be too large: look at their size"
    )


def _nodes(
    mode: Float[Tensor, "B K"], factor: Float[Tensor, "B K K"], points: Float[Tensor, "h K"]
) -> tuple[Tensor, Tensor]:
    """Nodes z, shape (B, 2h, K), and log weights log φ(z)/q(z)/2h, shape (B, 2h), with q the mixture."""
    k = points.shape[1]
    # L Lᵀ = A: L⁻ᵀ ε has covariance A⁻¹
    around = torch.linalg.solve_triangular(factor.mT, points.T.expand(len(mode), -1, -1), upper=True)
    centre = mode[:, None, :]
    z = torch.cat([points.expand(len(centre), -1, -1), centre + _WIDER * around.mT], 1)
    log_prior = -0.5 * z.square().sum(2)
    white = ((z - centre) @ factor) / _WIDER
    log_determinant = torch.log(torch.diagonal(factor, dim1=1, dim2=2)).sum(1)
    log_around = -0.5 * white.square().sum(2) + log_determinant[:, None] - k * math.log(_WIDER)
    log_proposal = torch.logaddexp(log_prior, log_around)  # of both halves: ½ and 1/h make 1/2h
    return z, log_prior - log_proposal + math.log(2 / z.shape[1])


def log_joints(
    decoder: Decoder,
    rule: Importance,
    values: Float[Tensor, "B D"],
    visible: Bool[Tensor, "B D"],
) -> tuple[Float[Tensor, "B Q K"], Float[Tensor, "B Q"]]:
    """Each row's nodes, and log w_q p(x_visible | z_q) there; the weights w_q sum to about 1.

    Gradients flow through the integrand only; the nodes are fixed.
    """
    points = rule.normal_points(decoder.loadings.shape[1], torch.float64, values.device)
    with torch.no_grad():  # float64, because Newton's steps do not converge in float32
        exact = Decoder(decoder.loadings.double(), decoder.bias.double())
        z, log_weights = _nodes(*posterior_mode(exact, values.double(), visible), points)
        z, log_weights = z.to(values.dtype), log_weights.to(values.dtype)
    x, seen = torch.where(visible, values, 0.0), visible.to(values.dtype)

    def normaliser(z: Tensor, seen: Tensor) -> Tensor:
        return (softplus(decoder.logits(z)) @ seen[:, :, None])[:, :, 0]

    linear = (z @ (x @ decoder.loadings)[:, :, None])[:, :, 0] + (x @ decoder.bias)[:, None]
    return z, log_weights + linear - _in_parts(normaliser, values.shape[1], z, seen)


def log_conditionals_at_own(
    decoder: Decoder,
    rule: Importance,
    values: Float[Tensor, "B D"],
    masked: Bool[Tensor, "B D"],
    visible: Bool[Tensor, "B D"],
) -> Float[Tensor, "B D"]:
    """log Σ_q r_q p(x_j | z_q) at each row's own nodes where masked, 0 elsewhere; nats, shape (B, D).

    Nodes and weights depend only on the visible tokens, so the probabilities of a token's two values sum to
    1.
    """
    z, log_joint = log_joints(decoder, rule, values, visible)
    log_posterior = torch.log_softmax(log_joint, 1)
    sign = torch.where(values > 0.5, 1.0, -1.0).to(z.dtype)

    def mixed(z: Tensor, sign: Tensor, log_posterior: Tensor) -> Tensor:
        each = logsigmoid(decoder.logits(z) * sign[:, None, :])
        return torch.logsumexp(log_posterior[:, :, None] + each, 1)

    return torch.where(masked, _in_parts(mixed, values.shape[1], z, sign, log_posterior), 0.0)


def _in_parts(
    function: Callable[..., Tensor], width: int, z: Float[Tensor, "B Q K"], *others: Tensor
) -> Tensor:
    """function(z, *others), some rows at a time; large intermediates are computed again for the gradient."""
    size = max(1, _MAX_ELEMENTS // (z.shape[1] * width))
    parts = zip(*(torch.split(each, size) for each in (z, *others)), strict=True)
    if torch.is_grad_enabled():
        return torch.cat([checkpoint(function, *part, use_reentrant=False) for part in parts])
    return torch.cat([function(*part) for part in parts])
