"""Filling the missing values of a table, with error bars that hold."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.errors import InputError, import_extra
from maskevidence.imputation import Imputation
from maskevidence.integrations.sklearn.base import PURPOSE, checked_table, seed_from, with_values
from maskevidence.integrations.sklearn.kernels import KernelGaussianDensity
from maskevidence.integrations.sklearn.residuals import held_out_residuals, varies

_base = import_extra("sklearn.base", "sklearn", PURPOSE)
_validation = import_extra("sklearn.utils.validation", "sklearn", PURPOSE)


class MaskedImputer(
    _base.OneToOneFeatureMixin,  # type: ignore[misc, name-defined]
    _base.TransformerMixin,  # type: ignore[misc, name-defined]
    _base.BaseEstimator,  # type: ignore[misc, name-defined]
):
    """Fill missing values by their conditional means, with standard deviations and intervals that hold.

    A density is fitted to the rows. Values of rows that it was not fitted to are then hidden one at a time,
    each is predicted from the others of its row, and the residuals, in predicted standard deviations, say by
    how much these are too small or too large in each column and between which residuals a share of them lies.
    This assumes that values are missing as the hidden ones are: at random.

    A column that does not vary is filled by its one value. A row without any observed value is filled by the
    means of the columns under the density.

    Args:
        estimator: a density of this module; by default `KernelGaussianDensity()`, which chooses between a
            Gaussian and the rows alone by cross-validation.
        cv: the number of folds from which rows are held out.
        random_state: of the folds, the hidden values and the default estimator.

    Attributes:
        estimator_: the fitted density of the columns that vary.
        residuals_: the residuals of hidden values.
        n_features_in_: D.
        feature_names_in_: the names of the columns, if they have names.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(300, 1)) + 0.3 * rng.normal(size=(300, 3))
        >>> holes = np.where(rng.random(x.shape) < 0.2, np.nan, x)
        >>> imputer = MaskedImputer(random_state=0).fit(holes)
        >>> low, high = imputer.intervals(holes, level=0.9)
        >>> missing = np.isnan(holes)
        >>> bool(0.85 < np.mean((low <= x) & (x <= high), where=missing) < 0.95)
        True
        >>> bool(np.std((imputer.transform(holes) - x)[missing]) < 0.5)
        True
    """

    def __init__(self, estimator: Any = None, *, cv: int = 5, random_state: Any = None) -> None:
        self.estimator = estimator
        self.cv = cv
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> "MaskedImputer":
        """Fit the density, and measure how far its predictions of hidden values are off.

        Args:
            X: shape (N, D), NaN where a value is missing.
            y: not used, as in all of scikit-learn's imputers.

        Raises:
            ValueError: a table that cannot be fitted.
        """
        table = checked_table(self, X, reset=True)
        seed = seed_from(self.random_state)
        self._constant = np.where(varies(table), np.nan, np.nanmax(table, axis=0))
        rows = table[:, self._varies]
        rows = rows[with_values(rows)] if self._varies.any() else rows
        self.estimator_, self.residuals_ = None, None
        if self._varies.any():
            density = KernelGaussianDensity(random_state=seed) if self.estimator is None else self.estimator
            self.estimator_ = _base.clone(density).fit(rows)
            self.residuals_ = getattr(self.estimator_, "held_out_", None) or held_out_residuals(
                self.estimator_, rows, self.cv, np.random.default_rng(seed)
            )
        return self

    def transform(self, X: Any) -> Float64[np.ndarray, "N D"]:
        """The rows with every missing value replaced by its conditional mean, shape (N, D).

        Args:
            X: shape (N, D), NaN where a value is missing.
        """
        return self._predicted(X).values

    def impute(self, X: Any) -> Imputation:
        """The filled rows and the variance of each value that was missing, 0 where it was observed.

        Args:
            X: shape (N, D), NaN where a value is missing.
        """
        predicted = self._predicted(X)
        scale = np.ones(self.n_features_in_)
        if self.residuals_ is not None:
            scale[self._varies] = [self.residuals_.spread(j) for j in range(int(self._varies.sum()))]
        return predicted._replace(variance=predicted.variance * scale**2)

    def intervals(
        self, X: Any, level: float = 0.9
    ) -> tuple[Float64[np.ndarray, "N D"], Float64[np.ndarray, "N D"]]:
        """The ends of intervals that hold a share of the missing values; both are the value where observed.

        Args:
            X: shape (N, D), NaN where a value is missing.
            level: the share, in (0, 1).

        Raises:
            InputError: a level outside (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise InputError(f"level={level}; give a share in (0, 1), such as 0.9")
        predicted = self._predicted(X)
        low, high = np.zeros(self.n_features_in_), np.zeros(self.n_features_in_)
        if self.residuals_ is not None:
            bounds = [self.residuals_.bounds(j, level) for j in range(int(self._varies.sum()))]
            low[self._varies], high[self._varies] = np.array(bounds).T
        deviation = np.sqrt(predicted.variance)
        return predicted.values + low * deviation, predicted.values + high * deviation

    @property
    def _varies(self) -> Bool[np.ndarray, " D"]:
        return np.isnan(self._constant)

    def _predicted(self, X: Any) -> Imputation:
        """Means and variances as the density gives them."""
        _validation.check_is_fitted(self, "residuals_")
        table = checked_table(self, X, reset=False)
        values = np.where(np.isnan(table), self._constant, table)
        variance = np.zeros_like(values)
        if self.estimator_ is not None:
            filled = self.estimator_.impute(table[:, self._varies])
            values[:, self._varies], variance[:, self._varies] = filled.values, filled.variance
        names = getattr(self, "feature_names_in_", None)
        return Imputation(values, variance, None if names is None else tuple(names))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
