"""Fits with missing values: the exact likelihood of the observed values has no larger value near them."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch

import maskevidence as me
import slow_em
from maskevidence.core.errors import ConvergenceWarning
from maskevidence.tables.gaussian import missing_values
from maskevidence.tables.gaussian.missing_values import FullLikelihood, LowRankLikelihood, gather_rows
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


@pytest.mark.parametrize(("share", "by_em"), [(0.1, True), (0.25, True), (0.5, False)])
def test_em_and_the_ascent_find_the_same_maximum(
    share: float, by_em: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With few holes EM ends, in fewer steps than the ascent; with many the ascent is as if alone."""
    x = table(share=share)
    fast = me.models.Gaussian(n_features=D).fit(x)
    monkeypatch.setattr(missing_values, "_EM_STEPS", 0)
    slow = me.models.Gaussian(n_features=D).fit(x)
    assert fast.score_samples(x).mean() == pytest.approx(slow.score_samples(x).mean(), abs=1e-9)
    torch.testing.assert_close(fast.covariance, slow.covariance, rtol=1e-3, atol=1e-4)
    assert (fast.n_iterations < slow.n_iterations) == by_em
    assert by_em or torch.equal(fast.covariance, slow.covariance)


@models
@pytest.mark.filterwarnings("ignore::maskevidence.core.errors.ConvergenceWarning")
def test_the_likelihood_never_falls(new: Callable) -> None:
    x = table()
    reached = [new(D).fit(x, max_iterations=n).score_samples(x).mean() for n in (2, 3, 4, 6, 9, 14, 30, 100)]
    assert (np.diff(reached) > -1e-12).all()
    assert reached[0] < reached[-1] - 1e-4


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


class TestAgainstEm:
    """The same maxima as a thousand steps of EM, at a hundredth of the steps."""

    X = table(n_rows=60, share=0.15)

    def test_full_covariance(self) -> None:
        start = np.nanmean(self.X, axis=0), np.diag(np.nanvar(self.X, axis=0))
        mean, covariance = slow_em.repeated(partial(slow_em.full_step, self.X), start, 120)
        fitted = me.models.Gaussian(n_features=D).fit(self.X)
        expected = slow_em.log_evidence(self.X, mean, covariance)
        assert fitted.score_samples(self.X).mean() == pytest.approx(expected, rel=1e-7)
        np.testing.assert_allclose(fitted.mean.detach(), mean, atol=2e-3)

    @pytest.mark.parametrize("isotropic", [True, False])
    def test_low_rank(self, isotropic: bool) -> None:
        model = me.models.PPCA if isotropic else me.models.FactorAnalysis
        mean, loadings, noise = np.nanmean(self.X, axis=0), 0.5 * LOADINGS, np.nanvar(self.X, axis=0) / 2
        step = partial(slow_em.low_rank_step, self.X, isotropic=isotropic)
        mean, loadings, noise = slow_em.repeated(step, (mean, loadings, noise), 120)
        expected = slow_em.log_evidence(self.X, mean, loadings @ loadings.T + np.diag(noise))
        fitted = model(D, 2).fit(self.X)
        assert fitted.score_samples(self.X).mean() == pytest.approx(expected, rel=1e-6)


class TestObjective:
    """The functions that are maximised, against the models' own densities and one step of EM."""

    X = table(n_rows=60) * 10.0 ** np.linspace(-2, 3, D)

    @pytest.mark.parametrize("isotropic", [True, False])
    def test_low_rank(self, isotropic: bool) -> None:
        rows, rng = gather_rows(self.X), np.random.default_rng(1)
        objective = LowRankLikelihood(rows, 2, isotropic=isotropic)
        point = np.concatenate([rng.normal(size=D * 3), rng.normal(size=1 if isotropic else D)])
        if isotropic:
            point[-1] += 5.0
        loadings, mean, noise = objective.parts(point)
        raw = mean * rows.scale + rows.shift, loadings * rows.scale[:, None], noise * rows.scale**2
        covariance = raw[1] @ raw[1].T + np.diag(raw[2])
        self.check(objective, point, slow_em.log_evidence(self.X, raw[0], covariance))
        found = objective(point)
        change = found.metric(found.gradient)
        step, error = (point + change)[: D * 3], self.error(*raw)
        n_seen = (~np.isnan(self.X)).sum(0)
        of_noise = (error / raw[2]).sum() / n_seen.sum() if isotropic else error / raw[2] / n_seen
        np.testing.assert_allclose(change[D * 3 :], of_noise - 1, rtol=1e-8)  # of EM: log(1 + x) is nearly x
        mean, loadings, _ = slow_em.low_rank_step(self.X, raw, isotropic=isotropic)
        np.testing.assert_allclose(step[: D * 2].reshape(D, 2), loadings / rows.scale[:, None], atol=1e-8)
        np.testing.assert_allclose(step[D * 2 :], (mean - rows.shift) / rows.scale, atol=1e-8)

    def test_full_covariance(self) -> None:
        rows, rng = gather_rows(self.X), np.random.default_rng(1)
        objective = FullLikelihood(rows)
        factor = np.tril(rng.normal(size=(D, D))) + 2 * np.eye(D)
        point = objective.point(rng.normal(size=D), factor)
        mean = objective.parts(point)[0] * rows.scale + rows.shift
        covariance = factor @ factor.T * np.outer(rows.scale, rows.scale)
        self.check(objective, point, slow_em.log_evidence(self.X, mean, covariance))
        found = objective(point)
        of_mean, of_factor = objective.parts(found.metric(found.gradient))
        new_mean, new = slow_em.full_step(self.X, (mean, covariance))
        whole = objective.em(objective.parts(point)[0], factor @ factor.T)
        np.testing.assert_allclose(whole[0] * rows.scale + rows.shift, new_mean, rtol=1e-9)
        np.testing.assert_allclose(whole[1] * np.outer(rows.scale, rows.scale), new, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(of_mean * rows.scale, new_mean - mean, rtol=1e-6)
        change = (of_factor @ factor.T + factor @ of_factor.T) * np.outer(rows.scale, rows.scale)
        expected = new + np.outer(new_mean - mean, new_mean - mean) - covariance  # about the old mean
        np.testing.assert_allclose(change, expected, rtol=1e-6, atol=1e-9 * np.abs(expected).max())

    def error(self, mean: np.ndarray, loadings: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """Σ E (x_j - μ_j - w_jᵀ z)² over the rows where j is observed, given the observed values of each."""
        total = np.zeros(D)
        for row in self.X:
            seen = ~np.isnan(row)
            scaled = loadings[seen] / noise[seen, None]
            covariance = np.linalg.inv(np.eye(2) + scaled.T @ loadings[seen])
            residual = row - mean - loadings @ (covariance @ scaled.T @ (row - mean)[seen])
            total += np.where(seen, residual**2 + ((loadings @ covariance) * loadings).sum(1), 0.0)
        return total

    def check(self, objective: Callable, point: np.ndarray, log_evidence: float) -> None:
        """Value against the slow density, gradient against differences."""
        found = objective(point)
        in_units = objective.rows.n_seen @ np.log(objective.rows.scale) / objective.rows.total
        assert found.value - in_units == pytest.approx(log_evidence, rel=1e-10)
        for j in range(len(point)):
            shift = np.zeros_like(point)
            shift[j] = 1e-5
            slope = (objective(point + shift).value - objective(point - shift).value) / 2e-5
            assert found.gradient[j] == pytest.approx(slope, rel=1e-5, abs=1e-8)


class TestUnits:
    """A fit does not depend on the units in which the columns are measured."""

    SCALE = 2.0 ** np.array([20, -10, 0, 7, -3, 13, 3])  # exact, so that no rounding differs

    @pytest.mark.parametrize("name", ["Gaussian", "FactorAnalysis"])
    @pytest.mark.parametrize("share", [0.0, 0.25])
    def test_of_each_column(self, name: str, share: float) -> None:
        x = table(share=share)
        (mean, covariance), (new_mean, new_covariance) = (
            parameters_of(NEW[name](D).fit(values)) for values in (x, x * self.SCALE)
        )
        np.testing.assert_allclose(new_mean, mean * self.SCALE, rtol=1e-9)
        np.testing.assert_allclose(new_covariance, covariance * np.outer(self.SCALE, self.SCALE), rtol=1e-6)

    def test_ppca_reaches_its_maximum_in_raw_units(self) -> None:
        """Spreads from 2⁻¹⁰ to 2²⁰: EM stopped 0.05 nats below the maximum."""
        x = table() * self.SCALE
        close = me.models.PPCA(D, 5).fit(x, tolerance=1e-13, max_iterations=20_000).score_samples(x).mean()
        assert me.models.PPCA(D, 5).fit(x).score_samples(x).mean() == pytest.approx(close, rel=1e-6)

    def test_a_constant_column_in_ppca(self) -> None:
        x = table()
        x[:, 3] = 7.0
        model = me.models.PPCA(D, 2).fit(x)
        assert model.mean[3].item() == pytest.approx(7.0)
        assert np.isfinite(model.score_samples(x)).all()


def low_rank() -> np.ndarray:
    """40 rows of two factors without noise, in columns of very different units, with holes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2)) @ LOADINGS.T * 10.0 ** np.arange(D)
    x[rng.random(x.shape) < 0.1] = np.nan
    return x[~np.isnan(x).all(1)]


def changed(**columns: object) -> pd.DataFrame:
    """A table with other values in some of the columns x0, x1, ..."""
    return pd.DataFrame(table(), columns=[f"x{j}" for j in range(D)]).assign(**columns)


def without_row_7() -> np.ndarray:
    x = table()
    x[7] = np.nan
    return x


CONSTANT = np.ones((10, D)) * np.arange(D)
CONSTANT[0, 0] = np.nan
REFUSED: list[tuple[Callable[[], object], dict[str, float], str]] = [
    (lambda: changed(x2=np.nan).to_numpy(), {}, "column 2 has no observed value; leave it out"),
    (lambda: changed(x2=np.nan), {}, "column 'x2' has no observed value; leave it out"),
    (lambda: changed(x2=0.5, x1=changed()["x1"] * 1e200), {}, "column 'x1' reaches"),
    (without_row_7, {}, "row 7 has no observed value; leave such rows out"),
    (lambda: CONSTANT, {}, "every column is constant; there is nothing to fit"),
    (table, {"tolerance": 0.0, "max_iterations": 10}, "tolerance=.*, max_iterations=10"),
    (table, {"tolerance": -1.0, "max_iterations": 10}, "tolerance=.*, max_iterations=10"),
    (table, {"max_iterations": 1}, "tolerance=.*, max_iterations=1"),
]


@models
@pytest.mark.parametrize(("rows", "options", "message"), REFUSED)
def test_tables_and_options_that_no_fit_takes(
    new: Callable, rows: Callable[[], object], options: dict[str, float], message: str
) -> None:
    with pytest.raises(me.InputError, match=message):
        new(D).fit(rows(), **options)


@models
def test_no_convergence_is_a_warning_that_names_the_last_rise(new: Callable) -> None:
    with pytest.warns(ConvergenceWarning, match="did not converge in 3 iterations") as caught:
        model = new(D).fit(table(), max_iterations=3)
    rise = float(str(caught[0].message).split("by ")[1].split(" of its size")[0])
    assert 1e-7 < rise < 1
    assert np.isfinite(model.score_samples(table())).all()


def singular(kind: str) -> np.ndarray:
    x = table(n_rows=60, share=0.0 if kind == "sum" else 0.25)
    if kind == "constant":
        x[:, 1] = 2.0
    elif kind == "copy":
        x[:, 1] = x[:, 0] = np.random.default_rng(0).normal(size=60)
    elif kind == "sum":
        x[:, 1] = x[:, 0] - x[:, 2]
        x[0, 4] = np.nan
    return x


@pytest.mark.parametrize("kind", ["constant", "copy", "sum"])
def test_a_full_covariance_that_becomes_singular(kind: str) -> None:
    with pytest.raises(me.NumericalError, match=r"smallest eigenvalue is .*; leave out"):
        me.models.Gaussian(n_features=D).fit(singular(kind))


def test_a_table_of_low_rank() -> None:
    """PPCA has no maximum there with two components and stays as it was; factor analysis is bounded."""
    x, model = low_rank(), me.models.PPCA(D, 2)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(me.NumericalError, match="a space of 2 dimensions or fewer"):
        model.fit(x)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    reached = [me.models.PPCA(D, k).fit(x).score_samples(x).mean() for k in (1, D - 1)]
    assert reached[1] > reached[0]
    assert all(me.models.FactorAnalysis(D, k).fit(x).bounded for k in (2, D - 1))
    for new in (me.models.PPCA, me.models.FactorAnalysis):
        with pytest.raises(me.InputError, match="4 rows are too few for 4 components"):
            new(D, 4).fit(table(n_rows=4))
