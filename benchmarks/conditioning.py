"""CPU seconds of a Gaussian's conditionals, fits with holes and imputations, beside plain forms and peers.

    python benchmarks/conditioning.py

One thread, contestants in turn, medians. "D x D for each mask" factorises the visible block of each mask,
completed by the identity, as the package did. The plain EM inverts the visible block of each row in numpy and
ends as the package's. The log evidence of both, in nats a row, and the conditionals must agree.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from _timing import Target, arguments, finish, interleaved, machine, show, times_faster

# isort: split
import numpy as np
import torch

import maskevidence as me

_MASKS_AT_ONCE = 2**17  # divided by D²


def rows_of(n: int, width: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows of five factors and noise, and the same with holes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 5)) @ rng.normal(size=(5, width)) + rng.normal(size=(n, width))
    return x, np.where(rng.random(x.shape) < share, np.nan, x)


def filled_by_visible_blocks(model: me.models.Gaussian, holes: np.ndarray) -> np.ndarray:
    """Conditional means from a D x D factor for each mask."""
    mean, covariance = model.mean.detach(), model.covariance.detach()
    x, one = torch.from_numpy(holes), torch.eye(len(mean), dtype=torch.float64)
    parts = []
    for part in torch.split(x, max(1, _MASKS_AT_ONCE // len(mean) ** 2)):
        seen = ~part.isnan()
        root = torch.linalg.cholesky(torch.where(seen[:, :, None] & seen[:, None, :], covariance, one))
        centred = torch.where(seen, part - mean, 0.0)[:, :, None]
        both = torch.cat([torch.where(seen[:, :, None], covariance, 0.0), centred], 2)
        white = torch.linalg.solve_triangular(root, both, upper=False)
        expected = mean + (white[:, :, :-1].mT @ white[:, :, -1:])[:, :, 0]
        parts.append(torch.where(seen, part, expected))
    return torch.cat(parts).numpy()


def plain_em(x: np.ndarray, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance after steps of EM, row by row."""
    mean, covariance = np.nanmean(x, axis=0), np.diag(np.nanvar(x, axis=0))
    for _ in range(n_steps):
        filled, spread = x.copy(), np.zeros_like(covariance)
        for row in filled:
            hole = np.isnan(row)
            if hole.any():
                weights = np.linalg.solve(covariance[np.ix_(~hole, ~hole)], covariance[~hole][:, hole])
                row[hole] = mean[hole] + (row[~hole] - mean[~hole]) @ weights
                spread[np.ix_(hole, hole)] += (
                    covariance[np.ix_(hole, hole)] - covariance[hole][:, ~hole] @ weights
                )
        mean = filled.mean(0)
        covariance = ((filled - mean).T @ (filled - mean) + spread) / len(x)
    return mean, covariance


def measured(contestants: dict[str, Callable[[], Any]], rounds: int, ours: str) -> list[tuple[str, str, str]]:
    """The CPU seconds of each contestant, and how many times ours they are."""
    timings = interleaved(contestants, rounds, clock=time.process_time)
    return [
        (name, f"{timing.median:.3f}", f"{times_faster(timings, name, ours):.1f}")
        for name, timing in timings.items()
    ]


def main() -> int:
    options = arguments(str(__doc__)).parse_args()
    torch.set_num_threads(1)
    print(machine())
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    quick, numbers, apart = options.quick, dict[str, Any](), 0.0
    for n, width, share in (
        [(60, 8, 0.1)] if quick else [(20_000, 20, 0.1), (3000, 60, 0.1), (1000, 200, 0.05)]
    ):
        x, holes = rows_of(n, width, share)
        model = me.models.Gaussian(n_features=width).fit(x)
        fills = {
            "Gaussian.impute": lambda model=model, holes=holes: model.impute(holes).values,
            "D x D for each mask": partial(filled_by_visible_blocks, model, holes),
        }
        apart = max(apart, float(np.abs(fills["Gaussian.impute"]() - fills["D x D for each mask"]()).max()))
        size = f"{n:,} x {width}"
        numbers[f"impute {size}"] = measured(fills, 1 if quick else 5, "Gaussian.impute")
    x, holes = rows_of(*((100, 5) if quick else (3000, 60)), 0.1)
    fitted = me.models.Gaussian(n_features=x.shape[1]).fit(holes)
    by_em = me.models.Gaussian(*map(torch.from_numpy, plain_em(holes, fitted.n_iterations)))
    behind = float(fitted.score_samples(holes).mean() - by_em.score_samples(holes).mean())
    fits = {
        "Gaussian.fit": lambda: me.models.Gaussian(n_features=x.shape[1]).fit(holes),
        "plain EM": lambda: plain_em(holes, fitted.n_iterations),
        "IterativeImputer": lambda: IterativeImputer(max_iter=10).fit(holes),
    }
    numbers["fit"] = measured(fits, 1, "Gaussian.fit")
    for title, cells in numbers.items():
        show(title, ("contestant", "CPU seconds", "times ours"), cells)
    targets = [
        Target("largest difference of filled values", apart, high=1e-9),
        Target("nats a row from plain EM", abs(behind), high=1e-8),
    ]
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
