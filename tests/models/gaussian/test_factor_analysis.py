"""Factor analysis: scikit-learn's fit and ours, and the lower bound of the noise variances."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.decomposition import FactorAnalysis as SklearnFactorAnalysis

import maskevidence as me
from maskevidence.errors import ConvergenceWarning

LOADINGS = torch.tensor([[1, 0], [1, 0.3], [0.8, -0.5], [0, 1], [0.3, 1], [-0.5, 0.9], [0.7, 0.7]])
TRUTH = me.models.FactorAnalysis.from_parameters(1.5 * LOADINGS, torch.linspace(0.3, 2.0, 7))


def varied(n_rows: int = 300, seed: int = 0) -> np.ndarray:
    """Rows of a factor model with noise of different variances."""
    return TRUTH.sample(n_rows, seed=seed) + 2


def test_digits_under_scikit_learns_parameters_and_under_ours() -> None:
    """Equal parameters give equal scores, and our fit is at least as good as theirs, but not much better."""
    x = load_digits().data
    x = x[:, x.std(0) > 0]
    theirs = SklearnFactorAnalysis(3, random_state=0).fit(x)
    model = me.models.FactorAnalysis.from_parameters(
        torch.from_numpy(theirs.components_.T.copy()),
        torch.from_numpy(theirs.noise_variance_),
        torch.from_numpy(theirs.mean_),
    )
    np.testing.assert_allclose(model.score_samples(x), theirs.score_samples(x), rtol=0, atol=1e-6)
    ours = me.models.FactorAnalysis(61, 3).fit(x)
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


def test_units_of_columns_do_not_matter() -> None:
    x, units = varied(), np.array([1e-6, 1.0, 1e6, 3.0, 0.1, 10.0, 100.0])
    plain, scaled = (me.models.FactorAnalysis(7, 2).fit(table) for table in (x, x * units))
    np.testing.assert_allclose(
        scaled.score_samples(x * units) + np.log(units).sum(), plain.score_samples(x), atol=1e-4
    )


def test_ppca_with_little_noise_is_within_the_bound() -> None:
    """Breast-cancer with 29 factors: the noise of PPCA is 1.3e-4 of each column's variance."""
    datasets = pytest.importorskip("sklearn.datasets", reason="the extra sklearn is not installed")
    x = datasets.load_breast_cancer().data
    x = (x - x.mean(0)) / x.std(0)
    ppca, ours = (model(30, 29).fit(x) for model in (me.models.PPCA, me.models.FactorAnalysis))
    assert ours.score_samples(x).mean() > ppca.score_samples(x).mean() - 1e-6


class TestBound:
    """Two nearly equal columns: without a bound the likelihood has no maximum."""

    def rows(self) -> np.ndarray:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(100, 5))
        x[:, 1] = x[:, 0] + 1e-4 * rng.normal(size=100)
        return x

    @pytest.mark.parametrize("holes", [False, True])
    def test_noise_stops_at_its_share_of_the_variance_and_is_reported(self, holes: bool) -> None:
        x = self.rows()
        if holes:
            x[:10, 3] = np.nan
        model = me.models.FactorAnalysis(5, 1).fit(x)
        assert model.bounded
        assert set(model.bounded) <= {0, 1}
        noise = model.noise_variances.detach().numpy()
        variance = np.nanvar(x, axis=0)
        np.testing.assert_allclose(noise[model.bounded], 1e-4 * variance[model.bounded], rtol=1e-9)
        assert (noise >= 1e-4 * variance * (1 - 1e-12)).all()


def test_rows_without_noise_beyond_the_factors_are_fitted() -> None:
    """PPCA, from which the fit starts, has no maximum there."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 5))
    assert me.models.FactorAnalysis(5, 3).fit(x).bounded


def test_a_constant_column_is_named() -> None:
    x = varied()
    x[:, 4] = 1.5
    with pytest.raises(me.InputError, match="column 4 is constant, its noise variance would be 0"):
        me.models.FactorAnalysis(7, 2).fit(x)


def test_no_convergence_names_the_last_rise() -> None:
    with pytest.warns(ConvergenceWarning, match=r"did not converge in 2 iterations: .* by \d.*e?.* of its"):
        me.models.FactorAnalysis(7, 2).fit(varied(), tolerance=1e-15, max_iterations=2)


@pytest.mark.parametrize("noise", [[1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0, -1.0]])
@pytest.mark.usefixtures("unchecked")
def test_noise_that_is_not_one_positive_number_per_feature_is_refused(noise: list) -> None:
    with pytest.raises(me.InputError, match="one positive number for each row of the loadings"):
        me.models.FactorAnalysis.from_parameters(torch.ones(3, 1), torch.tensor(noise))


@pytest.mark.parametrize("n_components", [0, 3, 4])
def test_an_impossible_number_of_components_is_refused(n_components: int) -> None:
    with pytest.raises(me.InputError, match=f"n_components={n_components} with n_features=3"):
        me.models.FactorAnalysis(3, n_components)
