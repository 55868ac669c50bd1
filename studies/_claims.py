"""The registered claims, the number of each, and the verdict."""

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from _ranks import Mean, hierarchical_mean, rank_correlation, regret
from _records import Record

FILE = Path(__file__).with_name("claims.toml")
FIXED = {"images": True, "tables": False, "text": True}  # whether the data sets are all there are
HOLDS, FAILS, UNKNOWN, NOT_RUN = "holds", "does not hold", "cannot be told", "not run yet"


class Result(NamedTuple):
    """What the records say of a claim.

    Attributes:
        claim: its entry in claims.toml.
        mean: its number, with the 95 % interval.
        verdict: one of four phrases.
    """

    claim: Mapping[str, Any]
    mean: Mean
    verdict: str


def read_claims(file: Path = FILE) -> list[dict[str, Any]]:
    """The claims in the order in which they were written down."""
    return tomllib.loads(file.read_text())["claim"]


def result_of(claim: Mapping[str, Any], records: Sequence[Record]) -> Result:
    """The number of a claim and its verdict.

    Args:
        claim: its entry in claims.toml.
        records: those of its part.
    """
    mean = hierarchical_mean(values_of_units(claim, records), fixed=FIXED[claim["part"]])
    return Result(claim, mean, verdict(claim, mean))


def verdict(claim: Mapping[str, Any], mean: Mean) -> str:
    """What the interval of a claim's number says, by the rule of claims.toml.

    Example:
        >>> verdict({"above": 0.0}, Mean(0.5, -0.1, 1.1, 5)), verdict({"below": 0.0}, Mean(0.5, 0.2, 0.8, 5))
        ('cannot be told', 'does not hold')
    """
    if math.isnan(mean.value):
        return NOT_RUN
    low, high, threshold = mean.low, mean.high, claim.get("above")
    if threshold is None:
        low, high, threshold = -mean.high, -mean.low, -claim["below"]
    if low > threshold:
        return HOLDS
    return FAILS if high < threshold else UNKNOWN


def values_of_units(claim: Mapping[str, Any], records: Sequence[Record]) -> dict[str, list[float]]:
    """The statistic of a claim in each unit, by data set; units in the order of their seeds."""
    units: dict[tuple[str, int], list[Record]] = {}
    for record in records:
        if _matches(record, claim.get("among", {})):
            units.setdefault((record.get("data_set", ""), record["seed"]), []).append(record)
    values: dict[str, list[float]] = {}
    for (data_set, _), models in sorted(units.items()):
        values.setdefault(data_set, []).append(statistic(claim, models))
    return values


def statistic(claim: Mapping[str, Any], models: Sequence[Record]) -> float:
    """The statistic of a claim over the models of one unit; NaN if they are too few."""
    if claim["statistic"] == "difference":
        first, second = (
            [record[claim["target"]] for record in models if _matches(record, claim[which])]
            for which in ("first", "second")
        )
        known = len(first) == len(second) == 1 and None not in (*first, *second)
        return first[0] - second[0] if known else math.nan
    names = [claim[name] for name in ("target", "by", "less") if name in claim]
    rows = [[record.get(name) for name in names] for record in models]
    table = np.array([row for row in rows if None not in row], dtype=np.float64).reshape(-1, len(names)).T
    function = {"rank": rank_correlation, "regret": regret}[claim["statistic"]]
    of_each = [function(criterion, table[0]) for criterion in table[1:]]
    return of_each[0] - sum(of_each[1:])


def _matches(record: Record, wanted: Mapping[str, Any]) -> bool:
    return all(record.get(name) == value for name, value in wanted.items())
