"""A mixture of few components, for the joint density of numbers and words."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor, nn

from maskevidence.core.model import Conditionals
from maskevidence.core.tokens import Tokens
from maskevidence.tables.gaussian.family import LOG_2PI
from maskevidence.tables.gaussian.kernel_gaussian import KernelGaussian
from maskevidence.tables.noise import chosen

_MOST, _FEWEST_TRIED = 64, 8  # components
_STEPS, _TOLERANCE = 60, 2e-4  # of EM at each number of components; nats per row
_ROUNDS = 3  # of draws of missing cells
_STEP = 0.6  # of the means of a component that is split, in standard deviations along its longest axis
_TILT, _AVERAGES = 1.0, 8  # of the log shares by the scores of words; rounds that find these
_ROWS = 1.0  # that stand for the covariance or the shares of all rows

Rows = Float64[np.ndarray, "n D"]
Known = Bool[np.ndarray, "n D"]


class Mixture(nn.Module):
    """log p(x) = log Σ_k w_k N(numbers; m_k, S_k) Π_j θ_kj(word j), whose conditionals are exact.

    `path` fits 1, 2, 4, ... components by EM: each component is split along its longest axis and where its
    words depend on each other, and EM goes on from there.

    Args:
        sizes: the number of words of each column, 0 for numbers.
        mean: of the numbers, for one component.
        covariance: likewise.

    Source:
        Dempster, Laird and Rubin (1977), Maximum likelihood from incomplete data via the EM algorithm;
        Ueda et al. (2000), SMEM algorithm for mixture models (splits).
    """

    conditionals: Conditionals = "exact"

    def __init__(
        self, sizes: Sequence[int], mean: Float64[np.ndarray, " p"], covariance: Float64[np.ndarray, "p p"]
    ) -> None:
        super().__init__()
        self.sizes, self.numbers = list(sizes), [j for j, size in enumerate(sizes) if not size]
        self.log_weight, self.mean, self.covariance = np.zeros(1), mean[None], covariance[None]
        self.shares = {j: np.full((1, size), 1 / size) for j, size in enumerate(sizes) if size}

    def log_components(self, values: Rows, known: Known) -> Float64[np.ndarray, "n K"]:
        """log w_k + log p_k(known values) of each row."""
        result = np.repeat(self.log_weight[None], len(values), axis=0)
        for j, shares in self.shares.items():
            of_words = np.log(shares).T[np.where(known[:, j], values[:, j], 0).astype(int)]
            result += np.where(known[:, [j]], of_words, 0.0)
        for rows, seen in _patterns(known[:, self.numbers]):
            if not (n_seen := len(seen)):
                continue
            white = np.linalg.inv(np.linalg.cholesky(self.covariance[:, seen[:, None], seen]))
            x = values[np.ix_(rows, np.array(self.numbers)[seen])]
            scores = (x @ white.reshape(-1, n_seen).T).reshape(len(x), -1, n_seen)
            scores -= (white @ self.mean[:, seen, None])[:, :, 0]
            log_scale = np.log(np.diagonal(white, axis1=1, axis2=2)).sum(1) - n_seen * LOG_2PI / 2
            result[rows] += log_scale - np.einsum("nkd,nkd->nk", scores, scores) / 2
        return result

    def log_density(self, values: Rows, known: Known) -> Float64[np.ndarray, " n"]:
        """log p(known values) of each row."""
        return _sum(self.log_components(values, known))[:, 0]

    def log_evidence(self, tokens: Tokens) -> Float64[Tensor, " n"]:
        """log p(maskable tokens | context) of each row, nats."""
        values, context = tokens.values.double().numpy(), tokens.context.numpy()
        joint = self.log_density(values, tokens.maskable.numpy() | context)
        return torch.from_numpy(joint - self.log_density(values, context))

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "n D"]) -> Float64[Tensor, "n D"]:
        """log p(x_j | x_visible) in nats; 0 where `masked` is False."""
        values, visible = tokens.values.double().numpy(), tokens.visible(masked).numpy()
        result, before = np.zeros_like(values), self.log_density(values, visible)
        for j in np.flatnonzero(masked.any(0).numpy()):
            rows, also = np.flatnonzero(masked[:, j].numpy()), visible.copy()
            also[:, j] = True
            result[rows, j] = self.log_density(values[rows], also[rows]) - before[rows]
        return torch.from_numpy(result)

    def values_of(self, column: int) -> Float64[Tensor, " V"] | None:
        """The codes of a column of words; None for numbers."""
        size = self.sizes[column]
        return torch.arange(size, dtype=torch.float64) if size else None

    def draw_missing(self, x: Rows, draws: int = 1, seed: int = 0) -> Float64[np.ndarray, "draws n D"]:
        """Draw the missing values of each row from p(missing | observed)."""
        rng = np.random.default_rng(seed)
        return np.stack([self._drawn(x, rng) for _ in range(draws)])

    def _drawn(self, x: Rows, rng: np.random.Generator) -> Rows:
        known, values = ~np.isnan(x), x.copy()
        logs = self.log_components(np.nan_to_num(x), known)
        of = _picked(np.exp(logs - _sum(logs)), rng)
        for j, shares in self.shares.items():
            values[:, j] = np.where(known[:, j], values[:, j], _picked(shares[of], rng))
        for rows, seen in _patterns(known[:, self.numbers]):
            gone = np.setdiff1d(np.arange(len(self.numbers)), seen)
            slope = np.linalg.solve(
                self.covariance[:, seen[:, None], seen], self.covariance[:, seen[:, None], gone]
            )
            within = self.covariance[:, gone[:, None], gone]
            within = within - self.covariance[:, gone[:, None], seen] @ slope
            which, places = of[rows], np.array(self.numbers, dtype=int)
            off = values[np.ix_(rows, places[seen])] - self.mean[which][:, seen]
            noise = rng.normal(size=(len(rows), len(gone)))
            moved = np.einsum("ns,nsg->ng", off, slope[which])
            moved += np.einsum("ngh,nh->ng", np.linalg.cholesky(within)[which], noise)
            values[np.ix_(rows, places[gone])] = self.mean[which][:, gone] + moved
        return values

    def _em(self, x: Rows, first: "Mixture") -> None:
        """EM on complete rows, in place; the covariance and shares of `first` count as one row."""
        last, numbers, known = -math.inf, x[:, self.numbers], np.ones(x.shape, dtype=bool)
        words = {j: x[:, j].astype(int) for j in self.shares}
        for _ in range(_STEPS):
            logs = self.log_components(x, known)
            total = _sum(logs)
            if float(total.mean()) - last < _TOLERANCE:
                return
            last, part = float(total.mean()), np.exp(logs - total)
            size, n_components = part.sum(0) + 1e-9, part.shape[1]
            self.log_weight = np.log((size + 1) / (len(x) + n_components))
            self.mean = part.T @ numbers / size[:, None]
            prior = _ROWS * first.covariance * n_components ** (-2 / max(1, len(self.numbers)))
            second = (part.T[:, :, None] * numbers).transpose(0, 2, 1) @ numbers
            centred = second - size[:, None, None] * self.mean[:, :, None] * self.mean[:, None, :]
            self.covariance = (centred + prior) / (size + _ROWS)[:, None, None]
            for j, codes in words.items():
                counts = np.stack([np.bincount(codes, each, self.sizes[j]) for each in part.T])
                rows = _ROWS / n_components
                self.shares[j] = (counts + rows * first.shares[j]) / (size + rows)[:, None]

    def _split(self, x: Rows, rng: np.random.Generator) -> None:
        """Make two components of each, in place: along its longest axis, and by the scores of its words."""
        step, along = np.zeros_like(self.mean), np.zeros((len(x), len(self.mean)))
        if self.numbers:
            length, axes = np.linalg.eigh(self.covariance)
            axis, spread = axes[:, :, -1], np.sqrt(length[:, -1:])
            step = _STEP * axis * spread
            along = (x[:, self.numbers] @ axis.T - (self.mean * axis).sum(1)) / spread.T
        scores = self._scores(x, along, rng) if self.shares else {}
        for j, shares in self.shares.items():
            bent = np.concatenate([shares * np.exp(sign * scores[j]) for sign in (_TILT, -_TILT)])
            self.shares[j] = bent / bent.sum(1, keepdims=True)
        self.mean = np.concatenate([self.mean + step, self.mean - step])
        left = self.covariance - 0.9 * step[:, :, None] * step[:, None]
        self.covariance = np.tile(left, (2, 1, 1))
        self.log_weight = np.tile(self.log_weight, 2) - math.log(2)

    def _scores(
        self, x: Rows, along: Float64[np.ndarray, "n K"], rng: np.random.Generator
    ) -> dict[int, Float64[np.ndarray, "K V"]]:
        """Scores of the words in each component: the mean score of the other cells of their rows.

        Repeated (reciprocal averaging), this finds the axis along which the columns depend most.
        """
        logs = self.log_components(x, np.ones(x.shape, dtype=bool))
        part, codes = np.exp(logs - _sum(logs)), {j: x[:, j].astype(int) for j in self.shares}
        scores = {j: rng.normal(size=shares.shape) for j, shares in self.shares.items()}
        for _ in range(_AVERAGES):
            for j, shares in self.shares.items():
                others = along + sum(scores[k].T[of] for k, of in codes.items() if k != j)
                sums = [
                    np.stack([np.bincount(codes[j], each, shares.shape[1]) for each in weights.T])
                    for weights in (part * others, part)
                ]
                mean = sums[0] / (sums[1] + _ROWS)
                mean -= (shares * mean).sum(1, keepdims=True)
                scores[j] = mean / (np.sqrt((shares * mean**2).sum(1, keepdims=True)) + 1e-9)
        return scores

    @classmethod
    def path(
        cls,
        train: Rows,
        sizes: Sequence[int],
        shrinkage: float | None = None,
        most: int = _MOST,
        out: Float64[np.ndarray, "m D"] | None = None,
    ) -> tuple["Mixture", list[float]]:
        """Fit 1, 2, 4, ... components to rows with at least one value each.

        Returns:
            The last mixture, and of each one the log-probability of other rows, `out`; the path ends where it
            has fallen twice.
        """
        rng, scores, torn = np.random.default_rng(0), list[float](), np.isnan(train).any(1)
        first, filled, n = cls._one(train, sizes, shrinkage), train.copy(), 1
        made = copy.deepcopy(first)
        while True:
            for _ in range(_ROUNDS if torn.any() else 1):
                if torn.any():
                    filled[torn] = made._drawn(train[torn], rng)
                made._em(filled, first)
            if out is not None:
                scores.append(float(made.log_density(np.nan_to_num(out), ~np.isnan(out)).sum()))
                if n >= _FEWEST_TRIED and max(scores[-2:]) < max(scores):
                    break
            if n >= most:
                break
            made._split(filled, rng)
            n *= 2
        return made, scores

    @classmethod
    def _one(cls, train: Rows, sizes: Sequence[int], shrinkage: float | None) -> "Mixture":
        """One component: a shrunk covariance of the numbers, and shares of all words."""
        numbers = [j for j, size in enumerate(sizes) if not size]
        mean, covariance = np.zeros(0), np.zeros((0, 0))
        if numbers:
            some = train[:, numbers][~np.isnan(train[:, numbers]).all(1)]
            start = KernelGaussian(len(numbers)).fit(some, shrinkage=shrinkage, bandwidth=0.5).gaussian
            mean, covariance = (each.detach().numpy() for each in (start.mean, start.covariance))
        made = cls(sizes, mean, covariance)
        for j in made.shares:
            seen = train[~np.isnan(train[:, j]), j].astype(int)
            counts = np.bincount(seen, minlength=sizes[j]) + 0.5
            made.shares[j] = (counts / counts.sum())[None]
        return made


def _sum(logs: Float64[np.ndarray, "n K"]) -> Float64[np.ndarray, "n 1"]:
    """log Σ exp of each row."""
    top = logs.max(1, keepdims=True)
    return np.log(np.exp(logs - top).sum(1, keepdims=True)) + top


def _picked(p: Float64[np.ndarray, "n K"], rng: np.random.Generator) -> Int64[np.ndarray, " n"]:
    """One index for each row, drawn with its probabilities."""
    return chosen(torch.from_numpy(p), torch.from_numpy(rng.random(len(p)))).numpy()


def _patterns(known: Known) -> list[tuple[Any, Any]]:
    """The rows of each pattern of known columns, and these columns."""
    if known.all():
        return [(np.arange(len(known)), np.arange(known.shape[1]))] if known.shape[1] else []
    kinds, place = np.unique(known, axis=0, return_inverse=True)
    place = place.reshape(-1)
    return [(np.flatnonzero(place == k), np.flatnonzero(kind)) for k, kind in enumerate(kinds)]
