"""Feature selection by information: a score function, and a forward selection that stops."""

from collections.abc import Sequence
from numbers import Real
from typing import Any

import numpy as np
import pandas
from jaxtyping import Bool, Float64

from maskevidence.core.errors import import_extra
from maskevidence.core.support.checks import whole_number
from maskevidence.core.table import Table, as_table
from maskevidence.sklearn.density_base import PURPOSE, checked_table, gives_frames, seed_from, with_names
from maskevidence.tables.information.gains import FOLDS, Fitted, fitted
from maskevidence.tables.information.matrix import of_next

_base = import_extra("sklearn.base", "sklearn", PURPOSE)
_selection = import_extra("sklearn.feature_selection", "sklearn", PURPOSE)
_utils = import_extra("sklearn.utils", "sklearn", PURPOSE)
_multiclass = import_extra("sklearn.utils.multiclass", "sklearn", PURPOSE)
_validation = import_extra("sklearn.utils.validation", "sklearn", PURPOSE)

_Numbers = Float64[np.ndarray, " n_features"]


def information_score(
    X: Any, y: Any, model: str = "auto", *, folds: int = FOLDS, seed: int = 0
) -> tuple[_Numbers, _Numbers]:
    """Estimate the mutual information of each feature and the target, a score function of `SelectKBest`.

    One model for all features is fitted by folds, as in `me.information_matrix`, and asked for
    log p(y | x_j) - log p(y), each row by a fit that has not seen it.

    Args:
        X: shape (N, D), NaN where a value is missing (which `SelectKBest` refuses, as it does words;
            `InformationSelector` takes both).
        y: shape (N,), numbers or dates; text and booleans are classes, for models that take words, as "auto".
        model: a MODEL word; "gaussian" is fastest, and sees what rises or falls.
        folds: parts of the rows, 3 or more.
        seed: of the folds and the fits.

    Returns:
        Nats, and one-sided p-values of "not above 0".

    Example:
        >>> from functools import partial
        >>> from sklearn.feature_selection import SelectKBest
        >>> x = np.random.default_rng(0).normal(size=(300, 4))
        >>> y = x[:, 2] + 0.5 * np.random.default_rng(1).normal(size=300)
        >>> best = SelectKBest(partial(information_score, model="gaussian"), k=1).fit(x, y)
        >>> best.get_support().tolist()
        [False, False, True, False]
    """
    fit, names = _fitted(X, y, model, (folds, seed), pairs=True)
    nats, _, p = _of_next(fit, names, [])
    for copy, first in fit.copies.items():
        for each in (nats, p):
            each[names.index(copy)] = each[names.index(first)]
    return np.nan_to_num(nats), np.nan_to_num(p, nan=1.0)


class InformationSelector(_selection.SelectorMixin, _base.BaseEstimator):  # type: ignore[misc,name-defined]
    """Forward selection: add the feature that tells most about y given those chosen; stop where none does.

    In each step, I(y; x_j | chosen) is estimated for all other features, each row asked of a fit that has not
    seen it. The highest is added if its one-sided p-value times the number of features that are left is at
    most `alpha`. A constant feature, or one that repeats another, is never chosen.

    Args:
        model: a MODEL word, such as "gaussian" or "auto".
        alpha: the level of each step, above 0; 1 stops at `max_features` alone.
        max_features: the most features to choose; by default all.
        folds: parts of the rows, 3 or more.
        random_state: of the folds and the fits.

    Attributes:
        chosen_: the chosen features in their order.
        gains_: what each added, nats.
        gain_errors_: its standard error.
        day_0_: the day from which each column of dates counts, by name.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(300, 4))
        >>> x[:, 3] = x[:, 2] + x[:, 3]  # says less than column 2, and nothing beside it
        >>> y = x[:, 2] + x[:, 0] + 0.5 * np.random.default_rng(1).normal(size=300)
        >>> selector = InformationSelector("gaussian", random_state=0).fit(x, y)
        >>> sorted(selector.chosen_), selector.transform(x).shape
        ([0, 2], (300, 2))
    """

    def __init__(
        self,
        model: str = "auto",
        *,
        alpha: float = 0.05,
        max_features: int | None = None,
        folds: int = FOLDS,
        random_state: Any = None,
    ) -> None:
        self.model = model
        self.alpha = alpha
        self.max_features = max_features
        self.folds = folds
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "InformationSelector":
        """Choose the features."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if not 0 < self.alpha <= 1:
            raise ValueError(f"alpha={self.alpha}; give a level in (0, 1], such as 0.05")
        X = with_names(X, self)
        rows = as_table(X) if hasattr(X, "iloc") else None
        if rows is not None and rows.levels:
            _validation.validate_data(self, X, skip_check_array=True)
        else:
            checked = checked_table(self, X, reset=True)
            X = checked if rows is None else rows
        most = self.n_features_in_
        if self.max_features is not None:
            most = whole_number("max_features", self.max_features, 1)
        fit, names = _fitted(X, y, self.model, (self.folds, seed_from(self.random_state)))
        self.chosen_, self.gains_, self.gain_errors_ = list[int](), list[float](), list[float]()
        while len(self.chosen_) < most:
            nats, error, p = _of_next(fit, names, self.chosen_)
            if np.isnan(nats).all():
                break
            best = int(np.nanargmax(nats))
            if min(1.0, p[best] * np.isfinite(nats).sum()) > self.alpha:
                break
            self.chosen_.append(best)
            self.gains_.append(float(nats[best]))
            self.gain_errors_.append(float(error[best]))
        return self

    def transform(self, X: Any) -> Any:
        """Keep the chosen features; dates stay dates in a data frame, and become days since `day_0_` else."""
        _validation.check_is_fitted(self)
        return super().transform(X if gives_frames(self) else with_names(X, self, reset=False))

    def _get_support_mask(self) -> Bool[np.ndarray, " n_features"]:
        _validation.check_is_fitted(self)
        return np.isin(np.arange(self.n_features_in_), self.chosen_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.allow_nan = True
        return tags


def _fitted(
    X: Any, y: Any, model: str, folding: tuple[int, int], *, pairs: bool = False
) -> tuple[Fitted, tuple[str, ...]]:
    """Models of the usable features and, as the last column, the target; and the names of all features."""
    if getattr(getattr(y, "dtype", None), "kind", "") == "M":
        y = with_names(pandas.DataFrame({"y": y}))["y"]
    rows, target = as_table(with_names(X)), _utils.column_or_1d(y, warn=True)
    _utils.check_consistent_length(rows.values, target)
    if pandas.isna(target).any():
        raise ValueError("Target y has missing values; leave such rows out")
    _multiclass.type_of_target(target, raise_unknown=True)
    name, levels = "y" if "y" not in rows.columns else "the target", dict(rows.levels)
    if target.dtype.kind in "USb" or not all(isinstance(each, Real) for each in target.tolist()):
        words, target = np.unique(target.astype(str), return_inverse=True)
        levels[name] = tuple(words.tolist())
    values = np.column_stack([rows.values, target.astype(np.float64)])
    table = Table("the data", values, (*rows.columns, name), np.arange(len(values)), levels=levels)
    return fitted(model, table, None, folding, target=name, pairs=pairs), rows.columns


def _of_next(fit: Fitted, names: Sequence[str], chosen: Sequence[int]) -> Float64[np.ndarray, "3 n_features"]:
    """I(y; x_j | chosen), its error and p-value; NaN for features that are chosen or not usable."""
    *columns, _ = fit.table.columns
    made = of_next(fit, len(columns), [columns.index(names[k]) for k in chosen])
    result = np.full((3, len(names)), np.nan)
    result[:, [names.index(name) for name in columns]] = np.stack(made)[:, :-1]
    return result
