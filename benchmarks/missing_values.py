"""Fits to real tables with missing values, in raw units: seconds and log evidence, beside plain steps of EM.

    MASKEVIDENCE_DATA=... python benchmarks/missing_values.py

The tables are winequality-red with 12 % of its values hidden at random, breast-cancer-wisconsin and
horse-colic, with their identifier columns, so that spreads go from 0.002 to 1.5 million. PPCA and factor
analysis are fitted with 1 to 10 components. The alternative is the same likelihood with the same start,
climbed by EM until a step raises it by less than 1e-7 nats per row, or for 2,000 steps.
"""

import math
import os
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

from _timing import Target, arguments, finish, machine, show

# isort: split
import numpy as np

import maskevidence as me
from maskevidence.data.tabular import read_table
from maskevidence.errors import ConvergenceWarning
from maskevidence.models.gaussian.missing_rows import gather_rows
from maskevidence.models.gaussian.missing_values import starting_point
from maskevidence.models.gaussian.observed_likelihood import LowRankLikelihood

TABLES = ("winequality-red", "breast-cancer-wisconsin", "horse-colic")
MODELS = {"PPCA": me.models.PPCA, "FactorAnalysis": me.models.FactorAnalysis}
HIDDEN_SHARE, EM_STEPS, EM_TOLERANCE = 0.12, 2_000, 1e-7
MAX_SECONDS = 3.0


class Fit(NamedTuple):
    """A fit's log evidence per row, nats, its seconds, and whether it came to its end."""

    log_evidence: float
    seconds: float
    converged: bool


def read(folder: Path, name: str) -> np.ndarray:
    """The rows of a table; winequality-red gets its holes here."""
    x = read_table(folder / "tabular" / f"{name}.csv").values
    if name == "winequality-red":
        x = np.where(np.random.default_rng(0).random(x.shape) < HIDDEN_SHARE, np.nan, x)
    return x[~np.isnan(x).all(1)]


def by_fit(x: np.ndarray, model: str, k: int) -> Fit:
    """The fit of the package."""
    fitted = MODELS[model](x.shape[1], k)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        start = time.process_time()
        fitted.fit(x)
        seconds = time.process_time() - start
    return Fit(float(fitted.score_samples(x).mean()), seconds, not caught)


def by_em(x: np.ndarray, model: str, k: int) -> Fit:
    """EM from the same start."""
    start = time.process_time()
    rows = gather_rows(x)
    objective = LowRankLikelihood(rows, k, isotropic=model == "PPCA")
    point, lower = starting_point(rows, x, objective)
    of_noise = x.shape[1] * (k + 1)
    before, converged = -math.inf, False
    for _ in range(EM_STEPS):
        now = objective(point)
        if now.value - before < EM_TOLERANCE:
            converged = True
            break
        before, step = now.value, now.metric(now.gradient)
        step[of_noise:] = np.log1p(step[of_noise:])  # a step of the variances, not of their logs
        point = np.maximum(point + step, lower)
    value = objective(point).value - rows.n_seen @ np.log(rows.scale) / rows.total
    return Fit(float(value), time.process_time() - start, converged)


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    folder = os.environ.get("MASKEVIDENCE_DATA")
    if folder is None:
        print("MASKEVIDENCE_DATA is not set; set it to the folder that contains tabular/", file=sys.stderr)
        return 2
    lines, numbers, targets = [], {}, []
    for table in TABLES:
        x = read(Path(folder), table)
        for model in MODELS:
            for k in (1, 3) if options.quick else range(1, 11):
                ours, em = by_fit(x, model, k), by_em(x, model, k)
                ahead = ours.log_evidence - em.log_evidence
                lines.append(
                    (
                        table,
                        model,
                        f"{k}",
                        f"{ours.log_evidence:.6f}" + ("" if ours.converged else " *"),
                        f"{ours.seconds:.2f}",
                        f"{em.seconds:.2f}" + ("" if em.converged else " *"),
                        f"{ahead:+.1e}",
                    )
                )
                numbers[f"{table}, {model}, K={k}"] = {"fit": ours._asdict(), "em": em._asdict()}
                name = f"{table}, {model}, K={k}"
                targets.append(Target(f"{name}: seconds", ours.seconds, high=MAX_SECONDS))
                targets.append(
                    Target(f"{name}: ahead of EM, relative", ahead / abs(em.log_evidence), low=-1e-6)
                )
    title = f"Fits to tables with missing values (* not converged); {machine()}"
    columns = ("data", "model", "K", "log evidence, nats per row", "s", "EM, s", "ahead of EM, nats")
    show(title, columns, lines)
    missed = [target for target in targets if not target.reached]
    slowest = max((target for target in targets if target.high < math.inf), key=lambda target: target.value)
    return finish(numbers, [slowest, *missed], options.json)


if __name__ == "__main__":
    sys.exit(main())
