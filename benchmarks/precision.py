"""Width of the interval for the masks' error at equal numbers of passes, by what the estimate makes of them.

    python benchmarks/precision.py --out precision

Every run scores 8 masks of random sizes for each row or text. "4 replicates" is the plain mean with the error
from 4 offsets, as `RandomSize(8, replicates=4)` had it before control variates; "curve" has the cross-fitted
curve and the error from within the rows; "tokens" also has the means of hidden tokens (`per_token=True`).
"Independent sizes" have no stratification, and the error from within the rows at 128 masks for each, scaled
to as many passes. The first table has the mean squared half-width of 95 % intervals of the first and of the
independent sizes relative to that of each estimate. The
second one has the share of the intervals that hold the truth, from many runs on 100 rows, the variance of the
estimates over the mean of mask_se², and the mean error in units of the error of one run, which must be below
0.1 + 3/√runs.

PPCA knows its log evidence. Networks for two tables of scikit-learn are trained here, and their truth is a
run with 8,192 masks for each of the 100 rows. The texts are those of a small BERT, which is trained here
(_precision_models.py), and reactions for the ALBERT of `rxnmapper` (see _reactions.py; needs
`MASKEVIDENCE_DATA`). With --out, a folder keeps every run, so that the same command resumes;
--seconds stops it, and --only chooses some of the models.
"""

import json
import math
import re
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np

import maskevidence as me
from _precision_models import FEW_ROWS, SUBJECTS, TEXTS, Subject
from maskevidence.core.evidence.score_means import MeanOfScores, mean_of_scores
from maskevidence.core.evidence.standard_errors import MeanWithErrors, t_half_width
from maskevidence.core.masks.design import MaskKey

BEFORE, INDEPENDENT = "4 replicates", "independent sizes"
CURVE, TOKENS = "curve", "tokens"
DRAWS = 8
# Runs for the widths with control variates, for those of 4 replicates, which vary more, and for coverage.
RUNS = {
    "PPCA, D = 200": (10, 40, 2000),
    "PPCA, D = 512": (6, 40, 2000),
    "network": (10, 40, 2000),
    "small": (4, 8, 0),
    "ALBERT": (3, 6, 0),
}
QUICK = ("network, breast cancer", "small BERT")


def before(subject: Subject, seed: int) -> list[float]:
    """The means of the 4 replicates of a run, without control variates."""
    design = me.RandomSize(DRAWS, replicates=4)
    table = me.estimate_evidence(subject.model, subject.rows, design, seed=2 * seed + 1, check=False).scores
    each = np.bincount(table.draw % 4, weights=table.n_tokens * table.score)
    return (each / np.bincount(table.draw % 4)).tolist()


def estimates(subject: Subject, seed: int) -> dict[str, tuple[me.ScoreTable, MeanOfScores]]:
    """The estimates with control variates, all of the same masks."""
    design, key = me.RandomSize(DRAWS), MaskKey(2 * seed)
    whole = me.estimate_evidence(
        subject.model, subject.rows, design, seed=key.seed, per_token=True, check=False
    ).scores
    tables = {CURVE: replace(whole, hidden=None), TOKENS: whole}
    return {name: (table, mean_of_scores(table, design, key)) for name, table in tables.items()}


def independent_sizes(table: me.ScoreTable) -> float:
    """The squared half-width with independent sizes: the variance within rows of D · S, over all masks."""
    row = np.unique(table.id, return_inverse=True)[1]
    within = (table.n_tokens * table.score).reshape(row[-1] + 1, DRAWS).var(axis=1, ddof=1).mean()
    return float(within) / len(table) * t_half_width(1.0, math.inf, 0.95) ** 2


def half_square(found: MeanWithErrors) -> float:
    return t_half_width(found.mask_se or 0.0, found.mask_df or math.inf, 0.95) ** 2


def width(subject: Subject, seed: int) -> dict[str, Any]:
    """The squared half-widths of a run."""
    found = estimates(subject, seed)
    squares = {name: half_square(one.mean) for name, (_, one) in found.items()}
    squares[INDEPENDENT] = independent_sizes(found[TOKENS][0])
    return {"square": squares}


def error(few: Subject, seed: int) -> dict[str, list[float]]:
    """Error, mask_se² and squared half-width of each estimate of a run on few rows."""
    assert few.truth is not None
    truth = float(few.truth.mean())
    return {
        name: [one.mean.mean - truth, (one.mean.mask_se or 0.0) ** 2, half_square(one.mean)]
        for name, (_, one) in estimates(few, 10_000 + seed).items()
    }


def measure(name: str, piece: dict[str, Any], options: Any, until: float) -> bool:
    """Add runs to a piece, until it has all of them or the time is over; False if the model is not there."""
    wanted = next(runs for word, runs in RUNS.items() if name.startswith(word))
    counts = dict(zip(("widths", "before", "errors"), wanted, strict=True))
    if options.quick:
        counts = {part: min(3, n) for part, n in counts.items()}
    if all(len(piece.get(part, [])) >= n for part, n in counts.items()):
        return True
    n_rows = options.texts if name in TEXTS else options.rows
    kept = None if options.out is None else options.out / f"{slug(name)}.pt"
    subject = SUBJECTS[name](n_rows, 4 if options.quick else 3000, kept)
    if subject is None:
        return False
    few = subject
    if subject.truth is not None:
        few = subject._replace(rows=subject.rows[:FEW_ROWS])
    piece |= {"rows": len(subject.rows), "wanted": subject.wanted}
    runs = {
        "widths": partial(width, subject),
        "before": partial(before, subject),
        "errors": partial(error, few),
    }
    for part, n in counts.items():
        found = piece.setdefault(part, [])
        while len(found) < n and time.process_time() < until:
            found.append(runs[part](len(found)))
    return True


def slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def summarised(piece: dict[str, Any]) -> dict[str, Any]:
    """The mean squares, and coverage, variance and bias of each estimate."""
    squares: dict[str, float] = {}
    if len(piece["before"]) > 1:  # the replicates of all runs are as independent as those of one
        variance = float(np.var(np.concatenate(piece["before"]), ddof=1))
        squares[BEFORE] = variance / 4 * t_half_width(1.0, 3, 0.95) ** 2
    for estimate in piece["widths"][0]["square"]:
        squares[estimate] = float(np.mean([run["square"][estimate] for run in piece["widths"]]))
    covered = {}
    for estimate in piece["errors"][0] if len(piece["errors"]) > 1 else ():
        off, se_square, square = np.array([run[estimate] for run in piece["errors"]]).T
        covered[estimate] = {
            "coverage": float((off**2 <= square).mean()),
            "variance": float(off.var(ddof=1) / se_square.mean()),
            "bias": float(off.mean() / off.std(ddof=1)),
        }
    n_runs = {part: len(piece[part]) for part in ("widths", "before", "errors")}
    return {
        "rows": piece["rows"],
        "wanted": piece["wanted"],
        "runs": n_runs,
        "half_width²": squares,
        "estimates": covered,
    }


def table_of_widths(pieces: dict[str, Any]) -> None:
    rows = []
    for name, piece in pieces.items():
        squares = piece["half_width²"]
        for estimate, square in squares.items():
            gains = (
                f"{squares[other] / square:.2f}" if other in squares else ""
                for other in (BEFORE, INDEPENDENT)
            )
            rows.append((name, f"{piece['rows']:,}", estimate, f"{square:.4g}", *gains))
    columns = ("model", "rows", "estimate", "half-width²", "4 replicates", "independent")
    show(f"Squared half-width of 95 % intervals, {DRAWS} passes a row, and ratios", columns, rows)


def table_of_coverage(pieces: dict[str, Any]) -> None:
    rows = [
        (
            name,
            f"{piece['runs']['errors']:,}",
            estimate,
            f"{found['coverage']:.3f}",
            f"{found['variance']:.2f}",
            f"{found['bias']:+.3f}",
        )
        for name, piece in pieces.items()
        for estimate, found in piece["estimates"].items()
    ]
    columns = ("model", "runs", "estimate", "coverage", "variance / mask_se²", "bias / error")
    show(f"Coverage of 95 % intervals, {FEW_ROWS} rows", columns, rows)


def targets_of(pieces: dict[str, Any]) -> list[Target]:
    targets = []
    for name, piece in pieces.items():
        squares = piece["half_width²"]
        if BEFORE in squares:
            gain = squares[BEFORE] / squares[TOKENS]
            targets.append(Target(f"{name}: tokens", gain, low=piece["wanted"]))
        n_runs = piece["runs"]["errors"]
        for estimate, found in piece["estimates"].items():
            what = f"{name}, {estimate}"
            sampling = 3 * math.sqrt(0.95 * 0.05 / n_runs)
            low, high = 0.93 - sampling, 0.97 + sampling
            targets.append(Target(f"coverage: {what}", found["coverage"], low=low, high=high))
            targets.append(Target(f"bias: {what}", abs(found["bias"]), high=0.1 + 3 / math.sqrt(n_runs)))
    return targets


def main() -> int:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1000, help="how many rows are scored at most")
    parser.add_argument("--texts", type=int, default=300, help="how many texts are scored at most")
    parser.add_argument("--only", help="only the models whose names hold this")
    parser.add_argument("--out", type=Path, help="keep every run in this folder, and go on from there")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="stop after this time of the processor"
    )
    options = parser.parse_args()
    if options.quick:
        options.rows, options.texts = 100, 20
    print(machine())
    pieces: dict[str, Any] = {}
    for name in QUICK if options.quick else SUBJECTS:
        file = None if options.out is None else options.out / f"{slug(name)}.json"
        piece = json.loads(file.read_text()) if file is not None and file.exists() else {}
        if not options.only or options.only in name:
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
            if not measure(name, piece, options, options.seconds):
                print(f"{name}: not installed; left out", file=sys.stderr)
            if file is not None and piece:
                file.write_text(json.dumps(piece) + "\n")
        if piece.get("widths"):
            pieces[name] = summarised(piece)
    table_of_widths(pieces)
    table_of_coverage(pieces)
    return finish({"pieces": pieces}, targets_of(pieces), options.json)


if __name__ == "__main__":
    sys.exit(main())
