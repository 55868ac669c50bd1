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
from maskevidence.tokens import Tokens

_OFFSETS = (-2, -1, 1, 2)
_ROWS, _PER_ROW = 64, 8
_FEWEST_ROWS = 8
_LEAST = 0.5  # nats by which a neighbour's value has to be more likely


def offset(trial: Trial) -> Finding:
    """At the place of a hidden token, the values of its neighbours are not more likely than its own.

    The token, its neighbours and others are hidden together. If the answers are read off by one place, the
    value of that neighbour is more likely than the token's own, and than that of a hidden token farther away.
    """
    did = "At hidden tokens the values of hidden neighbours were put in, and those of others farther away."
    places = _places(trial)
    n_rows = len(torch.unique(places.tokens.ids))
    if n_rows < _FEWEST_ROWS:
        return Finding(
            "offset", "skipped", f"{n_rows} rows have enough neighbours; {_FEWEST_ROWS} are needed", did
        )
    try:
        own, far = _at(trial, places, places.place), _at(trial, places, _farther(trial, places))
        beside = {step: _at(trial, places, _neighbour(places, step)) for step in _OFFSETS}
    except Exception:  # each column has a domain of its own
        return Finding(
            "offset", "skipped", "the model does not take the values of one column in another", did
        )
    numbers = {"n_rows": n_rows, "n_masks": len(places.place), "allowed": _LEAST}
    largest, z_largest = -np.inf, 0.0
    for step, value in beside.items():
        there = (_neighbour(places, step) != places.place).cpu().numpy()
        z_own, gain = _t((value - own)[there], places.tokens.ids[there])
        z_far, above = _t((value - far)[there], places.tokens.ids[there])
        z, least = min(z_own, z_far), min(gain, above)
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
    better = float(np.mean(own - far))
    text = f"own values are more likely than others, by {better:.3g} nats, and no neighbour's is"
    if not better > 0:
        text = "own values are no more likely than others, and no neighbour's is"
    return trial.passed("offset", text, did, z=z_largest, largest=float(largest), **numbers)


_LOOK_AT = "an index that is off by one: special tokens at the start, or the logits of the next token"


class _Places(NamedTuple):
    """Rows, masks, and a hidden token of each with hidden neighbours."""

    tokens: Tokens
    masked: Bool[Tensor, "n D"]
    place: Int64[Tensor, " n"]


def _places(trial: Trial) -> _Places:
    """Some tokens of some rows, with the two on each side hidden, too, and half of the others."""
    rng = trial.rng("offset")
    rows, places, masks = [], [], []
    maskable = trial.data.maskable.cpu().numpy()
    column = np.arange(maskable.shape[1])
    for row in rng.permutation(len(maskable))[:_ROWS].tolist():
        line = maskable[row]
        for place in rng.permutation(np.flatnonzero(line))[:_PER_ROW].tolist():
            near = np.abs(column - place) <= 2
            mask = line & (near | (rng.random(len(line)) < 0.5))
            away = np.flatnonzero(line & ~near)
            if (mask & near).sum() > 1 and len(away):
                mask[rng.choice(away)] = True
                rows.append(row)
                places.append(place)
                masks.append(mask)
    masked = torch.from_numpy(np.array(masks, dtype=np.bool_).reshape(-1, len(column)))
    tokens = trial.data[torch.tensor(rows, dtype=torch.int64)]
    return _Places(tokens, masked.to(trial.masked.device), torch.tensor(places, dtype=torch.int64))


def _neighbour(places: _Places, step: int) -> Int64[Tensor, " n"]:
    """The place so many steps away if it is hidden, otherwise the place itself."""
    there = (places.place + step).clamp(0, places.masked.shape[1] - 1)
    return torch.where(places.masked.cpu()[torch.arange(len(there)), there], there, places.place)


def _farther(trial: Trial, places: _Places) -> Int64[Tensor, " n"]:
    """A hidden token more than two places away."""
    noise = torch.from_numpy(trial.rng("farther").random(tuple(places.masked.shape)))
    away = (torch.arange(places.masked.shape[1]) - places.place[:, None]).abs() > 2
    return torch.where(places.masked.cpu() & away, noise, -1.0).argmax(1)


def _at(trial: Trial, places: _Places, of: Int64[Tensor, " n"]) -> Float64[np.ndarray, " n"]:
    """The answer at each place, with the value of another one put in."""
    row = torch.arange(len(of))
    values = places.tokens.values.clone()
    values[row, places.place] = places.tokens.values[row, of]
    return trial.ask(replace(places.tokens, values=values), places.masked)[row, places.place].cpu().numpy()


def _t(difference: Float64[np.ndarray, " n"], ids: Int64[Tensor, " n"]) -> tuple[float, float]:
    """The mean over rows of a row's mean difference, in standard errors, and that mean."""
    _, which = np.unique(ids.cpu().numpy(), return_inverse=True)
    means = np.bincount(which, weights=difference) / np.maximum(np.bincount(which), 1)
    if len(means) < _FEWEST_ROWS or not np.isfinite(means).all():
        return 0.0, -math.inf
    error = float(means.std(ddof=1)) / math.sqrt(len(means))
    mean = float(means.mean())
    return mean / max(error, 1e-6 * abs(mean), 1e-300), mean
