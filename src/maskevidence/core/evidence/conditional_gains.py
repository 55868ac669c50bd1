"""Gains between the tokens of a block: the correction of `LogSizes` and its error.

Let B be the block of Δ tokens that an order shows between two masks, V the tokens before it, and

    i(k, l) = log p(x_k | x_V, x_l) - log p(x_k | x_V),   the gain of token k from seeing token l.

To second order, log p(x_B | x_V) = Σ_{k in B} log p(x_k | x_V) + Σ_{pairs k, l in B} i(k, l), and the masks
score the first sum alone. The next mask of the order shows what the second one is like: a token k that it
hides has gained d_k = Σ_{l in B} i(k, l) from the block.

- Its mean. A score that follows a + b/(n + 1) from n visible tokens to n + Δ, as it does where p parameters
  are learned from n rows (b = -p/2), gains the mean d_k, which tells b; the gain within the block is added.
- Its variance. Pairs hardly correlate, so that it is Δ (Δ - 1)/2 · τ² with τ² = E i², and E d_k² = Δ τ². The
  blocks of an order are a martingale: their variances v add up, with (Σ v)² / Σ v² degrees of freedom.

Where the next mask hides too few tokens, b is that of the block before, and τ² falls as 1/(n + 1)². The
variance rests on orders that agree, as those of one joint density do; for other conditionals, the error is
the spread of several orders.
"""

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from maskevidence.core.evidence.standard_errors import MeanWithErrors
from maskevidence.core.masks.design import PerMask
from maskevidence.core.masks.orders import LogSizes
from maskevidence.core.scores.record import Scores, ScoreTable

FEWEST_GAINS = 8  # hidden tokens needed to estimate b and τ²
ROUNDING = 1e-6  # of 1 + |total|: rounding differences between the orders of a joint density
BY_CHANCE = 1e-4  # false alarm rate of the test that orders differ
ORDERS_DIFFER = "the conditionals are called exact, but the totals of the orders differ"


def corrected_scores(table: ScoreTable, design: LogSizes) -> PerMask:
    """Add the mean gain to the score of each block; the record must be sorted by id, draw and size."""
    return table.score + _gains(table, design)[0] / design.n_scored(table.n_tokens, table.size)


def mean_with_gains(
    mean: MeanWithErrors, table: ScoreTable, design: LogSizes
) -> tuple[MeanWithErrors, str | None]:
    """Replace the error of the mean by the error of its blocks; note orders that differ by more.

    If the orders differ by more than blocks do, the mean stays as it is, with the spread of its orders.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=60, n_components=2, seed=1)
        >>> x = model.sample(1, seed=2)
        >>> estimate = me.estimate_evidence(model, x, me.LogSizes(fits=30))
        >>> abs(estimate.log_evidence - float(model.score_samples(x)[0])) < 3 * estimate.mask_se
        True
    """
    gained, parts = _gains(table, design)
    n_scored, n = design.n_scored(table.n_tokens, table.size), int(table.observation[-1]) + 1
    of_order = table.observation * design.orders + table.draw
    totals = np.bincount(of_order, n_scored * table.score + gained).reshape(n, design.orders)
    variance = float(parts.sum())
    df = variance**2 / float((parts**2).sum()) if variance else math.inf
    if (apart := _beyond_blocks(totals, variance / totals.size, df)) is not None:
        return mean, (
            f"{ORDERS_DIFFER} by up to {apart:.3g} nats: no joint density has them, and the error is the "
            "spread over orders"
        )
    return mean._replace(mask_se=math.sqrt(variance) / totals.size, mask_df=df, tails=(0.0, 0.0)), None


def _beyond_blocks(totals: Float64[np.ndarray, "n orders"], variance: float, df: float) -> float | None:
    """The largest difference between two orders of an observation; None if blocks or rounding explain it.

    Args:
        totals: of each order of each observation, nats.
        variance: of a total, by its blocks, with `df` degrees of freedom.
    """
    from scipy import special

    apart = float(np.ptp(totals, 1).max())
    free = totals.shape[0] * (totals.shape[1] - 1)
    if not free or apart <= ROUNDING * (1 + float(np.abs(totals).max())):
        return None
    if variance == 0:
        return apart
    ratio = float(totals.var(1, ddof=1).mean()) / variance
    return apart if special.fdtrc(free, df, ratio) < BY_CHANCE else None


def _gains(table: ScoreTable, design: LogSizes) -> tuple[PerMask, PerMask]:
    """The gain within the block of each mask: mean, nats, and variance, nats²."""
    n_scored, log_prob = design.n_scored(table.n_tokens, table.size), _log_probs(table)
    visible = table.n_tokens - table.size
    z = 1.0 / (visible + 1)
    slope, square, mean = np.zeros((3, len(table)))
    for mask in range(len(table) - 1, -1, -1):  # masks of an order from most hidden tokens to fewest
        following, n = mask - 1, int(n_scored[mask])
        if n < table.size[mask] and table.size[following] >= FEWEST_GAINS:
            gain = (log_prob[following] - log_prob[mask])[~np.isnan(log_prob[following])]
            slope[mask] = gain.mean() / (z[following] - z[mask])
            square[mask] = np.mean(gain**2) / (n * z[mask] ** 2)
        elif visible[mask] > 0:
            slope[mask], square[mask] = slope[mask + 1], square[mask + 1]
        mean[mask] = slope[mask] * (1.0 / (visible[mask] + 1 + np.arange(n)) - z[mask]).sum()
    return mean, n_scored * (n_scored - 1) / 2 * square * z**2


def _log_probs(table: ScoreTable) -> Float64[np.ndarray, "n_masks D"]:
    """The log-probability of each hidden token of each mask; NaN at visible tokens."""
    assert table.hidden is not None
    hidden = table.hidden.packed(table.size)
    answer = np.full((len(table), int(table.hidden.column.max()) + 1), np.nan)
    answer[np.repeat(np.arange(len(table)), table.size), hidden.column] = hidden.log_prob
    return answer


def with_all_hidden(record: ScoreTable | Scores) -> ScoreTable:
    """Score each mask of `LogSizes` by the mean over all hidden tokens, for the curve."""
    table = Scores.of(record).table()
    return replace(table, score=np.nanmean(_log_probs(table), axis=1))
