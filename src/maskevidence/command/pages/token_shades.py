"""Scores of single tokens, and shades to show them."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from maskevidence.core.masks.sizes import LeaveOneOut
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.show.words import typeset
from maskevidence.runs.directory import TOKENS


@dataclass(frozen=True)
class Shades:
    """A scale from step 0, likely and without shade, to step 5, unlikely and darkest."""

    edges: tuple[float, ...]  # five decreasing log-probabilities; values from the first upwards have step 0
    names: tuple[str, ...]  # names of the six steps
    unit: str  # quantity and unit of the values

    def step(self, log_prob: float) -> int:
        """Map a log-probability to its step.

        Example:
            >>> of_probabilities().step(-0.01), of_probabilities().step(-10.0)
            (0, 5)
        """
        return sum(log_prob < edge for edge in self.edges)


def of_probabilities() -> Shades:
    """Shades for discrete tokens, with steps at probabilities 1/2, 1/10, 1/100, 1/1000 and 1/10,000."""
    edges = tuple(float(np.log(p)) for p in (0.5, 0.1, 0.01, 0.001, 0.0001))
    first, *others = ("1/2", "1/10", "1/100", "1/1000", "1/10,000")
    names = (f"p ≥ {first}", *(f"≥ {share}" for share in others), f"< {others[-1]}")
    return Shades(edges, names, "probability of the token")


def of_densities(scores: Sequence[Float64[np.ndarray, " D"]]) -> Shades:
    """Shades for log-densities, which have no natural steps: at the 50, 25, 10, 5 and 1 % quantiles."""
    values = np.concatenate(scores)
    edges = tuple(float(edge) for edge in np.quantile(values, (0.5, 0.25, 0.1, 0.05, 0.01)))
    shown = [typeset(edge) for edge in edges]
    return Shades(edges, (*(f"≥ {edge}" for edge in shown), f"< {shown[-1]}"), "log-density, nats")


def scores_of_tokens(scores: ScoreTable, design: str) -> dict[int, Float64[np.ndarray, " D"]]:
    """log p of each token given all others, by observation; empty unless the design is leave-one-out."""
    if design != LeaveOneOut.name:
        return {}
    table = scores.sorted()
    ids, first = np.unique(table.id, return_index=True)
    return dict(zip(ids.tolist(), np.split(table.score, first[1:]), strict=True))


def read_tokens(folder: Path, scores: dict[int, Float64[np.ndarray, " D"]]) -> dict[int, list[str]] | None:
    """Read the tokens of each observation from tokens.csv; None unless its scores equal `scores`."""
    if not (folder / TOKENS).is_file():
        return None
    try:
        with (folder / TOKENS).open(newline="", encoding="utf-8") as file:
            rows = [(int(row["id"]), row["token"], float(row["log_prob"])) for row in csv.DictReader(file)]
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        return None
    tokens: dict[int, list[str]] = {}
    values: dict[int, list[float]] = {}
    for key, token, value in rows:
        tokens.setdefault(key, []).append(token)
        values.setdefault(key, []).append(value)
    same = values.keys() == scores.keys() and all(np.array_equal(scores[key], values[key]) for key in values)
    return tokens if same else None
