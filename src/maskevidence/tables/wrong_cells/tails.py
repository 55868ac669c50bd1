"""How rare a suspicion is among right cells, if no row is trusted: by the tail of each column."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.tables.wrong_cells.cell_search import Ints, Judged, Rows, Sets

Likelihoods = Float64[np.ndarray, "X W"]  # by shape and share of wrong cells

_BEYOND = 0.9  # the quantile at which tails begin
_MOST_FITTED = 500  # cells that stand for more
_SHAPES = np.append(0.01, np.arange(0.2, 3.3, 0.2))
_SCALES = np.geomspace(0.2, 3, 12)  # medians of the excesses
_WRONG = np.linspace(0, 0.2, 5)  # possible shares of wrong cells in the tails
_OF_SHARES = np.array([0.5, 0.125, 0.125, 0.125, 0.125])  # their probabilities before
_NATS = 10.0  # the median excess of a wrong cell
_CENTRES, _SPREADS = np.arange(0, 3.1, 0.2), np.array([0.05, 0.1, 0.2, 0.4, 0.8])  # of the columns' shapes
_NO_MEAN = 0.25  # the probability of a shape of 1 or more above which no cell is rare
_LEAST = 0.05  # nats of the median excess; less is a fit to the extremes


class Tails:
    """The tails of the surprises -log p of each column: right cells, and some wrong ones.

    Excesses over the 90 % quantile are those of right cells, generalised Pareto with a shape ξ_j of the
    column, and of wrong cells, a share w of them in all columns, with density 10 / (10 + nats)². The ξ_j vary
    around a common centre. The posterior is over the ξ_j, their centre and spread, and w, with the likeliest
    scales. Cells of a row are alike: log-likelihoods are divided by the variance of the number of excesses in
    a row, relative to that of independent cells. Where the tail may have no mean, or the model hardly tells
    usual cells apart, no cell is rare.
    """

    def __init__(self, judged: Judged) -> None:
        surprise = judged.suspicion - judged.log_wrong
        self.n_cells, self.n_rows = (~np.isnan(surprise)).sum(), len(surprise)
        self.columns = [_Column.fit(*each) for each in zip(surprise.T, judged.log_wrong.T, strict=True)]
        n_beyond = (surprise > [each.start for each in self.columns]).sum(1)
        alone = n_beyond.mean() * (1 - n_beyond.mean() / surprise.shape[1])
        alike = max(1.0, n_beyond.var() / max(alone, 1e-300))
        self.posterior = _posterior(np.stack([each.log_likelihood for each in self.columns]) / alike)

    def share(self, suspicion: Rows) -> Rows:
        """The share of right cells that are at least as suspicious as each of these."""
        column, row = np.nonzero(~np.isnan(suspicion).T)
        shares = np.full(suspicion.shape, np.nan)
        shares[row, column] = self._at(suspicion[row, column], column)
        return shares

    def of_sets(self, sets: Sets) -> Float64[np.ndarray, " n"]:
        """The number of right cells of a row that are at least as suspicious as a set."""
        (place, column), most = np.nonzero(sets.cells), np.zeros(len(sets.row))
        of_cell = sets.suspicion - np.log(sets.cells.sum(1))
        np.maximum.at(most, place, self._at(of_cell[place], column))
        return most * self.n_cells / self.n_rows

    def _at(self, level: Float64[np.ndarray, " n"], column: Ints) -> Float64[np.ndarray, " n"]:
        """The share of right cells of a column that are at least as suspicious as a level."""
        shares = np.empty_like(level)
        for j, (of_column, posterior) in enumerate(zip(self.columns, self.posterior, strict=True)):
            shares[column == j] = of_column.above(level[column == j], posterior)
        return shares


class _Column(NamedTuple):
    """The surprises of a column, and the fits of their tail."""

    ordered: Float64[np.ndarray, " n"]
    start: float  # of the tail
    log_wrong: float  # the usual log q in the tail
    log_likelihood: Likelihoods
    scale: Likelihoods

    @classmethod
    def fit(cls, surprise: Float64[np.ndarray, " N"], log_wrong: Float64[np.ndarray, " N"]) -> "_Column":
        """Fit scales for each shape and share of wrong cells."""
        ordered = np.sort(surprise[~np.isnan(surprise)])
        start = float(np.quantile(ordered, _BEYOND)) if len(ordered) else 0.0
        excess, flat = ordered[ordered > start] - start, np.zeros((len(_SHAPES), len(_WRONG)))
        usual, n = float(np.median(log_wrong[surprise >= start])) if len(ordered) else 0.0, len(excess)
        if not n or np.median(excess) < _LEAST:
            return cls(ordered, start, usual, flat, flat)
        n = min(n, _MOST_FITTED)
        some = excess[((np.arange(n) + 0.5) * (len(excess) / n)).astype(int)]
        shape, scale = _SHAPES[:, None, None], np.median(excess) * _SCALES[:, None]
        right = np.exp(-(1 / shape + 1) * np.log1p(shape * some / scale)) / scale
        wrong = _NATS / (_NATS + some) ** 2
        by_share = [np.log((1 - w) * right + w * wrong + 1e-300).sum(-1) for w in _WRONG]
        likelihood = np.stack(by_share, axis=-1) * len(excess) / n
        return cls(ordered, start, usual, likelihood.max(1), scale[likelihood.argmax(1), 0])

    def above(
        self, suspicion: Float64[np.ndarray, " n"], posterior: Likelihoods
    ) -> Float64[np.ndarray, " n"]:
        """The share of right cells above each level, by ranks and then by the tail."""
        level, n = suspicion - self.log_wrong, max(1, len(self.ordered))
        shares = np.maximum(n - np.searchsorted(self.ordered, level), 1) / n
        if not self.scale.any() or posterior[_SHAPES > 0.99].sum() > _NO_MEAN:
            return np.maximum(shares, 1 - _BEYOND)
        beyond = np.flatnonzero(level > self.start)
        shares[beyond] = 0.0
        for x, w in np.argwhere(posterior > 1e-9 * posterior.max()):
            excess = (level[beyond] - self.start) / self.scale[x, w]
            right = (1 - _WRONG[w]) * np.exp(-np.log1p(_SHAPES[x] * excess) / _SHAPES[x])
            shares[beyond] += (1 - _BEYOND) * posterior[x, w] * right
        return shares


def _posterior(log_likelihood: Float64[np.ndarray, "D X W"]) -> Float64[np.ndarray, "D X W"]:
    """The probability of each shape and share of wrong cells, for each column given all of them."""
    likelihood = np.exp(log_likelihood - log_likelihood.max((1, 2), keepdims=True))
    before = np.exp(-0.5 * ((_SHAPES - _CENTRES[:, None, None]) / _SPREADS[:, None]) ** 2)
    before /= before.sum(-1, keepdims=True)
    evidence = np.einsum("msx,jxw->msjw", before, likelihood) + 1e-300
    of_all = np.log(evidence).sum(2) + np.log(_OF_SHARES)
    of_all = np.exp(of_all - of_all.max())
    each = np.einsum("msjw,msx->jxw", of_all[:, :, None] / evidence, before, optimize=True) * likelihood
    return each / each.sum((1, 2), keepdims=True)
