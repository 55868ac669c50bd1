"""Checks that exact conditionals come from one joint density: along any order and against the closed form."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from maskevidence.core.check.findings import Finding, failed, noted, passed, skipped
from maskevidence.core.check.trial import MASKS_PER_ROW, Trial, check
from maskevidence.core.tokens import Tokens

_MOST_TOKENS = 12
_N_ORDERS = 3


@check(
    "one joint",
    "For pairs of hidden tokens, p(a|·)p(b|a,·) was compared with p(b|·)p(a|b,·).",
    "the formula; conditionals without a joint density are 'learned'",
)
def joint(trial: Trial) -> Finding:
    """Check that p(a|·) p(b|a,·) = p(b|·) p(a|b,·) for pairs of hidden tokens.

    For conditionals that do not claim to be exact, the size of the disagreement is reported as a number.
    """
    gap = _gaps(trial)
    if len(gap) == 0:
        return skipped("no row has two tokens to hide")
    if trial.model.conditionals != "exact":
        typical = float(np.sqrt(np.mean(gap**2)))
        status = noted if typical > trial.tolerance else passed
        return status(
            f"the two orders of a pair differ by {typical:.3g} nats (root mean square of {len(gap)} pairs)",
            largest=typical,
            n_rows=trial.n_rows,
            n_masks=len(gap),
        )
    scale = 1 + float(trial.answer[trial.masked].abs().max())
    largest = float(np.max(np.abs(gap))) / scale
    numbers = {
        "largest": largest,
        "allowed": 4 * trial.tolerance,
        "n_rows": trial.n_rows,
        "n_masks": len(gap),
    }
    if largest <= 4 * trial.tolerance:
        return passed(f"both orders agree within {largest * scale:.1e} nats", **numbers)
    message = (
        f"the two orders of a pair differ by up to {largest * scale:.3g} nats, though conditionals = 'exact'"
    )
    return failed(message, **numbers)


@check(
    "orders",
    f"The chain rule was added up along {_N_ORDERS} random orders of the tokens of each row.",
    "the formula of the conditionals",
)
def orders(trial: Trial) -> Finding:
    """Check that the chain rule gives the same total along every order."""
    if trial.model.conditionals != "exact":
        return skipped(f"conditionals = {trial.model.conditionals!r} need not agree")
    tokens = _few_tokens(trial)
    totals = torch.stack([_log_evidence(trial, tokens, ranks) for ranks in _orders(trial, tokens)])
    difference = (totals - totals[0]).abs() / (1 + totals.abs())
    largest, allowed = float(difference.max()), 10 * trial.tolerance
    n_masks = _N_ORDERS * int(tokens.n_tokens.sum())
    numbers = {"largest": largest, "allowed": allowed, "n_rows": len(tokens), "n_masks": n_masks}
    if largest <= allowed:
        return passed(f"all orders agree within {largest:.1e} of 1 + |log evidence|", **numbers)
    row = int(difference.amax(0).argmax())
    return failed(
        f"the log evidence of observation {int(tokens.ids[row])} is {float(totals[:, row].min()):.6g} along "
        f"one order and {float(totals[:, row].max()):.6g} along another, though conditionals = 'exact'",
        **numbers,
    )


@check(
    "closed form", "log_evidence and score_orderings were compared with sums of conditionals along an order."
)
def closed_form(trial: Trial) -> Finding:
    """Compare `log_evidence` and `score_orderings`, if the model has them, with its conditionals."""
    model, tokens = trial.model, _few_tokens(trial)
    ranks = _orders(trial, tokens)[0]
    difference: dict[str, Float64[Tensor, " b"]] = {}
    with torch.no_grad():
        if hasattr(model, "score_orderings"):
            scores = model.score_orderings(tokens, ranks)
            difference["score_orderings"] = _difference(scores, _scores(trial, tokens, ranks)).amax(1)
        if hasattr(model, "log_evidence"):
            total = _log_evidence(trial, tokens, ranks)
            difference["log_evidence"] = _difference(model.log_evidence(tokens), total)
    if not difference:
        return skipped("the model has neither log_evidence nor score_orderings")
    trial.n_passes += len(tokens) * len(difference)
    method, of_rows = max(difference.items(), key=lambda item: float(item[1].max()))
    largest, allowed = float(of_rows.max()), 10 * trial.tolerance
    n_masks = int(tokens.n_tokens.sum())
    numbers = {"largest": largest, "allowed": allowed, "n_rows": len(tokens), "n_masks": n_masks}
    if largest <= allowed:
        return passed(f"{' and '.join(difference)}: within {largest:.1e} of 1 + |sum|", **numbers)
    status = failed if model.conditionals == "exact" else noted
    return status(
        f"{method} of observation {int(tokens.ids[int(of_rows.argmax())])} differs from the sum of its "
        f"conditionals by {largest:.3g} of 1 + |sum|",
        look_at=f"{method}: tokens of the context are conditioned on, not scored",
        **numbers,
    )


def _difference(values: Tensor, expected: Tensor) -> Float64[Tensor, "..."]:
    """|values - expected| / (1 + |expected|), with NaN replaced by infinity."""
    return ((values.double() - expected).abs() / (1 + expected.abs())).nan_to_num(torch.inf)


def _few_tokens(trial: Trial) -> Tokens:
    """The trial's rows with at most 12 random maskable tokens each; the others become context."""
    tokens = trial.tokens[::MASKS_PER_ROW]
    kept = tokens.maskable & (_ranks(tokens, trial.noise("few", tokens.maskable)) < _MOST_TOKENS)
    return replace(tokens, maskable=kept, context=tokens.context | (tokens.maskable & ~kept))


def _orders(trial: Trial, tokens: Tokens) -> list[Int64[Tensor, "b D"]]:
    """Draw random orders of the maskable tokens as ranks; a mask of size M hides the ranks below M."""
    rng = trial.rng("orders")
    noise = (torch.from_numpy(rng.random(tuple(tokens.maskable.shape))) for _ in range(_N_ORDERS))
    return [_ranks(tokens, numbers.to(tokens.maskable.device)) for numbers in noise]


def _ranks(tokens: Tokens, noise: Float64[Tensor, "b D"]) -> Int64[Tensor, "b D"]:
    """Rank the maskable tokens of each row by their noise; all other tokens rank last."""
    return torch.where(tokens.maskable, noise, 2.0).argsort(1).argsort(1)


def _nested(
    trial: Trial, tokens: Tokens, ranks: Int64[Tensor, "b D"]
) -> tuple[Float64[Tensor, "n b D"], Bool[Tensor, "n b D"]]:
    """Return the answers and masks of sizes 1, 2, ... along an order."""
    n = int(tokens.n_tokens.max())
    masked = torch.stack([tokens.maskable & (ranks < size) for size in range(1, n + 1)])
    rows = torch.arange(len(tokens)).repeat(n)
    answer = trial.ask(tokens[rows], masked.flatten(0, 1))
    return answer.reshape(masked.shape), masked


def _log_evidence(trial: Trial, tokens: Tokens, ranks: Int64[Tensor, "b D"]) -> Float64[Tensor, " b"]:
    """Sum the chain rule: the token of rank M - 1 is predicted by the mask of size M."""
    answer, masked = _nested(trial, tokens, ranks)
    rank = torch.arange(len(masked), device=ranks.device)[:, None, None]
    return torch.where(masked & (ranks == rank), answer, 0.0).sum((0, 2))


def _scores(trial: Trial, tokens: Tokens, ranks: Int64[Tensor, "b D"]) -> Float64[Tensor, "b D"]:
    """Compute what `score_orderings` returns from single answers."""
    answer, masked = _nested(trial, tokens, ranks)
    exists = torch.arange(1, len(masked) + 1, device=ranks.device)[:, None] <= tokens.n_tokens
    mean = torch.where(masked, answer, 0.0).sum(2) / masked.sum(2).clamp(min=1)
    score = torch.where(exists, mean, 0.0).T
    return torch.nn.functional.pad(score, (0, tokens.width - score.shape[1]))


def _gaps(trial: Trial) -> Float64[np.ndarray, " n"]:
    """log p(a|·)p(b|a,·) - log p(b|·)p(a|b,·) for two hidden tokens of each pair with at least two."""
    enough = torch.nonzero(trial.masked.sum(1) >= 2)[:, 0]
    if len(enough) == 0:
        return np.empty(0)
    tokens, masked, answer = trial.tokens[enough], trial.masked[enough], trial.answer[enough]
    noise = trial.noise("pairs", masked)
    first, second = torch.where(masked, noise, -1.0).topk(2, dim=1).indices.T
    row = torch.arange(len(enough))

    def visible(column: Tensor) -> Float64[Tensor, "n D"]:
        mask = masked.clone()
        mask[row, column] = False
        return trial.ask(tokens, mask)

    first_then_second = answer[row, first] + visible(first)[row, second]
    second_then_first = answer[row, second] + visible(second)[row, first]
    return (first_then_second - second_then_first).cpu().numpy()
