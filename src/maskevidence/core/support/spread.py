"""Standard deviations of columns, used as scales."""

import numpy as np
from jaxtyping import Float64


def spreads(table: Float64[np.ndarray, "N D"]) -> Float64[np.ndarray, " D"]:
    """Standard deviation of each column's observed values; exactly 0 if they are all equal.

    That of equal numbers is often a rounding error above 0. NaN where a column has no value.

    Example:
        >>> x = np.array([[0.1, 1.0], [0.1, np.nan], [0.1, 3.0]])
        >>> spreads(x).tolist(), bool(x[:, 0].std() > 0)
        ([0.0, 1.0], True)
    """
    return np.where(np.nanmin(table, axis=0) == np.nanmax(table, axis=0), 0.0, np.nanstd(table, axis=0))
