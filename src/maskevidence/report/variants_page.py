"""The page of scored mutants: sites by residues as colours, and the agreement with what was measured."""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import InputError
from maskevidence.integrations.proteins.mutant_tables import SUMMARY, TABLE, column_beside
from maskevidence.runs.blocks import read_sealed
from maskevidence.show.parts import Page, Part, Table
from maskevidence.show.pictures import ColourGrid
from maskevidence.show.words import count, typeset
from maskevidence.support.files import reading

_ONE_SITE = re.compile(r"(\w)(\d+)(\w)")
_REMEDY = "score again with --overwrite"
_LABELS, _LOWEST = 60, 20  # named sites, and mutants in the table


def read_variants(folder: Path) -> Page:
    """Read a folder that `variants --out` wrote, as a page."""
    summary = read_sealed(folder / SUMMARY, _REMEDY)
    with reading(folder / TABLE), (folder / TABLE).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = list(summary["plan"]["asked"])
    if summary.get("measured") is not None:
        columns.append(column_beside(summary["measured"], ("mutant", *columns)))
    try:
        mutants = [row["mutant"] for row in rows]
        numbers = {name: np.array([float(row[name] or "nan") for row in rows]) for name in columns}
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{str(folder / TABLE)!r} was changed since ({type(error).__name__}: {error}); {_REMEDY}"
        ) from error
    return _page(summary, mutants, numbers)


def correlation_table(summary: Mapping[str, Any]) -> Table:
    """Spearman's rank correlations with what was measured, from a variants.json."""
    rows = []
    for name, each in summary["correlations"].items():
        value, low, high = (typeset(each[part], 3) for part in ("value", "low", "high"))
        rows.append([name, value, f"{low} to {high}", f"{each['n']:,}"])
    headings = ["score", "correlation", "95 % interval", "mutants"]
    return Table(headings, rows, f"Spearman's rank correlation with {summary['measured']}")


def _page(
    summary: Mapping[str, Any], mutants: Sequence[str], values: Mapping[str, Float64[np.ndarray, " N"]]
) -> Page:
    """The heat maps of the first convention and of the measured effect, and the lowest mutants."""
    conventions, measured = list(summary["plan"]["asked"]), summary.get("measured")
    names = [conventions[0], *(name for name in values if name not in conventions)]
    parts: list[Part] = []
    if measured is not None:
        parts.append(correlation_table(summary))
    for name in names:
        centre = 0.0 if name == conventions[0] else float(np.nanmean(values[name]))
        parts += _heat_map(mutants, values[name], name, centre)
    order = np.argsort(values[conventions[0]], kind="stable")[:_LOWEST]
    cells = [[mutants[k], *(typeset(float(values[name][k]), 3) for name in names)] for k in order.tolist()]
    parts.append(Table(["mutant", *names], cells, f"The lowest by {conventions[0]}, nats"))
    headline = f"{count(len(mutants), 'mutant')} scored by {count(len(conventions), 'convention')}"
    return Page(headline, headline, parts=parts, notes=summary["notes"])


def _heat_map(
    mutants: Sequence[str], values: Float64[np.ndarray, " N"], name: str, centre: float
) -> list[Part]:
    """A sentence and a grid of the substitutions at one site; nothing without any."""
    sites = {k: match for k, mutant in enumerate(mutants) if (match := _ONE_SITE.fullmatch(mutant))}
    if not sites:
        return []
    numbers = {int(match[2]): match[1] for match in sites.values()}
    rows, columns = sorted(numbers), sorted({match[3] for match in sites.values()})
    grid = np.full((len(rows), len(columns)), np.nan)
    for k, match in sites.items():
        grid[rows.index(int(match[2])), columns.index(match[3])] = values[k]
    largest = float(np.nanmax(np.abs(grid - centre))) or 1.0
    every = math.ceil(len(rows) / _LABELS)
    labels = [f"{numbers[site]}{site}" if place % every == 0 else "" for place, site in enumerate(rows)]
    middle = "0" if centre == 0 else f"its mean, {typeset(centre, 3)}"
    what = f"{name}, nats, mutant minus wild type" if centre == 0 else name
    scale = f"{what}: the middle colour is {middle}; cells without a mutant are blank."
    return [scale, ColourGrid(grid, labels, columns, name, "residue", "site", centre, largest)]
