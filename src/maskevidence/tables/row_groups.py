"""Rows of a Parquet file for a saved model, read by row groups where memory is too small for all."""

import hashlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Int64

from maskevidence.core.errors import InputError
from maskevidence.core.packed_tokens import StoredTokens
from maskevidence.core.support.checks import free_memory
from maskevidence.core.support.sources import is_remote, reading_parquet
from maskevidence.core.table import Table
from maskevidence.core.tokens import Tokens
from maskevidence.tables.base import TableModel
from maskevidence.tables.category_columns import with_columns_of
from maskevidence.tables.reading.columns import FileOptions
from maskevidence.tables.table_files import RawTable, converted, kind_of_file

if TYPE_CHECKING:
    from maskevidence.runs.prepared import Prepared

COPIES = 10  # of a table that is read at once, with the room that freed arrays leave unused
_CELLS_AT_ONCE, _BUFFER = 2**20, 2**16  # that are read, and bytes of the file for each column


class RowGroups:
    """The rows of a Parquet file in the columns of a model, read one piece of a row group after the other."""

    def __init__(self, model: TableModel, data: str, selection: FileOptions) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        before, self.pool = pa.default_memory_pool(), pa.system_memory_pool()
        pa.set_memory_pool(self.pool)  # of this reader: the other one reserves a gigabyte of addresses
        try:
            with reading_parquet(Path(data)):
                self.file = parquet.ParquetFile(data, buffer_size=_BUFFER, pre_buffer=False)
        finally:
            pa.set_memory_pool(before)
        groups = self.file.metadata.num_row_groups
        of_groups = [self.file.metadata.row_group(k).num_rows for k in range(groups)]
        self.model, self.name, self.columns = model, data, list(model.columns or ())
        self.selection = replace(selection, columns=tuple(self.columns))
        self.ends: Int64[np.ndarray, " K"] = np.cumsum([0, *of_groups])
        self.n_at_once = max(1, _CELLS_AT_ONCE // max(1, len(self.columns)))
        self.rest: Iterator[Table] = iter(())  # of the group that is being read
        self.last: Table | None = None
        self._fingerprint: str | None = None

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
            for name in self.columns
        )

    def tables(self, group: int | None = None) -> Iterator[Table]:
        """The rows of a group, or of all groups, piece by piece, with their positions in the file as ids."""
        import pyarrow as pa

        for each in range(len(self.ends) - 1) if group is None else (group,):
            first = int(self.ends[each])
            with reading_parquet(Path(self.name)):
                pieces = self.file.iter_batches(self.n_at_once, [each], self.columns, use_threads=False)
                for piece in pieces:
                    yield self._table(pa.table(piece), first)
                    first += len(piece)

    def _table(self, columns: Any, first: int) -> Table:
        """A piece that begins at a position of the file."""
        try:
            raw = RawTable(self.name, columns)
            table, _ = converted(raw, self.selection, empty_rows=True, notes=False)
            _refuse_empty_rows(table)
        except InputError as error:
            raise InputError(f"{error} (rows counted from row {first:,} of the file)") from error
        return replace(with_columns_of(table, self.columns), ids=first + np.arange(len(table)))

    def _holding(self, row: int) -> Table:
        """Read on to the piece that holds a row."""
        last = self.last
        group = bisect_right(self.ends.tolist(), row) - 1
        if last is None or not self.ends[group] <= last.ids[0] <= row:
            self.rest, last = self.tables(group), None
        while last is None or row > last.ids[-1]:
            last = self.last = None  # before the next one is read
            last = next(self.rest)
        self.last = last
        return last

    def read(self, start: int, stop: int) -> Tokens:
        """The tokens of a range of rows."""
        values, ids = list[np.ndarray](), np.arange(start, stop)
        while start < stop:
            piece = self._holding(start)
            first, end = int(piece.ids[0]), min(stop, int(piece.ids[-1]) + 1)
            values.append(piece.values[start - first : end - first])
            start = end
        if stop == self.n_rows:
            self._release()
        in_order = np.ascontiguousarray(np.concatenate(values))  # as in a whole table, for the same last bits
        return Tokens.from_array(in_order, ids)

    def _release(self) -> None:
        """Return the memory of the pieces to the system after the last row."""
        self.rest, self.last = iter(()), None
        self.pool.release_unused()

    def checked_tables(self) -> Iterator[tuple[Table, Tokens]]:
        """Check and yield the pieces of the file; after the last one, `fingerprint` is known."""
        ids, sha = np.arange(self.n_rows), hashlib.sha256()
        sha.update("\x1f".join(self.columns).encode(errors="surrogatepass"))
        sha.update(ids.tobytes())
        for table in self.tables():
            tokens = table.tokens()
            self.model.refuse_strange_cells(tokens, place="row {} (from 0)".format)
            sha.update(table.values.tobytes())
            yield table, tokens
        self._fingerprint = sha.hexdigest()
        self._release()

    @property
    def fingerprint(self) -> str:
        """The hash of the table that a reader of the whole file makes; reads the file if it was not read."""
        if self._fingerprint is None:
            deque(self.checked_tables(), maxlen=0)
        assert self._fingerprint is not None
        return self._fingerprint

    def checked(self) -> tuple[str, Int64[np.ndarray, " N"]]:
        """Check all rows; their fingerprint, and how many cells each has."""
        counts = np.empty(self.n_rows, dtype=np.int64)  # parts of it would lie between freed pieces
        for table, tokens in self.checked_tables():
            counts[table.ids] = tokens.n_tokens.numpy()
        return self.fingerprint, counts

    @property
    def note(self) -> str:
        """How the file is read."""
        return f"read by {len(self.ends) - 1:,} row groups, since memory does not hold all rows at once"

    def prepared(self) -> "Prepared":
        """All rows, checked piece by piece, to be scored."""
        from maskevidence.runs import DataSource
        from maskevidence.runs.prepared import Prepared

        fingerprint, counts = self.checked()
        none = torch.zeros(0, len(self.columns), dtype=torch.bool)
        tokens = StoredTokens(
            none.double(),
            none,
            none,
            torch.arange(self.n_rows),
            counts=torch.from_numpy(counts),
            read=self.read,
        )
        notes = [self.note]
        if hasattr(self.model, "notes_on"):
            notes += self.model.notes_on(tokens)
        source = DataSource(
            name=self.name,
            fingerprint=fingerprint,
            n_observations=self.n_rows,
            columns=self.columns,
            notes=notes,
            kind="rows",
            noun="row",
        )
        return Prepared(self.model, tokens, source)


def by_row_groups(model: Any, data: str, selection: FileOptions, *, times: int = 1) -> RowGroups | None:
    """The rows of a Parquet file, to be read by row groups; None if memory holds them.

    It is None as well where all rows have to be seen at once: for words, names of rows, and a model that
    refines its integrals for them.

    Args:
        model: a saved model.
        selection: of the columns of the file.
        times: how much more memory the rows take at once than to be scored.
    """
    whole = selection.one_hot or selection.words or selection.id_column
    if whole or not isinstance(model, TableModel) or hasattr(model, "refine") or model.columns is None:
        return None
    if is_remote(data) or kind_of_file(data) != ".parquet" or not Path(data).is_file():
        return None
    groups = RowGroups(model, data, selection)
    room = free_memory()
    if room is None or times * COPIES * 8 * groups.n_rows * groups.file.metadata.num_columns <= room:
        return None
    return groups if groups.are_numbers() else None


def _refuse_empty_rows(table: Table) -> None:
    """Raise an InputError for a row without values: row groups keep the positions of the file."""
    empty = np.flatnonzero(np.isnan(table.values).all(axis=1))
    if len(empty):
        raise InputError(f"{table.name!r} has no value in {table.place(int(empty[0]))}; leave such rows out")
