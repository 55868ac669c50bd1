"""Probabilities sum to 1, in nats, and it is said of what: a mass or a density, of the tokens themselves."""

import math

import torch

from maskevidence.check.findings import Finding
from maskevidence.check.mass import Mass, sum_tolerance, why_not_summed
from maskevidence.check.significance import critical
from maskevidence.check.trial import Trial
from maskevidence.model import DENSITY, MASS, base_measure_of

_BASES = (2.0, 10.0)
_FEW_VALUES = 32
_BRIGHTER = 8


def normalisation(trial: Trial, found: list[Mass]) -> Finding:
    """The probabilities of all values of a hidden token add up to 1."""
    did = "The probabilities of all values of some hidden tokens were added up, or integrated."
    if not found:
        return Finding("normalisation", "skipped", why_not_summed(trial), did)
    allowed = sum_tolerance(trial)
    counts = {"n_rows": len({int(trial.tokens.ids[mass.row]) for mass in found}), "n_masks": len(found)}
    worst = max(found, key=lambda mass: _excess(mass, trial))
    total, excess = worst.total(), _excess(worst, trial)
    numbers = {"largest": abs(total - 1), "allowed": allowed, **counts}
    if worst.n_samples:
        numbers["z"] = (total - 1) / worst.error if worst.error else 0.0
    where = f"token {worst.column} of observation {int(trial.tokens.ids[worst.row])}"
    if worst.note and excess > 0:
        return trial.finding(
            "normalisation", "failed", f"{worst.note} ({where})", did, look_at=_LOOK_AT, **numbers
        )
    if excess > 0 and total < 1 and (chance := _chance_of_unseen_modes(found)) > _LIKELY:
        text = (
            f"cannot tell: the density of {where} integrates to {total:.4g}; narrow modes between the values "
            f"of its column may hold the rest, which so few rows miss in {chance:.0%} of cases"
        )
        return trial.finding("normalisation", "noted", text, did, look_at=_MORE_ROWS, **numbers)
    if excess > 0:
        error = f" ± {worst.error:.2g}" if worst.error else ""
        text = f"the probabilities of {where} add up to {total:.6g}{error}, not to 1"
        return trial.finding("normalisation", "failed", text, did, look_at=_LOOK_AT, **numbers)
    unsure = [mass for mass in found if mass.n_samples and mass.note]
    if unsure:
        text = f"{unsure[0].note}, which add up to {unsure[0].total():.2g}: no more than a rough number"
        return trial.finding("normalisation", "noted", text, did, **numbers)
    rough = max(found, key=lambda mass: mass.error)
    if not rough.n_samples and rough.error > allowed:
        text = f"cannot tell: the integral has not settled, at {rough.total():.4g} ± {rough.error:.2g}"
        return trial.finding("normalisation", "noted", text, did, look_at=_MORE_DIGITS, **numbers)
    short = [mass for mass in found if not mass.complete and mass.total() < 1 - allowed - _room(mass, trial)]
    if short:
        beyond = "whether there are other values is not known"
        if short[0].n_samples:
            beyond = "the rest of the density lies beyond or between them"
        tried = "levels 0..255" if short[0].n_samples else f"{len(short[0].log_prob):,} values tried"
        text = f"the probabilities of the {tried} add up to {short[0].total():.4g}; {beyond}"
        look_at = "the values that a token can have; a method log_distributions(tokens, masked) lists them"
        return trial.finding("normalisation", "noted", text, did, look_at=look_at, **numbers)
    kind = "integrals" if worst.density else "sums"
    text = f"{len(found)} {kind}, all within {max(abs(mass.total() - 1) for mass in found):.1e} of 1"
    return trial.passed("normalisation", text, did, **numbers)


_LOOK_AT = "the softmax or the constant of the density, and its sign"
_MORE_ROWS = "the constant of the density, with more rows"
_MORE_DIGITS = "modes narrower than the digits of the values; double precision tells more"
_LIKELY = 0.05


def _chance_of_unseen_modes(found: list[Mass]) -> float:
    """The probability that no value of the columns lies in the part of its density that was not found."""
    of_columns = {mass.column: mass for mass in sorted(found, key=lambda mass: -mass.total())}
    if any(mass.n_known == 0 for mass in found):  # no integrals
        return 0.0
    return math.prod(min(1.0, mass.total()) ** mass.n_known for mass in of_columns.values())


def units(trial: Trial, found: list[Mass]) -> Finding:
    """Answers are natural logarithms of the tokens' own probabilities, and it is said of which measure."""
    did = "Bases 2 and 10 of the logarithm were tried, and whether the tokens themselves are scored."
    if trial.model.conditionals == "transformed":
        text = "what is scored is not the tokens themselves, as the model says: every sum is `pseudo`"
        return trial.finding("units", "noted", text, did)
    if trial.tokens.values.ndim > 2 and (finding := _of_shifted_vectors(trial, did)) is not None:
        return finding
    if not found:
        return Finding("units", "skipped", why_not_summed(trial), did)
    allowed = sum_tolerance(trial)
    totals = {base: [mass.total(base) for mass in found] for base in (math.e, *_BASES)}
    if any(abs(total - 1) > allowed for total in totals[math.e]):
        for base in _BASES:
            if all(
                abs(total - 1) <= allowed + mass.error
                for total, mass in zip(totals[base], found, strict=True)
            ):
                text = (
                    f"the answers are logarithms to the base {base:g}: with it, the probabilities add up to 1"
                )
                return trial.finding(
                    "units", "failed", text, did, look_at="torch.log in place of another logarithm"
                )
    said, density = base_measure_of(trial.model), found[0].density
    if said is not None and density is not None and said.startswith(MASS) == density:
        kind = "density" if density else "mass"
        text = f"the probabilities are those of a {kind}, but base_measure = {said!r}"
        return trial.finding("units", "failed", text, did, look_at="the attribute `base_measure`")
    if not density or trial.tokens.values.ndim > 2:
        measure = said or ("measure that the model does not say" if density is None else MASS)
        return trial.passed("units", f"natural logarithms of a {measure}", did)
    present = trial.data.values[trial.data.maskable]
    distinct = len(torch.unique(present))
    whole = not present.is_floating_point() or bool((present == present.round()).all())
    if distinct <= _FEW_VALUES and whole and len(present) > 4 * distinct:
        text = (
            f"natural logarithms of a density, beside data with {distinct} distinct values: a density can "
            "rise without bound on them, and cannot be compared with a probability mass"
        )
        look_at = "a model of the values themselves, or one fixed density for all models that are compared"
        return trial.finding("units", "noted", text, did, look_at=look_at)
    return trial.passed("units", f"natural logarithms of a {said or DENSITY}", did)


def _of_shifted_vectors(trial: Trial, did: str) -> Finding | None:
    """A failed finding if the answer stays the same when all entries of a hidden token move together.

    A density of the entries must change; one of the entries minus their own mean does not.
    """
    values, probe = trial.tokens.values, trial.one_masked_token("shift")
    row = torch.arange(len(probe))
    own = values[row, probe].flatten(1)
    step = _BRIGHTER if values.dtype == torch.uint8 else max(float(own.double().std()), 1e-3)
    fits = (
        own.double().amax(1) + step <= 255
        if values.dtype == torch.uint8
        else torch.ones(len(own), dtype=torch.bool)
    )
    if not bool(fits.any()):
        return None
    moved = values.clone()
    moved[row[fits], probe[fits]] = (values[row[fits], probe[fits]].double() + step).to(values.dtype)
    after = trial.ask(trial.with_values(moved), trial.masked)[row, probe][fits]
    before = trial.answer[row, probe][fits]
    still = (after - before).abs() <= trial.tolerance * (1 + before.abs())
    changes = (trial.answer[trial.masked] - trial.answer[trial.masked].mean()).abs().max() > 0
    if float(still.double().mean()) < 0.5 or not bool(changes):
        return None
    text = f"the answer stays the same when all {own.shape[1]} numbers of a hidden token rise by {step:g}"
    return trial.finding(
        "units",
        "failed",
        text,
        did,
        look_at="a target that is normalised by its own mean, which needs conditionals = 'transformed'",
    )


def _room(mass: Mass, trial: Trial) -> float:
    """What the error of a total allows beyond rounding."""
    return mass.error * (critical(mass.n_samples - 1) if mass.n_samples else 2.0)


def _excess(mass: Mass, trial: Trial) -> float:
    """How far a total lies beyond what is allowed; 0 or less if it does not."""
    total = mass.total()
    if mass.note and not mass.n_samples:
        return math.inf
    if mass.note:
        return 0.0 if total < 10 else total
    room = sum_tolerance(trial) + _room(mass, trial)
    off = abs(total - 1) if mass.complete else total - 1
    return off - room if math.isfinite(off) else math.inf
