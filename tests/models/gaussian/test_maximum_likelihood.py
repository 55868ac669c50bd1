"""Fits with missing values: fixed points of EM are maxima of the exact likelihood of the observed values."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import maskevidence as me
from maskevidence.models.gaussian import maximum_likelihood
from maskevidence.models.gaussian.expectation_maximisation import fit_full_em, fit_low_rank_em
from maskevidence.models.gaussian.maximum_likelihood import LowRankParameters
from oracles import GaussianModel, parameters_of

NEW: dict[str, Callable[[int], GaussianModel]] = {
    "Gaussian": lambda d: me.models.Gaussian(n_features=d),
    "PPCA": lambda d: me.models.PPCA(d, 2),
    "FactorAnalysis": lambda d: me.models.FactorAnalysis(d, 2),
}
models = pytest.mark.parametrize("new", NEW.values(), ids=NEW)


LOADINGS = np.array([[1, 0], [1, 0.3], [0.8, -0.5], [0, 1], [0.3, 1], [-0.5, 0.9], [0.7, 0.7]])
D = len(LOADINGS)


def table(n_rows: int = 250, share: float = 0.25, seed: int = 0) -> np.ndarray:
    """Rows of two factors with several columns each, a share of the values missing, at least one left a row.

    With fewer rows or weaker factors the maximum of factor analysis is at a noise of 0, where no gradient can
    be tested.
    """
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(n_rows, D)) * rng.uniform(0.6, 1.2, D)
    x = rng.normal(size=(n_rows, 2)) @ (1.5 * LOADINGS.T) + noise + 1
    holes = rng.random(x.shape) < share
    holes[np.arange(n_rows), rng.integers(D, size=n_rows)] = False
    return np.where(holes, np.nan, x)


@models
def test_the_fit_has_no_gradient(new: Callable) -> None:
    """Autograd through the closed form of the observed values, with holes of every pattern."""
    x = table()
    model = new(D).fit(x, tolerance=1e-14)
    model.log_evidence(model.tokens(x)).mean().backward()
    for parameter in model.parameters():
        assert parameter.grad.abs().max() < 1e-5


@models
def test_the_likelihood_never_falls_and_is_that_of_the_model(
    new: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log evidence of EM rises at every step, and is the mean of `score_samples` at the end."""
    seen: list[float] = []
    climb = maximum_likelihood.climb

    def watched(step: Callable, *rest: object) -> object:
        def watched_step(state: object) -> tuple[object, float]:
            following, log_evidence = step(state)
            seen.append(log_evidence)
            return following, log_evidence

        return climb(watched_step, *rest)

    monkeypatch.setattr(maximum_likelihood, "climb", watched)
    x = table()
    model = new(D).fit(x, tolerance=1e-10)
    assert len(seen) > 5
    assert (np.diff(seen) > -1e-12).all()
    assert model.score_samples(x).mean() == pytest.approx(seen[-1], abs=1e-9)


@models
def test_the_fit_beats_the_truth_and_a_fit_to_filled_holes(new: Callable) -> None:
    model = new(D)
    truth = new(D).fit(np.nan_to_num(table(share=0.0)))
    x = truth.sample(300, seed=1)
    x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
    x = x[~np.isnan(x).all(1)]
    fitted = model.fit(x).score_samples(x).mean()
    assert fitted > truth.score_samples(x).mean()
    filled = new(D).fit(np.where(np.isnan(x), np.nanmean(x, axis=0), x))
    assert fitted > filled.score_samples(x).mean()


@models
def test_a_shift_of_the_data_shifts_only_the_mean(new: Callable) -> None:
    x, shift = table(), np.array([1e6, -3.0, 0.0, 50.0, 1e4, 0.1, 7.0])
    plain, shifted = new(D).fit(x, tolerance=1e-10), new(D).fit(x + shift, tolerance=1e-10)
    (mean, covariance), (new_mean, new_covariance) = parameters_of(plain), parameters_of(shifted)
    np.testing.assert_allclose(new_mean, mean + shift, atol=1e-4)
    np.testing.assert_allclose(new_covariance, covariance, atol=1e-4)


@models
def test_a_single_hole_changes_the_fit_little(new: Callable) -> None:
    x = table(share=0.0)
    whole = new(D).fit(x, tolerance=1e-12)
    x[0, 0] = np.nan
    holed = new(D).fit(x, tolerance=1e-12)
    difference = (holed.covariance - whole.covariance).detach().abs().max()
    assert 0 < difference < 0.1


class TestCompleteTables:
    """EM for complete data, where the closed form is known."""

    def test_full_covariance(self) -> None:
        x = table(share=0.0)
        mean, covariance = fit_full_em(x, 1e-14, 1000)
        np.testing.assert_allclose(mean, x.mean(0), rtol=1e-10)
        np.testing.assert_allclose(covariance, np.cov(x.T, ddof=0), rtol=1e-9)

    def test_ppca(self) -> None:
        x = table(share=0.0)
        expected = me.models.PPCA(D, 2).fit(x)
        rng = np.random.default_rng(3)
        start = LowRankParameters(np.zeros(D), rng.normal(size=(D, 2)), np.ones(D))
        found = fit_low_rank_em(x, start, 1e-15, 100_000, isotropic=True)
        np.testing.assert_allclose(found.mean, x.mean(0), atol=1e-5)
        covariance = found.loadings @ found.loadings.T + np.diag(found.noise)
        np.testing.assert_allclose(covariance, expected.covariance.detach(), atol=1e-5)

    def test_factor_analysis(self) -> None:
        x = table(share=0.0)
        expected = me.models.FactorAnalysis(D, 2).fit(x, tolerance=1e-15)
        rng = np.random.default_rng(3)
        start = LowRankParameters(np.zeros(D), rng.normal(size=(D, 2)), np.ones(D))
        found = fit_low_rank_em(x, start, 1e-14, 100_000, isotropic=False)
        covariance = found.loadings @ found.loadings.T + np.diag(found.noise)
        np.testing.assert_allclose(covariance, expected.covariance.detach(), atol=1e-4)


class TestRefusals:
    @models
    def test_a_column_observed_nowhere(self, new: Callable) -> None:
        x = table()
        x[:, 2] = np.nan
        with pytest.raises(me.InputError, match="column 2 has no observed value; leave it out"):
            new(D).fit(x)

    @models
    def test_a_row_without_values(self, new: Callable) -> None:
        x = table()
        x[7] = np.nan
        with pytest.raises(me.InputError, match="row 7 has no observed value; leave such rows out"):
            new(D).fit(x)

    @models
    def test_no_convergence_names_the_last_rise(self, new: Callable) -> None:
        with pytest.raises(me.NumericalError, match="did not converge in 3 iterations") as caught:
            new(D).fit(table(), tolerance=1e-15, max_iterations=3)
        rise = float(str(caught.value).split("by ")[1].split(" nats")[0])
        assert 1e-15 < rise < 1

    @models
    @pytest.mark.parametrize(("tolerance", "iterations"), [(0.0, 10), (-1.0, 10), (1e-7, 0), (1e-7, 1)])
    def test_impossible_options(self, new: Callable, tolerance: float, iterations: int) -> None:
        with pytest.raises(me.InputError, match=f"tolerance=.*, max_iterations={iterations}"):
            new(D).fit(table(), tolerance=tolerance, max_iterations=iterations)

    @models
    def test_columns_that_are_all_constant(self, new: Callable) -> None:
        x = np.ones((10, D)) * np.arange(D)
        x[0, 0] = np.nan
        with pytest.raises(me.InputError, match="every column is constant; there is nothing to fit"):
            new(D).fit(x)

    @pytest.mark.parametrize("kind", ["constant", "copy", "sum", "few rows"])
    def test_a_full_covariance_that_becomes_singular(self, kind: str) -> None:
        x = table(n_rows=4 if kind == "few rows" else 60)
        if kind == "constant":
            x[:, 1] = np.where(np.isnan(x[:, 1]), np.nan, 2.0)
            x[np.isnan(x).all(1), 1] = 2.0
        elif kind == "copy":
            x[:, 1] = x[:, 0] = np.random.default_rng(0).normal(size=60)
        elif kind == "sum":
            x = table(n_rows=60, share=0.0)
            x[:, 1] = x[:, 0] - x[:, 2]
            x[0, 4] = np.nan
        with pytest.raises(me.NumericalError, match=r"smallest eigenvalue is .*; leave out"):
            me.models.Gaussian(n_features=D).fit(x)

    def test_fewer_rows_than_components(self) -> None:
        for new in (me.models.PPCA, me.models.FactorAnalysis):
            with pytest.raises(me.InputError, match="4 rows are too few for 4 components"):
                new(D, 4).fit(table(n_rows=4))


def test_a_fit_that_fails_leaves_the_parameters_unchanged() -> None:
    model = me.models.PPCA(D, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(me.NumericalError):
        model.fit(table(), tolerance=1e-15, max_iterations=3)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
