"""The log evidence of a Bernoulli model to a tolerance: an integral over the latent space, refined.

Rows with neighbouring posteriors share a grid of their own: a box around their modes, whose spacing starts at
the posteriors' width. A log-concave density has one mode, and falls at least exponentially beyond it, so that
what lies outside a box is less than what lies in its outer parts.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maskevidence.errors import NumericalError
from maskevidence.models.bernoulli import posterior_nodes
from maskevidence.models.bernoulli.posterior_nodes import posterior_mode
from maskevidence.models.bernoulli.quadrature import Importance, Nodes
from maskevidence.models.bernoulli.shared_nodes import Decoder, log_likelihoods

MOST_NODES = 2**21
_ROWS, _NODES = 64, 2**11  # that share a box, and of its first grid: rows are parted until they are no more
_ELEMENTS = 2**19  # most elements of an array over rows and nodes


@dataclass(frozen=True)
class Integral:
    """Log evidences with how exact they are.

    Attributes:
        log_evidence: shape (B,); nats per observation, float64.
        error: the largest change of one of them at the last refinement, and for a grid what may lie beyond
            its ends: nats, an upper bound where refinement converges.
        n_nodes: how many were needed at most for one row.
    """

    log_evidence: Float[Tensor, " B"]
    error: float
    n_nodes: int


def integrate(
    decoder: Decoder,
    values: Float[Tensor, "B D"],
    maskable: Bool[Tensor, "B D"],
    context: Bool[Tensor, "B D"],
    tolerance: float,
    most_nodes: int,
) -> Integral:
    """log p(maskable | context) on grids, until no row's changes by more than the tolerance.

    The spacing is halved while a log evidence changes by more; then a box grows at each end whose outer tenth
    holds too much of a posterior.

    Raises:
        NumericalError: the tolerance is not reached with `most_nodes` nodes a box; says which was.
    """
    n_terms = 1 + bool(context.any())
    found = _masses(decoder, values, maskable | context, tolerance / n_terms, most_nodes)
    if n_terms == 1:
        return found
    known = _masses(decoder, values, context, tolerance / n_terms, most_nodes)
    return Integral(
        found.log_evidence - known.log_evidence, found.error + known.error, max(found.n_nodes, known.n_nodes)
    )


class _Box(NamedTuple):
    """Where the grid of some rows lies: both ends and the spacing in each dimension, each of shape (K,)."""

    low: Float[Tensor, " K"]
    high: Float[Tensor, " K"]
    spacing: Float[Tensor, " K"]

    def n_nodes(self) -> float:
        return float(torch.ceil((self.high - self.low) / self.spacing + 1).prod())

    def axes(self) -> list[Tensor]:
        counts = torch.ceil((self.high - self.low) / self.spacing).long() + 1
        return [
            low + step * torch.arange(int(count), dtype=low.dtype, device=low.device)
            for low, step, count in zip(self.low, self.spacing, counts, strict=True)
        ]

    def nodes(self) -> Nodes:
        """The trapezoidal rule for an integrand that vanishes at the ends: equal weights times the prior."""
        axes = self.axes()
        points = torch.cartesian_prod(*axes).reshape(-1, len(axes))
        log_cell = torch.log(self.spacing).sum() - 0.5 * len(axes) * math.log(2 * math.pi)
        return Nodes(points, log_cell - 0.5 * points.square().sum(1))


def _masses(decoder: Decoder, values: Tensor, visible: Tensor, tolerance: float, most_nodes: int) -> Integral:
    mode = posterior_mode(decoder, values, visible)
    spread = 6 * torch.diagonal(torch.cholesky_inverse(mode.factor), dim1=1, dim2=2).sqrt()
    low, high = mode.point - spread, mode.point + spread
    spacing = torch.diagonal(mode.factor @ mode.factor.mT, dim1=1, dim2=2).rsqrt()
    log_mass = torch.empty(len(values), dtype=values.dtype, device=values.device)
    error, n_nodes = 0.0, 0
    waiting = [torch.arange(len(values), device=values.device)]
    while waiting:
        rows = waiting.pop()
        box = _Box(low[rows].amin(0), high[rows].amax(0), spacing[rows].amin(0))
        if len(rows) > _ROWS or (len(rows) > 1 and box.n_nodes() > _NODES):
            widest = int(((box.high - box.low) / box.spacing).argmax())
            order = rows[torch.argsort(mode.point[rows, widest])]
            waiting += [order[len(order) // 2 :], order[: len(order) // 2]]
            continue
        part = _refine_box(decoder, values[rows], visible[rows], box, tolerance, most_nodes)
        log_mass[rows] = part.log_evidence
        error, n_nodes = max(error, part.error), max(n_nodes, part.n_nodes)
    return Integral(log_mass, error, n_nodes)


def _refine_box(
    decoder: Decoder, values: Tensor, visible: Tensor, box: _Box, tolerance: float, most_nodes: int
) -> Integral:
    last, reached = None, math.inf
    while True:
        n_nodes = box.n_nodes()
        if n_nodes > most_nodes:
            raise NumericalError(
                f"the integral over the latent space reached {reached:.2g} nats with at most {most_nodes:,} "
                f"nodes, tolerance {tolerance:g}; allow more nodes, a larger tolerance, or "
                "integration=Importance()"
            )
        nodes = box.nodes()
        log_mass = log_masses(decoder, nodes, values, visible)
        change = math.inf if last is None else float((log_mass - last).abs().max())
        if last is None or change <= tolerance / 2:
            share = _share_at_the_ends(decoder, nodes, values, visible, box, log_mass)
            most = tolerance / (4 * len(box.low))  # at each end, so that all of them are half the tolerance
            if bool((share > most).any()):
                wider = 0.3 * (box.high - box.low) * (share > most)
                last, box = None, box._replace(low=box.low - wider[0], high=box.high + wider[1])
                continue
            if last is not None:
                return Integral(log_mass, change + float(share.sum()), int(n_nodes))
        reached = min(reached, change)
        last, box = log_mass, box._replace(spacing=box.spacing / 2)


def _share_at_the_ends(
    decoder: Decoder, nodes: Nodes, values: Tensor, visible: Tensor, box: _Box, log_mass: Tensor
) -> Float[Tensor, "2 K"]:
    """The largest share of a posterior in the outer tenth of a box at each end of each dimension."""
    share = torch.zeros(2, len(box.low), dtype=values.dtype, device=values.device)
    tenth = 0.1 * (box.high - box.low)
    for end, far in enumerate((nodes.points < box.low + tenth, nodes.points > box.high - tenth)):
        for axis, outer in enumerate(far.T):
            there = Nodes(nodes.points[outer], nodes.log_weights[outer])
            share[end, axis] = (log_masses(decoder, there, values, visible) - log_mass).max().exp()
    return share


def log_masses(
    decoder: Decoder, nodes: Nodes, values: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
) -> Float[Tensor, " B"]:
    """log Σ_q w_q p(x_visible | z_q), some nodes at a time, nats, shape (B,)."""
    size = max(64, _ELEMENTS // len(values))
    masses = [
        torch.logsumexp(log_weights + log_likelihoods(decoder, values, visible, points), 1)
        for points, log_weights in zip(
            torch.split(nodes.points, size), torch.split(nodes.log_weights, size), strict=True
        )
    ]
    return masses[0] if len(masses) == 1 else torch.logsumexp(torch.stack(masses, 1), 1)


def grid_evidence(
    decoder: Decoder, nodes: Nodes, values: Tensor, maskable: Tensor, context: Tensor
) -> Float[Tensor, " B"]:
    """log p(maskable | context) by the same nodes for all rows, nats, shape (B,)."""
    joint = log_masses(decoder, nodes, values, maskable | context)
    if not bool(context.any()):
        return joint
    return joint - log_masses(decoder, nodes, values, context)


def importance_evidence(
    decoder: Decoder, rule: Importance, values: Tensor, maskable: Tensor, context: Tensor
) -> Float[Tensor, " B"]:
    """log p(maskable | context) at each row's own nodes, shape (B,)."""
    joint = torch.logsumexp(posterior_nodes.log_joints(decoder, rule, values, maskable | context)[1], 1)
    if not bool(context.any()):
        return joint
    return joint - torch.logsumexp(posterior_nodes.log_joints(decoder, rule, values, context)[1], 1)


def refine_importance(
    decoder: Decoder,
    values: Tensor,
    maskable: Tensor,
    context: Tensor,
    rule: Importance,
    tolerance: float,
    most_nodes: int,
) -> Integral:
    """Importance sampling with twice as many nodes until no log evidence changes by more than the tolerance.

    Raises:
        NumericalError: the tolerance is not reached; says which was.
    """
    last, reached = None, math.inf
    while rule.n_nodes <= most_nodes:
        log_evidence = importance_evidence(decoder, rule, values, maskable, context)
        if last is not None:
            change = float((log_evidence - last).abs().max())
            reached = min(reached, change)
            if change <= tolerance:
                return Integral(log_evidence, change, rule.n_nodes)
        last, rule = log_evidence, replace(rule, n_nodes=2 * rule.n_nodes)
    raise NumericalError(
        f"importance sampling reached {reached:.2g} nats with {rule.n_nodes // 2:,} nodes, tolerance "
        f"{tolerance:g}; allow more nodes or a larger tolerance"
    )
