"""Models in NumPy whose log evidence is known, and how often an interval of the masks' error covers it.

The rows, the masks, the weights and the errors are those of the package; the scores are computed here,
because a model of the package would take most of the time.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

import numpy as np
from scipy.special import ndtri

from maskevidence.evidence.score_means import mean_of_scores
from maskevidence.evidence.standard_errors import MeanWithErrors, t_half_width
from maskevidence.masks.design import DrawnMasks, MaskDesign, MaskKey, Masks, drawn_masks
from maskevidence.scores.record import ScoreTable
from maskevidence.support.keyed_random import keyed_bits
from maskevidence.support.subsets import listed_subsets, mask_of
from maskevidence.tokens import positions

LARGEST_SE, ONE_SE = 3.0, 0.1  # of the scores of one size, and of all others
RARE, BAD = 0.01, -30.0  # the share of bad masks, and their scores
COVERED = 1e-9


class Scores(Protocol):
    """A model: its rows for a run, their scores under masks, and their log evidence."""

    def rows(self, n: int, seed: int) -> np.ndarray: ...

    def score(self, x: np.ndarray, masks: DrawnMasks) -> np.ndarray: ...

    def log_evidence(self, x: np.ndarray, observed: np.ndarray) -> np.ndarray: ...


class OneFactor:
    """A Gaussian with one factor, x = w·z + noise, whose curve is steep: one visible token tells z."""

    def __init__(self, n_tokens: int) -> None:
        self.loadings = 3.0 * np.random.default_rng(1).normal(size=n_tokens)
        self.noise = 0.1

    def rows(self, n: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        noise = math.sqrt(self.noise) * rng.normal(size=(n, len(self.loadings)))
        return rng.normal(size=(n, 1)) * self.loadings + noise

    def score(self, x: np.ndarray, masks: DrawnMasks) -> np.ndarray:
        masked = masks.masked()
        visible = masks.maskable[masks.row] & ~masked
        scaled = self.loadings / self.noise
        precision = 1.0 + visible @ (self.loadings * scaled)
        factor = np.where(visible, x[masks.row] * scaled, 0.0).sum(1) / precision
        variance = self.noise + self.loadings**2 / precision[:, None]
        error = x[masks.row] - self.loadings * factor[:, None]
        log_p = -0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)
        return np.where(masked, log_p, 0.0).sum(1) / masks.size

    def log_evidence(self, x: np.ndarray, observed: np.ndarray) -> np.ndarray:
        scaled = self.loadings / self.noise
        precision = 1.0 + observed @ (self.loadings * scaled)
        sums = np.where(observed, x * scaled, 0.0).sum(1)
        squares = (observed * x**2).sum(1) / self.noise
        n = observed.sum(1)
        return -0.5 * (n * np.log(2 * np.pi * self.noise) + np.log(precision) + squares - sums**2 / precision)


class RandomScores:
    """A random score for each row and each mask, which `kind` makes of a standard normal number.

    Normal with one size of large variance, lognormal with sigma = 1 or 1.5, or a few very bad masks.
    """

    def __init__(self, n_tokens: int, kind: str) -> None:
        self.kind = kind
        self.sd = np.full(n_tokens + 1, ONE_SE)
        self.sd[max(1, n_tokens // 2)] = LARGEST_SE
        self.words = np.random.default_rng(3).integers(0, 2**62, n_tokens)
        self._listed: tuple[np.ndarray, ...] | None = None

    def rows(self, n: int, seed: int) -> np.ndarray:
        return np.full((n, len(self.words)), float(seed))

    def score(self, x: np.ndarray, masks: DrawnMasks) -> np.ndarray:
        return self._of_masks(x, masks.row, masks.masked(), masks.size)

    def _of_masks(self, x: np.ndarray, row: np.ndarray, masked: np.ndarray, size: np.ndarray) -> np.ndarray:
        bits = keyed_bits(5, x[row, 0].astype(np.int64), row, masked @ self.words)
        return self._noise(ndtri((bits >> np.uint64(11)).astype(float) / 2**53 + 2.0**-54), size)

    def _noise(self, normal: np.ndarray, size: np.ndarray) -> np.ndarray:
        if self.kind == "one size":
            return self.sd[size] * normal
        if self.kind == "rare":
            return np.where(normal < ndtri(RARE), BAD, normal)
        return -np.exp(normal * SIGMA[self.kind])

    @property
    def expected(self) -> float:
        """The expectation of a score."""
        if self.kind == "one size":
            return 0.0
        if self.kind == "rare":  # of a normal number above the quantile, its density there
            return RARE * BAD + math.exp(-0.5 * ndtri(RARE) ** 2) / math.sqrt(2 * math.pi)
        return -math.exp(0.5 * SIGMA[self.kind] ** 2)

    def log_evidence(self, x: np.ndarray, observed: np.ndarray) -> np.ndarray:
        """The mean over all masks of a size with few of them, and the expectation over many."""
        if self._listed is None:
            self._listed = self._list(observed)
        row, masked, size, weight, expected = self._listed
        scores = self._of_masks(x, row, masked, size)
        return expected + np.bincount(row, weights=weight * scores, minlength=len(x))

    def _list(self, observed: np.ndarray, limit: int = 50) -> tuple[np.ndarray, ...]:
        rows, masks, sizes, weights = [], [], [], []
        expected = np.zeros(len(observed))
        for i, seen in enumerate(observed):
            n = int(seen.sum())
            for size in range(1, n + 1):
                if (count := math.comb(n, size)) > limit:
                    expected[i] += self.expected
                    continue
                if size == n:  # also where there are too many tokens for lists of their subsets
                    masks.append(seen[None])
                else:
                    subsets = listed_subsets(np.array([n]), np.array([size]), limit)[0, :count]
                    masks.append(mask_of(subsets, np.tile(seen, (count, 1))))
                rows.append(np.full(count, i))
                sizes.append(np.full(count, size))
                weights.append(np.full(count, 1.0 / count))
        return (*map(np.concatenate, (rows, masks, sizes, weights)), expected)


class WideRows(RandomScores):
    """Scores of wide rows: the level of a row, a curve, and noise of mean 0 and variance 1 over masks.

    Args:
        n_tokens: D.
        kind: of the noise: "normal", a key of `SIGMA`, or "rare" for two values, of which 1 % are the lower.
        row_sd: of the rows' log evidence, nats.
        mask_sd: of a row's estimate by one mask, nats.
    """

    slope = 3.0  # of the curve, nats per masked token
    expected = 0.0

    def __init__(self, n_tokens: int, kind: str, row_sd: float, mask_sd: float) -> None:
        super().__init__(n_tokens, kind)
        self.n_tokens, self.row_sd, self.mask_sd = n_tokens, row_sd, mask_sd

    def rows(self, n: int, seed: int) -> np.ndarray:
        x = super().rows(n, seed)
        x[:, 1] = self.row_sd * np.random.default_rng([seed, 9]).normal(size=n)
        return x

    def score(self, x: np.ndarray, masks: DrawnMasks) -> np.ndarray:
        centred = masks.size / self.n_tokens - (self.n_tokens + 1) / (2 * self.n_tokens)
        return super().score(x, masks) + x[masks.row, 1] / self.n_tokens + self.slope * centred

    def log_evidence(self, x: np.ndarray, observed: np.ndarray) -> np.ndarray:
        return super().log_evidence(x, observed) + x[:, 1]

    def _noise(self, normal: np.ndarray, size: np.ndarray) -> np.ndarray:
        if self.kind == "normal":
            unit = normal
        elif self.kind == "rare":
            unit = (RARE - (normal < ndtri(RARE))) / math.sqrt(RARE * (1 - RARE))
        else:
            variance = SIGMA[self.kind] ** 2
            spread = math.sqrt((math.exp(variance) - 1) * math.exp(variance))
            unit = (math.exp(variance / 2) - np.exp(SIGMA[self.kind] * normal)) / spread
        return self.mask_sd / self.n_tokens * unit


SIGMA = {"lognormal": 1.0, "lognormal 1.5": 1.5}
MODELS = ("steep", "one size", *SIGMA, "rare")


def model(name: str, n_tokens: int) -> Scores:
    """A model of `MODELS`."""
    return OneFactor(n_tokens) if name == "steep" else RandomScores(n_tokens, name)


def ids_of(kind: str, n: int) -> np.ndarray:
    """Consecutive ids, every 53rd id, or a random subset of them."""
    if kind == "random":
        return np.random.default_rng(0).permutation(9**6)[:n]
    return np.arange(n) * {"consecutive": 1, "every 53rd": 53}[kind]


def observed_of(n: int, n_tokens: int, *, missing: bool) -> np.ndarray:
    """Complete rows, or rows of which 30 % of the values are missing, and never all."""
    if not missing or n_tokens == 1:
        return np.ones((n, n_tokens), dtype=np.bool_)
    rng = np.random.default_rng(4)
    observed = rng.uniform(size=(n, n_tokens)) > 0.3
    observed[np.arange(n), rng.integers(0, n_tokens, n)] = True
    return observed


@dataclass(frozen=True)
class Setting:
    """What a run scores.

    Attributes:
        n: the number of observations.
        n_tokens: D.
        model: the name of a model.
        sharing: "own" or "shared" masks.
        ids: the kind of ids.
        missing: whether values are missing.
    """

    n: int
    n_tokens: int
    model: str
    sharing: Literal["own", "shared"]
    ids: str = "consecutive"
    missing: bool = False

    @cached_property
    def observed(self) -> np.ndarray:
        return observed_of(self.n, self.n_tokens, missing=self.missing)


def estimates(setting: Setting, design: MaskDesign, n_runs: int) -> Iterator[tuple[MeanWithErrors, float]]:
    """The estimate of each run and the true value, with new rows and new masks.

    Args:
        setting: what is scored.
        design: how masks are drawn.
        n_runs: the number of runs.
    """
    scores = model(setting.model, setting.n_tokens)
    for seed in range(n_runs):
        run = Run(scores, ids_of(setting.ids, setting.n), setting.observed, setting.sharing, seed)
        yield run.mean(design), run.truth


class Run:
    """The rows of a run, their true value, and the estimate by any design."""

    def __init__(
        self, scores: Scores, ids: np.ndarray, observed: np.ndarray, sharing: Masks, seed: int
    ) -> None:
        self.scores, self.ids, self.observed = scores, ids, observed
        self.x, self.key = scores.rows(len(ids), seed), MaskKey(seed * 7919 + 13, sharing)
        self.truth = float(scores.log_evidence(self.x, observed).mean())

    def mean(self, design: MaskDesign) -> MeanWithErrors:
        masks = drawn_masks(design, self.key, self.ids, self.observed, position=positions(self.ids))
        score, of, n_tokens = self.scores.score(self.x, masks), masks.row, self.observed.sum(1)
        table = ScoreTable(masks.ids[of], masks.draw, masks.size, n_tokens[of], score).sorted()
        return mean_of_scores(table, design, self.key).mean


@dataclass(frozen=True)
class Cell:
    """Coverage in one setting.

    Attributes:
        coverage: share of the 95 % intervals that hold the true value; None without any interval.
        student: the same share for Student's t interval, without rare masks.
        wider: the width of the interval over that of Student's t, on average.
        known: share of the runs with an interval.
        zero: share of the runs with an error of 0.
        z: mean error divided by its standard error.
        n_runs: the number of runs.
    """

    coverage: float | None
    student: float | None
    wider: float
    known: float
    zero: float
    z: float
    n_runs: int

    @property
    def se(self) -> float:
        """Standard error of a coverage of 95 % by this number of intervals."""
        return math.sqrt(0.95 * 0.05 / max(1.0, self.known * self.n_runs))


def coverage(found: Iterable[tuple[MeanWithErrors, float]]) -> Cell:
    """How often the 95 % intervals of some runs hold the true value."""
    errors, now, student, wider, zero = [], [], [], [], []
    for one, truth in found:
        error = one.mean - truth
        errors.append(error)
        if one.mask_se is None:
            continue
        interval = one.interval(0.95)
        half = t_half_width(one.mask_se, one.mask_df or math.inf, 0.95)
        now.append(interval[0] - COVERED <= truth <= interval[1] + COVERED)
        student.append(abs(error) <= half + COVERED)
        zero.append(one.mask_se == 0)
        if half:
            wider.append((interval[1] - interval[0]) / (2 * half))
    spread = np.std(errors, ddof=1)
    return Cell(
        coverage=float(np.mean(now)) if now else None,
        student=float(np.mean(student)) if now else None,
        wider=float(np.mean(wider)) if wider else 1.0,
        known=len(now) / len(errors),
        zero=sum(zero) / len(errors),
        z=float(np.mean(errors) / spread * math.sqrt(len(errors))) if spread > 1e-12 else 0.0,
        n_runs=len(errors),
    )
