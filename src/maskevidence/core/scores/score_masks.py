"""Score the masks of a design on all observations, after checks of model and data."""

import math
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64, Integer, Shaped
from torch import Tensor

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.masks.design import (
    Indices,
    MaskDesign,
    MaskKey,
    all_pairs,
    compact,
    drawn_masks,
    lengths_of,
    masks_of_all_rows,
    n_masks,
    n_masks_by_length,
)
from maskevidence.core.masks.orders import LogSizes, Orderings
from maskevidence.core.masks.policy import Policy
from maskevidence.core.masks.sizes import MAX_TOKENS_EXHAUSTIVE, Exhaustive
from maskevidence.core.model import (
    MaskedModel,
    as_tokens,
    asked,
    check_conditionals,
    columns_read,
    conditionals_of,
    moments_of,
    refuse_training_mode,
    rounding,
    to_device_of,
)
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.packed_tokens import Observations
from maskevidence.core.scores.ask import Asker, MaskedRows, mean_score, slices
from maskevidence.core.scores.policies import check_policy, score_policy
from maskevidence.core.scores.record import HiddenTokens, ScoreTable
from maskevidence.core.support.progress import Advance, progress
from maskevidence.core.tokens import Tokens

LARGEST_SCORE = 1e60  # largest magnitude of a score: degrees of freedom need finite fourth powers of a sum
_FEWEST, _FOR_TWO_ROWS = 40, 400  # masks needed to check one row, and two rows
_MORE = "me.check_model(model, data) says more; check=False skips this check"


def score_masks(
    model: MaskedModel, tokens: object, masked: Bool[Tensor, "B D"], scored: Bool[Tensor, "B D"] | None = None
) -> Float[Tensor, " B"]:
    """Score one mask per observation: the mean log-probability of its masked tokens.

    The inner part of Eq. 1: (1/M) Σ_{j masked} log p(x_j | x_visible), differentiable in the model's
    parameters.

    Args:
        model: any `MaskedModel`.
        tokens: B observations, as `Tokens` or what the model's `tokens` reads; they follow the model to its
            device.
        masked: shape (B, D); a subset of `tokens.maskable` with at least one True in each row. Its
            columns are the columns of the data, in their order.
        scored: shape (B, D); the masked tokens that the mean is over, at least one in each row; by default
            all.

    Returns:
        Shape (B,), nats per masked token.

    Raises:
        InputError: a mask is empty, or hides a token that is absent or context; or the model's answer is
            not a tensor of shape (B, D).
        NumericalError: the log-probability of a masked token is not finite.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.Gaussian(torch.zeros(2), torch.eye(2))
        >>> tokens = me.Tokens.from_array([[0.0, 0.0]])
        >>> round(score_masks(model, tokens, torch.tensor([[True, False]])).item(), 4)
        -0.9189
    """
    check_conditionals(model)
    places = columns_read(model, tokens)
    if places is not None:
        masked, scored = masked[:, places], None if scored is None else scored[:, places]
    tokens = to_device_of(model, as_tokens(model, tokens))
    masked = masked.to(tokens.maskable.device)
    return mean_score(conditionals_of(model, tokens, masked), tokens, masked if scored is None else scored)


@dataclass(frozen=True)
class Scoring:
    """The settings of scoring, apart from model and observations."""

    design: MaskDesign  # the mask design
    key: MaskKey  # seed, and whether masks are shared
    batch_size: int = 1024  # masks per call; a model with `batches` decides for itself
    # whether a model may choose the size of its calls by timing, which changes the last bits
    timed: bool = False
    # whether to record the score of each hidden token: for random sizes, and always for `LogSizes`
    per_token: bool = False
    # whether masks with the same visible tokens share one pass of the model, also across observations
    share: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "per_token", self.per_token or isinstance(self.design, LogSizes))


def score_in_memory(
    model: MaskedModel, tokens: Tokens, scoring: Scoring, repeats: range
) -> tuple[ScoreTable, int]:
    """Check observations, then score some repeats of the design on them."""
    check_scorable(model, tokens, scoring.design)
    if scoring.per_token:
        check_per_token(scoring.design, scoring.key)
    tokens = tokens.scored_together()
    total = int(n_masks(scoring.design, tokens.n_tokens.cpu().numpy(), repeats).sum())
    with progress("scoring masks", total) as advance:
        return score_repeats(model, tokens, scoring, repeats, advance)


def score_repeats(
    model: MaskedModel, tokens: Tokens, scoring: Scoring, repeats: range, advance: Advance
) -> tuple[ScoreTable, int]:
    """Score some repeats of the design on observations that were checked before.

    Returns:
        The scores, and how many times the model was called.
    """
    if _scores_whole_orders(model, scoring.design):
        return _score_orderings(model, tokens, scoring, repeats, advance)
    batch_size = None if hasattr(model, "batches") else scoring.batch_size
    asker = Asker(model, batch_size, timed=scoring.timed, advance=advance)
    return score_by(asker, tokens, scoring, repeats), asker.n_calls


def score_by(asker: Asker, tokens: Tokens, scoring: Scoring, repeats: range) -> ScoreTable:
    """Score some repeats with an asker, which packs masks into calls and counts passes."""
    if isinstance(scoring.design, Policy):
        return score_policy(asker, tokens, scoring.design)
    return _score_pairs(asker, tokens, scoring, repeats)


def _scores_whole_orders(model: MaskedModel, design: MaskDesign) -> bool:
    return isinstance(design, Orderings) and design.is_area and hasattr(model, "score_orderings")


def calls_per_observation(model: MaskedModel, tokens: Observations, design: MaskDesign) -> float:
    """Number of rows in the model's calls per observation: one per mask, or one per order."""
    if isinstance(design, Orderings) and _scores_whole_orders(model, design):
        return design.orders
    lengths, n_rows = lengths_of(tokens.n_tokens.cpu().numpy())
    return float(n_masks_by_length(design, lengths)[lengths] @ n_rows) / len(tokens)


def check_scorable(model: MaskedModel, tokens: Observations, design: MaskDesign) -> None:
    """Raise an InputError if observations cannot be scored or the model cannot follow the policy."""
    check_tokens(tokens)
    if isinstance(design, Policy):
        check_policy(model, tokens, design)


def check_per_token(design: MaskDesign, key: MaskKey) -> None:
    """Raise an InputError for a design whose estimate would not use the scores of tokens."""
    used = design.random_sizes and key.masks == "own" and design.n_replicates > 1
    if not used and not isinstance(design, LogSizes):
        raise InputError(
            "per-token (per_token=True) belongs to random-size with own masks and 2 or more replicates, and "
            f"not to {design} with {key.masks} masks; leave it out, or choose such a design"
        )


def check_tokens(tokens: Observations) -> None:
    """Raise an InputError for an observation without maskable tokens, a token of two roles, or equal ids."""
    empty = torch.nonzero(tokens.n_tokens == 0).flatten()
    if len(tokens) == 0 or len(empty):
        which = f"observation {int(tokens.ids[empty[0]])} has" if len(empty) else "the data have"
        raise InputError(f"{which} no token to hide; leave such observations out")
    if not isinstance(tokens, Tokens):  # each token has one role and each row its own id
        return
    both = torch.nonzero(tokens.maskable & tokens.context)
    if len(both):
        row, column = both[0].tolist()
        raise InputError(
            f"token {column} of observation {int(tokens.ids[row])} is both maskable and context; make it "
            "one of the two"
        )
    if len(torch.unique(tokens.ids)) < len(tokens):
        raise InputError("two observations have the same id; ids must differ, since masks are keyed by them")


def _score_pairs(asker: Asker, tokens: Tokens, scoring: Scoring, repeats: range) -> ScoreTable:
    """Score every observation on the masks of some repeats of the design."""
    ids, n_tokens = tokens.ids.cpu().numpy(), tokens.n_tokens.cpu().numpy()
    pairs = row, index = all_pairs(scoring.design, n_tokens, repeats)
    if scoring.key.masks == "shared":  # group equal masks, so that a model can share work
        order = np.argsort(index, kind="stable")
        pairs = row, index = row[order], index[order]
        del order
    position = None if tokens.position is None else tokens.position.cpu().numpy()
    maskable = tokens.maskable.cpu().numpy()
    masks = drawn_masks(scoring.design, scoring.key, ids, maskable, pairs, position)
    del pairs, index
    contexts = MaskedRows(tokens, row, masks.size, lambda part: torch.from_numpy(masks.masked(part)))
    score, mixtures = np.empty(len(row)), None
    answers = asker.conditionals(contexts, share=scoring.share)
    if isinstance(scoring.design, Exhaustive) and not scoring.design.is_area:
        mixtures = MixtureRecord(scoring.design, maskable, len(row))
        by_size = (np.flatnonzero(masks.size == size) for size in np.unique(masks.size))
        answers = chain.from_iterable(
            asker.conditionals(contexts, some, share=scoring.share) for some in by_size
        )
    tokens_scored = HiddenTokens.empty(masks.size) if scoring.per_token else None
    for part, batch, hidden, log_probs in answers:
        masked = hidden.cpu().numpy()
        scored = masks.scored(part, masked)
        counted = hidden if scored is masked else torch.from_numpy(scored)
        score[part] = mean_score(log_probs, batch, counted).cpu().numpy()  # float64, as the record stores it
        if mixtures is not None:
            mixtures.add(part, row[part], masks.draw[part], log_probs.cpu().double().numpy())
        if tokens_scored is not None:
            tokens_scored[part].write(masks.size[part], masked, log_probs.float().cpu().numpy())
    score = _usable(score, ids, row)
    n_bytes = None if tokens.n_bytes is None else compact(tokens.n_bytes.cpu().numpy())[row]
    log_mixture = None if mixtures is None else mixtures.of_masks
    of_mask = compact(ids)[row], masks.draw, masks.size, compact(n_tokens)[row]
    table = ScoreTable(*of_mask, score, n_bytes, log_mixture)
    return replace(table, hidden=tokens_scored)


def _score_orderings(
    model: Any, tokens: Tokens, scoring: Scoring, repeats: range, advance: Advance
) -> tuple[ScoreTable, int]:
    """Score all sizes of an order in one call."""
    design, key = scoring.design, scoring.key
    assert isinstance(design, Orderings)
    device = tokens.values.device
    ids, n_tokens = tokens.ids.cpu().numpy(), tokens.n_tokens.cpu().numpy()
    maskable = tokens.maskable.cpu().numpy()
    order, row = (grid.ravel() for grid in np.indices((len(repeats), len(ids))))
    order = order + repeats.start
    score = np.empty((len(row), tokens.width))
    with torch.no_grad():
        for part in slices(len(row), scoring.batch_size):
            ranks = design.ranks(key, ids[row[part]], order[part], maskable[row[part]])
            batch = to_device_of(model, tokens[torch.from_numpy(row[part]).to(device)])
            scores = model.score_orderings(batch, torch.from_numpy(ranks).to(batch.ids.device))
            score[part] = _usable(scores.cpu().numpy(), ids, row[part])
            advance(int(n_tokens[row[part]].sum()))
    size = np.broadcast_to(np.arange(1, tokens.width + 1, dtype=np.int32), score.shape)
    real = size <= n_tokens[row][:, None]

    def repeated(values: Int64[np.ndarray, " n_orders"]) -> Indices:
        return np.broadcast_to(compact(values)[:, None], score.shape)[real]

    n_bytes = None if tokens.n_bytes is None else repeated(tokens.n_bytes.cpu().numpy()[row])
    of_mask = repeated(ids[row]), repeated(order), size[real], repeated(n_tokens[row])
    table = ScoreTable(*of_mask, score[real], n_bytes)
    return table, math.ceil(len(row) / scoring.batch_size)


def score_shared_moments(
    model: MaskedModel, moments: GaussianMoments, scoring: Scoring
) -> tuple[ScoreTable, int]:
    """Score shared masks on the moments of complete rows, as if they were one observation."""
    if not hasattr(model, "score_moments"):
        raise InputError(f"{type(model).__name__} cannot score moments; give the rows themselves")
    if not scoring.design.is_area:
        raise InputError(f"moments give the area alone, not {scoring.design}; give the rows themselves")
    moments = to_device_of(model, moments_of(model, moments))
    first = np.array([[0, 1]])  # of 1 observation
    masks = masks_of_all_rows(scoring.design, scoring.key, len(moments.mean), first)
    score = np.empty(len(masks))
    with torch.no_grad(), progress("scoring masks", len(masks)) as advance:
        for part in slices(len(masks), scoring.batch_size):
            masked = torch.from_numpy(masks.masked(part)).to(moments.mean.device)
            score[part] = _usable(model.score_moments(moments, masked).cpu().numpy())
            advance(len(masked))
    n_tokens = np.full(len(masks), len(moments.mean))
    table = ScoreTable(masks.row, masks.draw, masks.size, n_tokens, score)
    return table, math.ceil(len(masks) / scoring.batch_size)


def _usable(
    score: Float[np.ndarray, "b ..."],
    ids: Int64[np.ndarray, " n"] | None = None,
    row: Indices | slice = slice(None),
) -> Float[np.ndarray, "b ..."]:
    """Convert scores to float64; raise if a score is not finite or too large for standard errors."""
    score = score.astype(np.float64, copy=False)  # as the record stores them
    if score.size and -LARGEST_SCORE <= score.min() <= score.max() <= LARGEST_SCORE:  # false for NaN
        return score
    bad = np.argwhere(~(np.abs(score) <= LARGEST_SCORE))
    if len(bad):
        of = "the moments" if ids is None else f"observation {ids[row][bad[0][0]]}"
        value = score[tuple(bad[0])]
        reason = "a model must give every token a probability above 0"
        if np.isfinite(value):
            reason = (
                f"more than {LARGEST_SCORE:g} in magnitude cannot be averaged with an error; look for wrong "
                "values in the data, or rescale them"
            )
        raise NumericalError(f"a score of {of} is {value:g}; {reason}")
    return score


def check_first_batch(model: MaskedModel, tokens: Tokens, design: MaskDesign) -> None:
    """Check on two rows that answers are 0 outside the masks and independent of hidden values.

    Each row takes two passes of the model, in one call; with fewer than 400 masks in all, one row is checked,
    and none with fewer than 40.
    """
    check_tokens(tokens)
    refuse_training_mode(model)
    n_masks = int(design.n_draws(tokens.n_tokens.cpu().numpy()).sum())
    rows = torch.nonzero(tokens.n_tokens >= 2)[: (n_masks >= _FEWEST) + (n_masks >= _FOR_TWO_ROWS), 0]
    if len(rows) == 0:
        return
    some = tokens[rows]
    order = some.maskable.cumsum(1)
    masked = some.maskable & (order > some.n_tokens[:, None] // 2)  # right half of each row
    probe = masked & (order == some.n_tokens[:, None])
    both = to_device_of(model, _with_changed_values(tokens, rows, masked & ~probe))
    twice, device = masked.repeat_interleave(2, 0), both.values.device
    with torch.no_grad():
        answer = asked(model, model.log_conditionals, both, twice.to(device))
    room = rounding(model, answer)
    answer, name = answer.cpu().double(), type(model).__name__
    outside = ~twice.cpu() & (answer != 0)
    if bool(outside.any()):
        row, column = torch.nonzero(outside)[0].tolist()
        raise InputError(
            f"log_conditionals of {name} is {float(answer[row, column]):.4g} for token {column} of "
            f"observation {int(both.ids[row])}, which is not masked; it must be exactly 0 there; {_MORE}"
        )
    before, after = answer[0::2], answer[1::2]
    leaks = probe.cpu() & ((after - before).abs() > room * (1 + before.abs()))
    if bool(leaks.any()):
        row, column = torch.nonzero(leaks)[0].tolist()
        raise InputError(
            f"the answer of {name} for token {column} of observation {int(some.ids[row])} changes "
            f"from {float(before[row, column]):.6g} to {float(after[row, column]):.6g} nats with the values "
            f"of other hidden tokens: only visible ones may be read; {_MORE}"
        )


def _with_changed_values(tokens: Tokens, rows: Int64[Tensor, " b"], hidden: Bool[Tensor, "b D"]) -> Tokens:
    """Repeat each row, with hidden values in the copy taken from the next row of the data."""
    some, following = tokens[rows], (rows + 1) % len(tokens)
    others = hidden & (tokens.maskable | tokens.context)[following]
    changed = torch.where(like(others, some.values), tokens.values[following], some.values)
    values = torch.stack([some.values, changed], 1).flatten(0, 1)
    return replace(tokens[rows.repeat_interleave(2)], values=values)


def like(places: Shaped[Tensor, "b D"], values: Tensor) -> Tensor:
    """Append dimensions to a mask or index so that it broadcasts against the values."""
    return places.reshape(*places.shape, *[1] * (values.ndim - 2))


def order_mixture(
    log_conditionals: Float64[np.ndarray, "*batch n_subsets n"],
) -> Float64[np.ndarray, "*batch n_subsets"]:
    """log E_σ p_σ(x_S | the rest) of every subset S of n tokens, exactly, over all orders σ of S.

    For the order σ, p_σ is the chain rule: the product of the conditional of each token given all that are
    visible when its turn comes. The mean over all n! orders follows from the conditionals of 2^n masks,

        f(∅) = 1,    f(S) = (1/|S|) Σ_{j ∈ S} p(x_j | all that is not in S) · f(S \\ j),

    since the token of S that becomes visible first is uniform in S, and what follows depends on the set of
    visible tokens alone, not on their order. The conditionals of one joint density give its evidence,
    whatever the order; learned conditionals give the evidence of the mixture over orders, which the area
    under the curve bounds from below (Jensen's inequality).

    Args:
        log_conditionals: shape (..., 2^n, n), nats; entry (S, j) is log p(x_j | all that is not in S), where
            bit i of the row number S says whether token i is hidden. Entries with j not in S are not read.

    Returns:
        Shape (..., 2^n), nats; entry S is log f(S), 0 for the empty set; the last entry is of all tokens.

    Raises:
        InputError: the shape is not (..., 2^n, n) with 1 <= n <= 20.

    Example:
        >>> independent = np.log(np.broadcast_to([0.5, 0.25], (4, 2)))
        >>> [round(float(p), 4) for p in np.exp(order_mixture(independent))]
        [1.0, 0.5, 0.25, 0.125]
        >>> disagreeing = np.log([[1.0, 1.0], [0.5, 1.0], [1.0, 0.5], [0.1, 0.3]])
        >>> round(float(np.exp(order_mixture(disagreeing)[-1])), 4)  # (0.1 · 0.5 + 0.3 · 0.5) / 2
        0.1
    """
    n_subsets, n = log_conditionals.shape[-2:]
    if not 1 <= n <= MAX_TOKENS_EXHAUSTIVE or n_subsets != 2**n:
        raise InputError(
            f"the log-conditionals have shape {log_conditionals.shape}; give (..., 2^n, n) for n tokens, "
            f"n from 1 to {MAX_TOKENS_EXHAUSTIVE}"
        )
    log_mixture = np.zeros(log_conditionals.shape[:-1])
    subsets, bits = np.arange(n_subsets), 1 << np.arange(n)
    sizes = np.bitwise_count(subsets)
    for size in range(1, n + 1):
        some = subsets[sizes == size]
        hidden, smaller = (some[:, None] & bits) != 0, some[:, None] & ~bits
        log_mixture[..., some] = _one_token_more(
            log_mixture[..., smaller], hidden, log_conditionals[..., some, :]
        )
    return log_mixture


def _one_token_more(
    log_smaller: Float64[np.ndarray, "*batch m n"],
    hidden: Bool[np.ndarray, "m n"],
    log_conditionals: Float64[np.ndarray, "*batch m n"],
) -> Float64[np.ndarray, "*batch m"]:
    """log f of m subsets from log f of the same subsets without token j; non-hidden entries are ignored.

    Example:
        >>> _one_token_more(np.zeros((1, 2)), np.ones((1, 2), dtype=np.bool_), np.log([[0.5, 0.25]])).round(4)
        array([-0.9808])
    """
    terms = np.where(hidden, log_conditionals, -math.inf) + log_smaller
    largest = terms.max(-1, keepdims=True)
    return largest[..., 0] + np.log(np.exp(terms - largest).sum(-1)) - np.log(hidden.sum(-1))


class MixtureRecord:
    """Computes the order mixture of every scored mask while the masks are scored.

    It holds one number for each mask. Masks come in any order that has each mask after all smaller ones of
    its observation.

    Args:
        design: the design that enumerates the masks.
        maskable: shape (B, D); the tokens of the observations.
        n_masks: how many masks will be scored.

    Attributes:
        of_masks: shape (n_masks,); log E_σ p_σ of the scored tokens of each mask, nats.
    """

    def __init__(self, design: Exhaustive, maskable: Bool[np.ndarray, "B D"], n_masks: int) -> None:
        self.of_masks = np.zeros(n_masks)
        self._design = design
        self._n_tokens = maskable.sum(1)
        self._columns = np.argsort(~maskable, axis=1, kind="stable")
        size = design.block_size(self._n_tokens)
        n_blocks = -(-self._n_tokens // size)
        self._width = int(size.max())
        ends = np.cumsum(n_blocks << size)
        self._start = ends - (n_blocks << size)
        self._log_mixture = np.zeros(ends[-1])

    def add(
        self,
        part: slice | Int64[np.ndarray, " m"],
        row: Integer[np.ndarray, " m"],
        draw: Integer[np.ndarray, " m"],
        log_conditionals: Float64[np.ndarray, "m D"],
    ) -> None:
        """Add the log-conditionals of some masks."""
        n_tokens = self._n_tokens[row]
        block, subset, _ = self._design.subset(n_tokens, draw)
        number = (block * self._design.block_size(n_tokens))[:, None] + np.arange(self._width)
        number = np.minimum(number, log_conditionals.shape[1] - 1)
        columns = np.take_along_axis(self._columns[row], number, axis=1)
        bits = 1 << np.arange(self._width)
        hidden = (subset[:, None] & bits) != 0
        smaller = np.where(hidden, draw[:, None] & ~bits, draw[:, None]) + self._start[row][:, None]
        log_smaller, own = self._log_mixture[smaller], np.take_along_axis(log_conditionals, columns, axis=1)
        log_mixture = _one_token_more(log_smaller, hidden, own)
        self._log_mixture[self._start[row] + draw] = self.of_masks[part] = log_mixture
