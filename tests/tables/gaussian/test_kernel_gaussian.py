"""The Gaussian with kernels: densities against scipy's, the fit against slow EM, the choice of settings."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import maskevidence as me
import slow_em
from maskevidence.models import KernelGaussian
from maskevidence.tables.gaussian import kernel_choice
from maskevidence.tables.gaussian.kernel_choice import choose_kernels
from maskevidence.tables.gaussian.kernel_sums import log_kernel_sums
from maskevidence.tables.gaussian.shrunk_covariance import ShrunkFit, Span, fit_shrunk, log_evidence_under
from oracles import condition


def holed_rows(n: int = 30, d: int = 4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.5 * rng.normal(size=(n, d)) + 10.0
    x[rng.random(x.shape) < 0.25] = np.nan
    return x[~np.isnan(x).all(1)]


def kernels_of(model: KernelGaussian) -> tuple[np.ndarray, np.ndarray]:
    """Mean of every kernel and their covariance."""
    h = float(model.bandwidth.detach())
    centres = model.gaussian.mean + np.sqrt(1 - h**2) * model.centres
    return centres.detach().numpy(), h**2 * model.gaussian.covariance.detach().numpy()


def slow_log_density(model: KernelGaussian, values: np.ndarray, present: np.ndarray) -> np.ndarray:
    """log p of the present values: scipy's density of every kernel's block."""
    centres, covariance = kernels_of(model)
    block = covariance[np.ix_(present, present)]
    return logsumexp(
        [multivariate_normal(c[present], block).logpdf(values[present]) for c in centres]
    ) - np.log(len(centres))


@pytest.fixture(scope="module")
def model() -> KernelGaussian:
    return KernelGaussian(n_features=4).fit(holed_rows(), shrinkage=0.2, bandwidth=0.6)


def test_densities_and_conditionals_are_those_of_the_mixture(model: KernelGaussian) -> None:
    x = holed_rows(12, seed=1)
    tokens = model.tokens(x)
    evidence = model.score_samples(x)
    masked = tokens.maskable & (torch.from_numpy(np.random.default_rng(2).random(x.shape)) < 0.5)
    found = model.log_conditionals(tokens, masked).detach().numpy()
    for row, values in enumerate(x):
        present, hidden = tokens.maskable[row].numpy(), masked[row].numpy()
        assert evidence[row] == pytest.approx(slow_log_density(model, values, present), rel=1e-10)
        visible = present & ~hidden
        given = slow_log_density(model, values, visible) if visible.any() else 0.0
        for j in np.flatnonzero(hidden):
            with_j = visible | (np.arange(4) == j)
            expected = slow_log_density(model, values, with_j) - given
            assert found[row, j] == pytest.approx(expected, rel=1e-9, abs=1e-11)


def test_missing_values_get_the_mixtures_mean_and_variance(model: KernelGaussian) -> None:
    x = holed_rows(10, seed=3)
    x[0] = np.nan
    filled = model.impute(x)
    centres, covariance = kernels_of(model)
    for row, values in enumerate(x):
        seen = ~np.isnan(values)
        weight = np.array(
            [
                multivariate_normal(c[seen], covariance[np.ix_(seen, seen)]).logpdf(values[seen])
                for c in centres
            ]
            if seen.any()
            else np.zeros(len(centres))
        )
        weight = np.exp(weight - logsumexp(weight))
        parts = [condition(c, covariance, values, seen) for c in centres]
        means = np.array([mean for mean, _ in parts])
        mean = weight @ means
        variance = np.diag(parts[0][1]) + weight @ (means - mean) ** 2
        np.testing.assert_allclose(filled.values[row, ~seen], mean[~seen], rtol=1e-9)
        np.testing.assert_allclose(filled.variance[row, ~seen], variance[~seen], rtol=1e-9)


def test_the_mixture_has_the_moments_of_its_gaussian() -> None:
    """Complete rows, without shrinkage to speak of: mean and covariance do not depend on the bandwidth."""
    x = np.random.default_rng(5).normal(size=(60, 3)) ** 2
    for bandwidth in (0.2, 0.9):
        model = KernelGaussian(3, 1).fit(x, shrinkage=1e-9, bandwidth=bandwidth)
        centres, covariance = kernels_of(model)
        np.testing.assert_allclose(centres.mean(0), x.mean(0), rtol=1e-9)
        np.testing.assert_allclose(covariance + np.cov(centres.T, ddof=0), np.cov(x.T, ddof=0), rtol=1e-6)


def test_a_row_that_was_fitted_is_filled_without_its_own_kernel() -> None:
    x = holed_rows(25, seed=6)
    x[4] = x[3]  # of two equal rows, one kernel is left
    model = KernelGaussian(4, 1).fit(x, shrinkage=0.2, bandwidth=0.4)
    filled = model.impute(x)
    for row in np.flatnonzero(np.isnan(x).any(1)):
        others = KernelGaussian(4, len(x) - 1)
        keep = torch.arange(len(x)) != row
        with torch.no_grad():
            others.gaussian, others.bandwidth_logit = model.gaussian, model.bandwidth_logit
            others.centres.copy_(model.centres[keep])
            others.seen.zero_()  # no kernel is recognised
        expected = others.impute(x[row : row + 1])
        np.testing.assert_allclose(filled.values[row], expected.values[0], rtol=1e-9)
        np.testing.assert_allclose(filled.variance[row], expected.variance[0], rtol=1e-8)
    np.testing.assert_array_equal(filled.values[3], filled.values[4])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("width", [1, 4])
def test_rows_of_equal_masks_are_filled_as_each_alone(
    width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty rows of two masks and one without a value, by all kernels but their own, in three parts."""
    monkeypatch.setattr("maskevidence.tables.base._ROWS_AT_ONCE", 34)
    x = np.random.default_rng(8).normal(size=(81, width)) ** 2
    model = KernelGaussian(width, 1).fit(x[:30], shrinkage=0.2, bandwidth=0.4).to(dtype)
    x[1::2, 0] = x[80] = np.nan
    x[::2, 1:3] = np.nan
    filled = model.impute(x)
    alone = [model.impute(row[None]) for row in x]
    precision = {"rtol": 1e-10 if dtype == torch.float64 else 1e-4}
    np.testing.assert_allclose(filled.values, np.concatenate([each.values for each in alone]), **precision)
    np.testing.assert_allclose(
        filled.variance, np.concatenate([each.variance for each in alone]), **precision
    )


def test_marginals_of_few_values_are_those_of_many() -> None:
    x = np.random.default_rng(9).normal(size=(40, 3))
    model, tokens = KernelGaussian(3, 1).fit(x, shrinkage=0.2, bandwidth=0.4), me.Tokens.from_array(x)
    every = torch.ones(40, 3, dtype=torch.bool)
    many = model.log_conditionals(tokens, every)
    few = [model.log_conditionals(tokens[rows], every[rows]) for rows in torch.arange(40).split(3)]
    torch.testing.assert_close(torch.cat(few), many, rtol=1e-12, atol=0)


def slow_shrunk(x: np.ndarray, shrinkage: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """EM row by row, in units of the columns; each step ends with a covariance nearer to the identity."""
    shift, scale, one = np.nanmean(x, 0), np.nanstd(x, 0), np.eye(x.shape[1])
    mean, covariance = np.zeros(x.shape[1]), one
    for _ in range(steps):
        mean, covariance = slow_em.full_step((x - shift) / scale, (mean, covariance))
        covariance = (1 - shrinkage) * covariance + shrinkage * one
    return mean * scale + shift, covariance * np.outer(scale, scale)


def test_the_fit_is_that_of_slow_em() -> None:
    x = holed_rows(40, seed=7) * [1.0, 1e6, 1e-6, 3.0]
    fitted = fit_shrunk(x, 0.1, tolerance=0.0, max_iterations=30)
    mean, covariance = slow_shrunk(x, 0.1, 30)
    scale = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(fitted.mean / scale, mean / scale, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        fitted.covariance / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=1e-9
    )
    assert fitted.n_iterations == 30
    model = me.models.Gaussian(torch.from_numpy(fitted.mean), torch.from_numpy(fitted.covariance))
    assert log_evidence_under(fitted, x) == pytest.approx(model.score_samples(x).sum(), rel=1e-10)


def test_a_column_that_does_not_vary_or_is_not_seen_keeps_the_prior() -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    x[:, 1], x[:, 2] = 0.1, np.nan
    fitted = fit_shrunk(x, 0.1)
    assert np.isfinite(fitted.filled).all()
    assert fitted.mean[1] == pytest.approx(0.1)
    assert fitted.covariance[2, 2] == pytest.approx(1.0)


def test_the_choice_follows_the_data() -> None:
    """Gaussian rows need no kernels, rows along a curve do; few rows need more shrinkage than many."""
    rng = np.random.default_rng(1)
    gaussian = rng.multivariate_normal(np.zeros(3), 0.3 * np.eye(3) + 0.7, size=300)
    curve = gaussian[:, :1] * [1.0, 0.0, 0.0] + gaussian[:, :1] ** 2 * [0.0, 1.0, -1.0] + 0.05 * gaussian
    assert choose_kernels(curve).bandwidth <= 0.5 < choose_kernels(gaussian).bandwidth
    few = choose_kernels(rng.normal(size=(30, 12)))
    assert few.shrinkage >= 0.25 > choose_kernels(gaussian).shrinkage
    assert np.std(choose_kernels(gaussian).residuals) == pytest.approx(1.0, abs=0.1)
    assert choose_kernels(curve, bandwidth=0.8, shrinkage=0.1)[:2] == (0.1, 0.8)


@pytest.mark.parametrize(
    ("x", "settings", "message"),
    [
        (np.zeros((5, 2)), {}, "every column is constant"),
        (
            np.column_stack([np.arange(5.0), np.ones(5)]),
            {},
            "column 1 does not vary",
        ),
        (np.arange(6.0).reshape(3, 2), {"shrinkage": 0.0}, "give a shrinkage in"),
        (np.arange(6.0).reshape(3, 2), {"bandwidth": 1.0}, "and a bandwidth in"),
        (np.arange(9.0).reshape(3, 3), {}, "the data have 3 columns, the model has 2 features"),
    ],
)
def test_bad_tables_and_settings_are_refused(x: np.ndarray, settings: dict, message: str) -> None:
    with pytest.raises(me.InputError, match=message):
        KernelGaussian(2, 1).fit(x, **settings)


def test_it_is_saved_sampled_and_rescaled(model: KernelGaussian, tmp_path) -> None:
    x = holed_rows(10, seed=8)
    model.save(tmp_path)
    np.testing.assert_allclose(me.models.load(tmp_path).score_samples(x), model.score_samples(x), rtol=1e-12)
    draws = model.sample(20_000, seed=1)
    centres, kernel = kernels_of(model)
    covariance = kernel + np.cov(centres.T, ddof=0)
    error = (draws.mean(0) - centres.mean(0)) / np.sqrt(np.diag(covariance) / len(draws))
    assert np.abs(error).max() < 4
    np.testing.assert_allclose(np.cov(draws.T), covariance, rtol=0.1)
    scale = np.array([2.0, 0.1, 1.0, 30.0])
    before = model.score_samples(x)
    again = me.models.load(tmp_path)
    again.rescale(np.full(4, -3.0), scale)
    jacobian = (np.log(scale) * ~np.isnan(x)).sum(1)
    np.testing.assert_allclose(again.score_samples(x * scale - 3.0), before - jacobian, rtol=1e-9)


def test_a_table_too_wide_for_the_search_is_refused_before_any_work() -> None:
    x = np.random.default_rng(0).normal(size=(3, 7000))
    x[0, 0] = np.nan
    with pytest.raises(me.InputError, match=r"7,000 columns with missing values: .* 73 minutes .* about 4,"):
        KernelGaussian(7000, 1).fit(x)


@pytest.mark.parametrize(("share", "shrinkage"), [(0.0, 0.1), (0.3, 0.1), (0.3, 1.0)])
def test_each_visible_token_at_once_is_each_alone(share: float, shrinkage: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 5)) + 0.5 * rng.normal(size=(40, 5))
    model = KernelGaussian(5, 1).fit(x, shrinkage=shrinkage, bandwidth=0.5)
    x[rng.random(x.shape) < share] = np.nan
    x[0], x[1, 1:], x[2] = np.nan, np.nan, [1e7, 0.1, 0.2, 0.3, 0.4]
    tokens = me.Tokens.from_array(x, empty_rows=True)
    visible = tokens.maskable & (torch.from_numpy(rng.random(x.shape)) < 0.9)
    visible[2] = True
    found = model.log_leave_one_out(tokens, visible).detach()
    assert (found[~visible] == 0).all()
    for j in range(5):
        others = replace(tokens, maskable=visible)
        alone = visible & (torch.arange(5) == j)
        rows = torch.nonzero(alone.any(1)).flatten()
        expected = model.log_conditionals(others[rows], alone[rows])[:, j].detach()
        np.testing.assert_allclose(found[rows, j], expected, rtol=1e-10, atol=1e-10)


def test_fewer_rows_than_columns_are_fitted_in_their_span(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).normal(size=(12, 3)) @ np.random.default_rng(1).normal(size=(3, 20)) * 5.0
    x += np.random.default_rng(2).normal(size=x.shape)
    fitted = fit_shrunk(x, 0.1)
    assert isinstance(fitted.spread, Span)
    thin, covariance = fitted.precision(), fitted.covariance
    precision, columns = np.linalg.inv(covariance), np.array([[0, 3], [7, 2]])
    np.testing.assert_allclose(thin.times(torch.from_numpy(x)), x @ precision, atol=1e-9)
    blocks = precision[columns[:, :, None], columns[:, None, :]]
    np.testing.assert_allclose(thin.block(torch.from_numpy(columns)), blocks, atol=1e-10)
    np.testing.assert_allclose(thin.diagonal, np.diagonal(precision), atol=1e-10)
    correlation = np.cov(x.T, ddof=0) * (0.9 + 0.1 * np.eye(20))
    np.testing.assert_allclose(covariance, correlation, atol=1e-12)
    dense = replace(fitted, spread=covariance)
    assert log_evidence_under(fitted, x) == pytest.approx(log_evidence_under(dense, x), rel=1e-11)
    choice = choose_kernels(x)
    monkeypatch.setattr(kernel_choice, "fit_shrunk", lambda *a, **k: made_dense(fit_shrunk(*a, **k)))
    slow = choose_kernels(x)
    assert choice[:2] == slow[:2]
    np.testing.assert_allclose(choice.residuals, slow.residuals, atol=1e-10)


def made_dense(fitted: ShrunkFit) -> ShrunkFit:
    return replace(fitted, spread=fitted.covariance)


def test_copies_of_a_row_are_drawn_as_each_alone(model: KernelGaussian) -> None:
    x = holed_rows(6, seed=5)
    tokens = model.tokens(x[[0, 1, 0, 2, 1, 0, 3]])
    together = model._draw_missing(tokens, 3)
    for k in range(len(tokens)):
        torch.testing.assert_close(
            together[[k]], model._draw_missing(tokens[k : k + 1], 3), rtol=1e-11, atol=0
        )


@pytest.mark.parametrize(("n", "spread"), [(2000, 1.0), (600, 100.0), (5, 1.0)], ids=["boxes", "few", "one"])
def test_sums_of_kernels_keep_their_digits(n: int, spread: float) -> None:
    rng = np.random.default_rng(0)
    centres, x = rng.normal(size=300), spread * rng.normal(size=n) + 1
    x[0] = 1e3
    with torch.no_grad():
        found = log_kernel_sums(
            torch.from_numpy(x), torch.from_numpy(centres), torch.tensor(0.3, dtype=torch.float64)
        )
    exact = logsumexp(-((x[:, None] - centres) ** 2) / 0.6, axis=1)
    np.testing.assert_allclose(found, exact, rtol=1e-11, atol=2e-13)
