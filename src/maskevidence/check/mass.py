"""The total probability of a hidden token over all its values: by enumeration, quadrature or sampling."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from maskevidence.check.trial import Trial
from maskevidence.check.vector_mass import MOST_ENTRIES, vector_mass
from maskevidence.model import HasLogDistributions

Floats = Float64[np.ndarray, " n"]
N_PROBES = 4
_FEW = 64  # distinct values of a table of whole numbers, which a probability mass may be meant for
_MOST_VALUES = 1024  # that are enumerated one by one
_UNSEEN = 64  # values beyond those seen that are tried, until one is refused or impossible
_REACH = 16.0  # quadrature nodes reach from the peak to sinh(16) = 4.4e6 widths
_MOST_NODES = 4097
_RUNS_AWAY = 0.99


@dataclass(frozen=True)
class Mass:
    """The values of one hidden token with their log-probabilities, in the measure that they add up in.

    Attributes:
        row: the pair of the trial.
        column: the hidden token.
        log_prob: shape (n,); the answers at the values.
        log_weight: shape (n,); the log weight of each value in the sum or integral.
        complete: whether these are all values that the token can have; otherwise the sum is at most 1.
        density: whether the sum is an integral; None if that cannot be told, for a vector of levels.
        error: the numerical or standard error of the total.
        n_samples: the number of draws, if the values are drawn; 0 if they are enumerated.
        note: what else there is to say.
    """

    row: int
    column: int
    log_prob: Floats
    log_weight: Floats
    complete: bool
    density: bool | None = False
    error: float = 0.0
    n_samples: int = 0
    note: str = ""

    def total(self, base: float = math.e) -> float:
        """Σ weight · base^answer; 1 for a probability whose logarithm has that base."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(
                np.exp(
                    np.nan_to_num(
                        self.log_prob * math.log(base) + self.log_weight, nan=-np.inf, neginf=-np.inf
                    )
                ).sum()
            )


def masses(trial: Trial) -> list[Mass]:
    """The total probability of some hidden tokens, one of each of a few pairs; none if it cannot be had."""
    if _not_asked(trial) is not None:
        return []
    probe = trial.one_masked_token("mass")
    rows = trial.rng("mass rows").permutation(len(probe))[:N_PROBES].tolist()
    values = trial.tokens.values
    if isinstance(trial.model, HasLogDistributions):
        return _of_distributions(trial)
    if values.ndim > 2:
        return [vector_mass(trial, row, int(probe[row]), Mass) for row in rows[:2]]
    if not values.is_floating_point():
        return [_enumerated(trial, row, int(probe[row])) for row in rows]
    present = trial.data.values[trial.data.maskable | trial.data.context]
    seen = torch.unique(present)
    if len(seen) <= _FEW and bool((seen == seen.round()).all()):
        found = [_over(trial, row, int(probe[row]), seen) for row in rows]
        if all(abs(mass.total() - 1) <= sum_tolerance(trial) for mass in found):
            return found
        integrals = [_integrated(trial, row, int(probe[row])) for row in rows]
        known = [mass for mass in integrals if mass is not None]
        return known if len(known) == len(rows) else found
    integrals = [_integrated(trial, row, int(probe[row])) for row in rows]
    return [mass for mass in integrals if mass is not None]


def why_not_summed(trial: Trial) -> str:
    """Why `masses` gives none."""
    return _not_asked(trial) or "the model takes no other values than those of the data"


def _not_asked(trial: Trial) -> str | None:
    if trial.model.conditionals == "transformed":
        return "what is scored is not the tokens themselves"
    entries = math.prod(trial.tokens.values.shape[2:])
    if entries > MOST_ENTRIES:
        return f"a token has {entries} numbers; at most {MOST_ENTRIES} are integrated"
    return None


def sum_tolerance(trial: Trial) -> float:
    """How far from 1 rounding and quadrature may bring a sum."""
    return min(0.1, max(1e-4, 10 * trial.tolerance))


def curve_of(trial: Trial, row: int, column: int) -> Callable[[Tensor], Floats]:
    """The log-probability of one hidden token as a function of its value, for an array of values."""

    def log_prob(values: Tensor) -> Floats:
        where = torch.full((len(values),), row)
        tokens = trial.tokens[where]
        changed = tokens.values.clone()
        changed[:, column] = values.to(changed.dtype)
        tokens = type(tokens)(changed, tokens.maskable, tokens.context, tokens.ids, tokens.n_bytes)
        return trial.ask(tokens, trial.masked[where])[:, column].cpu().numpy()

    return log_prob


def _of_distributions(trial: Trial) -> list[Mass]:
    """The distributions that the model itself gives, which also have to agree with its answers."""
    rows = torch.from_numpy(trial.rng("mass rows").permutation(len(trial.masked))[: 2 * N_PROBES])
    masked = trial.masked[rows]
    with torch.no_grad():
        listed = trial.model.log_distributions(trial.tokens[rows], masked).double().cpu()
    trial.passes[0] += len(rows)
    at = torch.nonzero(masked)
    own = listed.gather(1, trial.tokens.values[rows][masked][:, None].long().cpu())[:, 0]
    answer = trial.answer[rows][masked].cpu()
    apart = ((own - answer).abs() / (1 + answer.abs())) > trial.tolerance
    note = "log_distributions and log_conditionals disagree" if bool(apart.any()) else ""
    return [
        Mass(int(rows[row]), column, log_prob.numpy(), np.zeros(len(log_prob)), True, note=note)
        for (row, column), log_prob in zip(at.tolist(), listed, strict=True)
    ]


def _over(trial: Trial, row: int, column: int, values: Tensor) -> Mass:
    log_prob = curve_of(trial, row, column)(values)
    return Mass(row, column, log_prob, np.zeros(len(log_prob)), complete=False)


def _enumerated(trial: Trial, row: int, column: int) -> Mass:
    """Whole numbers from 0 on: all that the tokenizer knows, or those seen, and more until one is refused."""
    log_prob = curve_of(trial, row, column)
    known = getattr(trial.model, "tokenizer", None)
    data = trial.data
    seen = data.values[data.maskable | data.context]
    first, last = min(0, int(seen.min())), int(seen.max())
    if known is not None:
        last = len(known) - 1
    if last - first >= _MOST_VALUES:
        return _over(trial, row, column, torch.unique(seen)[:_MOST_VALUES])
    found = [log_prob(torch.arange(first, last + 1, device=seen.device))]
    complete = known is not None
    for value in range(last + 1, last + 1 + _UNSEEN * (not complete)):
        try:
            more = log_prob(torch.tensor([value], device=seen.device))
        except Exception:  # the model does not accept this value
            complete = True
            break
        if not np.isfinite(more[0]):
            complete = True
            break
        found.append(more)
    answers = np.concatenate(found)
    return Mass(row, column, answers, np.zeros(len(answers)), complete)


def _integrated(trial: Trial, row: int, column: int) -> Mass | None:
    """The integral over the real line; over the range of the column if the model refuses other values.

    The nodes are x = m + w·sinh(t) around the peak m with its width w, equally spaced in t, where the
    trapezoidal rule converges fast for smooth densities with light and with heavy tails. They are doubled
    until the integral stands still.
    """
    log_prob = curve_of(trial, row, column)
    data = trial.data
    there = (data.maskable | data.context)[:, column]
    seen = data.values[there, column].double() if bool(there.any()) else data.values[:, column].double()
    low, high = float(seen.min()), float(seen.max())
    spread = max(high - low, 1e-3 * abs(high), 1e-6)
    device = data.values.device

    def at(x: Floats) -> Floats:
        answers = log_prob(torch.from_numpy(x).to(device))
        return np.where(np.isnan(answers), -np.inf, answers)

    try:
        t = np.linspace(-_REACH, _REACH, 129)
        x = (low + high) / 2 + spread * np.sinh(t)
        answers = at(x)
    except Exception:  # values outside the range are refused
        return _within_range(at, row, column, (low, high))
    best = int(answers.argmax())
    if abs(t[best]) > _RUNS_AWAY * _REACH:
        note = f"the density grows without end as the value goes to {x[best]:.3g}"
        return Mass(row, column, answers, np.log(spread * np.cosh(t) * (t[1] - t[0])), True, True, note=note)
    peak, width = _peak(
        at, float(x[best]), float(np.max(np.abs(x[[max(best - 1, 0), min(best + 1, 128)]] - x[best])))
    )
    before = math.nan
    nodes = 129
    while True:
        t = np.linspace(-_REACH, _REACH, nodes)
        answers = at(peak + width * np.sinh(t))
        log_weight = np.log(width * np.cosh(t) * (t[1] - t[0]))
        mass = Mass(row, column, answers, log_weight, True, density=True)
        error = abs(mass.total() - before)
        if error <= 0.1 * sum_tolerance(trial) or nodes >= _MOST_NODES:
            return Mass(row, column, answers, log_weight, True, density=True, error=error)
        before, nodes = mass.total(), 2 * nodes - 1


def _within_range(
    at: Callable[[Floats], Floats], row: int, column: int, ends: tuple[float, float]
) -> Mass | None:
    low, high = ends
    x = np.linspace(low, high, 513)
    try:
        answers = at(x)
    except Exception:  # only the values of the data themselves are taken
        return None
    weight = np.full(513, (high - low) / 512)
    weight[[0, -1]] /= 2
    return Mass(row, column, answers, np.log(np.maximum(weight, 1e-300)), complete=False, density=True)


def _peak(at: Callable[[Floats], Floats], start: float, reach: float) -> tuple[float, float]:
    """The highest point near a start, and the distance at which the density has fallen to a half."""
    peak, width = start, reach
    for _ in range(6):
        x = peak + width * np.linspace(-1, 1, 41)
        answers = at(x)
        best = int(answers.argmax())
        peak = float(x[best])
        near = answers > answers[best] - math.log(2)
        half = max(float(np.abs(x[near] - peak).max()), (x[1] - x[0]))
        if near.sum() > 8:
            return peak, half
        width = 2 * half
    return peak, width
