"""The page of a look at a table: decisions, filled holes and suspicious cells."""

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.core.show.parts import Bars, BigNumbers, Group, Page, Part, Table
from maskevidence.core.show.pictures import CellMap
from maskevidence.core.show.words import MINUS, count, figures
from maskevidence.core.support.checks import some_of, typed
from maskevidence.core.support.provenance import origin
from maskevidence.core.table import cell_value
from maskevidence.tables.choosing.selection import error_left
from maskevidence.tables.filling import decimals_written_in
from maskevidence.tables.looking.looked import Looked, Modelled
from maskevidence.tables.looking.reading import meant_words
from maskevidence.tables.reading.dates import DateForm
from maskevidence.tables.reading.description import DECIDE, LOOK
from maskevidence.tables.reading.numbers import NumberForm, decimals_of
from maskevidence.tables.table_files import names_of
from maskevidence.tables.wrong_cells.cell_search import BEYOND, OF_GRID, OFF_GRID
from maskevidence.tables.wrong_cells.found_cells import UNREAD, WrongCell, few_texts

STATES = ("as given", "filled", "left empty", "to look at")
_BINS, _MOST_CELLS, _MOST_LINKED = 12, 100, 24
_SUSPICIOUS, _SLIP = 5.0, 7.0  # nats of a cell to look at, and of one that looks like a typing error
_MOST_IN_TERMINAL = 10
_HARDLY = 0.9  # error left, of that of the mean or commonest word
_DIGITS, _SIGNIFICANT = 3, 4  # of an interval's width; of a number with more than six decimals


_EXCHANGED = "exchanged, both would fit the row"  # of two cells
_COMMA = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")  # between thousands of a count
_QUOTED = re.compile(r"('[^']*')")  # cells of the file
_QUESTIONS = {
    "type": "Numbers or words?",
    "mixed": "Numbers or words?",
    "decimals": "Decimals or thousands?",
    "date order": "Day or month first?",
    "codes": "Codes, not amounts?",
    "leading zeros": "Codes, not amounts?",
    "near numbers": "Numbers with a unit?",
    "unit": "The same unit everywhere?",
    "percent": "Percentages?",
    "currency": "The same currency?",
    "units row": "No row of data?",
    "totals": "No row of data?",
    "header": "No row of data?",
    "separator": "Columns cut rightly?",
    "odd cells": "Wrong, or missing?",
    "missing words": "Missing values?",
    "id": "Only names of rows?",
    "text": "Of use as free text?",
    "spellings": "The same word?",
    "copy": "Needed twice?",
    "determined": "Needed twice?",
    "equal rows": "The same row twice?",
    "constant": "One value: is it right?",
    "empty": "Empty: is it right?",
}


def page_of_look(look: Looked) -> Page:
    """The whole page."""
    heading, sentence = _decisions(look)
    groups = [
        Group(heading, [sentence, findings] if (findings := _findings(look)).rows else [findings]),
        Group("The table", ["Each strip is a column, from the first row to the last.", map_of_cells(look)]),
        Group("Columns", [_columns(look)]),
    ]
    if look.modelled is not None:
        groups += [_cells(look), _holes(look, look.modelled), _links(look.modelled)]
    kept = [
        group for group in groups if any(not isinstance(part, Table) or part.rows for part in group.parts)
    ]
    line = f"Look({look.description.name!r}: {_headline(look)})"
    made = {"Model": "none" if look.modelled is None else f"{look.modelled.word} (--model)"}
    made |= {"Time": f"{look.seconds:.0f} seconds (--minutes)", "Command": origin()["command"]}
    made["Versions"] = ", ".join(f"{name} {version}" for name, version in origin()["versions"].items())
    parts: list[Part] = [BigNumbers(_answers(look)), *kept]
    about = f"A look at {PurePath(look.description.name).name}"
    said = {each.sentence() for each in look.description.findings}
    notes = [
        _counts(look, note) for note in look.notes if note not in said and "from an earlier row" not in note
    ]
    return Page(line, _headline(look), "", parts, notes, made, about)


def short_page(look: Looked) -> Page:
    """The page for a terminal: results, open decisions and the first suspicious cells."""
    parts: list[Part] = [BigNumbers(_answers(look))]
    findings = [_counts(look, each.sentence()) for each in look.description.findings if each.weight >= LOOK]
    if findings:
        parts += [
            f"\n{_decisions(look)[0]}{_of_all(findings)}",
            *(f"- {each}" for each in findings[:_MOST_IN_TERMINAL]),
        ]
    if look.modelled is not None and (table := _table_of_cells(look)).rows:
        parts.append(f"\nCells to look at{_of_all(table.rows)}")
        parts.append(replace(table, rows=table.rows[:_MOST_IN_TERMINAL]))
    notes = look.notes[-1:] if look.modelled is None else [*filter(None, [look.modelled.of_time])]
    return Page("", _headline(look), "", parts, notes)


def _counts(look: Looked, words: str) -> str:
    """Counts with a narrow space between thousands where the file's numbers have decimal commas."""
    if look.description.decimal != ",":
        return words
    parts = _QUOTED.split(words)
    return "".join(each if k % 2 else _COMMA.sub("\u202f", each) for k, each in enumerate(parts))


def _decisions(look: Looked) -> tuple[str, str]:
    """The heading of the findings, and a sentence on them."""
    file = f" to: maskevidence look {typed([PurePath(look.description.name).name])} --overwrite"
    otherwise = (
        f"which stands if it is right; to change it, add the option{file if look.given is None else '.'}"
    )
    if any(each.weight >= DECIDE for each in look.description.findings):
        return (
            "Decisions and assumptions",
            f"Bold questions need a decision. Each line says what was assumed, {otherwise}",
        )
    return "Assumptions", f"No question needs a decision. Each line says what was assumed, {otherwise}"


def _of_all(listed: Sequence[object]) -> str:
    more = len(listed) - _MOST_IN_TERMINAL
    return f" (the page has {more:,} more)" if more > 0 else ""


def _headline(look: Looked) -> str:
    n_rows, n_columns = look.description.n_rows, len(look.description.columns)
    return _counts(look, f"{count(n_rows, 'row')}, {count(n_columns, 'column')}")


def _answers(look: Looked) -> list[tuple[str, str, str]]:
    """The numbers of the first screen."""
    decide = [*dict.fromkeys(each.column for each in look.description.findings if each.weight >= DECIDE)]
    n_empty = int(sum(each.n_missing for each in look.description.columns)) - look.n_filled
    verb = "needs" if len(decide) == 1 else "need"
    named = some_of([name or "the file" for name in decide], 3)
    answers = [(f"{len(decide)}", f"column{'' if len(decide) == 1 else 's'} {verb} a decision", named)]
    remark = f"{n_empty:,} left empty" if n_empty > 0 else ""
    if look.modelled is not None:
        remark = "; ".join(filter(None, [*_how_well_filled(look.modelled), remark]))
    answers.append((f"{look.n_filled:,}", f"hole{'' if look.n_filled == 1 else 's'} filled", remark))
    cells = listed_cells(look)
    slips, n = sum(map(_is_slip, cells)), len(cells)
    looks = "1 looks like a typing error" if slips == 1 else f"{slips:,} look like typing errors"
    answers.append((f"{n:,}", f"cell{'' if n == 1 else 's'} to look at", looks if slips else ""))
    return [(_counts(look, n), words, _counts(look, remark)) for n, words, remark in answers]


def _how_well_filled(modelled: Modelled) -> list[str]:
    """Of numbers and of words the median over columns, weighted by holes; and the columns to trust least."""
    said, fills = [], {name: fill for name, fill in modelled.fills.items() if fill.holes}
    for of_words, words in (
        (False, "typical error {:.0f} % of a column’s spread"),
        (True, "words {:.0f} % right"),
    ):
        some = [fill for fill in fills.values() if fill.words == of_words and fill.without > 0]
        if some:
            shares = [(fill.quality / (1.0 if of_words else fill.without), fill.holes) for fill in some]
            values, holes = np.array(sorted(shares)).T
            said.append(words.format(100 * values[np.searchsorted(np.cumsum(holes), holes.sum() / 2)]))
    if worst := [name for name, fill in fills.items() if error_left(fill) > _HARDLY]:
        said.append(f"hardly better than the mean or commonest word: {some_of(worst, 3)}")
    return said


def _is_slip(cell: WrongCell) -> bool:
    """Whether a cell looks like a typing error: unread, or normal after shifting or swapping digits."""
    shifted = cell.suggestion.removeprefix("× ").removeprefix("÷ ") in ("10", "100")
    other = bool(cell.suggestion) and cell.suggestion[0] not in "×÷"
    return cell.fault in UNREAD or (cell.suspicion > _SLIP and (shifted or other))


def listed_cells(look: Looked) -> list[WrongCell]:
    """Text among numbers, and suspicious cells that are neither names of rows nor mere spellings."""
    if look.modelled is None:
        return []
    table, named = look.modelled.table, {each.name for each in look.description.columns if each.kind == "id"}
    spelt = {(name, word) for name in table.levels for word in meant_words(table, name)}
    return [
        cell
        for cell in look.cells
        if cell.suspicion - OF_GRID * (cell.fault == OFF_GRID) > _SUSPICIOUS
        and (cell.column, cell.value) not in spelt
        and (cell.column not in named or cell.fault in UNREAD)
    ]


def _findings(look: Looked) -> Table:
    """The findings that the user may override, most serious first."""
    listed = [each for each in look.description.findings if each.weight >= LOOK or each.what == "constant"]
    columns = list(dict.fromkeys(each.column for each in listed))  # that with the worst finding first
    listed.sort(key=lambda each: columns.index(each.column))
    rows = [
        [
            "Missing values?" if "--missing" in each.option else _QUESTIONS.get(each.what, f"{each.what}?"),
            each.column or "the file",
            _counts(look, f"{each.n_cells:,}"),
            "; ".join(map(str, each.first)),
            _counts(look, each.assumed),
            each.option,
        ]
        for each in listed
    ]
    bold = {(k, 0) for k, each in enumerate(listed) if each.weight >= DECIDE}
    headings = ["question", "column", "cells", "examples", "what was assumed", "to change it"]
    words = (0, 1, 3, 4, 5)
    return Table(headings, rows, "", words, bold, marked=bold, sortable=True, elsewhere="table.json")


def map_of_cells(look: Looked) -> CellMap:
    """The state of every cell."""
    names = names_of(look.raw)
    states = np.zeros((look.raw.columns.num_rows, len(names)), dtype=np.int8)
    places = {name: k for k, name in enumerate(names)}
    for k, column in enumerate(look.raw.columns.columns):
        states[:, k] = np.where(_blank(column), np.int8(2), np.int8(0))
    for name, values in zip(look.table.columns, look.table.values.T, strict=True):
        if name in places:
            states[look.table.ids[np.isnan(values)], places[name]] = 2
    if look.modelled is not None:
        table = look.modelled.table
        for j, name in enumerate(table.columns):
            states[table.ids[look.modelled.holes[:, j]], places[name]] = 1
    for cell in listed_cells(look):
        states[cell.row, places[cell.column]] = 3
    return CellMap(states, names, STATES)


def _blank(column: Any) -> Bool[np.ndarray, " N"]:
    """Which cells of a column of the file are empty."""
    cells = column.to_pylist()
    return np.array([cell is None or (isinstance(cell, str) and not cell.strip()) for cell in cells])


def _columns(look: Looked) -> Table:
    rows = []
    for each in look.description.columns:
        bars, values = _distribution(look, each.name)
        rows.append(
            [
                each.name,
                each.kind,
                bars,
                values,
                _counts(look, f"{each.n_missing:,}"),
                "; ".join(filter(None, [_counts(look, each.why), each.writing, left_empty(look, each.name)])),
            ]
        )
    headings = ["column", "kind", "distribution", "values", "empty", "how it was read"]
    return Table(headings, rows, words=(0, 1, 2, 3, 5), sortable=True, elsewhere="columns.csv")


def left_empty(look: Looked, name: str) -> str:
    """Why the holes of a column are not filled; "" if they are, or if there are none."""
    each = look.description[name]
    if not each.n_missing or look.modelled is None or name in look.modelled.table.columns:
        return ""
    if name not in look.table.columns:
        return "" if each.kind == "empty" else "not filled: models do not take it"
    known = int((~np.isnan(look.table.values[:, look.table.columns.index(name)])).sum())
    few = f"its {count(known, 'known cell')} {'is' if known == 1 else 'are'}"
    return f"not filled: {few} too few or too alike to learn from"


def _distribution(look: Looked, name: str) -> tuple[str, str]:
    """A small histogram of a column and its range, or its commonest words."""
    if name not in look.table.columns:
        return "", ""
    values = look.table.values[:, look.table.columns.index(name)]
    known = values[~np.isnan(values)]
    if not len(known):
        return "", ""
    if name in look.table.levels:
        words = Counter(known.tolist()).most_common()
        some = ", ".join(f"{look.table.levels[name][int(code)]} ({n:,})" for code, n in words[:3])
        return Bars([n for _, n in words[:_BINS]]), _counts(look, some) + (" ..." if len(words) > 3 else "")
    low, middle, high = np.quantile(known, (0.01, 0.5, 0.99))
    counts = np.unique(known, return_counts=True)[1]
    if len(counts) > _BINS:
        counts = np.histogram(np.clip(known, low, high), _BINS)[0]
    shown = [*map(writer(look, name), map(float, (known.min(), known.max(), middle)))]
    return Bars(counts.tolist()), f"{shown[0]} to {shown[1]}; median {shown[2]}"


def writer(look: Looked, name: str) -> Callable[..., str]:
    """A function that writes a value as the column does, or with the digits that a width leaves certain."""
    table, j = look.table, look.table.columns.index(name)
    if name in table.levels:
        return lambda value: str(cell_value(value, table.levels[name]))
    form, decimals = table.forms.get(name), decimals_of(table.values[~np.isnan(table.values[:, j]), j])
    if isinstance(form, DateForm):
        return lambda value, _=0.0: form.write(value if decimals is None else round(value, decimals))
    column = look.raw.columns.column(names_of(look.raw).index(name))
    as_text = look.raw.first_line > 0
    written = (decimals_written_in(table, j, column) if as_text else None) or decimals
    most = written if written is None else min(written, _SIGNIFICANT)
    of_column = form or NumberForm()

    def write(value: float, width: float = 0.0) -> str:
        places = most
        if 0 < width < math.inf:
            needed = max(0, _DIGITS - 1 - math.floor(math.log10(width)))
            places = needed if most is None else min(most, needed)
        value = float(f"{value:.{_SIGNIFICANT}g}") if places is None else value
        return replace(of_column, decimals=places).write(value).replace("-", MINUS)

    return write


def _as_it_stands(look: Looked, cell: WrongCell) -> str:
    """The text of a cell in the file."""
    column = look.raw.columns.column(names_of(look.raw).index(cell.column))
    return str(column[cell.row].as_py())


def _cells(look: Looked) -> Group:
    assert look.modelled is not None
    table = _table_of_cells(look)
    words = (
        "The most suspicious first: cells that the rest of their row makes unlikely. Not every one is wrong; "
        "none was changed. The interval holds nine of ten right values. Two exchanged cells share a line."
    )
    more = len(listed_cells(look)) - sum(1 + (row[4] == _EXCHANGED) for row in table.rows)
    parts: list[Part] = [words, table]
    if more > 0:
        parts.append(_counts(look, f"{more:,} more are in cells.csv."))
    return Group("Cells to look at", parts if table.rows else [table])


def _table_of_cells(look: Looked) -> Table:
    rows, write, swapped = list[list[str]](), dict[str, Callable[..., str]](), dict[tuple[int, str], int]()
    for cell in few_texts(listed_cells(look))[:_MOST_CELLS]:
        if cell.column not in write:
            write[cell.column] = writer(look, cell.column)
        likely = cell.likely(write[cell.column])
        line = [cell.label, cell.column, _as_it_stands(look, cell), likely, _why(cell)]
        place = swapped.get((cell.row, f"swap with {cell.column!r}"))
        if place is not None and cell.suggestion == f"swap with {rows[place][1]!r}":
            rows[place][1:4] = [f"{a}; {b}" for a, b in zip(rows[place][1:4], line[1:4], strict=True)]
            rows[place][4] = _EXCHANGED
            continue
        swapped[cell.row, cell.suggestion] = len(rows)
        rows.append(line)
    headings = ["where", "column", "value in the file", "likely (90 % interval)", "why"]
    marked = {(k, 2) for k in range(len(rows))}
    return Table(headings, rows, words=(0, 1, 2, 3, 4), marked=marked, sortable=True, elsewhere="cells.csv")


def _why(cell: WrongCell) -> str:
    """The suspected error in words."""
    if cell.suggestion.startswith(("×", "÷")):
        return f"{cell.suggestion} would fit the row"
    if cell.suggestion or cell.fault not in ("", BEYOND):
        return cell.suggestion or cell.fault
    return f"unlikely beside {cell.one_of}" if cell.one_of else "unlikely in its row"


def _holes(look: Looked, modelled: Modelled) -> Group:
    rows = []
    for name, fill in modelled.fills.items():
        if not fill.holes:
            continue
        if fill.words:
            shown = [f"{100 * share:.0f} % right" for share in (fill.quality, fill.without)]
        else:
            form = look.table.forms.get(name)
            decimal = form.decimal if isinstance(form, NumberForm) else "."
            both = (fill.quality, fill.without)
            errors = [figures(error, 3, padded=True).replace(".", decimal) for error in both]
            shown = [f"± {error}{_unit(form)}" for error in errors]
        how = modelled.simple.get(name, "model")
        rows.append([name, _counts(look, f"{fill.holes:,}"), how, *shown, f"{100 * error_left(fill):.0f} %"])
    words = (
        "Known values of rows that the model had not seen were hidden and filled, to see how far off filled "
        "values are: the root mean square error of numbers, the share of words that are right. Beside it, "
        "the same for the column’s mean or commonest word. Where the model does no better, the column is "
        "filled with its mean, its median if it is skewed, or its commonest word: error left 100 %. Values "
        "that look wrong do not count."
    )
    beside = ["mean or commonest", "error left"]
    heads = ["column", "filled", "by", "typical error", *beside]
    table = Table(heads, rows, words=(0, 2), sortable=True, elsewhere="columns.csv")
    return Group("Holes", [words, table] if rows else [table])


def _unit(form: object) -> str:
    """The unit of a column's errors, after a blank."""
    if isinstance(form, DateForm):
        return " days"
    return (
        f" {unit}" if isinstance(form, NumberForm) and (unit := (form.suffix or form.prefix).strip()) else ""
    )


def _link_text(strength: float) -> str:
    return f"{strength:.2f}" if strength else "·"


def _links(modelled: Modelled) -> Group:
    """A matrix of the links between columns; of many columns, the most linked."""
    strength: Float64[np.ndarray, "D D"] = np.nan_to_num(modelled.links)
    if len(strength) < 2 or np.isnan(modelled.links).all():
        return Group("How columns are related", ["Not measured; the notes below say why."])
    order = np.sort(np.argsort(-strength.max(axis=1), kind="stable")[:_MOST_LINKED])
    names = [modelled.table.columns[j] for j in order]
    rows, shades = list[list[str]](), dict[tuple[int, int], float]()
    for i, row in enumerate(order):
        cells = [_link_text(strength[row, column]) if row != column else "" for column in order]
        shades |= {(i, j + 2): float(strength[row, column]) for j, column in enumerate(order)}
        rows.append([f"{i + 1}", names[i], *cells])
    words = (
        "How much one column tells about another, from 0 (·, nothing beyond chance) to 1 (everything), by "
        "mutual information on rows that the model had not seen. Between normal columns it is the size of "
        "their correlation. A relation is not a cause."
    )
    numbers = [f"{i + 1}" for i in range(len(order))]  # names would not stand side by side
    parts: list[Part] = [words, Table(["", "column", *numbers], rows, words=(0, 1), shades=shades)]
    if len(strength) > len(order):
        parts.append(f"The {len(order)} columns with the strongest links of {len(strength)}.")
    return Group("How columns are related", parts)
