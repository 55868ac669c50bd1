"""The cells of a table that look wrong, as a result."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.data.table import Table as Data
from maskevidence.show.parts import Page, Table
from maskevidence.show.shown import Columns, Shown
from maskevidence.show.words import MINUS, count
from maskevidence.support.files import csv_text

_MOST_CELLS, _MOST_ROWS, _MOST_COLUMNS = 20, 8, 8  # of the page


@dataclass(frozen=True)
class Expected:
    """What a model expects in the place of a cell, given the rest of its row."""

    value: float | None = None  # of a number: the median
    low: float | None = None  # the ends of a 90 % interval
    high: float | None = None
    likelier: tuple[tuple[str, float], ...] = ()  # of other columns: words and their probabilities

    def __str__(self) -> str:
        if self.value is not None:
            return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})".replace("-", MINUS)
        return ", ".join(f"{word} {share:.2g}" for word, share in self.likelier)


@dataclass(frozen=True)
class WrongCell:
    """A cell that looks wrong.

    Attributes:
        row: its row's position in the source.
        label: the name of the row, or its position.
        column: its column.
        value: a number, or a word.
        suspicion: log q(value) - log p(value | the rest of the row), nats; 100 for a value that the column
            cannot hold.
        p_value: the share of clean cells that are as suspicious.
        called: whether it is among those called wrong.
        expected: what the model expects in its place.
        fault: of its form: "unknown word", "beyond the range" or "off the grid" of the column; "" for none.
        suggestion: a unit or a swap of columns that would make it ordinary; "" for none.
    """

    row: int
    label: str
    column: str
    value: float | str
    suspicion: float
    p_value: float
    called: bool
    expected: Expected
    fault: str
    suggestion: str

    def to_dict(self) -> dict[str, Any]:
        """The cell as JSON values."""
        expected = vars(self.expected) | {"likelier": str(self.expected) if self.expected.likelier else ""}
        return {name: value for name, value in vars(self).items() if name != "expected"} | {
            "expected" if name == "value" else name: value for name, value in expected.items()
        }


@dataclass(frozen=True, repr=False)
class WrongCells(Shown):
    """The cells of a table in the order of suspicion, and which are called wrong.

    Attributes:
        cells: those that are called wrong, were hidden by the search or have a fault of form, the most
            suspicious first, 1,000 at most.
        table: the rows that were judged, in the columns of the model.
        suspicion: shape (N, D), nats; NaN for holes.
        p_values: shape (N, D); NaN for holes.
        called: shape (N, D); which cells are called wrong.
        rate: the share of the calls that may be false on average.
        n_trusted: the number of trusted rows; 0 where the table's own cells stand for them.
        notes: what a reader needs to know, one sentence each.
    """

    cells: tuple[WrongCell, ...]
    table: Data
    suspicion: Float64[np.ndarray, "N D"]
    p_values: Float64[np.ndarray, "N D"]
    called: Bool[np.ndarray, "N D"]
    rate: float
    n_trusted: int
    notes: tuple[str, ...] = ()

    def page(self) -> Page:
        """The most suspicious cells, the worst rows with their cells marked, and the share of each column."""
        n, n_cells = int(self.called.sum()), int((~np.isnan(self.suspicion)).sum())
        line = f"WrongCells({n:,} of {count(n_cells, 'cell')} called wrong, rate {self.rate:g})"
        headline = f"{n:,} of {count(n_cells, 'cell')} {'is' if n == 1 else 'are'} called wrong"
        aside = f"(at most {100 * self.rate:g} % of such calls are false on average)"
        notes = [*self.notes, "a surprising cell is not always a wrong one: look before you change it"]
        parts = [self._suspicious(), self._worst_rows(), self._by_column()]
        return Page(line, headline, aside, [part for part in parts if part.rows], notes)

    def _suspicious(self) -> Table:
        shown = self.cells[:_MOST_CELLS]
        rows = [
            [
                cell.label,
                cell.column,
                _written(cell.value),
                str(cell.expected),
                "; ".join(filter(None, ["wrong" if cell.called else "", cell.fault, cell.suggestion])),
                f"{cell.p_value:.2g}",
            ]
            for cell in shown
        ]
        title = f"The {count(len(rows), 'most suspicious cell')}"
        bold = {(k, 2) for k, cell in enumerate(shown) if cell.called}
        headings = ["row", "column", "value", "expected (90 %)", "remarks", "p"]
        return Table(headings, rows, title, words=(0, 1, 3, 4), bold=bold, marked=bold)

    def _worst_rows(self) -> Table:
        """Part of the table: the rows with the most suspicious cells, these in colour."""
        places = {int(key): k for k, key in enumerate(self.table.ids)}
        worst = list(dict.fromkeys(places[cell.row] for cell in self.cells))[:_MOST_ROWS]
        of_cells = {cell.column for cell in self.cells if places[cell.row] in worst}
        columns = [j for j, name in enumerate(self.table.columns) if name in of_cells][:_MOST_COLUMNS]
        listed = {(places[cell.row], cell.column) for cell in self.cells}
        rows, marked = [], set()
        for k, i in enumerate(worst):
            rows.append([name_of_row(self.table, i), *(_written(_value(self.table, i, j)) for j in columns)])
            marked |= {(k, m + 1) for m, j in enumerate(columns) if (i, self.table.columns[j]) in listed}
        bold = {(k, m) for k, m in marked if self.called[worst[k], columns[m - 1]]}
        headings = ["row", *(self.table.columns[j] for j in columns)]
        return Table(headings, rows, "The worst rows, suspicious cells in colour", bold=bold, marked=marked)

    def _by_column(self) -> Table:
        """The share of each column's cells that are called wrong."""
        seen = (~np.isnan(self.suspicion)).sum(axis=0)
        rows = [
            [name, f"{called:,} of {n:,}", f"{100 * called / n:.1f} %"]
            for name, called, n in zip(self.table.columns, self.called.sum(axis=0), seen, strict=True)
            if called
        ]
        return Table(["column", "called wrong", "share"], rows, "By column")

    def to_dict(self) -> dict[str, Any]:
        """The listed cells and the counts as JSON values."""
        return {
            "rate": self.rate,
            "n_rows": len(self.table),
            "n_cells": int((~np.isnan(self.suspicion)).sum()),
            "n_called": int(self.called.sum()),
            "n_trusted": self.n_trusted,
            "cells": [cell.to_dict() for cell in self.cells],
            "notes": list(self.notes),
        }

    def columns(self) -> Columns:
        """The listed cells, one a row."""
        rows = [cell.to_dict() for cell in self.cells]
        return Columns({name: [row[name] for row in rows] for name in _COLUMNS})

    def to_csv(self) -> str:
        """The listed cells, one a row; `impute --wrong` reads it."""
        return csv_text(_COLUMNS, zip(*self.columns().values.values(), strict=True))


_COLUMNS = (
    *("row", "label", "column", "value", "expected", "low", "high", "likelier"),
    *("suspicion", "p_value", "called", "fault", "suggestion"),
)


def name_of_row(table: Data, row: int) -> str:
    """The label of a row, its line in a file, or its position."""
    if table.labels is not None:
        return table.labels[row]
    return str(table.ids[row]) if table.lines is None else table.place(row)


def _value(table: Data, row: int, column: int) -> float | str:
    """A cell as a number or a word."""
    value, words = float(table.values[row, column]), table.levels.get(table.columns[column])
    return value if words is None or np.isnan(value) else words[int(value)]


def _written(value: float | str) -> str:
    """A cell of the page."""
    if isinstance(value, str):
        return value
    return "missing" if np.isnan(value) else f"{value:.6g}".replace("-", MINUS)
