"""Width of the interval for the masks' error at equal numbers of passes, by what the estimate makes of them.

    python benchmarks/precision.py --out precision.json

Every run scores 8 masks of random sizes for each row or text. "4 replicates" is the plain mean with the error
from 4 offsets, as `RandomSize(8, replicates=4)` had it before control variates; "curve" has the cross-fitted
curve and the error from within the rows; "tokens" also has the means of hidden tokens (`per_token=True`); the
others have a surrogate (`control=`) with the curve, or with curve and tokens. "Independent sizes" have no
stratification, and the error from within the rows at 128 masks for each, scaled to as many passes. The first
table has the mean squared half-width of 95 % intervals of the first two relative to each of the others, and
what the best density of sizes could add at most. The second one has the share of the intervals that hold the
truth, from many runs on fewer rows, the variance of the estimates over the mean of mask_se², and the mean
error in units of the error of one run, which must be below 0.1 + 3/√runs.

PPCA knows its log evidence. Networks for two tables of scikit-learn are trained here, and their truth is a
run with 256 masks for each row. The texts are those of a small BERT, which is trained here
(size_samplers.py), and reactions for the ALBERT of `rxnmapper` (see leave_one_out.py; needs
`MASKEVIDENCE_DATA`). Each model is a piece of its own: with --out, pieces that the file has are not measured
again, and --only chooses some of them.
"""

import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np

import maskevidence as me
from _precision_models import SUBJECTS, TEXTS, Subject
from maskevidence.evidence import MeanOfScores, mean_of_scores
from maskevidence.masks import MaskKey
from maskevidence.standard_errors import MeanWithErrors, t_half_width

BEFORE, INDEPENDENT, CURVE, TOKENS = "4 replicates", "independent sizes", "curve", "tokens"
DRAWS, FEW_ROWS, RATE_BINS = 8, 100, 16
# Runs for the widths with control variates, for those of 4 replicates, which vary more, and for coverage.
RUNS = {
    "PPCA, D = 200": (10, 40, 2000),
    "PPCA, D = 512": (10, 40, 300),
    "network": (10, 40, 300),
    "small": (4, 8, 0),
    "ALBERT": (3, 6, 0),
}
CONTROLLED, GAIN_OF_CONTROL = ("network, digits in 16 levels", "network, breast cancer"), 1.5


def before(subject: Subject, n_runs: int) -> float:
    """The mean squared half-width as version 0.1.0 had it, from the means of all replicates of all runs."""
    design, means = me.RandomSize(DRAWS, replicates=4), []
    for seed in range(n_runs):
        found = me.estimate_evidence(subject.model, subject.rows, design, seed=2 * seed + 1, check=False)
        table = found.scores
        each = np.bincount(table.draw % 4, weights=table.n_tokens * table.score)
        means.append(each / np.bincount(table.draw % 4))
    return float(np.var(means, ddof=1)) / 4 * t_half_width(1.0, 3, 0.95) ** 2


def with_controls(subject: Subject, seed: int) -> dict[str, tuple[me.ScoreTable, MeanOfScores]]:
    """The estimates with control variates, all of the same masks."""
    design, key = me.RandomSize(DRAWS), MaskKey(2 * seed)
    tables: dict[str, me.ScoreTable] = {}
    for name, control in {TOKENS: None, **subject.controls}.items():
        table = me.estimate_evidence(
            subject.model,
            subject.rows,
            design,
            seed=key.seed,
            per_token=True,
            check=False,
            control=control,
        ).scores
        tables[name if control is None else f"tokens, {name}"] = table
        tables[CURVE if control is None else f"curve, {name}"] = replace(table, hidden=None)
    return {name: (table, mean_of_scores(table, design, key)) for name, table in tables.items()}


def independent_sizes(table: me.ScoreTable) -> float:
    """The squared half-width with independent sizes: the variance within rows of D · S, over all masks."""
    row = np.unique(table.id, return_inverse=True)[1]
    within = (table.n_tokens * table.score).reshape(row[-1] + 1, DRAWS).var(axis=1, ddof=1).mean()
    return float(within) / len(table) * t_half_width(1.0, math.inf, 0.95) ** 2


def best_density(table: me.ScoreTable, found: MeanOfScores) -> float:
    """How many times smaller the variance would be with sizes from the best density, q ∝ √v_M.

    v_M is the mean squared residual at each rate; the density itself would have to be learnt.
    """
    assert found.prediction is not None
    square = (table.n_tokens * found.prediction.residuals(table)) ** 2
    bin_of = np.minimum(RATE_BINS - 1, np.sqrt((table.size - 1) / table.n_tokens) * RATE_BINS).astype(int)
    counts = np.bincount(bin_of, minlength=RATE_BINS)
    means = np.bincount(bin_of, weights=square, minlength=RATE_BINS) / np.maximum(counts, 1)
    return float((counts @ means) * len(table) / (counts @ np.sqrt(means)) ** 2)


def half_square(found: MeanWithErrors) -> float:
    return t_half_width(found.mask_se or 0.0, found.mask_df or math.inf, 0.95) ** 2


def widths(subject: Subject, n_runs: int, n_before: int) -> dict[str, Any]:
    """Mean squared half-widths, and what a density of sizes could add."""
    squares: dict[str, list[float]] = {}
    density: dict[str, list[float]] = {}
    for seed in range(n_runs):
        found = with_controls(subject, seed)
        squares.setdefault(INDEPENDENT, []).append(independent_sizes(found[TOKENS][0]))
        for name, one in found.items():
            squares.setdefault(name, []).append(half_square(one[1].mean))
            density.setdefault(name, []).append(best_density(*one))
    mean_squares = {name: float(np.mean(values)) for name, values in squares.items()}
    return {
        "runs": [n_runs, n_before],
        "half_width²": {BEFORE: before(subject, n_before), **mean_squares},
        "best density": {name: float(np.mean(values)) for name, values in density.items()},
    }


def coverage(subject: Subject, n_runs: int, n_rows: int) -> dict[str, Any]:
    """How often the intervals hold the truth, by estimate."""
    assert subject.truth is not None
    truth, few = float(subject.truth[:n_rows].mean()), subject._replace(rows=subject.rows[:n_rows])
    errors: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(n_runs):
        for name, (_, one) in with_controls(few, 10_000 + seed).items():
            mean = one.mean
            errors.setdefault(name, []).append((mean.mean - truth, mean.mask_se or 0.0, half_square(mean)))
    results = {}
    for name, values in errors.items():
        error, se, square = np.array(values).T
        results[name] = {
            "coverage": float((error**2 <= square).mean()),
            "variance": float(error.var(ddof=1) / (se**2).mean()),
            "bias": float(error.mean() / error.std(ddof=1)),
        }
    return {"runs": n_runs, "rows": len(few.rows), "estimates": results}


def measured(name: str, options: Any) -> dict[str, Any] | None:
    """One piece: a model with its widths and its coverage; None if the model is not there."""
    start = time.process_time()
    n_widths, n_before, n_coverage = next(runs for word, runs in RUNS.items() if name.startswith(word))
    if options.quick:
        n_widths, n_before, n_coverage = 2, 2, min(n_coverage, 4)
    n_rows = options.texts if name in TEXTS else options.rows
    subject = SUBJECTS[name](n_rows, 100 if options.quick else 3000)
    if subject is None:
        return None
    piece = {
        "rows": len(subject.rows),
        "wanted": subject.wanted,
        "widths": widths(subject, n_widths, n_before),
    }
    if n_coverage:
        piece["coverage"] = coverage(subject, n_coverage, FEW_ROWS)
    return piece | {"seconds": time.process_time() - start}


def table_of_widths(pieces: dict[str, Any]) -> None:
    rows = []
    for name, piece in pieces.items():
        squares = piece["widths"]["half_width²"]
        for estimate, square in squares.items():
            density = piece["widths"]["best density"].get(estimate)
            gains = (f"{squares[other] / square:.2f}" for other in (BEFORE, INDEPENDENT))
            shown = "" if density is None else f"{density:.2f}"
            rows.append((name, f"{piece['rows']:,}", estimate, f"{square:.4g}", *gains, shown))
    columns = ("model", "rows", "estimate", "half-width²", "4 replicates", "independent", "best density")
    show(f"Squared half-width of 95 % intervals, {DRAWS} passes a row, and ratios", columns, rows)


def table_of_coverage(pieces: dict[str, Any]) -> None:
    rows = [
        (
            name,
            f"{piece['coverage']['rows']:,}",
            f"{piece['coverage']['runs']:,}",
            estimate,
            f"{found['coverage']:.3f}",
            f"{found['variance']:.2f}",
            f"{found['bias']:+.3f}",
        )
        for name, piece in pieces.items()
        if "coverage" in piece
        for estimate, found in piece["coverage"]["estimates"].items()
    ]
    columns = ("model", "rows", "runs", "estimate", "coverage", "variance / mask_se²", "bias / error")
    show("Coverage of 95 % intervals", columns, rows)


def targets_of(pieces: dict[str, Any]) -> list[Target]:
    targets = []
    for name, piece in pieces.items():
        squares = piece["widths"]["half_width²"]
        targets.append(Target(f"{name}: tokens", squares[BEFORE] / squares[TOKENS], low=piece["wanted"]))
        if name in CONTROLLED:
            best = min(square for estimate, square in squares.items() if estimate.startswith("curve,"))
            targets.append(Target(f"{name}: control", squares[CURVE] / best, low=GAIN_OF_CONTROL))
        if "coverage" not in piece:
            continue
        n_runs = piece["coverage"]["runs"]
        sampling = 3 * math.sqrt(0.95 * 0.05 / n_runs)
        for estimate, found in piece["coverage"]["estimates"].items():
            what = f"{name}, {estimate}"
            low, high = 0.93 - sampling, 0.97 + sampling
            targets.append(Target(f"coverage: {what}", found["coverage"], low=low, high=high))
            targets.append(Target(f"bias: {what}", abs(found["bias"]), high=0.1 + 3 / math.sqrt(n_runs)))
    return targets


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000, help="how many rows are scored at most")
    parser.add_argument("--texts", type=int, default=300, help="how many texts are scored at most")
    parser.add_argument("--only", help="only the models whose names hold this")
    parser.add_argument("--out", type=Path, help="keep the pieces in this file, and measure those it lacks")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.texts = min(options.rows, 120), min(options.texts, 20)
    print(machine())
    kept = options.out is not None and options.out.exists()
    pieces: dict[str, Any] = json.loads(options.out.read_text()) if kept else {}
    for name in SUBJECTS:
        if name in pieces or (options.only and options.only not in name):
            continue
        piece = measured(name, options)
        if piece is None:
            print(f"{name}: not installed; left out", file=sys.stderr)
            continue
        pieces[name] = piece
        print(f"{name}: {piece['seconds']:.0f} s", file=sys.stderr, flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(pieces, indent=2) + "\n")
    pieces = {name: pieces[name] for name in SUBJECTS if name in pieces}
    table_of_widths(pieces)
    table_of_coverage(pieces)
    return finish({"pieces": pieces}, targets_of(pieces), options.json)


if __name__ == "__main__":
    sys.exit(main())
