"""Missing values drawn jointly given the observed ones: their moments and probabilities in closed form."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chi2, multivariate_normal

import maskevidence as me
from builders import BuildModel
from latent_models import linear_vae, loadings
from oracles import condition, parameters_of

NAN = float("nan")
N = 4000


def drawn_again_and_again(model: Any, row: np.ndarray) -> np.ndarray:
    """The missing values of one row in many draws, shape (N, m); the observed ones stay as they are."""
    (tables,) = model.draw_missing(np.tile(row, (N, 1)), draws=1, seed=3)
    seen = ~np.isnan(row)
    np.testing.assert_array_equal(tables[:, seen], np.broadcast_to(row[seen], (N, seen.sum())))
    return tables[:, ~seen]


def check_moments(drawn: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> None:
    """z-tests on every mean and on every entry of the covariance, by the draws' own fourth moments."""
    off = (drawn.mean(0) - mean) / (drawn.std(0) / np.sqrt(N))
    assert np.abs(off).max() < 4
    products = (drawn - mean)[:, :, None] * (drawn - mean)[:, None, :]
    off = (products.mean(0) - covariance) / (products.std(0) / np.sqrt(N))
    assert np.abs(off).max() < 4


def test_draws_have_the_joint_moments_of_block_matrices(build: BuildModel) -> None:
    model = build(n_features=6, seed=3)
    row = model.sample(1, seed=1)[0]
    row[[0, 2, 5]] = NAN
    missing = np.isnan(row)
    mean, covariance = condition(*parameters_of(model), row, ~missing)
    block = covariance[np.ix_(missing, missing)]
    correlation = block / np.sqrt(np.outer(np.diag(block), np.diag(block)))
    assert np.abs(correlation - np.eye(3)).max() > 0.1  # draws from the marginals would fail
    check_moments(drawn_again_and_again(model, row), mean[missing], block)


def test_draws_of_a_mixture_of_kernels_have_its_joint_moments() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(25, 1)) * [1.0, 1.0, -1.0, 0.5] + 0.3 * rng.normal(size=(25, 4))
    model = me.models.KernelGaussian(4, 1).fit(x, shrinkage=0.2, bandwidth=0.5)
    row = np.array([0.3, NAN, NAN, 0.4])
    missing = np.isnan(row)
    h, sigma = float(model.bandwidth.detach()), model.gaussian.covariance.detach().numpy()
    centres = (model.gaussian.mean + np.sqrt(1 - h**2) * model.centres).detach().numpy()
    seen_block = h**2 * sigma[np.ix_(~missing, ~missing)]
    weight = np.array([multivariate_normal(c[~missing], seen_block).pdf(row[~missing]) for c in centres])
    weight /= weight.sum()
    parts = [condition(c, h**2 * sigma, row, ~missing) for c in centres]
    means, within = np.array([m[missing] for m, _ in parts]), parts[0][1][np.ix_(missing, missing)]
    mean = weight @ means
    between = (weight[:, None] * (means - mean)).T @ (means - mean)
    check_moments(drawn_again_and_again(model, row), mean, within + between)


def test_draws_of_a_vae_with_a_linear_decoder_have_the_moments_of_ppca() -> None:
    vae, ppca = linear_vae(loadings(), conditioning=me.models.ImportanceSampling(draws=200, prior_draws=50))
    row = ppca.sample(1, seed=3)[0]
    row[[1, 4]] = NAN
    missing = np.isnan(row)
    mean, covariance = condition(*parameters_of(ppca), row, ~missing)
    check_moments(drawn_again_and_again(vae, row), mean[missing], covariance[np.ix_(missing, missing)])


@pytest.mark.parametrize("integration", [me.models.Grid(20, 5.0), me.models.Importance()])
def test_draws_of_0_and_1_have_their_joint_probabilities(integration: Any) -> None:
    w = torch.tensor([[2.0, 0.0], [3.0, 1.0], [2.0, 1.0], [3.0, -1.0], [1.0, 2.0]]).double()
    model = me.models.BernoulliPCA.from_parameters(w, torch.zeros(5).double(), integration=integration)
    row = np.array([1.0, NAN, 0.0, NAN, 1.0])
    drawn = drawn_again_and_again(model, row)
    filled = np.array([[1, a, 0, b, 1] for a in (0, 1) for b in (0, 1)], dtype=float)
    probability = np.exp(model.score_samples(filled) - model.score_samples(row[None]))
    assert probability.sum() == pytest.approx(1, abs=1e-3)
    counts = np.bincount((2 * drawn[:, 0] + drawn[:, 1]).astype(int), minlength=4)
    distance = ((counts - N * probability) ** 2 / (N * probability)).sum()
    assert distance < chi2.ppf(0.9999, 3)
    one, other = drawn.mean(0)
    apart = N * np.outer([1 - one, one], [1 - other, other]).ravel()
    assert ((counts - apart) ** 2 / apart).sum() > chi2.ppf(0.9999, 1)  # they are not independent


MODELS = {
    "Gaussian": lambda x: me.models.Gaussian(n_features=3).fit(x),
    "PPCA": lambda x: me.models.PPCA(3, 1).fit(x),
    "FactorAnalysis": lambda x: me.models.FactorAnalysis(3, 1).fit(x),
    "KernelGaussian": lambda x: me.models.KernelGaussian(3, 1).fit(x),
    "VAE": lambda x: me.models.VAE(n_features=3, n_components=1, hidden=(4,)),
    "BernoulliPCA": lambda x: me.models.BernoulliPCA(3, 1),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_row_is_drawn_by_its_seed_and_number_alone(name: str) -> None:
    x = np.random.default_rng(1).integers(2, size=(12, 3)).astype(float)
    model = MODELS[name](x + (0 if name == "BernoulliPCA" else np.random.default_rng(2).normal(size=x.shape)))
    x[::2, 1] = NAN
    x[3] = NAN  # nothing is observed: drawn from the model
    five = model.draw_missing(x, draws=5, seed=4)
    assert five.shape == (5, 12, 3)
    assert not np.isnan(five).any()
    np.testing.assert_array_equal(model.draw_missing(x, draws=2, seed=4), five[:2])
    np.testing.assert_allclose(model.draw_missing(x[:5], draws=1, seed=4)[0], five[0, :5], rtol=1e-9)
    if name != "BernoulliPCA":
        assert len(np.unique(five[:, 0, 1])) == 5
        assert (model.draw_missing(x, seed=5)[0, 0, 1] != five[0, 0, 1]).all()


def test_what_cannot_be_drawn_is_an_error_in_one_line() -> None:
    model = me.models.Gaussian(n_features=2)
    with pytest.raises(me.InputError, match="draws=0; give a whole number of 1 or more"):
        me.draw_missing(model, [[1.0, NAN]], draws=0)
    with pytest.raises(me.InputError, match="row 0 has no observed value"):
        me.draw_missing(model, [[NAN, NAN]])
    with pytest.raises(me.InputError, match="Linear cannot draw missing values: it has no method"):
        me.draw_missing(torch.nn.Linear(2, 2), [[1.0, NAN]])


def test_rows_are_filled_some_at_a_time_and_those_without_holes_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 1)) + 0.5 * rng.normal(size=(50, 4))
    x[rng.random(x.shape) < 0.2] = NAN
    model = me.models.KernelGaussian(4, 1).fit(x, shrinkage=0.2, bandwidth=0.5)
    whole, drawn = model.impute(x), model.draw_missing(x, 2)
    asked = list[bool]()

    def counted(tokens: me.Tokens) -> Any:
        asked.extend(tokens.maskable.all(1).tolist())
        return type(model)._missing_moments(model, tokens)

    monkeypatch.setattr("maskevidence.tables.base._ROWS_AT_ONCE", 7)
    monkeypatch.setattr(model, "_missing_moments", counted)
    found = model.impute(x)
    np.testing.assert_allclose(found.values, whole.values, rtol=1e-12)
    np.testing.assert_allclose(found.variance, whole.variance, rtol=1e-9)
    np.testing.assert_allclose(model.draw_missing(x, 2), drawn, rtol=1e-12)
    assert len(asked) == np.isnan(x).any(1).sum()
    assert not any(asked)
