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


def to_arrow(column: Any, kind: Any = None, n_rows: int = 0) -> Any:
    """An array of pyarrow of numbers, texts or, for None, nulls; `pyarrow.array` would load pandas.

    Args:
        kind: a type of pyarrow; NaN is then null.
        n_rows: the length for None.

    Example:
        >>> to_arrow(np.arange(2)).to_pylist(), to_arrow(["a", "bc"]).to_pylist()
        ([0, 1], ['a', 'bc'])
    """
    import pyarrow as pa

    if column is None:
        return pa.nulls(n_rows, kind)
    if isinstance(column, np.ndarray) or kind not in (None, pa.string()):
        values = np.ascontiguousarray(column, None if kind is None else kind.to_pandas_dtype())
        unknown = np.isnan(values)
        nulls = kind is not None and bool(unknown.any())
        known = pa.py_buffer(np.packbits(~unknown, bitorder="little")) if nulls else None
        kind = pa.from_numpy_dtype(values.dtype) if kind is None else kind
        return pa.Array.from_buffers(kind, len(values), [known, pa.py_buffer(values)])
    texts = [str(text).encode() for text in column]
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), len(texts), [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    )


def from_arrow(column: Any) -> Any:
    """The numbers of a column of pyarrow, none of them null; its `to_numpy` would load pandas."""
    return np.from_dlpack(column.combine_chunks() if hasattr(column, "chunks") else column)
