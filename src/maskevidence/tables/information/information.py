"""Mutual information, total correlation and O-information, from differences of areas of one masked model."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.tables.gaussian.family import LOG_2PI
from maskevidence.tables.information.gains import FOLDS, Fitted, Term, fitted, gains, n_half, weighted_sum
from maskevidence.tables.information.information_result import (
    GIVEN_OTHERS,
    MUTUAL,
    NOT_CAUSE,
    SIGNED,
    Information,
    entropy,
    errors_of,
    share_present,
)

_NEAREST = 5  # rows, of which one is exchanged
FEW_ROWS = (
    "rows are few for this dependence: the number may be too low, and even the upper end of its interval"
)
_FEW = 5  # rows for each column
_FAR = 100.0  # distance of two categories, in standard deviations of numbers
_OfFolds = list[Float64[np.ndarray, "R _"]]


def information(
    model: object,
    data: object,
    a: Any,
    b: Any,
    given: Any = None,
    *,
    folds: int = FOLDS,
    seed: int = 0,
) -> Information:
    """Estimate the (conditional) mutual information of two groups of columns, by one masked model.

    I(A; B | C) = E[log p(A | B, C) - log p(A | C)]: two areas of the same model under the same masks, with B
    visible and with B hidden and not asked. A model of learned conditionals is asked for B, too, and the mean
    of both directions taken.

    A MODEL word is fitted to these columns, once to all rows but those of each fold, a network with another
    seed each time, and every row is asked of the model that has not seen it. With K folds and values g of n
    rows,

    standard error² = s²(g) / n + τ² / K,

    where τ² is the variance of the fits, from two of them that answer for the same rows. Groups of more than
    six columns without a closed form are asked by 8 sets of random masks, whose spread is `mask_se`.

    A model that learns from n rows misses a part of a dependence, so this number is too low. Of rows that it
    has seen it is, to first order, as much too high: `nats` is the mean of both. The interval is Student's t,
    its lower end from rows not seen, less `zero` (what the same fit finds in independent columns) if that is
    above 0, its upper end from rows seen, or from `with_more_rows` if this is higher.

    For a MODEL word, numbers of more than 20 values become normal quantiles of their ranks: no increasing map
    of a column changes the information. For kernel-gaussian, a mixture of 1, 2, 4, ... components or kernels
    of one bandwidth answer, whichever has the highest held-out density; with words, a mixture.

    Missing cells of these columns are drawn five times by the model given the rest of the row; such a row
    counts as the share of its cells in the error.

    Args:
        model: a MODEL word, such as "gaussian" or "masked-net"; or a fitted model of rows, for which nothing
            is known of the error of its fit.
        data: shape (N, D), an array, `Table` or data frame; NaN where a value is missing.
        a: a column or several, by name or position.
        b: others.
        given: C, others, or none.
        folds: parts of the rows, 3 or more.
        seed: of the folds, the fits, the masks and the draws.

    Returns:
        A result in nats per row (`nats`, `bits`, `interval()`, `zero`, ...).

    Raises:
        InputError: groups that share a column or are empty, unknown columns, too few rows, or texts.

    Source:
        Cover and Thomas (2006), Elements of Information Theory, chapter 2; Runge (2018), Conditional
        independence testing based on a nearest-neighbor estimator of conditional mutual information (`zero`,
        given columns).

    Example:
        >>> import maskevidence as me
        >>> x = np.random.default_rng(0).multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 2000)
        >>> found = me.information("gaussian", x, 0, 1)
        >>> low, high = found.interval()
        >>> bool(low < -np.log(1 - 0.6**2) / 2 < high), round(found.correlation, 1)
        (True, 0.6)
    """
    fit = fitted(model, data, [a, b, given], (folds, seed))
    if not all(fit.groups[:2]):
        raise InputError("a or b names no column; give one or several in each")
    asked, other, known = map(fit.mask, fit.groups)
    if fit.symmetric and asked.sum() > other.sum():
        asked, other = other, asked
    sides = [(asked, other)] if fit.symmetric else [(asked, other), (other, asked)]
    terms = []
    for one, rest in sides:
        weight = 1 / len(sides)
        terms += [Term(weight, one, rest | known), Term(-weight, one, known)]
    return _estimated(MUTUAL, fit, terms, fit.groups[:1])


def total_correlation(
    model: object, data: object, columns: Any = None, given: Any = None, *, folds: int = FOLDS, seed: int = 0
) -> Information:
    """Estimate the total correlation of columns: E[log p(x) - Σ_j log p(x_j)], nats.

    It is the area under the curve less D times the score with all columns hidden, and 0 for independent
    columns. Arguments and errors are those of `information`.

    Args:
        columns: two or more, by name or position; by default all.

    Source:
        Watanabe (1960), Information theoretical analysis of multivariate correlation.

    Example:
        >>> import maskevidence as me
        >>> x = np.random.default_rng(0).normal(size=(500, 3))
        >>> low, high = me.total_correlation("gaussian", x).interval()
        >>> low < 0 < high
        True
    """
    fit = fitted(model, data, [... if columns is None else columns, given], (folds, seed))
    return _of_columns("total correlation", fit, (1, -1, 0))


def o_information(
    model: object, data: object, columns: Any = None, given: Any = None, *, folds: int = FOLDS, seed: int = 0
) -> Information:
    """Estimate the O-information of columns: total correlation less dual total correlation, nats.

    Above 0, redundancy dominates (columns say the same); below 0, synergy (they tell it only together, as in
    a parity). Arguments are those of `total_correlation`.

    Source:
        Rosas, Mediano, Gastpar, Jensen (2019), Quantifying high-order interdependencies via multivariate
        extensions of the mutual information.

    Example:
        >>> import maskevidence as me
        >>> z = np.random.default_rng(0).normal(size=(2000, 1))
        >>> x = z + np.random.default_rng(1).normal(size=(2000, 3))
        >>> me.o_information("gaussian", x).interval()[0] > 0  # three columns that repeat z
        True
    """
    fit = fitted(model, data, [... if columns is None else columns, given], (folds, seed))
    return _of_columns(SIGNED, fit, (2, -1, -1))


def _of_columns(quantity: str, fit: Fitted, weights: tuple[int, int, int]) -> Information:
    """The weighted sum of joint, marginal and full conditional log-probabilities of columns."""
    if len(fit.groups[0]) < 2:
        raise InputError(f"{quantity} of {len(fit.groups[0])} column; give two or more")
    asked, known = map(fit.mask, fit.groups)
    hows = ("joint", "alone", "given the rest")
    terms = [Term(w, asked, known, how) for w, how in zip(weights, hows, strict=True) if w]  # type: ignore[arg-type]
    return _estimated(quantity, fit, terms, [[j] for j in fit.groups[0]])


def _answers(
    fit: Fitted, terms: Sequence[Term]
) -> tuple[_OfFolds, _OfFolds, _OfFolds, list[float], Float64[np.ndarray, " T"]]:
    """Ask the models of all folds.

    Returns:
        The sums of terms, shape (R, n) for each fold: by the models that have not seen the rows, by models
        that have, and what the first ones add to the half model; then how many rows each fold counts as, and
        the means of the terms without their weights.
    """
    values, (*asked, given) = fit.table.values, fit.groups
    pairs = [*(asked if len(asked) > 1 else asked * 2), given]
    held_out, seen, more, shares, of_terms = [], [], [], list[float](), []
    for k, fold in enumerate(fit.folds):
        ask = partial(gains, values=values, rows=fold.out, terms=terms, seed=fit.seed)
        rows, answers = ask(fold.model)
        if not len(rows):
            continue
        held_out.append(weighted_sum(terms, answers))
        shares.append(share_present(~np.isnan(values), pairs, rows))
        of_terms.append(answers.mean(1))
        if fold.other is not None:
            seen.append(weighted_sum(terms, ask(fold.other)[1]))
        if fit.half is not None and k >= n_half(len(fit.folds)):
            more.append(held_out[-1] - weighted_sum(terms, ask(fit.half)[1]))
    if sum(shares) < 2:
        raise InputError("fewer than two rows have values in each group of columns; give more rows")
    return held_out, seen, more, shares, np.concatenate(of_terms, axis=1).mean(1)


def _estimated(
    quantity: str, fit: Fitted, terms: Sequence[Term], blocks: Sequence[Sequence[int]]
) -> Information:
    """The mean of a sum of terms over all rows, with its errors; blocks are shuffled for the zero."""
    *asked, given = fit.groups
    out, saw, gained, shares, log_q = _answers(fit, terms)
    held_out, seen, more = (
        float(np.concatenate(each, axis=1).mean()) if each else None for each in (out, saw, gained)
    )
    assert held_out is not None
    nats = held_out if seen is None else (held_out + seen) / 2
    if not math.isfinite(nats):
        raise NumericalError(f"the {quantity} is {nats}: the model gives a row the probability 0")
    errors, mutual = errors_of(out, saw, shares), quantity == MUTUAL and not given
    zero, zero_se = (None, None) if fit.folds[0].again is None else _zero(fit, terms, blocks)
    entropies = [_entropy(fit, group) for group in asked] if mutual else []
    known = [each for each in entropies if each is not None]
    bounds = [  # the first of the two terms of each direction is log q(a | b), and of a network log q(b | a)
        float(log_q[k]) + entropy
        for k in range(0, len(terms), 2)
        for group, entropy in zip(asked, entropies, strict=mutual)
        if entropy is not None and (fit.mask(group) == terms[k].asked).all()
    ]
    notes = _notes(quantity, errors["fit_se"], held_out, (zero, zero_se), bounds)
    most = min(_most(fit, group) for group in asked) if quantity == MUTUAL else math.inf
    with_more = None if more is None else min(held_out + _missed(quantity, len(fit.folds), more), most)
    few = len(fit.table) < _FEW * len(fit.table.columns)
    if few or max(seen or held_out, with_more or held_out) - held_out > errors["standard_error"]:
        notes.append(FEW_ROWS)
    normalised = len(known) == 2 and sum(known) > 0 and not any(map(fit.is_ranked, asked))
    return Information(
        quantity=quantity,
        nats=nats,
        **errors,
        held_out=held_out,
        seen=seen,
        with_more_rows=with_more,
        zero=zero,
        zero_se=zero_se,
        lower_bound=max(bounds, default=None),
        symmetric_uncertainty=2 * nats / sum(known) if normalised else None,
        groups=tuple(tuple(fit.table.columns[j] for j in group) for group in fit.groups),
        n_rows=sum(len(fold.out) for fold in fit.folds),
        model=fit.name,
        notes=(*fit.notes, *notes, *([GIVEN_OTHERS] if given and zero is None else [])),
    )


def _entropy(fit: Fitted, group: Sequence[int]) -> float | None:
    """H of a single column that stands as ranks or has probabilities; None for others."""
    if len(group) != 1:
        return None
    if fit.is_ranked(group):
        return LOG_2PI / 2 + 0.5
    return entropy(fit.table.values[:, group[0]]) if _most(fit, group) < math.inf else None


def _most(fit: Fitted, group: Sequence[int]) -> float:
    """The most information on a group: log of the number of its values, infinite for numbers."""
    values_of = getattr(fit.folds[0].model, "values_of", lambda _: None)
    values: list[Any] = [values_of(j) for j in group]
    return sum(math.inf if each is None else math.log(len(each)) for each in values)


def _missed(quantity: str, n_folds: int, more: float) -> float:
    """Extrapolate to more rows, if the missed part falls with the square root of their number."""
    rise = more / (((n_folds - 1) / n_half(n_folds)) ** 0.5 - 1)
    return rise if quantity == SIGNED else max(rise, 0.0)


def _zero(fit: Fitted, terms: Sequence[Term], blocks: Sequence[Sequence[int]]) -> tuple[float, float]:
    """The estimate and its error for independent blocks of columns, from the first fold."""
    fold, values, rng = fit.folds[0], fit.table.values.copy(), np.random.default_rng(fit.seed)
    assert fold.again is not None
    for block in blocks:
        drawn = fit.table.values[_exchanged(fit, rng)]
        values[:, block] = np.where(np.isnan(values[:, block]), np.nan, drawn[:, block])
    got = weighted_sum(terms, gains(fold.again(values), values, fold.out, terms, fit.seed)[1]).mean(0)
    return float(got.mean()), float(got.std(ddof=1)) / len(got) ** 0.5


def _exchanged(fit: Fitted, rng: np.random.Generator) -> list[int]:
    """Pair each row with another at random; given columns, with one of its five nearest that is free."""
    from scipy.spatial import cKDTree

    given, n = fit.table.values[:, fit.groups[-1]], len(fit.table)
    if not given.shape[1]:
        return rng.permutation(n).tolist()
    scaled = (given - np.nanmean(given, axis=0)) / np.nanstd(given, axis=0)
    words = [fit.table.columns[j] in fit.table.levels for j in fit.groups[-1]]
    scaled = np.nan_to_num(np.where(words, _FAR * given, scaled)) + 1e-9 * rng.normal(size=given.shape)
    near, taken = cKDTree(scaled).query(scaled, min(_NEAREST + 1, n))[1], np.zeros(n, dtype=bool)
    chosen = np.arange(n)
    for row in rng.permutation(n):
        others = rng.permutation(near[row][near[row] != row])
        chosen[row] = others[int(np.argmin(taken[others]))]
        taken[chosen[row]] = True
    return chosen.tolist()


def _notes(
    quantity: str, fit_se: float | None, held_out: float, zero: tuple[Any, Any], bounds: list[float]
) -> list[str]:
    """Notes that a reader needs besides the numbers."""
    notes = [NOT_CAUSE]
    if held_out < 0 and quantity != SIGNED:
        notes.append("the model finds nothing in rows that it has not seen")
    if zero[0] is not None and zero[0] > 3 * zero[1] > 0:
        notes.append("the model finds information in independent columns: it fits these rows badly")
    if not bounds and fit_se is not None:
        notes.append("no lower bound: the model's own log q(a) may be as wrong as log q(a | b)")
    return notes
