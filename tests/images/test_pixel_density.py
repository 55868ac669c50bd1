"""Densities of a pixel around its prediction: normalised, summed over patches, invalid input."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy.stats import norm

from maskevidence.core.errors import InputError
from maskevidence.images.pixel_density import PixelDensity, discretised_log_prob, gaussian_log_prob

MEANS = (-40.0, 0.0, 0.3, 127.4, 254.9, 255.0, 300.0)
VARIANCES = (0.04, 1.0, 81.0, 2500.0)


@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("variance", VARIANCES)
def test_the_discretised_density_sums_to_one_over_the_levels(mean: float, variance: float) -> None:
    log_p = discretised_log_prob(torch.arange(256), torch.full((256,), mean), torch.tensor(variance))
    assert log_p.exp().sum().item() == pytest.approx(1.0, abs=1e-9)
    assert bool(torch.isfinite(log_p).all())  # every level has a probability above 0, however far


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_gaussian_density_integrates_to_one(variance: float) -> None:
    grid = torch.linspace(-1000, 1000, 400_001, dtype=torch.float64)
    log_p = gaussian_log_prob(grid, torch.full_like(grid, 12.3), torch.tensor(variance, dtype=torch.float64))
    assert torch.trapezoid(log_p.exp(), grid).item() == pytest.approx(1.0, abs=1e-9)


def test_both_densities_equal_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    x, m, v = rng.integers(0, 256, 500), rng.uniform(0, 255, 500), rng.uniform(20, 900, 500)
    tensors = [torch.from_numpy(part) for part in (x, m, v)]
    np.testing.assert_allclose(gaussian_log_prob(*tensors), norm.logpdf(x, m, np.sqrt(v)), rtol=1e-12)
    near = (np.abs(x - m) < 6 * np.sqrt(v)) & (x > 0) & (x < 255)
    assert near.sum() > 100
    above, below = (norm.cdf(x[near] + half, m[near], np.sqrt(v[near])) for half in (0.5, -0.5))
    np.testing.assert_allclose(discretised_log_prob(*tensors)[near], np.log(above - below), rtol=1e-6)


def test_far_levels_keep_their_digits_and_gradients() -> None:
    """300 standard deviations away, Φ underflows to 0 but its logarithm does not."""
    mean = torch.tensor([0.0, 0.0, 255.0, 255.0, 127.0], dtype=torch.float64, requires_grad=True)
    levels = torch.tensor([0, 255, 0, 255, 120])
    log_p = discretised_log_prob(levels, mean, torch.tensor(0.7, dtype=torch.float64))
    assert log_p[1].item() == pytest.approx(-(254.5**2) / 2 / 0.7, rel=1e-3)
    assert log_p[1].item() == pytest.approx(log_p[2].item(), rel=1e-12)  # symmetric
    (gradient,) = torch.autograd.grad(log_p.sum(), mean)
    assert bool(torch.isfinite(gradient).all())
    assert gradient[1] > 0 > gradient[2]


def test_variances_between_sizes_are_geometric() -> None:
    density = PixelDensity("gaussian", (2, 4, 10), (1.0, 4.0, 9.0), n_patches=12)
    found = density.variance(torch.tensor([1, 2, 3, 4, 7, 10, 12]))
    np.testing.assert_allclose(found, [1, 1, 2, 4, 6, 9, 9])


def test_the_log_probability_of_a_patch_is_the_sum_over_its_pixels() -> None:
    x, m = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[0.0, 2.0], [5.0, 4.0]])
    density = PixelDensity("gaussian", (1,), (1.0,), n_patches=2)
    found = density.log_prob(x, m, torch.tensor([1.0, 4.0]))
    first = norm.logpdf([1, 2], [0, 2]).sum()
    np.testing.assert_allclose(found, [first, norm.logpdf([3, 4], [5, 4], 2).sum()], rtol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": (2, 1)}, "ascending"),
        ({"variances": (1.0,)}, "ascending"),
        ({"sizes": (0, 1)}, "sizes in 1..D"),
        ({"sizes": (1, 5)}, "sizes in 1..D"),
        ({"variances": (1.0, 0.0)}, "above 0"),
        ({"variances": (1.0, math.nan)}, "above 0"),
    ],
)
def test_inconsistent_densities_are_refused(change: dict[str, object], message: str) -> None:
    good = PixelDensity("gaussian", (1, 2), (1.0, 2.0), n_patches=4)
    with pytest.raises(InputError, match=message):
        dataclasses.replace(good, **change)
