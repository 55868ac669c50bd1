"""Leaks: an answer may not change with values that the model must not see, or with what shares its call."""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from maskevidence.check.findings import Finding
from maskevidence.check.significance import in_bound
from maskevidence.check.trial import Trial
from maskevidence.scores.first_batch import like
from maskevidence.tokens import Tokens

_PADDING = 3


def leak(trial: Trial) -> Finding:
    """The answer for a hidden token does not change with the values of the other hidden tokens."""
    did = (
        "In each pair the values of all hidden tokens but one were replaced by those of other rows, twice, "
        "and the answer for that one was compared."
    )
    probe = trial.one_masked_token("leak")
    one = torch.zeros_like(trial.masked)
    one[torch.arange(len(probe)), probe] = True
    others = trial.masked & ~one
    finding = None
    for values in (_from_other_rows(trial), _from_other_rows(trial, "again")):
        changed = torch.where(like(others, values), values, trial.tokens.values)
        after = trial.ask(trial.with_values(changed), trial.masked)
        found = trial.compared(
            "leak", did, (trial.answer, after), one & others.any(1, keepdim=True), _LOOK_AT
        )
        finding = found if finding is None or found.status == "failed" else finding
    assert finding is not None
    return finding


_LOOK_AT = "where log_conditionals reads tokens.values: only tokens.visible(masked) may decide the answer"


def distributions(trial: Trial) -> Finding:
    """The answer of `log_distributions` does not change with hidden values; decoding policies rest on it."""
    did = "The values of all hidden tokens were replaced, and their distributions compared."
    values = torch.where(
        like(trial.masked, trial.tokens.values), _from_other_rows(trial), trial.tokens.values
    )
    before, after = (_listed(trial, tokens) for tokens in (trial.tokens, trial.with_values(values)))
    apart = ((after - before).abs() / (1 + before.abs())).amax(1)
    pair = torch.zeros(2, *trial.masked.shape, dtype=torch.float64)
    pair[1][trial.masked.cpu()] = apart  # as a change of 0, so that the finding names the place
    return trial.compared("distributions", did, (pair[0], pair[1]), trial.masked.cpu(), _DISTRIBUTIONS)


def _listed(trial: Trial, tokens: Tokens) -> Float64[Tensor, "n_masked V"]:
    """The distributions of all pairs in a raw call, since an `Asker` blanks the hidden values beforehand."""
    trial.n_passes += len(tokens)
    with torch.no_grad():
        listed = trial.model.log_distributions(tokens, trial.masked)
    return listed.double().cpu().clamp(min=_SMALLEST)


_SMALLEST = -1e6  # log of a probability that may be 0
_DISTRIBUTIONS = "where log_distributions reads tokens.values: only tokens.visible(masked) may decide it"


def absent(trial: Trial) -> Finding:
    """The answer does not change with absent tokens: the values of padding and missing ones, or their number.

    If the data have no absent token, a model that cannot leave tokens out is noted and does not fail.
    """
    did = "The values of absent tokens were replaced by others and, in numbers, by NaN; padding was added."
    whole = bool((trial.data.maskable | trial.data.context).all())
    try:
        finding = _absent(trial, did)
    except Exception as error:
        if not whole:
            raise
        text = f"the model raised {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        finding = trial.finding("absent values", "failed", text, did, look_at=_ABSENT)
    if finding.status != "failed" or not whole:
        return finding
    found = f"the model cannot leave out tokens, and these data have no absent token ({finding.found})"
    return replace(finding, status="noted", found=found)


def _absent(trial: Trial, did: str) -> Finding:
    present = trial.tokens.maskable | trial.tokens.context
    tokens, masked, before = trial.tokens, trial.masked, trial.answer
    if bool(present.all()):
        tokens, masked = _with_absent(trial)
        if not bool(masked.any()):
            return Finding("absent values", "skipped", "no row has a token to leave out", did)
        before = trial.ask(tokens, masked)
    gone = ~(tokens.maskable | tokens.context)
    where = masked & gone.any(1, keepdim=True)
    replaced = [_from_other_rows(trial)]
    if tokens.values.is_floating_point():
        replaced.append(torch.full_like(tokens.values, torch.nan))
    changed = [torch.where(like(gone, values), values, tokens.values) for values in replaced]
    findings = [
        trial.compared(
            "absent values", did, (before, trial.ask(replace(tokens, values=values), masked)), where, _ABSENT
        )
        for values in changed
    ]
    if (padded := _padded(trial)) is not None:
        findings.append(trial.compared("absent values", did, (trial.answer, padded), trial.masked, _ABSENT))
    return max(findings, key=lambda finding: finding.largest or 0.0)


_ABSENT = "sums and attention over all columns: tokens that are neither maskable nor context are not there"


def batch(trial: Trial) -> Finding:
    """The answer for a row does not depend on the other rows of the call, or on their order."""
    did = "Rows were scored alone, and in the reverse order."
    n = len(trial.masked)
    order = torch.arange(n - 1, -1, -1)
    reverse = torch.empty_like(trial.answer)
    reverse[order] = trial.ask(trial.tokens[order], trial.masked[order])
    alone = trial.answer.clone()
    some = torch.from_numpy(trial.rng("alone").permutation(n)[:6])
    for row in some.tolist():
        alone[row : row + 1] = trial.ask(trial.tokens[row : row + 1], trial.masked[row : row + 1])
    findings = [
        trial.compared("batch", did, (trial.answer, after), trial.masked, _BATCH)
        for after in (alone, reverse)
    ]
    return max(findings, key=lambda finding: finding.largest or 0.0)


_BATCH = "batch normalisation in training mode, and sums over the batch"


def cache(trial: Trial) -> Finding:
    """A call does not return what an earlier one has computed for other values."""
    did = "Between two calls all values changed, but not the ids and masks; then the ids changed, too."
    other, differs = trial.replacements.drawn(trial.tokens.values, trial.rng("cache"))
    changed = trial.with_values(torch.where(like(differs, other), other, trial.tokens.values))
    _ = trial.answer
    after = trial.ask(changed, trial.masked)
    half = torch.arange(len(after) // 2 + 1).flip(0)
    fresh = after.clone()
    fresh[half] = trial.ask(changed[half], trial.masked[half])
    finding = trial.compared("cache", did, (fresh, after), trial.masked, _CACHE)
    if finding.status == "failed" or trial.model.conditionals == "approximate":
        return finding
    renumbered = replace(changed, ids=changed.ids + 10**9)
    try:
        new = trial.ask(renumbered, trial.masked)
    except Exception:  # a model that knows its observations by their ids
        return finding
    by_ids = trial.compared("cache", did, (new, after), trial.masked, _CACHE, of=changed)
    return by_ids if by_ids.status == "failed" else finding


_CACHE = "anything that a call stores on the model, and the key under which it is found again"


def ids(trial: Trial) -> Finding:
    """The answer for a row does not depend on its number: nothing is looked up by it.

    Numerical conditionals may draw random numbers by the row. Theirs may change, but may not be better under
    the rows' own numbers than under those of others.
    """
    did = "Each row got the id of another one, with its values and mask as they are."
    if getattr(trial.model, "widened", None) is not None:
        return Finding("ids", "skipped", "the model hides whole words, which it knows by the row", did)
    known, row = torch.unique(trial.tokens.ids, return_inverse=True)
    others = known.roll(1) if len(known) > 1 else known + 1
    after = trial.ask(replace(trial.tokens, ids=others[row]), trial.masked)
    finding = trial.compared("ids", did, (trial.answer, after), trial.masked, _IDS)
    if finding.status != "failed" or trial.model.conditionals != "approximate":
        return finding
    gain = torch.where(trial.masked, trial.answer - after, 0.0).sum(1) / trial.masked.sum(1)
    n_better = int((torch.bincount(row, gain) > 0).sum())
    if not in_bound(n_better, len(known)):
        return replace(finding, found=f"{finding.found}; {n_better} of {len(known)} rows became worse")
    text = f"draws differ from row to row, by up to {finding.largest:.1e} of 1 + |answer|; under the ids of "
    return trial.passed("ids", f"{text}others {n_better} of {len(known)} rows became worse", did)


_IDS = "whatever is looked up by tokens.ids: only the tokens themselves may decide the answer"


def _from_other_rows(trial: Trial, purpose: str = "other rows") -> Tensor:
    return trial.replacements.drawn(trial.tokens.values, trial.rng(purpose))[0]


def _with_absent(trial: Trial) -> tuple[Tokens, Bool[Tensor, "b D"]]:
    """The pairs with half of the visible tokens left out, where something remains to be hidden."""
    draw = torch.from_numpy(trial.rng("absent").random(tuple(trial.masked.shape))) < 0.5
    visible = trial.tokens.visible(trial.masked)
    gone = visible & trial.tokens.maskable & draw
    tokens = replace(trial.tokens, maskable=trial.tokens.maskable & ~gone)
    return tokens, trial.masked & gone.any(1, keepdim=True)


def _padded(trial: Trial) -> Tensor | None:
    """The answers with more absent columns; None if the model reads a fixed number of columns."""
    tokens, n = trial.tokens, len(trial.masked)
    filler = tokens.values[:, :1].expand(n, _PADDING, *tokens.values.shape[2:])
    nothing = torch.zeros(n, _PADDING, dtype=torch.bool, device=trial.masked.device)
    wider = Tokens(
        torch.cat([tokens.values, filler], 1),
        torch.cat([tokens.maskable, nothing], 1),
        torch.cat([tokens.context, nothing], 1),
        tokens.ids,
        tokens.n_bytes,
    )
    try:
        return trial.ask(wider, torch.cat([trial.masked, nothing], 1))[:, : tokens.width]
    except Exception:  # models of tables have as many features as columns
        return None
