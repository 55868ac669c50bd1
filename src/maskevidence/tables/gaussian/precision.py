"""The inverse Λ of a covariance: as a matrix, or in the span of fewer rows than columns."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from torch import Tensor


class DensePrecision(NamedTuple):
    """Λ of a Cholesky factor of Σ."""

    matrix: Float[Tensor, "D D"]
    log_determinant: Float[Tensor, ""]  # of Σ

    @classmethod
    def of(cls, factor: Float[Tensor, "D D"]) -> "DensePrecision":
        """From the Cholesky factor of Σ."""
        return cls(torch.cholesky_inverse(factor), 2 * torch.log(torch.diagonal(factor)).sum())

    @property
    def diagonal(self) -> Float[Tensor, " D"]:
        """Λ_jj."""
        return torch.diagonal(self.matrix)

    def times(self, rows: Float[Tensor, "b D"]) -> Float[Tensor, "b D"]:
        """Rows times Λ."""
        return rows @ self.matrix

    def block(self, columns: Int64[Tensor, "b m"]) -> Float[Tensor, "b m m"]:
        """Λ_HH of some columns H for each row."""
        return self.matrix[columns[:, :, None], columns[:, None, :]]


class ThinPrecision(NamedTuple):
    """Λ = diag(d) - W Wᵀ with as many columns of W as rows were fitted (Woodbury)."""

    diagonal_part: Float[Tensor, " D"]  # d
    weights: Float[Tensor, "D n"]  # W
    log_determinant: Float[Tensor, ""]  # of Σ

    @classmethod
    def of(
        cls, rows: Float64[np.ndarray, "n D"], scale: Float64[np.ndarray, " D"], shrinkage: float
    ) -> "ThinPrecision":
        """Of Σ = diag(s) (XᵀX + λ I) diag(s), from the n x n matrix M = X Xᵀ + λ I.

        (XᵀX + λ I)⁻¹ = (I - Xᵀ M⁻¹ X) / λ, and log|XᵀX + λ I| = log|M| + (D - n) log λ.

        Args:
            rows: X.
            scale: s.
            shrinkage: λ.
        """
        x, s = torch.from_numpy(rows), torch.from_numpy(scale)
        n, width = x.shape
        root = torch.linalg.cholesky(x @ x.T + shrinkage * torch.eye(n, dtype=x.dtype))
        white = torch.linalg.solve_triangular(root, x, upper=False) / np.sqrt(shrinkage)
        log_determinant = 2 * (torch.log(torch.diagonal(root)).sum() + torch.log(s).sum())
        return cls(
            1 / (shrinkage * s.square()), (white / s).T, log_determinant + (width - n) * np.log(shrinkage)
        )

    @property
    def diagonal(self) -> Float[Tensor, " D"]:
        """Λ_jj."""
        return self.diagonal_part - self.weights.square().sum(1)

    def times(self, rows: Float[Tensor, "b D"]) -> Float[Tensor, "b D"]:
        """Rows times Λ."""
        return rows * self.diagonal_part - (rows @ self.weights) @ self.weights.T

    def block(self, columns: Int64[Tensor, "b m"]) -> Float[Tensor, "b m m"]:
        """Λ_HH of some columns H for each row."""
        weights = self.weights[columns]
        return torch.diag_embed(self.diagonal_part[columns]) - weights @ weights.mT


Precision = DensePrecision | ThinPrecision
