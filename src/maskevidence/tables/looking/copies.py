"""Columns that repeat one another, whose holes their copies fill exactly."""

import numpy as np
from jaxtyping import Float64

from maskevidence.core.table import Table

_SURE = 14.0  # nats by which equal cells are no chance


def with_copies(
    table: Table, filled: Float64[np.ndarray, "N D"], deviation: Float64[np.ndarray, "N D"]
) -> dict[str, str]:
    """Fill the holes of columns by their copies, in place, with error 0; which column is whose copy.

    Cells are equal in all rows that have both, and chance makes them so with probability below exp(-14).

    Example:
        >>> values = np.repeat(np.arange(8.0), 4)[:, None] * [1.0, 1.0]
        >>> values[5, 1] = np.nan
        >>> filled = np.where(np.isnan(values), 9.0, values)
        >>> with_copies(Table("t", values, ("a", "b"), np.arange(32)), filled, np.ones((32, 2)))
        {'b': 'a'}
        >>> filled[5, 1].item()
        1.0
    """
    values, found = _in_one_code(table), dict[str, str]()
    holes, in_words = np.isnan(values), np.array([name in table.levels for name in table.columns])
    for j in np.flatnonzero(holes.any(axis=0)).tolist():
        both = ~holes & ~holes[:, [j]]
        equal = (~both | (values == values[:, [j]])).all(axis=0) & (in_words == in_words[j])
        known, n = np.unique(values[~holes[:, j], j], return_counts=True)
        surprise = -np.log(np.sum((n / n.sum()) ** 2)) * both.sum(axis=0)
        for k in np.flatnonzero(equal & (surprise > _SURE)).tolist():
            rows = holes[:, j] & np.isin(values[:, k], known if in_words[j] else values[~holes[:, k], k])
            if not rows.any():
                continue
            words = {word: code for code, word in enumerate(table.levels.get(table.columns[j], ()))}
            others = table.levels.get(table.columns[k], ())
            new = table.values[rows, k]
            filled[rows, j] = [words[others[int(code)]] for code in new] if in_words[j] else new
            deviation[rows, j] = float(in_words[j])  # of words it is their probability
            found[table.columns[j]] = table.columns[k]
    return found


def _in_one_code(table: Table) -> Float64[np.ndarray, "N D"]:
    """The values of a table where equal words of several columns have the same code."""
    values, codes = table.values.copy(), dict[str, float]()
    for name, words in table.levels.items():
        j = table.columns.index(name)
        known = ~np.isnan(values[:, j])
        of_column = np.array([codes.setdefault(word, float(len(codes))) for word in words])
        values[known, j] = of_column[values[known, j].astype(int)]
    return values
