"""Decoding policies: the order in which a decoder writes, and the probability of what it writes.

A policy (`masks.Policy`) chooses the next tokens by what is visible alone. Its log-probability is the chain
rule along its own order,

    log p(x) = Σ_t Σ_{j shown at step t} log p(x_j | x_visible before step t),

which is that of the decoder which draws each shown value from these conditionals. Over all x, these
probabilities add up to one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor

from maskevidence.design_words import DesignWord, as_design
from maskevidence.errors import InputError
from maskevidence.masks import MaskDesign, Policy
from maskevidence.model import (
    HasBatches,
    HasLogDistributions,
    MaskedModel,
    asked,
    beside,
    not_finite,
)
from maskevidence.score_table import ScoreTable
from maskevidence.support.progress import Advance
from maskevidence.tokens import Tokens

_NUMBERS_IN_A_CALL = 2**24  # probabilities of a call: 64 MiB in single precision


def check_policy(model: MaskedModel, tokens: Tokens, policy: Policy) -> None:
    """Refuse a policy that a model cannot follow, or an order that is too short.

    Raises:
        InputError: the policy needs the distributions of hidden tokens, and the model does not give them; or
            the tokens are not whole numbers; or an observation is longer than the given order.
    """
    policy.n_draws(tokens.n_tokens.cpu().numpy())
    if policy.looks_at_values:
        _check_distributions(model, tokens, f"the policy {policy.policy}")


def _check_distributions(model: MaskedModel, tokens: Tokens, what: str) -> None:
    if not isinstance(model, HasLogDistributions):
        raise InputError(
            f"{what} needs the distributions of hidden tokens, and {type(model).__name__} has no "
            "log_distributions; the policies left-to-right, right-to-left and order can be scored without"
        )
    if tokens.values.is_floating_point() or tokens.values.ndim != 2:
        raise InputError(
            f"{what} needs tokens that are whole numbers, one for each place; these have shape "
            f"{tuple(tokens.values.shape)} and dtype {tokens.values.dtype}"
        )


def score_policy(
    model: MaskedModel, tokens: Tokens, policy: Policy, advance: Advance, batch_size: int = 1024
) -> tuple[ScoreTable, int]:
    """The scores of all steps of a policy on observations that were checked.

    The values of hidden tokens are taken away before the model is asked for distributions, so that the order
    cannot depend on them, whatever the model reads.

    Args:
        model: any `MaskedModel`; one with `log_distributions` for a policy that looks at values.
        tokens: the observations.
        policy: how the next tokens are chosen.
        advance: is told how many steps were scored since the last call.
        batch_size: the number of observations in one call; a model with `batches` decides for itself.

    Returns:
        One row for each observation and step: how many tokens were hidden before it (`size`) and the mean
        log-probability of those that it shows (`score`); and how many times the model was called.

    Raises:
        NumericalError: a log-probability that is not finite.
    """
    tokens = beside(model, tokens)
    n_tokens = tokens.n_tokens.cpu().numpy()
    n_steps = policy.n_draws(n_tokens)
    hidden = tokens.maskable.clone()
    row, draw, score, n_calls, n_values = [], [], [], 0, 0
    with torch.no_grad():
        if policy.looks_at_values:
            n_values = _distributions(model, tokens[:1], tokens.maskable[:1]).shape[1]
        for step in range(int(n_steps.max())):
            unfinished = np.flatnonzero(n_steps > step)
            for part in _calls(model, tokens, unfinished, batch_size, n_values):
                at = torch.from_numpy(part).to(hidden.device)
                shown, log_probs = _step(model, tokens[at], hidden[at], policy, step)
                hidden[at] &= ~shown
                row.append(part)
                draw.append(np.full_like(part, step))
                score.append((log_probs.sum(1) / shown.sum(1)).cpu().double().numpy())
                advance(len(part))
                n_calls += 1
    rows, draws = np.concatenate(row), np.concatenate(draw)
    ids, n_bytes = tokens.ids.cpu().numpy(), tokens.n_bytes
    size = n_tokens[rows] - policy.steps(n_tokens[rows], draws)[1]
    table = ScoreTable(
        ids[rows],
        draws,
        size,
        n_tokens[rows],
        np.concatenate(score),
        None if n_bytes is None else n_bytes.cpu().numpy()[rows],
    )
    return table, n_calls


def decode(
    model: MaskedModel, tokens: Tokens, policy: Policy | MaskDesign | str, generator: Generator | None = None
) -> Tokens:
    """Write the maskable tokens of observations as the decoder of a policy does.

    Args:
        model: a `MaskedModel` with `log_distributions`.
        tokens: the observations; their maskable values are not read.
        policy: how the next tokens are chosen: a `Policy`, or a word such as "policy:confidence".
        generator: of the values that are drawn; by default torch's own.

    Returns:
        The same observations with drawn values.

    Raises:
        InputError: a model without `log_distributions`, or tokens that are not whole numbers.

    Example:
        >>> import maskevidence as me
        >>> uniform = me.models.MaskedLM.from_callable(lambda x: torch.zeros(*x.shape, 4), mask_token_id=4)
        >>> every = torch.ones(3, 5, dtype=torch.bool)
        >>> blank = Tokens(torch.zeros(3, 5, dtype=torch.int64), every, ~every, torch.arange(3))
        >>> decode(uniform, blank, Policy("entropy"), torch.Generator().manual_seed(0)).values.shape
        torch.Size([3, 5])
    """
    word = as_design(policy)
    if not isinstance(word.design, Policy) or word != DesignWord(word.design):
        raise InputError(
            f"decoding takes a policy alone, not {policy}; give one such as Policy('confidence')"
        )
    policy = word.design
    check_policy(model, tokens, policy)
    _check_distributions(model, tokens, "decoding")
    tokens = beside(model, tokens)
    n_values = _distributions(model, tokens[:1], tokens.maskable[:1]).shape[1]
    hidden, values = tokens.maskable.clone(), tokens.values.masked_fill(tokens.maskable, 0)
    n_steps = policy.n_draws(tokens.n_tokens.cpu().numpy())
    with torch.no_grad():
        for step in range(int(n_steps.max())):
            unfinished = np.flatnonzero(n_steps > step)
            for part in _calls(model, tokens, unfinished, len(tokens), n_values):
                at = torch.from_numpy(part).to(hidden.device)
                batch = replace(tokens, values=values)[at]
                listed = _distributions(model, batch, hidden[at])
                shown = _next(policy, batch, hidden[at], step, listed)
                drawn = torch.multinomial(listed[shown[hidden[at]]].exp().cpu(), 1, generator=generator)
                place = torch.nonzero(shown)
                values[at[place[:, 0]], place[:, 1]] = drawn[:, 0].to(values)
                hidden[at] &= ~shown
    return replace(tokens, values=values)


def _step(
    model: MaskedModel, tokens: Tokens, hidden: Bool[Tensor, "b D"], policy: Policy, step: int
) -> tuple[Bool[Tensor, "b D"], Float[Tensor, "b D"]]:
    """The tokens that a step shows, and the log-probability of each, 0 elsewhere."""
    if not policy.looks_at_values:
        shown = _next(policy, tokens, hidden, step)
        log_probs = torch.where(shown, asked(model, tokens, hidden), 0.0)
        return shown, _finite(log_probs, tokens)
    blank = replace(tokens, values=tokens.values.masked_fill(hidden, 0))
    listed = _distributions(model, blank, hidden)
    shown = _next(policy, tokens, hidden, step, listed)
    own = listed[shown[hidden]].gather(1, tokens.values[shown][:, None].long())[:, 0]
    log_probs = own.new_zeros(hidden.shape).index_put(torch.nonzero(shown, as_tuple=True), own)
    return shown, _finite(log_probs, tokens)


def _finite(log_probs: Float[Tensor, "b D"], tokens: Tokens) -> Float[Tensor, "b D"]:
    if not bool(torch.isfinite(log_probs).all()):
        raise not_finite(log_probs, tokens)
    return log_probs


def _next(
    policy: Policy,
    tokens: Tokens,
    hidden: Bool[Tensor, "b D"],
    step: int,
    listed: Float[Tensor, "n V"] | None = None,
) -> Bool[Tensor, "b D"]:
    """The tokens that a policy shows next.

    Args:
        policy: how they are chosen.
        tokens: the observations; their values are not read.
        hidden: what is still hidden.
        step: 0, 1, ...
        listed: the distributions of the hidden tokens, row by row; None for a policy that does not look.
    """
    n_tokens = tokens.n_tokens.cpu().numpy()
    block, _, n_shown = (
        torch.from_numpy(numbers).to(hidden.device)
        for numbers in policy.steps(n_tokens, np.full_like(n_tokens, step))
    )
    place = tokens.maskable.cumsum(1) - 1
    size = tokens.n_tokens if policy.blocks is None else torch.full_like(tokens.n_tokens, policy.blocks)
    candidate = hidden & (place // size[:, None] == block[:, None])
    if listed is None or not policy.looks_at_values:
        urgency = -_turn(policy, place, tokens).float()
    else:
        urgency = listed.new_zeros(hidden.shape)
        urgency[hidden] = _certainty(policy, listed)
    urgency = torch.where(candidate, urgency, -torch.inf)
    rank = torch.argsort(torch.argsort(urgency, dim=1, descending=True, stable=True), dim=1)
    return candidate & (rank < n_shown[:, None])


def _turn(policy: Policy, place: Int64[Tensor, "b D"], tokens: Tokens) -> Int64[Tensor, "b D"]:
    """The turn of each token in an order that is known beforehand."""
    if policy.policy == "left-to-right":
        return place
    if policy.policy == "right-to-left":
        return tokens.n_tokens[:, None] - 1 - place
    assert policy.order is not None
    return torch.argsort(torch.tensor(policy.order, device=place.device))[place.clamp(min=0)]


def _certainty(policy: Policy, listed: Float[Tensor, "n V"]) -> Float[Tensor, " n"]:
    """How certain each distribution is, by the measure of the policy."""
    if policy.policy == "entropy":
        return torch.xlogy(listed.exp(), listed.exp()).sum(1)
    largest = listed.topk(min(2, listed.shape[1]), dim=1).values.exp()
    if policy.policy == "confidence" or largest.shape[1] == 1:
        return largest[:, 0]
    return largest[:, 0] - largest[:, 1]


def _distributions(model: MaskedModel, tokens: Tokens, hidden: Bool[Tensor, "b D"]) -> Float[Tensor, "n V"]:
    """The model's answer for all hidden tokens, after a check of its shape."""
    assert isinstance(model, HasLogDistributions)
    listed = model.log_distributions(tokens, hidden)
    if not isinstance(listed, Tensor) or listed.ndim != 2 or len(listed) != int(hidden.sum()):
        raise InputError(
            f"log_distributions of {type(model).__name__} answers for other places than the "
            f"{int(hidden.sum())} that are hidden; it must give a tensor of shape (n_hidden, V), row by row"
        )
    return listed


def _calls(
    model: MaskedModel, tokens: Tokens, rows: Int64[np.ndarray, " n"], batch_size: int, n_values: int
) -> Iterator[Int64[np.ndarray, " n_in_call"]]:
    """The observations of each call, few enough for the probabilities of `n_values` values at each token."""
    parts: Iterable[Int64[np.ndarray, " n_in_call"]]
    if isinstance(model, HasBatches):
        present = (tokens.maskable | tokens.context).sum(1).cpu().numpy()[rows]
        parts = (rows[part] for part in model.batches(present))
    else:
        parts = (rows[start : start + batch_size] for start in range(0, len(rows), batch_size))
    at_once = max(1, _NUMBERS_IN_A_CALL // max(1, n_values * tokens.width))
    for part in parts:
        yield from (part[start : start + at_once] for start in range(0, len(part), at_once))
