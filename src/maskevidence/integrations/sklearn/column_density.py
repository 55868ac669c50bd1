"""The density of one column given the others: a table as features, and a regressor or classifier of these."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.errors import import_extra
from maskevidence.integrations.sklearn.base import PURPOSE, checked_table
from maskevidence.integrations.sklearn.categories import chosen_columns
from maskevidence.tokens import without_mask

_base = import_extra("sklearn.base", "sklearn", PURPOSE)
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
        """
        if self.categorical is None:
            self.encoder, self.is_category = None, np.zeros(np.shape(X)[-1], dtype=bool)
            return checked_table(estimator, X, reset=reset)
        X = without_mask(X)
        _validation.validate_data(estimator, X, reset=reset, skip_check_array=True)
        raw = np.asarray(X, dtype=object)
        if reset:
            names = list(getattr(estimator, "feature_names_in_", []))
            self.is_category = chosen_columns(self.categorical, raw, names)
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
            categories = [
                [c for c in values if c is not None and c == c] for values in self.encoder.categories_
            ]
            counts[self.is_category] = [len(values) for values in categories]
        return counts.tolist()


def features_of(
    table: Float64[np.ndarray, "n D"],
    visible: Bool[np.ndarray, "n D"],
    target: int,
    n_categories: list[int],
    *,
    takes_nan: bool,
    centre: Float64[np.ndarray, " D"],
) -> Float64[np.ndarray, "n F"]:
    """The features of a regressor of one column: the visible values of the other columns.

    A category is one-hot, and absent if all its columns are 0. A number that is absent is NaN for regressors
    that take it; for others it is the mean of its column, with an indicator column.

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


FLOORS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)  # shares of the marginal that are tried
_SMALLEST_VARIANCE = 1e-6  # as a share of the column's
_PRIOR_COUNT = 10.0  # values that the variance over all numbers of visible tokens counts as


class Examples(NamedTuple):
    """The training examples of a column density: one row per observed value and mask."""

    features: Float64[np.ndarray, "n F"]
    target: Float64[np.ndarray, " n"]  # numbers, or codes of categories
    n_visible: Int64[np.ndarray, " n"]  # how many other tokens are visible
    n_others: int  # how many there are
    fold: Int64[np.ndarray, " n"]  # the fold of the row, the same for all of its masks


class ColumnDensity(ABC):
    """The density of one column given the others, fitted to all rows, and per fold to the rows outside it."""

    def __init__(self, estimator: Any, examples: Examples) -> None:
        held_out = np.empty((len(examples.target), *self._width(examples)))
        for fold in np.unique(examples.fold):
            out = examples.fold == fold
            part = _base.clone(estimator).fit(examples.features[~out], self._labels(examples.target[~out]))
            held_out[out] = self._predict(part, examples.features[out])
        self.fitted = _base.clone(estimator).fit(examples.features, self._labels(examples.target))
        self._calibrate(examples, held_out)

    @abstractmethod
    def log_density(
        self,
        features: Float64[np.ndarray, "n F"],
        target: Float64[np.ndarray, " n"],
        n_visible: Int64[np.ndarray, " n"],
    ) -> Float64[np.ndarray, " n"]:
        """log p of each value, nats."""

    @abstractmethod
    def _width(self, examples: Examples) -> tuple[int, ...]:
        """The shape of one prediction."""

    @abstractmethod
    def _labels(self, target: Float64[np.ndarray, " n"]) -> Any:
        """The targets as the estimator takes them."""

    @abstractmethod
    def _predict(self, fitted: Any, features: Float64[np.ndarray, "n F"]) -> Any:
        """Predictions of a fitted estimator."""

    @abstractmethod
    def _calibrate(self, examples: Examples, held_out: Any) -> None:
        """Learn the spread of the errors from predictions of held-out rows."""


class NumberDensity(ColumnDensity):
    """N(regression, v): a variance for every number of visible tokens, from cross-fitted residuals.

    The variance with r visible tokens is (Σ e² + 10 v) / (n + 10) over the n residuals e with r visible
    tokens, where v is their mean square over all numbers; at least a millionth of the column's variance.
    """

    def log_density(
        self,
        features: Float64[np.ndarray, "n F"],
        target: Float64[np.ndarray, " n"],
        n_visible: Int64[np.ndarray, " n"],
    ) -> Float64[np.ndarray, " n"]:
        mean, variance = self.moments(features, n_visible)
        return -0.5 * (np.log(2 * np.pi * variance) + (target - mean) ** 2 / variance)

    def moments(
        self, features: Float64[np.ndarray, "n F"], n_visible: Int64[np.ndarray, " n"]
    ) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
        """Mean and variance of each value."""
        return self._predict(self.fitted, features), self.variance[n_visible]

    def _width(self, examples: Examples) -> tuple[int, ...]:
        return ()

    def _labels(self, target: Float64[np.ndarray, " n"]) -> Any:
        return target

    def _predict(self, fitted: Any, features: Float64[np.ndarray, "n F"]) -> Float64[np.ndarray, " n"]:
        return np.asarray(fitted.predict(features), dtype=np.float64).reshape(len(features))

    def _calibrate(self, examples: Examples, held_out: Float64[np.ndarray, " n"]) -> None:
        square = (examples.target - held_out) ** 2
        smallest = _SMALLEST_VARIANCE * examples.target.var()
        largest = examples.n_others + 1
        count = np.bincount(examples.n_visible, minlength=largest)
        total = np.bincount(examples.n_visible, weights=square, minlength=largest)
        variance = (total + _PRIOR_COUNT * square.mean()) / (count + _PRIOR_COUNT)
        self.variance = np.maximum(variance, smallest)


class CategoryDensity(ColumnDensity):
    """(1 - ε) predict_proba + ε marginal, so that no category has probability 0; ε by cross-fitting.

    The marginal counts each category once more than it was seen.
    """

    def __init__(self, estimator: Any, examples: Examples, n_categories: int) -> None:
        self.n_categories = n_categories
        super().__init__(estimator, examples)

    def log_density(
        self,
        features: Float64[np.ndarray, "n F"],
        target: Float64[np.ndarray, " n"],
        n_visible: Int64[np.ndarray, " n"],
    ) -> Float64[np.ndarray, " n"]:
        probability = self._predict(self.fitted, features)
        return self._log_mixed(probability, target.astype(int), self.floor)

    def _width(self, examples: Examples) -> tuple[int, ...]:
        return (self.n_categories,)

    def _labels(self, target: Float64[np.ndarray, " n"]) -> Any:
        return target.astype(int)

    def _predict(self, fitted: Any, features: Float64[np.ndarray, "n F"]) -> Float64[np.ndarray, "n V"]:
        probability = np.zeros((len(features), self.n_categories))
        probability[:, fitted.classes_] = fitted.predict_proba(features)
        return probability

    def _calibrate(self, examples: Examples, held_out: Float64[np.ndarray, "n V"]) -> None:
        codes = examples.target.astype(int)
        counts = np.bincount(codes, minlength=self.n_categories) + 1.0
        self.marginal = counts / counts.sum()
        self.floor = max(FLOORS, key=lambda floor: self._log_mixed(held_out, codes, floor).mean())

    def _log_mixed(
        self, probability: Float64[np.ndarray, "n V"], codes: Int64[np.ndarray, " n"], floor: float
    ) -> Float64[np.ndarray, " n"]:
        chosen = probability[np.arange(len(codes)), codes]
        return np.log((1.0 - floor) * chosen + floor * self.marginal[codes])


def folds_of_rows(
    n_rows: int, n_folds: int, rng: np.random.Generator, observed: Bool[np.ndarray, " N"]
) -> Int64[np.ndarray, " N"]:
    """A fold for each row, as equal as possible among the rows where a column is observed."""
    fold = np.zeros(n_rows, dtype=np.int64)
    rows = rng.permutation(np.flatnonzero(observed))
    fold[rows] = np.arange(len(rows)) % min(n_folds, len(rows))
    return fold
