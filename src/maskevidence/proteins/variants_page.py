"""The page of scored mutants: heat maps of sites by residues, and correlations with a measurement."""

import csv
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError
from maskevidence.core.show.parts import Page, Part, Table
from maskevidence.core.show.pictures import ColourGrid
from maskevidence.core.show.words import count, typeset
from maskevidence.core.support.files import reading
from maskevidence.core.support.provenance import made_of
from maskevidence.proteins.mutant_tables import SUMMARY, TABLE, column_beside
from maskevidence.proteins.variant_scores import best_and_worst
from maskevidence.runs.folder import read_sealed

_ONE_SITE = re.compile(r"(\w)(\d+)(\w)")
_REMEDY = "score again with --overwrite"
_LABELS, _SHOWN = 60, 10  # labelled sites, and mutants at either end of the table


def read_variants(folder: Path) -> Page:
    """Build the page of a folder that `variants --out` wrote."""
    summary = read_sealed(folder / SUMMARY, _REMEDY)
    with reading(folder / TABLE), (folder / TABLE).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = list(summary.get("ranked", summary["plan"]["asked"]))
    conventions = list(columns)
    if summary.get("measured") is not None:
        columns.append(column_beside(summary["measured"], ("mutant", *columns)))
    try:
        mutants = [row["mutant"] for row in rows]
        errors = [f"{name}_mask_se" for name in conventions if rows and f"{name}_mask_se" in rows[0]]
        numbers = {
            name: np.array([float(row[name] or "nan") for row in rows]) for name in (*columns, *errors)
        }
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{str(folder / TABLE)!r} was changed since ({type(error).__name__}: {error}); {_REMEDY}"
        ) from error
    mask_se = {name.removesuffix("_mask_se"): numbers.pop(name) for name in errors}
    scores = {name: numbers.pop(name) for name in conventions}
    return _page(summary, mutants, scores, mask_se, numbers)


def correlation_table(summary: Mapping[str, Any]) -> Table:
    """The table of Spearman's rank correlations with the measured effect, from a variants.json."""
    alike: dict[tuple[float, ...], list[str]] = {}  # merges equal rows, as for single mutants
    for name, each in summary["correlations"].items():
        numbers = tuple(round(each[part], 6) for part in ("value", "low", "high", "n"))
        alike.setdefault(numbers, []).append(name)
    rows = []
    for (*parts, n), names in alike.items():
        value, low, high = (typeset(part, 3) for part in parts)
        rows.append([", ".join(names), value, f"{low} to {high}", f"{n:,}"])
    headings = ["score", "correlation", "95 % interval", "mutants"]
    return Table(headings, rows, f"Spearman's rank correlation with {summary['measured']}")


def _page(
    summary: Mapping[str, Any],
    mutants: Sequence[str],
    scores: Mapping[str, Float64[np.ndarray, " N"]],
    mask_se: Mapping[str, Float64[np.ndarray, " N"]],
    measured: Mapping[str, Float64[np.ndarray, " N"]],
) -> Page:
    """The best and the worst mutants, and heat maps of the first convention and the measured effect."""
    parts: list[Part] = []
    if measured:
        parts.append(correlation_table(summary))
    first = next(iter(scores))
    parts.append(best_and_worst(mutants, scores, mask_se, _SHOWN, measured))
    parts += _heat_maps(mutants, {first: scores[first], **measured}, first)
    headline = (
        f"{count(len(mutants), 'mutant')} scored by {count(len(summary['plan']['asked']), 'convention')}"
    )
    return Page(headline, headline, parts=parts, notes=summary["notes"], made=made_of(summary))


def _heat_maps(
    mutants: Sequence[str], columns_of: Mapping[str, Float64[np.ndarray, " N"]], convention: str
) -> list[Part]:
    """A heat map of single substitutions for each column; empty if there are none."""
    sites = {k: match for k, mutant in enumerate(mutants) if (match := _ONE_SITE.fullmatch(mutant))}
    if not sites:
        return []
    numbers = {int(match[2]): match[1] for match in sites.values()}
    rows, columns = sorted(numbers), sorted({match[3] for match in sites.values()})
    every = math.ceil(len(rows) / _LABELS)
    labels = [f"{numbers[site]}{site}" if place % every == 0 else "" for place, site in enumerate(rows)]
    grids: list[Part] = []
    middles = []
    for name, values in columns_of.items():
        grid = np.full((len(rows), len(columns)), np.nan)
        for k, match in sites.items():
            grid[rows.index(int(match[2])), columns.index(match[3])] = values[k]
        centre = 0.0 if name == convention else float(np.nanmean(values))
        words = f"{name}, nats, mutant minus wild type" if name == convention else name
        largest = float(np.nanmax(np.abs(grid - centre))) or 1.0
        middles.append(f"{'0' if centre == 0 else f'the mean, {typeset(centre, 3)}'} ({name})")
        grids.append(ColourGrid(grid, labels, columns, words, "residue", "site", centre, largest))
    return [
        f"The middle colour stands for {' and '.join(middles)}. Cells without a mutant are grey.",
        *grids,
    ]
