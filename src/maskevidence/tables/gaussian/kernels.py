"""Kernels N(μ + a c_i, h² Σ) around training rows, a = √(1 - h²): what every bandwidth h needs of them."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from maskevidence.tables.gaussian.family import LOG_2PI, DataRows, check_table, refuse_constant
from maskevidence.tables.gaussian.full_covariance import unique_rows
from maskevidence.tables.gaussian.precision import Precision
from maskevidence.tables.gaussian.shrunk_covariance import ShrunkFit

MAX_CENTRES = 1000
_MIN_ALIKE = 16  # rows of a mask, on average, from which parts of equal masks pay
MAX_ELEMENTS = 2**18  # of an array over some rows, their hidden tokens and all centres: 2 MiB, in the cache


class KernelPart(NamedTuple):
    """Some rows with equally many hidden tokens, and what every bandwidth needs of them.

    With H the hidden and R the visible tokens, c_i the centres about the mean and a = √(1 - h²), the squared
    distance (x - a c_i)_Rᵀ Σ_RR⁻¹ (x - a c_i)_R is base - 2a cross_i + a² own_i, and kernel i expects the
    hidden tokens at shift + a moves_i, about the mean.
    """

    rows: Int64[Tensor, " b"]  # their positions in the batch
    hidden: Int64[Tensor, "b m"]  # the columns that are hidden in each
    base: Float[Tensor, "b 1"]
    cross: Float[Tensor, "b N"]
    own: Float[Tensor, "b N"]
    shift: Float[Tensor, "b m"]
    moves: Float[Tensor, "b m N"]
    inverse: Float[Tensor, "b m m"]  # A⁻¹, the covariance of the hidden tokens given the visible ones under Σ
    pulls: Float[Tensor, "N D"]  # Λ c_i
    precision: Precision  # Λ
    log_determinant: Float[Tensor, " b"]  # of 2π Σ_RR

    n_features: int  # D

    @property
    def alike(self) -> bool:
        """Whether the rows hide the same tokens, and share what follows from these."""
        return self.moves.stride(0) == 0

    @property
    def within(self) -> Float[Tensor, "b m"]:
        """The diagonals of A⁻¹."""
        return torch.diagonal(self.inverse, dim1=1, dim2=2)

    def log_kernels(self, bandwidth: Float[Tensor, ""]) -> Float[Tensor, "b N"]:
        """log N(x_R; a c_i, h² Σ_RR) of every kernel, nats."""
        square = bandwidth.square()
        a, n_visible = torch.sqrt(1 - square), self.n_features - self.hidden.shape[1]
        constant = (self.log_determinant + n_visible * torch.log(square))[:, None] + self.base / square
        log_kernels = torch.addcmul(-0.5 * constant, self.cross, a / square)
        return torch.addcmul(log_kernels, self.own, -0.5 * (1 - square) / square)

    def expected(self, weight: Float[Tensor, "b N"], bandwidth: Float[Tensor, ""]) -> Float[Tensor, "b m"]:
        """The mean of the hidden tokens, about μ, under weights of the kernels that sum to 1."""
        if self.alike:
            moved = weight @ self.moves[0].T
        else:
            pulled = (weight @ self.pulls).gather(1, self.hidden)  # one matrix product for all rows
            moved = (self.inverse @ pulled[:, :, None])[:, :, 0]
        return self.shift + torch.sqrt(1 - bandwidth.square()) * moved

    def variance(
        self, mean: Float[Tensor, "b m"], weight: Float[Tensor, "b N"], bandwidth: Float[Tensor, ""]
    ) -> Float[Tensor, "b m"]:
        """The variance of the hidden tokens under the same weights, given their mean."""
        share = 1 - bandwidth.square()
        moves = self.moves[:1] if self.alike else self.moves
        square = _times(weight, moves.square().mT)
        between = (share * square - (mean - self.shift).square()).clamp(min=0.0)
        return bandwidth.square() * self.within + between


class Kernels(NamedTuple):
    """Kernels around rows, without their bandwidth.

    `covariance` gives Σ, which only rows without a visible token need.
    """

    mean: Float[Tensor, " D"]  # μ
    precision: Precision  # Λ = Σ⁻¹
    covariance: Callable[[], Float[Tensor, "D D"]]
    centres: Float[Tensor, "N D"]  # the rows about μ

    def centred(self, values: Float[Tensor, "b D"], known: Bool[Tensor, "b D"]) -> Float[Tensor, "b D"]:
        """x - μ in the dtype of the centres, 0 where not known."""
        return torch.where(known, values - self.mean, 0.0).to(self.centres.dtype)

    def parts(self, values: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]) -> Iterator[KernelPart]:
        """The rows of a batch in parts with equally many hidden tokens."""
        precision, log_determinant = self.precision, self.precision.log_determinant
        pulls = precision.times(self.centres)
        own, by_columns = (self.centres * pulls).sum(1), pulls.T.contiguous()
        counts, n_features = (~visible).sum(1), visible.shape[1]
        for count in torch.unique(counts).tolist():
            where = torch.nonzero(counts == count).flatten()
            for rows in _of_equal_masks(visible, where, max(1, MAX_ELEMENTS // (len(own) * max(1, count)))):
                if count == n_features:
                    yield self._nothing_visible(rows, pulls)
                    continue
                hidden = torch.nonzero(~visible[rows])[:, 1].reshape(len(rows), count)
                x = self.centred(values[rows], visible[rows])
                pull = precision.times(x)
                each = hidden if bool((hidden != hidden[0]).any()) else hidden[:1]
                factor_hidden = torch.linalg.cholesky(precision.block(each))
                inverse, pulls_hidden = torch.cholesky_inverse(factor_hidden), by_columns[each]
                moves = (inverse @ pulls_hidden).expand(len(rows), -1, -1)
                own_hidden = (pulls_hidden * moves[: len(each)]).sum(1)
                inverse = inverse.expand(len(rows), -1, -1)
                pull_hidden = pull.gather(1, hidden)
                shift = (inverse @ pull_hidden[:, :, None])[:, :, 0]
                base = (x * pull).sum(1) - (pull_hidden * shift).sum(1)
                cross = x @ by_columns - _times(shift, pulls_hidden)
                log_block = 2 * torch.log(torch.diagonal(factor_hidden, dim1=1, dim2=2)).sum(1)
                yield KernelPart(
                    rows,
                    hidden,
                    base[:, None],
                    cross,
                    (own - own_hidden).expand(len(rows), -1),
                    -shift,
                    moves,
                    inverse,
                    pulls,
                    precision,
                    (log_determinant + log_block + (n_features - count) * LOG_2PI).expand(len(rows)),
                    n_features,
                )

    def _nothing_visible(self, rows: Int64[Tensor, " b"], pulls: Float[Tensor, "N D"]) -> KernelPart:
        """Rows whose tokens are all hidden: kernel i expects a c_i, and all kernels weigh the same."""
        n_rows, (n_centres, width) = len(rows), self.centres.shape
        zeros = self.centres.new_zeros(n_rows, n_centres)
        return KernelPart(
            rows,
            torch.arange(width, device=rows.device).expand(n_rows, width),
            zeros[:, :1],
            zeros,
            zeros,
            self.centres.new_zeros(n_rows, width),
            self.centres.T.expand(n_rows, width, n_centres),
            self.covariance().expand(n_rows, width, width),
            pulls,
            self.precision,
            zeros[:, 0],
            width,
        )


def _of_equal_masks(
    visible: Bool[Tensor, "B D"], rows: Int64[Tensor, " b"], at_once: int
) -> Iterator[Int64[Tensor, " _"]]:
    """The rows in parts, of equal masks where many are equal: these share one block."""
    of = unique_rows(visible[rows])[1]
    counts = torch.bincount(of)
    groups = [rows]
    if len(rows) >= _MIN_ALIKE * len(counts):
        groups = list(torch.split(rows[torch.argsort(of, stable=True)], counts.tolist()))
    for group in groups:
        yield from torch.split(group, at_once)


def _times(rows: Float[Tensor, "b n"], tables: Float[Tensor, "T n k"]) -> Float[Tensor, "b k"]:
    """Each row times its own table, or times the one table of all rows."""
    return rows @ tables[0] if len(tables) == 1 else (rows[:, None] @ tables)[:, 0]


def around_rows(fit: ShrunkFit, seed: int = 0) -> tuple[Kernels, Int64[np.ndarray, " n_centres"]]:
    """Kernels around at most 1,000 random rows of a fit, and the positions of these rows."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(fit.filled))[:MAX_CENTRES])
    mean, centres = torch.from_numpy(fit.mean), torch.from_numpy(fit.filled[rows] - fit.mean)
    return Kernels(mean, fit.precision(), lambda: torch.from_numpy(fit.covariance), centres), rows


def check_kernel_table(
    table: DataRows,
    tolerance: float = 1e-3,
    max_iterations: int = 1000,
    names: Sequence[str] | None = None,
) -> None:
    """Check that a `KernelGaussian` can be fitted to a table."""
    check_table(table, 0, tolerance, max_iterations, names)
    refuse_constant(table, names)
