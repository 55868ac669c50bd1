"""Do 95 % intervals cover the true value in 95 % of the runs, and is the mean over runs correct?

    python benchmarks/coverage.py

The true value of a run is the log evidence of the same rows, so that the interval has to cover only the error
of the masks. Three models (`_coverage.py`) are hard for intervals: a steep curve, random scores with one size
that holds nearly all of the variance, and lognormal scores. Each cell of the first table is the lowest
coverage of these models and of complete rows with consecutive ids and rows with missing values and ids with
gaps, now and as version 0.1.0 drew masks and computed errors. An error that is not known has no interval.

The second table has the variance of the estimate over ids with gaps, relative to independent sizes. The last
one compares two rules for the degrees of freedom of `EverySize` on single rows. Let v be the variance of each
cell and nu = R - 1. The plug-in rule nu (sum v)^2 / sum v^2 is too low on average, because the squares of
estimated variances are too large by a factor of 1 + 2/nu. The rule (nu + 2) (sum v)^2 / sum v^2 - 2 corrects
this for normal scores.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np

import maskevidence as me
from _coverage import Cell, Setting, coverage, ids_of
from maskevidence.masks import MaskKey, drawn_masks, positions
from maskevidence.standard_errors import t_half_width

N_ROWS, N_TOKENS = (1, 2, 5, 20, 40, 200), (1, 2, 5, 30)
SHARING: tuple[Literal["own", "shared"], ...] = ("own", "shared")
MASKS_OF_A_CELL, FEWEST_RUNS, MOST_RUNS = 60_000, 50, 200
LOWEST = {"steep": 0.93, "one size": 0.93, "lognormal": 0.91}
HIGHEST, SURE = 0.97, 3.0  # standard errors by which a coverage is outside
LARGE = 100  # tokens, of which one size holds the variance: the hardest cell for random sizes
ENOUGH = "RandomSize(enough)"
"""`RandomSize` with the number of draws from which its error is known."""


@dataclass(frozen=True)
class Entry:
    """One setting, now and before.

    Attributes:
        design: the design in words.
        setting: what is scored.
        now: coverage of the present design.
        before: coverage as version 0.1.0 had it, with the same number of masks.
    """

    design: str
    setting: Setting
    now: Cell
    before: Cell

    @property
    def too_low(self) -> bool:
        lowest = LOWEST[self.setting.model]
        return self.now.coverage is not None and self.now.coverage < lowest - SURE * self.now.se

    @property
    def too_high(self) -> bool:
        if self.now.coverage is None or self.now.zero == 1.0:
            return False
        return self.now.coverage > HIGHEST + SURE * self.now.se


def designs(setting: Setting) -> dict[str, tuple[me.MaskDesign, me.MaskDesign]]:
    """The designs of a setting, now and before."""
    n_tokens = setting.observed.sum(1)
    enough = me.RandomSize(8).enough_draws(n_tokens, setting.sharing)
    found: dict[str, tuple[me.MaskDesign, me.MaskDesign]] = {
        f"EverySize({p})": (me.EverySize(p), me.EverySize(p, max_listed=0)) for p in (2, 4)
    }
    found["RandomSize(8)"] = (me.RandomSize(8), me.RandomSize(8, 4, "id"))
    if enough > 8 and setting.n <= 20:
        found[ENOUGH] = (me.RandomSize(enough, 8), me.RandomSize(enough, 4, "id"))
    return found


def settings() -> Iterator[Setting]:
    """Complete rows with consecutive ids, and rows with missing values and ids with gaps."""
    for n in N_ROWS:
        for n_tokens in N_TOKENS:
            for sharing in SHARING:
                for model in LOWEST:
                    plain = Setting(n, n_tokens, model, sharing)
                    yield plain
                    if n_tokens > 1 and model == "steep":
                        yield replace(plain, ids="random" if n == 40 else "every 53rd", missing=True)


def entries(quick: bool) -> Iterator[Entry]:
    """Every setting with every design; where a run has many masks, few runs, and the hardest model alone."""
    for setting in settings():
        for name, (now, before) in designs(setting).items():
            runs = min(MOST_RUNS, MASKS_OF_A_CELL // int(now.n_draws(setting.observed.sum(1)).sum()))
            if runs < FEWEST_RUNS and (setting.model != "one size" or setting.missing):
                continue
            runs = max(runs, FEWEST_RUNS) // (10 if quick else 1)
            yield Entry(
                name, setting, coverage(setting, now, runs), coverage(setting, before, runs, before=True)
            )


def table(found: list[Entry]) -> list[tuple[str, ...]]:
    """The lowest coverage by design, sharing and number of rows, before and now."""
    rows = []
    for design in dict.fromkeys(entry.design for entry in found):
        for sharing in SHARING:
            for n in N_ROWS:
                chosen = [
                    e for e in found if (e.design, e.setting.sharing, e.setting.n) == (design, sharing, n)
                ]
                if not chosen:
                    continue
                cells = [
                    _words([e for e in chosen if e.setting.n_tokens == n_tokens]) for n_tokens in N_TOKENS
                ]
                rows.append((design, sharing, str(n), *cells))
    return rows


def _words(of_cell: list[Entry]) -> str:
    """The lowest coverages, before → now."""
    if not of_cell:
        return ""
    known = [entry.now.coverage for entry in of_cell if entry.now.coverage is not None]
    old = [entry.before.coverage for entry in of_cell if entry.before.coverage is not None]
    now = f"{min(known):.2f}" if known else "none"
    if known and all(entry.now.zero == 1.0 for entry in of_cell):
        now = "exact"
    elif any(entry.now.coverage is None for entry in of_cell) and known:
        now += " or none"
    return f"{min(old):.2f} → {now}"


def relative_variance(ids: np.ndarray, design: me.RandomSize, n_tokens: np.ndarray, n_seeds: int) -> float:
    """Variance of the estimate for a steep curve, relative to that of independent sizes."""
    maskable = np.arange(n_tokens.max()) < n_tokens[:, None]
    position = positions(ids)
    means = []
    for seed in range(n_seeds):
        masks = drawn_masks(design, MaskKey(seed), ids, maskable, position=position)
        score = -np.exp(4.0 * masks.size / n_tokens[masks.row])
        means.append(float((masks.weight * score).sum()) / len(ids))
    curves = [n**2 * np.var(-np.exp(4.0 * np.arange(1, n + 1) / n)) for n in n_tokens]
    independent = float(np.mean(curves)) / len(ids) / design.draws
    return float(np.var(means, ddof=1)) / independent


def variances(n_seeds: int) -> list[tuple[str, str, float, float]]:
    """By ids and lengths: before, and now."""
    found = []
    lengths = {
        "40 rows of 30": np.full(40, 30),
        "20 rows of 27 to 46": np.random.default_rng(1).integers(27, 47, 20),
    }
    for what, n_tokens in lengths.items():
        for kind in ("consecutive", "every 53rd", "every 102nd", "random"):
            ids = ids_of(kind, len(n_tokens))
            before, now = (
                relative_variance(ids, design, n_tokens, n_seeds)
                for design in (me.RandomSize(8, 4, "id"), me.RandomSize(8))
            )
            found.append((what, kind, before, now))
    return found


@dataclass(frozen=True)
class DfRules:
    """Coverage on single rows, by rule for the degrees of freedom.

    Attributes:
        masks_per_size: R.
        n_rows: number of runs, each with a single row.
        plug_in: coverage of the plug-in rule, which the package uses.
        plug_in_df: mean degrees of freedom of the plug-in rule.
        corrected: coverage of the rule that is correct for normal scores.
        corrected_df: mean degrees of freedom of the corrected rule.
        normal: coverage with a normal quantile.
    """

    masks_per_size: int
    n_rows: int
    plug_in: float
    plug_in_df: float
    corrected: float
    corrected_df: float
    normal: float


def compare_df_rules(model: me.models.PPCA, masks_per_size: int, n_rows: int) -> DfRules:
    """Treat every row of one table as a separate run, because every row has its own masks."""
    rows = model.sample(n_rows, seed=1_000_000 + masks_per_size)
    truth = model.score_samples(rows)
    design = me.EverySize(masks_per_size, max_listed=0)
    scores = me.estimate_evidence(model, rows, design, batch_size=8192).scores  # sorted by row, draw, size
    table = scores.score.reshape(n_rows, masks_per_size, model.n_features)
    error = np.abs(table.mean(1).sum(1) - truth)
    cell = table.var(1, ddof=1) / masks_per_size
    variance, ratio = cell.sum(1), cell.sum(1) ** 2 / (cell**2).sum(1)
    nu = masks_per_size - 1
    plug_in, corrected = nu * ratio, (nu + 2) * ratio - 2

    def covered(df: np.ndarray) -> float:
        half = [t_half_width(math.sqrt(v), d, 0.95) for v, d in zip(variance, df, strict=True)]
        return float((error <= half).mean())

    return DfRules(
        masks_per_size,
        n_rows,
        covered(plug_in),
        float(plug_in.mean()),
        covered(corrected),
        float(corrected.mean()),
        covered(np.full(n_rows, math.inf)),
    )


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    options = parser.parse_args()
    print(machine())
    found = list(entries(options.quick))
    columns = ("design", "masks", "rows", *(f"D = {n_tokens}" for n_tokens in N_TOKENS))
    title = (
        "Lowest coverage of 95 % intervals, version 0.1.0 → now (none: the error is not known; exact: every "
        "mask is scored)"
    )
    show(title, columns, table(found))
    spike = Setting(2, LARGE, "one size", "own")
    design = me.RandomSize(64)
    runs = 100 if options.quick else 600
    large = coverage(spike, design, runs)
    print(f"\n{LARGE} tokens, one size of which holds the variance, {design}: {large.coverage:.3f}")

    ratios = variances(40 if options.quick else 400)
    show(
        "Variance relative to independent sizes, steep curve, 8 draws",
        ("rows", "ids", "0.1.0", "now"),
        [(what, kind, f"{before:.2f}", f"{now:.2f}") for what, kind, before, now in ratios],
    )
    ppca = me.models.PPCA.from_parameters(me.models.PPCA(20, 4, seed=0).loadings.detach(), 0.2)
    n_rows = 600 if options.quick else 6000
    rules = [compare_df_rules(ppca, masks_per_size, n_rows) for masks_per_size in (2, 3, 4, 8)]
    show(
        "Coverage of 95 % intervals on single rows, by rule for the degrees of freedom",
        ("masks per size", "runs", "plug-in", "its df", "corrected", "its df", "normal"),
        list(map(_rule, rules)),
    )
    low = [entry for entry in found if entry.too_low]
    for entry in low:
        print(f"below: {entry.design}, {entry.setting}, {entry.now.coverage:.3f}")
    n_cells = len(found)
    z = np.array([entry.now.z for entry in found])
    targets = [
        Target(
            f"cells of {n_cells} with coverage below the lowest allowed",
            len(low),
            high=0,
        ),
        Target(
            f"cells of {n_cells} with coverage above {HIGHEST:.0%}", sum(e.too_high for e in found), high=0
        ),
        Target("largest |mean error| / its standard error", float(np.abs(z).max()), high=4.5),
        Target(
            "largest variance over ids, relative to independent sizes", max(r[3] for r in ratios), high=2.0
        ),
    ]
    numbers: dict[str, Any] = {
        "cells": [asdict(entry) for entry in found],
        "large": asdict(large),
        "variances": ratios,
        "df_rules": [asdict(r) for r in rules],
    }
    return finish(numbers, targets, options.json)


def _rule(rule: DfRules) -> tuple[str, ...]:
    return (
        str(rule.masks_per_size),
        str(rule.n_rows),
        f"{100 * rule.plug_in:.2f} %",
        f"{rule.plug_in_df:.1f}",
        f"{100 * rule.corrected:.2f} %",
        f"{rule.corrected_df:.1f}",
        f"{100 * rule.normal:.2f} %",
    )


if __name__ == "__main__":
    sys.exit(main())
