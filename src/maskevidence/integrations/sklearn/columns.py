"""Tables with numbers and categories: as tokens, and as features in which hidden values are absent."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.errors import import_extra
from maskevidence.integrations.sklearn.base import PURPOSE, checked_table
from maskevidence.tokens import without_mask

_preprocessing = import_extra("sklearn.preprocessing", "sklearn", PURPOSE)
_validation = import_extra("sklearn.utils.validation", "sklearn", PURPOSE)


class ColumnCodes:
    """Reads tables of one layout: numbers as they are, categories as their codes 0, 1, ...; NaN is missing.

    Args:
        categorical: positions, names or a mask of the columns that hold categories; None if there are none.
    """

    def __init__(self, categorical: Any) -> None:
        self.categorical = categorical

    def read(self, estimator: Any, X: Any, *, reset: bool) -> Float64[np.ndarray, "N D"]:
        """A table in float64, checked as scikit-learn checks it.

        Args:
            estimator: whose `n_features_in_` and `feature_names_in_` are set or compared.
            X: shape (N, D).
            reset: True in `fit`: names and categories are learned.

        Raises:
            ValueError: a table that cannot be used, or a category that was not there in `fit`.
        """
        if self.categorical is None:
            self.encoder, self.is_category = None, np.zeros(np.shape(X)[-1], dtype=bool)
            return checked_table(estimator, X, reset=reset)
        X = without_mask(X)
        _validation.validate_data(estimator, X, reset=reset, skip_check_array=True)
        raw = np.asarray(X, dtype=object)
        if reset:
            self.is_category = self._positions(estimator, raw.shape[1])
            self.encoder = None
            if self.is_category.any():
                self.encoder = _preprocessing.OrdinalEncoder(encoded_missing_value=np.nan)
                self.encoder.fit(raw[:, self.is_category])
        codes = np.empty(raw.shape)
        if self.encoder is not None:
            codes[:, self.is_category] = self.encoder.transform(raw[:, self.is_category])
        codes[:, ~self.is_category] = raw[:, ~self.is_category].astype(np.float64)
        return checked_table(estimator, codes, reset=reset, named=False)

    def n_categories(self) -> list[int]:
        """The number of categories of each column, 0 for numbers."""
        counts = np.zeros(len(self.is_category), dtype=int)
        if self.encoder is not None:
            known = [[c for c in each if c is not None and c == c] for each in self.encoder.categories_]
            counts[self.is_category] = [len(each) for each in known]
        return counts.tolist()

    def _positions(self, estimator: Any, width: int) -> Bool[np.ndarray, " D"]:
        """The mask of the columns of categories, given as scikit-learn's estimators take it."""
        given = np.atleast_1d(self.categorical)
        chosen = np.zeros(width, dtype=bool)
        if given.size == 0:
            return chosen
        if given.dtype.kind == "b":
            if given.shape != (width,):
                raise ValueError(
                    f"categorical_features set as a boolean mask should have shape ({width},), got: "
                    f"{given.shape}"
                )
            chosen = given
        elif given.dtype.kind in "iu":
            if given.min() < 0 or given.max() >= width:
                raise ValueError(
                    "categorical_features set as integer indices must be in [0, n_features - 1]; there are "
                    f"{width} features, got: {given.tolist()}"
                )
            chosen[given] = True
        elif all(isinstance(name, str) for name in given.flat):
            names = list(getattr(estimator, "feature_names_in_", []))
            for name in given.flat:
                if name not in names:
                    raise ValueError(f"A given column is not a column of the dataframe: {str(name)!r}")
                chosen[names.index(name)] = True
        else:
            raise ValueError(
                f"categorical_features must be an array-like of bool, int or str, got: {given.dtype}"
            )
        return chosen


def features_of(
    table: Float64[np.ndarray, "n D"],
    visible: Bool[np.ndarray, "n D"],
    target: int,
    n_categories: list[int],
    *,
    takes_nan: bool,
    centre: Float64[np.ndarray, " D"],
) -> Float64[np.ndarray, "n F"]:
    """What a regressor of one column sees of each row: the visible values of the other columns.

    A category is one-hot, and absent if all its columns are 0. A number that is absent is NaN for regressors
    that take it; for others it is the mean of its column, with a further column that says so.

    Args:
        table: shape (n, D); numbers and codes.
        visible: shape (n, D); entries that are not visible are not read.
        target: the column to predict, which is left out.
        n_categories: for each column, 0 for numbers.
        takes_nan: whether the regressor takes NaN.
        centre: shape (D,); the means of the columns.

    Example:
        >>> x = np.array([[5.0, 1.0, 7.0]])
        >>> features_of(x, x > 5, 0, [0, 2, 0], takes_nan=True, centre=np.zeros(3)).tolist()
        [[0.0, 0.0, 7.0]]
        >>> features_of(x, x < 2, 0, [0, 2, 0], takes_nan=False, centre=np.full(3, 4.0)).tolist()
        [[0.0, 1.0, 4.0, 1.0]]
    """
    blocks = []
    for column, count in enumerate(n_categories):
        there = visible[:, column]
        if column == target:
            continue
        if count:
            codes = np.where(there, table[:, column], -1.0)
            blocks.append((codes[:, None] == np.arange(count)).astype(np.float64))
        elif takes_nan:
            blocks.append(np.where(there, table[:, column], np.nan)[:, None])
        else:
            blocks.append(np.column_stack([np.where(there, table[:, column], centre[column]), ~there]))
    return np.concatenate(blocks, axis=1) if blocks else np.zeros((len(table), 1))
