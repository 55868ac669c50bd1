"""The passes that `me.plan` forecasts for a target, over those that `Precise` takes.

    python benchmarks/forecast.py

Each target is the mask error of about 8, 16 or 40 draws for each row, as a run of 64 draws tells it. The
passes of `Precise` are the mean over its runs. The table shows the mean of the ratio, its median, its 90 %
quantile, and the relative standard error that the forecasts state.
"""

import math
import sys
from collections.abc import Iterator
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits

import maskevidence as me
from _precision_models import standardised, trained

DRAWS = (8, 16, 40)


def settings(*, quick: bool) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Models and the rows that they score."""
    rng = np.random.default_rng(0)
    digits = rng.permutation(load_digits().data / 16.0)
    yield "PPCA(8), digits", me.models.PPCA(64, 8).fit(digits[360:]), digits[:360]
    cancer = rng.permutation(standardised(load_breast_cancer().data))
    yield "PPCA(5), breast cancer", me.models.PPCA(30, 5).fit(cancer[114:]), cancer[:114]
    large = me.models.PPCA.from_parameters(torch.from_numpy(rng.normal(size=(200, 5))), 0.2)
    yield "PPCA, D = 200", large, np.array(large.sample(100 if quick else 1000, seed=1))
    yield "network, breast cancer", trained(cancer, 2 if quick else 3000), cancer


def measure(
    model: Any, x: np.ndarray, target: float, n_plans: int, n_runs: int, *, per_token: bool
) -> dict[str, float]:
    """Forecasts for a target and the runs that reach it."""
    precise = me.Precise(target_se=target, negligible=0)
    plans = [me.plan(model, x, precise, seed=seed, per_token=per_token) for seed in range(n_plans)]
    runs = [
        me.estimate_evidence(model, x, precise, seed=seed, per_token=per_token, check=False)
        for seed in range(n_runs)
    ]
    ratio = np.array([plan.passes for plan in plans]) / np.mean([run.n_masks for run in runs])
    return {
        "mean": float(ratio.mean()),
        "median": float(np.median(ratio)),
        "high": float(np.quantile(ratio, 0.9)),
        "stated": float(np.median([plan.uncertainty for plan in plans])),
    }


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--plans", type=int, default=48, help="how many forecasts of each target")
    parser.add_argument("--runs", type=int, default=6, help="how many runs of each target")
    options = parser.parse_args()
    n_plans, n_runs = (3, 1) if options.quick else (options.plans, options.runs)
    print(machine())
    numbers: dict[str, Any] = {}
    rows, targets = [], []
    for name, model, x in settings(quick=options.quick):
        for per_token in (False, True):
            long = me.estimate_evidence(
                model, x, me.RandomSize(64, 64), seed=99, per_token=per_token, check=False
            )
            assert long.mask_se is not None
            title = f"{name}{', tokens' * per_token}"
            found = [
                measure(model, x, long.mask_se * math.sqrt(64 / n), n_plans, n_runs, per_token=per_token)
                for n in DRAWS[: 1 if options.quick else None]
            ]
            numbers[title] = found
            rows.append(
                (
                    title,
                    *("{mean:.2f}, {median:.2f}, {high:.2f}; ±{stated:.0%}".format(**one) for one in found),
                )
            )
            print(" ", *rows[-1], file=sys.stderr, flush=True)
            targets.append(Target(title, found[-1]["median"], low=0.7, high=1.6 if per_token else 1.3))
    columns = ("model", *(f"{n} draws" for n in DRAWS[: len(rows[0]) - 1]))
    show("forecast over the passes of Precise: mean, median, 90 % quantile; stated", columns, rows)
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
