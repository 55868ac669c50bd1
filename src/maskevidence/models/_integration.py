"""The log evidence of a Bernoulli model to a tolerance: an integral over the latent space, refined."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maskevidence.errors import NumericalError
from maskevidence.models import _posterior_nodes
from maskevidence.models._bernoulli_nodes import Decoder, log_likelihoods
from maskevidence.models._quadrature import Grid, Importance, Integration, Nodes

MOST_NODES = 2**21
_COARSEST = 33
_WIDEST = 60.0
_ELEMENTS = 2**19  # most elements of an array over rows and nodes


@dataclass(frozen=True)
class Integral:
    """Log evidences with how exact they are.

    Attributes:
        log_evidence: shape (B,); nats per observation, float64.
        error: the largest change of one of them at the last refinement, and for a grid what may lie beyond
            its ends: nats, an upper bound where refinement converges.
        rule: the nodes that it was made with.
        n_nodes: how many.
    """

    log_evidence: Float[Tensor, " B"]
    error: float
    rule: Integration
    n_nodes: int


def integrate(
    decoder: Decoder,
    values: Float[Tensor, "B D"],
    maskable: Bool[Tensor, "B D"],
    context: Bool[Tensor, "B D"],
    rule: Integration,
    tolerance: float,
    most_nodes: int,
) -> Integral:
    """Refine until no row's log evidence changes by more than the tolerance.

    A grid's spacing is halved; it is made wider until its outer tenth holds less than a tenth of the
    tolerance of every posterior, beyond which a log-concave density only falls faster. Importance sampling
    doubles its points.

    Raises:
        NumericalError: the tolerance is not reached with `most_nodes` nodes; says which was.
    """
    if isinstance(rule, Grid):
        return _refine_grid(decoder, values, maskable, context, tolerance, most_nodes)
    return _refine_importance(decoder, values, maskable, context, rule, tolerance, most_nodes)


def _refine_grid(
    decoder: Decoder,
    values: Tensor,
    maskable: Tensor,
    context: Tensor,
    tolerance: float,
    most_nodes: int,
) -> Integral:
    k = decoder.loadings.shape[1]
    has_context = bool(context.any())
    half_width, spacing = 5.0, 10.0 / (_COARSEST - 1)
    last, change, reached = None, math.inf, math.inf
    while True:
        per_axis = round(2 * half_width / spacing) + 1
        if per_axis**k > most_nodes:
            raise NumericalError(
                f"the integral over the latent space reached {reached:.2g} nats with at most {most_nodes:,} "
                f"nodes, tolerance {tolerance:g}; allow more nodes, a larger tolerance, or "
                "integration=Importance()"
            )
        grid = Grid(per_axis, half_width)
        nodes = grid.nodes(k, values.dtype, values.device)
        log_evidence = grid_evidence(decoder, nodes, values, maskable, context)
        joint = _log_mass(decoder, nodes, values, maskable | context) if has_context else log_evidence
        outside = _share_at_the_ends(decoder, grid, values, maskable | context, joint)
        if outside > tolerance / 10 and half_width < _WIDEST:
            half_width, last = 1.5 * half_width, None
            continue
        if last is not None:
            change = float((log_evidence - last).abs().max())
            reached = min(reached, change + outside)
            if change + outside <= tolerance:
                return Integral(log_evidence, change + outside, grid, grid.n_nodes(k))
        last, spacing = log_evidence, spacing / 2


def grid_evidence(
    decoder: Decoder, nodes: Nodes, values: Tensor, maskable: Tensor, context: Tensor
) -> Float[Tensor, " B"]:
    """log p(maskable | context) by the same nodes for all rows, nats, shape (B,)."""
    joint = _log_mass(decoder, nodes, values, maskable | context)
    if not bool(context.any()):
        return joint
    return joint - _log_mass(decoder, nodes, values, context)


def _log_mass(decoder: Decoder, nodes: Nodes, values: Tensor, visible: Tensor) -> Float[Tensor, " B"]:
    """log Σ_q w_q p(x_visible | z_q), some nodes at a time."""
    size = max(64, _ELEMENTS // len(values))
    masses = [
        torch.logsumexp(log_weights + log_likelihoods(decoder, values, visible, points), 1)
        for points, log_weights in zip(
            torch.split(nodes.points, size), torch.split(nodes.log_weights, size), strict=True
        )
    ]
    return masses[0] if len(masses) == 1 else torch.logsumexp(torch.stack(masses, 1), 1)


def _share_at_the_ends(decoder: Decoder, grid: Grid, values: Tensor, present: Tensor, total: Tensor) -> float:
    """The largest share of a posterior in the outer tenth of a grid."""
    nodes = grid.nodes(decoder.loadings.shape[1], values.dtype, values.device)
    far = nodes.points.abs().amax(1) > 0.9 * grid.half_width
    outer = Nodes(nodes.points[far], nodes.log_weights[far])
    return float((_log_mass(decoder, outer, values, present) - total).max().exp())


def _refine_importance(
    decoder: Decoder,
    values: Tensor,
    maskable: Tensor,
    context: Tensor,
    rule: Importance,
    tolerance: float,
    most_nodes: int,
) -> Integral:
    last, reached = None, math.inf
    while rule.n_nodes <= most_nodes:
        log_evidence = importance_evidence(decoder, rule, values, maskable, context)
        if last is not None:
            change = float((log_evidence - last).abs().max())
            reached = min(reached, change)
            if change <= tolerance:
                return Integral(log_evidence, change, rule, rule.n_nodes)
        last, rule = log_evidence, replace(rule, n_nodes=2 * rule.n_nodes)
    raise NumericalError(
        f"importance sampling reached {reached:.2g} nats with {rule.n_nodes // 2:,} nodes, tolerance "
        f"{tolerance:g}; allow more nodes or a larger tolerance"
    )


def importance_evidence(
    decoder: Decoder, rule: Importance, values: Tensor, maskable: Tensor, context: Tensor
) -> Float[Tensor, " B"]:
    """log p(maskable | context) at each row's own nodes, shape (B,)."""
    joint = torch.logsumexp(_posterior_nodes.log_joints(decoder, rule, values, maskable | context)[1], 1)
    if not bool(context.any()):
        return joint
    return joint - torch.logsumexp(_posterior_nodes.log_joints(decoder, rule, values, context)[1], 1)
