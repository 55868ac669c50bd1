"""The estimators of scikit-learn: wrapped models, holes, pipelines, searches, and errors in its own words."""

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import maskevidence as me
from maskevidence import sklearn as estimators
from maskevidence.sklearn import PPCA, BernoulliPCA, FactorAnalysis, GaussianDensity
from oracles import condition

LOW_RANK = [PPCA(2), FactorAnalysis(2, tol=1e-4)]
GAUSSIAN = [*LOW_RANK, GaussianDensity()]


@pytest.fixture(scope="module")
def holed() -> np.ndarray:
    """120 rows of 5 columns from two factors; a fifth of the values is missing, and row 7 is empty."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 5)) + 0.4 * rng.normal(size=(120, 5))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[7] = np.nan
    return x


@pytest.fixture(scope="module")
def binary() -> np.ndarray:
    rng = np.random.default_rng(1)
    x = (rng.normal(size=(80, 1)) * [2.0, -1.0, 1.5, 0.5] > rng.normal(size=(80, 4))).astype(float)
    x[::7, 2] = np.nan
    x[3] = np.nan
    return x


def seen(x: np.ndarray) -> np.ndarray:
    return ~np.isnan(x).all(1)


@pytest.mark.filterwarnings("ignore:the noise variance of")  # a column of the complete rows
@pytest.mark.parametrize("estimator", GAUSSIAN, ids=repr)
def test_an_estimator_gives_the_numbers_of_its_model(estimator, holed: np.ndarray) -> None:
    fitted = clone(estimator).fit(holed)
    some = seen(holed)
    name = {"GaussianDensity": "Gaussian"}.get(type(estimator).__name__, type(estimator).__name__)
    k = {} if name == "Gaussian" else {"n_components": 2}
    model = getattr(me.models, name)(n_features=5, **k).fit(holed[some], tolerance=estimator.tol)
    np.testing.assert_allclose(fitted.score_samples(holed)[some], model.score_samples(holed[some]))
    assert fitted.score(holed) == pytest.approx(fitted.score_samples(holed).mean())
    np.testing.assert_allclose(fitted.mean_, model.mean.detach())
    np.testing.assert_array_equal(
        fitted.sample(3, random_state=4), fitted.model_.sample(3, estimators.density_base.seed_from(4))
    )
    assert fitted.n_iter_ == model.n_iterations > 1
    complete = clone(estimator).fit(np.nan_to_num(holed) + np.arange(600).reshape(120, 5) % 7)
    assert (complete.n_iter_ == 1) == (not isinstance(estimator, FactorAnalysis))


def test_factor_analysis_names_the_columns_whose_noise_is_at_its_bound() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    frame["b"] = frame["a"]
    with pytest.warns(
        UserWarning, match=r"of 2 of 4 columns is at its lower bound, 0.0001 .*: a, b; use fewer"
    ):
        FactorAnalysis(1).fit(frame)


@pytest.mark.parametrize("estimator", LOW_RANK, ids=repr)
def test_precision_and_explained_variance(estimator, holed: np.ndarray) -> None:
    fitted = clone(estimator).fit(holed)
    np.testing.assert_allclose(fitted.get_precision() @ fitted.get_covariance(), np.eye(5), atol=1e-9)
    if isinstance(estimator, PPCA):
        eigenvalues = np.linalg.eigvalsh(fitted.get_covariance())[::-1]
        np.testing.assert_allclose(fitted.explained_variance_, eigenvalues[:2])
    else:
        common = fitted.get_covariance() - np.diag(fitted.noise_variance_)
        assert fitted.explained_variance_.shape == (2,)
        assert fitted.explained_variance_.sum() == pytest.approx(np.trace(common))


def test_explained_variance_of_complete_rows_is_that_of_scikit_learns_pca() -> None:
    x = np.random.default_rng(0).normal(size=(50, 5)) * [1.0, 2.0, 3.0, 4.0, 5.0]
    theirs = PCA(2).fit(x)
    np.testing.assert_allclose(PPCA(2).fit(x).explained_variance_ * 50 / 49, theirs.explained_variance_)


@pytest.mark.parametrize("estimator", LOW_RANK, ids=repr)
def test_transform_is_the_posterior_mean_given_what_is_observed(estimator, holed: np.ndarray) -> None:
    """Against block matrices of the joint Gaussian of x and z."""
    fitted = clone(estimator).fit(holed)
    loadings = fitted.components_.T
    mean = np.concatenate([fitted.mean_, np.zeros(2)])
    covariance = np.block([[fitted.get_covariance(), loadings], [loadings.T, np.eye(2)]])
    found = fitted.transform(holed)
    for row, values in enumerate(holed):
        visible = np.append(~np.isnan(values), [False, False])
        expected = condition(mean, covariance, np.append(values, [0.0, 0.0]), visible)[0][5:]
        np.testing.assert_allclose(found[row], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fitted.inverse_transform(found), fitted.mean_ + found @ loadings.T)
    np.testing.assert_allclose(
        np.atleast_1d(fitted.noise_variance_).shape, (1,) if "PPCA" in repr(fitted) else (5,)
    )


def test_the_posterior_means_of_bernoulli_pca_are_those_of_a_fine_grid(binary: np.ndarray) -> None:
    fitted = BernoulliPCA(1, max_iter=20, random_state=0).fit(binary)
    z = np.linspace(-8, 8, 4001)[:, None]
    p = 1 / (1 + np.exp(-(z @ fitted.components_ + fitted.intercept_)))
    found = fitted.transform(binary)
    for row, values in enumerate(binary):
        there = ~np.isnan(values)
        weight = np.exp(-(z[:, 0] ** 2) / 2) * np.where(values == 1, p, 1 - p)[:, there].prod(1)
        assert found[row, 0] == pytest.approx(weight @ z[:, 0] / weight.sum(), abs=2e-3)
    np.testing.assert_allclose(fitted.inverse_transform(z[:3]), p[:3], rtol=1e-9)


def test_a_row_without_an_observed_value_gets_the_priors_answer(
    holed: np.ndarray, binary: np.ndarray
) -> None:
    for estimator, x, row in [*[(e, holed, 7) for e in GAUSSIAN], (BernoulliPCA(1, max_iter=5), binary, 3)]:
        fitted = clone(estimator).fit(x)
        assert fitted.score_samples(x)[row] == 0.0
        if hasattr(fitted, "transform"):
            np.testing.assert_array_equal(fitted.transform(x)[row], 0.0)
        estimate = fitted.evidence(x)
        assert estimate.n_observations == len(x) - 1
        assert "1 row without an observed value is left out" in estimate.notes


def test_the_evidence_is_that_of_the_closed_form(holed: np.ndarray) -> None:
    fitted = PPCA(2).fit(holed)
    estimate = fitted.evidence(holed, me.EverySize(8), seed=3)
    low, high = estimate.interval(0.999)
    assert low < fitted.score_samples(holed)[seen(holed)].mean() < high
    assert estimate.kind == "unbiased"


def test_a_search_over_components_with_holes_in_a_pipeline_with_pandas() -> None:
    """Two factors with four columns each, in different units; the search finds that there are two."""
    rng = np.random.default_rng(2)
    x = np.repeat(rng.normal(size=(150, 2)), 4, axis=1) + 0.5 * rng.normal(size=(150, 8))
    x[rng.random(x.shape) < 0.2] = np.nan
    frame = pd.DataFrame(x * 10.0 ** np.arange(8), columns=list("abcdefgh"), index=range(1000, 1150))
    pipeline = make_pipeline(StandardScaler(), PPCA(tol=1e-5)).set_output(transform="pandas")
    search = GridSearchCV(pipeline, {"ppca__n_components": [1, 2, 3, 4]}, cv=4).fit(frame)
    assert search.best_params_ == {"ppca__n_components": 2}
    latent = search.best_estimator_.transform(frame)
    assert list(latent.columns) == ["ppca0", "ppca1"]
    assert latent.index.equals(frame.index)
    fitted = search.best_estimator_[-1]
    assert fitted.model_.columns == list("abcdefgh") == list(fitted.feature_names_in_)
    assert fitted.n_features_in_ == 8


def test_the_scorer_ranks_models_by_the_estimated_evidence(holed: np.ndarray) -> None:
    scorer = estimators.evidence_scorer(me.EverySize(4))
    pipeline = make_pipeline(StandardScaler(), PPCA(tol=1e-5))
    search = GridSearchCV(pipeline, {"ppca__n_components": [1, 2]}, cv=3, scoring=scorer).fit(holed)
    assert search.best_params_ == {"ppca__n_components": 2}
    again = cross_val_score(PPCA(2, tol=1e-5), holed, cv=3, scoring=pickle.loads(pickle.dumps(scorer)))
    closed_form = cross_val_score(PPCA(2, tol=1e-5), holed, cv=3)
    np.testing.assert_allclose(again, closed_form, rtol=0.1)
    model = me.models.Gaussian(torch.zeros(2), torch.eye(2))
    assert scorer(model, [[0.0, 0.0]]) == pytest.approx(-np.log(2 * np.pi))


@pytest.mark.parametrize("estimator", [*GAUSSIAN, BernoulliPCA(1, max_iter=5)], ids=repr)
def test_fitted_estimators_are_pickled_saved_and_shown(estimator, binary: np.ndarray, tmp_path) -> None:
    x = (
        binary
        if isinstance(estimator, BernoulliPCA)
        else binary + np.random.default_rng(0).normal(size=(80, 4))
    )
    fitted = clone(estimator).fit(x)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.score_samples(x), fitted.score_samples(x))
    fitted.model_.save(tmp_path)
    loaded = me.models.load(tmp_path)
    np.testing.assert_allclose(loaded.score_samples(x[seen(x)]), fitted.score_samples(x)[seen(x)])
    assert repr(PPCA(n_components=3)) == "PPCA(n_components=3)"
    assert get_tags(fitted).input_tags.allow_nan


def test_a_random_state_decides_the_draws(holed: np.ndarray) -> None:
    fitted = PPCA(2, random_state=5).fit(holed)
    np.testing.assert_array_equal(fitted.sample(4), fitted.sample(4))
    assert fitted.sample(4).shape == (4, 5)
    assert (fitted.sample(4, random_state=6) != fitted.sample(4)).any()
    moving = PPCA(2, random_state=np.random.RandomState(0)).fit(holed)
    assert (moving.sample(4) != moving.sample(4)).any()


BAD = {
    "too many components": (PPCA(5), lambda x: x, r"n_components == 5, must be <= 4"),
    "no component": (BernoulliPCA(0), lambda x: (x > 0) * 1.0, r"n_components == 0, must be >= 1"),
    "an unseen column": (
        FactorAnalysis(),
        lambda x: np.where(np.arange(5) == 2, np.nan, x),
        r"FactorAnalysis needs at least one observed value of every feature; .* \['x2'\]. Leave them out",
    ),
    "infinity": (PPCA(), lambda x: np.where(np.arange(5) == 2, np.inf, x), "Input X contains infinity"),
    "text": (PPCA(), lambda x: np.full(x.shape, "red"), "could not convert string to float"),
    "grey values": (BernoulliPCA(), lambda x: x, "a Bernoulli model takes 0 and 1"),
    "few rows": (PPCA(4), lambda x: x[:4], "4 rows are too few for 4 components; give at least 5"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tables_are_refused_in_one_line(case: str, holed: np.ndarray) -> None:
    estimator, spoil, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        clone(estimator).fit(spoil(holed))


def test_other_columns_and_latent_means_of_another_model_are_refused(holed: np.ndarray) -> None:
    fitted = PPCA(2).fit(pd.DataFrame(holed, columns=list("abcde")))
    with pytest.raises(ValueError, match="The feature names should match those that were passed during fit"):
        fitted.transform(pd.DataFrame(holed, columns=list("abcdf")))
    with pytest.raises(ValueError, match="X has 3 features, but PPCA has 2 components"):
        fitted.inverse_transform(np.zeros((1, 3)))


def test_a_fit_that_fails_names_the_columns_of_the_frame() -> None:
    x = np.random.default_rng(0).normal(size=(80, 3))
    x[::7, 0], x[:, 2] = np.nan, 2 * x[:, 1]
    with pytest.raises(me.NumericalError, match=r"leave out column '(b|c)'"):
        GaussianDensity().fit(pd.DataFrame(x, columns=["a", "b", "c"]))
