"""Masks of an observation that complement each other: is the estimate with control variates better for it?

    python benchmarks/windows.py

"Own subsets" are those of `RandomSize(8)`: every mask hides a random subset, independently of the others.
With "windows", the 8 masks of an observation belong to 4 or 2 random orders of its tokens. The masks of an
order are successive windows of it, each of which begins where the last one has ended, and again from the
start: each of them is a uniformly random subset, and together they hide every token about equally often.
"Complements" are 4 orders of two windows each, of the sizes M and D + 1 - M. Different orders are
independent, and the control variates of one come from the others.

The table has the variance of the estimates over runs on 100 rows, the gain, which is that of own subsets with
the curve and the tokens over it, and the mean error in units of the error of one run. Models and
truth are those of precision.py, whose --out folder can be given, so that networks are not trained again.
"""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np

import maskevidence as me
from _precision_models import FEW_ROWS, SUBJECTS, Subject
from maskevidence.evidence.score_means import mean_of_scores
from maskevidence.masks.design import BoolMatrix, Integers, MaskKey, Positions
from maskevidence.support.keyed_random import keyed_ranks
from maskevidence.tokens import positions
from precision import CURVE, DRAWS, TOKENS, slug

NAMES = ("PPCA, D = 200", "network, digits in 16 levels", "network, breast cancer")
WORTH = 1.2  # times less variance, from which on a design would be built


@dataclass(frozen=True)
class Windows(me.RandomSize):
    """Random sizes whose masks are successive windows of one order for each replicate.

    Ids have to be 0..FEW_ROWS-1, the positions of the rows.
    """

    name: ClassVar[str] = "windows"

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        n_tokens, order = maskable.sum(1), draw % self.n_replicates
        position = positions(np.arange(FEW_ROWS))[ids]
        start = np.zeros_like(size)
        for step in range(1, self.draws // self.n_replicates):
            earlier = draw - step * self.n_replicates
            before = self.plan(key, ids, n_tokens, np.maximum(earlier, 0), position)[1]
            start += np.where(earlier >= 0, before, 0)
        ranks = keyed_ranks(key.seed, key.columns(ids, order), maskable)
        return maskable & ((ranks - start[:, None]) % n_tokens[:, None] < size[:, None])


@dataclass(frozen=True)
class Complements(Windows):
    """Pairs of windows of the sizes M and D + 1 - M."""

    name: ClassVar[str] = "complements"

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> tuple[Integers, Integers]:
        half = self.draws // 2
        size = super().plan(key, ids, n_tokens, index % half, position)[1]
        return index, np.where(index < half, size, n_tokens + 1 - size)


DESIGNS = {
    "own subsets": me.RandomSize(DRAWS),
    "windows, 4 orders": Windows(DRAWS, 4),
    "windows, 2 orders": Windows(DRAWS, 2),
    "complements, 4 orders": Complements(DRAWS, 4),
}


def errors(few: Subject, design: me.RandomSize, n_runs: int) -> dict[str, np.ndarray]:
    """The errors of the estimates of some runs, by control variates."""
    assert few.truth is not None
    truth, found = float(few.truth.mean()), {CURVE: [], TOKENS: []}
    for run in range(n_runs):
        key = MaskKey(50_000 + run)
        whole = me.estimate_evidence(
            few.model, few.rows, design, seed=key.seed, per_token=True, check=False
        ).scores
        for name, table in ((CURVE, replace(whole, hidden=None)), (TOKENS, whole)):
            found[name].append(mean_of_scores(table, design, key).mean.mean - truth)
    return {name: np.array(each) for name, each in found.items()}


def measure(name: str, n_runs: int, steps: int, kept: Path | None) -> dict[str, dict[str, Any]]:
    """Variance and bias of each estimate of a model."""
    subject = SUBJECTS[name](1000, steps, kept)
    assert subject is not None
    few = subject._replace(rows=subject.rows[:FEW_ROWS])
    answer: dict[str, dict[str, Any]] = {}
    for kind, design in DESIGNS.items():
        for estimate, off in errors(few, design, n_runs).items():
            variance, bias = float(off.var(ddof=1)), float(off.mean() / off.std(ddof=1))
            answer[f"{kind}, {estimate}"] = {"variance": variance, "bias": bias}
            print(" ", name, kind, estimate, f"{variance:.4g} {bias:+.3f}", file=sys.stderr, flush=True)
    for found in answer.values():
        found["gain"] = answer[f"own subsets, {TOKENS}"]["variance"] / found["variance"]
    return answer


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=800, help="how many runs of each design")
    parser.add_argument("--only", default="", help="only the models whose names hold this")
    parser.add_argument("--out", type=Path, help="the folder of precision.py, which keeps its networks")
    options = parser.parse_args()
    n_runs, steps = (3, 4) if options.quick else (options.runs, 3000)
    print(machine())
    numbers: dict[str, Any] = {}
    rows, targets = [], []
    for name in NAMES[2:] if options.quick else NAMES:
        if options.only not in name:
            continue
        kept = None if options.out is None else options.out / f"{slug(name)}.pt"
        numbers[name] = measure(name, n_runs, steps, kept)
        for what, found in numbers[name].items():
            rows.append(
                (name, what, f"{found['variance']:.4g}", f"{found['gain']:.2f}", f"{found['bias']:+.3f}")
            )
            targets.append(
                Target(f"{name}, {what}: bias", abs(found["bias"]), high=0.15 + 3 / np.sqrt(n_runs))
            )
    columns = (
        "model",
        "masks, control variates",
        "variance",
        "gain over own subsets, tokens",
        "bias / error",
    )
    show(f"{n_runs:,} runs on {FEW_ROWS} rows, {DRAWS} passes a row", columns, rows)
    return finish({"models": numbers}, targets, options.json)


if __name__ == "__main__":
    sys.exit(main())
