"""Conditional means and deviations under a Gaussian, as extra inputs of a masked network."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor, nn

from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.core.table import spreads
from maskevidence.tables.gaussian.kernel_choice import SHRINKAGES, best_shrinkage
from maskevidence.tables.gaussian.shrunk_covariance import ShrunkFit, fit_shrunk

_N_FOLDS = 10
_MOST_ROWS = 5_000  # rows in the fit
_ELEMENTS = 2**22  # of the matrices inverted in one batch
_SIZES, _LEAST_ROWS = 8, 32  # groups of rows by the number of hidden inputs
_FARTHEST = 8.0  # means are clamped to this, in standard deviations


class GaussianAnswer(nn.Module):
    """The conditional mean and standard deviation of every hidden input given the visible ones.

    Λ is the inverse of a covariance with shrunk correlations, in units of the inputs:

        x_H | x_R ~ N(μ_H - Λ_HH⁻¹ Λ_HR (x_R - μ_R), Λ_HH⁻¹).

    In training, a row is predicted by the fit without the row's fold.

    Args:
        n_inputs: E, the number of encoded inputs.

    Source:
        Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, appendix A.2.
    """

    shift: Tensor
    scale: Tensor
    mean: Tensor
    precision: Tensor

    def __init__(self, n_inputs: int) -> None:
        super().__init__()
        self.register_buffer("shift", torch.zeros(n_inputs))
        self.register_buffer("scale", torch.ones(n_inputs))
        self.register_buffer("mean", torch.zeros(n_inputs))
        self.register_buffer("precision", torch.eye(n_inputs))
        self.fold_of = dict[int, int]()  # the fold of each id, in training only
        self.of_folds: tuple[Tensor, Tensor] | None = None  # means and precisions, in training only

    def fit(
        self,
        x: Float64[np.ndarray, "N E"],
        ids: Int64[np.ndarray, " N"],
        seed: int,
        first: Int64[np.ndarray, " N"] | None = None,
    ) -> None:
        """Fit to all rows and once without each fold; NaN marks a missing value.

        Args:
            first: the id of the first copy of each row, which decides its fold; by default its own.
        """
        of_rows = keyed_bits(seed, 1, ids if first is None else first) % np.uint64(_N_FOLDS)
        self.fold_of = dict(zip(ids.tolist(), of_rows.tolist(), strict=True))
        order = np.argsort(keyed_bits(seed, ids))[:_MOST_ROWS]
        x, fold = x[order], of_rows[order]
        with np.errstate(invalid="ignore"):
            shift, scale = np.nanmean(x, 0), spreads(x)
        scale = np.where(scale > 0, scale, 1.0)
        x = (x - shift) / scale
        parts = [(x[fold != k], x[fold == k]) for k in range(_N_FOLDS)]
        enough = all(len(left) > 0 < len(out) for left, out in parts)
        shrinkage, fits = best_shrinkage(parts, SHRINKAGES) if enough else (SHRINKAGES[0], [])
        whole = fit_shrunk(x, shrinkage, start=fits[0] if fits else None)
        for name, value in zip(("shift", "scale"), (shift, scale), strict=True):
            getattr(self, name).copy_(torch.from_numpy(value))
        self.mean.copy_(torch.from_numpy(whole.mean))
        self.precision.copy_(_precision(whole))
        each = fits or [whole] * _N_FOLDS
        means = torch.from_numpy(np.stack([fit.mean for fit in each])).to(self.mean)
        self.of_folds = means, torch.stack([_precision(fit) for fit in each]).to(self.mean)

    def forward(
        self, x: Float[Tensor, "B E"], visible: Bool[Tensor, "B E"], ids: Int64[Tensor, " B"] | None = None
    ) -> Float[Tensor, "B F"]:
        """Conditional means in standard units, then standard deviations; the value and 0 for visible inputs.

        Args:
            ids: of training rows, which get the answers of the fits without them.
        """
        x = torch.where(visible, (x - self.shift) / self.scale, 0.0)
        if ids is None or self.of_folds is None:
            at_once = max(1, _ELEMENTS // x.shape[1] ** 2)
            parts = zip(torch.split(x, at_once), torch.split(visible, at_once), strict=True)
            return torch.cat([_answer(self.mean, self.precision, *part) for part in parts])
        fold = torch.tensor([self.fold_of[each] for each in ids.tolist()], device=x.device)
        means, precisions = (part.to(x) for part in self.of_folds)
        return _answer(means[fold], precisions[fold], x, visible)


def _precision(fit: ShrunkFit) -> Float64[Tensor, "E E"]:
    return torch.from_numpy(np.linalg.inv(fit.covariance))


def _answer(
    mean: Float[Tensor, "*b E"],
    precision: Float[Tensor, "*b E E"],
    x: Float[Tensor, "B E"],
    visible: Bool[Tensor, "B E"],
) -> Float[Tensor, "B F"]:
    """Solve with the Cholesky factors of Λ_HH, of rows with nearly equally many hidden inputs together."""
    centred = torch.where(visible, x - mean, 0.0)
    pull = torch.where(visible, 0.0, (precision @ centred[:, :, None])[:, :, 0])
    shift, deviation = torch.zeros_like(x), torch.zeros_like(x)
    n_hidden = (~visible).sum(1)
    for rows in torch.tensor_split(torch.argsort(n_hidden), min(_SIZES, 1 + len(x) // _LEAST_ROWS)):
        most = int(n_hidden[rows].max())
        columns = torch.argsort(visible[rows].to(torch.uint8), dim=1, stable=True)[:, :most]
        hidden = ~visible[rows].gather(1, columns)  # False where padded, by the identity
        of_row = (rows[:, None, None],) if precision.ndim > 2 else ()
        block = precision[(*of_row, columns[:, :, None], columns[:, None, :])]
        one = torch.eye(most, dtype=x.dtype, device=x.device)
        root = torch.linalg.cholesky(torch.where(hidden[:, :, None] & hidden[:, None, :], block, one))
        inverse = torch.linalg.solve_triangular(root, one.expand_as(root), upper=False)
        moved = inverse.mT @ (inverse @ pull[rows].gather(1, columns)[:, :, None])
        shift[rows[:, None], columns] = moved[:, :, 0]
        deviation[rows[:, None], columns] = torch.where(hidden, inverse.square().sum(1).sqrt(), 0.0)
    expected = torch.where(visible, x, mean - shift).clamp(-_FARTHEST, _FARTHEST)
    return torch.cat([expected, deviation], 1)
