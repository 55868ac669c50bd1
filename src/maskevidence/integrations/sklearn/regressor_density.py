"""Regressors and classifiers of scikit-learn as masked models."""

from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from maskevidence import EvidenceEstimate, Imputation, MaskDesign, Tokens
from maskevidence.errors import InputError, import_extra
from maskevidence.integrations.sklearn.base import PURPOSE, evidence_of_rows, seed_from, with_values
from maskevidence.integrations.sklearn.column_density import (
    CategoryDensity,
    ColumnCodes,
    ColumnDensity,
    Examples,
    NumberDensity,
    features_of,
    folds_of_rows,
)
from maskevidence.model import DENSITY, MASS, Conditionals

_base = import_extra("sklearn.base", "sklearn", PURPOSE)
_ensemble = import_extra("sklearn.ensemble", "sklearn", PURPOSE)
_utils = import_extra("sklearn.utils", "sklearn", PURPOSE)
_validation = import_extra("sklearn.utils.validation", "sklearn", PURPOSE)


class MaskedRegressorDensity(_base.DensityMixin, _base.BaseEstimator):  # type: ignore[misc, name-defined]
    """Any regressor, and any classifier, as a masked model: one density per column given the visible ones.

    For each column, an estimator learns to predict it from the visible values of the others, under masks that
    hide every number of them equally often. A number has a normal density around the regression, whose
    variance for each number of visible values comes from cross-fitted residuals; a category has
    `predict_proba`, mixed with its marginal by a share that cross-fitting chooses. Hidden and missing values
    are absent: NaN for estimators that take it, otherwise the mean of the column with an indicator.

    No joint density stands behind these conditionals, so that the area under the curve is a lower bound (of
    the log evidence of the mixture over orders), and regressors can be compared by it. The fitted estimator
    is itself a `MaskedModel`: it can be given to `maskevidence.estimate_evidence`.

    Args:
        estimator: a regressor for columns of numbers; by default `HistGradientBoostingRegressor()`.
        classifier: a classifier for columns of categories; by default `HistGradientBoostingClassifier()`.
        categorical_features: positions, names or a boolean mask of the columns of categories.
        n_masks: masks of every row that the estimators learn from.
        cv: the number of folds of the cross-fitting.
        random_state: of the masks and the folds, and of the default estimators.

    Attributes:
        columns_: the fitted density of each column.
        n_features_in_: D.
        feature_names_in_: the names of the columns, if they have names.

    Example:
        >>> from sklearn.linear_model import LinearRegression
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(100, 1)) + 0.3 * rng.normal(size=(100, 3))
        >>> density = MaskedRegressorDensity(LinearRegression(), random_state=0).fit(x)
        >>> estimate = density.evidence(x)
        >>> estimate.kind
        'lower_bound'
    """

    conditionals: Conditionals = "learned"

    def __init__(
        self,
        estimator: Any = None,
        *,
        classifier: Any = None,
        categorical_features: Any = None,
        n_masks: int = 4,
        cv: int = 5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.classifier = classifier
        self.categorical_features = categorical_features
        self.n_masks = n_masks
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "MaskedRegressorDensity":
        """Fit the estimators of all columns, each to all rows and to those outside of every fold.

        Args:
            X: shape (N, D), NaN where a value is missing.
            y: not used, as in all of scikit-learn's density estimators.

        Raises:
            ValueError: a table that cannot be fitted, such as one with a column that does not vary.
        """
        _utils.check_scalar(self.n_masks, "n_masks", int, min_val=1)
        _utils.check_scalar(self.cv, "cv", int, min_val=2)
        self._codes = ColumnCodes(self.categorical_features)
        table = self._codes.read(self, X, reset=True)
        table = table[with_values(table)]
        self._check_columns(table)
        seed = seed_from(self.random_state)
        rng = np.random.default_rng(seed)
        self._categories = self._codes.n_categories()
        self._centre = np.nanmean(table, axis=0)
        repeated = np.repeat(table, self.n_masks, axis=0)
        visible = ~np.isnan(repeated) & (rng.random(repeated.shape) >= self._hidden_shares(len(table), rng))
        regressor, classifier = self.estimator, self.classifier
        if regressor is None:
            regressor = _ensemble.HistGradientBoostingRegressor(random_state=seed)
        if classifier is None:
            classifier = _ensemble.HistGradientBoostingClassifier(random_state=seed)
        self._takes_nan = {
            kind: _utils.get_tags(predictor).input_tags.allow_nan
            for kind, predictor in ((False, regressor), (True, classifier))
        }
        self.columns_: list[ColumnDensity] = []
        for column, n_categories in enumerate(self._categories):
            observed = ~np.isnan(repeated[:, column])
            fold = folds_of_rows(len(table), self.cv, rng, ~np.isnan(table[:, column]))
            examples = Examples(
                self._features(repeated[observed], visible[observed], column),
                repeated[observed, column],
                self._n_visible(visible[observed], column),
                table.shape[1] - 1,
                np.repeat(fold, self.n_masks)[observed],
            )
            if n_categories:
                self.columns_.append(CategoryDensity(classifier, examples, n_categories))
            else:
                self.columns_.append(NumberDensity(regressor, examples))
        return self

    @property
    def base_measure(self) -> str:
        """The base measure of the log-probabilities; see `MaskedModel`."""
        categories = getattr(self, "_categories", [0])
        if not any(categories):
            return DENSITY
        n_masses = sum(map(bool, categories))
        return MASS if all(categories) else f"{DENSITY} of numbers, mass of each of {n_masses} categories"

    def tokens(self, data: Any) -> Tokens:
        """Rows as tokens: numbers, and the codes of categories.

        Args:
            data: shape (N, D), NaN where a value is missing.
        """
        return Tokens.from_array(self._table(data))

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False."""
        table, hidden = tokens.values.double().cpu().numpy(), masked.cpu().numpy()
        visible = tokens.visible(masked).cpu().numpy()
        result = np.zeros(table.shape)
        for column, density in enumerate(self.columns_):
            rows = np.flatnonzero(hidden[:, column])
            if len(rows):
                features = self._features(table[rows], visible[rows], column)
                n_visible = self._n_visible(visible[rows], column)
                result[rows, column] = density.log_density(features, table[rows, column], n_visible)
        return torch.from_numpy(result).to(tokens.values.device)

    def evidence(self, X: Any, design: MaskDesign | None = None, *, seed: int = 0) -> EvidenceEstimate:
        """Estimate the lower bound of the log evidence of rows: the area under the curve (Eq. 2).

        Rows without an observed value are left out, and a note says so.

        Args:
            X: shape (N, D), NaN where a value is missing.
            design: how masks are drawn; by default `EverySize(masks_per_size=4)`.
            seed: seed of the masks.
        """
        return evidence_of_rows(self, X, self._table(X), Tokens.from_array, design, seed)

    def score(self, X: Any, y: Any = None) -> float:
        """The log evidence that `evidence` estimates with its defaults, nats per row."""
        return self.evidence(X).log_evidence

    def impute(self, X: Any) -> Imputation:
        """Mean and variance of every missing value given the observed values of its row.

        Args:
            X: shape (N, D), NaN where a value is missing; numbers alone.

        Raises:
            InputError: a table with categories, which have no mean.
        """
        table = self._table(X)
        if any(self._categories):
            raise InputError("categories have no mean and variance; impute tables of numbers alone")
        missing = np.isnan(table)
        values, variance = table.copy(), np.zeros_like(table)
        for column, density in enumerate(self.columns_):
            rows = np.flatnonzero(missing[:, column])
            if len(rows):
                assert isinstance(density, NumberDensity)
                features = self._features(table[rows], ~missing[rows], column)
                n_visible = self._n_visible(~missing[rows], column)
                values[rows, column], variance[rows, column] = density.moments(features, n_visible)
        return Imputation(values, variance)

    def _table(self, X: Any) -> Float64[np.ndarray, "N D"]:
        _validation.check_is_fitted(self, "columns_")
        return self._codes.read(self, X, reset=False)

    def _features(
        self, table: Float64[np.ndarray, "n D"], visible: Bool[np.ndarray, "n D"], column: int
    ) -> Float64[np.ndarray, "n F"]:
        takes_nan = self._takes_nan[self._categories[column] > 0]
        return features_of(table, visible, column, self._categories, takes_nan=takes_nan, centre=self._centre)

    def _n_visible(self, visible: Bool[np.ndarray, "n D"], column: int) -> Int64[np.ndarray, " n"]:
        return visible.sum(1) - visible[:, column]

    def _hidden_shares(self, n_rows: int, rng: np.random.Generator) -> Float64[np.ndarray, "n 1"]:
        """The share of the values to hide in every mask of every row, spread evenly over its masks.

        If u is uniform on [0, 1) and each value is hidden with probability u, every number of hidden values
        is equally probable.
        """
        start = rng.random((n_rows, 1))
        return (((np.arange(self.n_masks) + start) / self.n_masks).reshape(-1, 1)).astype(np.float64)

    def _check_columns(self, table: Float64[np.ndarray, "N D"]) -> None:
        for column in range(table.shape[1]):
            values = table[~np.isnan(table[:, column]), column]
            if len(values) < 2 or values.min() == values.max():
                names = list(getattr(self, "feature_names_in_", [f"x{j}" for j in range(table.shape[1])]))
                raise ValueError(
                    f"{type(self).__name__} needs two different values of every feature; "
                    f"{str(names[column])!r} has n_samples={len(values)} with a single value. Leave it out."
                )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = self.categorical_features is not None
        return tags
