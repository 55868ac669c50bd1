"""Decoding policies: the order in which a decoder writes, and the probability of what it writes.

A policy (`masks.Policy`) chooses the next tokens by what is visible alone. Its log-probability is the chain
rule along its own order,

    log p(x) = Σ_t Σ_{j shown at step t} log p(x_j | x_visible before step t),

which is the log-probability that a decoder writes x if it draws each shown value from these conditionals.
Over all x, these probabilities add up to one.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Generator, Tensor

from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.masks.design_words import DesignWord, as_design
from maskevidence.core.masks.policy import Policy
from maskevidence.core.model import MaskedModel, to_device_of
from maskevidence.core.packed_tokens import Observations
from maskevidence.core.scores.ask import Answer, Asker, IntVector, MaskedRows, check_listed, mean_score
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.tokens import Tokens

_INSTEAD = "the policies left-to-right, right-to-left and order can be scored without"


def check_policy(model: MaskedModel, tokens: Observations, policy: Policy) -> None:
    """Raise an InputError if the model cannot follow the policy or the order is too short."""
    policy.n_draws(tokens.n_tokens.cpu().numpy())
    if policy.looks_at_values:
        some = tokens if isinstance(tokens, Tokens) else tokens[:1]
        check_listed(model, some, f"the policy {policy.policy}", _INSTEAD)


def score_policy(asker: Asker, tokens: Tokens, policy: Policy) -> ScoreTable:
    """Score all steps of a policy on observations that were checked before.

    The values of hidden tokens are taken away before the model is asked for distributions, so that the order
    cannot depend on them, whatever the model reads.

    Args:
        asker: asks a model, one with `log_distributions` for a policy that looks at values.

    Returns:
        One row for each observation and step: how many tokens were hidden before it (`size`) and the mean
        log-probability of those that it shows (`score`).
    """
    tokens = to_device_of(asker.model, tokens)
    n_tokens, hidden = tokens.n_tokens.cpu().numpy(), tokens.maskable.clone()
    row, draw, size, score = [], [], [], []
    listed = policy.looks_at_values
    for _, part, answer in steps(asker, tokens, hidden, listed=listed):
        shown = _next(policy, answer, listed=listed)
        own = answer.log_probs
        if listed:
            own = own[shown[answer.hidden]].gather(1, answer.tokens.values[shown][:, None].long())[:, 0]
            own = own.new_zeros(shown.shape).index_put(torch.nonzero(shown, as_tuple=True), own)
        hidden[torch.from_numpy(part).to(hidden.device)] &= ~shown
        row.append(part)
        size.append(answer.hidden.sum(1).cpu().numpy())
        draw.append(n_tokens[part] - size[-1] + shown.sum(1).cpu().numpy() - 1)
        score.append(mean_score(own, answer.tokens, shown).cpu().double().numpy())
    rows, draws, sizes, scores = (np.concatenate(parts) for parts in (row, draw, size, score))
    if asker.advance is not None:
        asker.advance(int(policy.n_draws(n_tokens).sum()) - len(rows))  # steps not needed
    n_bytes = None if tokens.n_bytes is None else tokens.n_bytes.cpu().numpy()[rows]
    return ScoreTable(tokens.ids.cpu().numpy()[rows], draws, sizes, n_tokens[rows], scores, n_bytes)


def steps(
    asker: Asker, tokens: Tokens, hidden: Bool[Tensor, "B D"], *, listed: bool
) -> Iterator[tuple[int, IntVector, Answer]]:
    """Ask for the hidden tokens at each step of decoding, until no token is hidden.

    Args:
        tokens: B observations, on the model's device; a decoder writes its tokens into their values.
        hidden: shape (B, D); the hidden tokens. After each answer, its reader must show some of them.

    Yields:
        The step, 0, 1, ..., some of the observations with hidden tokens, and the answer for these tokens.
    """
    ask = asker.distributions if listed else asker.conditionals
    for step in itertools.count():
        size = hidden.sum(1).cpu().numpy()
        rows = np.flatnonzero(size)
        if len(rows) == 0:
            return
        of_rows = hidden[torch.from_numpy(rows).to(hidden.device)]
        for answer in ask(MaskedRows(tokens, rows, size[rows], of_rows.__getitem__)):
            yield step, rows[answer.part], answer


def decode(
    model: MaskedModel, tokens: Tokens, policy: Policy | MaskDesign | str, generator: Generator | None = None
) -> Tokens:
    """Write the maskable tokens of observations with the decoder of a policy.

    Args:
        model: a `MaskedModel` with `log_distributions`.
        tokens: the observations; their maskable values are not read.
        policy: how the next tokens are chosen: a `Policy`, or a word such as "policy:confidence".
        generator: draws the values; by default torch's own.

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
    check_listed(model, tokens, "decoding", _INSTEAD)
    tokens = to_device_of(model, tokens)
    hidden, values = tokens.maskable.clone(), tokens.values.masked_fill(tokens.maskable, 0)
    tokens = replace(tokens, values=values)
    asker = Asker(model, None if hasattr(model, "batches") else max(1, len(tokens)))
    for _, part, answer in steps(asker, tokens, hidden, listed=True):
        shown = _next(policy, answer, listed=True)
        probs = answer.log_probs[shown[answer.hidden]].exp().cpu()
        sampled = torch.multinomial(probs, 1, generator=generator)
        at = torch.from_numpy(part).to(hidden.device)
        shown_at = torch.nonzero(shown)
        values[at[shown_at[:, 0]], shown_at[:, 1]] = sampled[:, 0].to(values)
        hidden[at] &= ~shown
    return tokens


def _next(policy: Policy, answer: Answer, *, listed: bool) -> Bool[Tensor, "b D"]:
    """The tokens that the policy shows next, chosen from the visible tokens alone."""
    tokens, candidate = answer.tokens, answer.hidden
    number = tokens.maskable.cumsum(1) - 1
    if policy.blocks is not None:
        block = (number // policy.blocks).masked_fill(~candidate, tokens.width)
        candidate = candidate & (block == block.amin(1, keepdim=True))
    if not (listed and policy.looks_at_values):
        return most_urgent(-_turn(policy, number, tokens).float(), candidate, policy.tokens_per_step)
    urgency = answer.log_probs.new_zeros(candidate.shape)
    urgency[answer.hidden] = _certainty(policy, answer.log_probs)
    n_shown: Int64[Tensor, "b 1"] | int = policy.tokens_per_step
    if policy.threshold is not None:
        n_shown = (candidate & (urgency >= policy.threshold)).sum(1, keepdim=True).clamp(min=1)
    elif policy.bound is not None:
        entropy = -torch.where(candidate, urgency, -torch.inf).sort(1, descending=True).values
        n_shown = 1 + (entropy.cumsum(1) <= policy.bound).sum(1, keepdim=True)
    return most_urgent(urgency, candidate, n_shown)


def most_urgent(
    urgency: Float[Tensor, "b D"], candidate: Bool[Tensor, "b D"], n_shown: Int64[Tensor, "b 1"] | int
) -> Bool[Tensor, "b D"]:
    """The `n_shown` candidates of each row with the largest urgency; ties go to the first."""
    urgency = torch.where(candidate, urgency, -torch.inf)
    rank = torch.argsort(torch.argsort(urgency, dim=1, descending=True, stable=True), dim=1)
    return candidate & (rank < n_shown)


def _turn(policy: Policy, number: Int64[Tensor, "b D"], tokens: Tokens) -> Int64[Tensor, "b D"]:
    """The position of each token in an order that does not depend on values."""
    if policy.policy == "left-to-right":
        return number
    if policy.policy == "right-to-left":
        return tokens.n_tokens[:, None] - 1 - number
    assert policy.order is not None
    return torch.argsort(torch.tensor(policy.order, device=number.device))[number.clamp(min=0)]


def _certainty(policy: Policy, listed: Float[Tensor, "n V"]) -> Float[Tensor, " n"]:
    """The certainty of each distribution, as the policy measures it."""
    if policy.policy == "entropy":
        return torch.xlogy(listed.exp(), listed.exp()).sum(1)
    largest = listed.topk(min(2, listed.shape[1]), dim=1).values.exp()
    if policy.policy == "confidence" or largest.shape[1] == 1:
        return largest[:, 0]
    return largest[:, 0] - largest[:, 1]
