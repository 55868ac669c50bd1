"""The numbers of each observation as CSV or Parquet."""

import io
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import numpy as np

from maskevidence.core.evidence.result import Rows
from maskevidence.core.support.files import csv_lines, csv_text


def listed(table: Rows) -> dict[str, list[Any]]:
    """The columns as lists, with None for unknown values and "" for missing labels."""
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
    """A Parquet file of groups of rows, each with these columns as lists; values not known are null."""
    import pyarrow as pa
    from pyarrow import parquet

    left = iter(groups)
    first, sink = next(left), _Pieces()
    types = dict.fromkeys(("label", "text"), pa.string())
    types |= dict.fromkeys(("id", "n_tokens", "n_bytes"), pa.int64())
    schema = pa.schema([(name, types.get(name, pa.float64())) for name in first], metadata)
    with parquet.ParquetWriter(pa.PythonFile(sink, "w"), schema, compression="zstd") as writer:
        for group in chain([first], left):
            writer.write_table(pa.table(group, schema))
            yield sink.taken()
    yield sink.taken()


class _Pieces(io.BytesIO):
    """A file in memory whose content is removed as soon as it is read."""

    n_taken = 0

    def tell(self) -> int:
        return self.n_taken + super().tell()

    def taken(self) -> bytes:
        content = self.getvalue()
        self.n_taken += len(content)
        self.seek(0)
        self.truncate()
        return content
