"""Makers for `evidence_of_rows` from estimators with scikit-learn's interface."""

from inspect import signature
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

import maskevidence as me
from maskevidence import RowsModel
from maskevidence.core.errors import InputError, import_extra
from maskevidence.core.model import DENSITY, MASS, Conditionals
from maskevidence.sklearn.density_base import PURPOSE

_base = import_extra("sklearn.base", "sklearn", PURPOSE)
_Numbers = Float64[np.ndarray, " _"]


class GaussianProcessRows:
    """An exact maker from a `GaussianProcessRegressor` with a fixed kernel: y ~ N(0, K + alpha).

    The kernel is a fitted regressor's `kernel_`, or `kernel` if `optimizer` is None. The evidence equals the
    regressor's `log_marginal_likelihood`.

    Args:
        regressor: its `normalize_y` must be False, since it looks at all of y.

    Example:
        >>> from sklearn.gaussian_process import GaussianProcessRegressor
        >>> import maskevidence as me
        >>> x, y = np.linspace(0, 1, 12)[:, None], np.sin(np.arange(12.0))
        >>> regressor = GaussianProcessRegressor(alpha=0.1, optimizer=None)
        >>> result = me.evidence_of_rows(GaussianProcessRows(regressor), x, y)
        >>> bool(abs(result.log_evidence - regressor.fit(x, y).log_marginal_likelihood()) < 1e-6)
        True
    """

    def __init__(self, regressor: Any) -> None:
        kernel = getattr(regressor, "kernel_", None)
        if kernel is None and getattr(regressor, "optimizer", None) is None and hasattr(regressor, "kernel"):
            gaussian_process = import_extra("sklearn.gaussian_process", "sklearn", PURPOSE)
            kernel = regressor.kernel or gaussian_process.kernels.RBF(1.0)
        if kernel is None:
            raise InputError(
                f"the kernel of {regressor!r} is not fixed; give a GaussianProcessRegressor with "
                "optimizer=None, or a fitted one"
            )
        if regressor.normalize_y:
            raise InputError("normalize_y=True looks at hidden rows; subtract a constant from y yourself")
        self.kernel, self.alpha = kernel, regressor.alpha

    def __call__(self, x: Any) -> me.models.Gaussian:
        covariance = self.kernel(x)
        if covariance.shape != (len(x), len(x)):
            raise InputError(
                f"x is of shape {np.shape(x)}; give N rows of p numbers, such as x[:, None] for p = 1"
            )
        covariance = covariance + np.diag(np.broadcast_to(self.alpha, len(x)))
        return me.models.Gaussian(torch.zeros(len(x), dtype=torch.float64), torch.from_numpy(covariance))


def _has_densities(estimator: Any) -> bool:
    """Whether `predict` can return standard deviations or distributions, judging by its argument names."""
    predict = getattr(estimator, "predict", None)
    names = signature(predict).parameters.values() if callable(predict) else ()
    return any(each.name in ("return_std", "output_type") or each.kind is each.VAR_KEYWORD for each in names)


class FittedRows(RowsModel):
    """A maker that fits an estimator to the visible rows: plug-in predictions, or an in-context model.

    Regressors need `predict(x, return_std=True)`, taken as a normal density, or a `predict(x,
    output_type="full")` that gives `logits` and a `criterion`, as TabPFN's does. Classifiers need
    `predict_proba`, p: with n visible rows and K classes, (n·p + smoothing)/(n + smoothing·K) leaves no class
    impossible, and the frequencies of the classes stand for p where there is only one class, or none.

    Args:
        estimator: it is cloned for each fit.
        start: for regressors, the mean and standard deviation of y before `at_least` rows are visible: your
            guess before you saw the data.
        classes: for classifiers, all values that y can have, as numbers; words of y are 0, 1, ... in
            alphabetical order.
        at_least: the fewest visible rows to which the estimator is fitted.
        smoothing: for classifiers; 0 leaves `predict_proba` as it is, and needs at_least=0.
        conditionals: "exact" or "approximate" for an in-context model that predicts as a Bayesian model does.

    Example:
        >>> from sklearn.linear_model import BayesianRidge
        >>> import maskevidence as me
        >>> x = np.random.default_rng(0).normal(size=(30, 1))
        >>> result = me.evidence_of_rows(FittedRows(BayesianRidge(), start=(0.0, 2.0)), x, 2 * x[:, 0] + 1)
        >>> result.kind, result.notes[-1].startswith("these predictions are of no Bayesian model")
        ('lower_bound', True)
    """

    def __init__(
        self,
        estimator: Any,
        *,
        start: tuple[float, float] | None = None,
        classes: Any = None,
        at_least: int = 3,
        smoothing: float = 1.0,
        conditionals: Conditionals = "learned",
    ) -> None:
        classifies = callable(getattr(estimator, "predict_proba", None))
        if not classifies and not _has_densities(estimator):
            raise InputError(
                f"{estimator!r} has neither predict_proba nor predict(x, return_std=True); give an estimator "
                "that says how sure it is, such as BayesianRidge()"
            )
        numbers = np.asarray([] if classes is None else classes)
        if classifies and (len(numbers) < 2 or numbers.dtype.kind not in "iuf"):
            raise InputError(f"classes={classes}; list all numbers that y can have, such as classes=[0, 1]")
        if classifies and at_least > 0 and not smoothing > 0:
            raise InputError(
                f"smoothing={smoothing:g} makes a class impossible before it is seen; give a number above 0, "
                "or at_least=0 for an in-context model that predicts from no rows"
            )
        if not classifies and at_least > 0 and (start is None or not start[1] > 0):
            raise InputError(
                f"start={start}; give the mean and the standard deviation of y before {at_least} rows are "
                "visible, such as start=(0.0, 1.0)"
            )
        self.estimator, self.start, self.at_least, self.smoothing = estimator, start, at_least, smoothing
        self.classes = np.unique(numbers.astype(np.float64)) if classifies else numbers
        predict = self._class_masses if classifies else self._densities
        super().__init__(predict, conditionals, MASS if classifies else DENSITY)

    def _fitted(self, x: Any, y: _Numbers) -> Any:
        return _base.clone(self.estimator, safe=False).fit(x, y)

    def _densities(self, x_visible: Any, y_visible: _Numbers, x_hidden: Any, y_hidden: _Numbers) -> _Numbers:
        if len(y_visible) < self.at_least:
            assert self.start is not None
            mean, std = map(np.asarray, self.start)
        else:
            fitted = self._fitted(x_visible, y_visible)
            if "output_type" in signature(fitted.predict).parameters:
                full = fitted.predict(x_hidden, output_type="full")
                nats = full["criterion"](full["logits"], torch.from_numpy(y_hidden).to(full["logits"]))
                return -nats.detach().cpu().double().numpy()
            mean, std = map(np.asarray, fitted.predict(x_hidden, return_std=True))
        return -0.5 * ((y_hidden - mean) / std) ** 2 - np.log(std) - 0.5 * np.log(2 * np.pi)

    def _class_masses(
        self, x_visible: Any, y_visible: _Numbers, x_hidden: Any, y_hidden: _Numbers
    ) -> _Numbers:
        n, n_classes, smoothing = len(y_visible), len(self.classes), self.smoothing
        if not np.isin([*y_visible, *y_hidden], self.classes).all():
            raise InputError(f"y has values beyond classes={self.classes.tolist()}; list all of them")
        share, place = np.zeros((len(y_hidden), n_classes)), np.searchsorted(self.classes, y_visible)
        if self.at_least == 0 or (n >= self.at_least and len(np.unique(place)) > 1):
            fitted = self._fitted(x_visible, y_visible)
            share[:, np.searchsorted(self.classes, fitted.classes_)] = fitted.predict_proba(x_hidden)
        else:
            share += np.bincount(place, minlength=n_classes) / max(1, n)
        if smoothing:
            share = (n * share + smoothing) / (n + smoothing * n_classes)
        return np.log(share[np.arange(len(y_hidden)), np.searchsorted(self.classes, y_hidden)])
