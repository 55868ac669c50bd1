"""Bernoulli tokens given latent nodes shared by all observations, by matrix products.

With logits η_qj = w_j·z_q + b_j, the visible tokens R of a row have

    log p(x_R | z_q) = Σ_R x_j η_qj - Σ_R softplus(η_qj)
                     = (W_Rᵀ x_R)·z_q + b_Rᵀ x_R - Σ_R softplus(η_qj),

The first part needs only the K numbers W_Rᵀ x_R of a row. The last part is one matrix product of the masks
with the table of softplus(η), or a single vector if the rows share their mask. With the posterior weights
r_q ∝ w_q p(x_R | z_q) (softmax over the nodes)

    p(x_j | x_R) = Σ_q r_q p(x_j | z_q)

is a product of the weights with the table of the probabilities. No array spans rows, nodes and tokens.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.nn.functional import logsigmoid, softplus

from maskevidence.tables.latent.quadrature import Nodes
from maskevidence.tables.noise import chosen

_MAX_TABLE = 2**19  # elements of a table of nodes and tokens
_MAX_POSTERIOR = 2**25  # elements of the posterior weights of a batch
MAX_ORDER = 2**22  # nodes times tokens of an order that is scored at once
_MIN_ALIKE = 4  # rows per mask, on average, from which sharing the mask's columns pays


class Decoder(NamedTuple):
    """logit p(x_j = 1 | z) = w_j·z + b_j."""

    loadings: Float[Tensor, "D K"]  # W, shape (D, K)
    bias: Float[Tensor, " D"]  # b, shape (D,)

    def logits(self, points: Float[Tensor, "*Q K"]) -> Float[Tensor, "*Q D"]:
        """The logits η at every point and token."""
        return points @ self.loadings.T + self.bias

    def of(self, tokens: Int64[Tensor, " d"]) -> "Decoder":
        """The decoder of a subset of tokens."""
        return Decoder(self.loadings[tokens], self.bias[tokens])


def log_likelihoods(
    decoder: Decoder,
    values: Float[Tensor, "B D"],
    visible: Bool[Tensor, "B D"],
    points: Float[Tensor, "Q K"],
) -> Float[Tensor, "B Q"]:
    """log p(x_visible | z_q) for every row and node, nats, shape (B, Q)."""
    x = torch.where(visible, values, 0.0)
    linear = (x @ decoder.loadings) @ points.T + (x @ decoder.bias)[:, None]
    alike = bool((visible == visible[:1]).all())
    seen = decoder.of(torch.nonzero(visible[0]).flatten()) if alike else decoder
    normalisers = []
    for part in torch.split(points, max(1, _MAX_TABLE // max(1, len(seen.bias)))):
        table = softplus(seen.logits(part))
        normalisers.append(table.sum(1)[None] if alike else visible.to(table.dtype) @ table.T)
    return linear - torch.cat(normalisers, 1)


def log_conditionals_at_shared(
    decoder: Decoder,
    nodes: Nodes,
    values: Float[Tensor, "B D"],
    masked: Bool[Tensor, "B D"],
    visible: Bool[Tensor, "B D"],
) -> Float[Tensor, "B D"]:
    """log Σ_q r_q p(x_j | z_q) for the masked tokens, 0 elsewhere; nats, shape (B, D)."""
    groups = list(_alike(masked, visible))
    at_once = max(1, _MAX_POSTERIOR // len(nodes.points))
    parts = []
    if len(groups) * _MIN_ALIKE <= len(values):
        for rows in groups:
            hidden = torch.nonzero(masked[rows.start]).flatten()
            for some in torch.split(torch.arange(rows.start, rows.stop, device=values.device), at_once):
                answer = _of_tokens(decoder, nodes, values[some], visible[some], hidden)
                empty = answer.new_zeros(len(some), values.shape[1])
                parts.append(empty.index_copy(1, hidden, answer))
    else:
        everything = torch.arange(values.shape[1], device=values.device)
        for some in torch.split(torch.arange(len(values), device=values.device), at_once):
            answer = _of_tokens(decoder, nodes, values[some], visible[some], everything, masked[some])
            parts.append(torch.where(masked[some], answer, 0.0))
    return torch.cat(parts) if parts else torch.zeros_like(values)


def drawn_nodes(
    decoder: Decoder,
    nodes: Nodes,
    values: Float[Tensor, "B D"],
    visible: Bool[Tensor, "B D"],
    uniform: Float[Tensor, " B"],
) -> Int64[Tensor, " B"]:
    """Draw a node for each row, with probability r_q ∝ w_q p(x_visible | z_q)."""
    at_once = max(1, _MAX_POSTERIOR // len(nodes.points))
    drawn = []
    for some, seen, u in zip(
        *(torch.split(rows, at_once) for rows in (values, visible, uniform)), strict=True
    ):
        log_joint = nodes.log_weights + log_likelihoods(decoder, some, seen, nodes.points)
        drawn.append(chosen(torch.softmax(log_joint, 1), u))
    return torch.cat(drawn)


def _alike(masked: Bool[Tensor, "B D"], visible: Bool[Tensor, "B D"]) -> Iterator[slice]:
    """Runs of rows with the same masked and visible tokens."""
    same = (masked[1:] == masked[:-1]).all(1) & (visible[1:] == visible[:-1]).all(1)
    ends = [*(torch.nonzero(~same).flatten() + 1).tolist(), len(masked)]
    start = 0
    for end in ends if len(masked) else []:
        yield slice(start, end)
        start = end


def _of_tokens(
    decoder: Decoder,
    nodes: Nodes,
    values: Float[Tensor, "b D"],
    visible: Bool[Tensor, "b D"],
    tokens: Int64[Tensor, " d"],
    to_answer: Bool[Tensor, "b D"] | None = None,
) -> Float[Tensor, "b d"]:
    """log p(x_j | x_visible) of selected tokens; undefined where `to_answer` is False."""
    log_joint = nodes.log_weights + log_likelihoods(decoder, values, visible, nodes.points)
    posterior = torch.softmax(log_joint, 1)
    hidden = decoder.of(tokens)
    size = max(1, _MAX_TABLE // max(1, len(tokens)))
    white, black = [], []
    for weight, part in zip(torch.split(posterior, size, 1), torch.split(nodes.points, size), strict=True):
        logits = hidden.logits(part)
        white.append(weight @ torch.sigmoid(logits))
        black.append(weight @ torch.sigmoid(-logits))  # 1 - white would lose rare events
    is_white = values[:, tokens] > 0.5
    probability = torch.where(is_white, sum(white[1:], white[0]), sum(black[1:], black[0]))
    # Below this bound the sum may consist of terms that underflowed.
    rare = probability < torch.finfo(probability.dtype).tiny * 1e8
    if to_answer is not None:
        rare = rare & to_answer[:, tokens]
    log_probability = torch.log(torch.where(probability > 0, torch.where(rare, 1.0, probability), 1.0))
    rows, columns = torch.nonzero(rare, as_tuple=True)
    if len(rows) == 0:
        return log_probability
    log_posterior = torch.log_softmax(log_joint, 1)
    exact = []
    for row, column in zip(
        *(torch.split(t, max(1, _MAX_TABLE // posterior.shape[1])) for t in (rows, columns)), strict=True
    ):
        sign = torch.where(is_white[row, column], 1.0, -1.0).to(posterior.dtype)
        logits = (hidden.loadings[column] @ nodes.points.T + hidden.bias[column][:, None]) * sign[:, None]
        exact.append(torch.logsumexp(log_posterior[row] + logsigmoid(logits), 1))
    return log_probability.index_put((rows, columns), torch.cat(exact))


def score_one_order(
    decoder: Decoder,
    nodes: Nodes,
    values: Float[Tensor, " n"],
    context: tuple[Decoder, Float[Tensor, " c"]],
) -> Float[Tensor, " n"]:
    """Scores at sizes n, n - 1, ..., 1 of the nested masks of one row and order, nats, shape (n,).

    log p(x_seen | z_q) for every prefix of the order is a cumulative sum of log p(x_j | z_q) along it;
    multiplying the prefixes' posteriors by the tokens' probabilities gives the scores.

    Args:
        decoder: of the tokens to hide, in the order in which they become visible.
    """
    n = len(values)
    each = logsigmoid(decoder.logits(nodes.points) * (2 * values - 1))  # log p(x_j | z_q), (Q, n)
    of_context = logsigmoid(context[0].logits(nodes.points) * (2 * context[1] - 1)).sum(1)
    before = (nodes.log_weights + of_context)[:, None]
    joint = torch.cat([before, before + each[:, :-1].cumsum(1)], 1)  # log w_q p(x_seen | z_q)
    log_posterior = joint - joint.logsumexp(0)
    probability = log_posterior.exp().T @ each.exp()  # (prefix, token): p(token | prefix)
    hidden = torch.ones(n, n, dtype=torch.bool, device=values.device).triu()
    rare = hidden & (probability < torch.finfo(probability.dtype).tiny * 1e8)
    log_probability = torch.log(torch.where(hidden & ~rare, probability, 1.0))
    prefixes, tokens = torch.nonzero(rare, as_tuple=True)
    if len(prefixes):
        size = max(1, _MAX_TABLE // len(each))
        pieces = zip(torch.split(prefixes, size), torch.split(tokens, size), strict=True)
        exact = [(log_posterior[:, p] + each[:, t]).logsumexp(0) for p, t in pieces]
        log_probability = log_probability.index_put((prefixes, tokens), torch.cat(exact))
    return log_probability.sum(1) / torch.arange(n, 0, -1, device=values.device)
