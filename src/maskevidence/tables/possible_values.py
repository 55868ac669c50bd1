"""Filled values that a column can hold: none below 0, within limits, with the decimals of the others."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64
from scipy.special import log_ndtr, ndtr, ndtri
from scipy.stats import skew

from maskevidence.core.support.checks import some_of
from maskevidence.core.table import Table
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import fit_table
from maskevidence.tables.reading.numbers import decimals_of

_ZEROS = 0.02  # share of zeros that makes a column one that is cut off at 0
SKEWED = 1.0  # skewness of a column that may have a log scale, and whose mean does not stand for it
FEWEST_KNOWN = 5  # known cells that say what a column can hold
_FEW_VALUES, _CELLS_EACH = 12, 5  # of whole numbers that are filled with values that exist
_TEST_FRACTION = 0.2

_Rows = Float64[np.ndarray, "N D"]
_Column = Float64[np.ndarray, " n"]


class Moments(NamedTuple):
    """Means and standard deviations of filled values."""

    mean: _Column
    sd: _Column


def within(mean: _Column, sd: _Column, low: _Column | float, high: _Column | float) -> Moments:
    """Moments of a normal distribution between two ends.

    With a = (low - m) / s, b = (high - m) / s, Z = Φ(b) - Φ(a): m + s (φ(a) - φ(b)) / Z, and
    s² (1 + (a φ(a) - b φ(b)) / Z - ((φ(a) - φ(b)) / Z)²).

    Example:
        >>> within(np.array([0.0]), np.array([1.0]), 0.0, np.inf).mean.round(4).tolist()
        [0.7979]
    """
    low, high = np.broadcast_to(low, mean.shape), np.broadcast_to(high, mean.shape)
    sd = np.maximum(sd, 1e-12)
    a, b = (low - mean) / sd, (high - mean) / sd
    flip = a > 0  # both ends above the mean: the mirror image, where the tail keeps its digits
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    log_mass = log_ndtr(b) + np.log1p(-np.exp(np.minimum(log_ndtr(a) - log_ndtr(b), -1e-16)))
    at_a, at_b = (np.exp(-0.5 * end**2 - 0.5 * np.log(2 * np.pi) - log_mass) for end in (a, b))
    shift = at_a - at_b
    a_term, b_term = (np.where(np.isinf(end), 0.0, end) * at for end, at in ((a, at_a), (b, at_b)))
    variance = np.clip(1 + a_term - b_term - shift**2, 0, 1)
    means = np.clip(mean + sd * np.where(flip, -shift, shift), low, high)
    return Moments(means, sd * np.sqrt(variance))


def cut_off(mean: _Column, sd: _Column) -> Moments:
    """Moments of max(0, x) of a normal x: m Φ(m/s) + s φ(m/s), and its second moment (m² + s²) Φ + m s φ.

    Example:
        >>> cut_off(np.array([0.0]), np.array([1.0])).mean.round(4).tolist()
        [0.3989]
    """
    ratio = mean / np.maximum(sd, 1e-12)
    below, density = ndtr(ratio), np.exp(-0.5 * ratio**2) / np.sqrt(2 * np.pi)
    first = mean * below + sd * density
    second = (mean**2 + sd**2) * below + mean * sd * density
    return Moments(np.maximum(first, 0), np.sqrt(np.maximum(second - first**2, 0)))


def drawn_within(mean: _Column, sd: _Column, low: _Column, high: _Column, seed: int) -> _Column:
    """Draws of normal distributions between two ends."""
    a, b = ndtr((low - mean) / sd), ndtr((high - mean) / sd)
    u = np.random.default_rng(seed).random(mean.shape)
    drawn = mean + sd * ndtri(np.clip(a + u * (b - a), 1e-15, 1 - 1e-15))
    return np.clip(drawn, low, high)


def never_below_0(
    table: Table, values: _Rows, holes: Bool[np.ndarray, "N D"], names: Sequence[str]
) -> list[str]:
    """The columns without a value below 0 in which a hole is filled below 0."""
    found = []
    for name in names:
        j = table.columns.index(name)
        if (values[holes[:, j], j] < floors(table.values[:, [j]])).any():
            found.append(name)
    return found


def floors(values: _Rows) -> Float64[np.ndarray, " D"]:
    """The lower limit of each column: 0 if none of 5 or more known values is below 0.

    Example:
        >>> floors(np.array([[1.0, -1.0]] * 5)).tolist()
        [0.0, -inf]
    """
    known = (~np.isnan(values)).sum(axis=0) >= FEWEST_KNOWN
    return np.where(known & ~(values < 0).any(axis=0), 0.0, -np.inf)


def has_zeros(table: Table, name: str) -> bool:
    """Whether a column is cut off at 0: a share of its cells is 0."""
    known = table.values[:, table.columns.index(name)]
    return bool((known == 0).sum() >= _ZEROS * (~np.isnan(known)).sum())


def on_log_scale(
    build: Callable[[int], TableModel], table: Table, names: Sequence[str], seed: int
) -> list[str]:
    """The columns whose held-out cells are more probable on a log scale than above a bound at 0.

    Two models are fitted to four fifths of the rows; each known cell of the others is scored given its row.
    """
    skewed = []
    for name in names:
        known = table.values[:, table.columns.index(name)]
        known = known[~np.isnan(known)]
        if known.min() > 0 and skew(known) > SKEWED:
            skewed.append(name)
    if not skewed or len(table) < 2 * FEWEST_KNOWN:
        return []
    train, test = table.split(_TEST_FRACTION, seed)
    bent, bent_train, bent_test = (logged(rows, skewed) for rows in (table, train, test))
    models = [
        fit_table(build, rows, of_fit, empty_rows=True)[0]
        for rows, of_fit in ((table, train), (bent, bent_train))
    ]
    chosen = []
    for name in skewed:
        if any(name not in (model.columns or ()) for model in models):
            continue
        known = np.flatnonzero(~np.isnan(test.values[:, test.columns.index(name)]))
        x = test.values[known, test.columns.index(name)]
        bounded, log = (
            _hidden(model, rows.take(known), name)
            for model, rows in zip(models, (test, bent_test), strict=True)
        )
        of_bound = _log_normal(x, bounded) - log_ndtr(bounded.mean / bounded.sd)
        of_log = _log_normal(np.log(x), log) - np.log(x)
        if len(known) and of_log.mean() > of_bound.mean():
            chosen.append(name)
    return chosen


def logged(table: Table, names: Sequence[str]) -> Table:
    """The table with the logarithms of some columns."""
    values = table.values.copy()
    for name in names:
        j = table.columns.index(name)
        values[:, j] = np.log(values[:, j])
    return replace(table, values=values)


def unlogged(moments: Moments) -> Moments:
    """Moments of exp(x) of a normal x: exp(m + s²/2), and its standard deviation.

    Example:
        >>> unlogged(Moments(np.array([0.0]), np.array([1.0]))).mean.round(4).tolist()
        [1.6487]
    """
    mean = np.exp(moments.mean + moments.sd**2 / 2)
    return Moments(mean, mean * np.sqrt(np.expm1(moments.sd**2)))


def _hidden(model: TableModel, rows: Table, name: str) -> Moments:
    """A model's expectation of a column given the rest of each row."""
    columns = model.columns or []
    values, j = rows.select(columns).values.copy(), columns.index(name)
    values[:, j] = np.nan
    filled = model.impute(values)
    return Moments(filled.values[:, j], np.sqrt(np.maximum(filled.variance[:, j], 1e-300)))


def _log_normal(x: _Column, moments: Moments) -> _Column:
    """log N(x; m, s²)."""
    return -0.5 * ((x - moments.mean) / moments.sd) ** 2 - np.log(moments.sd) - 0.5 * np.log(2 * np.pi)


def as_the_column(known: Float64[np.ndarray, " k"], filled: _Column) -> tuple[_Column, bool]:
    """Filled values rounded to the column's decimals, or to the nearest of few whole numbers.

    Returns:
        The values, and whether they are values that exist.

    Example:
        >>> as_the_column(np.array([4.0, 6, 8] * 9), np.array([5.2, 9.0]))[0].tolist()
        [6.0, 8.0]
    """
    decimals, values = decimals_of(known), np.unique(known)
    if decimals is None or len(known) < FEWEST_KNOWN:
        return filled, False
    if decimals == 0 and len(values) <= _FEW_VALUES and len(known) >= _CELLS_EACH * len(values):
        place = np.clip(np.searchsorted(values, filled), 1, len(values) - 1) if len(values) > 1 else 0
        if len(values) == 1:
            return np.full_like(filled, values[0]), True
        low, high = values[place - 1], values[place]
        return np.where(filled - low < high - filled, low, high), True
    return np.round(filled, decimals), False


def note_on_bounds(bounded: Sequence[str], cut: Sequence[str], logs: Sequence[str]) -> list[str]:
    """Notes on columns that are not filled below 0."""
    notes = []
    for names, how in (
        (bounded, "filled above 0 as no value is below"),
        (cut, "filled from 0 on as no value is below, and some are 0"),
        (logs, "filled on a log scale, on which held-out cells are more probable than above a bound at 0"),
    ):
        if names:
            notes.append(f"range kept: {some_of(list(names))} {'is' if len(names) == 1 else 'are'} {how}")
    return notes
