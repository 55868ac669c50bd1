"""Imputation of missing values: the Gaussian family, scikit-learn's IterativeImputer and the column mean.

    MASKEVIDENCE_DATA=... python benchmarks/imputation.py

The data are two tables with missing values, without their identifier columns. Each split hides another 10 %
of the observed values, and everything, including the scaling, is learned from the remaining ones. Each method
then imputes the table, and is evaluated on the hidden values by the root mean squared error in standard
deviations of the column, and by the mean log-probability of a hidden value given the remaining values of its
row, in nats. K is selected by the log evidence of a fifth of the rows under a fit to the other rows, so that
the hidden values do not influence it.

IterativeImputer and the column mean do not provide a density. They are given a normal density around their
prediction, with one variance per column: the mean squared residual of the remaining values, either under the
fit that used them ("training residuals") or out of fold, with five folds of these values.
"""

import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from _timing import arguments, finish, machine, show

# isort: split
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

import maskevidence as me

IDENTIFIER = {"horse-colic": 2, "breast-cancer-wisconsin": 0}
HIDDEN_SHARE = 0.1
COMPONENTS = (1, 2, 3, 4, 5, 6, 8, 10)
ROUNDS = 100  # iterations of IterativeImputer; the default of 10 does not converge on these tables


class Prediction(NamedTuple):
    """What a method predicts for every missing or hidden value of the table.

    Attributes:
        values: shape (N, D).
        variance: shape (N, D).
        note: the selected settings.
    """

    values: np.ndarray
    variance: np.ndarray
    note: str = ""


@dataclass(frozen=True)
class Result:
    """Result of one method on one split; NaN if it failed.

    Attributes:
        rmse: root mean squared error, in standard deviations of the column.
        log_probability: mean log-probability in nats per hidden value.
        seconds: time from table to prediction, including the selection of K.
        note: the selected settings, or the reason of the failure.
    """

    rmse: float
    log_probability: float
    seconds: float
    note: str


def low_rank(model_class: type) -> Callable[[np.ndarray], Prediction]:
    """PPCA or factor analysis, with K selected on held-out rows."""

    def predict(left: np.ndarray) -> Prediction:
        width = left.shape[1]
        order = np.random.default_rng(0).permutation(len(left))
        test, train = left[order[: len(left) // 5]], left[order[len(left) // 5 :]]
        varies = np.nanmax(train, 0) > np.nanmin(train, 0)
        train, test = train[:, varies], test[:, varies]
        test = test[~np.isnan(test).all(1)]

        def held_out(k: int) -> float:
            model = model_class(n_features=train.shape[1], n_components=k).fit(train)
            return float(model.score_samples(test).mean())

        k = max((k for k in COMPONENTS if k < train.shape[1]), key=held_out)
        filled = me.impute(model_class(n_features=width, n_components=k).fit(left), left)
        return Prediction(filled.values, filled.variance, f"K={k}")

    return predict


def full_gaussian(left: np.ndarray) -> Prediction:
    filled = me.impute(me.models.Gaussian(n_features=left.shape[1]).fit(left), left)
    return Prediction(filled.values, filled.variance)


def iterative_imputer(left: np.ndarray) -> Prediction:
    """IterativeImputer, with the variance of the residuals of its training values."""
    imputer, filled, note = _impute_iteratively(left)
    variance = np.empty(left.shape[1])
    for step in imputer.imputation_sequence_[-left.shape[1] :]:
        seen = ~np.isnan(left[:, step.feat_idx])
        expected = step.estimator.predict(filled[seen][:, step.neighbor_feat_idx])
        variance[step.feat_idx] = np.mean((left[seen, step.feat_idx] - expected) ** 2)
    return Prediction(filled, np.broadcast_to(variance, left.shape), note)


def iterative_imputer_out_of_fold(left: np.ndarray) -> Prediction:
    """The same prediction, with the variance of the residuals of values that were not used in the fit."""
    _, filled, note = _impute_iteratively(left)
    fold = np.random.default_rng(0).integers(5, size=left.shape)
    expected = np.empty(left.shape)
    for k in range(5):
        expected[fold == k] = _impute_iteratively(np.where(fold == k, np.nan, left))[1][fold == k]
    return Prediction(filled, np.broadcast_to(np.nanmean((left - expected) ** 2, 0), left.shape), note)


def _impute_iteratively(left: np.ndarray) -> tuple[IterativeImputer, np.ndarray, str]:
    imputer = IterativeImputer(max_iter=ROUNDS, random_state=0, keep_empty_features=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        filled = imputer.fit_transform(left)
    late = any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    return imputer, filled, f"not converged in {ROUNDS} rounds" if late else ""


def column_mean(left: np.ndarray) -> Prediction:
    shape = left.shape
    return Prediction(np.broadcast_to(np.nanmean(left, 0), shape), np.broadcast_to(np.nanvar(left, 0), shape))


METHODS: dict[str, Callable[[np.ndarray], Prediction]] = {
    "PPCA": low_rank(me.models.PPCA),
    "FactorAnalysis": low_rank(me.models.FactorAnalysis),
    "Gaussian": full_gaussian,
    "IterativeImputer, training residuals": iterative_imputer,
    "IterativeImputer, out of fold": iterative_imputer_out_of_fold,
    "column mean": column_mean,
}


def hide(table: np.ndarray, split: int) -> np.ndarray:
    """Select the observed values that a split hides: 10 % of them, but never the last one of a row."""
    rows, columns = np.nonzero(~np.isnan(table))
    rng = np.random.default_rng(split)
    hidden = np.zeros(table.shape, dtype=bool)
    n_left = (~np.isnan(table)).sum(1)
    for position in rng.permutation(len(rows))[: round(HIDDEN_SHARE * len(rows))]:
        if n_left[rows[position]] > 1:
            hidden[rows[position], columns[position]] = True
            n_left[rows[position]] -= 1
    return hidden


def measure(table: np.ndarray, split: int) -> dict[str, Result]:
    """Evaluate all methods on one split."""
    hidden = hide(table, split)
    left = np.where(hidden, np.nan, table)
    varies = np.nanmax(left, 0) > np.nanmin(left, 0)
    left, hidden, truth = left[:, varies], hidden[:, varies], table[:, varies]
    centre, scale = np.nanmean(left, 0), np.nanstd(left, 0)
    left, truth = (left - centre) / scale, (truth - centre) / scale
    results = {}
    for name, method in METHODS.items():
        start = time.perf_counter()
        try:
            prediction = method(left)
        except me.NumericalError as error:
            results[name] = Result(math.nan, math.nan, time.perf_counter() - start, str(error))
            continue
        seconds = time.perf_counter() - start
        error, variance = (truth - prediction.values)[hidden], prediction.variance[hidden]
        log_density = -0.5 * (np.log(2 * np.pi * variance) + error**2 / variance)
        rmse = math.sqrt(float(np.mean(error**2)))
        results[name] = Result(rmse, float(log_density.mean()), seconds, prediction.note)
    return results


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=5, help="number of random splits")
    options = parser.parse_args()
    folder = os.environ.get("MASKEVIDENCE_DATA")
    if folder is None:
        print("MASKEVIDENCE_DATA is not set; set it to the folder that contains tabular/", file=sys.stderr)
        return 2
    n_splits = 2 if options.quick else options.splits
    numbers: dict[str, Any] = {}
    print(machine())
    for name, identifier in IDENTIFIER.items():
        path = Path(folder) / "tabular" / f"{name}.csv"
        table = np.delete(np.genfromtxt(path, delimiter=",", skip_header=1), identifier, axis=1)
        splits = [measure(table, split) for split in range(n_splits)]
        missing = int(np.isnan(table).sum())
        title = (
            f"{name}: {table.shape[0]} rows, {table.shape[1]} columns, {missing} values missing, "
            f"{HIDDEN_SHARE:.0%} of the others hidden; mean ± standard error over {n_splits} splits"
        )
        columns = ("method", "RMSE", "log-probability, nats", "seconds", "settings")
        show(title, columns, [_cells(method, [split[method] for split in splits]) for method in METHODS])
        for number, split in enumerate(splits):
            for method, result in split.items():
                if math.isnan(result.rmse):
                    print(f"split {number}, {method}: {result.note}")
        numbers[name] = [{method: vars(result) for method, result in split.items()} for split in splits]
    return finish(numbers, [], options.json)


def _cells(method: str, results: list[Result]) -> tuple[str, ...]:
    failed = sum(math.isnan(result.rmse) for result in results)
    seconds = f"{np.median([result.seconds for result in results]):.2f}"
    if failed:
        return method, "–", "–", seconds, f"fails in {failed} of {len(results)} splits (below)"
    notes = [result.note for result in results if result.note]
    settings = " ".join(dict.fromkeys(sorted(notes)))
    rmse, log_probability = ([getattr(r, key) for r in results] for key in ("rmse", "log_probability"))
    return method, _mean(rmse), _mean(log_probability), seconds, settings


def _mean(values: list[float]) -> str:
    mean, error = np.mean(values), np.std(values, ddof=1) / math.sqrt(len(values))
    return f"{mean:.3f} ± {error:.3f}" if abs(mean) < 1000 else f"{mean:.1e} ± {error:.1e}"


if __name__ == "__main__":
    sys.exit(main())
