"""Token means as a control variate: predict the difficulty of the hidden tokens from other replicates.

A score is a mean over the hidden tokens, and some tokens are harder than others: the mask that happens to
hide them scores lower. Let τ_j be the mean residual of token j of an observation, log p(x_j | visible) minus
the prediction by size, in the masks of the *other* replicates, and 0 for a token that they do not hide. The
residual of a mask is lowered by

    mean over its hidden tokens of τ_j  -  mean over all tokens of the observation of τ_j.

Proof that the estimate stays unbiased: the τ_j are computed without the mask's replicate, hence independent
of the mask. Given them and its size M, the mask is a uniformly random subset, so that each token is in it
with probability M/D, and the first mean has the second one as its expectation. The difference has the
expectation 0 at every size, and any weights of the sizes keep that.

The terms of different replicates are correlated a little, since each of them is in the means of the others.
Measured on PPCA with 12 to 200 columns and 8 draws, the variance is 1 % to 3 % above its estimate from the
differences between replicates (the standard error half as much), and 95 % intervals cover 95 %.

Each τ_j is the sum of two shrunk means: the mean of its column over all observations, and the mean of the
token itself around it. Each is shrunk by the ratio of its sampling variance to the variance between columns
or tokens. Both variances come from the other replicates, too: the second one from products of two residuals
of a token in different masks.

Source:
    Robinson (1991), That BLUP is a good thing, Statistical Science 6, on means that are shrunk like this.
"""

import math

import numpy as np
from jaxtyping import Float64, Integer

from maskevidence.core.evidence.control_variates import Prediction
from maskevidence.core.masks.design import PerMask
from maskevidence.core.scores.record import ScoreTable

MAX_CELLS = 2_000_000  # pairs of an observation and a column held at once
_Ints = Integer[np.ndarray, " _"]
_Columns = Float64[np.ndarray, " n_columns"]
_Cells = Float64[np.ndarray, "n_rows n_columns"]  # by observation and column


def token_controls(table: ScoreTable, prediction: Prediction) -> PerMask:
    """The control variate of each mask, shape (n_masks,), nats per masked token, with expectation 0."""
    hidden, size, controls = table.hidden, table.size, np.empty(len(table))
    assert hidden is not None
    _, row = np.unique(table.id, return_inverse=True)
    n_rows, n_columns = int(row[-1]) + 1, int(hidden.column.max()) + 1
    at_once = max(1, MAX_CELLS // n_columns)
    every = math.ceil(n_rows / at_once)

    def places(masks: _Ints, rows: range) -> tuple[_Ints, _Ints]:
        """The positions of the masks' hidden tokens in the record and in the cells of these rows."""
        entries = hidden[masks].entries(size[masks])
        first = (row[masks] - rows.start) // rows.step * n_columns
        return entries, np.repeat(first, size[masks]) + hidden.column[entries].astype(np.int64)

    def sums(masks: _Ints, rows: range) -> tuple[_Cells, _Cells, float]:
        """Sum and number of residuals by observation and column, and the sum of all their squares."""
        entries, cell = places(masks, rows)
        residual = hidden.log_prob[entries].astype(np.float64) - np.repeat(expected[masks], size[masks])
        total, times = (np.bincount(cell, x, len(rows) * n_columns) for x in (residual, None))
        shape = (len(rows), n_columns)
        return total.reshape(shape), times.reshape(shape).astype(np.float64), float(residual @ residual)

    for fold in range(len(prediction.curves.values)):
        here, level = prediction.fold == fold, np.empty(n_rows)
        level[row[here]] = prediction.level[here]
        expected = prediction.curves.at(size, table.n_tokens, np.full(len(table), fold)) + level[row]
        sample = np.flatnonzero(~here & (row % every == 0))
        effects = _effects(*sums(sample, range(0, n_rows, every)))
        for first in range(0, n_rows, at_once):
            rows = range(first, min(first + at_once, n_rows))
            inside = (row >= rows.start) & (row < rows.stop)
            total, times, _ = sums(np.flatnonzero(inside & ~here), rows)
            means, masks = _means(total, times, *effects), np.flatnonzero(inside & here)
            mask = np.repeat(np.arange(len(masks)), size[masks])
            of_hidden = np.bincount(mask, weights=means.ravel()[places(masks, rows)[1]]) / size[masks]
            controls[masks] = of_hidden - means.sum(1)[row[masks] - rows.start] / table.n_tokens[masks]
    return controls


def _means(total: _Cells, times: _Cells, column_means: _Columns, shrinkage: float) -> _Cells:
    """τ of each token."""
    own = (total - times * column_means) / np.maximum(times + shrinkage, 1e-300)
    return np.where(times > 0, column_means + own, 0.0)


def _effects(total: _Cells, times: _Cells, squares: float) -> tuple[_Columns, float]:
    """The shrunk mean residual of each column, and the shrinkage: variance within over between tokens."""
    seen = times > 0
    n_rows, n_each = seen.sum(0), times.sum(0)
    mean = total.sum(0) / np.maximum(n_each, 1)
    around = np.where(seen, total / np.maximum(times, 1) - mean, 0.0)
    noise = (around**2).sum() / max(1, (n_rows - 1).clip(0).sum()) / np.maximum(n_rows, 1)
    used = n_rows > 1
    between = max(0.0, float(mean[used].var(ddof=1) - noise[used].mean())) if used.sum() > 1 else 0.0
    column_means = np.where(used, mean * between / np.maximum(between + noise, 1e-300), 0.0)

    own = total - times * column_means
    square = squares - 2 * float(column_means @ total.sum(0)) + float(column_means**2 @ n_each)
    pairs = float((times * (times - 1)).sum())
    of_tokens = (float((own**2).sum()) - square) / pairs if pairs else 0.0
    within = square / max(1.0, float(n_each.sum())) - of_tokens
    return column_means, max(0.0, within) / of_tokens if of_tokens > 0 else math.inf
