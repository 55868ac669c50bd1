"""Checks of the answer: its shape, its values, and that each token is scored at its own value and place."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from maskevidence.core.check.findings import Finding, critical, failed, noted, passed, skipped
from maskevidence.core.check.trial import Trial, check, compared
from maskevidence.core.errors import InputError
from maskevidence.core.model import Conditionals, active_dropout, check_conditionals
from maskevidence.core.scores.score_masks import like
from maskevidence.core.tokens import Tokens

_OFFSETS = (-2, -1, 1, 2)
_MOST_ROWS, _FEWEST_ROWS = 64, 8
_BLOCK, _SHORTEST = 6, 4  # tokens in a hidden block; fewest tokens of a row
_LEAST = 0.5  # nats by which a neighbour's value must be more likely
_IMPOSSIBLE = -12.0  # lower limit of log-probabilities, so that no single token dominates


def word(model: object) -> Finding:
    """Check that `conditionals` is a word of the protocol."""
    did = f"The attribute `conditionals` was compared with {', '.join(get_args(Conditionals))}."
    try:
        check_conditionals(model)  # type: ignore[arg-type]
    except InputError as error:
        return Finding("word", "failed", str(error), did, look_at="the attribute `conditionals`")
    return Finding("word", "passed", f"conditionals = {model.conditionals!r}", did)  # type: ignore[attr-defined]


@check(
    "shape",
    "One call with all pairs of a row and a mask.",
    "the return value of log_conditionals(tokens, masked)",
)
def shape(trial: Trial, answer: Any) -> Finding:
    """Check that the answer is a float32 or float64 tensor of shape (B, D)."""
    expected = tuple(trial.masked.shape)
    if not isinstance(answer, Tensor):
        return failed(
            f"the answer is {type(answer).__name__}, not a torch tensor of shape (B, D) = {expected}"
        )
    if tuple(answer.shape) != expected:
        return failed(f"the answer has shape {tuple(answer.shape)}, not (B, D) = {expected}")
    if not answer.is_floating_point() or answer.dtype in (torch.float16, torch.bfloat16):
        return failed(
            f"the answer has dtype {answer.dtype}; log-probabilities need torch.float32 or torch.float64"
        )
    return passed(f"a tensor of shape (B, D) = {expected}, {answer.dtype}")


@check(
    "zeros",
    "The answers for tokens that are not masked were compared with 0, also with an empty mask.",
    "torch.where(masked, answer, 0.0) at the end of log_conditionals",
    explains=False,
)
def zeros(trial: Trial) -> Finding:
    """Check that the answer is exactly 0 for visible, context and absent tokens."""
    tokens, empty = trial.tokens, torch.zeros_like(trial.masked)
    for answer, masked in ((trial.answer, trial.masked), (trial.ask(tokens, empty), empty)):
        wrong = ~masked & (answer != 0)
        if bool(wrong.any()):
            row, column = torch.nonzero(wrong)[0].tolist()
            visible = "visible" if bool(tokens.maskable[row, column]) else "absent"
            role = "context" if bool(tokens.context[row, column]) else visible
            return failed(
                f"token {column} of observation {int(tokens.ids[row])} is {role}, and its answer is "
                f"{float(answer[row, column]):.4g} instead of 0"
            )
    return passed("all answers outside the masks are exactly 0")


@check(
    "finite",
    "Answers were checked for the data, and for hidden tokens with the smallest and the largest value of "
    "their column.",
)
def finite(trial: Trial) -> Finding:
    """Check that answers are finite on the data and not NaN or +∞ at the extremes of each column."""

    def first(answer: Tensor, wrong: Bool[Tensor, "b D"]) -> str:
        row, column = torch.nonzero(wrong)[0].tolist()
        observation = int(trial.tokens.ids[row])
        return f"the answer for token {column} of observation {observation} is {float(answer[row, column])}"

    wrong = trial.masked & ~torch.isfinite(trial.answer)
    if bool(wrong.any()):
        look_at = "the observation; a model must give every token that occurs a probability above 0"
        return failed(first(trial.answer, wrong) + " on the data themselves", look_at=look_at)
    n_impossible = 0
    for values in _edges(trial):
        answer = trial.ask(trial.with_values(values, trial.masked))
        wrong = trial.masked & (torch.isnan(answer) | (answer == torch.inf))
        if bool(wrong.any()):
            look_at = "divisions and exponentials at that value"
            return failed(first(answer, wrong) + " at an edge of the data's range", look_at=look_at)
        n_impossible += int((trial.masked & (answer == -torch.inf)).sum())
    if n_impossible:
        message = f"{n_impossible} values at the edges of the data's range have probability 0 in other rows"
        return noted(message, look_at="whether such rows can be impossible")
    return passed("all answers are finite, also at the edges of the data's range")


def _edges(trial: Trial) -> Iterator[Tensor]:
    """Yield the smallest, then the largest value of each column, expanded to the shape of the values."""
    data = trial.data
    if data.values.dtype == torch.bool:
        return
    present = like(data.maskable | data.context, data.values)
    limits = (torch.finfo if data.values.is_floating_point() else torch.iinfo)(data.values.dtype)
    smallest = torch.where(present, data.values, limits.max).amin(0)
    largest = torch.where(present, data.values, limits.min).amax(0)
    for edge in (smallest, largest):
        yield torch.where(present.any(0), edge, data.values[0]).expand_as(trial.tokens.values)


@check(
    "determinism",
    "The same call was made twice, and active dropout was looked for.",
    "random numbers that are drawn anew in each call, or model.eval(), to be called before scoring",
)
def determinism(trial: Trial) -> Finding:
    """Check that a repeated call gives the same answer and that no dropout is on."""
    if active := active_dropout(trial.model):
        message = f"{len(active)} modules in training mode change the answers at random ({active[0]})"
        return failed(message, look_at="model.eval(), to be called before scoring")
    return compared(trial, trial.answer, trial.ask(trial.tokens), trial.masked)


@check(
    "own value",
    "In each pair one hidden token got another value, then the others did; its answer was compared.",
)
def own_value(trial: Trial) -> Finding:
    """Check that the answer of a hidden token changes with the token's value."""
    column = trial.probe("own value")
    other, differs = trial.other_values("other values")
    row = torch.arange(len(column))
    usable = differs[row, column]
    own = torch.zeros_like(trial.masked)
    own[row, column] = usable
    if not bool(usable.any()):
        return skipped("all values of the data are equal")
    after = trial.ask(trial.with_values(other, own))
    certain = own & (trial.answer == 0) & (after == 0)
    if bool(certain.any()):
        share = float(certain.sum() / own.sum())
        message = (
            f"{share:.0%} of the hidden tokens have an answer of 0 (probability 1) at two different values"
        )
        look_at = f"why hidden tokens such as column {int(torch.nonzero(certain)[0, 1])} are left out"
        return failed(message, largest=share, allowed=0.0, look_at=look_at)
    others, differ = trial.other_values("all other values")
    with_others = trial.ask(trial.with_values(others, trial.masked & differ & ~own))[row, column]
    before, after = trial.answer[row, column], after[row, column]
    by_own = after - before != 0
    by_others = (with_others - before).abs() > trial.tolerance * (1 + before.abs())
    elsewhere = usable & ~by_own & by_others
    if int(elsewhere.sum()) > int((usable & by_own).sum()):  # fewer such tokens are a leak
        return failed(
            f"{float(elsewhere.sum() / usable.sum()):.0%} of the answers change with the value of another "
            "hidden token, but not with the value of their own token",
            look_at=f"the column whose value is taken for column {int(column[torch.nonzero(elsewhere)[0]])}",
        )
    share = float((by_own & usable).sum() / usable.sum())
    return passed(f"{share:.0%} of the answers change with the value of their own token")


@check(
    "context",
    "Half of the visible tokens of each row were made context, and the answers were compared.",
    "tokens.visible(masked), the tokens to condition on, which include the context",
)
def context(trial: Trial) -> Finding:
    """Check that turning visible tokens into context changes no answer."""
    tokens = trial.tokens
    widened: Any = getattr(trial.model, "widened", None)  # for models that hide whole words
    hidden = trial.masked if widened is None else widened(tokens, trial.masked)
    moved = tokens.maskable & ~hidden & (trial.noise("context") < 0.5)
    if not bool(moved.any()):
        return skipped("no row has a visible token")
    changed = replace(tokens, maskable=tokens.maskable & ~moved, context=tokens.context | moved)
    return compared(trial, trial.answer, trial.ask(changed), trial.masked)


@check(
    "offset",
    "Hidden tokens got the values of hidden neighbours, then the values of other hidden tokens.",
    "an index that is off by one: special tokens at the start, or the logits of the next token",
)
def offset(trial: Trial) -> Finding:
    """Check that a token's own value is at least as likely at its place as its neighbours' values.

    Tokens are hidden in blocks, so that the model sees a neighbour as little as any other hidden token. If
    the answers are read one place off, the neighbour's value is more likely than the token's own, and than
    the value of another hidden token.
    """
    tokens, masked = _hidden_blocks(trial)
    n_rows = len(tokens)
    if n_rows < _FEWEST_ROWS:
        return skipped(f"{n_rows} rows have enough neighbours; {_FEWEST_ROWS} are needed")
    column = torch.arange(masked.shape[1], device=masked.device).expand_as(masked)
    other_column = _other_columns(trial, masked)
    neighbours = {step: _neighbours(masked, column, step) for step in _OFFSETS}

    def ask(source: Int64[Tensor, "n D"]) -> Float64[Tensor, "n D"]:
        """Return the answers when each hidden token takes the value of its source column."""
        copied = tokens.values.gather(1, like(source, tokens.values).expand_as(tokens.values))
        values = torch.where(like(masked, copied), copied, tokens.values)
        return trial.ask(replace(tokens, values=values), masked).clamp(min=_IMPOSSIBLE)

    try:
        own, other = ask(column), ask(other_column)
        by_offset = {step: ask(neighbour) for step, neighbour in neighbours.items()}
    except Exception:  # columns may differ in the values they allow
        return skipped("the model does not take the values of one column in another")
    numbers = {"n_rows": n_rows, "n_masks": n_rows, "allowed": _LEAST}
    largest, largest_z = -math.inf, 0.0
    for step, value in by_offset.items():
        neighbour = neighbours[step]
        where = (neighbour != column) & (other_column != column) & (other_column != neighbour)
        (z_own, above_own), (z_other, above_other) = _t(value - own, where), _t(value - other, where)
        z, above = min(z_own, z_other), min(above_own, above_other)
        largest, largest_z = max(largest, above), max(largest_z, z)
        if z > critical(n_rows - 1) and above > _LEAST:
            side = "right" if step > 0 else "left"
            return failed(
                f"at the place of a token, the value {abs(step)} to its {side} is more likely, by "
                f"{above_own:.2f} nats",
                z=z,
                largest=above,
                **numbers,
            )
    better = _t(own - other, other_column != column)[1]
    message = f"own values are {better:.3g} nats more likely than others, and no neighbour's value is"
    if not better > 0:
        message = "own values are no more likely than others, and no neighbour's is"
    return passed(message, z=largest_z, largest=largest, **numbers)


def _neighbours(masked: Bool[Tensor, "n D"], column: Int64[Tensor, "n D"], step: int) -> Int64[Tensor, "n D"]:
    """The column `step` to the right if it and the token itself are hidden, else the token's column."""
    neighbour = (column + step).clamp(0, column.shape[1] - 1)
    return torch.where(masked & masked.gather(1, neighbour), neighbour, column)


def _hidden_blocks(trial: Trial) -> tuple[Tokens, Bool[Tensor, "n D"]]:
    """Draw rows and hide half of their blocks of tokens; in short rows hide one block of half the row."""
    rng = trial.rng("offset")
    maskable = trial.data.maskable.cpu()
    long_enough = torch.nonzero(maskable.sum(1) >= _SHORTEST)[:, 0].numpy()
    rows = torch.from_numpy(rng.permutation(long_enough)[:_MOST_ROWS])
    maskable = maskable[rows]
    n, width = maskable.shape
    n_tokens = maskable.sum(1, keepdim=True)
    position = maskable.cumsum(1) - 1  # position among the maskable tokens of the row
    start = torch.from_numpy(rng.integers(2**30, size=(n, 1)))
    is_hidden_block = torch.from_numpy(rng.random((n, width // _BLOCK + 2))) < 0.5
    in_blocks = is_hidden_block.gather(1, (position.clamp(min=0) + start % _BLOCK) // _BLOCK)
    size = n_tokens // 2 + 1  # length of the single block of a short row
    first = start % (n_tokens - size + 1)
    in_single = (position >= first) & (position < first + size)
    masked = maskable & torch.where(n_tokens < 3 * _BLOCK, in_single, in_blocks)
    return trial.data[rows.to(trial.data.ids.device)], masked.to(trial.masked.device)


def _other_columns(trial: Trial, masked: Bool[Tensor, "n D"]) -> Int64[Tensor, "n D"]:
    """For each hidden token, the column of another hidden token of the row; its own if there is none."""
    rng = trial.rng("another")
    column = np.tile(np.arange(masked.shape[1]), (len(masked), 1))
    for row, mask in enumerate(masked.cpu().numpy()):
        hidden = np.flatnonzero(mask)
        if len(hidden) > 1:
            steps = rng.integers(1, len(hidden), size=len(hidden))
            column[row, hidden] = hidden[(np.arange(len(hidden)) + steps) % len(hidden)]
    return torch.from_numpy(column).to(masked.device)


def _t(difference: Float64[Tensor, "n D"], where: Bool[Tensor, "n D"]) -> tuple[float, float]:
    """Average the differences within rows; return the mean over rows in standard errors and in nats."""
    rows = where.any(1)
    means = (torch.where(where, difference, 0.0).sum(1)[rows] / where.sum(1)[rows]).cpu().numpy()
    if len(means) < _FEWEST_ROWS or not np.isfinite(means).all():
        return 0.0, -math.inf
    mean, error = float(means.mean()), float(means.std(ddof=1)) / math.sqrt(len(means))
    return mean / max(error, 1e-6 * abs(mean), 1e-300), mean
