"""The page of scored mutants: sites by residues as colours, and the agreement with what was measured."""

import csv
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import InputError
from maskevidence.kinds.mutants import SUMMARY, TABLE, column_beside
from maskevidence.show.parts import Page, Part, Table
from maskevidence.show.pictures import ColourGrid
from maskevidence.show.words import count, typeset
from maskevidence.support.files import read_json, reading

_ONE_SITE = re.compile(r"(\w)(\d+)(\w)")
_LABELS, _LOWEST = 60, 20  # named sites, and mutants in the table


def read_variants(folder: Path) -> Page:
    """Read a folder that `variants --out` wrote, as a page."""
    summary = read_json(folder / SUMMARY, "score again with --overwrite")
    with reading(folder / TABLE), (folder / TABLE).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    try:
        return _page(summary, rows)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise InputError(
            f"{str(folder)!r} was changed since ({reason}); score again with --overwrite"
        ) from error


def _page(summary: Any, rows: Sequence[dict[str, str]]) -> Page:
    """The heat maps of the first convention and of the measured effect, and the lowest mutants."""
    conventions, mutants = list(summary["plan"]["asked"]), [row["mutant"] for row in rows]
    measured = summary.get("measured")
    column = None if measured is None else column_beside(measured, ("mutant", *conventions))
    names = [conventions[0], *([] if column is None else [column])]
    values = {name: np.array([float(row[name] or "nan") for row in rows]) for name in names}
    parts: list[Part] = []
    if measured is not None:
        cells = []
        for name, each in summary["correlations"].items():
            value, low, high = (typeset(each[part], 3) for part in ("value", "low", "high"))
            cells.append([name, value, f"{low} to {high}", f"{each['n']:,}"])
        headings = ["score", "correlation", "95 % interval", "mutants"]
        parts.append(Table(headings, cells, f"Spearman's rank correlation with {measured}"))
    for name in names:
        centre = 0.0 if name == conventions[0] else float(np.nanmean(values[name]))
        parts += _heat_map(mutants, values[name], name, centre)
    order = np.argsort(values[conventions[0]], kind="stable")[:_LOWEST]
    cells = [[mutants[k], *(typeset(float(values[name][k]), 3) for name in names)] for k in order.tolist()]
    parts.append(Table(["mutant", *names], cells, f"The lowest by {conventions[0]}, nats"))
    headline = f"{count(len(rows), 'mutant')} scored by {count(len(conventions), 'convention')}"
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
