"""How often do the checks of `me.check_model` fail on sound models, and how long do they take?

    python benchmarks/checks.py

By seed: each draws new rows from each of two sound models, and new masks and replacements: PPCA, and
vectors of four numbers with correlated entries. By architecture: small models with random weights of the
21 architectures of the tests, on rows of random tokens; and an ALBERT trained on chemical reactions, if
the package `rxnmapper` is installed (see _reactions.py; needs `MASKEVIDENCE_DATA`).
"""

import math
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, machine, show, timed

# isort: split
import numpy as np
import torch
from torch import Tensor

import maskevidence as me
from _reactions import REACTIONS, reactions
from maskevidence.core.tokens import Tokens

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from architectures import ARCHITECTURES, MASK, network, some_tokens

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


def by_seed(n_seeds: int) -> tuple[dict[str, Any], list[Target]]:
    """Calls with new rows, masks and replacements, and those that fail."""
    ppca, vectors = me.models.PPCA(10, 2, seed=1), Vectors()
    results: dict[str, dict[str, Any]] = {}
    for name in ("PPCA", "vectors"):
        start, failed = time.perf_counter(), []
        for seed in range(n_seeds):
            if name == "vectors":
                report = me.check_model(vectors, vectors.rows(seed), seed=seed)
            else:
                report = me.check_model(ppca, ppca.sample(N_ROWS, seed), seed=seed)
            failed += [f"{finding.check} ({seed})" for finding in report.failed]
        results[name] = {"failed": failed, "seconds": (time.perf_counter() - start) / n_seeds}
    rows = [
        (name, str(n_seeds), str(len(found["failed"])), f"{found['seconds']:.2f}", ", ".join(found["failed"]))
        for name, found in results.items()
    ]
    show("Calls by seed", ("model", "calls", "failed", "s a call", "which"), rows)
    most = math.ceil(0.001 * n_seeds)
    return results, [
        Target(f"failed calls of {n_seeds}, {name}", len(found["failed"]), high=most)
        for name, found in results.items()
    ]


def by_architecture(quick: bool) -> tuple[dict[str, Any], list[Target]]:
    """One call for each masked language model, and the checks that fail."""
    tokens = some_tokens([8, 13, 20, 5, 16, 11, 9, 20])
    models = {
        name: (me.models.MaskedLM(network(name), mask_token_id=MASK), tokens)
        for name in (["Bert"] if quick else sorted(ARCHITECTURES))
    }
    trained = None if quick else reactions(20)
    if trained is None:
        print("rxnmapper is not installed or not asked for; its model is left out", file=sys.stderr)
    else:
        models[REACTIONS] = trained
    found, rows = {}, []
    for name, (model, some) in models.items():
        report, seconds = timed(partial(me.check_model, model, some), time.perf_counter)
        failed = [finding.check for finding in report.failed]
        applied = sum(finding.status != "skipped" for finding in report.findings)
        found[name] = {"seconds": seconds, "applied": applied, "failed": failed}
        rows.append((name, str(applied), f"{seconds:.1f}", ", ".join(failed)))
    show("Calls by architecture", ("model", "checks applied", "s", "failed"), rows)
    n_failed = sum(len(result["failed"]) for result in found.values())
    return found, [
        Target(f"failed checks of {len(found)} models", n_failed, high=0),
        Target("seconds, BERT of 2 layers", found["Bert"]["seconds"], high=60),
    ]


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1000, help="number of calls for each model")
    options = parser.parse_args()
    print(machine())
    seeds, of_seeds = by_seed(2 if options.quick else options.seeds)
    architectures, of_architectures = by_architecture(options.quick)
    numbers = {"seeds": seeds, "architectures": architectures}
    return finish(numbers, of_seeds + of_architectures, options.json)


if __name__ == "__main__":
    sys.exit(main())
