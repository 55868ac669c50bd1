"""Moments of complete rows: merged chunk by chunk, and sufficient for the mean score of any Gaussian."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import maskevidence as me
import oracles


def random_masks(n_masks: int, n_features: int, seed: int = 0) -> torch.Tensor:
    """Masks of all sizes, including one token and all tokens."""
    rng = np.random.default_rng(seed)
    masked = rng.random((n_masks, n_features)) < rng.random((n_masks, 1))
    masked[~masked.any(1), 0] = True
    masked[0], masked[1] = True, np.arange(n_features) == 1
    return torch.from_numpy(masked)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(0, 10**6))
def test_merged_moments_are_those_of_the_whole(lengths: list[int], seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(sum(lengths), 3)) * 2 + 1
    chunks = [me.GaussianMoments.from_rows(part) for part in np.split(x, np.cumsum(lengths)[:-1])]
    merged = chunks[0]
    for chunk in chunks[1:]:
        merged = merged.merge(chunk)
    whole = me.GaussianMoments.from_rows(x)
    centre = np.array([1.0, -2.0, 0.5])
    about = (x - centre).T @ (x - centre) / len(x)
    for moments in (merged, whole):
        assert moments.n_rows == len(x)
        np.testing.assert_allclose(moments.mean, x.mean(0), rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(moments.covariance, np.cov(x.T, ddof=0), rtol=1e-10, atol=1e-11)
        np.testing.assert_allclose(moments.about(torch.from_numpy(centre)), about, rtol=1e-10, atol=1e-11)


def test_a_large_mean_does_not_spoil_the_covariance() -> None:
    """A sum of squares would lose every digit of a variance of 1 next to a mean of 1e9."""
    x = np.random.default_rng(0).normal(size=(1000, 2))
    chunks = [me.GaussianMoments.from_rows(part + 1e9) for part in np.split(x, 10)]
    merged = chunks[0]
    for chunk in chunks[1:]:
        merged = merged.merge(chunk)
    np.testing.assert_allclose(merged.covariance, np.cov(x.T, ddof=0), atol=1e-6)


def test_scores_of_moments_are_the_mean_over_rows(build) -> None:
    """Against block matrices, row by row, with more masks than fit into one chunk."""
    model = build(7)
    x = model.sample(25, seed=3) * 1.3 + 0.2
    masked = random_masks(150, 7)
    found = model.score_moments(me.GaussianMoments.from_rows(x), masked).detach().numpy()
    mean, covariance = oracles.parameters_of(model)
    for p in range(150):
        mask = np.tile(masked[p].numpy(), (25, 1))
        table = oracles.gaussian_log_conditionals(mean, covariance, x, mask, ~mask)
        assert found[p] == pytest.approx(table.sum(1).mean() / mask[0].sum(), rel=1e-10)


def test_gradients_of_moment_scores_are_those_of_the_rows(build) -> None:
    model = build(6)
    x = model.sample(15, seed=3) * 1.3 + 0.2
    masked = random_masks(12, 6)
    tokens = me.Tokens.from_array(x)
    rows = sum(me.score_masks(model, tokens, mask.expand(15, 6)).mean() for mask in masked)
    moments = model.score_moments(me.GaussianMoments.from_rows(x), masked).sum()
    assert moments.item() == pytest.approx(rows.item(), rel=1e-11)
    parameters = list(model.parameters())
    for found, expected in zip(
        torch.autograd.grad(moments, parameters), torch.autograd.grad(rows, parameters), strict=True
    ):
        assert bool((expected != 0).any())
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([1.0, 2.0], r"shape \(2,\)"),
        (np.zeros((0, 3)), r"shape \(0, 3\)"),
        ([[1.0, math.nan]], "missing, infinite or too large"),
        ([[1.0, math.inf]], "missing, infinite or too large"),
    ],
)
def test_rows_without_moments_are_refused(rows: object, message: str) -> None:
    with pytest.raises(me.InputError, match=message):
        me.GaussianMoments.from_rows(rows)


def test_moments_of_other_columns_are_refused(build) -> None:
    three, four = (me.GaussianMoments.from_rows(np.eye(width)) for width in (3, 4))
    with pytest.raises(me.InputError, match="3 columns cannot be merged with moments of 4"):
        three.merge(four)
    with pytest.raises(me.InputError, match="3 columns, the model has 4 features"):
        build(4).score_moments(three, torch.ones(1, 3, dtype=torch.bool))
