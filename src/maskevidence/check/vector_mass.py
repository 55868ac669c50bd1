"""The total probability of a hidden token that is a vector, by importance sampling."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from maskevidence.check.trial import Trial
from maskevidence.model import MASS, base_measure_of

MOST_ENTRIES = 200
_SAMPLES = 256
_STEPS = 9
_FEWEST_EFFECTIVE = 230  # of 256: with fewer the entries depend on each other, and the error is too small
_UNIFORM = 1e-3  # the share of a uniform distribution in the proposal, so that no level is left out
_LEVELS = 256


def vector_mass(trial: Trial, row: int, column: int, make: Any) -> Any:
    """The log-weights of draws of a token's entries from a proposal, whose mean weight is the total.

    The proposal has independent entries. Each is fitted to the model's own answers along that entry, with the
    others as they are: a parabola through nine values, and for levels 0..255 the answers at both ends
    themselves. It is exact, and the weights are equal, for densities whose entries are independent.

    Args:
        trial: the trial.
        row: the pair.
        column: the hidden token.
        make: what is made of the draws, `Mass`.
    """
    base = trial.tokens.values[row, column]
    levels = base.dtype == torch.uint8
    curve = trial.curve(row, column)

    def ask(entries: Float64[np.ndarray, "n K"]) -> Float64[np.ndarray, " n"]:
        return curve(torch.from_numpy(entries))

    grid, answers = _slices(trial, base.flatten(), ask, levels)
    rng = trial.rng(f"vector {row}")
    if levels:
        drawn, log_q = _draw_levels(grid, answers, rng)
    else:
        drawn, log_q = _draw_normal(grid, answers, rng)
    log_p = ask(drawn)
    log_weight = -log_q - np.log(_SAMPLES)
    weight = np.exp(np.clip(log_p + log_weight, -700, 700))
    error = float(weight.std(ddof=1) * np.sqrt(_SAMPLES))
    effective = float(weight.sum() ** 2 / (weight**2).sum()) if weight.sum() > 0 else 0.0
    note = (
        ""
        if effective >= _FEWEST_EFFECTIVE
        else f"the entries depend on each other: only {effective:.0f} of {_SAMPLES} draws are effective"
    )
    said = base_measure_of(trial.model)
    a_mass = levels and said is not None and said.startswith(MASS)
    density = (not a_mass) if said is not None or not levels else None
    return make(
        row,
        column,
        log_p,
        log_weight,
        a_mass or not levels,
        density,
        error=error,
        n_samples=_SAMPLES,
        note=note,
    )


def _slices(trial: Trial, base: Tensor, ask: Any, levels: bool) -> tuple[Any, Any]:
    """Nine values of each entry, shape (K, 9), and the answers with that entry changed alone."""
    k = len(base)
    own = base.double().cpu().numpy()
    if levels:
        grid = np.tile(np.round(np.linspace(0, _LEVELS - 1, _STEPS)), (k, 1))
    else:
        spread = float(trial.data.values.double().std()) or 1.0
        grid = own[:, None] + spread * np.linspace(-2, 2, _STEPS)
    entries = np.tile(own, (k * _STEPS, 1))
    entries[np.arange(k * _STEPS), np.repeat(np.arange(k), _STEPS)] = grid.ravel()
    return grid, ask(entries).reshape(k, _STEPS)


def _parabola(x: Any, y: Any) -> tuple[float, float]:
    """Mean and variance of the normal density nearest to the points; a wide one if they bend upwards."""
    second, first, _ = np.polyfit(x, y, 2, w=np.exp(np.clip((y - y.max()) / 100, -20, 0)))
    if second >= -1e-12:
        return float(x[len(x) // 2]), float(np.ptp(x)) ** 2
    return float(-first / (2 * second)), float(-1 / (2 * second))


def _draw_levels(grid: Any, answers: Any, rng: Any) -> tuple[Any, Any]:
    drawn, log_q = np.empty((_SAMPLES, len(grid))), np.zeros(_SAMPLES)
    level = np.arange(_LEVELS)
    for k, (x, y) in enumerate(zip(grid, answers, strict=True)):
        mean, variance = _parabola(x[1:-1], y[1:-1])
        log_prob = -((level - mean) ** 2) / (2 * variance)
        log_prob += (y - np.interp(x, level, log_prob))[1:-1].mean()
        log_prob[[0, -1]] = y[[0, -1]]
        probability = np.exp(log_prob - log_prob.max())
        probability = (1 - _UNIFORM) * probability / probability.sum() + _UNIFORM / _LEVELS
        drawn[:, k] = rng.choice(level, size=_SAMPLES, p=probability / probability.sum())
        log_q += np.log(probability[drawn[:, k].astype(int)])
    return drawn, log_q


def _draw_normal(grid: Any, answers: Any, rng: Any) -> tuple[Any, Any]:
    fitted = np.array([_parabola(x, y) for x, y in zip(grid, answers, strict=True)])
    mean, scale = fitted[:, 0], np.sqrt(fitted[:, 1])
    noise = rng.standard_normal((_SAMPLES, len(grid)))
    log_q = -0.5 * (noise**2).sum(1) - np.log(scale).sum() - 0.5 * len(grid) * np.log(2 * np.pi)
    return mean + scale * noise, log_q
