"""The shrinkage and the bandwidth of a `KernelGaussian`, by cross-validation."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor, nn

from maskevidence.core.support.progress import progress
from maskevidence.tables.folds import folds_of
from maskevidence.tables.gaussian.family import DataRows
from maskevidence.tables.gaussian.kernels import MAX_CENTRES, KernelPart, around_rows, check_kernel_table
from maskevidence.tables.gaussian.shrunk_covariance import ShrunkFit, fit_shrunk, log_evidence_under

SHRINKAGES = (0.5, 0.25, 0.1, 0.02, 0.002)
BANDWIDTHS = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
N_FOLDS = 5
_ENOUGH_ROWS = 150  # held out, in as few of the folds as have them
_FEWEST_VALUES, _MOST_VALUES, _MOST_PAIRS = 500, 2000, 700_000  # predicted; and pairs with a kernel
_TOLERANCE = 2e-2  # of EM during the search
# on one core: seconds for the cube of the columns of a fit of complete rows, of its choice if there are no
# fewer rows, and of a step of EM; and for the cube of the missing values of a row in such a step
_OF_FIT, _OF_CHOICE, _OF_STEP, _OF_HOLES = 6e-11, 1.2e-9, 5e-11, 2.5e-10
_STEPS = 12  # of EM

_Fold = tuple[Float64[np.ndarray, "_ D"], Float64[np.ndarray, "_ D"]]  # the rows that are left, and those out


def seconds_of_fit(table: DataRows, *, chooses: bool) -> float:
    """About how long a fit takes on one core, with or without the choice of its kernels."""
    n_rows, width = table.shape
    n_missing, cube = np.isnan(table).sum(1), float(width) ** 3
    if not n_missing.any():
        return (_OF_CHOICE if chooses and n_rows >= width else _OF_FIT) * cube
    step = _OF_STEP * cube + _OF_HOLES * float((n_missing.astype(float) ** 3).sum())
    return _STEPS * step * (1 + chooses * N_FOLDS * (len(SHRINKAGES) - 1))


class KernelChoice(NamedTuple):
    """What cross-validation chose, and how far its predictions were off."""

    shrinkage: float  # λ
    bandwidth: float  # h
    columns: Int64[np.ndarray, " n"]  # the columns of the values that were predicted
    residuals: Float64[np.ndarray, " n"]  # (value - predicted mean) / predicted standard deviation


def choose_kernels(
    table: DataRows, *, shrinkage: float | None = None, bandwidth: float | None = None, seed: int = 0
) -> KernelChoice:
    """The shrinkage with the highest held-out evidence, and the bandwidth with the smallest squared error.

    Rows are held out in five folds, in as many of them as hold 150 rows. The shrinkage is that under which
    the Gaussian gives the held-out rows the highest evidence; it falls from 0.5 until that falls, too. With
    it, up to 2,000 observed values of held-out rows are hidden one at a time and predicted from the others of
    their row, in units of the columns.
    """
    check_kernel_table(table)
    bandwidths = BANDWIDTHS if bandwidth is None else (bandwidth,)
    rng = np.random.default_rng(seed)
    x = (table - np.nanmean(table, axis=0)) / np.nanstd(table, axis=0)
    folds = folds_of(table, min(N_FOLDS, len(x)), rng)
    needed = int(np.searchsorted(np.cumsum([len(fold) for fold in folds]), _ENOUGH_ROWS)) + 1
    held_out = folds[:needed]
    parts = [(np.delete(x, fold, axis=0), x[fold]) for fold in held_out]
    shrinkage, fits = best_shrinkage(parts, SHRINKAGES if shrinkage is None else (shrinkage,))
    n_values = min(max(_MOST_PAIRS // min(len(x), MAX_CENTRES), _FEWEST_VALUES), _MOST_VALUES)
    each = -(-n_values // len(parts))
    hidden = [_hide_one(fit, out, each, rng) for fit, (_, out) in zip(fits, parts, strict=True)]
    residuals = [np.concatenate([probe.predicted(h) for probe in hidden]) for h in bandwidths]
    best = int(np.argmin([(residual**2).mean() for residual in residuals]))
    spread = np.concatenate([probe.predicted(bandwidths[best], spread=True) for probe in hidden])
    columns = np.concatenate([probe.columns for probe in hidden])
    return KernelChoice(shrinkage, bandwidths[best], columns, residuals[best] / spread)


def best_shrinkage(parts: list[_Fold], shrinkages: tuple[float, ...]) -> tuple[float, list[ShrunkFit]]:
    """The shrinkage with the highest evidence of the held-out rows, and the fits to the others with it."""
    highest, best = -np.inf, (shrinkages[0], list[ShrunkFit]())
    starts: Sequence[ShrunkFit | None] = [None] * len(parts)
    with progress("shrinkage", len(shrinkages) * len(parts), parts=True) as advance:
        for shrinkage in shrinkages:
            fits, evidence = list[ShrunkFit](), 0.0
            for (left, out), start in zip(parts, starts, strict=True):
                fits.append(fit_shrunk(left, shrinkage, _TOLERANCE, start=start))
                evidence += log_evidence_under(fits[-1], out)
                advance(1)
            if evidence <= highest:
                break
            highest, best, starts = evidence, (shrinkage, fits), fits
    return best


class _Hidden(NamedTuple):
    """Values of held-out rows, each hidden alone."""

    columns: Int64[np.ndarray, " n"]
    parts: list[KernelPart]  # their rows, as the kernels see them
    wanted: list[Tensor]  # shape (b, m) for each part; which of the hidden tokens is the value
    truth: list[Tensor]  # shape (b,) for each part; the values about μ

    def predicted(self, bandwidth: float, *, spread: bool = False) -> Float64[np.ndarray, " n"]:
        """Value - predicted mean, or the predicted standard deviations."""
        result, h = np.empty(len(self.columns)), torch.tensor(bandwidth, dtype=torch.float64)
        for part, wanted, truth in zip(self.parts, self.wanted, self.truth, strict=True):
            weight = torch.softmax(part.log_kernels(h), 1)
            mean = part.expected(weight, h)
            of_part = part.variance(mean, weight, h).sqrt()[wanted] if spread else truth - mean[wanted]
            result[part.rows] = of_part
        return result


def _hide_one(
    fit: ShrunkFit,
    out: Float64[np.ndarray, "_ D"],
    n: int,
    rng: np.random.Generator,
) -> _Hidden:
    """At most n of the observed values of held-out rows, each hidden alone."""
    places = np.argwhere(~np.isnan(out))
    places = places[rng.permutation(len(places))[:n]]
    rows, column = torch.from_numpy(out[places[:, 0]]), torch.from_numpy(places[:, 1].copy())
    kernels, _ = around_rows(fit)
    visible = ~torch.isnan(rows) & ~nn.functional.one_hot(column, out.shape[1]).bool()
    with torch.no_grad():
        parts = list(kernels.parts(rows, visible))
        wanted = [part.hidden == column[part.rows][:, None] for part in parts]
        centred = rows - kernels.mean
        truth = [
            centred[part.rows].gather(1, part.hidden)[there]
            for part, there in zip(parts, wanted, strict=True)
        ]
    return _Hidden(column.numpy(), parts, wanted, truth)
