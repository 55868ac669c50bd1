"""Regressors and classifiers as masked models: densities, cross-fitting, and comparison by evidence."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import chisquare
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import maskevidence as me
from maskevidence.integrations.sklearn import MaskedImputer, MaskedRegressorDensity, evidence_scorer

DESIGN = me.EverySize(2)


@pytest.fixture(scope="module")
def holed() -> np.ndarray:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 1)) + 0.5 * rng.normal(size=(150, 4))
    x[rng.random(x.shape) < 0.1] = np.nan
    x[5] = np.nan
    return x


@pytest.fixture(scope="module")
def mixed() -> pd.DataFrame:
    """A number, a category that depends on it and one that does not, with missing values."""
    rng = np.random.default_rng(1)
    size = rng.normal(size=120)
    kind = np.where(size + 0.3 * rng.normal(size=120) > 0, "large", "small").astype(object)
    kind[::11] = None
    size[::13] = np.nan
    return pd.DataFrame({"size": size, "kind": kind, "colour": rng.choice(["red", "green", "blue"], 120)})


def test_a_constant_regressor_gives_independent_normal_columns(holed: np.ndarray) -> None:
    """The variance is the mean squared error of the other folds' means, over all masks."""
    density = MaskedRegressorDensity(DummyRegressor(), n_masks=2, cv=3, random_state=0).fit(holed)
    tokens = density.tokens(holed[:5])
    masked = tokens.maskable.clone()
    masked[:, 0] = False
    found = density.log_conditionals(tokens, masked).numpy()
    for column, fitted in enumerate(density.columns_):
        values = holed[~np.isnan(holed[:, column]), column]
        assert fitted.variance.mean() == pytest.approx(values.var(), rel=0.05)
        residual = holed[:5, column] - values.mean()
        n_visible = tokens.visible(masked).numpy().sum(1)
        variance = fitted.variance[n_visible - (~masked & tokens.maskable).numpy()[:, column]]
        expected = -0.5 * (np.log(2 * np.pi * variance) + residual**2 / variance)
        np.testing.assert_allclose(found[:, column], np.where(masked[:, column], expected, 0.0))


class Recorder(RegressorMixin, BaseEstimator):
    """Predicts 0, and keeps every table that it was fitted to."""

    tables: list[np.ndarray] = []  # noqa: RUF012

    def fit(self, X, y):
        self.tables.append(X)
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.zeros(len(X))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def test_every_number_of_visible_values_is_learned_from_equally_often() -> None:
    Recorder.tables.clear()
    x = np.random.default_rng(0).normal(size=(500, 5))
    MaskedRegressorDensity(Recorder(), cv=2, random_state=0).fit(x)
    whole = [table for table in Recorder.tables if len(table) == 2000]
    assert len(whole) == 5
    counts = np.bincount(np.isnan(whole[0]).sum(1), minlength=5)
    assert chisquare(counts).pvalue > 0.01
    assert whole[0].shape[1] == 4


def test_the_residuals_are_those_of_rows_that_were_not_fitted() -> None:
    """A regressor that remembers its rows has no residuals on them, and those of strangers out of fold."""
    x = np.random.default_rng(0).normal(size=(200, 3))
    density = MaskedRegressorDensity(KNeighborsRegressor(1), random_state=0).fit(x)
    assert density.columns_[0].variance.mean() == pytest.approx(2.0, abs=0.4)


@pytest.mark.parametrize(
    "estimator",
    [
        LinearRegression(),
        KNeighborsRegressor(5),
        RandomForestRegressor(5, max_depth=3, random_state=0),
        HistGradientBoostingRegressor(max_iter=3),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_any_regressor_is_a_masked_model_whose_area_is_a_lower_bound(estimator, holed: np.ndarray) -> None:
    density = MaskedRegressorDensity(estimator, n_masks=2, cv=2, random_state=0).fit(holed)
    assert isinstance(density, me.MaskedModel)
    estimate = density.evidence(holed, DESIGN)
    assert (estimate.kind, estimate.n_observations) == ("lower_bound", 149)
    assert estimate.base_measure == me.model.DENSITY
    with_itself = me.estimate_evidence(density, holed[~np.isnan(holed).all(1)], DESIGN)
    assert with_itself.log_evidence == pytest.approx(estimate.log_evidence, rel=0.1)
    filled = density.impute(holed)
    np.testing.assert_array_equal(filled.values[~np.isnan(holed)], holed[~np.isnan(holed)])
    assert ((filled.variance > 0) == np.isnan(holed)).all()


def test_the_referee_finds_no_fault(holed: np.ndarray) -> None:
    density = MaskedRegressorDensity(DecisionTreeRegressor(max_depth=3), cv=2, random_state=0).fit(holed)
    report = me.check_model(density, density.tokens(holed[:5]))
    assert report.ok, report


def test_the_bound_lies_between_independent_columns_and_the_true_density() -> None:
    truth = me.models.PPCA.from_parameters(torch.ones(4, 1), noise_variance=0.3)
    x, new = truth.sample(400, seed=1), truth.sample(300, seed=2)
    linear, alone = (
        MaskedRegressorDensity(e, random_state=0).fit(x).evidence(new, DESIGN).log_evidence
        for e in (LinearRegression(), DummyRegressor())
    )
    assert alone + 0.3 < linear < truth.score_samples(new).mean() + 0.02


def test_a_search_finds_the_better_regressor(holed: np.ndarray) -> None:
    density = MaskedRegressorDensity(n_masks=2, cv=2, random_state=0)
    grid = {"estimator": [DummyRegressor(), LinearRegression()]}
    search = GridSearchCV(density, grid, cv=2, scoring=evidence_scorer(DESIGN)).fit(holed)
    assert isinstance(search.best_params_["estimator"], LinearRegression)
    assert search.best_estimator_.score(holed) == pytest.approx(search.best_score_, abs=1.0)


@pytest.mark.parametrize(
    ("given", "places"),
    [
        ([True, False, False], [0]),
        (np.array([False, False, True]), [2]),
        ([False, False, False], []),
        ([], []),
        ([2, 0], [0, 2]),
        (1, [1]),
    ],
)
def test_columns_of_categories_are_named_as_for_scikit_learn(given: object, places: list[int]) -> None:
    """A mask was read as the positions 1 and 0."""
    x = np.random.default_rng(0).integers(3, size=(40, 3)).astype(float)
    estimators = {"estimator": DummyRegressor(), "classifier": DummyClassifier()}
    density = MaskedRegressorDensity(**estimators, categorical_features=given, cv=2).fit(x)
    assert (
        density.base_measure
        == MaskedRegressorDensity(**estimators, categorical_features=places or None, cv=2).fit(x).base_measure
    )
    classes = [type(column).__name__ for column in density.columns_]
    assert classes == ["CategoryDensity" if j in places else "NumberDensity" for j in range(3)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([True, False], r"as a boolean mask should have shape \(3,\), got: \(2,\)"),
        ([3], r"must be in \[0, n_features - 1\]; there are 3 features, got: \[3\]"),
        ([-1], r"must be in \[0, n_features - 1\]"),
        ([1.5], "must be an array-like of bool, int or str, got: float64"),
        (["size"], "A given column is not a column of the dataframe: 'size'"),
    ],
)
def test_columns_of_categories_that_do_not_exist(given: object, words: str) -> None:
    x = np.random.default_rng(0).integers(3, size=(40, 3)).astype(float)
    with pytest.raises(ValueError, match=words):
        MaskedRegressorDensity(DummyRegressor(), categorical_features=given).fit(x)


def test_the_mask_of_a_masked_array_counts(holed: np.ndarray) -> None:
    masked = np.ma.masked_array(np.where(np.isnan(holed), 1e6, holed), np.isnan(holed))
    density = MaskedRegressorDensity(LinearRegression(), cv=2, random_state=0)
    found = [density.fit(x).score(x) for x in (holed, masked)]
    assert found[0] == found[1]
    categories = np.ma.masked_array(np.round(masked), masked.mask)
    density.set_params(classifier=DummyClassifier(), categorical_features=[0])
    density.fit(categories)
    assert density.columns_[0].__class__.__name__ == "CategoryDensity"
    assert density._categories[0] == len(np.unique(np.round(holed[~np.isnan(holed[:, 0]), 0])))
    filled = [
        MaskedImputer(density.set_params(categorical_features=None)).fit_transform(x) for x in (holed, masked)
    ]
    np.testing.assert_array_equal(*filled)


def test_categories_have_probabilities_that_sum_to_one(mixed: pd.DataFrame) -> None:
    density = MaskedRegressorDensity(
        DecisionTreeRegressor(max_depth=2),
        classifier=DecisionTreeClassifier(max_depth=2),
        categorical_features=["kind", "colour"],
        random_state=0,
    ).fit(mixed)
    one = mixed.iloc[[1]]
    for column, categories in (("kind", ["large", "small"]), ("colour", ["red", "green", "blue"])):
        tokens = [density.tokens(one.assign(**{column: category})) for category in categories]
        place = list(mixed.columns).index(column)
        masked = torch.zeros(1, 3, dtype=torch.bool)
        masked[0, place] = True
        log_p = [density.log_conditionals(t, masked)[0, place].item() for t in tokens]
        assert np.exp(log_p).sum() == pytest.approx(1.0, rel=1e-12)
    estimate = density.evidence(mixed, DESIGN)
    assert estimate.base_measure == "density per unit of each column of numbers, mass of each of 2 categories"
    guess = MaskedRegressorDensity(
        DummyRegressor(), classifier=DummyClassifier(), categorical_features=[1, 2], random_state=0
    ).fit(mixed)
    assert estimate.log_evidence > guess.evidence(mixed, DESIGN).log_evidence + 0.3


def test_a_category_that_a_fold_does_not_have_keeps_a_probability() -> None:
    x = np.array([["a", "u"]] * 20 + [["b", "v"]] * 19 + [["c", "v"]], dtype=object)
    density = MaskedRegressorDensity(
        classifier=DecisionTreeClassifier(), categorical_features=[0, 1], cv=2, random_state=0
    ).fit(x)
    estimate = density.evidence(x)
    assert np.isfinite(estimate.log_evidence)
    assert estimate.base_measure == me.model.MASS


def test_a_regressor_fills_holes_with_error_bars(holed: np.ndarray) -> None:
    density = MaskedRegressorDensity(LinearRegression(), n_masks=2, cv=2, random_state=0)
    imputer = MaskedImputer(density, cv=2, random_state=0).fit(holed)
    low, high = imputer.intervals(holed)
    missing = np.isnan(holed)
    assert (low[missing] < high[missing]).all()
    assert imputer.residuals_.spread(0) == pytest.approx(1.0, abs=0.25)


def test_bad_tables_are_refused_in_one_line(holed: np.ndarray, mixed: pd.DataFrame) -> None:
    constant = np.where(np.arange(4) == 1, 3.0, holed)
    with pytest.raises(ValueError, match="needs two different values of every feature; 'x1' has"):
        MaskedRegressorDensity(LinearRegression()).fit(constant)
    with pytest.raises(ValueError, match="could not convert string to float"):
        MaskedRegressorDensity(LinearRegression()).fit(mixed)
    with pytest.raises(ValueError, match="A given column is not a column of the dataframe: 'age'"):
        MaskedRegressorDensity(categorical_features=["age"]).fit(mixed)
    with pytest.raises(ValueError, match="n_masks == 0, must be >= 1"):
        MaskedRegressorDensity(n_masks=0).fit(holed)
    density = MaskedRegressorDensity(
        DummyRegressor(), classifier=DummyClassifier(), categorical_features=["kind", "colour"]
    ).fit(mixed)
    with pytest.raises(ValueError, match=r"Found unknown categories \['huge'\] in column 0 during transform"):
        density.evidence(mixed.assign(kind="huge"))
    with pytest.raises(me.InputError, match="categories have no mean and variance"):
        density.impute(mixed)
