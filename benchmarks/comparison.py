"""How often does a comparison of equal models name a better one, and how often does it find a worse one?

    python benchmarks/comparison.py

The models are equal by symmetry: each one moves the mean of a standard normal by the same length, along a
column of its own. One further model is worse by about five standard errors of a difference.

Three rules are compared. "one by one" gives each model a 95 % interval against the best one.
"Holm" is the procedure of Holm (1979) over these comparisons, which does not know that the same data
chose the best model. "package" is the rule of `compare`: step-down Bonferroni over the pairs of models that
are not yet told apart from the best one.

The second table has pairs of models whose scores depend on the mask alike in all rows, as shared masks find
it hardest. Coverage is the share of 95 % intervals that hold the true difference of two models that differ by
nothing; power the share that find a difference of half a nat. Width is the median of the intervals. The third
table has few rows, whose error and that of their masks are of like size, and masks of which 2 % are lower by
7 standard deviations: some for single rows and others for all rows alike, or only for all rows alike.
"""

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from _timing import Target, arguments, finish, show

# isort: split
import numpy as np
import torch
from scipy import stats

import maskevidence as me
from maskevidence.core.comparing.comparison import Difference

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


class Scores(NamedTuple):
    """How the log evidence of a row, in nats, depends on the row and on the mask."""

    n_rows: int = 200
    common: float = 1.26  # standard deviation of the part of the mask that both models share
    own: float = 0.9  # and of each model's own
    of_rows: float = 0.5  # that of the rows
    noise: float = 0.6  # that of each row and mask
    rare: tuple[bool, bool] = (False, False)  # whether 2 % are bad: the masks' own parts; the noise


DEPENDENT = Scores()


def rare(values: np.ndarray) -> np.ndarray:
    """Standard normal values as values of which 2 % are bad: mean 0, variance 1."""
    return np.where(values > stats.norm.ppf(0.98), -7.0, 7.0 * 0.02 / 0.98)


class ByMask(torch.nn.Module):
    """A score for each row and each set of hidden columns: a part of the mask, one of the row, and noise."""

    conditionals, base_measure = "learned", me.model.DENSITY

    def __init__(self, of_masks: np.ndarray, scores: Scores, shift: float, rng: np.random.Generator) -> None:
        super().__init__()
        n_codes, width = len(of_masks), len(of_masks).bit_length() - 1
        size = np.array([code.bit_count() for code in range(n_codes)])
        own = of_masks / width
        for m in range(1, width + 1):  # the area of the mask's part is 0
            own[size == m] -= own[size == m].mean()
        rows = rng.normal(size=(scores.n_rows, 1)) * scores.of_rows
        noise = rng.normal(size=(scores.n_rows, n_codes))
        noise = (rare(noise) if scores.rare[1] else noise) * scores.noise
        table = own - 1.0 + (rows + noise - shift) / width
        self.table = torch.from_numpy(table)

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        code = (masked.long() << torch.arange(masked.shape[1])).sum(1)
        return torch.where(masked, self.table[tokens.ids, code][:, None], 0.0)


def difference_of(
    design: me.MaskDesign, masks: str, scores: Scores, seed: int, shift: float = 0.0
) -> tuple[Difference, me.EvidenceEstimate, me.EvidenceEstimate]:
    """The difference of two new models, the second lower by `shift` nats, and their estimates."""
    rng, width = np.random.default_rng(seed), 6
    tokens = me.Tokens.from_array(np.zeros((scores.n_rows, width)))
    common = rng.normal(size=2**width) * scores.common
    own = [rng.normal(size=2**width) for _ in range(2)]
    own = [rare(part) for part in own] if scores.rare[0] else own
    models = [ByMask(common + part * scores.own, scores, shift * k, rng) for k, part in enumerate(own)]
    first, second = (
        me.estimate_evidence(model, tokens, design, seed=seed, masks=masks, check=False) for model in models
    )
    return me.compare({"first": first, "second": second}).between("first", "second"), first, second


def pairs_of_models(
    design: me.MaskDesign, masks: str, n_seeds: int, scores: Scores = DEPENDENT
) -> dict[str, float]:
    """Coverage, power and width of the difference of two models over new models, rows and masks."""
    n_found, held, widths = 0, [], []
    for seed in range(n_seeds):
        equal, lower = (
            difference_of(design, masks, scores, seed, shift)[0].interval() for shift in (0.0, 0.5)
        )
        n_found += lower is not None and lower[0] > 0
        if equal is not None:
            held.append(equal[0] <= 0 <= equal[1])
            widths.append(equal[1] - equal[0])
    return {
        "coverage": float(np.mean(held)),
        "power": n_found / n_seeds,
        "width": float(np.median(widths)),
    }


PAIRS = tuple(
    (design, masks)
    for masks in ("shared", "own")
    for design in (me.Orderings(8), me.RandomSize(32, 8), me.EverySize(4), me.EverySize(8))
)
FEW_ROWS = {
    f"{scores.n_rows} rows, {design}": (design, "own", scores)
    for scores, design in (
        (Scores(4, 0.0, 0.0, 0.7, 1.5), me.EverySize(4)),
        (Scores(5, 0.0, 0.0, 0.7, 2.0), me.EverySize(4)),
        (Scores(5, 0.0, 0.0, 0.7, 2.0), me.RandomSize(32, 8)),
        (Scores(5, 0.0, 0.0, 0.7, 2.0), me.Orderings(8)),
        (Scores(10, 0.0, 0.0, 0.7, 2.0), me.EverySize(4)),
    )
}
RARE = {
    f"30 rows, shared {me.EverySize(4)}, rare and bad for {words}": (
        me.EverySize(4),
        "shared",
        Scores(30, 0.0, 1.0, 0.3, 1.0, (True, of_noise)),
    )
    for words, of_noise in (("single rows and all alike", True), ("all rows alike", False))
}


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
    n_pairs = 4 if options.quick else 400
    pairs = {f"{design}, {masks}": pairs_of_models(design, masks, n_pairs) for design, masks in PAIRS}
    cells = [(name, *(f"{value:.3f}" for value in found.values())) for name, found in pairs.items()]
    show(f"Differences of two models, {n_pairs:,} pairs", ("masks", "coverage", "power", "width"), cells)
    few = {
        name: pairs_of_models(design, masks, n_pairs, scores)
        for name, (design, masks, scores) in (FEW_ROWS | RARE).items()
    }
    cells = [(name, *(f"{value:.3f}" for value in found.values())) for name, found in few.items()]
    show(f"Few rows, and rare masks, {n_pairs:,} pairs", ("setting", "coverage", "power", "width"), cells)
    pairs |= few
    known = {name: found for name, found in pairs.items() if name != list(RARE)[-1]}  # no mask shows that one
    lowest = 0.93 - 3 * math.sqrt(0.95 * 0.05 / n_pairs)
    targets += [Target(f"{name}: coverage", found["coverage"], low=lowest) for name, found in known.items()]
    eight = pairs[f"{me.Orderings(8)}, shared"]["power"]
    targets.append(Target("8 shared orders find half a nat", eight, low=0.65))
    return finish({"seeds": n_seeds, "results": results, "pairs": pairs}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
