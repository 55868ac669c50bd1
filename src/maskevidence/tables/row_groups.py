"""Rows of a Parquet file for a saved model, read by row groups where memory does not hold all of them."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Int64

from maskevidence.core.errors import InputError
from maskevidence.core.model import HasNotesOn, HasRefine
from maskevidence.core.stored_tokens import StoredTokens
from maskevidence.core.support.memory import free_memory
from maskevidence.core.support.provenance import digest
from maskevidence.core.support.sources import is_remote, reading_parquet
from maskevidence.core.table import Table, with_columns_of
from maskevidence.core.tokens import Tokens
from maskevidence.runs import DataSource
from maskevidence.runs.prepared import Prepared
from maskevidence.tables.base import TableModel
from maskevidence.tables.table_files import ColumnSelection, RawTable, kind_of_file, to_table

COPIES = 6  # of a table that is read at once, at the worst


def by_row_groups(model: Any, data: str, selection: ColumnSelection) -> Prepared | None:
    """The rows of a Parquet file, read by row groups; None if memory holds them.

    It is None as well where all rows have to be seen at once: for words, names of rows, and a model that
    refines its integrals for them.

    Args:
        model: a saved model.
        selection: of the columns of the file.
    """
    whole = selection.one_hot or selection.words or selection.id_column
    if whole or not isinstance(model, TableModel) or isinstance(model, HasRefine) or model.columns is None:
        return None
    if is_remote(data) or kind_of_file(data) != ".parquet" or not Path(data).is_file():
        return None
    groups = _RowGroups(model, data, selection)
    room = free_memory()
    if room is None or COPIES * 8 * groups.n_rows * groups.file.metadata.num_columns <= room:
        return None
    return groups.prepared() if groups.are_numbers() else None


class _RowGroups:
    """The row groups of a Parquet file, of which the last one that was read is kept."""

    def __init__(self, model: TableModel, data: str, selection: ColumnSelection) -> None:
        from pyarrow import parquet

        with reading_parquet(Path(data)):
            self.file = parquet.ParquetFile(data)
        of_groups = [
            self.file.metadata.row_group(k).num_rows for k in range(self.file.metadata.num_row_groups)
        ]
        self.model, self.name, self.selection = model, data, selection
        self.ends: Int64[np.ndarray, " K"] = np.cumsum([0, *of_groups])
        self.last: tuple[int, Table] | None = None

    @property
    def n_rows(self) -> int:
        """The number of rows of the file."""
        return int(self.ends[-1])

    def are_numbers(self) -> bool:
        """Whether all columns of the model are numbers, and no other column names the rows."""
        from pyarrow import types

        schema = self.file.schema_arrow
        of_file = {field.name: field.type for field in schema}
        named = (schema.pandas_metadata or {}).get("index_columns", ())
        return not any(isinstance(name, str) for name in named) and all(
            name in of_file and (types.is_floating(of_file[name]) or types.is_integer(of_file[name]))
            for name in self.model.columns or ()
        )

    def table(self, group: int) -> Table:
        """The rows of a group, in the columns of the model, with their positions in the file."""
        if self.last is None or self.last[0] != group:
            self.last = None
            with reading_parquet(Path(self.name)):
                columns = self.file.read_row_group(group, columns=list(self.model.columns or ()))
            first = int(self.ends[group])
            try:
                table = to_table(
                    RawTable(self.name, columns),
                    replace(self.selection, columns=tuple(self.model.columns or ())),
                    empty_rows=True,
                    notes=False,
                )
                _refuse_empty_rows(table)
            except InputError as error:
                raise InputError(f"{error} (rows counted from row {first:,} of the file)") from error
            table = with_columns_of(table, self.model.columns or [])
            self.last = group, replace(table, ids=first + np.arange(len(table)))
        return self.last[1]

    def read(self, start: int, stop: int) -> Tokens:
        """The tokens of the rows from a position to another."""
        values, ids = list[np.ndarray](), np.arange(start, stop)
        while start < stop:
            group = bisect_right(self.ends.tolist(), start) - 1
            first, end = int(self.ends[group]), min(stop, int(self.ends[group + 1]))
            values.append(self.table(group).values[start - first : end - first])
            start = end
        in_order = np.ascontiguousarray(np.concatenate(values))  # as in a whole table, for the same last bits
        return Tokens.from_array(in_order, ids)

    def prepared(self) -> Prepared:
        """All rows, checked group by group."""
        counts, ids = list[torch.Tensor](), np.arange(self.n_rows)

        def values() -> Iterator[np.ndarray]:
            for group in range(len(self.ends) - 1):
                table = self.table(group)
                tokens = table.tokens()
                self.model.refuse_strange_cells(tokens, place="row {} (from 0)".format)
                counts.append(tokens.n_tokens)
                yield table.values

        names = self.model.columns or []
        fingerprint = digest("\x1f".join(names), ids, values(), iter(()))
        none = torch.zeros(0, len(names), dtype=torch.bool)
        tokens = StoredTokens(
            none.double(), none, none, torch.from_numpy(ids), counts=torch.cat(counts), read=self.read
        )
        notes = [f"read by {len(self.ends) - 1:,} row groups, since memory does not hold all rows at once"]
        if isinstance(self.model, HasNotesOn):
            notes += self.model.notes_on(tokens)
        source = DataSource(
            name=self.name,
            fingerprint=fingerprint,
            n_observations=self.n_rows,
            columns=list(names),
            notes=notes,
            kind="rows",
            noun="row",
        )
        return Prepared(self.model, tokens, source)


def _refuse_empty_rows(table: Table) -> None:
    """Rows keep their positions in the file, so that none can be left out."""
    empty = np.flatnonzero(np.isnan(table.values).all(axis=1))
    if len(empty):
        raise InputError(f"{table.name!r} has no value in {table.place(int(empty[0]))}; leave such rows out")
