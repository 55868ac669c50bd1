"""One joint density: exact conditionals agree with each other in any order, and with the closed form."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from maskevidence.check.findings import Finding
from maskevidence.check.trial import MASKS_PER_ROW, Trial
from maskevidence.model import HasLogEvidence, HasScoreOrderings
from maskevidence.tokens import Tokens

_MOST_TOKENS = 12
_N_ORDERS = 3


def joint(trial: Trial) -> Finding:
    """p(a|·) p(b|a,·) = p(b|·) p(a|b,·) for pairs of hidden tokens.

    For conditionals that do not claim to be exact, the size of the disagreement is reported as a number.
    """
    did = "For pairs of hidden tokens, p(a|·)p(b|a,·) was compared with p(b|·)p(a|b,·)."
    gap, masked = _gaps(trial)
    if len(gap) == 0:
        return Finding("one joint", "skipped", "no row has two tokens to hide", did)
    typical = float(np.sqrt(np.mean(gap**2)))
    words = trial.model.conditionals
    if words != "exact":
        found = (
            f"the two orders of a pair differ by {typical:.3g} nats (root mean square of {len(gap)} pairs)"
        )
        status = "noted" if typical > trial.tolerance else "passed"
        return trial.finding("one joint", status, found, did, largest=typical, n_masks=len(masked))
    size = 1 + float(trial.answer[trial.masked].abs().max())
    worst = float(np.max(np.abs(gap))) / size
    numbers = {"largest": worst, "allowed": 4 * trial.tolerance, "n_masks": len(masked)}
    if not worst <= 4 * trial.tolerance:
        found = (
            f"the two orders of a pair differ by up to {worst * size:.3g} nats, though conditionals = 'exact'"
        )
        look_at = "the formula; conditionals without a joint density are 'learned'"
        return trial.finding("one joint", "failed", found, did, look_at=look_at, **numbers)
    return trial.passed("one joint", f"both orders agree within {worst * size:.1e} nats", did, **numbers)


def orders(trial: Trial) -> Finding:
    """The sum of the log-probabilities along an order is the same for all orders, and is `log_evidence`."""
    did = f"The chain rule was added up along {_N_ORDERS} random orders of the tokens of each row."
    if trial.model.conditionals != "exact":
        return Finding(
            "orders", "skipped", f"conditionals = {trial.model.conditionals!r} need not agree", did
        )
    tokens = few_tokens(trial.tokens[::MASKS_PER_ROW], _MOST_TOKENS, trial.rng("few"))
    totals = torch.stack([_along(trial, tokens, order) for order in _ranks(trial, tokens)])
    spread = (totals - totals[0]).abs() / (1 + totals.abs())
    counts = {"n_rows": len(tokens), "n_masks": _N_ORDERS * int(tokens.n_tokens.sum())}
    allowed = 10 * trial.tolerance
    numbers = {"largest": float(spread.max()), "allowed": allowed, **counts}
    if not float(spread.max()) <= allowed:
        row = int(spread.amax(0).argmax())
        found = (
            f"the log evidence of observation {int(tokens.ids[row])} is "
            f"{float(totals[:, row].min()):.6g} along one order and "
            f"{float(totals[:, row].max()):.6g} along another, though conditionals = 'exact'"
        )
        return trial.finding(
            "orders", "failed", found, did, look_at="the formula of the conditionals", **numbers
        )
    return trial.passed(
        "orders", f"all orders agree within {float(spread.max()):.1e} of 1 + |log evidence|", did, **numbers
    )


def closed_form(trial: Trial) -> Finding:
    """`log_evidence` and `score_orderings`, where a model has them, agree with its conditionals."""
    did = "log_evidence and score_orderings were compared with sums of conditionals along an order."
    model = trial.model
    tokens = few_tokens(trial.tokens[::MASKS_PER_ROW], _MOST_TOKENS, trial.rng("few"))
    ranks = _ranks(trial, tokens)[0]
    apart = {}
    with torch.no_grad():
        if isinstance(model, HasScoreOrderings):
            given = model.score_orderings(tokens, ranks)
            apart["score_orderings"] = _apart(given, _prefix_scores(trial, tokens, ranks)).amax(1)
        if isinstance(model, HasLogEvidence):
            apart["log_evidence"] = _apart(model.log_evidence(tokens), _along(trial, tokens, ranks))
    if not apart:
        return Finding(
            "closed form", "skipped", "the model has neither log_evidence nor score_orderings", did
        )
    trial.n_passes += len(tokens) * len(apart)
    name, rows = max(apart.items(), key=lambda pair: float(pair[1].max()))
    worst, allowed = float(rows.max()), 10 * trial.tolerance
    numbers = {
        "largest": worst,
        "allowed": allowed,
        "n_rows": len(tokens),
        "n_masks": int(tokens.n_tokens.sum()),
    }
    if worst <= allowed:
        names = " and ".join(apart)
        return trial.passed("closed form", f"{names}: within {worst:.1e} of 1 + |sum|", did, **numbers)
    found = (
        f"{name} of observation {int(tokens.ids[int(rows.argmax())])} differs from the sum of its "
        f"conditionals by {worst:.3g} of 1 + |sum|"
    )
    status = "failed" if model.conditionals == "exact" else "noted"
    look_at = f"{name}: tokens of the context are conditioned on, not scored"
    return trial.finding("closed form", status, found, did, look_at=look_at, **numbers)


def _apart(given: Tensor, expected: Tensor) -> Tensor:
    return ((given.double() - expected).abs() / (1 + expected.abs())).nan_to_num(torch.inf)


def few_tokens(tokens: Tokens, most: int, rng: np.random.Generator) -> Tokens:
    """The same rows with at most `most` random tokens of each to hide; its other tokens become context."""
    noise = torch.from_numpy(rng.random(tuple(tokens.maskable.shape))).to(tokens.maskable.device)
    ranks = torch.where(tokens.maskable, noise, 2.0).argsort(1).argsort(1)
    kept = tokens.maskable & (ranks < most)
    return replace(tokens, maskable=kept, context=tokens.context | (tokens.maskable & ~kept))


def _ranks(trial: Trial, tokens: Tokens) -> list[Tensor]:
    """Random orders of the tokens to hide, as ranks: 0 for the one that is hidden at every size."""
    rng = trial.rng("orders")
    shape = tuple(tokens.maskable.shape)
    noise = [torch.from_numpy(rng.random(shape)).to(tokens.maskable.device) for _ in range(_N_ORDERS)]
    return [torch.where(tokens.maskable, one, 2.0).argsort(1).argsort(1) for one in noise]


def _nested(
    trial: Trial, tokens: Tokens, ranks: Tensor
) -> tuple[Float64[Tensor, "n b D"], Bool[Tensor, "n b D"]]:
    """The answers and masks of the sizes 1, 2, ... of an order."""
    n = int(tokens.n_tokens.max())
    masked = torch.stack([tokens.maskable & (ranks < size) for size in range(1, n + 1)])
    rows = torch.arange(len(tokens)).repeat(n)
    answer = trial.ask(tokens[rows], masked.flatten(0, 1))
    return answer.reshape(masked.shape), masked


def _along(trial: Trial, tokens: Tokens, ranks: Tensor) -> Float64[Tensor, " b"]:
    """Σ log p(token | all that are seen before it): the token of rank M - 1 is predicted at size M."""
    answer, masked = _nested(trial, tokens, ranks)
    sizes = torch.arange(len(masked), device=ranks.device)[:, None, None]
    return torch.where(masked & (ranks == sizes), answer, 0.0).sum((0, 2))


def _prefix_scores(trial: Trial, tokens: Tokens, ranks: Tensor) -> Float64[Tensor, "b D"]:
    """The scores of the nested masks, as `score_orderings` gives them."""
    answer, masked = _nested(trial, tokens, ranks)
    hidden = masked.sum(2)
    real = torch.arange(1, len(masked) + 1, device=ranks.device)[:, None] <= tokens.n_tokens
    score = torch.where(real, torch.where(masked, answer, 0.0).sum(2) / hidden.clamp(min=1), 0.0).T
    return torch.cat([score, score.new_zeros(len(tokens), tokens.width - score.shape[1])], 1)


def _gaps(trial: Trial) -> tuple[Float64[np.ndarray, " n"], Bool[Tensor, "n D"]]:
    """log p(a|·)p(b|a,·) - log p(b|·)p(a|b,·) for two hidden tokens of each pair with at least two."""
    enough = torch.nonzero(trial.masked.sum(1) >= 2)[:, 0]
    if len(enough) == 0:
        return np.empty(0), trial.masked[:0]
    tokens, masked = trial.tokens[enough], trial.masked[enough]
    noise = torch.from_numpy(trial.rng("pairs").random(tuple(masked.shape))).to(masked.device)
    first, second = torch.where(masked, noise, -1.0).topk(2, dim=1).indices.T
    row = torch.arange(len(enough))

    def without(column: Tensor) -> Bool[Tensor, "n D"]:
        mask = masked.clone()
        mask[row, column] = False
        return mask

    both = trial.answer[enough]
    given_first = trial.ask(tokens, without(first))
    given_second = trial.ask(tokens, without(second))
    one = both[row, first] + given_first[row, second]
    other = both[row, second] + given_second[row, first]
    return (one - other).cpu().numpy(), masked
