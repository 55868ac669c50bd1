"""Factor analysis: scikit-learn's fit and ours, and the lower bound of the noise variances."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import FactorAnalysis as SklearnFactorAnalysis

import maskevidence as me
from maskevidence.core.errors import ConvergenceWarning

LOADINGS = torch.tensor([[1, 0], [1, 0.3], [0.8, -0.5], [0, 1], [0.3, 1], [-0.5, 0.9], [0.7, 0.7]])
TRUTH = me.models.FactorAnalysis.from_parameters(1.5 * LOADINGS, torch.linspace(0.3, 2.0, 7))


def varied(n_rows: int = 300, seed: int = 0) -> np.ndarray:
    """Rows of a factor model with noise of different variances."""
    return TRUTH.sample(n_rows, seed=seed) + 2


def test_digits_under_scikit_learns_parameters_and_under_ours() -> None:
    """Equal parameters give equal scores, and our fit is at least as good as theirs, but not much better."""
    x = load_digits().data[:500]
    x = x[:, x.std(0) > 0]
    theirs = SklearnFactorAnalysis(3, random_state=0).fit(x)
    model = me.models.FactorAnalysis.from_parameters(
        torch.from_numpy(theirs.components_.T.copy()),
        torch.from_numpy(theirs.noise_variance_),
        torch.from_numpy(theirs.mean_),
    )
    np.testing.assert_allclose(model.score_samples(x), theirs.score_samples(x), rtol=0, atol=1e-6)
    ours = me.models.FactorAnalysis(x.shape[1], 3).fit(x)
    gain = ours.score_samples(x).mean() - theirs.score_samples(x).mean()
    assert -1e-6 < gain < 1e-3
    assert ours.bounded == []


def test_the_fit_has_no_gradient() -> None:
    x = varied()
    model = me.models.FactorAnalysis(7, 2).fit(x, tolerance=1e-14)
    assert model.bounded == []
    model.log_evidence(model.tokens(x)).mean().backward()
    for parameter in model.parameters():
        assert parameter.grad.abs().max() < 1e-5


def test_the_fit_is_better_than_the_truth_and_than_ppca() -> None:
    """Maximum likelihood beats the true parameters, and the special case of equal noise variances."""
    x = TRUTH.sample(300, seed=1)
    fitted = me.models.FactorAnalysis(7, 2).fit(x).score_samples(x).mean()
    assert fitted > TRUTH.score_samples(x).mean()
    assert fitted > me.models.PPCA(7, 2).fit(x).score_samples(x).mean()


def test_ppca_with_little_noise_is_within_the_bound() -> None:
    """Breast-cancer with 29 factors: the noise of PPCA is 1.3e-4 of each column's variance."""
    datasets = pytest.importorskip("sklearn.datasets", reason="the extra sklearn is not installed")
    x = datasets.load_breast_cancer().data
    x = (x - x.mean(0)) / x.std(0)
    ppca, ours = (model(30, 29).fit(x) for model in (me.models.PPCA, me.models.FactorAnalysis))
    assert ours.score_samples(x).mean() > ppca.score_samples(x).mean() - 1e-6


@pytest.mark.parametrize("holes", [False, True])
def test_noise_stops_at_its_share_of_the_variance_and_is_reported(holes: bool) -> None:
    """Two nearly equal columns: without a bound the likelihood has no maximum."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 5))
    x[:, 1] = x[:, 0] + 1e-4 * rng.normal(size=100)
    if holes:
        x[:10, 3] = np.nan
    model = me.models.FactorAnalysis(5, 1).fit(x)
    assert model.bounded
    assert set(model.bounded) <= {0, 1}
    noise = model.noise_variances.detach().numpy()
    variance = np.nanvar(x, axis=0)
    np.testing.assert_allclose(noise[model.bounded], 1e-4 * variance[model.bounded], rtol=1e-9)
    assert (noise >= 1e-4 * variance * (1 - 1e-12)).all()


def test_no_convergence_names_the_last_rise() -> None:
    with pytest.warns(ConvergenceWarning, match=r"did not converge in 2 iterations: .* by \d.*e?.* of its"):
        me.models.FactorAnalysis(7, 2).fit(varied(), tolerance=1e-15, max_iterations=2)


def _with_noise(*noise: float) -> me.models.FactorAnalysis:
    return me.models.FactorAnalysis.from_parameters(torch.ones(3, 1), torch.tensor(noise))


ONE_EACH = "one positive number for each row of the loadings"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: me.models.FactorAnalysis(7, 2).fit(varied() * [1, 1, 1, 1, 0, 1, 1]),
            "column 4 does not vary, its variance",
        ),
        (lambda: _with_noise(1.0, 1.0), ONE_EACH),
        (lambda: _with_noise(1.0, 1.0, 0.0), ONE_EACH),
        (lambda: _with_noise(1.0, 1.0, -1.0), ONE_EACH),
        (lambda: me.models.FactorAnalysis(3, 0), "n_components=0 with n_features=3"),
        (lambda: me.models.FactorAnalysis(3, 3), "n_components=3 with n_features=3"),
    ],
)
def test_what_cannot_be_a_model_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(me.InputError, match=message):
        call()
