"""Models in NumPy whose log evidence is known, and how often an interval of the masks' error covers it.

The rows, the masks, the weights and the errors are those of the package; the scores are computed here,
because a model of the package would take most of the time.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri

from maskevidence.evidence import mean_of_scores
from maskevidence.masks import DrawnMasks, MaskDesign, MaskKey, drawn_masks, positions
from maskevidence.score_table import ScoreTable
from maskevidence.standard_errors import cell_variances, t_half_width
from maskevidence.support.keyed_random import keyed_bits
from maskevidence.support.subsets import listed_subsets, mask_of

LARGEST_SE, ONE_SE = 3.0, 0.1  # of the scores of one size, and of all others
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
    """A random score for each row and each mask: normal with one size of large variance, or lognormal."""

    def __init__(self, n_tokens: int, *, lognormal: bool) -> None:
        self.lognormal = lognormal
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
        normal = ndtri((bits >> np.uint64(11)).astype(float) / 2**53 + 2.0**-54)
        return -np.exp(normal) if self.lognormal else self.sd[size] * normal

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
                    expected[i] += -math.exp(0.5) if self.lognormal else 0.0
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


def models(n_tokens: int) -> dict[str, Scores]:
    """The three models of a table of coverage."""
    return {
        "steep": OneFactor(n_tokens),
        "one size": RandomScores(n_tokens, lognormal=False),
        "lognormal": RandomScores(n_tokens, lognormal=True),
    }


def ids_of(kind: str, n: int) -> np.ndarray:
    """Consecutive ids, every 53rd or 102nd id, or a random subset of them."""
    if kind == "random":
        return np.random.default_rng(0).permutation(9**6)[:n]
    return np.arange(n) * {"consecutive": 1, "every 53rd": 53, "every 102nd": 102}[kind]


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


class Outcome(NamedTuple):
    """An estimate of a run, with its error as the package gives it now, or as version 0.1.0 gave it."""

    error: float
    mask_se: float | None
    mask_df: float | None

    def covered(self, level: float = 0.95) -> bool | None:
        """Whether the interval holds the true value; None without an interval."""
        if self.mask_se is None or self.mask_df is None:
            return None
        return abs(self.error) <= t_half_width(self.mask_se, self.mask_df, level) + COVERED


def outcomes(setting: Setting, design: MaskDesign, n_runs: int, *, before: bool) -> Iterator[Outcome]:
    """Runs with new rows and new masks.

    Args:
        setting: what is scored.
        design: how masks are drawn.
        n_runs: the number of runs.
        before: whether errors are those of version 0.1.0, which the design should be of, too.
    """
    model, ids = models(setting.n_tokens)[setting.model], ids_of(setting.ids, setting.n)
    n_tokens, position = setting.observed.sum(1), positions(ids)
    for seed in range(n_runs):
        x = model.rows(setting.n, seed)
        key = MaskKey(seed * 7919 + 13, setting.sharing)
        masks = drawn_masks(design, key, ids, setting.observed, position=position)
        score = model.score(x, masks)
        truth = float(model.log_evidence(x, setting.observed).mean())
        find = _error_before if before else _error_now
        mean, mask_se, mask_df = find(score, masks, n_tokens)
        yield Outcome(mean - truth, mask_se, mask_df)


def _error_now(
    score: np.ndarray, masks: DrawnMasks, n_tokens: np.ndarray
) -> tuple[float, float | None, float | None]:
    of = masks.row
    table = ScoreTable(masks.ids[of], masks.draw, masks.size, n_tokens[of], score).sorted()
    found = mean_of_scores(table, masks.design, masks.key).mean
    return found.mean, found.mask_se, found.mask_df


def _error_before(
    score: np.ndarray, masks: DrawnMasks, n_tokens: np.ndarray
) -> tuple[float, float | None, float | None]:
    """As version 0.1.0 computed it: any two replicates give an error, and equal ones give 0."""
    design, key, n = masks.design, masks.key, len(n_tokens)
    contribution = masks.weight * score
    mean = float(np.bincount(masks.row, weights=contribution, minlength=n).mean())
    if design.n_replicates < design.min_replicates:
        return mean, None, None
    summation = design.summation(n_tokens[masks.row], masks.draw, masks.size)
    cell = summation.stratum
    if not design.pooled and key.masks == "own":
        cell = masks.row * (cell.max() + 1) + cell
    parts = cell_variances(contribution, cell, summation.replicate, design.n_replicates) / n**2
    variance = float(parts.sum())
    df = variance**2 / float((parts**2).sum()) * (design.n_replicates - 1) if variance > 0 else math.inf
    return mean, math.sqrt(variance), df


@dataclass(frozen=True)
class Cell:
    """Coverage in one setting.

    Attributes:
        coverage: share of the intervals that hold the true value; None without any interval.
        known: share of the runs with an interval.
        zero: share of the runs with an error of 0.
        z: mean error divided by its standard error.
        n_runs: the number of runs.
    """

    coverage: float | None
    known: float
    zero: float
    z: float
    n_runs: int

    @property
    def se(self) -> float:
        """Standard error of a coverage of 95 % by this number of intervals."""
        return math.sqrt(0.95 * 0.05 / max(1.0, self.known * self.n_runs))


def coverage(setting: Setting, design: MaskDesign, n_runs: int, *, before: bool = False) -> Cell:
    """How often the 95 % interval of a design holds the true value; the arguments are those of `outcomes`."""
    if not before and design.unknown_error(setting.observed.sum(1), setting.sharing) is not None:
        return Cell(None, 0.0, 0.0, 0.0, n_runs)
    found = list(outcomes(setting, design, n_runs, before=before))
    held = [one.covered() for one in found]
    known = [value for value in held if value is not None]
    errors = np.array([one.error for one in found])
    spread = errors.std(ddof=1)
    return Cell(
        coverage=float(np.mean(known)) if known else None,
        known=len(known) / n_runs,
        zero=float(np.mean([one.mask_se == 0 for one in found])),
        z=float(errors.mean() / spread * math.sqrt(n_runs)) if spread > 1e-12 else 0.0,
        n_runs=n_runs,
    )
