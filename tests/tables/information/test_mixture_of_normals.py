"""The mixture behind information: against sums over its components, its draws, and what EM finds."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

import maskevidence as me
from maskevidence.tables.information.gains import fitted
from maskevidence.tables.information.mixture import Mixture

SIZES = [0, 3, 0, 0]
RNG = np.random.default_rng(0)


def two_components() -> Mixture:
    mixture = Mixture(SIZES, np.zeros(3), np.eye(3))
    roots = RNG.normal(size=(2, 3, 3))
    mixture.covariance = roots @ roots.transpose(0, 2, 1) + 0.5 * np.eye(3)
    mixture.mean, mixture.log_weight = RNG.normal(size=(2, 3)), np.log([0.3, 0.7])
    mixture.shares = {1: np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])}
    return mixture


def log_p(mixture: Mixture, x: np.ndarray) -> float:
    """One row, NaN where a value is not known."""
    total, numbers = 0.0, x[[0, 2, 3]]
    seen = np.flatnonzero(~np.isnan(numbers))
    for k, log_weight in enumerate(mixture.log_weight):
        p = np.exp(log_weight)
        if len(seen):
            covariance = mixture.covariance[k][np.ix_(seen, seen)]
            p *= multivariate_normal(mixture.mean[k][seen], covariance).pdf(numbers[seen])
        if not np.isnan(x[1]):
            p *= mixture.shares[1][k, int(x[1])]
        total += p
    return float(np.log(total))


def test_its_densities_and_conditionals_are_sums_over_the_components() -> None:
    mixture, x = two_components(), RNG.normal(size=(12, 4))
    x[:, 1] = RNG.integers(0, 3, 12)
    x[RNG.random(x.shape) < 0.3] = np.nan
    x[:, 0] = 0.4
    tokens = me.Tokens.from_array(x, empty_rows=True)
    assert mixture.log_evidence(tokens).tolist() == pytest.approx([log_p(mixture, row) for row in x])
    masked = tokens.maskable & torch.from_numpy(RNG.random(x.shape) < 0.5)
    answers = mixture.log_conditionals(tokens, masked).numpy()
    visible = np.where(masked.numpy(), np.nan, x)
    for row, column in np.argwhere(masked.numpy()):
        also = visible[row].copy()
        also[column] = x[row, column]
        oracle = log_p(mixture, also) - log_p(mixture, visible[row])
        assert answers[row, column] == pytest.approx(oracle)
    assert (answers[~masked.numpy()] == 0).all()


def test_its_draws_have_the_conditional_moments() -> None:
    mixture = two_components()
    row = np.array([0.5, np.nan, np.nan, -0.3])
    drawn = mixture.draw_missing(np.tile(row, (20_000, 1)), seed=1)[0]
    posterior = np.array([np.exp(log_p(mixture, np.array([0.5, word, np.nan, -0.3]))) for word in range(3)])
    shares = np.bincount(drawn[:, 1].astype(int), minlength=3) / len(drawn)
    assert shares == pytest.approx(posterior / posterior.sum(), abs=0.015)
    grid = np.linspace(-8, 8, 161)
    density = np.exp([log_p(mixture, np.array([0.5, np.nan, each, -0.3])) for each in grid])
    mean = (grid * density).sum() / density.sum()
    assert drawn[:, 2].mean() == pytest.approx(mean, abs=4 * drawn[:, 2].std() / len(drawn) ** 0.5)
    assert drawn[:, 2].std() == pytest.approx(
        ((grid - mean) ** 2 * density / density.sum()).sum() ** 0.5, rel=0.03
    )
    assert (drawn[:, [0, 3]] == row[[0, 3]]).all()


def test_one_component_is_the_normal_and_more_never_fit_worse() -> None:
    x = RNG.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 400)
    x[:, 1] += x[:, 0] ** 2
    likelihoods = []
    for n in (1, 2, 4):
        mixture, _ = Mixture.path(x, [0, 0], 0.002, n)
        assert len(mixture.log_weight) == n
        likelihoods.append(mixture.log_density(x, np.ones(x.shape, dtype=bool)).mean())
        if n == 1:
            np.testing.assert_allclose(mixture.covariance[0], np.cov(x.T, bias=True), rtol=0.02)
    assert likelihoods[0] + 0.1 < likelihoods[1] < likelihoods[2]


def test_a_mixture_answers_curves_and_words_and_one_normal_what_is_normal() -> None:
    rng = np.random.default_rng(0)
    normal = rng.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], 300)
    curve = np.column_stack([normal[:, 0], normal[:, 0] ** 2 + 0.5 * rng.normal(size=300)])
    models = [fitted("kernel-gaussian", x, [0, 1], (3, 0)).folds[0].model for x in (normal, curve)]
    assert not isinstance(models[0], Mixture) or len(models[0].log_weight) <= 2
    assert isinstance(models[1], Mixture)
    assert len(models[1].log_weight) >= 4


def test_a_parity_of_words_is_synergy() -> None:
    """-.449 by regressions on indicators, in 600 rows."""
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, (600, 2))
    parity = np.column_stack([bits, bits.sum(1) % 2])
    parity[rng.random(600) < 0.05, 2] ^= 1
    found = me.o_information("kernel-gaussian", parity)
    low, high = found.interval()
    assert low < -0.495 < high < -0.4
    assert found.nats == pytest.approx(-0.495, abs=3 * found.standard_error)


@pytest.mark.slow
def test_holes_cost_no_bias() -> None:
    rng, z = np.random.default_rng(0), []
    for _ in range(2):
        x = rng.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]], 400)
        x[rng.random(x.shape) < 0.3] = np.nan
        found = me.information("kernel-gaussian", x, 0, 1, folds=3)
        z.append((found.nats + np.log(1 - 0.8**2) / 2) / found.standard_error)
    assert abs(np.mean(z)) < 1.5


def test_a_number_that_many_rows_share_is_no_infinite_density() -> None:
    """Without ranks at random: -.13 nats, interval -.64 to 2.20, for independent columns."""
    rng = np.random.default_rng(0)
    rain = np.where(rng.random(250) < 0.9, 0, rng.normal(size=250))
    low, high = me.information(
        "kernel-gaussian", np.column_stack([rain, rng.normal(size=250)]), 0, 1
    ).interval()
    assert -0.05 < low < 0 < high < 0.1


def test_equal_columns_of_words_have_their_entropy_on_each_other() -> None:
    """1.642 to 2.049 for an entropy of 1.896 by splits at random, and 4 of 10 intervals below it."""
    words = np.random.default_rng(2).poisson(3.0, 300)
    found = me.information("kernel-gaussian", np.column_stack([words, words]), 0, 1, folds=3)
    share = np.unique(words, return_counts=True)[1] / 300
    entropy = -(share * np.log(share)).sum()
    assert found.held_out == pytest.approx(entropy, abs=0.06)
    assert found.interval()[0] < entropy < found.interval()[1]


def test_words_without_a_dependence_have_an_interval() -> None:
    """One product of shares gives exactly 0, 0 to 0: at least two components answer."""
    words = np.random.default_rng(0).integers(0, 3, (200, 2))
    found = me.information("kernel-gaussian", words, 0, 1, folds=3)
    low, high = found.interval()
    assert low < -0.001 < 0.001 < high
    assert found.standard_error > 0
    assert "-0.00 nats" not in str(replace(found, nats=-1e-9))


def test_a_split_finds_the_words_that_go_together() -> None:
    """Four words of two columns in two groups: the scores of a group have one sign."""
    a = RNG.integers(0, 4, 400)
    b = np.where(RNG.random(400) < 0.5, a, a ^ 1)
    x = np.column_stack([a, b]).astype(float)
    mixture, _ = Mixture.path(x, [4, 4], most=2)
    first = mixture.shares[0][0] > 0.25
    assert first.tolist() in ([True, True, False, False], [False, False, True, True])
    assert (mixture.shares[1][0] > 0.25).tolist() == first.tolist()
