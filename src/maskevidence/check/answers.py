"""What one answer of a model has to be: a tensor of log-probabilities, one for each hidden token."""

from dataclasses import replace
from typing import Any, get_args

import torch
from jaxtyping import Bool
from torch import Tensor

from maskevidence.check.findings import Finding
from maskevidence.check.trial import Trial
from maskevidence.errors import InputError
from maskevidence.model import Conditionals, check_conditionals
from maskevidence.scores.first_batch import like

_IN_HALF = (torch.float16, torch.bfloat16)


def word(model: object) -> Finding:
    """`conditionals` is one of the words that decide what an estimate is called."""
    did = f"The attribute `conditionals` was compared with {', '.join(get_args(Conditionals))}."
    try:
        check_conditionals(model)  # type: ignore[arg-type]
    except InputError as error:
        return Finding("word", "failed", str(error), did, look_at="the attribute `conditionals`")
    return Finding("word", "passed", f"conditionals = {model.conditionals!r}", did)  # type: ignore[attr-defined]


def shape(trial: Trial, raw: Any) -> Finding:
    """The answer is a tensor of shape (B, D) in single or double precision."""
    did = "One call with all pairs of a row and a mask."
    look_at = "the return value of log_conditionals(tokens, masked)"
    wanted = tuple(trial.masked.shape)
    if not isinstance(raw, Tensor):
        found = f"the answer is {type(raw).__name__}, not a torch tensor of shape (B, D) = {wanted}"
    elif tuple(raw.shape) != wanted:
        found = f"the answer has shape {tuple(raw.shape)}, not (B, D) = {wanted}"
    elif not raw.is_floating_point() or raw.dtype in _IN_HALF:
        found = f"the answer has dtype {raw.dtype}; log-probabilities need torch.float32 or torch.float64"
    else:
        found = f"a tensor of shape (B, D) = {wanted}, {raw.dtype}"
        return trial.passed("shape", found, did)
    return trial.finding("shape", "failed", found, did, look_at=look_at)


def zeros(trial: Trial) -> Finding:
    """The answer is exactly 0 where no token is masked: context and visible tokens are not scored."""
    did = "The answers for tokens that are not masked were compared with 0, also with an empty mask."
    empty = torch.zeros_like(trial.masked)
    for answer, masked in ((trial.answer, trial.masked), (trial.ask(trial.tokens, empty), empty)):
        wrong = ~masked & (answer != 0)
        if bool(wrong.any()):
            row, column = torch.nonzero(wrong)[0].tolist()
            role = (
                "context"
                if bool(trial.tokens.context[row, column])
                else ("visible" if bool(trial.tokens.maskable[row, column]) else "absent")
            )
            found = (
                f"token {column} of observation {int(trial.tokens.ids[row])} is {role}, and its answer is "
                f"{float(answer[row, column]):.4g} instead of 0"
            )
            look_at = "torch.where(masked, answer, 0.0) at the end of log_conditionals"
            return trial.finding("zeros", "failed", found, did, look_at=look_at)
    return trial.passed("zeros", "all answers outside the masks are exactly 0", did)


def finite(trial: Trial) -> Finding:
    """Answers for the data are finite, and at the edges of the range of each column they are numbers."""
    did = (
        "The answers for the data were looked at, and those for hidden tokens with the smallest and the "
        "largest value of their column."
    )
    bad = trial.masked & ~torch.isfinite(trial.answer)
    if bool(bad.any()):
        return trial.finding(
            "finite",
            "failed",
            _place(trial, trial.answer, bad) + " on the data themselves",
            did,
            look_at="the observation; a model must give every token that occurs a probability above 0",
        )
    impossible = 0
    for edge in _edges(trial):
        values = torch.where(like(trial.masked, edge), edge, trial.tokens.values)
        answer = trial.ask(trial.with_values(values), trial.masked)
        bad = trial.masked & (torch.isnan(answer) | (answer == torch.inf))
        if bool(bad.any()):
            found = _place(trial, answer, bad) + " at an edge of the data's range"
            return trial.finding(
                "finite", "failed", found, did, look_at="what is divided or exponentiated at that value"
            )
        impossible += int((trial.masked & (answer == -torch.inf)).sum())
    if impossible:
        found = f"{impossible} values at the edges of the data's range have probability 0 beside other rows"
        return trial.finding("finite", "noted", found, did, look_at="whether such rows can be impossible")
    return trial.passed("finite", "all answers are finite, at the edges of the data's range, too", did)


def determinism(trial: Trial) -> Finding:
    """The same call gives the same answer, and no dropout is on."""
    did = "The same call was made twice, and active dropout was looked for."
    modules = trial.model.modules() if isinstance(trial.model, torch.nn.Module) else ()
    active = [
        type(module).__name__
        for module in modules
        if module.training and "Dropout" in type(module).__name__ and getattr(module, "p", 0) > 0
    ]
    if active:
        found = f"{len(active)} modules in training mode drop activations at random ({active[0]})"
        look_at = "model.eval(), to be called before scoring"
        return trial.finding("determinism", "failed", found, did, look_at=look_at)
    again = trial.ask(trial.tokens, trial.masked)
    return trial.compared(
        "determinism",
        did,
        (trial.answer, again),
        trial.masked,
        "random numbers that are drawn anew in each call, or model.eval(), to be called before scoring",
    )


def own_value(trial: Trial) -> Finding:
    """Every hidden token is scored at its own value: another value there has another probability."""
    did = "In each pair one hidden token got another value, then the others did; its answer was compared."
    probe = trial.one_masked_token("own value")
    other, differs = trial.replacements.drawn(trial.tokens.values, trial.rng("other values"))
    row = torch.arange(len(probe))
    usable = differs[row, probe]
    one = torch.zeros_like(trial.masked)
    one[row, probe] = usable
    if not bool(usable.any()):
        return Finding("own value", "skipped", "the data have one value alone", did)
    after = trial.ask(
        trial.with_values(torch.where(like(one, other), other, trial.tokens.values)), trial.masked
    )
    certain = one & (trial.answer == 0) & (after == 0)
    if bool(certain.any()):
        share = float(certain.sum() / one.sum())
        found = (
            f"{share:.0%} of the hidden tokens have an answer of 0 (probability 1) at two different values"
        )
        look_at = f"why hidden tokens such as column {int(torch.nonzero(certain)[0, 1])} are left out"
        return trial.finding("own value", "failed", found, did, largest=share, allowed=0.0, look_at=look_at)
    all_other, differ = trial.replacements.drawn(trial.tokens.values, trial.rng("all other values"))
    hidden = trial.masked & differ & ~one
    shuffled = torch.where(like(hidden, all_other), all_other, trial.tokens.values)
    by_others = trial.ask(trial.with_values(shuffled), trial.masked)
    own = (after - trial.answer)[row, probe] != 0
    foreign = (by_others - trial.answer).abs()[row, probe] > trial.tolerance * (
        1 + trial.answer.abs()[row, probe]
    )
    elsewhere = usable & ~own & foreign
    if int(elsewhere.sum()) > int((usable & own).sum()):  # fewer of them are a leak
        at = int(torch.nonzero(elsewhere)[0])
        found = (
            f"{float(elsewhere.sum() / usable.sum()):.0%} of the answers change with the value of another "
            "hidden token, but not with that of their own"
        )
        look_at = f"the column whose value is taken for column {int(probe[at])}"
        return trial.finding("own value", "failed", found, did, look_at=look_at)
    share = float((own & usable).sum() / usable.sum())
    return trial.passed(
        "own value", f"{share:.0%} of the answers change with the value of their own token", did
    )


def context(trial: Trial) -> Finding:
    """A visible token that is made context changes nothing but that it is not scored."""
    did = "Half of the visible tokens of each row were made context, and the answers were compared."
    tokens = trial.tokens
    draw = torch.from_numpy(trial.rng("context").random(tuple(trial.masked.shape))) < 0.5
    widened: Any = getattr(trial.model, "widened", None)  # of a model that hides whole words
    hidden = trial.masked if widened is None else widened(tokens, trial.masked)
    moved = tokens.maskable & ~hidden & draw
    if not bool(moved.any()):
        return Finding("context", "skipped", "no row has a visible token", did)
    given = replace(tokens, maskable=tokens.maskable & ~moved, context=tokens.context | moved)
    return trial.compared(
        "context",
        did,
        (trial.answer, trial.ask(given, trial.masked)),
        trial.masked,
        "tokens.visible(masked), which are the tokens to condition on: those of the context are among them",
    )


def _edges(trial: Trial) -> list[Tensor]:
    """The smallest and the largest value of each column, in the shape of the trial's values."""
    data = trial.data
    present = like(data.maskable | data.context, data.values)
    if data.values.dtype == torch.bool:
        return []
    edges = []
    for largest in (False, True):
        limit = torch.finfo if data.values.is_floating_point() else torch.iinfo
        worst = limit(data.values.dtype).min if largest else limit(data.values.dtype).max
        filled = torch.where(present, data.values, worst)
        edge = filled.amax(0) if largest else filled.amin(0)
        edge = torch.where(present.any(0), edge, data.values[0])
        edges.append(edge.expand_as(trial.tokens.values))
    return edges


def _place(trial: Trial, answer: Tensor, bad: Bool[Tensor, "b D"]) -> str:
    row, column = torch.nonzero(bad)[0].tolist()
    return (
        f"the answer for token {column} of observation {int(trial.tokens.ids[row])} is "
        f"{float(answer[row, column])}"
    )
