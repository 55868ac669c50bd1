"""Rows with missing values in standard units, with equal patterns of missing values taken together."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.models.gaussian.maximum_likelihood import Table, Vector


class MissingRows(NamedTuple):
    """What a Gaussian likelihood has to know about rows with missing values.

    The rows of a pattern enter it only through the Gram matrix of [1, x]. If they are more than D + 1,
    the triangular factor of a QR decomposition, which has the same Gram matrix, stands for them.

    Attributes:
        shift: shape (D,); the mean of the observed values of each column.
        scale: shape (D,); their standard deviation, 1 for a constant column.
        seen: shape (P, D); 1 where a value is observed, for each pattern.
        n_rows: shape (P,); the rows of each pattern.
        pattern_of: shape (R,); the pattern of each of the kept rows, in ascending order.
        weight: shape (R,); what stands for 1 in the kept rows.
        values: shape (R, D); the kept rows of (x - shift) / scale, 0 where missing.
    """

    shift: Vector
    scale: Vector
    seen: Float64[np.ndarray, "P D"]
    n_rows: Float64[np.ndarray, " P"]
    pattern_of: Int64[np.ndarray, " R"]
    weight: Float64[np.ndarray, " R"]
    values: Float64[np.ndarray, "R D"]

    @property
    def total(self) -> float:
        """The number of rows."""
        return float(self.n_rows.sum())

    @property
    def n_seen(self) -> Vector:
        """The number of observed values in each column, shape (D,)."""
        return self.n_rows @ self.seen

    def centred(self, mean: Vector) -> Float64[np.ndarray, "R D"]:
        """The kept rows minus a mean, 0 where missing."""
        return (self.values - self.weight[:, None] * mean) * self.seen[self.pattern_of]


def gather_rows(table: Table) -> MissingRows:
    """Bring a table into standard units, and its rows into patterns.

    Args:
        table: shape (N, D), NaN where a value is missing; every column has a value.

    Example:
        >>> rows = gather_rows(np.array([[1.0, 2.0], [3.0, np.nan], [5.0, np.nan], [3.0, 4.0]]))
        >>> rows.seen.tolist(), rows.n_rows.tolist(), rows.shift.tolist()
        ([[1.0, 0.0], [1.0, 1.0]], [2.0, 2.0], [3.0, 3.0])
    """
    observed = ~np.isnan(table)
    shift, scale = np.nanmean(table, axis=0), np.nanstd(table, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    values = np.where(observed, (table - shift) / scale, 0.0)
    patterns, which, counts = np.unique(observed, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(which.ravel(), kind="stable")
    with_one = np.column_stack([np.ones(len(table)), values])[order]
    groups = np.split(with_one, np.cumsum(counts)[:-1])
    kept = [np.linalg.qr(group, mode="r") if len(group) > group.shape[1] else group for group in groups]
    rows = np.concatenate(kept)
    pattern_of = np.repeat(np.arange(len(kept)), [len(group) for group in kept])
    n_rows = counts.astype(np.float64)
    return MissingRows(shift, scale, patterns.astype(np.float64), n_rows, pattern_of, rows[:, 0], rows[:, 1:])
