"""Calibrate a masked image model: fit a variance for each mask size to held-out images."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from maskevidence.core.errors import NumericalError
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.core.support.progress import Advance, progress
from maskevidence.core.tokens import Tokens
from maskevidence.images.image_options import DensityName
from maskevidence.images.patches import random_masks
from maskevidence.images.pixel_density import PixelDensity, discretised_log_prob

MASK_KEY = 0x76617269  # so that calibration and scoring use different masks
# The best variance of the discretised density is searched on this many pixels per size, for a standard error
# of 0.6 %.
_SEARCHED_PIXELS = 2**16
_SEARCH_STEPS = 40
_GOLDEN = (math.sqrt(5) - 1) / 2


def fit_variances(
    predicted: Callable[[Bool[Tensor, "N D"], PixelDensity], Iterator[tuple[Tensor, Tensor]]],
    tokens: Tokens,
    density: PixelDensity,
) -> PixelDensity:
    """Fit a variance for each size of the density, from one random mask per image and size.

    Args:
        predicted: from a mask to the hidden patches and their predictions, one call after the other.
    """
    variances = []
    with torch.no_grad(), progress("calibrating", len(density.sizes) * len(tokens)) as advance:
        for size in density.sizes:
            masked = random_masks(tokens, size, int(keyed_bits(density.seed or 0, MASK_KEY)))
            pixels = _counted(predicted(masked, density), size, advance)
            n_pixels = len(tokens) * size * tokens.values.shape[2]
            variances.append(fit_variance(density.name, pixels, n_pixels, density.seed or 0))
    return replace(density, variances=tuple(variances))


def _counted(
    pixels: Iterator[tuple[Tensor, Tensor]], size: int, advance: Advance
) -> Iterator[tuple[Tensor, Tensor]]:
    for values, means in pixels:
        yield values, means
        advance(len(values) // size)


def fit_variance(
    density: DensityName,
    pixels: Iterable[tuple[Shaped[Tensor, "..."], Float[Tensor, "..."]]],
    n_pixels: int,
    seed: int = 0,
) -> float:
    """The maximum-likelihood variance of predicted pixels, which arrive in batches.

    For the Gaussian it is the mean squared error. The discretised density has no closed form: a
    golden-section search finds log v to 10⁻⁶, on about 65,536 randomly chosen pixels if there are more.

    Example:
        >>> fit_variance("gaussian", [(torch.tensor([1.0, 5.0]), torch.tensor([2.0, 2.0]))], n_pixels=2)
        5.0
    """
    share = min(1.0, _SEARCHED_PIXELS / max(1, n_pixels))
    generator = torch.Generator().manual_seed(whole_number("seed", seed))
    squares, count = 0.0, 0
    kept: list[tuple[Tensor, Tensor]] = []
    for values, means in pixels:
        x, m = values.detach().double().flatten().cpu(), means.detach().double().flatten().cpu()
        squares += float((x - m).square().sum())
        count += len(x)
        if density == "discretised":
            if share < 1:
                kept_ones = torch.rand(len(x), generator=generator) < share
                x, m = x[kept_ones], m[kept_ones]
            kept.append((x, m))
    error = squares / max(1, count)
    if not 0 < error < math.inf:
        raise NumericalError(
            f"the mean squared error of the predictions is {error}, so that the variance "
            "cannot be estimated; calibrate on other images, or another model"
        )
    if density == "gaussian":
        return error
    x, m = (torch.cat(parts) for parts in zip(*kept, strict=True))

    def loss(log_variance: float) -> float:
        return -float(discretised_log_prob(x, m, torch.tensor(math.exp(log_variance))).mean())

    return math.exp(_golden_section(loss, math.log(error) - 6.0, math.log(error) + 6.0))


def spread_sizes(n_patches: int, at_most: int = 32) -> tuple[int, ...]:
    """The sizes 1..D, or `at_most` evenly spread ones including both ends.

    Example:
        >>> spread_sizes(4), spread_sizes(196, at_most=4)
        ((1, 2, 3, 4), (1, 66, 131, 196))
    """
    if n_patches <= at_most:
        return tuple(range(1, n_patches + 1))
    step = (n_patches - 1) / (at_most - 1)
    return tuple(int(1 + i * step + 0.5) for i in range(at_most))


def _golden_section(loss: Callable[[float], float], low: float, high: float) -> float:
    """Minimise a function that has a single minimum between two points."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = loss(left), loss(right)
    for _ in range(_SEARCH_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = loss(right)
    return (low + high) / 2
