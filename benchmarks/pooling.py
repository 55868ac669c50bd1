"""Multiple imputation: do pooled intervals of a coefficient hold as often as they say?

    python benchmarks/pooling.py

Rows have y = x + z + noise with x and z correlated, all normal; some values of x are missing completely at
random. A model fitted to the rows draws 20 tables (`me.draw_missing`), the coefficient of x is estimated by
least squares in each, and `me.pool` gives its 95 % interval. Draws take the parameters as known, or come from
a model that is fitted again to a bootstrap sample for each table. Takes about 20 minutes on one core.
"""

import sys
from collections.abc import Callable
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np

import maskevidence as me

MODELS: dict[str, Callable[[], Any]] = {
    "gaussian": lambda: me.models.Gaussian(n_features=3),
    "kernel-gaussian": lambda: me.models.KernelGaussian(3, 1),
}
SETTINGS = [(60, 0.2), (60, 0.5), (300, 0.2), (300, 0.5)]
DRAWS = 20


def rows(n: int, share: float, seed: int) -> np.ndarray:
    """Rows of y, x and z, with a share of x missing."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    x = 0.7 * z + np.sqrt(0.51) * rng.normal(size=n)
    table = np.column_stack([x + z + rng.normal(size=n), x, z])
    table[rng.random(n) < share, 1] = np.nan
    return table


def coefficient(table: np.ndarray) -> tuple[float, float]:
    """The coefficient of x by least squares, and its standard error."""
    design = np.column_stack([np.ones(len(table)), table[:, 1:]])
    found, *_ = np.linalg.lstsq(design, table[:, 0], rcond=None)
    variance = np.square(table[:, 0] - design @ found).sum() / (len(table) - 3)
    return found[1], np.sqrt(variance * np.linalg.inv(design.T @ design)[1, 1])


def covers(name: str, n: int, share: float, seed: int) -> list[bool]:
    """Whether the interval holds the truth, with known parameters and with those of bootstrap samples."""
    table = rows(n, share, seed)
    model = MODELS[name]().fit(table)
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
        for n, share in SETTINGS[:1] if options.quick else SETTINGS:
            held = np.array([covers(name, n, share, seed) for seed in range(n_runs)]).mean(0)
            error = np.sqrt(held * (1 - held) / n_runs)
            cells = (f"{100 * h:.1f} ± {100 * e:.1f}" for h, e in zip(held, error, strict=True))
            lines.append((name, f"{n}", f"{share:.0%}", *cells))
            numbers[f"{name}, {n} rows, {share:.0%}"] = held.tolist()
            targets.append(Target(f"{name}, {n} rows, {share:.0%} missing", held[1], low=0.93, high=0.98))
    title = (
        f"How often 95 % intervals pooled over {DRAWS} tables hold the coefficient, in %; {n_runs} data sets"
    )
    columns = ("model", "rows", "missing", "parameters known", "fitted to bootstrap samples")
    show(f"{title}; {machine()}", columns, lines)
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
