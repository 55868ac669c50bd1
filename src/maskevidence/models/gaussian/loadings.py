"""The factors of a low-rank Gaussian, turned so that they are unique, as columns and as a picture."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.show.pictures import Grid
from maskevidence.show.shown import Columns
from maskevidence.show.words import count, typeset

_MOST_NAMES = 60  # rows that are named

Loadings = Float64[np.ndarray, "D K"]
Vector = Float64[np.ndarray, " D"]


def unique_loadings(loadings: Loadings, noise: Vector) -> Loadings:
    """The same covariance W Wᵀ by factors that are unique, the largest one first.

    W is known up to a rotation only. The factors returned are those for which Wᵀ Ψ⁻¹ W is diagonal, and
    the largest loading of each is positive.

    Args:
        loadings: W, shape (D, K).
        noise: the diagonal of Ψ, shape (D,).

    Example:
        >>> w = np.array([[0.0, -2.0], [0.0, -2.0], [1.0, 0.0]])
        >>> unique_loadings(w, np.ones(3)).round(6).tolist()
        [[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]]
    """
    _, _, rotation = np.linalg.svd(loadings / np.sqrt(noise)[:, None], full_matrices=False)
    turned = loadings @ rotation.T
    largest = turned[np.abs(turned).argmax(axis=0), np.arange(turned.shape[1])]
    return turned * np.where(largest < 0, -1.0, 1.0) + 0.0


def loadings_columns(loadings: Loadings, mean: Vector, noise: Vector, names: Sequence[str] | None) -> Columns:
    """A row for each column of the table: its mean, its noise and its loadings, in its units.

    Args:
        loadings: W, shape (D, K).
        mean: shape (D,).
        noise: noise variances, shape (D,).
        names: of the columns; None for 0, 1, ...
    """
    turned = unique_loadings(loadings, noise)
    values: dict[str, Any] = {"mean": mean, "noise_sd": np.sqrt(noise)}
    values |= {f"factor_{k}": turned[:, k] for k in range(turned.shape[1])}
    return Columns(values, names, "column")


def loadings_picture(loadings: Loadings, noise: Vector, names: Sequence[str] | None) -> tuple[Grid, str]:
    """The correlation of each column with each factor.

    Args:
        loadings: W, shape (D, K).
        noise: noise variances, shape (D,).
        names: of the columns; None for 0, 1, ...
    """
    n_columns, n_factors = loadings.shape
    signal = (loadings**2).sum(axis=1)
    shares, sd = signal / (signal + noise), np.sqrt(signal + noise)
    correlation = unique_loadings(loadings, noise) / sd[:, None]
    rows = [str(k) for k in range(n_columns)] if names is None else list(names)
    explained = f"{'explain' if n_factors > 1 else 'explains'} {typeset(100 * float(shares.mean()), 0)} %"
    picture = Grid(
        correlation,
        rows if n_columns <= _MOST_NAMES else (),
        [str(k) for k in range(n_factors)],
        "correlation of the column with the factor",
        "factor",
        "column",
    )
    return picture, f"{count(n_factors, 'factor')} {explained} of a column's variance"
