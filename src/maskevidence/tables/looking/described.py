"""Read a table with a description of its columns (a stand-in until the reader describes by itself)."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maskevidence.core.errors import InputError
from maskevidence.core.table import Table
from maskevidence.tables.options import TableOptions
from maskevidence.tables.rows import raw_table, selection_of
from maskevidence.tables.table_files import RawTable, names_of, to_table


@dataclass(frozen=True)
class CellAt:
    row: int
    line: int | None
    text: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.text!r}"


@dataclass(frozen=True)
class ColumnDescription:
    name: str
    kind: str
    used_as: str | None
    n_missing: int = 0
    n_different: int = 0
    writing: str = ""
    why: str = ""
    odd: tuple[CellAt, ...] = ()
    decimals: int | None = None


@dataclass(frozen=True)
class Finding:
    what: str
    column: str | None
    n_cells: int
    first: tuple[CellAt, ...]
    assumed: str
    option: str
    weight: int


@dataclass(frozen=True)
class TableDescription:
    name: str
    n_rows: int
    columns: tuple[ColumnDescription, ...]
    findings: tuple[Finding, ...] = ()
    decimal: str = "."
    delimiter: str = ","

    def __getitem__(self, name: str) -> ColumnDescription:
        return next(each for each in self.columns if each.name == name)

    def to_dict(self) -> dict[str, Any]:
        return {
            "columns": [vars(each) for each in self.columns],
            "findings": [vars(f) for f in self.findings],
        }


def read_described(data: object, options: TableOptions) -> tuple[RawTable, Table, TableDescription]:
    if isinstance(data, str):
        raw = raw_table(data, options)
    else:
        import pyarrow as pa

        raw = RawTable("the table", pa.Table.from_pandas(data, preserve_index=False))
    names, drop, findings = names_of(raw), list[str](), list[Finding]()
    columns = dict[str, ColumnDescription]()
    for name, cells in zip(names, raw.columns.columns, strict=True):
        texts = [
            str(cell)
            for cell in cells.to_pylist()
            if cell is not None and str(cell).strip() not in ("", "NA")
        ]
        n, different = len(texts), len(set(texts))
        alone = to_one(raw, name, options)
        if n == 0:
            kind, used = "empty", None
        elif different == 1:
            kind, used = "constant", None
        elif alone is None or alone.levels:
            crowded = different > 0.5 * n
            kind, used = (("id" if different == n else "text"), None) if crowded else ("words", "words")
        else:
            kind, used = "number", "number"
        if used is None:
            drop.append(name)
        columns[name] = ColumnDescription(name, kind, used, len(cells) - n, different)
    selection = replace(selection_of(options, words=True), drop=tuple(drop))
    table = to_table(raw, selection, empty_rows=True)
    return raw, table, TableDescription(raw.name, raw.columns.num_rows, tuple(columns.values()))


def to_one(raw: RawTable, name: str, options: TableOptions) -> Table | None:
    selection = replace(selection_of(options, words=True), columns=[name], drop=())
    try:
        return to_table(raw, selection, empty_rows=True)
    except InputError:
        return None


def filled_cells(look: Any) -> Any:
    """The file's columns with their holes filled."""
    from maskevidence.tables.filling import _one

    raw, of = look.raw, look.modelled
    if of is None:
        return raw.columns
    table = of.table
    values = np.full((raw.columns.num_rows, len(table.columns)), np.nan)
    whole = values.copy()
    values[table.ids], whole[table.ids] = of.filled, table.values
    full = replace(table, values=whole, ids=np.arange(len(whole)))
    return _one(raw.columns, raw.first_line > 0, raw, full, values, ())
