"""Checks for leaks: answers must not change with hidden values or with the other rows of the call."""

from dataclasses import replace

import torch
from torch import Tensor

from maskevidence.core.check.findings import Finding, failed, passed, signs_by_chance, skipped
from maskevidence.core.check.trial import Trial, check, compared, raised, worst
from maskevidence.core.scores.ask import slices
from maskevidence.core.scores.score_masks import like

_PADDING = 3
_N_ALONE = 6
_ROWS_AT_ONCE = 2  # distributions take much memory
_SMALLEST = -1e6  # replaces -∞, the log-probability of an impossible value


@check(
    "leak",
    "In each pair the values of all hidden tokens but one were replaced by those of other rows, twice, "
    "and the answer for that one was compared.",
    "where log_conditionals reads tokens.values: only tokens.visible(masked) may decide the answer",
)
def leak(trial: Trial) -> Finding:
    """Check that the answer for a hidden token does not change with the values of the other hidden tokens."""
    probe = trial.probe("leak")
    own = torch.zeros_like(trial.masked)
    own[torch.arange(len(probe)), probe] = True
    others = trial.masked & ~own
    where = own & others.any(1, keepdim=True)
    replaced = (trial.with_values(trial.other_values(word)[0], others) for word in ("other rows", "again"))
    return worst(compared(trial, trial.answer, trial.ask(tokens), where) for tokens in replaced)


@check(
    "distributions",
    "The values of all hidden tokens were replaced, and their distributions compared.",
    "where log_distributions reads tokens.values: only tokens.visible(masked) may decide it",
)
def distributions(trial: Trial) -> Finding:
    """Check that `log_distributions` does not change with hidden values; decoding policies rely on it."""
    changed = trial.with_values(trial.other_values("other rows")[0], trial.masked)
    found = [torch.zeros(0, dtype=torch.float64)]
    for part in slices(len(trial.masked), _ROWS_AT_ONCE):  # one call with all pairs would take gigabytes
        trial.n_passes += 2 * len(trial.masked[part])
        with torch.no_grad():  # ask the model directly: an `Asker` blanks the hidden values
            answers = [
                trial.model.log_distributions(tokens[part], trial.masked[part])
                for tokens in (trial.tokens, changed)
            ]
        for place in range(len(answers[0])):
            before, after = (answer[place].double().cpu().clamp(min=_SMALLEST) for answer in answers)
            found.append(((after - before).abs() / (1 + before.abs())).amax(0, keepdim=True))
    masked = trial.masked.cpu()
    largest = torch.zeros(masked.shape, dtype=torch.float64)
    largest[masked] = torch.cat(found)
    return compared(trial, torch.zeros_like(largest), largest, masked)


_ABSENT = "sums and attention over all columns, which must skip tokens neither maskable nor context"


@check(
    "absent values",
    "The values of absent tokens were replaced by others and, in numbers, by NaN; padding was added.",
    _ABSENT,
)
def absent(trial: Trial) -> Finding:
    """Check that answers do not change with the values or number of padding and missing tokens.

    If the data have no absent token, a model that cannot leave tokens out is noted and does not fail.
    """
    complete = bool((trial.data.maskable | trial.data.context).all())
    try:
        finding = _absent(trial)
    except Exception as error:
        if not complete:
            raise
        finding = failed(raised("absent values", error).found)
    if finding.status != "failed" or not complete:
        return finding
    message = f"the model cannot leave out tokens, and these data have no absent token ({finding.found})"
    return replace(finding, status="noted", found=message, look_at=_ABSENT)


def _absent(trial: Trial) -> Finding:
    """Check the data's absent tokens; if there are none, make half of the visible tokens absent."""
    tokens, masked, before = trial.tokens, trial.masked, trial.answer
    if bool((tokens.maskable | tokens.context).all()):
        gone = tokens.visible(masked) & tokens.maskable & (trial.noise("absent") < 0.5)
        tokens = replace(tokens, maskable=tokens.maskable & ~gone)
        masked = masked & gone.any(1, keepdim=True)
        if not bool(masked.any()):
            return skipped("no row has a token to leave out")
        before = trial.ask(tokens, masked)
    gone = ~(tokens.maskable | tokens.context)
    replacements = [trial.other_values("other rows")[0]]
    if tokens.values.is_floating_point():
        replacements.append(torch.full_like(tokens.values, torch.nan))
    where, findings = masked & gone.any(1, keepdim=True), []
    for values in replacements:
        changed = replace(tokens, values=torch.where(like(gone, values), values, tokens.values))
        findings.append(compared(trial, before, trial.ask(changed, masked), where))
    if (padded := _padded(trial)) is not None:
        findings.append(compared(trial, trial.answer, padded, trial.masked))
    return worst(findings)


def _padded(trial: Trial) -> Tensor | None:
    """The answers with extra absent columns; None if the model has a fixed number of columns."""
    tokens, n = trial.tokens, len(trial.masked)
    filler = tokens.values[:, :1].expand(n, _PADDING, *tokens.values.shape[2:])
    nothing = torch.zeros(n, _PADDING, dtype=torch.bool, device=trial.masked.device)
    wider = replace(
        tokens,
        values=torch.cat([tokens.values, filler], 1),
        maskable=torch.cat([tokens.maskable, nothing], 1),
        context=torch.cat([tokens.context, nothing], 1),
    )
    try:
        return trial.ask(wider, torch.cat([trial.masked, nothing], 1))[:, : tokens.width]
    except Exception:  # models of tables have a fixed number of columns
        return None


@check(
    "batch",
    "Rows were scored alone, and in the reverse order.",
    "batch normalisation in training mode, and sums over the batch",
)
def batch(trial: Trial) -> Finding:
    """Check that the answer for a row does not depend on the other rows of the call or on their order."""
    n = len(trial.masked)
    reverse = torch.arange(n - 1, -1, -1)
    reversed_ = trial.ask(trial.tokens[reverse], trial.masked[reverse])[reverse]
    alone = trial.answer.clone()
    for row in trial.rng("alone").permutation(n)[:_N_ALONE].tolist():
        alone[row : row + 1] = trial.ask(trial.tokens[row : row + 1], trial.masked[row : row + 1])
    return worst(compared(trial, trial.answer, after, trial.masked) for after in (alone, reversed_))


@check(
    "cache",
    "Between two calls all values changed, but not the ids and masks; then the ids changed, too.",
    "values that a call stores on the model, and the key by which they are found again",
)
def cache(trial: Trial) -> Finding:
    """Check that a call does not return the cached answers of an earlier call with other values."""
    other, differs = trial.other_values("cache")
    changed = trial.with_values(other, differs)
    _ = trial.answer
    after = trial.ask(changed)
    half = torch.arange(len(after) // 2 + 1).flip(0)
    fresh = after.clone()
    fresh[half] = trial.ask(changed[half], trial.masked[half])
    finding = compared(trial, fresh, after, trial.masked)
    if finding.status == "failed" or trial.model.conditionals == "approximate":
        return finding
    try:
        renumbered = trial.ask(replace(changed, ids=changed.ids + 10**9))
    except Exception:  # the model looks its observations up by id
        return finding
    by_ids = compared(trial, renumbered, after, trial.masked)
    return by_ids if by_ids.status == "failed" else finding


@check(
    "ids",
    "Each row got the id of another one, with its values and mask as they are.",
    "whatever is looked up by tokens.ids: only the tokens themselves may decide the answer",
)
def ids(trial: Trial) -> Finding:
    """Check that answers do not depend on the ids of the rows.

    Numerical conditionals may take their random numbers from the id. Their answers may change with it, but
    may not be better under a row's own id than under another row's id.
    """
    if getattr(trial.model, "widened", None) is not None:
        return skipped("the model hides whole words, which it knows by the row")
    all_ids, row = torch.unique(trial.tokens.ids, return_inverse=True)
    others = all_ids.roll(1) if len(all_ids) > 1 else all_ids + 1
    after = trial.ask(replace(trial.tokens, ids=others[row]))
    finding = compared(trial, trial.answer, after, trial.masked)
    if finding.status != "failed" or trial.model.conditionals != "approximate":
        return finding
    gain = torch.where(trial.masked, trial.answer - after, 0.0).sum(1) / trial.masked.sum(1)
    n_worse = int((torch.bincount(row, gain) > 0).sum())
    worse = f"{n_worse} of {len(all_ids)} rows became worse"
    if not signs_by_chance(n_worse, len(all_ids)):
        return replace(finding, found=f"{finding.found}; {worse}")
    size = f"by up to {finding.largest:.1e} of 1 + |answer|"
    return passed(f"draws differ from row to row, {size}; under the ids of others {worse}")
