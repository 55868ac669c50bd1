"""Sufficient statistics of a Gaussian for complete data: number of rows, mean and covariance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from maskevidence.core.errors import InputError
from maskevidence.core.support.provenance import digest
from maskevidence.core.tokens import column_names, columns_among, without_mask


@dataclass(frozen=True)
class GaussianMoments:
    """Number of rows, mean and covariance of complete rows, which determine any Gaussian's mean score.

    They take one pass over the rows, chunk by chunk; after that, the cost does not depend on the number of
    rows. All rows must share their masks.

    Attributes:
        n_rows: N.
        mean: shape (D,).
        covariance: shape (D, D); (1/N) Σ_i (x_i - mean)(x_i - mean)ᵀ.
        columns: the names of the columns, by which models and other moments find them; None without names.

    Example:
        >>> x = torch.arange(12.0).reshape(6, 2) ** 2
        >>> whole = GaussianMoments.from_rows(x)
        >>> parts = GaussianMoments.from_rows(x[:2]).merge(GaussianMoments.from_rows(x[2:]))
        >>> bool(torch.allclose(whole.covariance, parts.covariance)), parts.n_rows
        (True, 6)
    """

    n_rows: int
    mean: Float64[Tensor, " D"]
    covariance: Float64[Tensor, "D D"]
    columns: tuple[str, ...] | None = None

    @classmethod
    def from_rows(cls, x: object) -> "GaussianMoments":
        """Compute the moments of one chunk of rows.

        Args:
            x: shape (N, D); complete and finite.

        Raises:
            InputError: another shape, or a value that is missing or infinite.
        """
        names = column_names(x)
        if not isinstance(x, Tensor):
            x = np.require(without_mask(x), np.float64, "W")
        rows = torch.as_tensor(x, dtype=torch.float64)
        if rows.ndim != 2 or rows.numel() == 0:
            raise InputError(f"moments need an (N, D) table with N, D >= 1, given shape {tuple(rows.shape)}")
        mean = rows.mean(0)
        centred = rows - mean
        covariance = torch.addmm(rows.new_zeros(1), centred.T, centred, beta=0, alpha=1 / len(rows))
        if not math.isfinite(float(covariance.sum())):  # a sum with NaN or infinity is not finite
            raise InputError(
                "moments need a complete table of finite numbers, given missing, infinite or too large "
                "values; score the rows themselves if values are missing"
            )
        return cls(len(rows), mean, covariance, None if names is None else tuple(names))

    def select(self, places: Sequence[int]) -> "GaussianMoments":
        """The moments of the columns at these positions, in this order."""
        columns = None if self.columns is None else tuple(self.columns[k] for k in places)
        covariance = self.covariance[places][:, places]
        return GaussianMoments(self.n_rows, self.mean[places], covariance, columns)

    def merge(self, other: "GaussianMoments") -> "GaussianMoments":
        """Combine the moments of two sets of rows (Chan, Golub, LeVeque 1979).

        Raises:
            InputError: their numbers of columns differ.
        """
        if len(self.mean) != len(other.mean):
            raise InputError(
                f"moments of {len(self.mean)} columns cannot be merged with moments of {len(other.mean)}; "
                "build both from the same columns"
            )
        places = None if self.columns is None else columns_among(self.columns, len(self.mean), other)
        other = other if places is None else other.select(places)
        n_rows = self.n_rows + other.n_rows
        share = other.n_rows / n_rows
        step = other.mean - self.mean
        covariance = (1 - share) * self.covariance + share * other.covariance
        return GaussianMoments(
            n_rows,
            self.mean + share * step,
            covariance + share * (1 - share) * torch.outer(step, step),
            self.columns,
        )

    def fingerprint(self) -> str:
        """The SHA-256 of the number of rows, the mean and the covariance."""
        return digest(np.float64(self.n_rows), self.mean.double(), self.covariance.double())

    def to(self, device: torch.device | str) -> "GaussianMoments":
        """Copy the moments to a device."""
        return replace(self, mean=self.mean.to(device), covariance=self.covariance.to(device))

    def about(self, centre: Float[Tensor, " D"]) -> Float64[Tensor, "D D"]:
        """Second moments about a point, (1/N) Σ_i (x_i - centre)(x_i - centre)ᵀ, shape (D, D)."""
        step = self.mean - centre
        return torch.addr(self.covariance, step, step)
