"""CPU seconds of a Gaussian's conditionals, fits and imputations, and of kernels, beside plain forms.

    python benchmarks/conditioning.py [--large]

One thread, contestants in turn, medians. "D x D for each mask" factorises the visible block of each mask,
completed by the identity, as the package did. The plain EM inverts the visible block of each row in numpy and
ends as the package's. The log evidence of both, in nats a row, and the conditionals must agree.

`KernelGaussian` hides each cell of a row in turn by one pass over its kernels, where "one cell after the
other" asks for a mask at a time, as the package did; its floor is one exponential for each cell and kernel.
Fits of fewer rows than columns work in the span of the rows; "D x D" factorises each covariance, as the
package did. So did the Gaussian answer that is an input of the masked network, which factorises the blocks of
hidden inputs.

`--large` measures tables that a large machine would wait for instead, in about two minutes. 2 % of the cells
of the rows that are filled are missing, or a tenth; a floor is an exponential for each kernel of a row with a
hole.
"""

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from _timing import Target, arguments, finish, interleaved, machine, show, timed, times_faster

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.tables.gaussian import kernel_choice
from maskevidence.tables.gaussian.shrunk_covariance import ShrunkFit
from maskevidence.tables.network.gaussian_answer import GaussianAnswer
from maskevidence.tables.wrong_cells.cell_search import CellJudge, facts_of

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


class OneByOne(torch.nn.Module):
    """Kernels that are asked for one cell after the other."""

    def __init__(self, model: me.models.KernelGaussian) -> None:
        super().__init__()
        self.model, self.base_measure, self.conditionals = model, model.base_measure, model.conditionals

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        return self.model.log_conditionals(tokens, masked)


def cells_of(n: int, width: int, rounds: int) -> tuple[list[tuple[str, str, str]], float]:
    """The search for wrong cells under 1,000 kernels, and the largest difference of suspicions."""
    x, _ = rows_of(n, width, 0.0)
    x[np.random.default_rng(1).random(x.shape) < 1e-4] *= 10
    model = me.models.KernelGaussian(n_features=width, n_centres=1).fit(x, shrinkage=0.02, bandwidth=0.7)
    facts = facts_of(model, x)
    contestants = {
        "hides each cell itself": lambda: CellJudge(model, facts).search(x).suspicion,
        "one cell after the other": lambda: CellJudge(OneByOne(model), facts).search(x).suspicion,
        "one exponential a cell and kernel": partial(exponentials, n * width * len(model.centres)),
    }
    ours, theirs = (contestants[name]() for name in list(contestants)[:2])
    return measured(contestants, rounds, "hides each cell itself"), float(np.abs(ours - theirs).max())


def exponentials(n: int) -> None:
    numbers = torch.rand(2**18, dtype=torch.float64)
    for _ in range(-(-n // len(numbers))):
        torch.exp(numbers)


def dense(fit: Callable[..., ShrunkFit]) -> Callable[..., ShrunkFit]:
    """A fit that keeps a D x D covariance."""

    def fitted(*args: Any, **options: Any) -> ShrunkFit:
        found = fit(*args, **options)
        return replace(found, spread=found.covariance)

    return fitted


def wide_fit(n: int, width: int) -> tuple[list[tuple[str, str, str]], float]:
    """Fits of fewer rows than columns, and the largest difference of conditional means."""
    x, holes = rows_of(n, width, 0.01)
    means = list[np.ndarray]()

    def fit() -> None:
        model = me.models.KernelGaussian(n_features=width, n_centres=n).fit(x)
        means.append(model.impute(holes[:5]).values)

    def fit_dense() -> None:
        with mock.patch.object(kernel_choice, "fit_shrunk", dense(kernel_choice.fit_shrunk)):
            fit()

    from sklearn.covariance import LedoitWolf

    peer = partial(LedoitWolf().fit, x)
    contestants = {"fit and impute": fit, "D x D": fit_dense, "LedoitWolf (one fit)": peer}
    rows = measured(contestants, 1, "fit and impute")
    return rows, float(np.abs(means[0] - means[-1]).max())


def network_answer(n: int, width: int, rounds: int) -> tuple[list[tuple[str, str, str]], float]:
    """The network's Gaussian answer by hidden blocks and by whole ones, and their largest difference."""
    x, _ = rows_of(n, width, 0.0)
    answer = GaussianAnswer(width).double()
    answer.fit(x, np.arange(n), 0)
    visible = torch.rand(n, width, generator=torch.Generator().manual_seed(0)) < 0.5
    contestants = {
        "hidden blocks": lambda: answer(torch.from_numpy(x), visible),
        "D x D for each mask": lambda: by_whole_blocks(answer, torch.from_numpy(x), visible),
    }
    ours, theirs = (each() for each in contestants.values())
    return measured(contestants, rounds, "hidden blocks"), float((ours - theirs).abs().max())


def by_whole_blocks(answer: GaussianAnswer, x: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    """The answer from a D x D factor for each mask."""
    hidden, one = ~visible, torch.eye(x.shape[1], dtype=x.dtype)
    x = torch.where(visible, (x - answer.shift) / answer.scale, 0.0)
    pull = torch.where(visible, 0.0, torch.where(visible, x - answer.mean, 0.0) @ answer.precision)
    root = torch.linalg.cholesky(torch.where(hidden[:, :, None] & hidden[:, None, :], answer.precision, one))
    inverse = torch.linalg.solve_triangular(root, one.expand_as(root), upper=False)
    moved = (inverse.mT @ (inverse @ pull[:, :, None]))[:, :, 0]
    expected = torch.where(visible, x, answer.mean - moved).clamp(-8.0, 8.0)
    deviation = torch.where(hidden, inverse.square().sum(1).sqrt(), 0.0)
    return torch.cat([expected, deviation], 1)


def measured(contestants: dict[str, Callable[[], Any]], rounds: int, ours: str) -> list[tuple[str, str, str]]:
    """The CPU seconds of each contestant, and how many times ours they are."""
    timings = interleaved(contestants, rounds, clock=time.process_time)
    return [
        (name, f"{timing.median:.3f}", f"{times_faster(timings, name, ours):.1f}")
        for name, timing in timings.items()
    ]


def large(*, quick: bool) -> tuple[dict[str, float], list[Target]]:
    """CPU seconds of kernels on large tables, each once."""
    found, n, targets = dict[str, float](), 2000 if quick else 10**6, list[Target]()

    def measure(name: str, most: float, call: Callable[[], Any]) -> Any:
        answer, found[name] = timed(call)
        if most < np.inf:
            targets.append(Target(f"{name}, CPU s", found[name], high=most))
        return answer

    for share, most in ((0.02, 10.0), (0.1, np.inf)):
        x, holes = rows_of(n, 20, share)
        kernels = me.models.KernelGaussian(n_features=20).fit(holes[:5000], shrinkage=0.002, bandwidth=0.7)
        measure(f"impute {n:,} x 20, {share:.0%} missing", most, partial(kernels.impute, holes))
        n_terms = int(np.isnan(holes).any(1).sum()) * len(kernels.centres)
        measure(f"  its exponentials alone, {share:.0%}", np.inf, partial(exponentials, n_terms))
    few = x[: n // 10]
    measure(f"cells {len(few):,} x 20", 20.0, lambda: me.wrong_cells("kernel-gaussian", few))
    wide, holes = rows_of(*((20, 40) if quick else (200, 5000)), 0.001)
    kernels = me.models.KernelGaussian(n_features=wide.shape[1])
    measure("fit {:,} x {:,}".format(*wide.shape), 20.0, lambda: kernels.fit(wide))
    measure("20 of these rows filled", np.inf, lambda: kernels.impute(holes[:20]))
    return found, targets


def main() -> int:
    parser = arguments(str(__doc__))
    parser.add_argument("--large", action="store_true", help="large tables instead")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(machine())
    if options.large:
        found, aims = large(quick=options.quick)
        show("Large tables", ("what", "measured"), [(name, f"{value:.1f}") for name, value in found.items()])
        return finish(found, aims, options.json)
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
    size = (300, 6) if quick else (4000, 20)
    numbers["cells {:,} x {}".format(*size)], of_cells = cells_of(*size, 1 if quick else 3)
    size = (20, 40) if quick else (200, 1500)
    numbers["KernelGaussian.fit {:,} x {:,}".format(*size)], of_means = wide_fit(*size)
    size = (50, 6) if quick else (1000, 60)
    numbers["network's answer {:,} x {}".format(*size)], of_answers = network_answer(*size, 1 if quick else 5)
    for title, cells in numbers.items():
        show(title, ("contestant", "CPU seconds", "times ours"), cells)
    targets = [
        Target("largest difference of filled values", apart, high=1e-9),
        Target("nats a row from plain EM", abs(behind), high=1e-8),
        Target("largest difference of suspicions", of_cells, high=1e-9),
        Target("largest difference of conditional means", of_means, high=1e-9),
        Target("largest difference of the network's answers", of_answers, high=1e-9),
    ]
    return finish(numbers, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
