"""The files of a look at a table."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from maskevidence.core.support.checks import join_words
from maskevidence.core.support.files import csv_text, write_atomic
from maskevidence.core.support.provenance import origin
from maskevidence.core.table import Table
from maskevidence.tables.filling import filled_cells, with_rows_apart, write_sheet
from maskevidence.tables.looking import CELLS, COLUMNS, MODEL, PAGE, SD
from maskevidence.tables.looking.look_page import left_empty, page_of_look
from maskevidence.tables.looking.looked import Looked
from maskevidence.tables.reading.contents import SHEETS
from maskevidence.tables.reading.dates import DateForm
from maskevidence.tables.table_files import is_text, write_table
from maskevidence.tables.wrong_cells.found_cells import WrongCell

_COLUMNS = (
    "column",
    "kind",
    "used_as",
    "writing",
    "why",
    "empty",
    "different",
    "filled",
    "error",
    "error_without_model",
    "error_is",
    "note",
)


def name_of_filled(look: Looked) -> str:
    """The name of the filled table, in the format of the given one."""
    suffix = Path(look.raw.name).suffix.lower()
    kept = (".parquet", ".feather", ".tsv", *(SHEETS if Path(look.raw.name).is_file() else ()))
    return f"filled{suffix}" if suffix in kept else "filled.csv"


def write_look(look: Looked, folder: Path) -> None:
    """Write the filled table, its errors, the cells, the columns, the model and the page."""
    from maskevidence.command.pages.page import write_report

    raw, target = look.raw, folder / name_of_filled(look)
    if target.suffix in SHEETS:
        of = look.modelled
        cells = None if of is None else (of.table, of.filled, of.holes)
        write_sheet(target, raw, _filled(look, as_text=True), cells)
    else:
        as_text = raw.first_line > 0 and is_text(target)
        whole, layout = with_rows_apart(_filled(look, as_text=as_text), raw), {}
        if as_text:
            layout = {"above": raw.above, "encoding": raw.encoding, "line_end": raw.line_end}
        write_table(whole, target, raw.delimiter, **layout)
    names, rows = _errors(look)
    write_atomic(folder / SD, csv_text(names, rows))
    write_atomic(folder / CELLS, csv_text(*_cells(look)))
    write_atomic(folder / COLUMNS, csv_text(*lines_of_columns(look)))
    if look.modelled is not None:
        look.modelled.model.save(folder / MODEL)
    page = page_of_look(look)
    where = (
        f"The file was not changed. {target.name} is a copy with its holes filled, where suspicious cells "
        f"stand as they were; {CELLS} lists them."
    )
    write_report(replace(page, parts=[page.parts[0], where, *page.parts[1:]]), folder / PAGE)


def _value_text(table: Table, name: str, value: float) -> str:
    """A filled value as a word, a date, or a number of ten digits."""
    if name in table.levels:
        return str(table.levels[name][int(value)])
    form = table.forms.get(name)
    return form.write(value) if isinstance(form, DateForm) else f"{value:.10g}"


def _errors(look: Looked) -> tuple[list[str], list[list[object]]]:
    """One line per filled cell: its mean, and its standard deviation or probability."""
    names = ["row", "line", "column", "filled", "mean", "sd", "probability"]
    if look.modelled is None:
        return names, []
    of, rows = look.modelled, list[list[object]]()
    for j, name in enumerate(of.table.columns):
        for i in np.flatnonzero(of.holes[:, j]).tolist():
            row, mean, deviation = int(of.table.ids[i]), of.means[i, j], f"{of.deviation[i, j]:.4g}"
            line = "" if of.table.lines is None else of.table.lines[row]
            value = _value_text(of.table, name, of.filled[i, j])
            of_mean = [f"{mean:.6g}", deviation, ""]
            rows.append([row, line, name, value, *(["", "", deviation] if name in of.likeliest else of_mean)])
    return names, rows


def _filled(look: Looked, *, as_text: bool) -> Any:
    """The file's columns with their holes filled."""
    if (of := look.modelled) is None:
        return look.raw.columns
    pairs = [each.name for each in look.description.columns if each.kind == "yes/no"]
    return filled_cells(look.raw, of.table, of.filled, of.holes, as_text, pairs)


def _cells(look: Looked) -> tuple[list[str], list[tuple[object, ...]]]:
    """The cells to look at, the most suspicious first."""
    names = [field.name for field in fields(WrongCell)]
    return names, [tuple(getattr(cell, name) for name in names) for cell in look.cells]


def lines_of_columns(look: Looked) -> tuple[list[str], list[list[object]]]:
    """The columns of the table with their kinds, holes and errors."""
    rows = list[list[object]]()
    for each in look.description.columns:
        fill = None if look.modelled is None else look.modelled.fills.get(each.name)
        line = [
            each.name,
            each.kind,
            each.used_as or "",
            each.writing,
            each.why,
            each.n_missing,
            each.n_different,
        ]
        if fill is None:
            rows.append([*line, 0, "", "", "", left_empty(look, each.name)])
            continue
        is_error = "share right" if fill.words else "RMSE"
        line += [fill.holes, f"{fill.quality:.4g}", f"{fill.without:.4g}", is_error, _note(look, each.name)]
        rows.append(line)
    return list(_COLUMNS), rows


def _note(look: Looked, name: str) -> str:
    """The written form of filled values that differ from the means."""
    assert look.modelled is not None
    of = look.modelled
    j = of.table.columns.index(name)
    hole = of.holes[:, j]
    if name in of.simple:
        return f"filled with the {of.simple[name]}, because the model does no better"
    if (
        name in of.table.levels
        or not hole.any()
        or np.allclose(of.filled[hole, j], of.means[hole, j], rtol=1e-3)
    ):
        return ""
    return f"filled as the column is written; the means are in {SD}"


def content_of_look(look: Looked) -> dict[str, Any]:
    """The content of table.json."""
    described = look.description.to_dict()
    options = {name: value for name, value in vars(look.options).items() if value is not None}
    if look.modelled is not None and "columns" not in options:
        options["columns"] = join_words(look.modelled.table.columns)
    return {
        "file": look.description.name,
        "n_rows": look.description.n_rows,
        "columns": described["columns"],
        "findings": described["findings"],
        "options": options,
        "model": None if look.modelled is None else look.modelled.word,
        "folds": None if look.modelled is None else look.modelled.folds,
        "filled": look.n_filled,
        "cells": len(look.cells),
        "fills": {} if look.modelled is None else {k: v._asdict() for k, v in look.modelled.fills.items()},
        "notes": list(look.notes),
        "seconds": round(look.seconds, 1),
        **origin(),
    }
