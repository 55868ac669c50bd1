"""Multiple imputation: do pooled intervals of a coefficient hold as often as they say?

    python benchmarks/pooling.py

Rows have y = x + z + noise with x and z correlated, all normal; some values of x are missing completely at
random, or of all of these columns and a fourth, z + noise. A model fitted to the rows draws 20 tables
(`me.draw_missing`), the coefficient of x is estimated by least squares in each, and `me.pool` gives its 95 %
interval. Draws take the parameters as known, or come from a model that is fitted again to a bootstrap sample
for each table. Takes about 20 minutes on one core.
"""

import sys
from collections.abc import Callable
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np

import maskevidence as me

MODELS: dict[str, Callable[[int], Any]] = {
    "gaussian": lambda width: me.models.Gaussian(n_features=width),
    "kernel-gaussian": lambda width: me.models.KernelGaussian(width, 1),
}
SETTINGS = [
    (60, 0.2, "x"),
    (60, 0.5, "x"),
    (300, 0.2, "x"),
    (300, 0.5, "x"),
    (30, 0.3, "all"),
    (60, 0.5, "all"),
]
DRAWS = 20


def rows(n: int, share: float, holes: str, seed: int) -> np.ndarray:
    """Rows of y, x and z with a share of x missing; or with a fourth column, and a share of all missing."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    x = 0.7 * z + np.sqrt(0.51) * rng.normal(size=n)
    table = np.column_stack([x + z + rng.normal(size=n), x, z])
    if holes == "x":
        table[rng.random(n) < share, 1] = np.nan
        return table
    table = np.column_stack([table, z + rng.normal(size=n)])
    missing = rng.random(table.shape) < share
    missing[missing.all(1), 0] = False
    return np.where(missing, np.nan, table)


def coefficient(table: np.ndarray) -> tuple[float, float]:
    """The coefficient of x by least squares, and its standard error."""
    design = np.column_stack([np.ones(len(table)), table[:, 1:3]])
    found, *_ = np.linalg.lstsq(design, table[:, 0], rcond=None)
    variance = np.square(table[:, 0] - design @ found).sum() / (len(table) - 3)
    return found[1], np.sqrt(variance * np.linalg.inv(design.T @ design)[1, 1])


def covers(name: str, n: int, share: float, holes: str, seed: int) -> list[bool] | None:
    """Whether the interval holds the truth, with known parameters and with those of bootstrap samples.

    None for a table that the model refuses, since its rows do not determine a covariance.
    """
    table = rows(n, share, holes, seed)
    try:
        model = MODELS[name](table.shape[1]).fit(table)
    except me.NumericalError:
        return None
    held = []
    for refit in (False, True):
        drawn = me.draw_missing(model, table, DRAWS, seed=seed, refit=refit)
        estimates, errors = zip(*map(coefficient, drawn), strict=True)
        low, high = me.pool(estimates, errors, df=n - 3).interval()
        held.append(bool(low <= 1 <= high))
    return held


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=600, help="data sets of each setting")
    options = parser.parse_args()
    n_runs = 3 if options.quick else options.runs
    lines, numbers, targets = [], {}, []
    for name in MODELS:
        for n, share, holes in SETTINGS[:1] if options.quick else SETTINGS:
            found = [covers(name, n, share, holes, seed) for seed in range(n_runs)]
            fitted = np.array([each for each in found if each is not None])
            held = fitted.mean(0)
            error = np.sqrt(held * (1 - held) / len(fitted))
            cells = (f"{100 * h:.1f} ± {100 * e:.1f}" for h, e in zip(held, error, strict=True))
            missing = f"{share:.0%} of {'x' if holes == 'x' else 'four columns'}"
            lines.append((name, f"{n}", missing, *cells, f"{len(fitted)}"))
            numbers[f"{name}, {n} rows, {missing}"] = held.tolist()
            targets.append(Target(f"{name}, {n} rows, {missing} missing", held[1], low=0.93, high=0.98))
    title = f"How often 95 % intervals pooled over {DRAWS} tables hold the coefficient, in %"
    columns = ("model", "rows", "missing", "parameters known", "fitted to bootstrap samples", "data sets")
    show(f"{title}; {machine()}", columns, lines)
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
