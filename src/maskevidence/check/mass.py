"""The total probability of a hidden token over all its values: by enumeration, quadrature or sampling."""

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from maskevidence.check.quadrature import Floats, integrate
from maskevidence.check.trial import Trial
from maskevidence.check.vector_mass import MOST_ENTRIES, vector_mass
from maskevidence.model import HasLogDistributions

N_PROBES = 4
_FEW = 64  # distinct values of a table of whole numbers, which a probability mass may be meant for
_MOST_VALUES = 1024  # that are enumerated one by one
_UNSEEN = 64  # values beyond those seen that are tried, until one is refused or impossible
_KNOWN, _WIDE_GAPS = 64, 16  # values of a column at which a quadrature begins


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
        n_known: the number of the column's values in the data, at which an integral looks for narrow modes.
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
    n_known: int = 0

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


def _of_distributions(trial: Trial) -> list[Mass]:
    """The distributions that the model itself gives, which also have to agree with its answers."""
    rows = trial.rng("mass rows").permutation(len(trial.masked))[: 2 * N_PROBES]
    result, agree = [], True
    for part, tokens, hidden, log_probs in trial.distributions(rows):
        row, listed = rows[part], log_probs.double().cpu()
        own = listed.gather(1, tokens.values[hidden][:, None].long().cpu())[:, 0]
        answer = trial.answer[row][hidden].cpu()
        agree &= not bool((((own - answer).abs() / (1 + answer.abs())) > trial.tolerance).any())
        for (number, column), log_prob in zip(torch.nonzero(hidden).tolist(), listed.numpy(), strict=True):
            result.append(Mass(int(row[number]), column, log_prob, np.zeros(len(log_prob)), True))
    note = "" if agree else "log_distributions and log_conditionals disagree"
    return [replace(mass, note=note) for mass in result]


def _over(trial: Trial, row: int, column: int, values: Tensor) -> Mass:
    log_prob = trial.curve(row, column)(values)
    return Mass(row, column, log_prob, np.zeros(len(log_prob)), complete=False)


def _enumerated(trial: Trial, row: int, column: int) -> Mass:
    """Whole numbers from 0 on: all that the tokenizer knows, or those seen, and more until one is refused."""
    log_prob = trial.curve(row, column)
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
    """The integral over the real line; over the range of the column if the model refuses other values."""
    log_prob = trial.curve(row, column)
    device = trial.data.values.device

    def at(x: Floats) -> Floats:
        try:
            answers = log_prob(torch.from_numpy(x).to(device))
        except Exception as error:  # values outside the range are refused, or all but those of the data
            raise _Refused from error
        return np.where(np.isnan(answers), -np.inf, answers)

    for line in (True, False):
        try:
            nodes = integrate(at, _known_values(trial, row, column), 0.1 * sum_tolerance(trial), line=line)
        except _Refused:
            continue
        away = nodes.runs_away
        note = "" if away is None else f"the density grows without end as the value goes to {away:.3g}"
        n_known = int((trial.data.maskable | trial.data.context)[:, column].sum())
        return Mass(row, column, *nodes[:2], line, True, error=nodes.error, note=note, n_known=n_known)
    return None


class _Refused(Exception):
    """The model does not take a value."""


def _known_values(trial: Trial, row: int, column: int) -> Floats:
    """Some values of each part of a column of the data, and both ends of its wide gaps, in rising order."""
    own = float(trial.tokens.values[row, column])
    there = (trial.data.maskable | trial.data.context)[:, column]
    seen = np.unique(trial.data.values[there, column].double().cpu().numpy())
    gaps = np.argsort(-np.diff(seen))[:_WIDE_GAPS]
    ranks = np.linspace(0, len(seen) - 1, min(len(seen), _KNOWN)).round().astype(int)
    return np.unique(np.concatenate([seen[ranks], seen[gaps], seen[(gaps + 1) % len(seen)], [own]]))
