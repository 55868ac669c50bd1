"""How often does a comparison of equal models name a better one, and how often does it find a worse one?

    python benchmarks/comparison.py

The models are equal by symmetry: each one moves the mean of a standard normal by the same length, along a
column of its own. One further model is worse by about five standard errors of a difference.

Three rules are compared. "one by one" gives each model a 95 % interval against the best one.
"Holm" is the procedure of Holm (1979) over these comparisons, which does not know that the same data
chose the best model. "package" is the rule of `compare`: step-down Bonferroni over the pairs of models that
are not yet told apart from the best one.
"""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from _timing import Target, arguments, finish, show

# isort: split
import numpy as np
import torch
from scipy import stats

import maskevidence as me
from maskevidence.comparing.comparison import Difference

N_MODELS = (2, 5, 10)
RULES = ("one by one", "Holm", "package")
SETTINGS = ((20, "own"), (100, "own"), (100, "shared"))
EVENTS = ("false", "found")
DESIGN = me.FixedRate(0.5, 8)


class Shifted(torch.nn.Module):
    """Independent standard normal tokens around a mean."""

    conditionals, base_measure = "exact", me.model.DENSITY

    def __init__(self, mean: torch.Tensor) -> None:
        super().__init__()
        self.mean = mean

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        log_density = -0.5 * ((tokens.values - self.mean).square() + math.log(2 * math.pi))
        return torch.where(masked, log_density, 0.0)


def told_apart(behind: Sequence[Difference], rule: str) -> set[str]:
    """The models that a rule finds worse than the best one."""
    if rule == "package":
        return {difference.second for difference in behind if difference.told_apart}
    found: set[str] = set()
    by_distance = sorted(behind, key=lambda each: -each.difference / (each.standard_error or math.inf))
    for place, difference in enumerate(by_distance):
        n_comparisons = len(behind) - place if rule == "Holm" else 1
        if replace(difference, n_pairs=n_comparisons).told_apart:
            found.add(difference.second)
        elif rule == "Holm":
            break
    return found


def measure(n_rows: int, masks: str, n_seeds: int) -> Counter[tuple[int, str, str]]:
    """Count data sets with a false verdict, and with the worse model found, by number of models and rule."""
    shift = 0.4 * torch.eye(max(N_MODELS), dtype=torch.float64)
    models = {f"equal {k}": Shifted(mean) for k, mean in enumerate(shift)}
    models["worse"] = Shifted(shift[0] * (0.2 + 28 / math.sqrt(n_rows)))
    counts: Counter[tuple[int, str, str]] = Counter()
    for seed in range(n_seeds):
        tokens = me.Tokens.from_array(np.random.default_rng(seed).normal(size=(n_rows, max(N_MODELS))))
        estimates = {
            name: me.estimate_evidence(model, tokens, DESIGN, seed=seed, masks=masks)
            for name, model in models.items()
        }
        for n in N_MODELS:
            equal = {f"equal {k}": estimates[f"equal {k}"] for k in range(n)}
            behind = me.compare(equal).behind
            with_worse = me.compare(equal | {"worse": estimates["worse"]}).behind
            for rule in RULES:
                counts[n, rule, "false"] += bool(told_apart(behind, rule))
                counts[n, rule, "found"] += "worse" in told_apart(with_worse, rule)
    return counts


def main() -> int:
    options = arguments("How often a comparison of equal models names a better one.").parse_args()
    n_seeds = 4 if options.quick else 300
    at_most = float(stats.binom.ppf(0.999, n_seeds, 0.05)) / n_seeds
    rows, results, targets = [], [], []
    for n_rows, masks in SETTINGS:
        counts = measure(n_rows, masks, n_seeds)
        for n in N_MODELS:
            false, found = ([counts[n, rule, event] / n_seeds for rule in RULES] for event in EVENTS)
            cells = (f"{share:.1%}" for share in (*false, *found))
            rows.append((f"{n_rows}, {masks}", str(n), *cells))
            numbers = {"rules": RULES, "false": false, "found": found}
            results.append({"rows": n_rows, "masks": masks, "models": n, **numbers})
            name = f"false verdicts, {n} models, {n_rows} rows, {masks} masks"
            targets.append(Target(name, false[-1], high=at_most))
    columns = ("rows, masks", "equal models", *RULES, *(f"found: {rule}" for rule in RULES))
    title = f"Comparisons with a false verdict, and with the worse model found, of {n_seeds:,}"
    show(title, columns, rows)
    return finish({"seeds": n_seeds, "results": results}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
