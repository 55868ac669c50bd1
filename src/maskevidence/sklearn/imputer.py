"""Fill the missing values of a table, with calibrated error bars."""

import math
import warnings
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import pandas
from jaxtyping import Bool, Float64, Shaped

from maskevidence import Imputation
from maskevidence.core.errors import InputError, import_extra
from maskevidence.core.table import Table, varies, with_values
from maskevidence.sklearn.densities import KernelGaussianDensity
from maskevidence.sklearn.density_base import PURPOSE, gives_frames, seed_from, with_names, words_named
from maskevidence.sklearn.network_density import Categories
from maskevidence.sklearn.residuals import clone_for, held_out_residuals
from maskevidence.tables.imputation import filled_column
from maskevidence.tables.table_files import as_missing_dates, dated_frame

_base = import_extra("sklearn.base", "sklearn", PURPOSE)
_impute = import_extra("sklearn.impute", "sklearn", PURPOSE)
_utils = import_extra("sklearn.utils", "sklearn", PURPOSE)
_validation = import_extra("sklearn.utils.validation", "sklearn", PURPOSE)


@dataclass(eq=False, repr=False)
class MaskedImputer(
    _base.OneToOneFeatureMixin,  # type: ignore[misc, name-defined]
    _base.TransformerMixin,  # type: ignore[misc, name-defined]
    _base.BaseEstimator,  # type: ignore[misc, name-defined]
):
    """Fill missing values by conditional means, with calibrated standard deviations and intervals.

    A density is fitted to the rows. Then values of held-out rows are hidden one at a time and predicted from
    the other values of their row. The residuals, in predicted standard deviations, rescale each column's
    deviations and determine the ends of the intervals. This assumes that values are missing completely at
    random, like the hidden ones: if other columns decide which values are missing, intervals may cover less
    often.

    With a density that takes `categorical_features`, such as `MaskedNetworkDensity`, a missing word is filled
    by the most probable word, without an interval.

    A column that does not vary is filled by its one value. A row without any observed value is filled by the
    means of the columns under the density.

    Args:
        estimator: a density of this module; by default `KernelGaussianDensity()`, which chooses between a
            Gaussian and the rows alone by cross-validation.
        cv: the number of folds from which rows are held out.
        missing_values: the mark of a missing value: NaN, which includes pandas' NA, or a number.
        add_indicator: whether `transform` adds a column of 0 and 1 for each column with missing values in
            `fit`, as scikit-learn's `MissingIndicator` does.
        keep_empty_features: whether columns without an observed value in `fit` stay, filled with 0; otherwise
            they are left out, with a warning.
        random_state: of the folds, the hidden values and the default estimator.

    Attributes:
        estimator_: the fitted density of the columns that vary.
        indicator_: the fitted `MissingIndicator`; None without `add_indicator`.
        residuals_: the residuals of hidden values.
        day_0_: the day from which each column of dates counts, by name.
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

    estimator: Any = None
    _: KW_ONLY
    cv: int = 5
    missing_values: Any = math.nan
    add_indicator: bool = False
    keep_empty_features: bool = False
    random_state: Any = None

    def fit(self, X: Any, y: Any = None) -> "MaskedImputer":
        """Fit the density and measure its errors on hidden values.

        Args:
            X: shape (N, D), `missing_values` where a value is missing.
            y: not used, as in all of scikit-learn's imputers.

        Raises:
            ValueError: a table that cannot be fitted.
        """
        self._categories = Categories(getattr(self.estimator, "categorical_features", None))
        table, _ = self._table(X, reset=True)
        is_category = self._categories.among(table.shape[1])
        self.indicator_ = None
        if self.add_indicator:
            self.indicator_ = _impute.MissingIndicator(error_on_new=False).fit(table)
        empty = np.isnan(table).all(axis=0)
        self._kept = ~empty | self.keep_empty_features
        if not self._kept.all():
            names = getattr(self, "feature_names_in_", np.array([f"x{j}" for j in range(table.shape[1])]))
            warnings.warn(
                f"columns without an observed value are left out: {', '.join(names[~self._kept])}; "
                "keep_empty_features=True fills them with 0",
                UserWarning,
                stacklevel=2,
            )
        seed = seed_from(self.random_state)
        largest = np.where(empty, 0.0, np.where(np.isnan(table), -np.inf, table).max(axis=0))
        self._constant = np.where(varies(table), np.nan, largest)[self._kept]
        table = table[:, self._kept]
        self._is_category = is_category[self._kept][self._varies]
        rows = table[:, self._varies]
        rows = rows[with_values(rows)] if self._varies.any() else rows
        self.estimator_, self.residuals_ = None, None
        if self._varies.any():
            density = KernelGaussianDensity(random_state=seed) if self.estimator is None else self.estimator
            with warnings.catch_warnings():  # a bound on the noise barely changes filled values
                warnings.filterwarnings("ignore", "the noise variance of")
                self.estimator_ = clone_for(density, self._is_category).fit(rows)
                self.residuals_ = getattr(self.estimator_, "held_out_", None) or held_out_residuals(
                    self.estimator_, rows, self.cv, np.random.default_rng(seed), self._is_category
                )
        return self

    def transform(self, X: Any) -> Any:
        """Replace every missing value by its conditional mean; the result is float32 if X is.

        A missing category is replaced by the most probable category. A data frame with columns of words stays
        a data frame. Where the result is a data frame, dates stay dates; else they are days since `day_0_`.

        Args:
            X: shape (N, D), `missing_values` where a value is missing.

        Returns:
            Shape (N, D), without empty columns unless `keep_empty_features`, and with the indicator's
            columns.
        """
        _validation.check_is_fitted(self, "residuals_")
        table, single = self._table(X, reset=False)
        filled = self._as_given(X, table, self._predicted(table).values, single)
        if self.day_0_ and hasattr(X, "iloc") and not hasattr(filled, "columns") and gives_frames(self):
            filled = pandas.DataFrame(filled, index=X.index, columns=self.get_feature_names_out())
            return self._dated(X, filled)
        return filled

    def draw_missing(self, X: Any, draws: int = 1, random_state: Any = None) -> list[Any]:
        """Draw tables like those of `transform`, with each row's missing values sampled jointly.

        Unlike the intervals, the draws come from the density without calibration.

        Args:
            X: shape (N, D), `missing_values` where a value is missing.
            draws: the number of tables.
            random_state: seed of the draws; by default the imputer's own `random_state`.
        """
        _validation.check_is_fitted(self, "residuals_")
        table, single = self._table(X, reset=False)
        kept = table[:, self._kept]
        values = np.repeat(np.where(np.isnan(kept), self._constant, kept)[None], draws, axis=0)
        if self.estimator_ is not None:
            seed = seed_from(self.random_state if random_state is None else random_state)
            values[..., self._varies] = self.estimator_.draw_missing(kept[:, self._varies], draws, seed)
        return [self._as_given(X, table, drawn, single) for drawn in values]

    def get_feature_names_out(self, input_features: Any = None) -> Shaped[np.ndarray, " n_out"]:
        """The names of the columns returned by `transform`.

        Args:
            input_features: the names of the columns of X; by default the names in `fit`, or x0, x1, ...
        """
        names = super().get_feature_names_out(input_features)
        if self.indicator_ is None:
            return names[self._kept]
        return np.concatenate([names[self._kept], self.indicator_.get_feature_names_out(names)])

    def impute(self, X: Any) -> Imputation:
        """The filled rows, and the variance of each missing value, 0 where observed.

        Words are coded by their position among the words of `fit`. The variance of a category is 1 - its
        probability under the density, without calibration.

        Args:
            X: shape (N, D), `missing_values` where a value is missing.
        """
        predicted = self._predicted_of(X)
        scale = np.ones(len(self._constant))
        if self.residuals_ is not None:
            scale[self._varies] = [
                1.0 if category else self.residuals_.spread(j) for j, category in enumerate(self._is_category)
            ]
        given = X.to_frame() if isinstance(X, Table) else X if hasattr(X, "iloc") else None
        if (
            given is not None
            and isinstance(self.missing_values, Real)
            and not math.isnan(self.missing_values)
        ):
            given = given.mask(given == self.missing_values)
        return replace(predicted, variance=predicted.variance * scale**2, given=given, day_0=self.day_0_)

    def intervals(
        self, X: Any, level: float = 0.9
    ) -> tuple[Float64[np.ndarray, "N D"], Float64[np.ndarray, "N D"]]:
        """Intervals that contain a share `level` of the missing values; both ends equal an observed value.

        Both are NaN for a missing category.

        Args:
            X: shape (N, D), `missing_values` where a value is missing.
            level: the share, in (0, 1).

        Raises:
            InputError: a level outside (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise InputError(f"level={level}; give a share in (0, 1), such as 0.9")
        predicted = self._predicted_of(X)
        low, high = np.zeros(len(self._constant)), np.zeros(len(self._constant))
        if self.residuals_ is not None:
            bounds = [
                (math.nan, math.nan) if category else self.residuals_.bounds(j, level)
                for j, category in enumerate(self._is_category)
            ]
            low[self._varies], high[self._varies] = np.array(bounds).T
        deviation = np.sqrt(predicted.variance)
        ends = [predicted.values + residual * deviation for residual in (low, high)]
        lower, upper = (np.where(deviation == 0, predicted.values, end) for end in ends)
        return lower, upper

    @property
    def _varies(self) -> Bool[np.ndarray, " D"]:
        return np.isnan(self._constant)

    def _table(self, X: Any, *, reset: bool) -> tuple[Float64[np.ndarray, "N D"], bool]:
        """Rows in float64 with NaN for missing values, and whether X was float32."""
        blank, isnan = self.missing_values, type(self.missing_values).__name__ == "NAType"
        if not isnan and not isinstance(blank, Real):
            raise ValueError(f"missing_values={blank!r}; give numpy.nan or a number")
        isnan = isnan or math.isnan(blank)
        X = with_names(X, self, reset=reset)
        if self.day_0_ and not isnan:
            raise ValueError(f"missing_values={blank!r}; in a table with dates, give numpy.nan")
        codes = self._categories.codes(self, X, reset=reset)
        if codes is not X:
            if not isnan:
                raise ValueError(f"missing_values={blank!r}; in a table with categories, give numpy.nan")
            table = _utils.check_array(codes, ensure_all_finite="allow-nan", ensure_min_samples=1 + reset)
            return table, False
        with words_named():
            table = _validation.validate_data(
                self,
                X,
                reset=reset,
                dtype=[np.float64, np.float32],
                ensure_all_finite="allow-nan" if isnan else True,
                ensure_min_samples=1 + reset,
            )
        numbers = table.astype(np.float64)
        return (numbers if isnan else np.where(table == blank, np.nan, numbers)), table.dtype == np.float32

    def _as_given(
        self, X: Any, table: Float64[np.ndarray, "N D"], values: Float64[np.ndarray, "N K"], single: bool
    ) -> Any:
        """Join filled and indicator columns; words if X has words, else numbers."""
        added = table[:, :0] if self.indicator_ is None else self.indicator_.transform(table)
        if not self._categories.words:
            return np.hstack([values, added]).astype(np.float32 if single else np.float64)
        complete = np.zeros(table.shape)
        complete[:, self._kept] = values
        filled = self._categories.filled(with_names(X), complete)
        if not hasattr(filled, "columns"):
            return np.hstack([filled[:, self._kept], added.astype(object)])
        filled = self._dated(X, filled.loc[:, self._kept])
        return filled.assign(
            **dict(zip(self.get_feature_names_out()[values.shape[1] :], added.T, strict=True))
        )

    def _dated(self, X: Any, filled: Any) -> Any:
        """The filled data frame with dates for days, where X has dates."""
        for name in dated_frame(X, self.day_0_)[1]:
            if name in filled:
                days, column = filled[name].to_numpy(), X[name]
                column = as_missing_dates(column) if column.isna().all() else column
                dates = filled_column(column, days, column.isna().to_numpy(), None, self.day_0_[name])
                filled = filled.assign(**{name: dates})
        return filled

    def _predicted_of(self, X: Any) -> Imputation:
        _validation.check_is_fitted(self, "residuals_")
        return self._predicted(self._table(X, reset=False)[0])

    def _predicted(self, table: Float64[np.ndarray, "N D"]) -> Imputation:
        """The density's means and variances for the columns that are kept."""
        table = table[:, self._kept]
        values = np.where(np.isnan(table), self._constant, table)
        variance = np.zeros_like(values)
        if self.estimator_ is not None:
            filled = self.estimator_.impute(table[:, self._varies])
            values[:, self._varies], variance[:, self._varies] = filled.values, filled.variance
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            return Imputation(values, variance)
        levels = {str(names[k]): tuple(words) for k, words in self._categories.words.items()}
        return Imputation(values, variance, tuple(map(str, names[self._kept])), levels)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        blank = self.missing_values
        tags.input_tags.allow_nan = not isinstance(blank, Real) or math.isnan(blank)
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
