"""Time of a whole curve of a Gaussian model, against a loop over masks.

    python benchmarks/gaussian_curve.py

The straightforward loop permutes the covariance for every mask, inverts its visible block, predicts the
hidden tokens of all rows and scores them. It uses torch in float32, and the covariance is built outside the
timed part. Both sides use the same masks, one of every size 1..D, and the same number of threads. The package
works in float64 and builds its moments inside the timed part. The floor is the number of operations in the
matrix products of the package's formula, divided by the rate of one product of their main size, which is
timed in the same rounds.
"""

import math
import sys
from dataclasses import dataclass
from typing import Any

from _timing import (
    Target,
    Timing,
    arguments,
    finish,
    interleaved,
    machine,
    show,
    spread_of_ratio,
    times_faster,
)

# isort: split
import torch
from torch import Tensor

import maskevidence as me
from maskevidence.tables.gaussian.low_rank import masks_at_once


@dataclass(frozen=True)
class Setting:
    """One comparison with the loop.

    Attributes:
        n_rows: N.
        n_features: D.
        n_components: K.
        asked: how many times faster the package has to be.
    """

    n_rows: int
    n_features: int
    n_components: int
    asked: float

    def __str__(self) -> str:
        return f"N={self.n_rows}, D={self.n_features}, K={self.n_components}"


SETTINGS = (Setting(1000, 200, 5, 40.0), Setting(100, 512, 2, 100.0))
QUICK = (Setting(100, 20, 2, 1.0),)


def loop(x: Tensor, masks: Tensor, mean: Tensor, covariance: Tensor) -> Tensor:
    """The score of each mask, averaged over the rows."""
    scores = []
    for mask in masks:
        n_hidden = int(mask.sum())
        order = torch.cat([torch.where(mask)[0], torch.where(~mask)[0]])
        hidden, visible = order[:n_hidden], order[n_hidden:]
        permuted = covariance[order][:, order]
        inverse = torch.linalg.inv(permuted[n_hidden:, n_hidden:])
        slope = permuted[:n_hidden, n_hidden:] @ inverse
        predicted = mean[hidden] + (x[:, visible] - mean[visible]) @ slope.T
        variance = torch.diagonal(permuted[:n_hidden, :n_hidden] - slope @ permuted[n_hidden:, :n_hidden])
        residual = x[:, hidden] - predicted
        scores.append(-0.5 * (math.log(2 * math.pi) + torch.log(variance) + residual**2 / variance).mean())
    return torch.stack(scores)


def operations(setting: Setting) -> float:
    """Operations of the moments and of `score_moments`, two per multiply-add, matrix products only."""
    n, d, k = setting.n_rows, setting.n_features, setting.n_components
    moments = 2 * n * d**2
    per_mask = 2 * k * d**2 + 3 * 2 * k**2 * d + 2 * 2 * k**2 * d + 2 * 2 * k**3
    return float(moments + d * per_mask)


def compare(setting: Setting, rounds: int) -> tuple[list[str], list[str], list[Target], dict[str, Any]]:
    """Measure one setting: its row in each of the two tables, its targets and its numbers."""
    n, d, k = setting.n_rows, setting.n_features, setting.n_components
    model = me.models.PPCA(d, k, seed=1)
    full = me.models.Gaussian(model.mean, model.covariance)
    x = torch.from_numpy(model.sample(n, seed=2))
    ranks = torch.randperm(d, generator=torch.Generator().manual_seed(3))
    nested = ranks < torch.arange(1, d + 1)[:, None]
    generator = torch.Generator().manual_seed(4)
    masks = torch.stack([torch.randperm(d, generator=generator) < size for size in range(1, d + 1)])
    tokens, shared = me.Tokens.from_array(x), ranks.expand(n, d)
    single = (x.float(), model.mean.float(), model.covariance.float())
    rows = k * min(masks_at_once(d, k), d)
    left, right = torch.randn(rows, d, dtype=x.dtype), torch.randn(d, d, dtype=x.dtype)

    def by_loop(which: Tensor) -> Tensor:
        return loop(single[0], which, single[1], single[2])

    def by_moments() -> Tensor:
        return model.score_moments(me.GaussianMoments.from_rows(x), masks)

    def by_orders() -> Tensor:
        return full.score_orderings(tokens, shared).mean(0)

    contestants = {
        "loop": lambda: by_loop(masks),
        "moments": by_moments,
        "order": by_orders,
        "product": lambda: left @ right,
    }
    timings = interleaved(contestants, rounds)
    rate = 2.0 * rows * d**2 / timings["product"].median
    floor = operations(setting) / rate
    off = (by_moments() - by_loop(masks)).abs(), (by_orders() - by_loop(nested)).abs()
    area = abs(float((by_moments() - by_loop(masks)).sum()))
    faster, faster_order = (times_faster(timings, "loop", fast) for fast in ("moments", "order"))
    numbers = {
        "setting": str(setting),
        "milliseconds": {name: [1e3 * s for s in timing.seconds] for name, timing in timings.items()},
        "times_faster": faster,
        "times_faster_order": faster_order,
        "operations": operations(setting),
        "product_rate": rate,
        "times_the_floor": timings["moments"].median / floor,
        "largest_difference": float(off[0].max()),
        "difference_of_area": area,
        "largest_difference_order": float(off[1].max()),
    }
    line = [
        str(setting),
        _ms(timings["loop"]),
        _ms(timings["moments"]),
        f"{faster:.0f} ({spread_of_ratio(timings, 'loop', 'moments')})",
        f"{operations(setting) / 1e6:.0f} at {rate / 1e9:.0f}",
        f"{1e3 * floor:.2f}",
        f"{timings['moments'].median / floor:.1f}",
        f"{float(off[0].max()):.1e}",
        f"{area:.1e}",
    ]
    order_line = [
        str(setting),
        _ms(timings["loop"]),
        _ms(timings["order"]),
        f"{faster_order:.0f} ({spread_of_ratio(timings, 'loop', 'order')})",
        f"{float(off[1].max()):.1e}",
    ]
    targets = [
        Target(f"times faster than the loop, {setting}", faster, low=setting.asked),
        Target(f"largest difference of a size's score, {setting}", float(off[0].max()), high=1e-3),
        Target(f"difference of the area, {setting}", area, high=5e-3),
        Target(f"one order: largest difference of a size's score, {setting}", float(off[1].max()), high=1e-3),
        Target(f"one order: times faster than the loop, {setting}", faster_order, low=1.0),
    ]
    return line, order_line, targets, numbers


def _ms(timing: Timing) -> str:
    return f"{1e3 * timing.median:.1f}"


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="number of timed rounds, at least 7")
    options = parser.parse_args()
    rounds = max(7, options.rounds)
    with torch.no_grad():
        compared = [compare(setting, rounds) for setting in (QUICK if options.quick else SETTINGS)]
    show(
        f"PPCA, one mask of every size, with the moments; medians of {rounds} rounds; {machine()}",
        (
            "setting",
            "loop, ms",
            "score_moments, ms",
            "times faster",
            "Mflop at Gflop/s",
            "floor, ms",
            "times the floor",
            "largest difference",
            "difference of the area",
        ),
        [line for line, _, _, _ in compared],
    )
    show(
        "The same covariance as a Gaussian, one order shared by all rows, every row scored at every size",
        ("setting", "loop, ms", "score_orderings, ms", "times faster", "largest difference"),
        [line for _, line, _, _ in compared],
    )
    targets = [target for _, _, asked, _ in compared for target in asked]
    return finish({"curves": [n for _, _, _, n in compared]}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
