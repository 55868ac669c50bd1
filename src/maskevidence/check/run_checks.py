"""All checks of a model, one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from maskevidence.check import answers, joint, leak, normalisation, offset
from maskevidence.check import texts as texts_
from maskevidence.check.findings import CheckReport, Finding
from maskevidence.check.mask_token import mask_token
from maskevidence.check.mass import Mass, masses
from maskevidence.check.trial import Trial, new_trial
from maskevidence.check.weights import weights
from maskevidence.errors import InputError
from maskevidence.model import HasLogDistributions, as_tokens
from maskevidence.scores.first_batch import rounding
from maskevidence.scores.score import check_tokens
from maskevidence.support.checks import whole_number

# In the order in which a fault shows: it makes the checks behind it fail as well.
_OF_ANSWERS: dict[str, Callable[[Trial], Finding]] = {
    "zeros": answers.zeros,
    "finite": answers.finite,
    "determinism": answers.determinism,
    "batch": leak.batch,
    "cache": leak.cache,
    "ids": leak.ids,
    "own value": answers.own_value,
    "leak": leak.leak,
    "distributions": leak.distributions,
    "absent values": leak.absent,
    "offset": offset.offset,
    "context": answers.context,
    "mask token": mask_token,
}
_OF_SUMS: dict[str, Callable[[Trial], Finding]] = {
    "one joint": joint.joint,
    "orders": joint.orders,
    "closed form": joint.closed_form,
}
_OF_TEXTS: dict[str, Callable[[Trial], Finding]] = {
    "bytes": texts_.n_bytes,
    "scored tokens": texts_.scored_tokens,
    "unknown tokens": texts_.unknown,
    "length limit": texts_.length_limit,
}
_ON_ITS_OWN = {"zeros", "mask token", *_OF_TEXTS}  # these explain no other check


def check_model(
    model: Any,
    data: object,
    *,
    texts: Sequence[str | Sequence[str]] | None = None,
    objective: Any = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> CheckReport:
    """Check that a model keeps the protocol which every number of this package rests on.

    Args:
        model: any `MaskedModel`, in the state in which it is scored.
        data: `Tokens`, or what the model's `tokens` reads, such as an (N, D) table or a list of texts. Up to
            16 of the rows are used, with three masks each, and up to 64 for the neighbours of a token.
        texts: the texts behind the observations, for the checks of their bytes and tokens; by default `data`,
            if it is a list of texts.
        seed: of the rows, masks and values that are drawn.
        tolerance: the largest difference that rounding can explain, relative to 1 + |answer|; by default 1e-7
            in double precision, 2e-4 in single and 0.05 in half precision.

    Returns:
        A report, which prints as a table. The statistical checks of one call raise a false alarm on a sound
        model with a probability of at most 0.1 %. A check that fails after one which may explain it is
        skipped, and says so: mend the first, and check again.

    Raises:
        InputError: data that the model does not take.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> report = me.check_model(model, model.sample(20))
        >>> report.ok, report["leak"].status
        (True, 'passed')
    """
    if whole_number("seed", seed) < 0:
        raise InputError(f"seed={seed}; give a whole number of 0 or more")
    name = type(model).__name__
    said = answers.word(model)
    if said.status == "failed":
        return CheckReport(name, (said,), 0, seed)
    tokens = as_tokens(model, data)
    check_tokens(tokens)
    trial = new_trial(model, tokens, seed=seed, texts=_fields(texts, data), tolerance=tolerance)
    findings = [said]
    with torch.random.fork_rng(devices=[]):
        try:
            raw = trial.raw(trial.tokens, trial.masked)
        except InputError:
            raise
        except Exception as error:
            raw = error
        findings.append(_raised("shape", raw) if isinstance(raw, Exception) else answers.shape(trial, raw))
        if findings[-1].status == "passed":
            if tolerance is None:
                trial = replace(trial, tolerance=rounding(model, raw))
            asked = dict(_OF_ANSWERS)
            if not isinstance(model, HasLogDistributions):
                del asked["distributions"]
            found = [_guarded(check, run, trial) for check, run in asked.items()]
            found += _of_masses(trial)
            found += [_guarded(check, run, trial) for check, run in (_OF_SUMS | _OF_TEXTS).items()]
            findings += _one_for_each_fault(found)
        if objective is not None:
            findings += weights(objective, seed)
    return CheckReport(name, tuple(findings), trial.n_passes, seed)


def _fields(texts: Sequence[str | Sequence[str]] | None, data: object) -> tuple[tuple[str, ...], ...] | None:
    """The texts of each observation as tuples; None if the data are no texts."""
    if texts is None and isinstance(data, list | tuple) and all(isinstance(one, str) for one in data):
        texts = data
    if texts is None:
        return None
    return tuple((one,) if isinstance(one, str) else tuple(one) for one in texts)


def _of_masses(trial: Trial) -> list[Finding]:
    """The checks of the total probability, which is computed once."""
    try:
        found: list[Mass] = masses(trial)
    except Exception as error:
        return [_raised("normalisation", error)]
    return [
        _guarded("units", lambda trial: normalisation.units(trial, found), trial),
        _guarded("normalisation", lambda trial: normalisation.normalisation(trial, found), trial),
    ]


def _one_for_each_fault(findings: list[Finding]) -> list[Finding]:
    """The findings, of which none has failed that an earlier failed one may explain: it is skipped."""
    kept: list[Finding] = []
    cause: Finding | None = None
    for finding in findings:
        same = [one for one in kept if one.status == "failed" and one.found == finding.found]
        alone = finding.check in _ON_ITS_OWN
        first = same[0] if same else None if alone else cause
        if finding.status == "failed" and first is not None:
            found = f"fails as well, as it may if {first.check!r} does: {finding.found}"
            finding = replace(finding, status="skipped", found=found)
        elif finding.status == "failed" and not alone:
            cause = finding
        kept.append(finding)
    return kept


def _guarded(check: str, run: Callable[[Trial], Finding], trial: Trial) -> Finding:
    """The finding of a check; a model that raises an error in it has failed."""
    try:
        return run(trial)
    except Exception as error:
        return _raised(check, error)


def _raised(check: str, error: Exception) -> Finding:
    text = " ".join(str(error).split())[:200]
    return Finding(
        check,
        "failed",
        f"the model raised {type(error).__name__}: {text}",
        "The model was called with tokens and masks that the protocol allows.",
        look_at="the line that raised it",
    )
