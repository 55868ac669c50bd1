"""Runs that end at a target for the mask error: the error at the end, the passes, and coverage.

    python benchmarks/stopping.py

A model scores a pool of masks of random sizes once: thousands of draws for each observation, each with an
offset of its own, as `Precise` draws them. A run takes draws from the pool in random order and ends where
`Precise` ends. The oracle knows the true error of every number of draws, the spread of runs with that number,
and takes the smallest that reaches the target, which is set so that this is the number in the table.

"Within 1.2" is the share of runs that end with a true error of at most 1.2 times the target; "passes" are
those of a run over those of the oracle, on average and in 95 % of runs. "s²" is the 95 % quantile of mask_se²
over its mean, with the oracle's number of draws: the passes vary at least as much, as they are proportional
to it. "Coverage" is the share of 95 % intervals that hold the mean over the whole pool, and "fixed" the same
share for 0.5 to 2 times the oracle's number of draws, fixed beforehand.
"""

import math
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from _timing import Target, arguments, finish, machine, show_results

# isort: split
import numpy as np
from sklearn.datasets import load_breast_cancer

import maskevidence as me
from _precision_models import ppca, trained
from maskevidence.core.evidence.score_means import mean_of_scores
from maskevidence.core.evidence.standard_errors import MeanWithErrors, Tails
from maskevidence.core.masks.design import MaskKey

GRID = (0.5, 0.7, 1.0, 1.4, 2.0)  # of the numbers of draws whose true error is measured, over the oracle's


class Found(NamedTuple):
    """What `Precise` asks an estimate for."""

    log_evidence: float
    mask_se: float | None
    mask_df: float | None
    data_se: float | None
    n_observations: int
    tails: Tails

    @property
    def mean(self) -> float:
        return self.log_evidence

    def interval(self, level: float) -> tuple[float, float]:
        errors = MeanWithErrors(self.mean, self.mask_se or 0.0, self.mask_df, self.data_se, self.tails)
        return errors.interval(level)

    def covers(self, truth: float) -> bool:
        low, high = self.interval(0.95)
        return low <= truth <= high


def scored(model: Any, x: np.ndarray, n_draws: int) -> "Pool":
    """The pool of a model."""
    design = me.RandomSize(n_draws, n_draws)
    estimate = me.estimate_evidence(model, x, design, seed=1, check=False)
    return Pool(estimate.scores.sorted(), estimate.log_evidence)


def rare_masks(rng: np.random.Generator, n_rows: int, n_draws: int) -> np.ndarray:
    """Normal numbers, and 1 % of them 30 lower."""
    return rng.normal(size=(n_rows, n_draws)) - 30.0 * (rng.random((n_rows, n_draws)) < 0.01)


def lognormal(rng: np.random.Generator, n_rows: int, n_draws: int) -> np.ndarray:
    """Minus lognormal numbers with sigma = 1.5."""
    return -np.exp(1.5 * rng.normal(size=(n_rows, n_draws)))


def random_scores(kind: Callable[..., np.ndarray], n_rows: int, n_draws: int, n_tokens: int = 30) -> "Pool":
    """A pool of independent scores, whose sum over sizes is that of `kind`."""
    rng = np.random.default_rng(0)
    size, value = rng.integers(1, n_tokens + 1, (n_rows, n_draws)), kind(rng, n_rows, n_draws)
    row, draw = np.indices(size.shape)
    columns = (column.ravel() for column in (row, draw, size, np.full_like(size, n_tokens)))
    return Pool(me.ScoreTable(*columns, value.ravel() / n_tokens), float(value.mean()))


class Pool:
    """Scores of many draws for each row, from which runs are taken.

    Attributes:
        table: equally many draws for each row, sorted.
        truth: the log evidence by all of them.
    """

    def __init__(self, table: me.ScoreTable, truth: float) -> None:
        self.table, self.truth = table, truth
        self.n_rows = int(table.id[-1]) + 1
        self.n_draws = len(table) // self.n_rows
        self.lengths = table.n_tokens[:: self.n_draws]

    def score(self, order: np.ndarray) -> Callable[[me.RandomSize], Found]:
        """The estimate from the first draws in some order, by design."""

        def estimate(design: me.RandomSize) -> Found:
            rows = np.arange(self.n_rows)[:, None] * self.n_draws + order[: design.draws]
            some = self.table.select(rows.ravel())
            draw = np.tile(np.arange(design.draws), self.n_rows)
            some = me.ScoreTable(some.id, draw, some.size, some.n_tokens, some.score, hidden=some.hidden)
            mean = mean_of_scores(some, design, MaskKey(0)).mean
            return Found(mean.mean, mean.mask_se, mean.mask_df, mean.data_se, self.n_rows, mean.tails)

        return estimate

    def run(self, seed: int, precise: me.Precise) -> tuple[Found, int, int]:
        """A run to a target: the estimate, the number of draws, and that of stages."""
        designs: list[me.RandomSize] = []
        score = self.score(np.random.default_rng([seed, 0]).permutation(self.n_draws))

        def noted(design: me.RandomSize) -> Found:
            designs.append(design)
            return score(design)

        found = precise.drawn(precise.first(self.lengths), noted)
        return found, designs[-1].draws, len(designs)

    def fixed(self, seed: int, draws: int) -> Found:
        """A run with a number of draws that is fixed beforehand."""
        order = np.random.default_rng([seed, draws]).permutation(self.n_draws)
        return self.score(order)(me.RandomSize(draws, draws))


class Reference(NamedTuple):
    """The true error of numbers of draws, in terms of the logarithm of that number over the oracle's.

    Attributes:
        oracle: the oracle's number of draws.
        level: the logarithm of the error of a draw.
        slope: how it changes with the number of draws, as predictions get better.
        coverage: the share of intervals from fixed numbers of draws that hold the truth.
        noise: the 95 % quantile of mask_se² over its mean, with the oracle's number of draws.
    """

    oracle: int
    level: float
    slope: float
    coverage: float
    noise: float

    def true_se(self, draws: Any) -> Any:
        return np.exp(self.level) * (draws / self.oracle) ** self.slope / np.sqrt(draws)

    @property
    def precise(self) -> me.Precise:
        """The target that the oracle reaches with its number of draws."""
        return me.Precise(target_se=float(self.true_se(self.oracle)), negligible=0)


def reference(pool: Pool, oracle: int, n_runs: int) -> Reference:
    """The true errors, from runs with fixed numbers of draws."""
    grid = np.array([max(2, round(share * oracle)) for share in GRID])
    squares, held, noise = [], [], math.nan
    for draws in grid.tolist():
        found = [pool.fixed(seed, draws) for seed in range(n_runs)]
        squares.append(np.mean([(one.log_evidence - pool.truth) ** 2 for one in found]) * draws)
        held += [one.covers(pool.truth) for one in found]
        if draws == oracle:
            own = np.square([one.mask_se or 0.0 for one in found])
            noise = float(np.quantile(own, 0.95) / own.mean())
    slope, level = np.polyfit(np.log(grid / oracle), 0.5 * np.log(squares), 1)
    return Reference(oracle, float(level), float(slope), float(np.mean(held)), noise)


def summary(found: list[tuple[Found, int, int]], truth: float, known: Reference) -> dict[str, float]:
    """What runs to a target have in common."""
    draws = np.array([n for _, n, _ in found])
    errors = np.array([one.log_evidence for one, _, _ in found]) - truth
    target = known.precise.target_se or 0.0
    return {
        "target": target,
        "within": float((known.true_se(draws) <= 1.2 * target).mean()),
        "passes": float((draws / known.oracle).mean()),
        "passes_95": float(np.quantile(draws / known.oracle, 0.95)),
        "coverage": float(np.mean([one.covers(truth) for one, _, _ in found])),
        "fixed": known.coverage,
        "s²": known.noise,
        "z": float(errors.mean() / errors.std(ddof=1) * math.sqrt(len(errors))),
        "stages": float(np.mean([n for _, _, n in found])),
        "runs": len(found),
    }


def simulated(pool: Pool, oracle: int, n_runs: int, n_fixed: int) -> dict[str, float]:
    """Runs to the target that the oracle reaches with a number of draws."""
    known = reference(pool, oracle, n_fixed)
    return summary([pool.run(seed, known.precise) for seed in range(n_runs)], pool.truth, known)


class Setting(NamedTuple):
    """What is scored, and how many draws the oracle takes.

    Attributes:
        name: of the model.
        n_rows: of its data.
        oracle: draws for each row.
        pool: makes the pool from the number of its draws.
        n_draws: in the pool.
        most_passes: how many times the oracle's a run may take on average.
    """

    name: str
    n_rows: int
    oracle: int
    pool: Callable[[int], Pool]
    n_draws: int
    most_passes: float = 1.25

    @property
    def title(self) -> str:
        return f"{self.name}, {self.n_rows} row{'s' * (self.n_rows > 1)}, {self.oracle} draws"


def settings(*, quick: bool) -> Iterator[Setting]:
    """The rows of the table."""
    cancer = load_breast_cancer().data
    cancer = (cancer - cancer.mean(0)) / cancer.std(0)
    order = np.random.default_rng(0).permutation(len(cancer))
    held_out, five = cancer[order[:10]], me.models.PPCA(30, 5).fit(cancer[order[114:]])
    heavy = math.inf  # passes are no target where the oracle's error is rare to be seen
    yield Setting("1 % of masks at -30", 60, 16, partial(random_scores, rare_masks, 60), 2048, heavy)
    yield Setting("lognormal, sigma = 1.5", 30, 30, partial(random_scores, lognormal, 30), 2048, heavy)
    yield Setting("PPCA(5), breast cancer", 10, 60, partial(scored, five, held_out), 4096, heavy)
    small = ppca(30, 3, 10, math.inf)
    yield Setting("PPCA, D = 30", 1, 300, partial(scored, small.model, small.rows[:1]), 16384, heavy)
    network = trained(cancer, 2 if quick else 3000)
    yield Setting("network, D = 30", 100, 30, partial(scored, network, cancer[:100]), 2048)


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=2000, help="how many runs are simulated for each row")
    parser.add_argument("--fixed", type=int, default=500, help="runs of each fixed number of draws")
    parser.add_argument("--only", default="", help="simulate only the rows whose titles hold this")
    options = parser.parse_args()
    n_runs, n_fixed = (3, 3) if options.quick else (options.runs, options.fixed)
    print(machine())
    targets = []
    numbers: dict[str, Any] = {}
    for one in settings(quick=options.quick):
        if options.only not in one.title:
            continue
        pool = one.pool(one.n_draws // 8 if options.quick else one.n_draws)
        found = numbers[one.title] = simulated(pool, one.oracle, n_runs, n_fixed)
        print(" ", one.title, found, flush=True)
        se = 3 * math.sqrt(0.95 * 0.05 / found["runs"])
        targets.append(Target(f"{one.title}: coverage", found["coverage"], low=0.93 - se))
        if one.most_passes < math.inf:
            targets += [
                Target(f"{one.title}: within 1.2 times the target", found["within"], low=0.95),
                Target(f"{one.title}: passes over the oracle's", found["passes"], high=one.most_passes),
            ]
    columns = {
        "within 1.2": "{within:.3f}",
        "passes": "{passes:.2f}",
        "95 %": "{passes_95:.2f}",
        "s²": "{s²:.2f}",
        "coverage": "{coverage:.3f}",
        "fixed": "{fixed:.3f}",
        "z": "{z:.1f}",
        "stages": "{stages:.1f}",
    }
    show_results(f"{n_runs:,} simulated runs of each", "model, rows, the oracle's draws", columns, numbers)
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
