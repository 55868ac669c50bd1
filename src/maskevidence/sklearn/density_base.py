"""Base classes of the densities: fit, scores and log evidence of rows; transforms to latent variables."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float64

from maskevidence import EvidenceEstimate, Imputation, MaskDesign, estimate_evidence
from maskevidence.core.errors import import_extra
from maskevidence.core.evidence.precise import labels_of
from maskevidence.core.table import Table, check_cells, with_values
from maskevidence.core.tokens import refuse_rounded, without_mask
from maskevidence.tables.base import TableModel
from maskevidence.tables.table_files import dated_frame

PURPOSE = "maskevidence.sklearn"
_base = import_extra("sklearn.base", "sklearn", PURPOSE)
_pipeline = import_extra("sklearn.pipeline", "sklearn", PURPOSE)
_set_output = import_extra("sklearn.utils._set_output", "sklearn", PURPOSE)
_utils = import_extra("sklearn.utils", "sklearn", PURPOSE)
_validation = import_extra("sklearn.utils.validation", "sklearn", PURPOSE)


def seed_from(random_state: Any) -> int:
    """Turn scikit-learn's `random_state` (None, a whole number or a `RandomState`) into a seed of this
    package.

    Example:
        >>> seed_from(7) == seed_from(7)
        True
    """
    return int(_utils.check_random_state(random_state).randint(2**31 - 1))


def checked_table(
    estimator: Any, X: Any, *, reset: bool, min_features: int = 1, named: bool = True
) -> Float64[np.ndarray, "N D"]:
    """Check rows by scikit-learn's `validate_data`; return float64 with NaN for missing values.

    Args:
        estimator: whose `n_features_in_` and `feature_names_in_` are set or compared.
        reset: True in `fit`: the names are set, and every column needs an observed value.
        named: False if X has lost the names of its columns, which were compared before.
    """
    if hasattr(X, "iloc") and "O" in {dtype.kind for dtype in X.dtypes}:  # scikit-learn refuses pd.NA there
        X = X.where(X.notna(), np.nan)
    limits = {"ensure_min_samples": 2 if reset else 1, "ensure_min_features": min_features}
    checks = {"dtype": np.float64, "ensure_all_finite": "allow-nan", **limits}
    with words_named():
        if named:
            table = _validation.validate_data(estimator, X, reset=reset, **checks)
            refuse_rounded(table, X if hasattr(X, "iloc") else np.asarray(X))
        else:
            table = _utils.check_array(X, estimator=estimator, input_name="X", **checks)
    unseen = np.flatnonzero(np.isnan(table).all(axis=0))
    if reset and len(unseen):
        names = list(getattr(estimator, "feature_names_in_", [f"x{j}" for j in range(table.shape[1])]))
        raise ValueError(
            f"{type(estimator).__name__} needs at least one observed value of every feature; features without"
            f" any observed values: {[str(names[j]) for j in unseen]}. Leave them out."
        )
    return table


def with_names(X: Any, estimator: Any = None, *, reset: bool = True) -> Any:
    """Turn a `Table` into a data frame, so that scikit-learn keeps its names and words, and dates into days.

    A masked array gets NaN, because scikit-learn would drop its mask.

    Args:
        estimator: which keeps the days 0 of `fit` in `day_0_`.
        reset: True in `fit`; afterwards columns of dates count from the days of `fit`.

    Example:
        >>> with_names([[1.0, 2.0]])
        [[1.0, 2.0]]
    """
    if isinstance(X, Table):
        X = X.to_frame()
    known = {} if reset else estimator.day_0_
    X, forms = dated_frame(X, known)
    if reset and estimator is not None:
        estimator.day_0_ = {name: form.origin for name, form in forms.items()}
    elif not reset and (new := [name for name in forms if name not in known]):
        raise ValueError(f"column {new[0]!r} holds dates, and held none in fit; give what fit was given")
    if not hasattr(X, "iloc"):
        return without_mask(X)
    for place, name in enumerate(X.columns):
        check_cells(str(name), X.iloc[:, place])
    return X


def gives_frames(estimator: Any) -> bool:
    """Whether `set_output` asks the estimator for pandas data frames, which hold dates."""
    return _set_output._get_output_config("transform", estimator)["dense"] == "pandas"


@contextmanager
def words_named() -> Iterator[None]:
    """Add what takes columns of words to scikit-learn's message on them."""
    try:
        yield
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        remedy = (
            "columns of words are for MaskedNetworkDensity(), as in MaskedImputer(MaskedNetworkDensity())"
        )
        raise ValueError(f"{error}; {remedy}, or for me.select and me.impute") from error


def fitted_array(name: str, doc: str, *, transposed: bool = False) -> property:
    """A property that reads an array of the density's fitted model, in float64."""

    def read(density: Any) -> Float64[np.ndarray, "*shape"]:
        array = getattr(density.model_, name).detach().cpu().double().numpy()
        return array.T if transposed else array

    return property(read, doc=doc)


class TableDensity(_base.DensityMixin, _base.BaseEstimator):  # type: ignore[misc, name-defined]
    """A model of this package as a density estimator of scikit-learn.

    A subclass is a dataclass of its arguments and names its model; the rest is here. A row without any
    observed value has log-probability 0.

    Attributes:
        model_: the fitted model of `maskevidence.models`; `model_.save(folder)` writes it.
        n_features_in_: D, the number of columns that were fitted.
        feature_names_in_: their names, if they have names.
        day_0_: the day from which each column of dates counts, by name.
        n_iter_: the number of iterations of the fit, 1 for a closed form.
    """

    model_: Any
    _model_class: ClassVar[type[Any]]
    _min_features = 1

    def _new_model(self, n_features: int) -> TableModel:
        """Build an unfitted model."""
        return self._model_class(n_features=n_features)

    def _fit_options(self, table: Float64[np.ndarray, "N D"]) -> dict[str, Any]:
        """Further arguments of the model's `fit`."""
        return {"tolerance": self.tol, "max_iterations": self.max_iter}

    def _fitted_model(self, table: Float64[np.ndarray, "N D"]) -> TableModel:
        """Fit a model to rows that each have an observed value."""
        model = self._new_model(table.shape[1])
        model.columns = self._names()
        return model.fit(table, **self._fit_options(table))

    def _names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else [str(name) for name in names]

    def fit(self, X: Any, y: Any = None) -> "TableDensity":
        """Fit the model to rows.

        Args:
            X: shape (N, D), NaN where a value is missing; rows without any observed value do not count.
            y: not used, as in all of scikit-learn's density estimators.

        Raises:
            ValueError: a table that cannot be fitted.
            maskevidence.NumericalError: no maximum of the likelihood was found.
        """
        table = self._table(X, reset=True)
        self.model_ = self._fitted_model(table[with_values(table)])
        self.model_.columns = self._names()
        self.model_.count_days(self.day_0_)
        self.n_iter_ = max(1, self.model_.n_iterations)
        return self

    def score_samples(self, X: Any) -> Float64[np.ndarray, " N"]:
        """log p of the observed values of each row, nats, shape (N,)."""
        table = self._fitted_table(X)
        seen = with_values(table)
        scores = np.zeros(len(table))
        if seen.any():
            scores[seen] = self._scores(table[seen])
        return scores

    def _scores(self, table: Float64[np.ndarray, "N D"]) -> Float64[np.ndarray, " N"]:
        """log p of rows that each have an observed value."""
        return self.model_.score_samples(table)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`, nats per row."""
        return float(self.score_samples(X).mean())

    def evidence(self, X: Any, design: MaskDesign | None = None, *, seed: int = 0) -> EvidenceEstimate:
        """Estimate the log evidence of rows by the area under the curve (Eq. 2); `score` is exact if
        possible.

        Rows without an observed value are left out, and a note says so.

        Args:
            X: shape (N, D), NaN where a value is missing.
            design: how masks are drawn; by default as in `estimate_evidence`.
            seed: seed of the masks.
        """
        table = self._fitted_table(X)
        seen = with_values(table)
        estimate = estimate_evidence(self.model_, self.model_.tokens(table[seen]), design, seed=seed)
        if names := labels_of(X):
            scored = np.flatnonzero(seen)[estimate.ids]
            estimate = replace(estimate, labels=tuple(names[number] for number in scored.tolist()))
        n_empty = int((~seen).sum())
        if not n_empty:
            return estimate
        rows = "row without an observed value is" if n_empty == 1 else "rows without an observed value are"
        return replace(estimate, notes=(*estimate.notes, f"{n_empty:,} {rows} left out"))

    def impute(self, X: Any) -> Imputation:
        """Conditional mean and variance of every missing value given the observed values of its row.

        Args:
            X: shape (N, D), NaN where a value is missing.
        """
        filled = self.model_.impute(self._fitted_table(X))
        return replace(filled, given=X if hasattr(X, "columns") else None, day_0=self.day_0_)

    def draw_missing(self, X: Any, draws: int = 1, random_state: Any = None) -> Float64[np.ndarray, "n N D"]:
        """Draw tables with missing values sampled jointly given the observed values of their row.

        Args:
            X: shape (N, D), NaN where a value is missing.
            draws: the number of tables.
            random_state: seed of the draws; by default the estimator's own `random_state`.
        """
        table = self._fitted_table(X)
        return self.model_.draw_missing(table, draws, seed_from(self._random_state(random_state)))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> Float64[np.ndarray, "n D"]:
        """Draw rows from the fitted model, shape (n_samples, D).

        Args:
            n_samples: number of rows.
            random_state: seed of the draws; by default the estimator's own `random_state`.
        """
        _validation.check_is_fitted(self)
        return self.model_.sample(n_samples, seed_from(self._random_state(random_state)))

    def _random_state(self, random_state: Any = None) -> Any:
        return self.random_state if random_state is None else random_state

    def _table(self, X: Any, *, reset: bool) -> Float64[np.ndarray, "N D"]:
        X = with_names(X, self, reset=reset)
        return checked_table(self, X, reset=reset, min_features=self._min_features if reset else 1)

    def _fitted_table(self, X: Any) -> Float64[np.ndarray, "N D"]:
        _validation.check_is_fitted(self)
        return self._table(X, reset=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class LatentDensity(
    _base.ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc, name-defined]
    _base.TransformerMixin,  # type: ignore[misc, name-defined]
    TableDensity,
):
    """A density with latent variables z, as a density estimator and a transformer of scikit-learn.

    A row without any observed value has posterior mean 0, as under the prior.
    """

    _largest_below_width = False  # whether n_components must be smaller than the number of columns
    components_ = fitted_array(
        "loadings", "Wᵀ, the loadings of each component, shape (K, D).", transposed=True
    )

    def _new_model(self, n_features: int, **settings: Any) -> TableModel:
        """Build a model with K = n_components, by default min(2, D - 1) but at least 1."""
        if self.n_components is None:
            self.n_components_ = max(1, min(2, n_features - 1))
        else:
            largest = n_features - 1 if self._largest_below_width else None
            self.n_components_ = int(
                _utils.check_scalar(self.n_components, "n_components", Integral, min_val=1, max_val=largest)
            )
        return self._model_class(n_features, self.n_components_, **settings)

    def transform(self, X: Any) -> Float64[np.ndarray, "N K"]:
        """E[z | the observed values], shape (N, K), for rows (N, D) with NaN for missing values."""
        table = self._fitted_table(X)
        seen = with_values(table)
        latent = np.zeros((len(table), self.n_components_))
        if seen.any():
            with torch.no_grad():
                means = self.model_.latent_means(self.model_.tokens(table[seen]))
            latent[seen] = means.cpu().double().numpy()
        return latent

    def inverse_transform(self, X: Any) -> Float64[np.ndarray, "N D"]:
        """E[x | z] for each row of latent variables, shape (N, D), in the data's units."""
        _validation.check_is_fitted(self)
        latent = _utils.check_array(X, dtype=np.float64)
        if latent.shape[1] != self.n_components_:
            raise ValueError(
                f"X has {latent.shape[1]} features, but {type(self).__name__} has {self.n_components_} "
                "components as output of transform."
            )
        with torch.no_grad():
            means = self.model_.means_given(torch.tensor(latent).to(self.model_.loadings))
        return means.cpu().double().numpy()

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)


def evidence_scorer(design: MaskDesign | None = None, *, seed: int = 0) -> Callable[..., float]:
    """A scorer for `GridSearchCV`, `cross_val_score` and others: the estimated log evidence, nats per row.

    It ranks any masked model, including models without a closed form, such as `MaskedNetworkDensity`. All
    candidates are scored on the same masks. In a `Pipeline`, the transformed rows are scored in their own
    units: search only over the parameters of the last step.

    Args:
        design: how masks are drawn; by default as in `estimate_evidence`.
        seed: seed of the masks.

    Example:
        >>> import numpy as np
        >>> from sklearn.model_selection import cross_val_score
        >>> from maskevidence.sklearn import GaussianDensity
        >>> x = np.random.default_rng(0).normal(size=(90, 3))
        >>> scores = cross_val_score(GaussianDensity(), x, scoring=evidence_scorer(), cv=3)
        >>> closed_form = cross_val_score(GaussianDensity(), x, cv=3)
        >>> bool(abs(scores - closed_form).max() < 0.1)
        True
    """
    return partial(_log_evidence, design=design, seed=seed)


def _log_evidence(estimator: Any, X: Any, y: Any = None, *, design: MaskDesign | None, seed: int) -> float:
    """The estimated log evidence of rows, after a pipeline's transformers."""
    if isinstance(estimator, _pipeline.Pipeline):
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        estimator = estimator[-1]
    if hasattr(estimator, "evidence"):
        return float(estimator.evidence(X, design, seed=seed).log_evidence)
    return estimate_evidence(estimator, X, design, seed=seed).log_evidence
