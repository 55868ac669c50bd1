"""The log evidence, mask error and length of each observation."""

import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from maskevidence.core.support.files import csv_lines, csv_text, to_arrow

Rows = Mapping[str, Any]  # columns by name; None for one that an estimate lacks


def joined(tables: Iterable[Rows]) -> Rows:
    """One table of tables that follow each other."""
    first, *others = tables
    whole = dict(first)
    for name, column in first.items():
        if column is not None:
            parts = [column, *(table[name] for table in others)]
            is_array = isinstance(column, np.ndarray)
            whole[name] = np.concatenate(parts) if is_array else tuple(chain.from_iterable(parts))
    return whole


def listed(table: Rows) -> dict[str, list[Any]]:
    """The columns as lists: None for what is not known, "" for labels that there are not."""
    lists: dict[str, list[Any]] = {}
    for name, column in table.items():
        if isinstance(column, np.ndarray):
            lists[name] = column.tolist()
            for place in np.flatnonzero(np.isnan(column)):
                lists[name][place] = None
        elif column is None:
            lists[name] = ["" if name == "label" else None] * len(table["id"])
        else:
            lists[name] = list(map(str, column))
    return lists


def csv_in_parts(tables: Iterable[Rows]) -> Iterator[str]:
    """CSV text with a header; values that are not known are empty."""
    for number, table in enumerate(tables):
        if number == 0:
            yield csv_text(table, ())
        yield csv_lines(listed(table).values())


def parquet_of(groups: Iterable[Rows], metadata: Mapping[bytes, str] | None = None) -> Iterator[bytes]:
    """A Parquet file of groups of rows with these columns; values not known are null, and labels empty."""
    import pyarrow as pa
    from pyarrow import parquet

    left = iter(groups)
    first, sink = next(left), _Pieces()
    types = dict.fromkeys(("label", "text"), pa.string())
    types |= dict.fromkeys(("id", "n_tokens", "n_bytes"), pa.int64())
    schema = pa.schema([(name, types.get(name, pa.float64())) for name in first], metadata)
    with parquet.ParquetWriter(pa.PythonFile(sink, "w"), schema, compression="zstd") as writer:
        for group in chain([first], left):
            n_rows = len(group["id"])
            if group.get("label", "") is None:
                group = {**group, "label": [""] * n_rows}
            columns = [to_arrow(group[name], schema.field(name).type, n_rows) for name in schema.names]
            writer.write_table(pa.table(columns, schema=schema))
            yield sink.taken()
    yield sink.taken()


class _Pieces(io.BytesIO):
    """A file whose content is taken away as it is written."""

    n_taken = 0

    def tell(self) -> int:
        return self.n_taken + super().tell()

    def taken(self) -> bytes:
        content = self.getvalue()
        self.n_taken += len(content)
        self.seek(0)
        self.truncate()
        return content
