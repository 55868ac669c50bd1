"""Residuals of values hidden on purpose, to calibrate error bars."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence import Imputation
from maskevidence.core.errors import import_extra
from maskevidence.core.table import varies
from maskevidence.sklearn.density_base import PURPOSE
from maskevidence.tables.folds import folds_of

_base = import_extra("sklearn.base", "sklearn", PURPOSE)

MOST_VALUES = 2000
_OWN = 50  # a column with fewer values shares the error bars of all columns


class HeldOutResiduals(NamedTuple):
    """Residuals of held-out values, each hidden and predicted from the other values in its row."""

    columns: Int64[np.ndarray, " n"]  # the columns of the values
    residuals: Float64[np.ndarray, " n"]  # (value - predicted mean) / predicted standard deviation

    def of_column(self, column: int) -> Float64[np.ndarray, " m"]:
        """The residuals of a column, or of all columns if the column has fewer than 50."""
        residuals = self.residuals[self.columns == column]
        return residuals if len(residuals) >= _OWN else self.residuals

    def spread(self, column: int) -> float:
        """The root mean squared residual, by which predicted standard deviations are multiplied."""
        return float(np.sqrt(np.mean(self.of_column(column) ** 2)))

    def bounds(self, column: int, level: float) -> tuple[float, float]:
        """Two residuals that enclose a new residual with probability at least `level`.

        With n residuals in ascending order, these are number ⌊(n + 1)(1 - level)/2⌋ from either end. The new
        residual has to be exchangeable with the others.

        Source:
            Vovk, Gammerman, Shafer (2005), Algorithmic Learning in a Random World, section 2.2 (inductive
            conformal predictors).

        Example:
            >>> residuals = HeldOutResiduals(np.zeros(99, dtype=np.int64), np.arange(-49.0, 50.0))
            >>> residuals.bounds(0, 0.9)
            (-45.0, 45.0)
        """
        ordered = np.sort(self.of_column(column))
        beyond = max(1, int((len(ordered) + 1) * (1.0 - level) / 2.0 + 1e-9))
        return float(ordered[beyond - 1]), float(ordered[-beyond])


def held_out_residuals(
    estimator: Any,
    table: Float64[np.ndarray, "N D"],
    cv: int,
    rng: np.random.Generator,
    is_category: Bool[np.ndarray, " D"] | None = None,
) -> HeldOutResiduals:
    """Cross-fitted residuals: every row is predicted by a fit to the other folds.

    Args:
        estimator: a density of this package, whose `impute` gives means and variances.
        is_category: which columns are categories, which have no residuals; by default none.
    """
    columns, residuals = [], []
    shuffles = np.random.RandomState(int(rng.integers(2**31)))
    folds = [np.sort(fold) for fold in folds_of(table, min(cv, len(table)), shuffles)]
    per_fold = -(-MOST_VALUES // len(folds))
    category = np.zeros(table.shape[1], dtype=bool) if is_category is None else is_category
    for out in folds:
        left = np.setdiff1d(np.arange(len(table)), out)
        kept = np.flatnonzero(varies(table[left]))
        fitted = clone_for(estimator, category[kept]).fit(table[np.ix_(left, kept)])
        held = hidden_residuals(fitted.impute, table[np.ix_(out, kept)], ~category[kept], per_fold, rng)
        residuals.append(held.residuals)
        columns.append(kept[held.columns])
    return HeldOutResiduals(np.concatenate(columns), np.concatenate(residuals))


def hidden_residuals(
    impute: Callable[[Float64[np.ndarray, "n D"]], Imputation],
    rows: Float64[np.ndarray, "N D"],
    numbers: Bool[np.ndarray, " D"],
    most: int,
    rng: np.random.Generator,
) -> HeldOutResiduals:
    """Hide values one at a time and predict each from the other values in its row."""
    row, column = np.nonzero(~np.isnan(rows) & numbers)
    order = rng.permutation(len(row))[:most]
    row, column = row[order], column[order]
    if not len(row):
        return HeldOutResiduals(column, np.zeros(0))
    probes, probe = rows[row].copy(), np.arange(len(row))
    truth = probes[probe, column]
    probes[probe, column] = np.nan
    predicted = impute(probes)
    residual = truth - predicted.values[probe, column]
    return HeldOutResiduals(column, residual / np.sqrt(predicted.variance[probe, column]))


def clone_for(estimator: Any, is_category: Bool[np.ndarray, " D"]) -> Any:
    """Clone an estimator for some columns; tell it the categorical columns if it has such an argument."""
    clone = _base.clone(estimator)
    if "categorical_features" in clone.get_params(deep=False):
        clone.set_params(categorical_features=is_category if is_category.any() else None)
    return clone
