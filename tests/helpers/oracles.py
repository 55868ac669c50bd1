"""Slow textbook versions that are obviously right, to test the fast code."""

import itertools
import math
from collections.abc import Callable

import numpy as np
import torch
from scipy.stats import multivariate_normal

import maskevidence as me
from maskevidence.core.tokens import Tokens

TWO_64 = 2**64
GaussianModel = me.models.Gaussian | me.models.PPCA | me.models.FactorAnalysis


def every_mask(maskable: np.ndarray) -> list[np.ndarray]:
    """All non-empty subsets of an observation's maskable tokens, as boolean rows."""
    positions = np.flatnonzero(maskable)
    masks = []
    for size in range(1, len(positions) + 1):
        for chosen in itertools.combinations(positions, size):
            mask = np.zeros(len(maskable), dtype=bool)
            mask[list(chosen)] = True
            masks.append(mask)
    return masks


def sum_over_sizes(score: Callable[[np.ndarray], float], maskable: np.ndarray) -> float:
    """Eq. 2 by enumeration: the mean score over the masks of each size, summed over sizes."""
    by_size: dict[int, list[float]] = {}
    for mask in every_mask(maskable):
        by_size.setdefault(int(mask.sum()), []).append(score(mask))
    return sum(sum(scores) / len(scores) for scores in by_size.values())


def condition(
    mean: np.ndarray, covariance: np.ndarray, x: np.ndarray, visible: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all coordinates given the visible ones, by block matrices."""
    if not visible.any():
        return mean, covariance
    weights = covariance[:, visible] @ np.linalg.inv(covariance[np.ix_(visible, visible)])
    return mean + weights @ (x[visible] - mean[visible]), covariance - weights @ covariance[visible]


def gaussian_log_conditionals(
    mean: np.ndarray, covariance: np.ndarray, values: np.ndarray, masked: np.ndarray, visible: np.ndarray
) -> np.ndarray:
    """log N(x_j | x_visible) of each masked token, row by row; 0 elsewhere."""
    result = np.zeros(values.shape)
    for row in range(len(values)):
        centre, spread = condition(mean, covariance, values[row], visible[row])
        for j in np.flatnonzero(masked[row]):
            deviation = values[row, j] - centre[j]
            result[row, j] = -0.5 * (math.log(2 * math.pi * spread[j, j]) + deviation**2 / spread[j, j])
    return result


def gaussian_log_evidence(
    mean: np.ndarray, covariance: np.ndarray, values: np.ndarray, maskable: np.ndarray, context: np.ndarray
) -> np.ndarray:
    """log p(maskable | context) of each row, by scipy's density of the conditional Gaussian."""
    result = np.zeros(len(values))
    for row in range(len(values)):
        hidden = maskable[row]
        centre, spread = condition(mean, covariance, values[row], context[row])
        block = multivariate_normal(centre[hidden], spread[np.ix_(hidden, hidden)])
        result[row] = block.logpdf(values[row][hidden])
    return result


def parameters_of(model: GaussianModel) -> tuple[np.ndarray, np.ndarray]:
    """A Gaussian model's mean and covariance as arrays."""
    return model.mean.detach().numpy(), model.covariance.detach().numpy()


def scores(model: GaussianModel, tokens: Tokens, masked: torch.Tensor) -> np.ndarray:
    """Scores of one mask per row, by block matrices."""
    mask = masked.numpy()
    visible = (tokens.maskable | tokens.context).numpy() & ~mask
    values = tokens.values.numpy()
    return gaussian_log_conditionals(*parameters_of(model), values, mask, visible).sum(1) / mask.sum(1)


def numerical_gradient(function: Callable[[], float], parameter: torch.Tensor) -> np.ndarray:
    """The gradient of a function of a model by central differences in each entry of a parameter."""
    step = 1e-5
    gradient = np.zeros(parameter.shape)
    with torch.no_grad():
        for index in np.ndindex(*parameter.shape):
            value = parameter[index].clone()
            ends = []
            for sign in (1, -1):
                parameter[index] = value + sign * step
                ends.append(function())
            parameter[index] = value
            gradient[index] = (ends[0] - ends[1]) / (2 * step)
    return gradient


def splitmix64(keys: list[int]) -> int:
    """The keyed generator in plain integers: each key adds (key + 1)·γ, then the state is mixed."""
    state = 0
    for key in keys:
        state = (state + (key + 1) * 0x9E3779B97F4A7C15) % TWO_64
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % TWO_64
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) % TWO_64
        state ^= state >> 31
    return state


def mean_with_errors(
    cells: dict[tuple[int, int, int], float], n_replicates: int, joint: bool
) -> tuple[float, float, float]:
    """Mean over observations, squared mask_se and squared data_se, by loops over the definitions.

    `cells` maps (observation, stratum, replicate) to a contribution.
    """
    observations = sorted({key[0] for key in cells})
    strata = sorted({key[1] for key in cells})
    n = len(observations)
    estimates = [sum(v for key, v in cells.items() if key[0] == i) for i in observations]

    def variance_of_sum(value_of: Callable[[int], float]) -> float:
        replicates = [value_of(r) for r in range(n_replicates)]
        return n_replicates * float(np.var(replicates, ddof=1))

    single = sum(
        variance_of_sum(lambda r, i=i, s=s: cells.get((i, s, r), 0.0)) for i in observations for s in strata
    )
    if joint:
        together = sum(
            variance_of_sum(lambda r, s=s: sum(cells.get((i, s, r), 0.0) for i in observations))
            for s in strata
        )
    else:
        together = single
    mask_variance = together / n**2
    covariance = (together - single) / (n * (n - 1))  # of two observations' estimates
    data_variance = (float(np.var(estimates, ddof=1)) - single / n + covariance) / n
    return sum(estimates) / n, mask_variance, max(0.0, data_variance)
