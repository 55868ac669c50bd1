"""Which cells of a table are wrong: real tables are spoilt, and their cells found at a stated rate.

    MASKEVIDENCE_DATA=... python benchmarks/wrong_cells.py

Of each table, 300 rows (at most half) are trusted. The others are spoilt in four ways: the value of another
row, a decimal shifted by one place, two cells of a row swapped, another digit. The average precision of the
order of the cells is compared with that of a robust z-score, an isolation forest of the rows (ties by
z-score), residuals of extremely randomised trees, and one look at the model's surprisal. All learn from the
trusted rows. Power and false calls are those at a rate of 10 %. Tables of numbers are judged by
kernel-gaussian; the mixed one, and ionosphere, whose cells repeat a few values, by a network, whose fits take
most of the time. lace is among the others where it can be imported.

`--parts rates` draws tables whose wrong cells are known, in settings where right ones look wrong beside them:
columns that repeat others, totals, rows with many wrong cells, copies, words, few trusted rows, none.
"""

import argparse
import importlib.util
import math
import os
import resource
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from _timing import Target, arguments, data, finish, machine, mean_and_se, show

# isort: split
import numpy as np
import pandas
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import ExtraTreesRegressor, IsolationForest
from sklearn.metrics import average_precision_score

import maskevidence as me
from _wrong_cell_settings import NETWORK, SETTINGS
from _wrong_cell_settings import spoilt as drawn
from maskevidence.data import Table
from maskevidence.tables.wrong_cells import wrong_cells as room
from maskevidence.tables.wrong_cells.cell_search import OUTSIDE, facts_of

RATE, RATES = 0.1, (0.05, 0.1, 0.2, 0.3)
LOW_POWER = 0.3
WAYS = ("another row", "decimal", "swap", "digit")
N_TRUSTED = 300
MIXED = "horse-colic"
TABLES = ("breast cancer", "diabetes", "wine", "winequality-red", "ionosphere", MIXED)
BY_NETWORK = (
    "ionosphere",
    MIXED,
)  # words and holes; cells that repeat one value, of which a density is blind
FEW = 6  # values of a column of codes
OURS, ONE_LOOK = "one after the other", "one look"


def load(name: str) -> Table:
    """A table by name, without identifiers and constant columns; codes of a mixed one are categories."""
    if name == "breast cancer":
        values = load_breast_cancer().data
    elif name == "diabetes":
        values = load_diabetes(scaled=False).data
    elif name == "wine":
        values = load_wine().data
    else:
        frame = pandas.read_csv(data("tabular", f"{name}.csv")).select_dtypes("number")
        values = frame.drop(columns="c2" if name == MIXED else []).to_numpy(dtype=float)
    values = values[:, np.nanstd(values, axis=0) > 0]
    names = tuple(f"c{j}" for j in range(values.shape[1]))
    levels, columns = {}, values.copy()
    if name == MIXED:
        for j, column in enumerate(values.T):
            codes = np.unique(column[~np.isnan(column)])
            if 2 < len(codes) <= FEW:
                levels[names[j]] = tuple(f"{code:g}" for code in codes)
                columns[:, j] = np.where(np.isnan(column), np.nan, np.searchsorted(codes, column))
    return Table(name, columns, names, np.arange(len(values)), levels=levels)


def decimals(column: np.ndarray) -> int:
    """The decimals with which the numbers of a column are written."""
    column = column[~np.isnan(column)]
    return next((d for d in range(6) if np.allclose(column, np.round(column, d), rtol=0, atol=1e-9)), 6)


def spoilt(table: Table, way: str, share: float, seed: int) -> tuple[Table, np.ndarray]:
    """The table with a share of its cells wrong, and which are."""
    rng = np.random.default_rng([seed, WAYS.index(way)])
    x, (n, d) = table.values, table.values.shape
    values, wrong = x.copy(), np.zeros((n, d), dtype=bool)
    words = np.array([name in table.levels for name in table.columns])
    digits = [decimals(column) for column in x.T]
    for cell in rng.permutation(n * d):
        i, j = divmod(int(cell), d)
        if wrong.sum() >= round(share * n * d):
            break
        if wrong[i, j] or np.isnan(x[i, j]) or (words[j] and way != "another row"):
            continue
        if way == "another row":
            others = x[~np.isnan(x[:, j]) & (x[:, j] != x[i, j]), j]
            if not len(others):
                continue
            values[i, j] = rng.choice(others)
        elif way == "decimal":
            values[i, j] = x[i, j] * (10.0 if rng.random() < 0.5 else 0.1)
        elif way == "swap":
            k = int(rng.integers(d))
            if k == j or words[k] or wrong[i, k] or np.isnan(x[i, k]):
                continue
            values[i, j], values[i, k] = x[i, k], x[i, j]
            wrong[i, k] = values[i, k] != x[i, k]
        else:
            text = list(f"{abs(x[i, j]):.{digits[j]}f}")
            place = rng.choice([k for k, letter in enumerate(text) if letter.isdigit()])
            text[place] = rng.choice([letter for letter in "0123456789" if letter != text[place]])
            values[i, j] = math.copysign(float("".join(text)), x[i, j])
        wrong[i, j] = values[i, j] != x[i, j]
    return Table(table.name, values, table.columns, table.ids, levels=table.levels), wrong


Score = Callable[[np.ndarray], np.ndarray]  # of rows: a number for each cell, higher for more suspicious ones


def z_score(trusted: np.ndarray) -> Score:
    """|x - median| in median absolute deviations."""
    median = np.nanmedian(trusted, axis=0)
    spread = np.nanmedian(np.abs(trusted - median), axis=0) + 1e-3 * np.nanstd(trusted, axis=0) + 1e-12
    return lambda rows: np.abs(rows - median) / spread


def forest(trusted: np.ndarray) -> Score:
    """The isolation of each row, and within a row the z-score."""
    median, by_column = np.nanmedian(trusted, axis=0), z_score(trusted)
    fitted = IsolationForest(random_state=0).fit(np.where(np.isnan(trusted), median, trusted))

    def score(rows: np.ndarray) -> np.ndarray:
        of_rows = -fitted.score_samples(np.where(np.isnan(rows), median, rows))
        return of_rows[:, None] + 1e-6 * by_column(rows)

    return score


def trees(trusted: np.ndarray) -> Score:
    """Residuals of a regression of each column on the others, in units of their median out of bag."""
    median, regressions = np.nanmedian(trusted, axis=0), []
    known = np.where(np.isnan(trusted), median, trusted)
    for j, column in enumerate(trusted.T):
        seen = ~np.isnan(column)
        model = ExtraTreesRegressor(50, random_state=0, bootstrap=True, oob_score=True, n_jobs=1)
        model.fit(np.delete(known, j, axis=1)[seen], column[seen])
        usual = np.median(np.abs(model.oob_prediction_ - column[seen]))
        regressions.append((model, usual + 1e-3 * np.nanstd(column) + 1e-12))

    def score(rows: np.ndarray) -> np.ndarray:
        filled = np.where(np.isnan(rows), median, rows)
        return np.column_stack(
            [
                np.abs(rows[:, j] - model.predict(np.delete(filled, j, axis=1))) / usual
                for j, (model, usual) in enumerate(regressions)
            ]
        )

    return score


def lace_surprisal(trusted: np.ndarray) -> Score:
    """lace's surprisal of the cells of rows that join a fitted cross-categorization, less its usual one."""
    import lace

    def frame(rows: np.ndarray, first: str) -> pandas.DataFrame:
        names = [f"c{j}" for j in range(rows.shape[1])]
        return pandas.DataFrame(rows, [f"{first}{i}" for i in range(len(rows))], names)

    varying = np.flatnonzero(np.nanstd(trusted, axis=0) > 0)  # lace refuses others
    engine = lace.Engine.from_df(frame(trusted, "trusted").iloc[:, varying], n_states=8)
    engine.update(200, quiet=True)

    def of(rows: pandas.DataFrame) -> np.ndarray:
        surprisals = np.where(rows.isna(), np.nan, 0.0)
        for j in varying.tolist():
            seen = list(rows.index[rows.iloc[:, j].notna()])
            found = engine.surprisal(f"c{j}", rows=seen).to_pandas().set_index("index")["surprisal"]
            surprisals[:, j] = found.reindex(rows.index)
        return surprisals

    usual = np.nanmedian(of(frame(trusted, "trusted")), axis=0)

    def score(rows: np.ndarray) -> np.ndarray:
        joined = frame(rows, "row")
        engine.append_rows(joined.iloc[:, varying])
        surprisals = of(joined)
        engine.remove_rows(list(joined.index))
        return surprisals - usual

    return score


ANCHORS: dict[str, Callable[[np.ndarray], Score]] = {
    "z-score": z_score,
    "IsolationForest": forest,
    "ExtraTrees residual": trees,
}
if importlib.util.find_spec("lace"):
    ANCHORS["lace"] = lace_surprisal


def surprisal(model: Any, trusted: np.ndarray) -> Score:
    """-log p(cell | the rest of its row), less the median of its column in the trusted rows.

    A value that the column cannot hold is certainly wrong, and a hole for the rest of its row.
    """
    facts = facts_of(model, trusted)

    def of(rows: np.ndarray) -> np.ndarray:
        outside = facts.faults(rows) == OUTSIDE
        rows = np.where(outside, np.nan, rows)
        tokens, out = me.Tokens.from_array(rows, empty_rows=True), np.where(outside, np.inf, np.nan)
        for j in range(rows.shape[1]):
            there = torch.nonzero(tokens.maskable[:, j])[:, 0]
            masked = torch.zeros((len(there), tokens.width), dtype=torch.bool)
            masked[:, j] = True
            with torch.no_grad():
                out[there.numpy(), j] = -model.log_conditionals(tokens[there], masked)[:, j].double().numpy()
        return out

    usual = np.nanmedian(of(trusted), axis=0)
    return lambda rows: of(rows) - usual


def called_at(p_values: np.ndarray, rate: float) -> np.ndarray:
    """The cells that Benjamini and Hochberg call wrong."""
    p_sorted = np.sort(p_values[~np.isnan(p_values)])
    kept = np.flatnonzero(p_sorted <= rate * np.arange(1, len(p_sorted) + 1) / len(p_sorted))
    return p_values <= (p_sorted[kept[-1]] if len(kept) else -1.0)


def measure(table: Table, seed: int, shares: tuple[float, ...], folds: int) -> list[dict[str, Any]]:
    """Every way and share on one division of the rows, and the clean rows.

    One call judges the tables of all settings: with trusted rows, the p-value of a cell does not depend on
    the other rows of its table. Benjamini and Hochberg's procedure then calls the cells of each table.
    """
    order = np.random.default_rng(seed).permutation(len(table))
    n = min(N_TRUSTED, len(table) // 2)
    trusted, rows = table.take(np.sort(order[:n])), table.take(np.sort(order[n:]))
    fitted: Any
    if table.name in BY_NETWORK:
        word, fitted = "masked-net", me.models.MaskedNetwork(len(table.columns))
        fitted.declare(table)
    else:
        word, fitted = "kernel-gaussian", me.models.KernelGaussian(len(table.columns), n_centres=1)
    fitted.fit(trusted)
    anchors = {ONE_LOOK: surprisal(fitted, trusted.values)}
    anchors |= {name: learn(trusted.values) for name, learn in ANCHORS.items()}
    clean = ("clean", 0.0, rows.values, np.zeros(rows.values.shape, dtype=bool))
    settings: list[tuple[str, float, np.ndarray, np.ndarray]] = [clean]
    for way in WAYS:
        for share in shares:
            given, wrong = spoilt(rows, way, share, seed)
            settings.append((way, share, given.values, wrong))
    stacked = np.concatenate([values for _, _, values, _ in settings])
    all_rows = Table(table.name, stacked, table.columns, np.arange(len(stacked)), levels=table.levels)
    start = time.process_time()
    found = me.wrong_cells(word, all_rows, rate=RATE, trusted=trusted, folds=folds)
    seconds = (time.process_time() - start) / len(settings)
    parts = (np.split(of, len(settings)) for of in (found.suspicion, found.p_values))
    results = []
    for (way, share, values, wrong), suspicion, p_values in zip(settings, *parts, strict=True):
        entry: dict[str, Any] = {"way": way, "share": share, "seed": seed, "seconds": seconds}
        calls = [called_at(p_values, rate) for rate in RATES]
        entry["calls"] = [int(called.sum()) for called in calls]
        entry["false"] = [float((called & ~wrong).sum() / max(1, called.sum())) for called in calls]
        if share:
            seen = ~np.isnan(values)
            scores = {OURS: suspicion} | {name: of(values) for name, of in anchors.items()}
            entry["precision"] = {
                name: average_precision_score(wrong[seen], np.nan_to_num(score[seen], posinf=1e300))
                for name, score in scores.items()
            }
            entry["power"] = [float(called[wrong].mean()) for called in calls]
        results.append(entry)
    return results


def tables(
    names: list[str], shares: tuple[float, ...], seeds: int, options: argparse.Namespace
) -> tuple[Any, list[Target]]:
    """All settings of all tables; no division is begun after some minutes."""
    given, began = {name: load(name) for name in names}, time.monotonic()
    numbers: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    seed = 0
    while seed < seeds and time.monotonic() - began < 60 * options.minutes:
        for name, table in given.items():
            some = table.take(np.arange(120)) if options.quick else table
            numbers[name] += measure(some, seed, shares, options.folds)
        seed += 1
    print(f"{seed} divisions of the rows\n")
    targets, powers, clean, curves = list[Target](), list[float](), list[bool](), list[list[str]]()
    methods = [OURS, ONE_LOOK, *ANCHORS]
    at = RATES.index(RATE)
    for name, runs in numbers.items():
        rows = []
        for share in shares:
            for way in WAYS:
                these = [run for run in runs if run["way"] == way and run["share"] == share]
                cells = [f"{np.mean([run['precision'][method] for run in these]):.3f}" for method in methods]
                false, power = ([run[key][at] for run in these] for key in ("false", "power"))
                rows.append([f"{share:.0%}, {way}", *cells, mean_and_se(false), mean_and_se(power)])
                error = np.std(false, ddof=1) / math.sqrt(len(false)) if len(false) > 1 else 0.0
                most = RATE + 2 * float(error)
                targets.append(Target(f"{name}, {way}, {share:.0%}: false", float(np.mean(false)), high=most))
                powers.append(float(np.mean(power)))
                if np.mean(power) < LOW_POWER:
                    of_rates = zip(
                        *(np.mean([run[key] for run in these], 0) for key in ("power", "false")), strict=True
                    )
                    curves.append(
                        [f"{name}, {share:.0%}, {way}", *(f"{p:.2f} ({f:.2f})" for p, f in of_rates)]
                    )
        n_holes = int(np.isnan(given[name].values).sum())
        title = f"{name}: {given[name].values.shape[0]} rows, {given[name].values.shape[1]} columns"
        show(f"{title}, {n_holes} holes", ["spoilt", *methods, "false calls", "power"], rows)
        average = {m: np.mean([run["precision"][m] for run in runs if run["share"]]) for m in methods}
        best = max((each for each in methods if each != OURS), key=lambda each: average[each])
        ratios = {each: float(average[OURS] / average[each]) for each in methods[1:]}
        targets.append(Target(f"{name}: average precision over that of {best}", ratios[best], low=1.5))
        print("average precision over that of", ", ".join(f"{each} {r:.2f}" for each, r in ratios.items()))
        n_calls = [run["calls"][at] for run in runs if run["way"] == "clean"]
        clean += [n == 0 for n in n_calls]
        print(f"clean rows: calls in {sum(n > 0 for n in n_calls)} of {len(n_calls)}, at most {max(n_calls)}")
        print(f"CPU seconds a table, fits shared: {np.median([run['seconds'] for run in runs]):.1f}\n")
    if curves:
        title = f"Power (false calls) by rate, where the power at {RATE:g} is below {LOW_POWER:g}"
        show(title, ["table and setting", *(f"rate {rate:g}" for rate in RATES)], curves)
    targets.append(Target("power, mean over all settings", float(np.mean(powers)), low=0.3))
    targets.append(Target("share of clean tables without a call", float(np.mean(clean)), low=0.9))
    return numbers, targets


def factors(n: int, seed: int, d: int = 12, noise: float = 0.6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of a factor model of four factors, its mean and covariance."""
    loadings = np.random.default_rng(99).normal(size=(4, d))
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 4)) @ loadings + noise * rng.normal(size=(n, d))
    return rows, np.zeros(d), loadings.T @ loadings + noise**2 * np.eye(d)


def oracle(seeds: int, quick: bool) -> dict[str, Any]:
    """Power against rate: a model fitted to the trusted rows, and the density that the rows come from."""
    rates, n = RATES, 60 if quick else 300
    power: dict[str, list[list[float]]] = {"kernel-gaussian": [], "the density itself": []}
    false: dict[str, list[list[float]]] = {name: [] for name in power}
    for seed in range(seeds):
        x, centre, covariance = factors(2 * n + 300, seed)
        given, wrong = spoilt(
            Table("factors", x[n:], tuple("abcdefghijkl"), np.arange(len(x) - n)), WAYS[0], 0.02, seed
        )
        known = me.models.Gaussian(torch.from_numpy(centre), torch.from_numpy(covariance))
        for name, model in zip(power, ("kernel-gaussian", known), strict=True):
            found = [me.wrong_cells(model, given.values, rate=rate, trusted=x[:n]).called for rate in rates]
            power[name].append([float(called[wrong].mean()) for called in found])
            false[name].append([float((called & ~wrong).sum() / max(1, called.sum())) for called in found])
    rows = [
        [
            name,
            *(
                f"{p:.2f} ({f:.2f})"
                for p, f in zip(np.mean(power[name], 0), np.mean(false[name], 0), strict=True)
            ),
        ]
        for name in power
    ]
    title = f"12 columns of 4 factors, 2 % another row's value, {n} trusted rows: power (false calls)"
    show(title, ["model", *(f"rate {rate:g}" for rate in rates)], rows)
    return {"power": power, "false": false}


def speed(quick: bool) -> tuple[dict[str, Any], list[Target]]:
    """CPU seconds and memory after the fit."""
    numbers, rows, targets = {}, [], []
    for n in (100,) if quick else (1_000, 100_000):
        x, _, _ = factors(n + 600, 0, d=30)
        given, _ = spoilt(
            Table("factors", x[600:], tuple(f"c{j}" for j in range(30)), np.arange(n)), WAYS[0], 0.01, 0
        )
        models: list[Any] = [me.models.Gaussian(n_features=30)]
        models += [me.models.KernelGaussian(30, n_centres=1)] if n < 10_000 else []
        for model in models:
            model.fit(x[:300])
            start = time.process_time()
            found = me.wrong_cells(model, given.values, trusted=x[300:600])
            seconds = time.process_time() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            name = f"{type(model).__name__}, {n:,} × 30"
            rows.append([name, f"{seconds:.1f}", f"{peak:.2f}", f"{int(found.called.sum()):,}"])
            numbers[name] = {"seconds": seconds, "peak_gib": peak}
            if n == 1_000:
                targets.append(Target(f"{name}: CPU s", seconds, high=10.0))
    show(
        "After the fit, 300 trusted rows",
        ["model and table", "CPU s", "peak GiB of the process", "calls"],
        rows,
    )
    return numbers, targets


def judged(name: str, model: str, seed: int) -> dict[str, Any]:
    """False calls and power on one table of a setting, and those of the ranks of its cells alone."""
    room._described = lambda *_: ()  # type: ignore[assignment]  # the calls are counted, not described
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    given, start = drawn(name, seed), time.process_time()
    folds = 2 if model == NETWORK else 5
    found = me.wrong_cells(model, given.table, RATE, given.trusted, folds=folds, seed=seed)
    calls, alone = found.calls, found.called
    wrong = given.wrong[:, [int(column[1:]) for column in found.table.columns]]
    true = np.zeros(calls.max() + 1, dtype=bool)
    true[calls[wrong & (calls > 0)]] = True
    ranks = called_at(found.p_values, RATE)

    def share(part: np.ndarray, whole: np.ndarray) -> float:
        return float(part.sum() / max(1, whole.sum()))

    return {
        "setting": name,
        "model": model,
        "seed": seed,
        "seconds": time.process_time() - start,
        "calls": int(calls.max()),
        "false": share(~true[1:], np.ones(calls.max())),
        "false alone": share(alone & ~wrong, alone),
        "power": share(wrong & (calls > 0), wrong),
        "power alone": share(wrong & alone, wrong),
        "false by ranks": share(ranks & ~wrong, ranks),
        "power by ranks": share(ranks & wrong, wrong),
    }


def rates(options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[Target]]:
    """False calls and power in settings of known truth, by many processes."""
    names = list(SETTINGS) if options.only is None else options.only.split(",")
    cases = [(name, model) for name in names for model in SETTINGS[name].models]
    cases = [(name, model) for name, model in cases if options.model in (None, model)]
    n = 2 if options.quick else options.sets
    if options.quick:  # a network is fitted for minutes
        cases = [case for case in cases if not case[1].startswith("masked-net")][::6]
    results, began = list[dict[str, Any]](), time.monotonic()
    if options.processes == 1:
        for seed in range(n):
            results += [judged(name, model, seed) for name, model in cases]
            if time.monotonic() - began > 60 * options.minutes:
                break
    else:
        os.environ["OMP_NUM_THREADS"] = "1"
        with ProcessPoolExecutor(options.processes, get_context("spawn")) as pool:
            jobs = [pool.submit(judged, *case, seed) for seed in range(n) for case in cases]
            left = 60 * options.minutes
            try:
                for job in as_completed(jobs, None if math.isinf(left) else left):
                    results.append(job.result())
            except TimeoutError:
                pool.shutdown(wait=False, cancel_futures=True)
    rows, targets = list[list[str]](), list[Target]()
    for name, model in cases:
        these = [each for each in results if (each["setting"], each["model"]) == (name, model)]
        if not these:
            continue

        def mean(key: str, these: list[dict[str, Any]] = these) -> str:
            return mean_and_se([each[key] for each in these])

        any_call = float(np.mean([each["calls"] > 0 for each in these]))
        keys = ("false", "power", "false alone", "power alone", "false by ranks", "power by ranks")
        counts = [f"{len(these)}", f"{np.mean([each['calls'] for each in these]):.1f}", f"{any_call:.2f}"]
        seconds = f"{np.mean([each['seconds'] for each in these]):.2f}"
        rows.append([f"{name}, {model}", *counts, *map(mean, keys), seconds])
        false, most = np.array([each["false"] for each in these]), SETTINGS[name].most
        error = float(np.std(false, ddof=1) / math.sqrt(len(false))) if len(false) > 1 else 0.0
        if SETTINGS[name].share == 0.0:
            spread = 2 * math.sqrt(0.09 / len(these))
            targets.append(Target(f"{name}, {model}: tables with a call", any_call, high=0.1 + spread))
        else:
            targets.append(Target(f"{name}, {model}: false", float(false.mean()), high=most + 2 * error))
    headings = [
        "setting and model",
        "tables",
        "calls",
        "any",
        "false calls",
        "power",
        "false of single cells",
    ]
    headings += ["power, single cells", "false by ranks of cells", "power by these", "CPU s"]
    show(f"Stated rate {RATE:g}", headings, rows)
    return results, targets


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument(
        "--seeds", type=int, default=20, help="divisions of the rows, each with its own errors"
    )
    parser.add_argument("--folds", type=int, default=5, help="fits for each division")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no division after so long")
    parser.add_argument("--tables", default=",".join(TABLES), help="names of tables between commas")
    parser.add_argument("--shares", default="0.01,0.02", help="shares of wrong cells between commas")
    parser.add_argument("--parts", default="tables,rates,oracle,speed", help="these, between commas")
    parser.add_argument("--sets", type=int, default=200, help="tables of each setting of rates")
    parser.add_argument("--processes", type=int, default=1, help="that rates uses")
    parser.add_argument("--only", help="settings of rates between commas")
    parser.add_argument("--model", help="the only model of rates")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = 1 if options.quick else options.seeds
    names = ["wine"] if options.quick else options.tables.split(",")
    shares = (0.02,) if options.quick else tuple(map(float, options.shares.split(",")))
    if not options.quick and "tables" in options.parts:
        data("tabular")  # before any work
    print(machine())
    numbers: dict[str, Any] = {}
    targets: list[Target] = []
    if "tables" in options.parts:
        numbers["tables"], targets = tables(names, shares, seeds, options)
    if "rates" in options.parts:
        numbers["rates"], more = rates(options)
        targets += more
    if "oracle" in options.parts:
        numbers["oracle"] = oracle(seeds, options.quick)
    if "speed" in options.parts:
        numbers["speed"], more = speed(options.quick)
        targets += more
    return finish(numbers, [] if options.quick else targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
