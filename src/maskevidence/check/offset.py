"""Offset: the log-probability belongs to the token it claims, and not to a neighbour's place."""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from maskevidence.check.findings import Finding
from maskevidence.check.significance import critical
from maskevidence.check.trial import Trial
from maskevidence.scores.first_batch import like
from maskevidence.tokens import Tokens

_OFFSETS = (-2, -1, 1, 2)
_MOST_ROWS, _FEWEST_ROWS = 64, 8
_BLOCK, _SHORTEST = 6, 4  # tokens that are hidden together, and of a row
_LEAST = 0.5  # nats by which a neighbour's value has to be more likely
_IMPOSSIBLE = -12.0  # log-probabilities below it count as this, so that none outweighs all others
_LOOK_AT = "an index that is off by one: special tokens at the start, or the logits of the next token"


def offset(trial: Trial) -> Finding:
    """At the place of a hidden token, the values of its neighbours are not more likely than its own.

    Tokens are hidden in blocks, so that neighbours tell nothing of each other. If the answers are read off
    by one place, the value of that neighbour is more likely than the token's own, and than that of another
    hidden token.
    """
    did = "At hidden tokens the values of hidden neighbours were put in, and those of other hidden tokens."
    hidden = _hidden_blocks(trial)
    n_rows = len(hidden.tokens)
    if n_rows < _FEWEST_ROWS:
        found = f"{n_rows} rows have enough neighbours; {_FEWEST_ROWS} are needed"
        return Finding("offset", "skipped", found, did)
    another = _another(trial, hidden.masked)
    try:
        own, other = _at(trial, hidden, hidden.column), _at(trial, hidden, another)
        beside = {step: _at(trial, hidden, hidden.neighbour(step)) for step in _OFFSETS}
    except Exception:  # each column has a domain of its own
        return Finding(
            "offset", "skipped", "the model does not take the values of one column in another", did
        )
    numbers = {"n_rows": n_rows, "n_masks": n_rows, "allowed": _LEAST}
    largest, z_largest = -math.inf, 0.0
    for step, value in beside.items():
        neighbour = hidden.neighbour(step)
        there = (neighbour != hidden.column) & (another != hidden.column) & (another != neighbour)
        (z_own, gain), (z_other, above) = _t(value - own, there), _t(value - other, there)
        z, least = min(z_own, z_other), min(gain, above)
        largest, z_largest = max(largest, least), max(z_largest, z)
        if z > critical(n_rows - 1) and least > _LEAST:
            side = "right" if step > 0 else "left"
            text = f"at the place of a token, the value {abs(step)} to its {side} is more likely, by "
            return trial.finding(
                "offset",
                "failed",
                f"{text}{gain:.2f} nats",
                did,
                z=z,
                largest=least,
                look_at=_LOOK_AT,
                **numbers,
            )
    better = _t(own - other, another != hidden.column)[1]
    text = f"own values are more likely than others, by {better:.3g} nats, and no neighbour's is"
    if not better > 0:
        text = "own values are no more likely than others, and no neighbour's is"
    return trial.passed("offset", text, did, z=z_largest, largest=largest, **numbers)


class _Hidden(NamedTuple):
    """Rows with hidden blocks.

    Attributes:
        tokens: n rows.
        masked: shape (n, D).
        column: shape (n, D); 0..D-1 in each row.
    """

    tokens: Tokens
    masked: Bool[Tensor, "n D"]
    column: Int64[Tensor, "n D"]

    def neighbour(self, step: int) -> Int64[Tensor, "n D"]:
        """The column at this distance where both columns are hidden, otherwise the column itself."""
        there = (self.column + step).clamp(0, self.column.shape[1] - 1)
        return torch.where(self.masked & self.masked.gather(1, there), there, self.column)


def _hidden_blocks(trial: Trial) -> _Hidden:
    """Rows with half of their blocks of tokens hidden, or if they are short, one block of half the row."""
    rng = trial.rng("offset")
    maskable = trial.data.maskable.cpu()
    long_enough = torch.nonzero(maskable.sum(1) >= _SHORTEST)[:, 0].numpy()
    rows = torch.from_numpy(rng.permutation(long_enough)[:_MOST_ROWS])
    line = maskable[rows]
    n, width = line.shape
    n_tokens = line.sum(1, keepdim=True)
    place = line.cumsum(1) - 1  # 0, 1, ... for the tokens of a row
    start = torch.from_numpy(rng.integers(2**30, size=(n, 1)))
    drawn = torch.from_numpy(rng.random((n, width // _BLOCK + 2))) < 0.5
    in_blocks = drawn.gather(1, (place.clamp(min=0) + start % _BLOCK) // _BLOCK)
    size = n_tokens // 2 + 1  # of the one block of a short row
    first = start % (n_tokens - size + 1)
    in_one = (place >= first) & (place < first + size)
    masked = line & torch.where(n_tokens < 3 * _BLOCK, in_one, in_blocks)
    column = torch.arange(width).expand(n, width)
    device = trial.masked.device
    return _Hidden(trial.data[rows.to(trial.data.ids.device)], masked.to(device), column.to(device))


def _another(trial: Trial, masked: Bool[Tensor, "n D"]) -> Int64[Tensor, "n D"]:
    """For each hidden token a random other one; the column itself if there is none."""
    rng = trial.rng("another")
    chosen = np.tile(np.arange(masked.shape[1]), (len(masked), 1))
    for row, mask in enumerate(masked.cpu().numpy()):
        hidden = np.flatnonzero(mask)
        if len(hidden) > 1:
            steps = rng.integers(1, len(hidden), size=len(hidden))
            chosen[row, hidden] = hidden[(np.arange(len(hidden)) + steps) % len(hidden)]
    return torch.from_numpy(chosen).to(masked.device)


def _at(trial: Trial, hidden: _Hidden, of: Int64[Tensor, "n D"]) -> Float64[Tensor, "n D"]:
    """The answers with the values of other columns put in at the hidden places."""
    values = hidden.tokens.values
    index = like(of, values).expand_as(values)
    put_in = torch.where(like(hidden.masked, values), values.gather(1, index), values)
    return trial.ask(replace(hidden.tokens, values=put_in), hidden.masked).clamp(min=_IMPOSSIBLE)


def _t(difference: Float64[Tensor, "n D"], there: Bool[Tensor, "n D"]) -> tuple[float, float]:
    """The mean over rows of a row's mean difference, in standard errors, and that mean."""
    some = there.any(1)
    means = (torch.where(there, difference, 0.0).sum(1)[some] / there.sum(1)[some]).cpu().numpy()
    if len(means) < _FEWEST_ROWS or not np.isfinite(means).all():
        return 0.0, -math.inf
    mean, error = float(means.mean()), float(means.std(ddof=1)) / math.sqrt(len(means))
    return mean / max(error, 1e-6 * abs(mean), 1e-300), mean
