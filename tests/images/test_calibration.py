"""Variances of pixels around their predictions: maximum likelihood, spread of sizes, invalid predictions."""

import math

import numpy as np
import pytest
import torch

from maskevidence.core.errors import NumericalError
from maskevidence.images.calibration import fit_variance, spread_sizes
from maskevidence.images.pixel_density import discretised_log_prob


def test_the_gaussian_variance_is_the_mean_squared_error_over_all_batches() -> None:
    rng = np.random.default_rng(1)
    x, m = torch.from_numpy(rng.normal(size=(100, 7))), torch.from_numpy(rng.normal(size=(100, 7)))
    batches = [(x[part : part + 30], m[part : part + 30]) for part in range(0, 100, 30)]
    assert fit_variance("gaussian", batches, 700) == pytest.approx(((x - m) ** 2).mean().item(), rel=1e-12)


def test_the_discretised_variance_is_the_likeliest_of_a_fine_grid() -> None:
    rng = np.random.default_rng(2)
    m = torch.from_numpy(rng.uniform(-20, 120, 5000))
    x = torch.clamp(torch.round(m + torch.from_numpy(rng.normal(0, 12, 5000))), 0, 255)
    found = fit_variance("discretised", [(x, m)], 5000)
    grid = found * np.exp(np.linspace(-0.02, 0.02, 41))
    loss = [discretised_log_prob(x, m, torch.tensor(v)).mean().item() for v in grid]
    assert abs(int(np.argmax(loss)) - 20) <= 1
    # clipped pixels are not outliers: the truth is within 3 standard errors, √(2/n) of the variance
    assert found == pytest.approx(144, rel=3 * math.sqrt(2 / 3500))


def test_a_random_part_of_many_pixels_is_searched() -> None:
    rng = np.random.default_rng(3)
    m = torch.from_numpy(rng.uniform(50, 200, 300_000))
    x = torch.round(m + torch.from_numpy(rng.normal(0, 10, 300_000)))
    found = []
    for seed in (0, 0, 1):
        batches = [(x[part : part + 70_000], m[part : part + 70_000]) for part in range(0, 300_000, 70_000)]
        found.append(fit_variance("discretised", batches, 300_000, seed))
    assert found[0] == found[1] != found[2]
    for variance in found:
        assert variance == pytest.approx(100, rel=4 * math.sqrt(2 / 65_536))


def test_spread_sizes_include_both_ends() -> None:
    for n in (1, 31, 32, 33, 64, 196, 1000):
        sizes = spread_sizes(n)
        assert sizes[0] == 1
        assert sizes[-1] == n
        assert len(set(sizes)) == len(sizes) == min(n, 32)


def test_perfect_and_nan_predictions_have_no_variance() -> None:
    for predicted in (torch.tensor([1.0]), torch.tensor([math.nan])):
        with pytest.raises(NumericalError, match="variance cannot be estimated"):
            fit_variance("gaussian", [(torch.tensor([1.0]), predicted)], 1)
