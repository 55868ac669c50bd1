"""The log evidence of a Bernoulli model at given nodes, or refined to a tolerance."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maskevidence.core.errors import NumericalError
from maskevidence.core.tokens import Tokens
from maskevidence.tables.latent import posterior_nodes
from maskevidence.tables.latent.quadrature import Grid, Importance, Integration, Nodes
from maskevidence.tables.latent.shared_nodes import Decoder, log_likelihoods

MAX_NODES = 2**21
_MAX_ELEMENTS = 2**19  # of an array over rows and nodes


@dataclass(frozen=True)
class RefinedIntegral:
    """Log evidences with their numerical error."""

    log_evidence: Float[Tensor, " B"]  # nats per observation, float64
    # nats: the largest change from coarser nodes and, by importance sampling, from other points
    error: float
    n_nodes: int


def log_evidence(decoder: Decoder, rule: Integration, tokens: Tokens) -> Float[Tensor, " B"]:
    """log p(maskable tokens | context) at the rule's nodes, nats, shape (B,)."""
    joint = _log_mass(decoder, rule, tokens.values, tokens.maskable | tokens.context)
    if not bool(tokens.context.any()):
        return joint
    return joint - _log_mass(decoder, rule, tokens.values, tokens.context)


def refine(
    decoder: Decoder, rule: Integration, tokens: Tokens, tolerance: float, most_nodes: int
) -> RefinedIntegral:
    """Refine the rule until no log evidence changes by more than the tolerance.

    The change is measured against the last rule; with importance sampling, against the last two rules and
    other points, because a single change was up to 200 times smaller than the error.
    """
    n_components, sampled = decoder.loadings.shape[1], isinstance(rule, Importance)
    earlier, reached = list[Tensor](), math.inf
    while (n_nodes := rule.n_nodes_over(n_components)) <= most_nodes:
        evidence = log_evidence(decoder, rule, tokens)
        change = _difference(evidence, earlier) if len(earlier) == 1 + sampled else math.inf
        if isinstance(rule, Importance) and change <= tolerance:
            other = log_evidence(decoder, replace(rule, seed=rule.seed + 1), tokens)
            change = max(change, _difference(evidence, [other]))
        reached = min(reached, change)
        if change <= tolerance:
            return RefinedIntegral(evidence, change, n_nodes)
        earlier, rule = [*earlier, evidence][-1 - sampled :], rule.finer()
    otherwise = ", or integration=Importance()" if isinstance(rule, Grid) else ""
    raise NumericalError(
        f"the integral over the latent space reached {reached:.2g} nats with at most {most_nodes:,} nodes, "
        f"tolerance {tolerance:g}; allow more nodes or a larger tolerance{otherwise}"
    )


def _difference(evidence: Float[Tensor, " B"], others: list[Tensor]) -> float:
    """The largest difference between the log evidences of this rule and the others, nats."""
    return max(float((evidence - other).abs().max()) for other in others)


def _log_mass(decoder: Decoder, rule: Integration, values: Tensor, visible: Tensor) -> Float[Tensor, " B"]:
    if isinstance(rule, Importance):
        return torch.logsumexp(posterior_nodes.log_joints(decoder, rule, values, visible)[1], 1)
    nodes = rule.nodes(decoder.loadings.shape[1], decoder.bias.dtype, decoder.bias.device)
    return log_masses(decoder, nodes, values, visible)


def log_masses(
    decoder: Decoder, nodes: Nodes, values: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
) -> Float[Tensor, " B"]:
    """log Σ_q w_q p(x_visible | z_q) at nodes shared by all rows, in chunks; nats, shape (B,)."""
    size = max(64, _MAX_ELEMENTS // len(values))
    parts = zip(torch.split(nodes.points, size), torch.split(nodes.log_weights, size), strict=True)
    masses = [
        torch.logsumexp(log_weights + log_likelihoods(decoder, values, visible, points), 1)
        for points, log_weights in parts
    ]
    return masses[0] if len(masses) == 1 else torch.logsumexp(torch.stack(masses), 0)
