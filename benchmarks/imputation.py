"""Imputation of hidden values: MaskedImputer against scikit-learn's imputers.

    MASKEVIDENCE_DATA=... python benchmarks/imputation.py

Of four real tables, without identifiers and classes that are not numbers, 20 % of the observed values are
hidden at random; horse-colic has missing values of its own. Everything, including the scaling, is learned
from the values that are left. Each method fills the table and is evaluated on the hidden values: the root
mean squared error in standard deviations of the column; the mean log-probability in nats of a normal density
with the mean and variance that the method gives; the share of values in its 90 % intervals; and the seconds
of CPU time of `fit` and `transform`.

IterativeImputer runs with its own linear regressions, and with 30 extremely randomised trees for each column.
The trees and KNNImputer give no error bars. The linear regressions are given those of their last round (the
standard deviation of `BayesianRidge.predict`), and the column mean the standard deviation of the column.
"""

import math
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from _timing import Target, arguments, data, finish, machine, show, timed

# isort: split
import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

from maskevidence.sklearn import MaskedImputer

IDENTIFIER = {"winequality-red": None, "breast-cancer-wisconsin": 0, "horse-colic": 2, "ionosphere": 34}
HIDDEN_SHARE = 0.2
LEVEL = 0.9
NORMAL_QUANTILE = 1.6448536269514722  # standard deviations on each side that hold 90 % of a normal density
OURS = "MaskedImputer"
TREES = "IterativeImputer, ExtraTrees"
SCIKIT_LEARN = ("IterativeImputer", TREES, "KNNImputer", "column mean")


class Filled(NamedTuple):
    """What a method gives for every value of the table; variance, low and high are None without error bars.

    Attributes:
        values: shape (N, D).
        seconds: of fit and transform.
        variance: shape (N, D).
        low: shape (N, D); the lower ends of 90 % intervals.
        high: shape (N, D); the upper ends.
    """

    values: np.ndarray
    seconds: float
    variance: np.ndarray | None = None
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass(frozen=True)
class Result:
    """Result of one method on one split; NaN where the method has no error bars.

    Attributes:
        rmse: root mean squared error, in standard deviations of the column.
        log_probability: nats per hidden value.
        coverage: share of the hidden values within the 90 % intervals.
        seconds: of fit and transform.
    """

    rmse: float
    log_probability: float
    coverage: float
    seconds: float


def masked_imputer(left: np.ndarray) -> Filled:
    imputer = MaskedImputer(random_state=0)
    filled = timed(lambda: imputer.fit_transform(left))
    return Filled(*filled, imputer.impute(left).variance, *imputer.intervals(left, LEVEL))


def iterative_imputer(left: np.ndarray) -> Filled:
    """IterativeImputer, with the standard deviations of its last regressions."""
    imputer = IterativeImputer(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        values, seconds = timed(lambda: imputer.fit_transform(left))
    variance = np.zeros_like(values)
    for step in imputer.imputation_sequence_[-left.shape[1] :]:
        _, deviation = step.estimator.predict(values[:, step.neighbor_feat_idx], return_std=True)
        variance[:, step.feat_idx] = deviation**2
    return with_normal_intervals(values, seconds, variance)


def with_trees(left: np.ndarray) -> Filled:
    imputer = IterativeImputer(ExtraTreesRegressor(30, random_state=0), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return Filled(*timed(lambda: imputer.fit_transform(left)))


def column_mean(left: np.ndarray) -> Filled:
    filled = timed(lambda: SimpleImputer().fit_transform(left))
    return with_normal_intervals(*filled, np.broadcast_to(np.nanvar(left, 0), left.shape))


def nearest_neighbours(left: np.ndarray) -> Filled:
    return Filled(*timed(lambda: KNNImputer().fit_transform(left)))


def with_normal_intervals(values: np.ndarray, seconds: float, variance: np.ndarray) -> Filled:
    half = NORMAL_QUANTILE * np.sqrt(variance)
    return Filled(values, seconds, variance, values - half, values + half)


METHODS: dict[str, Callable[[np.ndarray], Filled]] = {
    OURS: masked_imputer,
    "IterativeImputer": iterative_imputer,
    TREES: with_trees,
    "KNNImputer": nearest_neighbours,
    "column mean": column_mean,
}


def load(name: str) -> np.ndarray:
    table = np.genfromtxt(data("tabular", f"{name}.csv"), delimiter=",", skip_header=1)
    return table if IDENTIFIER[name] is None else np.delete(table, IDENTIFIER[name], axis=1)


def measure(table: np.ndarray, split: int) -> dict[str, Result]:
    """Evaluate all methods on one split."""
    hidden = (np.random.default_rng(split).random(table.shape) < HIDDEN_SHARE) & ~np.isnan(table)
    left = np.where(hidden, np.nan, table)
    kept = ~np.isnan(left).all(1)
    varies = np.nanmax(left, 0) > np.nanmin(left, 0)
    left, hidden, truth = (part[np.ix_(kept, varies)] for part in (left, hidden, table))
    centre, scale = np.nanmean(left, 0), np.nanstd(left, 0)
    left, truth = (left - centre) / scale, (truth - centre) / scale
    results = {}
    for name, method in METHODS.items():
        filled = method(left)
        error = (truth - filled.values)[hidden]
        log_probability = coverage = math.nan
        if filled.variance is not None and filled.low is not None and filled.high is not None:
            variance = filled.variance[hidden]
            log_probability = float(np.mean(-0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)))
            coverage = float(((filled.low <= truth) & (truth <= filled.high))[hidden].mean())
        rmse = math.sqrt(float(np.mean(error**2)))
        results[name] = Result(rmse, log_probability, coverage, filled.seconds)
    return results


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5, help="number of random splits")
    options = parser.parse_args()
    n_splits = 2 if options.quick else options.splits
    numbers: dict[str, Any] = {}
    lines, targets, n_ahead = [], [], 0
    print(machine())
    for name in list(IDENTIFIER)[:1] if options.quick else IDENTIFIER:
        table = load(name)[:50, :7] if options.quick else load(name)
        if not options.quick:
            measure(table[:100], 0)  # warms up
        splits = [measure(table, split) for split in range(n_splits)]
        title = (
            f"{name}: {table.shape[0]} rows, {table.shape[1]} columns, {int(np.isnan(table).sum())} values "
            f"missing, {HIDDEN_SHARE:.0%} of the others hidden; mean ± standard error over {n_splits} splits"
        )
        columns = ("method", "RMSE", "log-probability, nats", "90 % intervals hold", "seconds")
        show(title, columns, [_cells(method, [split[method] for split in splits]) for method in METHODS])
        numbers[name] = [{method: vars(result) for method, result in split.items()} for split in splits]
        rmse = {method: float(np.mean([split[method].rmse for split in splits])) for method in METHODS}
        best = min(SCIKIT_LEARN, key=lambda method: rmse[method])
        n_ahead += rmse[OURS] < rmse[best]
        times = [faster(splits, other) for other in ("IterativeImputer", TREES, "KNNImputer")]
        lines.append((name, best, f"{rmse[OURS] / rmse[best]:.3f}", *(cell for cell, _ in times)))
        held = float(np.mean([split[OURS].coverage for split in splits]))
        targets.append(Target(f"{name}: times faster than IterativeImputer", times[0][1], low=1.0))
        targets.append(Target(f"{name}: share of values in 90 % intervals", held, low=0.88, high=0.92))
    columns = ("data", "best of scikit-learn's", "RMSE over its", "IterativeImputer", TREES, "KNNImputer")
    show(f"{OURS} beside scikit-learn's: RMSE, and times faster (range over the splits)", columns, lines)
    targets.insert(0, Target("tables on which it is ahead of scikit-learn's best", n_ahead, low=2))
    return finish(numbers, targets, options.json)


def faster(splits: list[dict[str, Result]], other: str) -> tuple[str, float]:
    """How many times faster ours is, as text with the range over the splits, and as a number."""
    ratios = [split[other].seconds / split[OURS].seconds for split in splits]
    median = float(np.median(ratios))
    return f"{median:.2f} ({min(ratios):.2f} to {max(ratios):.2f})", median


def _cells(method: str, results: list[Result]) -> tuple[str, ...]:
    seconds = f"{np.median([result.seconds for result in results]):.2f}"
    keys = ("rmse", "log_probability", "coverage")
    return method, *(_mean([getattr(result, key) for result in results]) for key in keys), seconds


def _mean(values: list[float]) -> str:
    mean, error = np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))
    if math.isnan(mean):
        return "–"
    return f"{mean:.3f} ± {error:.3f}" if abs(mean) < 1000 else f"{mean:.1e} ± {error:.1e}"


if __name__ == "__main__":
    sys.exit(main())
