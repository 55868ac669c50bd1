"""Columns that another one determines, whose holes it fills exactly."""

from collections import Counter
from collections.abc import Callable, Collection
from itertools import permutations
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.core.support.checks import typed
from maskevidence.core.table import Table
from maskevidence.tables.reading.description import Finding
from maskevidence.tables.reading.numbers import decimals_of

_SURE = 14.0  # nats by which it is no chance
_FIRST_ROWS = 2000  # in which most pairs of columns fail
_REPEATED = 4  # times that values occur on average
_MOST_COLUMNS = 100
_FEWEST, _NEAR = 5, 0.02  # values of a line, and rounding errors in standard deviations at most

Values = Float64[np.ndarray, " N"]


class Rule(NamedTuple):
    """How a column follows from another.

    Attributes:
        value: of the column from those of the other; NaN where the rule does not say it.
        error: of such a value.
        words: the rule.
    """

    value: Callable[[Values], Values]
    error: float
    words: str


Rules = dict[tuple[str, str], Rule]


def rules_of(table: Table) -> Rules:
    """How a column follows from another one, by the names of both.

    Equal values of the other column go with equal ones, which chance makes with probability below exp(-14),
    or the values are on a line, up to their rounding.
    """
    if len(table.columns) > _MOST_COLUMNS:
        return {}
    rules, some = Rules(), table.values[:_FIRST_ROWS].T
    known = [x[~np.isnan(x)] for x in table.values.T]
    repeated = [_REPEATED * len(np.unique(x)) <= len(x) for x in known]
    for j, k in permutations(range(len(known)), 2):
        x, y, rule = table.values[:, k], table.values[:, j], None
        if (repeated[k] or _equal_words(table, j, k)) and _mapping(some[k], some[j], -np.inf):
            rule = _mapping(x, y)
        if rule is None and not {*table.levels} & {table.columns[j], table.columns[k]}:
            rule = _line(some[k], some[j]) and _line(x, y)
        if rule is not None:
            rules[table.columns[j], table.columns[k]] = rule
    return rules


def _equal_words(table: Table, j: int, k: int) -> bool:
    """Whether two columns hold the same words."""
    levels = [table.levels.get(table.columns[place]) for place in (j, k)]
    both = ~np.isnan(table.values[:, [j, k]]).any(axis=1)
    if None in levels or not both.any():
        return False
    columns = zip(levels, table.values[both][:, [j, k]].T.astype(int), strict=True)
    one, other = (np.array(words, dtype=object)[codes] for words, codes in columns)
    return bool((one == other).all())


def _mapping(x: Values, y: Values, sure: float = _SURE) -> Rule | None:
    """The rule that a value of one column goes with one of the other."""
    both = ~np.isnan(x) & ~np.isnan(y)
    known, codes = np.unique(x[both], return_inverse=True)
    different, n = np.unique(y[both], return_counts=True)
    value = np.zeros(len(known))
    value[codes] = y[both]
    surprise = -np.log(np.sum((n / max(1, n.sum())) ** 2)) * (n.sum() - len(known)) if len(different) else 0.0
    if surprise < sure or (value[codes] != y[both]).any():
        return None

    def of(given: Values) -> Values:
        place = np.searchsorted(known, given).clip(max=len(known) - 1)
        return np.where(known[place] == given, value[place], np.nan)

    return Rule(of, 0.0, f"each of its {len(known):,} values goes with one here")


def _line(x: Values, y: Values) -> Rule | None:
    """The rule that the values are on a line, up to their rounding."""
    both = ~np.isnan(x) & ~np.isnan(y)
    x, y = x[both], y[both]
    few = min(len(x) // _REPEATED, len(np.unique(x))) < _FEWEST
    if few or not y.std() or abs(np.corrcoef(x, y)[0, 1]) < 1 - _NEAR**2:
        return None
    slope, start = np.polyfit(x, y, 1)
    off = np.abs(start + slope * x - y).max()
    if off < 1e-9 * y.std():
        error = 0.0
    else:
        sizes = zip((abs(slope), 1.0), map(decimals_of, (x, y)), strict=True)
        error = sum(0.5 * size * 10.0**-places for size, places in sizes if places is not None)
        if off > 1.1 * error or error > _NEAR * y.std():
            return None
    places = decimals_of(y)
    return Rule(
        lambda given: start + slope * given if places is None else np.round(start + slope * given, places),
        error,
        f"a line of it, of slope {slope:.4g}",
    )


def with_determined(
    table: Table, rules: Rules, filled: Float64[np.ndarray, "N D"], deviation: Float64[np.ndarray, "N D"]
) -> dict[str, str]:
    """Fill the holes of columns that others determine, in place; which column by which.

    Args:
        rules: of this table, or of one with further columns and rows.

    Example:
        >>> values = np.repeat(np.arange(8.0), 4)[:, None] * [1.0, 1.0]
        >>> values[5, 1] = np.nan
        >>> filled = np.where(np.isnan(values), 9.0, values)
        >>> table = Table("t", values, ("a", "b"), np.arange(32))
        >>> with_determined(table, rules_of(table), filled, np.ones((32, 2)))
        {'b': 'a'}
        >>> filled[5, 1].item()
        1.0
    """
    by, place = dict[str, str](), {name: j for j, name in enumerate(table.columns)}
    for (name, other), rule in rules.items():
        if name in by or not {name, other} <= {*place}:
            continue
        j, value = place[name], rule.value(table.values[:, place[other]])
        rows = np.isnan(table.values[:, j]) & ~np.isnan(value)
        if rows.any():
            filled[rows, j], by[name] = value[rows], other
            deviation[rows, j] = 1.0 if name in table.levels else rule.error
    return by


def determined(table: Table, rules: Rules, known: Collection[str]) -> list[Finding]:
    """Findings on columns that others determine, but on known copies; of two alike, on the later one.

    Example:
        >>> code = np.arange(60.0) % 5
        >>> table = Table("t", np.stack([code, code // 2], 1), ("zip", "city"), np.arange(60))
        >>> [(each.column, each.assumed) for each in determined(table, rules_of(table), ())]
        [('city', "follows from 'zip': each of its 5 values goes with one here")]
    """
    found, n_by = dict[str, Finding](), Counter(other for _, other in rules)
    place = {name: j for j, name in enumerate(table.columns)}
    for (name, other), rule in rules.items():
        is_of_copies = n_by[other] == len(table.columns) - 1 > 1  # equal rows have all in common
        earlier = place[name] < place[other] and (other, name) in rules
        if name in {*known, *found} or is_of_copies or earlier:
            continue
        n, note = (
            int((~np.isnan(table.values[:, place[name]])).sum()),
            f"follows from {other!r}: {rule.words}",
        )
        found[name] = Finding("determined", name, n, (), note, f"--drop {typed([name])}")
    return [*found.values()]
