"""Which rows and columns of a table say something, and the spread of its columns."""

import numpy as np
from jaxtyping import Bool, Float64


def spreads(table: Float64[np.ndarray, "N D"]) -> Float64[np.ndarray, " D"]:
    """Standard deviation of each column's observed values; exactly 0 if they are all equal.

    That of equal numbers is often a rounding error above 0. NaN where a column has no value.

    Example:
        >>> x = np.array([[0.1, 1.0], [0.1, np.nan], [0.1, 3.0]])
        >>> spreads(x).tolist(), bool(x[:, 0].std() > 0)
        ([0.0, 1.0], True)
    """
    return np.where(np.nanmin(table, axis=0) == np.nanmax(table, axis=0), 0.0, np.nanstd(table, axis=0))


def varies(table: Float64[np.ndarray, "N D"]) -> Bool[np.ndarray, " D"]:
    """Which columns have at least two different observed values.

    Example:
        >>> varies(np.array([[0.1, 1.0, np.nan], [0.1, np.nan, np.nan], [0.1, 3.0, np.nan]])).tolist()
        [False, True, False]
    """
    seen = ~np.isnan(table)
    return np.where(seen, table, np.inf).min(axis=0) < np.where(seen, table, -np.inf).max(axis=0)


def with_values(table: Float64[np.ndarray, "N D"]) -> Bool[np.ndarray, " N"]:
    """Which rows have at least one observed value.

    Example:
        >>> with_values(np.array([[np.nan, 1.0], [np.nan, np.nan]])).tolist()
        [True, False]
    """
    return ~np.isnan(table).all(axis=1)
