"""Check whether a text model beats token frequencies when most tokens are hidden."""

import math
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64

from maskevidence.core.check.findings import Finding, critical, noted, passed, skipped
from maskevidence.core.check.trial import Trial, check

_LOW, *_HIGH = (0.15, 0.85, 1.0)  # the rate that masked models are mostly trained at, and two far above
_MOST_TEXTS, _FEWEST_TEXTS = 32, 8
_MARGIN = 0.1  # nats a token, which other texts than those of the training may cost
_LOOK_AT = (
    "the rates at which the model was trained: the area adds up all of them; compare models by "
    "--design leave-one-out or fixed-rate:0.15, or train this model at all rates"
)
_OF_TEXTS = "whether texts and tokenizer are those that the model was trained for"


class _AtRate(NamedTuple):
    """Mean log-probability per token, nats, of the model and of token frequencies at one mask rate."""

    rate: float
    model: float
    frequencies: float
    z: float  # the difference less the margin, in standard errors; negative where the model is worse

    def is_worse(self, n_texts: int) -> bool:
        return self.z < -critical(n_texts - 1)


@check(
    "high rates",
    "The model's answers with 15, 85 and 100 % of the tokens of some texts hidden were compared with the "
    "frequencies of the tokens in all other texts.",
    explains=False,
)
def high_rates(trial: Trial) -> Finding:
    """Where most tokens are hidden, the model is as good as the token frequencies.

    A text's own tokens are left out of the counts c_v. The frequencies are smoothed by the method of Witten
    and Bell, p(v) = (c_v + T/V)/(N + T), for N tokens of T distinct values out of V in the vocabulary. At
    each rate, the differences of the texts have a one-sided t-test.
    """
    tokenizer, data = getattr(trial.model, "tokenizer", None), trial.data
    if tokenizer is None:
        return skipped("the model has no tokenizer")
    if trial.model.conditionals != "learned" or getattr(trial.model, "widened", None) is not None:
        return skipped("the model has no learned conditionals of single tokens")
    if len(data) < _FEWEST_TEXTS:
        return skipped(f"fewer than {_FEWEST_TEXTS} texts do not show the frequencies of their tokens")
    row = np.sort(trial.rng("texts of rates").permutation(len(data))[:_MOST_TEXTS])
    frequencies = _log_frequencies(trial, row, len(tokenizer))
    found = [_at_rate(trial, row, frequencies, rate) for rate in (_LOW, *_HIGH)]
    rates = [each for each in found if each is not None]
    if len(rates) < len(found):
        return skipped("some tokens have a probability of 0")
    low, *high = rates
    worst = max(high, key=lambda each: each.frequencies - each.model)
    numbers = {
        "n_rows": len(row),
        "n_masks": len(row) * (1 + len(high)),
        "largest": worst.frequencies - worst.model,
        "allowed": _MARGIN,
        "z": worst.z,
    }
    hidden = f"with {100 * worst.rate:.0f} % hidden"
    beside = f"the token frequencies of the other texts ({worst.frequencies:.2f})"
    if not worst.is_worse(len(row)):
        return passed(f"{hidden}, {worst.model:.2f} nats a token beside {beside}", **numbers)
    words = f"{hidden}, the answers ({worst.model:.2f} nats a token) are worse than {beside}"
    if low.is_worse(len(row)):
        also = f"with {100 * low.rate:.0f} % hidden, too ({low.model:.2f} and {low.frequencies:.2f})"
        return noted(
            f"{words}, and {also}: the model was not trained on such texts", look_at=_OF_TEXTS, **numbers
        )
    return noted(f"{words}: the model was not trained there", look_at=_LOOK_AT, **numbers)


def _at_rate(
    trial: Trial, row: Int64[np.ndarray, " n"], frequencies: Float64[np.ndarray, "n D"], rate: float
) -> _AtRate | None:
    """Compare model and frequencies at one random mask per row; None if an answer is not finite."""
    tokens = trial.data[torch.from_numpy(row)]
    maskable = tokens.maskable.cpu().numpy()
    size = np.maximum(1, np.floor(rate * maskable.sum(1) + 1e-9))
    order = np.where(maskable, trial.rng(f"rate {rate}").random(maskable.shape), 2.0)
    hidden = (np.argsort(np.argsort(order)) < size[:, None]) & maskable
    answer = trial.ask(tokens, torch.from_numpy(hidden).to(tokens.maskable.device)).cpu().numpy()
    if not np.isfinite(answer[hidden]).all():
        return None
    model, expected = ((np.where(hidden, each, 0.0).sum(1) / size) for each in (answer, frequencies))
    better = model - expected
    se = float(better.std(ddof=1)) / math.sqrt(len(row))
    beyond = float(better.mean()) + _MARGIN
    z = beyond / se if se else math.copysign(math.inf, beyond)
    return _AtRate(rate, float(model.mean()), float(expected.mean()), z)


def _log_frequencies(trial: Trial, row: Int64[np.ndarray, " n"], n_values: int) -> Float64[np.ndarray, "n D"]:
    """The log frequency of each token of the given rows among all other rows' tokens."""
    values, maskable = trial.data.values.cpu().numpy(), trial.data.maskable.cpu().numpy()
    total = np.bincount(values[maskable], minlength=n_values)
    result = np.zeros((len(row), values.shape[1]))
    for place, at in enumerate(row.tolist()):
        others = total - np.bincount(values[at][maskable[at]], minlength=n_values)
        n_distinct = int((others > 0).sum())
        smoothed = (others + n_distinct / n_values) / (others.sum() + n_distinct)
        result[place] = np.log(smoothed)[np.where(maskable[at], values[at], 0)]
    return result
