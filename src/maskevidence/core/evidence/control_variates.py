"""Control variates: subtract from each score its prediction by other masks, and add the expectation.

With masks of random sizes, most of what varies between the scores S_k of an observation with D tokens follows
from the sizes M_k alone. Let the masks be in replicates r = 1..R that are independent of each other, and let
ĝ_r(M) be any prediction of a score from its size that is computed from the masks of the other replicates. An
observation's estimate is

    e = Σ_k [ w_k · (S_k - ĝ_r(M_k)) + Σ_{M=1}^{D} ĝ_r(M) / K ],   r = r(k), k = 1..K,

with the weights w_k = 1 / (K · q(M_k)) for sizes of density q, D / K for uniform sizes.

It is unbiased whatever ĝ is. Proof: the masks of replicate r are independent of the other replicates, and
hence of ĝ_r. Given ĝ_r, the expectation of w_k · ĝ_r(M_k) is Σ_M q(M) · ĝ_r(M) / (K · q(M)), which is what is
added again; and Σ_k E[w_k · S_k] = Σ_M S(x; M), as without a prediction. The masks of other observations do
not matter: their masks of the same replicate, whose sizes are drawn together with M_k, have no part in ĝ_r.

The prediction here is a curve that all observations share, ĉ_r(M), plus a level for each observation, the
mean of its S - ĉ_r in the other replicates. The curve is piecewise linear between knots that lie densely at
both ends, where a curve may be steep, and minimises

    Σ_i D_i² · Σ_k (S_ik - ĉ(M_ik) - mean_k)² + λ · (second differences of its knots)²,

the variance within the observations, which is the variance of the estimate. λ is chosen by generalised
cross-validation. This removes the variance due to sizes; the standard error is computed from what remains,
the differences between the replicates of each observation. Observations are not independent, as their sizes
are drawn together: the sizes of a replicate are assigned at random to n neighbours, n <= 256. The variance of
the mean over them is therefore at most n/(n - 1) times the variance for independent observations with the
same variances, whatever the scores are (proof: `support.keyed_random.stratified`).

Source:
    Owen (2013), Monte Carlo theory, methods and examples, Section 8.9, on control variates. Craven and Wahba
    (1979), Smoothing noisy data with spline functions, on generalised cross-validation.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Integer

from maskevidence.core.masks.design import Indices, PerMask
from maskevidence.core.scores.record import ScoreTable

KNOTS_PER_OCTAVE = 2
MAX_FOLDS = 8
MAX_MASKS = 20_000  # with this many masks, a curve of 30 knots adds 0.2 % to the variance
FEWEST_AT_KNOT = 3.0  # masks near a knot; knots with fewer are interpolated
FEWEST_DF = 8  # residual degrees of freedom of a fitted curve
FEWEST_TO_PREDICT = 100  # masks of a run; curves fitted to fewer share an error that replicates miss
_PENALTIES = 10.0 ** np.arange(-6, 7)  # in units of the mean diagonal entry of the normal equations


class SizeCurves(NamedTuple):
    """The curves ĉ_r: for each fold of replicates, a curve fitted to the masks of the other folds."""

    knots: Float64[np.ndarray, " n_knots"]  # logit of the rate, ascending
    values: Float64[np.ndarray, "n_folds n_knots"]  # nats per masked token

    def at(self, size: Indices, n_tokens: Indices, fold: Indices) -> PerMask:
        """ĉ_r(M) for each mask, nats per masked token."""
        of_fold, answer = self.of_sizes(size, n_tokens), np.empty(len(size))
        for number in range(len(self.values)):
            here = np.flatnonzero(fold == number)
            answer[here] = of_fold(number, here)
        return answer

    def of_sizes(
        self, size: Indices, n_tokens: Indices
    ) -> Callable[[int, Integer[np.ndarray, " n"]], Float64[np.ndarray, " n"]]:
        """A fold's curve at the sizes of some of the masks; each size of each length is interpolated once."""
        lengths = np.flatnonzero(np.bincount(n_tokens)).astype(n_tokens.dtype)
        if int(lengths.sum()) >= len(size):
            logits, place = logit_rate(size, n_tokens), np.arange(len(size))
        else:
            start = np.zeros(int(lengths[-1]) + 1, dtype=np.int64)
            start[lengths] = np.cumsum(lengths) - lengths
            sizes = [np.arange(1, length + 1, dtype=size.dtype) for length in lengths]
            logits = logit_rate(np.concatenate(sizes), np.repeat(lengths, lengths))
            place = start[n_tokens] + size - 1

        def of_fold(number: int, masks: Integer[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
            here, values = place[masks], self.values[number]
            if len(here) < len(logits):
                return np.interp(logits[here], self.knots, values)
            return np.interp(logits, self.knots, values)[here]

        return of_fold

    def total(self, n_tokens: Indices, fold: Indices) -> PerMask:
        """Σ_{M=1}^{D} ĉ_r(M) for each mask's observation, nats."""
        lengths, group = np.unique(n_tokens, return_inverse=True)
        totals = np.empty((len(lengths), len(self.values)))
        for row, length in enumerate(lengths):
            logits = logit_rate(np.arange(1, length + 1), np.full(length, length))
            totals[row] = [np.interp(logits, self.knots, values).sum() for values in self.values]
        return totals[group, fold]


class Prediction(NamedTuple):
    """The prediction of each mask's score from the other replicates, ĝ_r(M) = ĉ_r(M) + level."""

    curves: SizeCurves  # the curves of all folds
    # the fold of each mask; its curve and level are fitted to the other folds
    fold: Indices
    level: PerMask  # nats per masked token
    # shape (n_masks,); the hidden tokens' term of ĝ_r, nats per masked token, with expectation 0 over the
    # masks of each size (token_means.py); None without scores of tokens
    token: PerMask | None = None

    def contributions(self, table: ScoreTable, weight: PerMask, n_draws: Indices) -> PerMask:
        """The contribution of each mask to its observation's estimate, shape (n_masks,), nats."""
        expected = self.curves.total(table.n_tokens, self.fold) + table.n_tokens * self.level
        return weight * self.residuals(table) + expected / n_draws

    def residuals(self, table: ScoreTable) -> PerMask:
        """The scores minus their predictions, shape (n_masks,), nats per masked token."""
        left = table.score - self.level - self.curves.at(table.size, table.n_tokens, self.fold)
        return left if self.token is None else left - self.token


def logit_rate(size: Indices, n_tokens: Indices) -> PerMask:
    """log M - log(D + 1 - M), a logit of the mask rate that spreads out small and large sizes.

    Example:
        >>> logit_rate(np.array([1, 5, 9]), np.array([9, 9, 9])).round(3).tolist()
        [-2.197, 0.0, 2.197]
    """
    return np.log(size) - np.log(n_tokens + 1 - size)


def predict_by_size(
    table: ScoreTable, replicate: Indices, n_replicates: int, curves: SizeCurves
) -> Prediction:
    """Predict each score from the mask size: a curve common to all observations plus a level for each.

    Args:
        table: a sorted record of some or all observations.
        curves: the curves from `fitted_curves`.

    Example:
        >>> row, draw = (grid.ravel() for grid in np.indices((4, 4)))
        >>> size = (row + draw) % 4 + 1
        >>> table = ScoreTable(row, draw, size, np.full(16, 4), -row - 0.5 * size)
        >>> prediction = predict_by_size(table, draw, 4, fitted_curves(table, draw, 4))
        >>> bool(np.abs(prediction.residuals(table)).max() < 1e-6)
        True
        >>> each = prediction.contributions(table, np.ones(16), np.full(16, 4))
        >>> each.reshape(4, 4).sum(1).round(6).tolist()
        [-5.0, -9.0, -13.0, -17.0]
    """
    fold, n_folds = replicate % MAX_FOLDS, min(n_replicates, MAX_FOLDS)
    row, of_fold = table.observation, curves.of_sizes(table.size, table.n_tokens)
    n_rows = int(row[-1]) + 1
    n_masks, level = np.bincount(row), np.empty(len(table))
    for number in range(n_folds):
        here = fold == number
        others, here = np.flatnonzero(~here), np.flatnonzero(here)
        apart = table.score[others] - of_fold(number, others)
        sums = np.bincount(row[others], weights=apart, minlength=n_rows)
        counts = n_masks - np.bincount(row[here], minlength=n_rows)
        level[here] = (sums / np.maximum(counts, 1))[row[here]]
    return Prediction(curves, fold, level)


def fitted_curves(table: ScoreTable, replicate: Indices, n_replicates: int) -> SizeCurves:
    """Fit one curve per fold to the scores of the other folds; a curve is 0 if they are too few.

    Args:
        table: a sorted record, of about `MAX_MASKS` masks or fewer.
    """
    fold, n_folds = replicate % MAX_FOLDS, min(n_replicates, MAX_FOLDS)
    first, row = table.first, table.observation
    knots = _knots(int(table.n_tokens.max()))
    scale = table.n_tokens / table.n_tokens.max()
    near = _hats(logit_rate(table.size, table.n_tokens), knots)
    hats = near * scale[:, None]
    columns = np.column_stack([hats, table.score * scale])
    moments, row_sums, row_counts, support = [], [], [], []
    for number in range(n_folds):
        here = np.flatnonzero(fold == number)
        part = columns[here]
        moments.append(part.T @ part)
        support.append(near[here].sum(0))
        row_counts.append(np.bincount(row[here], minlength=len(first)).astype(np.float64))
        starts = np.flatnonzero(np.diff(row[here], prepend=-1))
        sums = np.zeros((len(first), columns.shape[1]))
        sums[row[here][starts]] = np.add.reduceat(part, starts) if len(here) else 0.0
        row_sums.append(sums)
    all_moments, all_sums, all_counts = sum(moments), sum(row_sums), sum(row_counts)
    values = []
    for moment, sums, count, near_fold in zip(moments, row_sums, row_counts, support, strict=True):
        left, n_left = all_sums - sums, all_counts - count
        within = all_moments - moment - (left / np.maximum(n_left, 1.0)[:, None]).T @ left
        basis = _between(knots, sum(support) - near_fold >= FEWEST_AT_KNOT)
        values.append(_smoothed(within, int(n_left.sum() - (n_left > 0).sum()), basis))
    return SizeCurves(knots, np.array(values))


def _knots(n_tokens: int) -> Float64[np.ndarray, " n_knots"]:
    """Choose mask sizes about evenly spaced on the logit scale; all sizes where they are sparser."""
    sizes = np.arange(1, n_tokens + 1)
    logits = logit_rate(sizes, np.full(n_tokens, n_tokens))
    even = np.arange(logits[0], logits[-1], math.log(2) / KNOTS_PER_OCTAVE)
    nearest = np.abs(logits[:, None] - even).argmin(0)
    return logits[np.unique([*nearest, n_tokens - 1])]


def _hats(logits: PerMask, knots: Float64[np.ndarray, " n_knots"]) -> Float64[np.ndarray, "n n_knots"]:
    """Evaluate the hat functions, piecewise linear and 1 at one knot and 0 at the others."""
    hats = np.zeros((len(logits), len(knots)))
    if len(knots) == 1:
        hats[:] = 1.0
        return hats
    right = np.clip(np.searchsorted(knots, logits), 1, len(knots) - 1)
    share = np.clip((logits - knots[right - 1]) / (knots[right] - knots[right - 1]), 0.0, 1.0)
    rows = np.arange(len(logits))
    hats[rows, right - 1], hats[rows, right] = 1.0 - share, share
    return hats


def _between(
    knots: Float64[np.ndarray, " n_knots"], supported: Bool[np.ndarray, " n_knots"]
) -> Float64[np.ndarray, "n_knots n_supported"]:
    """The matrix that interpolates values at the supported knots to all knots.

    Beyond the outermost supported knots the curve is constant: a straight line could end far from all scores.

    Example:
        >>> _between(np.array([0.0, 1.0, 2.0, 3.0]), np.array([True, False, True, False])) @ [4.0, 6.0]
        array([4., 5., 6., 6.])
    """
    unit = np.eye(int(supported.sum()))
    return np.column_stack([np.interp(knots, knots[supported], column) for column in unit] or [0.0 * knots])


def _smoothed(
    moments: Float64[np.ndarray, "n n"], df: int, basis: Float64[np.ndarray, "n_knots n_supported"]
) -> Float64[np.ndarray, " n_all"]:
    """Fit the knot values from second moments within observations, in which the score is the last column.

    λ minimises RSS / (1 - (degrees of freedom of the curve) / df)².
    """
    gram, cross, square = basis.T @ moments[:-1, :-1] @ basis, basis.T @ moments[:-1, -1], moments[-1, -1]
    n_knots = len(gram)
    scale = np.trace(gram) / max(1, n_knots)
    if df < FEWEST_DF or n_knots < 2 or not scale > 0:
        return np.zeros(len(basis))
    differences = np.diff(np.eye(n_knots), min(2, n_knots - 1), axis=0)
    penalty = scale * differences.T @ differences
    level = scale / n_knots  # differences within rows do not depend on a constant
    best, chosen = math.inf, np.zeros(n_knots)
    systems = gram + _PENALTIES[:, None, None] * penalty + level
    for solved in np.linalg.solve(systems, np.column_stack([cross, gram])):
        values, used = solved[:, 0], float(np.trace(solved[:, 1:]))
        rest = max(0.0, float(square - 2 * values @ cross + values @ gram @ values))
        if used < df and rest / (1 - used / df) ** 2 < best:
            best, chosen = rest / (1 - used / df) ** 2, values
    return basis @ chosen
