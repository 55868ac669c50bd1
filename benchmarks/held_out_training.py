"""Held-out log evidence of masked training, exact likelihood and EM on tables, some with missing values.

    MASKEVIDENCE_DATA=FOLDER python benchmarks/held_out_training.py

FOLDER contains tabular/horse-colic.csv (19 % missing; its identifier column c2 is left out) and
tabular/winequality-red.csv. There are five random splits, each with a fifth of the rows held out. Columns are
standardised with the statistics of the training rows, and constant columns are dropped. Both gradient methods
start from the same parameters and take the same number of Adam steps on all rows; masked training draws one
mask of random size for every row and step.
"""

import sys
import time
from collections.abc import Callable
from functools import partial

from _timing import arguments, data, finish, machine, mean_and_se, show, timed

# isort: split
import numpy as np
import torch

import maskevidence as me
from maskevidence.core.table import Table
from maskevidence.tables.table_files import read_table

N_COMPONENTS, EPOCHS, LEARNING_RATE = 4, 600, 0.02
TABLES = (("horse-colic", ("c2",)), ("winequality-red", ()))
CODES = {"horse-colic": ("c24", "c25", "c26")}  # with leading zeros, taken as numbers
MODELS: dict[str, Callable[..., me.models.PPCA | me.models.FactorAnalysis]] = {
    "PPCA": me.models.PPCA,
    "FactorAnalysis": me.models.FactorAnalysis,
}


def split(table: Table, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Standardised training and held-out rows."""
    train, test = table.split(0.2, seed)
    constant = train.constant_columns()
    kept = [column for column in table.columns if column not in constant]
    train, test = train.select(kept), test.select(kept)
    mean, sd = np.nanmean(train.values, axis=0), np.nanstd(train.values, axis=0)
    return (train.values - mean) / sd, (test.values - mean) / sd


def train_one(
    how: str, build: Callable[..., torch.nn.Module], rows: np.ndarray, epochs: int
) -> torch.nn.Module:
    """Fit a model to the rows by one of the three methods."""
    model = build(rows.shape[1], N_COMPONENTS, seed=0)
    if how == "EM or closed form":
        return model.fit(rows)
    objective = me.Likelihood() if how == "exact likelihood" else me.RandomSize(1, 1)
    me.fit(model, rows, objective, epochs=epochs, learning_rate=LEARNING_RATE, evidence_every=0)
    return model


def main() -> int:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    n_splits, epochs = (2, 2) if options.quick else (5, EPOCHS)
    lines, numbers = [], {}
    for name, dropped in TABLES:
        table = read_table(data("tabular", f"{name}.csv"), numbers=CODES.get(name, ()))
        table = table.select([column for column in table.columns if column not in dropped])
        parts = [split(table, seed) for seed in range(n_splits)]
        for model_name, build in MODELS.items():
            held_out: dict[str, list[float]] = {}
            for how in ("EM or closed form", "exact likelihood", "masked, random size"):
                train_values, test_values, seconds = [], [], []
                for rows, test in parts:
                    model, took = timed(partial(train_one, how, build, rows, epochs), time.perf_counter)
                    seconds.append(took)
                    train_values.append(float(model.score_samples(rows).mean()))
                    test_values.append(float(model.score_samples(test).mean()))
                held_out[how] = test_values
                behind = np.array(test_values) - np.array(held_out["EM or closed form"])
                lines.append(
                    (
                        name,
                        model_name,
                        how,
                        mean_and_se(train_values),
                        mean_and_se(test_values),
                        "" if how == "EM or closed form" else mean_and_se(behind, sign="+"),
                        f"{np.median(seconds):.2f}",
                    )
                )
                found = {"train": train_values, "held_out": test_values, "seconds": seconds}
                numbers[f"{name}, {model_name}, {how}"] = found
    title = (
        f"Log evidence, nats per row in standard units, mean ± standard error over {n_splits} splits; "
        f"K={N_COMPONENTS}, {epochs} Adam steps of {LEARNING_RATE}; {machine()}"
    )
    show(title, ("data", "model", "trained by", "training", "held out", "held out − EM, paired", "s"), lines)
    return finish(numbers, [], options.json)


if __name__ == "__main__":
    sys.exit(main())
