"""The log evidence of a Bernoulli model at given nodes, and refined to a tolerance.

Refinement integrates over the latent space. Rows with neighbouring posteriors share a grid: a box around
their modes, whose spacing starts at the width of the posteriors. A log-concave density has one mode and falls
at least exponentially beyond it, so that the mass outside a box is less than the mass in its outer parts.
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
from maskevidence.models.bernoulli.quadrature import Importance, Integration, Nodes
from maskevidence.models.bernoulli.shared_nodes import Decoder, log_likelihoods
from maskevidence.tokens import Tokens

MAX_NODES = 2**21
_MAX_ROWS, _MAX_FIRST_NODES = 64, 2**11  # rows that share a box, and nodes of its first grid
_MAX_ELEMENTS = 2**19  # of an array over rows and nodes


@dataclass(frozen=True)
class RefinedIntegral:
    """Log evidences and their numerical error."""

    log_evidence: Float[Tensor, " B"]  # nats per observation, float64
    # the largest change of a log evidence at the last refinement, plus, for a grid, what may lie beyond its
    # ends; nats, an upper bound if refinement converges
    error: float
    n_nodes: int  # the largest number of nodes that a row needed


def log_evidence(decoder: Decoder, rule: Integration, tokens: Tokens) -> Float[Tensor, " B"]:
    """log p(maskable tokens | context) at the nodes of a rule, nats, shape (B,)."""
    joint = _log_mass(decoder, rule, tokens.values, tokens.maskable | tokens.context)
    if not bool(tokens.context.any()):
        return joint
    return joint - _log_mass(decoder, rule, tokens.values, tokens.context)


def _log_mass(decoder: Decoder, rule: Integration, values: Tensor, visible: Tensor) -> Float[Tensor, " B"]:
    if isinstance(rule, Importance):
        return torch.logsumexp(posterior_nodes.log_joints(decoder, rule, values, visible)[1], 1)
    nodes = rule.nodes(decoder.loadings.shape[1], decoder.bias.dtype, decoder.bias.device)
    return log_masses(decoder, nodes, values, visible)


def integrate_by_importance(
    decoder: Decoder, rule: Importance, tokens: Tokens, tolerance: float, max_nodes: int
) -> RefinedIntegral:
    """Importance sampling with ever more nodes until no log evidence changes by more than the tolerance."""
    last, reached = None, math.inf
    while rule.n_nodes <= max_nodes:
        evidence = log_evidence(decoder, rule, tokens)
        if last is not None:
            change = float((evidence - last).abs().max())
            reached = min(reached, change)
            if change <= tolerance:
                return RefinedIntegral(evidence, change, rule.n_nodes)
        last, rule = evidence, replace(rule, n_nodes=2 * rule.n_nodes)
    raise NumericalError(
        f"importance sampling reached {reached:.2g} nats with {rule.n_nodes // 2:,} nodes, tolerance "
        f"{tolerance:g}; allow more nodes or a larger tolerance"
    )


def integrate_on_grids(decoder: Decoder, tokens: Tokens, tolerance: float, max_nodes: int) -> RefinedIntegral:
    """log p(maskable | context) on grids that are refined until no row changes by more than the tolerance.

    The spacing is halved while a log evidence changes by more. Then the box grows at each end whose outer
    tenth holds too much of a posterior.
    """
    values, n_terms = tokens.values, 1 + bool(tokens.context.any())
    joint = _masses(decoder, values, tokens.maskable | tokens.context, tolerance / n_terms, max_nodes)
    if n_terms == 1:
        return joint
    context = _masses(decoder, values, tokens.context, tolerance / n_terms, max_nodes)
    return RefinedIntegral(
        joint.log_evidence - context.log_evidence,
        joint.error + context.error,
        max(joint.n_nodes, context.n_nodes),
    )


class _Box(NamedTuple):
    """The grid of some rows: both ends and the spacing in each dimension, each of shape (K,)."""

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

    def ends(self, points: Float[Tensor, "Q K"]) -> Bool[Tensor, "E Q"]:
        """Which points lie in the outer tenth at the lower and the upper end of each dimension, E = 2·K."""
        tenth = 0.1 * (self.high - self.low)
        return torch.cat([(points < self.low + tenth).T, (points > self.high - tenth).T])

    def nodes(self) -> Nodes:
        """The trapezoidal rule for an integrand that vanishes at the ends: equal cells times the prior."""
        axes = self.axes()
        points = torch.cartesian_prod(*axes).reshape(-1, len(axes))
        log_cell = torch.log(self.spacing).sum() - 0.5 * len(axes) * math.log(2 * math.pi)
        return Nodes(points, log_cell - 0.5 * points.square().sum(1))


def _masses(
    decoder: Decoder, values: Tensor, visible: Tensor, tolerance: float, max_nodes: int
) -> RefinedIntegral:
    """log p(x_visible) of every row, on grids that rows with neighbouring posteriors share."""
    mode, factor = posterior_mode(decoder, values, visible)
    spread = 6 * torch.diagonal(torch.cholesky_inverse(factor), dim1=1, dim2=2).sqrt()
    low, high = mode - spread, mode + spread
    spacing = torch.diagonal(factor @ factor.mT, dim1=1, dim2=2).rsqrt()
    log_mass = torch.empty(len(values), dtype=values.dtype, device=values.device)
    error, n_nodes = 0.0, 0
    waiting = [torch.arange(len(values), device=values.device)]
    while waiting:
        rows = waiting.pop()
        box = _Box(low[rows].amin(0), high[rows].amax(0), spacing[rows].amin(0))
        if len(rows) > _MAX_ROWS or (len(rows) > 1 and box.n_nodes() > _MAX_FIRST_NODES):
            widest = int(((box.high - box.low) / box.spacing).argmax())
            order = rows[torch.argsort(mode[rows, widest])]
            waiting += [order[len(order) // 2 :], order[: len(order) // 2]]
            continue
        part = _refine_box(decoder, values[rows], visible[rows], box, tolerance, max_nodes)
        log_mass[rows] = part.log_evidence
        error, n_nodes = max(error, part.error), max(n_nodes, part.n_nodes)
    return RefinedIntegral(log_mass, error, n_nodes)


def _refine_box(
    decoder: Decoder, values: Tensor, visible: Tensor, box: _Box, tolerance: float, max_nodes: int
) -> RefinedIntegral:
    """Refine and widen the grid of some rows until none of their log masses changes by the tolerance."""
    last, reached = None, math.inf
    while True:
        n_nodes = box.n_nodes()
        if n_nodes > max_nodes:
            raise NumericalError(
                f"the integral over the latent space reached {reached:.2g} nats with at most {max_nodes:,} "
                f"nodes, tolerance {tolerance:g}; allow more nodes, a larger tolerance, or "
                "integration=Importance()"
            )
        nodes = box.nodes()
        log_mass, at_ends = _masses_and_parts(decoder, nodes, values, visible, box.ends(nodes.points))
        change = math.inf if last is None else float((log_mass - last).abs().max())
        if last is None or change <= tolerance / 2:
            share = (at_ends - log_mass).amax(1).exp().reshape(2, -1)  # the largest one of any posterior
            allowed = tolerance / (4 * len(box.low))  # at each end, so that all ends are half the tolerance
            if bool((share > allowed).any()):
                wider = 0.3 * (box.high - box.low) * (share > allowed)
                last, box = None, box._replace(low=box.low - wider[0], high=box.high + wider[1])
                continue
            if last is not None:
                return RefinedIntegral(log_mass, change + float(share.sum()), int(n_nodes))
        reached = min(reached, change)
        last, box = log_mass, box._replace(spacing=box.spacing / 2)


def log_masses(
    decoder: Decoder, nodes: Nodes, values: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
) -> Float[Tensor, " B"]:
    """log Σ_q w_q p(x_visible | z_q) at nodes that all rows share, some at a time; nats, shape (B,)."""
    none = torch.zeros(0, len(nodes.points), dtype=torch.bool, device=values.device)
    return _masses_and_parts(decoder, nodes, values, visible, none)[0]


def _masses_and_parts(
    decoder: Decoder,
    nodes: Nodes,
    values: Float[Tensor, "B D"],
    visible: Bool[Tensor, "B D"],
    subsets: Bool[Tensor, "E Q"],
) -> tuple[Float[Tensor, " B"], Float[Tensor, "E B"]]:
    """`log_masses` over all nodes, shape (B,), and over subsets of them, shape (E, B); nats."""
    size = max(64, _MAX_ELEMENTS // len(values))
    masses = []
    for points, log_weights, chosen in zip(
        torch.split(nodes.points, size),
        torch.split(nodes.log_weights, size),
        torch.split(subsets, size, dim=1),
        strict=True,
    ):
        log_joint = log_weights + log_likelihoods(decoder, values, visible, points)
        parts = [log_joint, *(log_joint[:, subset] for subset in chosen)]
        masses.append(torch.stack([torch.logsumexp(part, 1) for part in parts]))
    total = masses[0] if len(masses) == 1 else torch.logsumexp(torch.stack(masses), 0)
    return total[0], total[1:]
