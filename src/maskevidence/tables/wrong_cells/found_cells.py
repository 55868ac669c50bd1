"""The suspicious cells of a table, as a result."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.show.parts import Page, Table
from maskevidence.core.show.shown import Columns, Shown
from maskevidence.core.show.words import cell_text, count, figures, p_text
from maskevidence.core.support.checks import some_of
from maskevidence.core.table import Table as Data
from maskevidence.core.table import cell_value
from maskevidence.tables.reading.dates import DateForm

UNREAD = ("not a number", "not a date")
FAR = "a limit far from what is expected"
_CERTAIN = 100.0  # suspicion of a cell that its column cannot hold
_MOST_CELLS, _MOST_ROWS, _MOST_COLUMNS = 20, 8, 8  # of the page
_MOST_TEXTS = 3  # of a column of numbers


@dataclass(frozen=True, kw_only=True)
class WrongCell:
    """A cell that looks wrong.

    Attributes:
        row: its row's position in the source.
        label: the name of the row, or its position.
        column: its column.
        value: a number, a word, or a date as the column writes it.
        expected: of a number or date, the median of what the model expects given the rest of the row.
        low, high: the ends of the 90 % interval.
        likelier: of other cells, the likelier values and their probabilities, by 100 draws.
        suspicion: log q(value) - log p(value | the rest of the row), nats; of a word that other rows lack,
            by how many words occur once, or by `mixture-transition` by how it is written.
        p_value: the share of clean cells that are as suspicious.
        called: whether it is called wrong, it alone.
        one_of: of a cell of a call that names several, their columns, of which one is wrong; "" for others.
        fault: of its form: "not a number" or "not a date" in a column of them, "unknown word", "beyond the
            range" or "off the grid" of the column; "" for none.
        suggestion: a unit or a swap of columns that would make it ordinary; "" for none.
        suggested: of a word or yes/no, the most probable right value if this one is wrong.
        probability: of that value.
    """

    row: int
    label: str
    column: str
    value: float | str
    expected: float | str | None = None
    low: float | str | None = None
    high: float | str | None = None
    likelier: str = ""
    suspicion: float
    p_value: float
    called: bool = False
    one_of: str = ""
    fault: str
    suggestion: str = ""
    suggested: float | str | None = None
    probability: float | None = None

    def likely(
        self, write: Callable[[float, float], str] = lambda number, _: figures(number, padded=True)
    ) -> str:
        """The value that is likely: with its 90 % interval, or of a word with its probability.

        Args:
            write: a function of a number and of the width of the interval.
        """
        if self.expected is None or self.low is None or self.high is None:
            share = "" if self.probability is None else f" {100 * self.probability:.0f} %"
            return self.likelier if self.suggested is None else cell_text(self.suggested) + share
        ends, width = (self.expected, self.low, self.high), 0.0
        if not isinstance(self.low, str) and not isinstance(self.high, str):
            width = self.high - self.low
        texts = [each if isinstance(each, str) else write(each, width) for each in ends]
        return f"{texts[0]} ({texts[1]} to {texts[2]})"


@dataclass(frozen=True, repr=False)
class WrongCells(Shown):
    """The cells of a table by decreasing suspicion, and the cells called wrong.

    Attributes:
        cells: those of all calls, and others that were hidden by the search or have a fault of form, the most
            suspicious first.
        table: the rows that were judged, in the columns of the model; of a file that was read by row groups,
            the most suspicious ones.
        suspicion: shape (N, D), nats; NaN for holes.
        p_values: shape (N, D); NaN for holes.
        called: shape (N, D); which cells are called wrong, each of them alone.
        calls: shape (N, D); the number of the call that names the cell, 1 for the most suspicious one; 0 for
            none. Cells with one number are a call: one of them is wrong.
        rate: the share of the calls that may be false on average.
        n_trusted: the number of trusted rows; 0 where the table's own cells stand for them.
        notes: what a reader needs to know, one sentence each.
        n_judged: the rows and, by column, the cells that were judged; None for those of `table`.
    """

    cells: tuple[WrongCell, ...]
    table: Data
    suspicion: Float64[np.ndarray, "N D"]
    p_values: Float64[np.ndarray, "N D"]
    called: Bool[np.ndarray, "N D"]
    calls: Int64[np.ndarray, "N D"]
    rate: float
    n_trusted: int
    notes: tuple[str, ...] = ()
    n_judged: tuple[int, Int64[np.ndarray, " D"]] | None = None

    def _judged(self) -> tuple[int, Int64[np.ndarray, " D"]]:
        """The number of rows that were judged, and of cells in each column."""
        return self.n_judged or (len(self.table), (~np.isnan(self.suspicion)).sum(axis=0))

    def page(self) -> Page:
        """The most suspicious cells, the worst rows with their cells marked, and the share of each column."""
        n, n_cells = int(self.called.sum()), int(self._judged()[1].sum())
        n_sets = self._n_calls() - n
        line = f"WrongCells({n:,} of {count(n_cells, 'cell')} called wrong, rate {self.rate:g})"
        headline = f"{n:,} of {count(n_cells, 'cell')} {'is' if n == 1 else 'are'} called wrong"
        aside = f"(at most {100 * self.rate:g} % of such calls are false on average)"
        if n_sets:
            headline += f", and {'once' if n_sets == 1 else f'{n_sets:,} times'} one of several"
        elif not n and self.cells:
            headline, aside = f"{count(len(self.cells), 'cell')} to look at; none is called", ""
        notes = [*self.notes, "a surprising cell is not always a wrong one: look before you change it"]
        parts = [self._suspicious(), self._worst_rows(), self._by_column()]
        return Page(line, headline, aside, [part for part in parts if part.rows], notes)

    def _n_calls(self) -> int:
        """The number of calls, of one cell or of several."""
        return int(self.calls.max(initial=0))

    def _suspicious(self) -> Table:
        shown, rows = few_texts(self.cells)[:_MOST_CELLS], []
        n_texts = Counter(cell.column for cell in self.cells if cell.fault in UNREAD)
        for cell in shown:
            said = "wrong" if cell.called else cell.one_of and f"one of {cell.one_of} is wrong"
            fault = cell.fault
            if fault in UNREAD and n_texts[cell.column] > _MOST_TEXTS:
                fault += f", as {n_texts[cell.column] - 1:,} others of the column"
            remarks = "; ".join(filter(None, [said, fault, cell.suggestion]))
            value = cell_text(cell.value)
            rows.append([cell.label, cell.column, value, cell.likely(), remarks, p_text(cell.p_value)])
        title = f"The {count(len(rows), 'most suspicious cell')}"
        bold = {(k, 2) for k, cell in enumerate(shown) if cell.called or cell.one_of}
        headings = ["row", "column", "value", "likely (90 % interval)", "why", "p"]
        return Table(headings, rows, title, words=(0, 1, 3, 4), bold=bold, marked=bold)

    def _worst_rows(self) -> Table:
        """Part of the table: the rows with the most suspicious cells, these in colour."""
        places = {int(key): k for k, key in enumerate(self.table.ids)}
        listed = dict.fromkeys(
            (places[cell.row], self.table.columns.index(cell.column)) for cell in self.cells
        )
        worst = list(dict.fromkeys(i for i, _ in listed))[:_MOST_ROWS]
        columns = sorted({j for i, j in listed if i in worst})[:_MOST_COLUMNS]
        values, names = self.table.values, [self.table.columns[j] for j in columns]
        odd = {
            (places[row], name): text
            for name, at in self.table.odd.items()
            for row, text in at.items()
            if row in places
        }
        rows = [
            [
                name_of_row(self.table, i),
                *(
                    odd.get((i, self.table.columns[j])) or cell_text(value_of(self.table, j, values[i, j]))
                    for j in columns
                ),
            ]
            for i in worst
        ]
        of_page = {
            (i, j): (worst.index(i), 1 + columns.index(j)) for i, j in listed if i in worst and j in columns
        }
        marked = set(of_page.values())
        bold = {place for cell, place in of_page.items() if self.calls[cell]}
        title = "The worst rows, suspicious cells in colour"
        return Table(["row", *names], rows, title, bold=bold, marked=marked)

    def _by_column(self) -> Table:
        """The share of each column's cells that are called wrong."""
        _, seen = self._judged()
        rows = [
            [name, f"{called:,} of {n:,}", f"{100 * called / n:.1f} %"]
            for name, called, n in zip(self.table.columns, self.called.sum(axis=0), seen, strict=True)
            if called
        ]
        return Table(["column", "called wrong", "share"], rows, "By column")

    def to_dict(self) -> dict[str, Any]:
        """The listed cells and the counts as JSON values."""
        n_rows, seen = self._judged()
        return {
            "rate": self.rate,
            "n_rows": n_rows,
            "n_cells": int(seen.sum()),
            "n_called": int(self.called.sum()),
            "n_calls": self._n_calls(),
            "n_trusted": self.n_trusted,
            "cells": [dict(vars(cell)) for cell in self.cells],
            "notes": list(self.notes),
        }

    def columns(self) -> Columns:
        """The listed cells, one a row."""
        names = [field.name for field in fields(WrongCell)]
        return Columns({name: [getattr(cell, name) for cell in self.cells] for name in names})


def with_numbers(found: WrongCells, of_numbers: WrongCells) -> WrongCells:
    """The results of one search, with those of another one of the same rows for columns of numbers.

    A number has the suspicion by the first search, or half of that by the second one if it is higher: columns
    have heavier tails than the kernels that judge them, and words have not.
    """
    names = of_numbers.table.columns
    place = [found.table.columns.index(name) for name in names]
    suspicion, p_values, called, calls = (
        each.copy() for each in (found.suspicion, found.p_values, found.called, found.calls)
    )
    of_several = np.flatnonzero(np.bincount(calls.ravel()) > 1)
    calls[np.isin(calls, np.intersect1d(of_several, calls[:, place]))] = (
        0  # the second search has its own sets
    )
    suspicion[:, place] = np.fmax(suspicion[:, place], of_numbers.suspicion / 2)
    p_values[:, place] = np.where(called[:, place], p_values[:, place], of_numbers.p_values)
    both = np.where(of_numbers.calls > 0, calls.max(initial=0) + of_numbers.calls, calls[:, place])
    calls[:, place], called[:, place] = both, called[:, place] | of_numbers.called
    listed = {(cell.row, cell.column) for cell in of_numbers.cells}
    cells = [cell for cell in found.cells if (cell.row, cell.column) not in listed]
    at, columns = {int(key): k for k, key in enumerate(found.table.ids)}, found.table.columns
    for k, cell in enumerate(cells := [*cells, *of_numbers.cells]):
        if cell.fault not in (*UNREAD, FAR):
            i, j = at[cell.row], columns.index(cell.column)
            cells[k] = replace(
                cell,
                suspicion=float(suspicion[i, j]),
                p_value=float(p_values[i, j]),
                called=bool(called[i, j]),
                one_of=one_of(calls, columns, (i, j)),
            )
    return replace(
        found,
        cells=tuple(sorted(cells, key=lambda cell: (cell.fault not in UNREAD, -cell.suspicion))),
        suspicion=suspicion,
        p_values=p_values,
        called=called,
        calls=_numbered(calls, suspicion),
        notes=(*found.notes, *(note for note in of_numbers.notes if note not in found.notes)),
    )


def one_of(calls: Int64[np.ndarray, "N D"], columns: Sequence[str], cell: tuple[int, int]) -> str:
    """The columns of a cell's call, if that names several cells."""
    row, call = calls[cell[0]], calls[cell]
    named = [columns[j] for j in np.flatnonzero(row == call).tolist()] if call else []
    return ", ".join(named) if len(named) > 1 else ""


def judged_by_kernels(table: Data) -> str:
    """A note for a table with words and these columns of numbers."""
    return f"numbers are judged by kernel-gaussian, without the words: {some_of(table.columns)}"


def _numbered(calls: Int64[np.ndarray, "N D"], suspicion: Float64[np.ndarray, "N D"]) -> Any:
    """Number the calls from 1, the most suspicious first."""
    numbers, which = np.unique(calls, return_inverse=True)
    most = np.full(len(numbers), -np.inf)
    np.maximum.at(most, which.ravel(), np.nan_to_num(suspicion, nan=-np.inf).ravel())
    most[numbers == 0] = np.inf  # no call
    turn = np.argsort(np.argsort(-most, kind="stable")) + (0 if (numbers == 0).any() else 1)
    return turn[which].reshape(calls.shape)


def odd_cells(table: Data) -> tuple[WrongCell, ...]:
    """The cells with text in a column of numbers: certainly odd, never called."""
    place, found = {int(key): k for k, key in enumerate(table.ids)}, []
    for name, cells in table.odd.items():
        fault = UNREAD[isinstance(table.forms.get(name), DateForm)]
        for row, text in cells.items():
            if row in place and name in table.columns:
                label = name_of_row(table, place[row])
                found.append(
                    WrongCell(
                        row=row,
                        label=label,
                        column=name,
                        value=text,
                        suspicion=_CERTAIN,
                        p_value=0.0,
                        fault=fault,
                    )
                )
    return tuple(found)


def few_texts(cells: Iterable[WrongCell]) -> list[WrongCell]:
    """The cells, of text among numbers only the first few of a column."""
    shown, n = list[WrongCell](), Counter[str]()
    for cell in cells:
        n[cell.column] += cell.fault in UNREAD
        if cell.fault not in UNREAD or n[cell.column] <= _MOST_TEXTS:
            shown.append(cell)
    return shown


def name_of_row(table: Data, row: int) -> str:
    """The label of a row, its line in a file, or its position."""
    if table.labels is not None:
        return table.labels[row]
    return str(table.ids[row]) if table.lines is None else table.place(row)


def value_of(table: Data, column: int, value: float) -> float | str:
    """A value of a column as a number, a word or a date."""
    name = table.columns[column]
    if isinstance(form := table.forms.get(name), DateForm) and not np.isnan(value):
        return form.write(value)
    return cell_value(value, table.levels.get(name))
