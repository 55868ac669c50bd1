"""Textbook expectation maximisation for rows with missing values: slow, and obviously right.

Every step raises the log evidence, so that many steps reach a maximum; faster methods must reach it, too.
"""

from collections.abc import Callable
from typing import TypeVar

import numpy as np

State = TypeVar("State")
LowRank = tuple[np.ndarray, np.ndarray, np.ndarray]  # mean (D,), loadings (D, K), noise (D,)
Full = tuple[np.ndarray, np.ndarray]  # mean (D,), covariance (D, D)


def low_rank_step(x: np.ndarray, old: LowRank, *, isotropic: bool) -> LowRank:
    """One step of EM for N(mean, loadings loadingsᵀ + diag(noise)), row by row and column by column."""
    mean, loadings, noise = old
    width, k = loadings.shape
    gram, target, squares = np.zeros((width, k + 1, k + 1)), np.zeros((width, k + 1)), np.zeros(width)
    for row in x:
        seen = np.flatnonzero(~np.isnan(row))
        scaled = loadings[seen] / noise[seen, None]
        covariance = np.linalg.inv(np.eye(k) + scaled.T @ loadings[seen])
        latent = covariance @ scaled.T @ (row[seen] - mean[seen])
        design = np.append(latent, 1.0)
        second = np.outer(design, design)
        second[:k, :k] += covariance
        gram[seen] += second
        target[seen] += np.outer(row[seen], design)
        squares[seen] += row[seen] ** 2
    solution = np.linalg.solve(gram, target[:, :, None])[:, :, 0]
    residual = squares - (target * solution).sum(1)
    counts = gram[:, k, k]
    new = np.full(width, residual.sum() / counts.sum()) if isotropic else residual / counts
    return solution[:, k], solution[:, :k], new


def full_step(x: np.ndarray, old: Full) -> Full:
    """One step of EM for N(mean, covariance), row by row."""
    mean, covariance = old
    first, second = np.zeros_like(mean), np.zeros_like(covariance)
    for row in x:
        seen, gone = np.flatnonzero(~np.isnan(row)), np.flatnonzero(np.isnan(row))
        weights = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, gone)])
        filled = row.copy()
        filled[gone] = mean[gone] + (row[seen] - mean[seen]) @ weights
        first += filled
        second += np.outer(filled, filled)
        second[np.ix_(gone, gone)] += (
            covariance[np.ix_(gone, gone)] - covariance[np.ix_(gone, seen)] @ weights
        )
    new = first / len(x)
    return new, second / len(x) - np.outer(new, new)


def repeated(step: Callable[[State], State], state: State, iterations: int) -> State:
    """Apply `step` a number of times."""
    for _ in range(iterations):
        state = step(state)
    return state


def log_evidence(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """The mean over rows of log N(observed values), nats."""
    total = 0.0
    for row in x:
        seen = np.flatnonzero(~np.isnan(row))
        block, centred = covariance[np.ix_(seen, seen)], row[seen] - mean[seen]
        distance = centred @ np.linalg.solve(block, centred)
        total -= 0.5 * (len(seen) * np.log(2 * np.pi) + np.linalg.slogdet(block)[1] + distance)
    return total / len(x)
