"""Do 95 % intervals cover the true value in 95 % of the runs, and is the mean over runs correct?

    python benchmarks/coverage.py

The benchmark uses one PPCA model, which has a closed form. Each seed draws new rows from the model and new
masks. The true value of a run is the closed-form log evidence of the same rows, so that the interval has to
cover only the error of the masks.

A second table compares two rules for the degrees of freedom of `EverySize` on single rows. Let v be the
variance of each cell and nu = R - 1. The plug-in rule nu (sum v)^2 / sum v^2 is too low on average, because
the squares of estimated variances are too large by a factor of 1 + 2/nu. The rule
(nu + 2) (sum v)^2 / sum v^2 - 2 corrects this for normal scores.
"""

import math
import sys
import time
from dataclasses import asdict, dataclass
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np

import maskevidence as me
from maskevidence.standard_errors import t_half_width

N_FEATURES, N_COMPONENTS, NOISE_VARIANCE = 20, 4, 0.2
N_ROWS = (1, 100)
DESIGNS = (me.EverySize(4), me.RandomSize(20, replicates=4), me.Orderings(8))


@dataclass(frozen=True)
class Coverage:
    """Summary of many runs of one design.

    Attributes:
        design: the design, as written in Python.
        n_rows: number of observations per run.
        n_runs: number of runs.
        coverage: share of the 95 % t-intervals that contain the true value.
        z: mean error of the runs divided by its standard error.
        se_ratio: root mean square of mask_se divided by the standard deviation of the errors.
        mean_df: mean degrees of freedom.
        seconds: total time.
    """

    design: str
    n_rows: int
    n_runs: int
    coverage: float
    z: float
    se_ratio: float
    mean_df: float
    seconds: float


def measure(model: me.models.PPCA, design: me.MaskDesign, n_rows: int, n_runs: int) -> Coverage:
    """Estimate the log evidence of `n_runs` new tables and count how often the interval covers it."""
    start = time.perf_counter()
    error, mask_se, df, held = (np.empty(n_runs) for _ in range(4))
    for run in range(n_runs):
        rows = model.sample(n_rows, seed=run)
        truth = float(model.score_samples(rows).mean())
        estimate = me.estimate_evidence(model, rows, design, seed=run, batch_size=8192)
        low, high = estimate.interval(0.95)
        error[run] = estimate.log_evidence - truth
        mask_se[run], df[run] = estimate.mask_se, estimate.mask_df
        held[run] = low <= truth <= high
    return Coverage(
        design=repr(design),
        n_rows=n_rows,
        n_runs=n_runs,
        coverage=float(held.mean()),
        z=float(error.mean() / (error.std(ddof=1) / math.sqrt(n_runs))),
        se_ratio=float(np.sqrt((mask_se**2).mean()) / error.std(ddof=1)),
        mean_df=float(df.mean()),
        seconds=time.perf_counter() - start,
    )


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
    design = me.EverySize(masks_per_size)
    scores = me.estimate_evidence(model, rows, design, batch_size=8192).scores  # sorted by row, draw, size
    table = scores.score.reshape(n_rows, masks_per_size, N_FEATURES)
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
    parser.add_argument("--seeds", type=int, default=2000, help="number of runs per design and table size")
    options = parser.parse_args()
    n_runs = 200 if options.quick else options.seeds
    loadings = me.models.PPCA(N_FEATURES, N_COMPONENTS, seed=0).loadings.detach()
    model = me.models.PPCA.from_parameters(loadings, NOISE_VARIANCE)
    results = [measure(model, design, n_rows, n_runs) for n_rows in N_ROWS for design in DESIGNS]

    what = f"PPCA, D={N_FEATURES}, K={N_COMPONENTS}, noise variance {NOISE_VARIANCE}"
    title = f"{what}; {n_runs} seeds; {machine()}"
    columns = (
        "design",
        "rows",
        "coverage of 95 %",
        "mean error / its se",
        "mask_se / sd of errors",
        "mean df",
        "s",
    )
    show(title, columns, [_cells(result) for result in results])
    rules = [compare_df_rules(model, masks_per_size, 3 * n_runs) for masks_per_size in (2, 3, 4, 8)]
    columns = ("masks per size", "runs", "plug-in", "its df", "corrected", "its df", "normal")
    show(
        "Coverage of 95 % intervals on single rows, by rule for the degrees of freedom",
        columns,
        list(map(_rule, rules)),
    )
    targets = []
    for result in results:
        name = f"{result.design}, {result.n_rows} row{'s' if result.n_rows > 1 else ''}"
        targets.append(Target(f"coverage, {name}", result.coverage, 0.93, 0.97))
        targets.append(Target(f"|mean error| / its se, {name}", abs(result.z), high=3.0))
    numbers: dict[str, Any] = {
        "results": [asdict(result) for result in results],
        "df_rules": [asdict(r) for r in rules],
    }
    return finish(numbers, targets, options.json)


def _cells(result: Coverage) -> tuple[str, ...]:
    return (
        result.design,
        str(result.n_rows),
        f"{100 * result.coverage:.2f} %",
        f"{result.z:+.2f}",
        f"{result.se_ratio:.3f}",
        f"{result.mean_df:.1f}",
        f"{result.seconds:.0f}",
    )


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
