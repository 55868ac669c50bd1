"""Run all checks of a model in order."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from maskevidence.core.check import answers, joint, leak, mass
from maskevidence.core.check.findings import CheckReport, Finding
from maskevidence.core.check.trial import Trial, new_trial, raised
from maskevidence.core.errors import InputError
from maskevidence.core.kind import kinds, named
from maskevidence.core.model import HasLogDistributions, as_tokens, rounding
from maskevidence.core.scores.score_masks import check_tokens
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.devices import seeded

# A fault makes later checks fail as well, so the most telling check comes first.
_FIRST = (
    answers.zeros,
    answers.finite,
    answers.determinism,
    leak.batch,
    leak.cache,
    leak.ids,
    answers.own_value,
    leak.leak,
    leak.distributions,
    leak.absent,
    answers.offset,
    answers.context,
    mass.mask_token,
)
_OF_MASSES = (mass.units, mass.normalisation)
_LAST = (joint.joint, joint.orders, joint.closed_form)


def check_model(
    model: Any,
    data: object,
    *,
    texts: Sequence[str | Sequence[str]] | None = None,
    seed: int = 0,
    tolerance: float | None = None,
) -> CheckReport:
    """Check that a model follows the protocol on which every number of this package rests.

    Args:
        model: any `MaskedModel`, in the state in which it is scored.
        data: `Tokens`, or what the model's `tokens` reads, such as an (N, D) table or a list of texts. Up to
            16 of the rows are used, with three masks each, and up to 64 for the neighbours of a token.
        texts: the texts behind the observations, for the checks of their bytes and tokens; by default `data`,
            if it is a list of texts.
        seed: the seed of the random rows, masks and values.
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
    seed = whole_number("seed", seed, 0)
    name, word = type(model).__name__, answers.word(model)
    if word.status == "failed":
        return CheckReport(name, (word,), 0, seed)
    tokens = as_tokens(model, data)
    check_tokens(tokens)
    trial = new_trial(model, tokens, seed=seed, texts=_fields(texts, data), tolerance=tolerance)
    with seeded(seed):
        findings = [word, *_of_answers(trial, tolerance)]
    return CheckReport(name, tuple(findings), trial.n_passes, seed)


def _fields(texts: Sequence[str | Sequence[str]] | None, data: object) -> tuple[tuple[str, ...], ...] | None:
    """The texts of each observation as tuples; None if the data are not texts."""
    if texts is None and isinstance(data, list | tuple) and all(isinstance(text, str) for text in data):
        texts = data
    if texts is None:
        return None
    return tuple((text,) if isinstance(text, str) else tuple(text) for text in texts)


def _of_answers(trial: Trial, tolerance: float | None) -> list[Finding]:
    """Run the checks of the answers; only the shape if the shape is wrong."""
    try:
        answer = trial.raw(trial.tokens, trial.masked)
    except InputError:
        raise
    except Exception as error:
        return [raised("shape", error)]
    shape = answers.shape(trial, answer)
    if shape.status == "failed":
        return [shape]
    if tolerance is None:
        trial.tolerance = rounding(trial.model, answer)
    lists = isinstance(trial.model, HasLogDistributions)
    findings = [check(trial) for check in _FIRST if lists or check is not leak.distributions]
    findings += _of_masses(trial)
    last = [*_LAST, *(named(place) for kind in kinds() for place in kind.checks)]
    findings += [check(trial) for check in last]
    on_their_own = {check.name for check in (*_FIRST, *_OF_MASSES, *last) if not check.explains}
    return [shape, *_without_consequences(findings, on_their_own)]


def _of_masses(trial: Trial) -> list[Finding]:
    """Run the checks of total probabilities, which share one computation."""
    try:
        masses = mass.masses(trial)
    except Exception as error:
        return [raised("normalisation", error)]
    return [check(trial, masses) for check in _OF_MASSES]


def _without_consequences(findings: list[Finding], on_their_own: set[str]) -> list[Finding]:
    """Skip each failure that an earlier failure may explain."""
    kept: list[Finding] = []
    cause: Finding | None = None
    for finding in findings:
        if finding.status == "failed":
            same = [
                earlier for earlier in kept if earlier.status == "failed" and earlier.found == finding.found
            ]
            on_its_own = finding.check in on_their_own
            first = same[0] if same else None if on_its_own else cause
            if first is not None:
                reason = f"fails as well, as it may if {first.check!r} does: {finding.found}"
                finding = replace(finding, status="skipped", found=reason)
            elif not on_its_own:
                cause = finding
        kept.append(finding)
    return kept
