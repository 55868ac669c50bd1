"""The result of describing a table: columns, odd cells and findings, most serious first."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from maskevidence.core.show.parts import Page, Table
from maskevidence.core.show.shown import Columns, HasPage, data_frame
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import some_of

ColumnKind = Literal["number", "date", "yes/no", "words", "text", "id", "constant", "empty"]
DECIDE, LOOK, RECORD = 3, 2, 1  # weights of findings
_MAX_SHOWN = 60  # characters of a cell that is quoted
_FIRST = 3  # cells of a finding


def quoted(cell: str) -> str:
    """Quote a cell, shortened if it is long."""
    return repr(cell if len(cell) <= _MAX_SHOWN else f"{cell[:_MAX_SHOWN]}...")


@dataclass(frozen=True)
class CellAt:
    """A cell of a file.

    Attributes:
        row: its row's position among the rows of data, from 0.
        line: its line in the file, from 1; None where the source has no lines.
        text: the cell as it stands.
    """

    row: int
    line: int | None
    text: str

    def __str__(self) -> str:
        place = f"row {self.row} (from 0)" if self.line is None else f"line {self.line}"
        return f"{place}: {quoted(self.text)}"


@dataclass(frozen=True)
class ColumnDescription:
    """The content of a column, and the form in which models see it.

    Attributes:
        name: the column.
        kind: "number", "date" (also with times), "yes/no", "words" (a category, or codes with leading zeros),
            "text" (near-unique words), "id" (names of rows, or a count of them), "constant" or "empty".
        used_as: "number" (dates: days since the first), "words", or None for a column that is left out.
        n_cells: the number of its cells.
        n_missing: holes, and words that are read as such.
        n_numbers: numbers or dates.
        n_limits: limits such as <0.5.
        n_odd: cells that fit neither: no number among numbers.
        n_different: different cells, holes aside.
        writing: how its numbers or dates are written; "" where Python writes them so.
        why: the reason for the kind, in one clause.
        odd: the cells that fit neither.
        limits: the cells that are limits.
        decimals: digits behind the decimal sign, at most; None for other kinds.
        copy_of: an earlier column with the same cells.
    """

    name: str
    kind: ColumnKind
    used_as: Literal["number", "words"] | None
    n_cells: int
    n_missing: int
    n_numbers: int = 0
    n_limits: int = 0
    n_odd: int = 0
    n_different: int = 0
    writing: str = ""
    why: str = ""
    odd: tuple[CellAt, ...] = ()
    limits: tuple[CellAt, ...] = ()
    decimals: int | None = None
    copy_of: str | None = None


@dataclass(frozen=True)
class Finding:
    """An assumption about a table that the user can override by an option.

    Attributes:
        what: a short key, such as "odd cells", "unit" or "totals".
        column: the column; None for rows and the file.
        n_cells: the number of cells (of rows, where it is about rows).
        first: the first of them, at most three.
        assumed: what the reader did.
        option: how to decide otherwise, as typed; "" if no option does.
        weight: 3 for a decision, 2 for a look, 1 for the record.
    """

    what: str
    column: str | None
    n_cells: int
    first: tuple[CellAt, ...]
    assumed: str
    option: str = ""
    weight: int = LOOK

    def sentence(self) -> str:
        """The finding in one line."""
        where = "" if self.column is None else f"column {self.column!r}: "
        cells = f" ({'; '.join(map(str, self.first))}{'; ...' if self.n_cells > len(self.first) else ''})"
        return (
            f"{where}{self.assumed}{cells if self.first else ''}{f': {self.option}' if self.option else ''}"
        )


def finding(
    what: str,
    column: str | None,
    cells: Sequence[CellAt],
    assumed: str,
    option: str = "",
    weight: int = LOOK,
) -> Finding:
    """A finding on some cells, with the first of them.

    Example:
        >>> finding("odd cells", "a", [CellAt(0, 2, "x")], "1 cell is not a number").sentence()
        "column 'a': 1 cell is not a number (line 2: 'x')"
    """
    return Finding(what, column, len(cells), tuple(cells[:_FIRST]), assumed, option, weight)


@dataclass(frozen=True, repr=False)
class TableDescription(HasPage):
    """The columns of a table, and findings, most serious first.

    Attributes:
        name: where the table comes from.
        n_rows: rows of data.
        columns: one description each, in the file's order.
        findings: what a person may decide otherwise, the worst first.
        delimiter, decimal, encoding: of a text file.
    """

    name: str
    n_rows: int
    columns: tuple[ColumnDescription, ...]
    findings: tuple[Finding, ...] = ()
    delimiter: str = ","
    decimal: str = "."
    encoding: str = "utf-8"

    def __getitem__(self, name: str) -> ColumnDescription:
        return {column.name: column for column in self.columns}[name]

    def page(self) -> Page:
        """The columns, then the findings."""
        headline = f"{count(self.n_rows, 'row')}, {count(len(self.columns), 'column')}"
        line = f"TableDescription({self.name!r}: {headline})"
        n = sum(each.weight == DECIDE for each in self.findings)
        aside = f"{count(n, 'finding')} {'needs' if n == 1 else 'need'} a decision" if n else ""
        rows = []
        for column in self.columns:
            counts = [column.n_missing, column.n_different, column.n_odd]
            rows.append([column.name, column.kind, *(f"{n:,}" for n in counts), column.writing or column.why])
        table = Table(["column", "kind", "missing", "different", "odd", "how"], rows, words=(0, 1, 5))
        found = [
            [each.column or "", each.what, f"{each.n_cells:,}", each.sentence()] for each in self.findings
        ]
        findings = Table(
            ["column", "finding", "cells", "what was assumed"], found, "Findings", words=(0, 1, 3)
        )
        return Page(line, headline, aside, [table, *([findings] if found else [])])

    def to_dict(self) -> dict[str, Any]:
        """The description as JSON values."""
        return asdict(self)

    def to_frame(self) -> Any:
        """The columns, one a row, as a pandas data frame."""
        names = [field.name for field in fields(ColumnDescription) if field.name not in ("odd", "limits")]
        return data_frame(
            Columns({name: [getattr(column, name) for column in self.columns] for name in names})
        )


def some_texts(cells: Sequence[CellAt], most: int = 3) -> str:
    """The first distinct texts of cells."""
    return some_of([quoted(text) for text in dict.fromkeys(cell.text.strip() for cell in cells)], most)
