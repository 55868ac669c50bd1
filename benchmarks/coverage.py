"""Do 95 % intervals cover the true value in 95 % of the runs, and is the mean over runs correct?

    python benchmarks/coverage.py
    python benchmarks/coverage.py --part default --rows 10

The true value of a run is the log evidence of the same rows, so that the interval has to cover only the error
of the masks. The models (`_coverage.py`) are hard for intervals: a steep curve, random scores with one size
that holds nearly all of the variance, lognormal scores with sigma = 1 and 1.5, and normal scores of which 1 %
are -30 (in runs of 400 masks or more: fewer may never meet one). The first table has the mean
and the lowest coverage by Student's t interval and by the interval of the package, which adds what rare masks
may do (standard_errors.py). An error that is not known has no interval.

The second table has the default design of wide rows, which ends where its error is 0.4 of the data error: few
and many rows of 30 tokens, noise of all kinds, and 1, 2 or 4 times as much noise of a mask as spread of the
rows. It shows what a run costs, in draws for each row, and how far the mean of all runs lies from the truth.
"""

import itertools
import math
import sys
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np

import maskevidence as me
from _coverage import MODELS, Cell, Run, Setting, WideRows, coverage, estimates
from maskevidence.core.evidence.precise import default_design
from maskevidence.core.evidence.standard_errors import MeanWithErrors
from stopping import Found

N_ROWS, N_TOKENS = (1, 2, 5, 20, 40, 200), (1, 2, 5, 30)
SHARING: tuple[Literal["own", "shared"], ...] = ("own", "shared")
MASKS_OF_A_CELL, FEWEST_RUNS, MOST_RUNS = 60_000, 50, 200
WIDE = 30  # tokens, from which random sizes are the default
DEFAULT_ROWS, SHARE_OF_NOISE = (10, 20, 50, 200, 2000), (1.0, 2.0, 4.0)
NOISE = ("normal", "lognormal", "lognormal 1.5", "rare")
LOWEST, SURE = 0.93, 3.0  # standard errors by which a coverage is outside
LOWEST_OF_ONE_ROW = {"lognormal 1.5": 0.90}  # of one row, of which a run has 15 to 40 masks
FEWEST_FOR_RARE = 400  # masks
ENOUGH = "RandomSize(enough)"
"""`RandomSize` with the number of draws from which its error is known."""


@dataclass(frozen=True)
class Entry:
    """One setting.

    Attributes:
        design: the design in words.
        setting: what is scored.
        cell: its coverage.
    """

    design: str
    setting: Setting
    cell: Cell

    @property
    def too_low(self) -> bool:
        lowest = LOWEST_OF_ONE_ROW.get(self.setting.model, LOWEST) if self.setting.n == 1 else LOWEST
        return self.cell.coverage is not None and self.cell.coverage < lowest - SURE * self.cell.se


def designs(setting: Setting) -> dict[str, me.MaskDesign]:
    """The designs of a setting."""
    enough = me.RandomSize(8).enough_draws(setting.observed.sum(1), setting.sharing)
    found: dict[str, me.MaskDesign] = {f"EverySize({p})": me.EverySize(p) for p in (2, 4)}
    found["RandomSize(8)"] = me.RandomSize(8)
    if enough > 8 and setting.n <= 20:
        found[ENOUGH] = me.RandomSize(enough, 8)
    return found


def settings() -> Iterator[Setting]:
    """Complete rows with consecutive ids, and rows with missing values and ids with gaps."""
    for n in N_ROWS:
        for n_tokens in N_TOKENS:
            for sharing in SHARING:
                for model in MODELS:
                    plain = Setting(n, n_tokens, model, sharing)
                    yield plain
                    if n_tokens > 1 and model == "steep":
                        yield replace(plain, ids="random" if n == 40 else "every 53rd", missing=True)


def entries(quick: bool) -> Iterator[Entry]:
    """Every setting with every design; where a run has many masks, few runs, and the hardest models alone."""
    for setting in settings():
        n_tokens = setting.observed.sum(1)
        if quick and (setting.n != 20 or setting.n_tokens != 5):
            continue
        for name, design in designs(setting).items():
            n_masks = int(design.n_draws(n_tokens).sum())
            if (
                setting.model == "rare"
                and n_masks // (1 if setting.sharing == "own" else setting.n) < FEWEST_FOR_RARE
            ):
                continue
            runs = min(MOST_RUNS, MASKS_OF_A_CELL // n_masks)
            if runs < FEWEST_RUNS and (setting.model in ("steep", "lognormal") or setting.missing):
                continue
            runs = 3 if quick else max(runs, FEWEST_RUNS)
            if design.unknown_error(n_tokens, setting.sharing) is not None:
                yield Entry(name, setting, Cell(None, None, 1.0, 0.0, 0.0, 0.0, runs))
            else:
                yield Entry(name, setting, coverage(estimates(setting, design, runs)))


def by_model(found: list[Entry]) -> list[tuple[str, ...]]:
    """Over the settings of each model: how many, mean and lowest coverage by Student's t and now, width."""
    rows = []
    for model in MODELS:
        cells = [e.cell for e in found if e.setting.model == model and e.cell.known and e.cell.zero < 1.0]
        if not cells:
            continue
        runs = [cell.known * cell.n_runs for cell in cells]
        words = [model, str(len(cells))]
        for name in ("student", "coverage"):
            values = [getattr(cell, name) for cell in cells]
            words.append(f"{np.average(values, weights=runs):.3f}, {min(values):.2f}")
        rows.append((*words, f"{np.mean([cell.wider for cell in cells]):.2f}"))
    return rows


@dataclass(frozen=True)
class DefaultCell:
    """The default design in one setting.

    Attributes:
        cell: its coverage.
        draws: for each row, on average.
        bias: the mean error over the errors' standard deviation.
    """

    cell: Cell
    draws: float
    bias: float


def default_cell(n: int, kind: str, noise: float, n_runs: int) -> DefaultCell:
    """Runs of the default design."""
    scores = WideRows(WIDE, kind, row_sd=20.0 / noise, mask_sd=20.0)
    lengths, draws, found = np.full(n, WIDE), [], []

    def summarised(run: Run, design: me.MaskDesign) -> Found:
        draws[-1] = int(design.n_draws(lengths[:1])[0])
        mean = run.mean(design)
        return Found(mean.mean, mean.mask_se, mean.mask_df, mean.data_se, n, mean.tails)

    for seed in range(n_runs):
        run = Run(scores, np.arange(n), np.ones((n, WIDE), dtype=np.bool_), "own", seed)
        design, score = default_design(lengths), partial(summarised, run)
        draws.append(0)
        if isinstance(design, me.MaskDesign):
            ended = score(design)
        else:
            ended = design.drawn(design.first(lengths), score)
        errors = MeanWithErrors(ended.mean, ended.mask_se, ended.mask_df, ended.data_se, ended.tails)
        found.append((errors, run.truth))
    cell = coverage(found)
    return DefaultCell(cell, float(np.mean(draws)), cell.z / math.sqrt(n_runs))


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, help="one table alone; by default all")
    parser.add_argument("--rows", type=int, nargs="+", default=DEFAULT_ROWS, help="of the default design")
    parser.add_argument(
        "--noise", type=float, nargs="+", default=SHARE_OF_NOISE, help="of a mask over the spread of the rows"
    )
    parser.add_argument("--runs", type=int, default=400, help="of each setting of the default design")
    options = parser.parse_args()
    print(machine())
    numbers: dict[str, Any] = {}
    targets: list[Target] = []
    for name, part in PARTS.items():
        if options.part in (None, name):
            found, reached = part(options)
            numbers |= found
            targets += reached
    return finish(numbers, targets, options.json)


Part = tuple[dict[str, Any], list[Target]]


def designs_part(options: Namespace) -> Part:
    """The first table: designs by rows and tokens."""
    found = list(entries(options.quick))
    show(
        "Mean and lowest coverage over the settings of each model",
        ("model", "settings", "Student's t", "now", "width over Student's t"),
        by_model(found),
    )
    low = [entry for entry in found if entry.too_low]
    for entry in low:
        print(f"below: {entry.design}, {entry.setting}, {entry.cell.coverage:.3f}")
    z = np.array([entry.cell.z for entry in found])
    light = [e.cell.wider for e in found if e.setting.model == "steep" and e.cell.coverage is not None]
    targets = [
        Target(f"cells of {len(found)} with coverage below the lowest allowed", len(low), high=0),
        Target("width over Student's t, steep curves, on average", float(np.mean(light)), high=1.2),
        Target("largest |mean error| / its standard error", float(np.abs(z).max()), high=4.5),
    ]
    return {"cells": [asdict(entry) for entry in found]}, targets


def default_part(options: Namespace) -> Part:
    """The second table: the default design of wide rows."""
    runs, rows = (3, (10,)) if options.quick else (options.runs, options.rows)
    found = {}
    print(f"\nThe default design, {WIDE} tokens, {runs} runs: rows, noise, noise of a mask over the rows'")
    for n, kind, noise in itertools.product(rows, NOISE, options.noise):
        each = found[f"{n} rows, {kind}, {noise:g}"] = default_cell(n, kind, noise, runs)
        cell = each.cell
        print(
            f"  {n:>5,} {kind:<13} {noise:g}: coverage {cell.coverage:.3f}, Student's t {cell.student:.3f}, "
            f"width × {cell.wider:.2f}, bias {each.bias:+.2f} sd, {each.draws:.1f} draws",
            flush=True,
        )
    name, lowest = min(found.items(), key=lambda item: item[1].cell.coverage or 0.0)
    return {"default": {name: asdict(each) for name, each in found.items()}}, [
        Target(f"lowest coverage of the default design ({name})", lowest.cell.coverage or 0.0, low=LOWEST)
    ]


PARTS = {"designs": designs_part, "default": default_part}


if __name__ == "__main__":
    sys.exit(main())
