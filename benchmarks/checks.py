"""How often do the checks of `me.check_model` fail on sound models, and how long do they take?

    python benchmarks/checks.py

Each seed draws new rows from each of two sound models, and new masks and replacements: PPCA with an objective
of random sizes, and vectors of four numbers with correlated entries, whose total probability is sampled.
"""

import math
import sys
import time
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np
import torch
from torch import Tensor

import maskevidence as me
from maskevidence.tokens import Tokens

N_ROWS = 40


class Vectors(torch.nn.Module):
    """Independent tokens of four numbers; those of a token are correlated."""

    conditionals = "exact"

    def __init__(self) -> None:
        super().__init__()
        covariance = 0.7 * torch.eye(4, dtype=torch.float64) + 0.3
        self.density = torch.distributions.MultivariateNormal(torch.zeros(4, dtype=torch.float64), covariance)

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        values = torch.where(masked[:, :, None], tokens.values, 0.0)
        return torch.where(masked, self.density.log_prob(values), 0.0)

    def rows(self, seed: int) -> Tokens:
        noise = torch.from_numpy(np.random.default_rng(seed).standard_normal((N_ROWS, 6, 4)))
        every = torch.ones(N_ROWS, 6, dtype=torch.bool)
        return Tokens(noise @ self.density.scale_tril.T, every, ~every, torch.arange(N_ROWS))


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000, help="number of calls for each model")
    options = parser.parse_args()
    n_seeds = 50 if options.quick else options.seeds
    ppca, vectors = me.models.PPCA(10, 2, seed=1), Vectors()
    results: dict[str, dict[str, Any]] = {}
    for name in ("PPCA and an objective", "vectors"):
        start, failed = time.perf_counter(), []
        for seed in range(n_seeds):
            if name == "vectors":
                report = me.check_model(vectors, vectors.rows(seed), seed=seed)
            else:
                objective = me.MaskedObjective(me.RandomSize(1, 1), seed=seed)
                report = me.check_model(ppca, ppca.sample(N_ROWS, seed), seed=seed, objective=objective)
            failed += [f"{finding.check} ({seed})" for finding in report.failed]
        results[name] = {"failed": failed, "seconds": (time.perf_counter() - start) / n_seeds}
    rows = [
        [
            name,
            str(n_seeds),
            str(len(result["failed"])),
            f"{result['seconds']:.2f}",
            ", ".join(result["failed"]),
        ]
        for name, result in results.items()
    ]
    title = f"Calls of check_model on sound models that failed; {machine()}"
    show(title, ("model", "calls", "failed", "s a call", "which"), rows)
    most = math.ceil(0.001 * n_seeds)
    targets = [
        Target(f"failed calls of {n_seeds}, {name}", len(result["failed"]), high=most)
        for name, result in results.items()
    ]
    return finish(results, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
