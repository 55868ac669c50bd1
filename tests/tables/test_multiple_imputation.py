"""Draws by models fitted to bootstrap samples vary as the parameters do; `me.pool` combines their results."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
import pooling

NAN = float("nan")


def half_missing(n: int = 40) -> np.ndarray:
    """A column y = x + noise of which half is missing, and x."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=n)
    table = np.column_stack([x + rng.normal(size=n), x])
    table[::2, 0] = NAN
    return table


@pytest.mark.parametrize(
    "model",
    [
        me.models.Gaussian(n_features=2),
        pytest.param(me.models.PPCA(2, 1), marks=pytest.mark.slow),
        pytest.param(me.models.FactorAnalysis(2, 1), marks=pytest.mark.slow),
        pytest.param(me.models.KernelGaussian(2, 1), marks=pytest.mark.slow),
    ],
    ids=lambda model: type(model).__name__,
)
def test_draws_have_the_error_of_the_parameters(model: Any) -> None:
    """The mean of the filled y varies by σ²/m, and by σ²/n + σ² (x̄_m - x̄_n)²/Sxx as the regression does."""
    table, n_draws = half_missing(), 100
    model.fit(table)
    hole = np.isnan(table[:, 0])
    x = table[~hole, 1]
    s2 = np.square(np.polynomial.polynomial.Polynomial.fit(x, table[~hole, 0], 1)(x) - table[~hole, 0]).mean()
    known = s2 / hole.sum()
    shift = table[hole, 1].mean() - x.mean()
    of_parameters = s2 / len(x) + s2 * shift**2 / (x.var() * len(x))
    for refit, expected in ((False, known), (True, known + of_parameters)):
        drawn = me.draw_missing(model, table, n_draws, seed=1, refit=refit)[:, hole, 0]
        assert drawn.mean(1).var(ddof=1) == pytest.approx(expected, rel=0.4)  # nearly 3 errors of a variance


def test_the_first_tables_stay_when_more_are_drawn() -> None:
    table = half_missing()
    model = me.models.Gaussian(n_features=2).fit(table)
    three = me.draw_missing(model, table, 3, seed=2)
    np.testing.assert_array_equal(me.draw_missing(model, table, 2, seed=2), three[:2])
    assert (three != me.draw_missing(model, table, 3, seed=2, refit=False)).any()


def test_other_rows_given_parameters_and_networks_take_them_as_known(tmp_path: Path) -> None:
    table = half_missing()
    given = me.models.Gaussian(torch.zeros(2), torch.eye(2))
    fitted = me.models.Gaussian(n_features=2).fit(table)
    network = me.models.MaskedNetwork(2, 4, 1).fit(table, epochs=1)
    fitted.save(tmp_path)
    whole = np.round(table)  # many equal rows
    assert [me.models.load(tmp_path).refits_to(table), fitted.refits_to(table[:30])] == [True, True]
    assert me.models.Gaussian(n_features=2).fit(whole).refits_to(whole)
    for model, rows in ((given, table), (fitted, table[:10]), (fitted, table + 1), (network, table)):
        assert not model.refits_to(rows)
        known = me.draw_missing(model, rows, 2, seed=1, refit=False)
        np.testing.assert_array_equal(me.draw_missing(model, rows, 2, seed=1), known)


def test_few_rows_with_many_holes_are_drawn_by_refits() -> None:
    """Samples of two different complete rows determine no covariance: the prior of one row does."""
    table = half_missing(8)
    table[0, 0] = 1.0  # five complete rows, of which a sample may have two
    model = me.models.Gaussian(n_features=2).fit(table)
    drawn = me.draw_missing(model, table, 50)[:, np.isnan(table[:, 0]), 0]
    assert 0.5 < np.median(np.abs(drawn)) < 2


@pytest.mark.parametrize(
    "model", [me.models.Gaussian(n_features=3), me.models.KernelGaussian(3, 1)], ids=["full", "kernels"]
)
def test_a_sample_in_which_a_column_does_not_vary_is_drawn_again(model: Any) -> None:
    """A third of the samples have only one value of the third column, or none."""
    table = np.column_stack([half_missing(20), np.full(20, NAN)])
    table[[3, 5, 7, 9], 2] = [0.0, 0.0, 0.0, 1.0]
    assert np.isfinite(me.draw_missing(model.fit(table), table, 30)).all()


def test_samples_that_cannot_be_fitted_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    table = half_missing(8)
    model = me.models.PPCA(2, 1).fit(table)
    fits = []

    def refuse(*_: object) -> None:
        fits.append(1)
        raise me.NumericalError("no noise is left")

    monkeypatch.setattr(me.models.PPCA, "fit", refuse)
    with pytest.raises(
        me.InputError, match="to 20 bootstrap samples of the rows: no noise is left; with refit=False its par"
    ):
        me.draw_missing(model, table, 2)
    assert 10 < len(fits) <= 20  # in some, a column has one value
    assert me.draw_missing(model, table, 2, refit=False).shape == (2, 8, 2)


def test_the_centres_of_a_refitted_mixture_of_kernels_vary_as_rows_do() -> None:
    """Var[y | x] of filled values is that of the rows with y; centres at conditional means have less."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    table = np.column_stack([x + rng.normal(size=400), x])
    table[rng.random(400) < 0.6, 0] = NAN
    hole = np.isnan(table[:, 0])
    model = me.models.KernelGaussian(2, 1).fit(table, shrinkage=0.002, bandwidth=0.5)
    residual = (me.draw_missing(model, table, 20) - x[:, None])[:, hole, 0]
    assert residual.var() == pytest.approx(np.var(table[~hole, 0] - x[~hole]), rel=0.12)


def test_pooled_degrees_of_freedom_are_those_of_barnard_and_rubin() -> None:
    """By the formulas as they are printed, with r = (1 + 1/m) B/U and γ = (1 + 1/m) B/T."""
    rng = np.random.default_rng(0)
    q, u = rng.normal(size=(5, 3)), rng.uniform(0.5, 1.5, size=(5, 3))
    pooled = me.pool(q, u, df=20)
    for k in range(3):
        b, within = q[:, k].var(ddof=1), np.mean(u[:, k] ** 2)
        r, gamma = 1.2 * b / within, 1.2 * b / (within + 1.2 * b)
        of_draws = 4 * (1 + 1 / r) ** 2
        of_data = 21 / 23 * 20 * (1 - gamma)
        assert pooled.df[k] == pytest.approx(of_draws * of_data / (of_draws + of_data))
        assert pooled.standard_error[k] ** 2 == pytest.approx(within + 1.2 * b)
        large = me.pool(q[:, k], u[:, k])
        assert large.df == pytest.approx(of_draws)
        assert large.interval()[0] < large.estimate == pooled.estimate[k]
    assert me.pool([1.0, 1.0], [0.5, 0.5], df=9).df == pytest.approx(9 * 10 / 12)


@pytest.mark.parametrize(
    ("estimates", "errors", "options", "message"),
    [
        ([1.0], [1.0], {}, "one entry for each of two or more tables"),
        ([1.0, 2.0], [1.0], {}, "give equal shapes"),
        ([1.0, NAN], [1.0, 1.0], {}, "give finite estimates"),
        ([1.0, 2.0], [1.0, 0.0], {}, "standard errors and degrees of freedom above 0"),
        ([1.0, 2.0], [1.0, 1.0], {"df": 0}, "degrees of freedom above 0"),
    ],
)
def test_what_cannot_be_pooled(estimates: Any, errors: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(me.InputError, match=message):
        me.pool(estimates, errors, **options)


@pytest.mark.slow
def test_pooled_intervals_cover_with_few_rows() -> None:
    """150 tables of 60 rows, half of one column missing: known parameters cover about 89 %."""
    held = np.array([pooling.covers("gaussian", 60, 0.5, "x", seed) for seed in range(150)]).mean(0)
    assert held[1] >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 150)
    assert held[1] > held[0]
