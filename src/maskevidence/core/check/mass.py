"""Checks that the probabilities of a hidden token sum to 1, in nats and in the base measure of the model."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from maskevidence.core.check.findings import Finding, failed, noted, passed, skipped
from maskevidence.core.check.integrals import FloatVector, integrate
from maskevidence.core.check.trial import Trial, check
from maskevidence.core.errors import InputError
from maskevidence.core.model import DENSITY, MASS, HasLogDistributions, base_measure_of

_MOST_COLUMNS = 32  # columns asked; of wider rows, a random sample
_N_LISTED = 8  # pairs for which the model lists its distributions
_TOKENS_A_PAIR = 8  # distributions kept per pair; each has many values
_FEW = 64  # a table of at most as many distinct whole numbers may have a probability mass
_MOST_VALUES = 1024  # values enumerated one by one
_UNSEEN = 64  # values tried beyond the data, until the model refuses one or gives it probability 0
_STARTS, _WIDE_GAPS = 64, 16  # values of a column at which a quadrature starts
_BASES = (2.0, 10.0)
_FEW_VALUES = 32
_BRIGHTER = 8
_LIKELY, _FULL = 0.05, 1e-4  # a likely chance; a shortfall of an integral that does not count
_N_PAIRS = 8  # pairs over which the mask token's probability is averaged
_LEAST_SHARE = 1e-3
_TIMES_OTHERS = 3.0  # in medians over all values; networks with random weights reach 1.6


@dataclass(frozen=True)
class Mass:
    """The values of a hidden token with log-probabilities and weights, which should add up to 1."""

    row: int  # the id of the observation
    column: int  # the hidden token
    log_prob: FloatVector  # shape (n,); the answer for each value
    log_weight: FloatVector  # shape (n,); the log weight of each value in the sum or integral
    error: float = 0.0  # numerical error of the total
    note: str = ""  # why the total cannot be trusted; "" if it can
    complete: bool = True  # whether all values are listed; if not, the sum may be below 1
    density: bool = False  # whether the sum is an integral
    # how many values the column has in the data: where the integral looks for narrow modes
    n_values: int = 0

    def total(self, base: float = math.e) -> float:
        """Σ weight · base^answer, which is 1 if answers are logarithms to this base."""
        with np.errstate(over="ignore", invalid="ignore"):
            log_terms = self.log_prob * math.log(base) + self.log_weight
            return float(np.exp(np.nan_to_num(log_terms, nan=-np.inf, neginf=-np.inf)).sum())


def masses(trial: Trial) -> list[Mass]:
    """Compute the total probability of a hidden token of each column; [] if that is impossible.

    Another token is asked where all are hidden. Of more than 32 columns, a random sample is asked.
    """
    if _why_unknown(trial) is not None:
        return []
    listed = isinstance(trial.model, HasLogDistributions)
    asked, hidden = _probes(trial, listed)
    found = _listed(asked) if listed else _of_tokens(asked, hidden)
    trial.n_passes += asked.n_passes
    ids = asked.tokens.ids.tolist()
    return [replace(mass, row=ids[mass.row]) for mass in found]


def _probes(trial: Trial, listed: bool) -> tuple[Trial, list[tuple[int, int]]]:
    """Draw pairs to ask about and a hidden token of each; the last pair hides all tokens."""
    rng, maskable = trial.rng("mass rows"), trial.tokens.maskable.cpu().numpy()
    pairs, columns = rng.permutation(len(maskable))[:_N_LISTED], np.zeros(0, dtype=np.int64)
    if not listed:
        columns = np.flatnonzero(maskable.any(axis=0))
        columns = np.sort(rng.permutation(columns)[:_MOST_COLUMNS])
        pairs = np.array([rng.choice(np.flatnonzero(maskable[:, j])) for j in columns])
    full = int(rng.choice(np.flatnonzero(maskable.any(axis=1))))
    place = torch.from_numpy(np.append(pairs, full))
    masked = trial.masked[place].clone()
    masked[np.arange(len(columns)), columns] = True
    masked[-1] = trial.tokens.maskable[full]
    asked = Trial(trial.model, trial.data, trial.tokens[place], masked, trial.tolerance, trial.seed)
    last = len(pairs), int(rng.choice(np.flatnonzero(maskable[full])))
    return asked, [*enumerate(columns.tolist()), last]


def _of_tokens(trial: Trial, hidden: list[tuple[int, int]]) -> list[Mass]:
    """Sum the probabilities of each token over the values of the data, whole numbers or the real line."""
    values = trial.tokens.values
    if not values.is_floating_point():
        return [_enumerated(trial, *token) for token in hidden]
    if hasattr(trial.model, "values_of"):
        known = [_known_values(trial, *token) for token in hidden]
        return [mass for mass in known if mass is not None]
    seen, sums = torch.unique(trial.data.values[_present(trial)]), []
    if len(seen) <= _FEW and bool((seen == seen.round()).all()):
        sums = [_summed(trial, *token, seen) for token in hidden]
        if _are_one(trial, sums):
            return sums
        if (base_measure_of(trial.model) or "").startswith(MASS):  # the data may lack some values
            enumerated = [_enumerated(trial, *token) for token in hidden]
            if _are_one(trial, enumerated):
                return enumerated
    integrals = [mass for token in hidden if (mass := _integrated(trial, *token)) is not None]
    return sums if sums and len(integrals) < len(hidden) else integrals


def _are_one(trial: Trial, masses: list[Mass]) -> bool:
    return all(abs(mass.total() - 1) <= _tolerance(trial) for mass in masses)


def _why_unknown(trial: Trial) -> str | None:
    """Why total probabilities cannot be computed; None if they can."""
    if trial.model.conditionals == "transformed":
        return "the scores are not of the tokens themselves"
    if trial.tokens.values.ndim > 2:
        return "a token has several numbers, and no integral over them is computed"
    return None


def _no_masses(trial: Trial) -> Finding:
    """Skip a check for lack of total probabilities."""
    return skipped(_why_unknown(trial) or "the model accepts no values beyond the data")


def _present(trial: Trial) -> Bool[Tensor, "N D"]:
    """True where a value of the data is not absent."""
    return trial.data.maskable | trial.data.context


def _tolerance(trial: Trial) -> float:
    """How far a total may be from 1 because of rounding and quadrature."""
    return min(0.1, max(1e-4, 10 * trial.tolerance))


def _listed(trial: Trial) -> list[Mass]:
    """Take the distributions from `log_distributions`, and note whether they agree with the answers."""
    pairs = np.arange(len(trial.masked))
    result, agree = [], True
    for part, tokens, hidden, log_probs in trial.distributions(pairs):
        row = pairs[part]
        own = log_probs.gather(1, tokens.values[hidden][:, None].long().to(log_probs.device))[:, 0]
        answer = trial.answer[row][hidden].cpu()
        agree &= not bool(
            (((own.double().cpu() - answer).abs() / (1 + answer.abs())) > trial.tolerance).any()
        )
        taken = hidden.cumsum(1)[hidden] <= _TOKENS_A_PAIR
        places, log_p = torch.nonzero(hidden)[taken].tolist(), log_probs[taken].double().cpu().numpy()
        for (index, column), log_prob in zip(places, log_p, strict=True):
            result.append(Mass(int(row[index]), column, log_prob, np.zeros(len(log_prob))))
    note = "" if agree else "log_distributions and log_conditionals disagree"
    return [replace(mass, note=note) for mass in result]


def _summed(trial: Trial, row: int, column: int, values: Tensor) -> Mass:
    """Sum the probabilities of these values."""
    log_prob = trial.curve(row, column)(values)
    return Mass(row, column, log_prob, np.zeros(len(log_prob)), complete=False)


def _known_values(trial: Trial, row: int, column: int) -> Mass | None:
    """Sum over all values of a discrete column; integrate over a continuous one."""
    values = trial.model.values_of(column)
    if values is None:
        return _integrated(trial, row, column)
    measure = base_measure_of(trial.model) or MASS
    return replace(_summed(trial, row, column, values), complete=True, density=not measure.startswith(MASS))


def _enumerated(trial: Trial, row: int, column: int) -> Mass:
    """Sum over the tokenizer's ids; without a tokenizer, over whole numbers until one is refused."""
    log_prob = trial.curve(row, column)
    tokenizer = getattr(trial.model, "tokenizer", None)
    seen = trial.data.values[_present(trial)]
    first = min(0, int(seen.min()))
    last = int(seen.max()) if tokenizer is None else len(tokenizer) - 1
    if last - first >= _MOST_VALUES:
        return _summed(trial, row, column, torch.unique(seen)[:_MOST_VALUES])
    answers = [log_prob(torch.arange(first, last + 1, device=seen.device, dtype=seen.dtype))]
    complete = tokenizer is not None
    for value in range(last + 1, last + 1 + _UNSEEN * (not complete)):
        try:
            answer = log_prob(torch.tensor([value], device=seen.device, dtype=seen.dtype))
        except Exception:  # the model refuses this value
            answer = np.array([-np.inf])
        if not np.isfinite(answer[0]):
            complete = True
            break
        answers.append(answer)
    log_p = np.concatenate(answers)
    return Mass(row, column, log_p, np.zeros(len(log_p)), complete=complete)


def _integrated(trial: Trial, row: int, column: int) -> Mass | None:
    """Integrate over the real line, or over the column's range if the model refuses values outside it."""
    curve, device = trial.curve(row, column), trial.data.values.device

    def log_prob(x: FloatVector) -> FloatVector:
        try:
            answers = curve(torch.from_numpy(x).to(device))
        except Exception as error:  # the model refuses values outside the range or the data
            raise InputError("the model does not take these values") from error
        return np.where(np.isnan(answers), -np.inf, answers)

    starts, tolerance = _starts(trial, row, column), 0.1 * _tolerance(trial)
    for line in (True, False):
        try:
            log_p, log_weight, error, grows = integrate(log_prob, starts, tolerance, line=line)
        except InputError:
            continue
        note = "" if grows is None else f"the density grows without end towards {grows:.3g}"
        n_values = int(_present(trial)[:, column].sum())
        sums = log_p, log_weight, error
        return Mass(row, column, *sums, note, complete=line, density=True, n_values=n_values)
    return None


def _starts(trial: Trial, row: int, column: int) -> FloatVector:
    """Starting nodes in ascending order: quantiles of the column and both ends of its widest gaps."""
    own = float(trial.tokens.values[row, column])
    seen = np.unique(trial.data.values[_present(trial)[:, column], column].double().cpu().numpy())
    gaps = np.argsort(-np.diff(seen))[:_WIDE_GAPS]
    ranks = np.linspace(0, len(seen) - 1, min(len(seen), _STARTS)).round().astype(int)
    return np.unique(np.concatenate([seen[ranks], seen[gaps], seen[(gaps + 1) % len(seen)], [own]]))


@check(
    "normalisation",
    "The probabilities of all values of a hidden token of each of at most 32 columns were added up.",
    "the softmax or the constant of the density, and its sign",
)
def normalisation(trial: Trial, masses: list[Mass]) -> Finding:
    """Check that the probabilities of all values of a hidden token add up to 1."""
    if not masses:
        return _no_masses(trial)
    allowed, undecided = _tolerance(trial), _undecided(masses, trial)
    masses = [mass for mass in masses if not any(mass is each for each in undecided)]
    worst = max(masses, key=lambda mass: _excess(mass, trial))
    total, excess = worst.total(), _excess(worst, trial)
    n_rows = len({mass.row for mass in masses})
    numbers: dict[str, Any] = {
        "largest": abs(total - 1),
        "allowed": allowed,
        "n_rows": n_rows,
        "n_masks": len(masses),
    }
    token = f"token {worst.column} of observation {worst.row}"
    if excess > 0:
        return replace(_not_normalised(worst, masses, token), **numbers)
    rough = max(masses, key=lambda mass: mass.error)
    if rough.error > allowed:
        message = f"cannot tell: the integral has not converged, at {rough.total():.4g} ± {rough.error:.2g}"
        look_at = "modes narrower than the precision of the values; double precision may resolve them"
        return noted(message, look_at=look_at, **numbers)
    incomplete = [mass for mass in masses if not mass.complete]
    if short := [mass for mass in incomplete if mass.total() < 1 - allowed - 2 * mass.error]:
        look_at = "the values that a token can have; a method log_distributions(tokens, masked) lists them"
        message = (
            f"the probabilities of the {len(short[0].log_prob):,} values tried add up to "
            f"{short[0].total():.4g}; whether there are other values is not known"
        )
        return noted(message, look_at=look_at, **numbers)
    kind = "integrals" if worst.density else "sums"
    largest = max(abs(mass.total() - 1) for mass in masses)
    said = f"{len(masses)} {kind}, all within {largest:.1e} of 1"
    if undecided:
        low = min(mass.total() for mass in undecided)
        said += f"; {len(undecided)} more, from {low:.4g} on, may lack modes that no row shows"
    return passed(said, **numbers)


def _not_normalised(worst: Mass, masses: list[Mass], token: str) -> Finding:
    """The finding for a total other than 1: failed, or noted if a mode between the rows may explain it."""
    if worst.note:
        return failed(f"{worst.note} ({token})")
    total = worst.total()
    if total < 1 and (chance := _chance_of_unseen_modes(masses)) > _LIKELY:
        return noted(
            f"cannot tell: the density of {token} integrates to {total:.4g}; narrow modes between the values "
            f"of its column may hold the rest, which so few rows miss in {chance:.0%} of cases",
            look_at="the constant of the density, with more rows",
        )
    error = f" ± {worst.error:.2g}" if worst.error else ""
    return failed(f"the probabilities of {token} add up to {total:.6g}{error}, not to 1")


def _chance_of_unseen_modes(masses: list[Mass]) -> float:
    """Probability that no value falls into the missing part of the density, in this many columns."""
    if any(mass.n_values == 0 for mass in masses):  # sums, not integrals
        return 0.0
    of_columns = {mass.column: mass for mass in sorted(masses, key=lambda mass: -mass.total())}
    short = [mass for mass in of_columns.values() if mass.total() < 1 - _FULL]
    chance = math.prod(mass.total() ** mass.n_values for mass in short)
    return min(1.0, math.comb(len(of_columns), len(short)) * chance)


def _undecided(masses: list[Mass], trial: Trial) -> list[Mass]:
    """Tokens whose densities may have modes between the rows; none if half of the columns fall short."""
    short = [mass for mass in masses if mass.total() < 1 and _excess(mass, trial) > 0 and not mass.note]
    n_short, n_columns = (len({mass.column for mass in some}) for some in (short, masses))
    likely = bool(short) and _chance_of_unseen_modes(masses) > _LIKELY
    return short if likely and 2 * n_short < n_columns else []


def _excess(mass: Mass, trial: Trial) -> float:
    """How far a total exceeds the tolerance; 0 or negative if it does not."""
    difference = mass.total() - 1
    if mass.note or not math.isfinite(difference):
        return math.inf
    return (abs(difference) if mass.complete else difference) - _tolerance(trial) - 2 * mass.error


@check("units", "Bases 2 and 10 of the logarithm were tried, and whether the tokens themselves are scored.")
def units(trial: Trial, masses: list[Mass]) -> Finding:
    """Check that answers are natural logarithms, in the base measure that the model names."""
    if trial.model.conditionals == "transformed":
        return noted("the scores are not of the tokens themselves, as the model says: every sum is `pseudo`")
    if trial.tokens.values.ndim > 2 and (step := _ignored_step(trial)) is not None:
        n_entries = math.prod(trial.tokens.values.shape[2:])
        return failed(
            f"the answer stays the same when all {n_entries} numbers of a hidden token rise by {step:g}",
            look_at="a target that is normalised by its own mean, which needs conditionals = 'transformed'",
        )
    if not masses:
        return _no_masses(trial)
    if (base := _other_base(masses, _tolerance(trial))) is not None:
        message = f"the answers are logarithms to the base {base:g}: with it, the probabilities add up to 1"
        return failed(message, look_at="torch.log in place of another logarithm")
    measure, density = base_measure_of(trial.model), masses[0].density
    if measure is not None and measure.startswith(MASS) == density:
        kind = "density" if density else "mass"
        message = f"the probabilities are those of a {kind}, but base_measure = {measure!r}"
        return failed(message, look_at="the attribute `base_measure`")
    if not density:
        return passed(f"natural logarithms of a {measure or MASS}")
    values = trial.data.values[trial.data.maskable]
    n_distinct = len(torch.unique(values))
    whole = not values.is_floating_point() or bool((values == values.round()).all())
    if n_distinct <= _FEW_VALUES and whole and len(values) > 4 * n_distinct:
        return noted(
            f"natural logarithms of a density, for data with {n_distinct} distinct values: a density can "
            "rise without bound on them, and cannot be compared with a probability mass",
            look_at="a model of the values themselves, or one fixed density for all models that are compared",
        )
    return passed(f"natural logarithms of a {measure or DENSITY}")


def _other_base(masses: list[Mass], tolerance: float) -> float | None:
    """The base of logarithms, 2 or 10, for which all totals are 1; None for base e or if none fits."""
    if all(abs(mass.total() - 1) <= tolerance for mass in masses):
        return None
    fits = (base for base in _BASES if all(abs(m.total(base) - 1) <= tolerance + m.error for m in masses))
    return next(fits, None)


def _ignored_step(trial: Trial) -> float | None:
    """A shift of all entries of a hidden token that leaves its answer unchanged; None if there is none.

    A density of the entries changes with it; a density of the entries minus their own mean does not.
    """
    values, column = trial.tokens.values, trial.probe("shift")
    row = torch.arange(len(column))
    own = values[row, column].double()
    step, fits = max(float(own.std()), 1e-3), torch.ones(len(own), dtype=torch.bool)
    if values.dtype == torch.uint8:
        step, fits = _BRIGHTER, own.flatten(1).amax(1) + _BRIGHTER <= 255
    if not bool(fits.any()):
        return None
    moved = values.clone()
    moved[row[fits], column[fits]] = (own[fits] + step).to(values.dtype)
    after = trial.ask(trial.with_values(moved))[row, column][fits]
    before = trial.answer[row, column][fits]
    same = (after - before).abs() <= trial.tolerance * (1 + before.abs())
    answer = trial.answer[trial.masked]
    varies = bool((answer - answer.mean()).abs().max() > 0)
    return step if varies and float(same.double().mean()) >= 0.5 else None


@check(
    "mask token",
    "The probability of the mask token itself at the hidden tokens of some pairs was averaged.",
    "the logit of the mask token, to be left out before the softmax (diffusion=mdlm, for example)",
    explains=False,
)
def mask_token(trial: Trial) -> Finding:
    """Check that hidden tokens are hardly ever predicted to be the mask token.

    A network that was trained with the mask token among its outputs has learnt that it never is the answer,
    and gives it less than other values. In MDLM, SEDD and BD3-LM its output is left out before the softmax,
    in training too, and nothing keeps it small: where it is not left out, the answers are too low by
    -log(1 - p(mask token)) nats for each hidden token.
    """
    token = getattr(trial.model, "mask_token_id", None)
    if token is None or not isinstance(trial.model, HasLogDistributions):
        return skipped("the model has no mask token, or lists no distributions")
    pairs = trial.rng("mask token").permutation(len(trial.masked))[:_N_PAIRS]
    sums, of_token = [], []
    for answer in trial.distributions(pairs):
        if token >= answer.log_probs.shape[1]:
            return passed("it is not among the values")
        sums.append(answer.log_probs.exp().sum(0, dtype=torch.float64).cpu())
        of_token.append(answer.log_probs[:, token].double().cpu())
    log_p = torch.cat(of_token)
    shares = torch.stack(sums).sum(0) / len(log_p)
    share = float(shares[token])
    allowed = max(_LEAST_SHARE, _TIMES_OTHERS * float(shares.median()))
    numbers = {"largest": share, "allowed": allowed, "n_rows": trial.n_rows, "n_masks": len(pairs)}
    if share <= allowed:
        return passed(f"it has a probability of {share:.1e}", **numbers)
    lost = float(-torch.log1p(-log_p.exp().clamp(max=1 - 1e-12)).mean())
    message = (
        f"{share:.2%} of the probability goes to the mask token; hidden tokens are {lost:.2g} nats too low"
    )
    return failed(message, **numbers)
