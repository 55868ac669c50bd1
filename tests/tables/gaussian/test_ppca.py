"""PPCA: maximum likelihood in closed form, agreement with scikit-learn, and data that cannot be fitted."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

import maskevidence as me


def digits() -> np.ndarray:
    """scikit-learn's 1797 digits of 8×8 pixels, without the three pixels that are always 0."""
    x = load_digits().data
    return x[:, x.std(0) > 0]


@pytest.mark.parametrize("n_components", [1, 10, pytest.param(60, marks=pytest.mark.slow)])
def test_digits_are_scored_as_scikit_learn_scores_them(n_components: int) -> None:
    x = digits()
    assert x.shape == (1797, 61)
    ours = me.models.PPCA(61, n_components).fit(x, ddof=1).score_samples(x)
    theirs = PCA(n_components, svd_solver="full").fit(x).score_samples(x)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6)


def test_the_fit_is_the_maximum_of_the_likelihood() -> None:
    """The gradient is 0, no value nearby is better, and the leading sample eigenvalues are kept."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 6)) @ rng.normal(size=(6, 6)) + 3
    model = me.models.PPCA(6, 2).fit(x)
    best = model.score_samples(x).mean()
    model.log_evidence(model.tokens(x)).mean().backward()
    for parameter in model.parameters():
        assert parameter.grad.abs().max() < 1e-12
        with torch.no_grad():
            old = parameter.clone()
            parameter.add_(0.01 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0)))
            assert model.score_samples(x).mean() < best
            parameter.copy_(old)
    sample = np.linalg.eigvalsh(np.cov(x.T, ddof=0))
    fitted = np.linalg.eigvalsh(model.covariance.detach().numpy())
    np.testing.assert_allclose(fitted[-2:], sample[-2:], rtol=1e-10)
    np.testing.assert_allclose(fitted[:4], sample[:4].mean(), rtol=1e-10)


def test_fewer_rows_than_columns_can_be_fitted() -> None:
    x = np.random.default_rng(0).normal(size=(5, 12))
    model = me.models.PPCA(12, 2).fit(x)
    eigenvalues = np.sort(np.linalg.eigvalsh(np.cov(x.T, ddof=0)))
    assert model.noise_variance.item() == pytest.approx(eigenvalues[:10].mean(), rel=1e-9)
    assert np.isfinite(model.score_samples(x)).all()


@pytest.mark.parametrize("scale", [0.1, 1 / 3, 0.7])
@pytest.mark.parametrize("n_features", [5, 8, 9])
def test_equal_eigenvalues_leave_no_component(n_features: int, scale: float) -> None:
    """Points on the axes: all directions are alike; rounding must not give a root of a negative number."""
    x = np.concatenate([np.eye(n_features), -np.eye(n_features)]) * scale
    model = me.models.PPCA(n_features, 2).fit(x)
    np.testing.assert_allclose(
        model.covariance.detach(), np.eye(n_features) * scale**2 / n_features, atol=1e-9
    )


def test_the_seed_fixes_the_initial_loadings() -> None:
    first, again, other = (me.models.PPCA(4, 2, seed=seed).loadings for seed in (1, 1, 2))
    assert bool((first == again).all())
    assert not bool((first == other).any())


def test_known_parameters_are_kept() -> None:
    loadings = torch.tensor([[1.0], [2.0], [0.0]], dtype=torch.float64)
    model = me.models.PPCA.from_parameters(loadings, 0.25, torch.tensor([1.0, 0.0, -1.0]))
    expected = loadings @ loadings.T + 0.25 * torch.eye(3)
    torch.testing.assert_close(model.covariance, expected, rtol=1e-14, atol=1e-15)
    assert model.mean.tolist() == [1.0, 0.0, -1.0]
    assert (model.n_features, model.n_components) == (3, 1)


def test_data_of_too_few_dimensions_leave_no_noise() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 5))
    with pytest.raises(me.NumericalError, match=r"space of 2 dimensions or fewer.*use fewer components"):
        me.models.PPCA(5, 2).fit(x)
    assert me.models.PPCA(5, 1).fit(x).noise_variance.item() > 0


def _overflowing() -> torch.Tensor:
    """An error of torch.linalg, which the command line would call internal."""
    model = me.models.PPCA(3, 2)
    with torch.no_grad():
        model.loadings.fill_(1e300)
    return model.log_evidence(me.Tokens.from_array(np.zeros((2, 3))))


def _noise(variance: float) -> me.models.PPCA:
    return me.models.PPCA.from_parameters(torch.ones(3, 1), variance)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: me.models.PPCA(4, 0), me.InputError, "n_components=0 with n_features=4"),
        (lambda: me.models.PPCA(4, 4), me.InputError, "n_components=4 with n_features=4"),
        (lambda: _noise(0.0), me.InputError, "give a positive variance"),
        (lambda: _noise(-1.0), me.InputError, "give a positive variance"),
        (lambda: _noise(math.nan), me.InputError, "give a positive variance"),
        (
            lambda: me.models.PPCA(6, 3).fit(np.eye(3, 6)),
            me.InputError,
            "3 rows are too few for 3 components; give",
        ),
        (_overflowing, me.NumericalError, "extremely large or small parameters"),
    ],
)
def test_what_cannot_be_a_model_is_refused(
    call: Callable[[], object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
