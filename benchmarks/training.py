"""Time of a training epoch of Figures 2 and 5, against a loop over masks, and of a step by number of rows.

    python benchmarks/training.py

For every initialisation and every mask, the straightforward loop permutes the covariance, inverts its visible
block, scores all rows, and then differentiates with torch autograd. It uses float64, the same masks and the
same Adam. Contestants take turns within a round, and times are medians.
"""

import math
import sys
from collections.abc import Callable
from pathlib import Path

from _timing import Target, arguments, finish, interleaved, machine, show, spread_of_ratio

# isort: split
import torch
from torch import Tensor

import maskevidence as me

sys.path.append(str(Path(__file__).parents[1]))
from paper.figures import SEEDS
from paper.known_noise import initial_loadings, moment_scores, published, second_moments

NOISE = 0.2


def loop_loss(loadings: Tensor, x: Tensor, masked: Tensor, weight: Tensor) -> Tensor:
    """Minus the weighted sum of the masks' scores for one initialisation, computed mask by mask."""
    covariance = loadings @ loadings.T + NOISE * torch.eye(x.shape[1], dtype=x.dtype)
    total = torch.zeros((), dtype=x.dtype)
    for mask, w in zip(masked, weight, strict=True):
        hidden, seen = torch.nonzero(mask).flatten(), torch.nonzero(~mask).flatten()
        variance = covariance[hidden, hidden]
        mean = torch.zeros(len(x), len(hidden), dtype=x.dtype)
        if len(seen):
            between = covariance[hidden][:, seen]
            weights = between @ torch.linalg.inv(covariance[seen][:, seen])
            variance = variance - (weights * between).sum(1)
            mean = x[:, seen] @ weights.T
        log_density = -0.5 * (
            math.log(2 * math.pi) + torch.log(variance) + (x[:, hidden] - mean) ** 2 / variance
        )
        total = total - w * log_density.mean()
    return total


def contestants(
    n_rows: int, width: int, masks_per_size: int, seeds: tuple[int, ...]
) -> tuple[dict[str, Callable[[], object]], float]:
    """Epochs by the loop, by single moments and by batched moments; and the difference of their losses."""
    x, _ = published(n_rows, width, 2)
    moments = me.GaussianMoments.from_rows(x)
    design = me.EverySize(masks_per_size)
    drawn = [me.shared_masks(design, me.MaskKey(seed, "shared"), width) for seed in seeds]
    masked, weight = (torch.stack(parts) for parts in zip(*drawn, strict=True))
    second = second_moments(moments)

    def start() -> tuple[Tensor, torch.optim.Optimizer]:
        loadings = initial_loadings(width, 2, seeds).requires_grad_()
        return loadings, torch.optim.Adam([loadings], lr=0.01)

    def losses_of_loop(w: Tensor) -> Tensor:
        return torch.stack([loop_loss(w[i], x, masked[i], weight[i]) for i in range(len(seeds))])

    def losses_one_by_one(w: Tensor) -> Tensor:
        parts = [moment_scores(w[i : i + 1], second, masked[i : i + 1])[0] for i in range(len(seeds))]
        return -(weight * torch.stack(parts)).sum(1)

    def losses_batched(w: Tensor) -> Tensor:
        return -(weight * moment_scores(w, second, masked)).sum(1)

    def epoch(losses: Callable[[Tensor], Tensor]) -> Callable[[], object]:
        w, optimizer = start()

        def run() -> None:
            optimizer.zero_grad()
            losses(w).sum().backward()
            optimizer.step()

        return run

    first, _ = start()
    with torch.no_grad():
        difference = float((losses_of_loop(first) - losses_batched(first)).abs().max())
    epochs = {"loop over masks": epoch(losses_of_loop), "moments": epoch(losses_one_by_one)}
    if len(seeds) > 1:
        epochs["moments, batched"] = epoch(losses_batched)
    return epochs, difference


def steps_by_rows(sizes: tuple[int, ...]) -> dict[str, Callable[[], object]]:
    """One step of `MaskedObjective` on moments, for each number of rows."""
    steps: dict[str, Callable[[], object]] = {}
    for n_rows in sizes:
        chunks = [torch.randn(min(n_rows, 100_000), 50, dtype=torch.float64)] * max(1, n_rows // 100_000)
        moments = me.GaussianMoments.from_rows(chunks[0])
        for chunk in chunks[1:]:
            moments = moments.merge(me.GaussianMoments.from_rows(chunk))
        model = me.models.PPCA(50, 2)
        objective = me.MaskedObjective(me.EverySize(4), masks="shared")
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(model=model, objective=objective, optimizer=optimizer, moments=moments) -> None:
            optimizer.zero_grad()
            objective(model, moments).backward()
            optimizer.step()

        steps[f"{n_rows:,} rows"] = step
    return steps


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    rows, targets, numbers = [], [], {}
    for name, setting, least, rounds in (
        ("Figure 2: N=2000, D=10, P=1, five initialisations", (2000, 10, 1, SEEDS), 15.0, 101),
        ("Figure 5 left: N=1000, D=50, P=20", (1000, 50, 20, SEEDS[:1]), 40.0, 9),
    ):
        setting = (50, 6, 1, SEEDS[:2]) if options.quick else setting
        epochs, difference = contestants(*setting)
        timings = interleaved(epochs, rounds)
        slow = timings["loop over masks"].median
        for contestant, timing in timings.items():
            spread = (
                ""
                if contestant == "loop over masks"
                else spread_of_ratio(timings, "loop over masks", contestant)
            )
            ms = f"{1000 * timing.median:.2f}"
            rows.append((name, contestant, ms, f"{slow / timing.median:.1f}", spread))
        fastest = list(timings)[-1]
        targets.append(Target(f"times faster, {name}", slow / timings[fastest].median, low=least))
        targets.append(Target(f"difference of the losses, {name}", difference, high=1e-8))
        numbers[name] = {c: list(t.seconds) for c, t in timings.items()}
    show(
        f"One epoch (losses, gradients, Adam), medians of 101 and 9 rounds; {machine()}",
        ("setting", "method", "ms", "times faster", "range"),
        rows,
    )
    few, many = (200, 2_000) if options.quick else (2_000, 2_000_000)
    timings = interleaved(steps_by_rows((few, many)), 101)
    ratio = timings[f"{many:,} rows"].median / timings[f"{few:,} rows"].median
    show(
        "One step from moments (PPCA, D=50, K=2, EverySize(4))",
        ("moments of", "ms"),
        [(name, f"{1000 * timing.median:.2f}") for name, timing in timings.items()],
    )
    targets.append(Target("time of a step from many rows / from few rows", ratio, high=1.2))
    numbers["steps"] = {name: timing.median for name, timing in timings.items()}
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
