"""The beginnings of the texts of a run, which `observations.csv` shows, in a file that is read row by row."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Integer

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.observations import ObservationTable, parquet_of
from maskevidence.core.support.files import reading, write_atomic
from maskevidence.runs.manifest import Manifest

TEXTS = "texts.parquet"
_ROWS_OF_GROUP = 2**16
OF_DATA = b"data"  # key of the fingerprint of the data in a Parquet file
Beginnings = Callable[[], Iterable[str]]  # of the texts of all observations, in the order of the tokens


def write_texts(
    folder: Path, manifest: Manifest, ids: Integer[np.ndarray, " n"], texts: Iterable[str]
) -> None:
    """Write the beginning of each observation's text, in the order of the ids."""
    import pyarrow as pa

    schema = pa.schema([("id", pa.int64()), ("text", pa.string())], {OF_DATA: manifest.data.fingerprint})
    left = iter(texts)
    groups = (ids[first : first + _ROWS_OF_GROUP] for first in range(0, len(ids), _ROWS_OF_GROUP))
    tables = ({"id": group, "text": list(islice(left, len(group)))} for group in groups)
    write_atomic(folder / TEXTS, parquet_of(schema, tables))


def read_texts(files: Sequence[Path], manifest: Manifest) -> Iterator[Any]:
    """The ids and texts of a run in the order of the ids, a table of pyarrow at a time."""
    from pyarrow import ArrowException, parquet

    opened = []
    for file in files:
        remedy = "remove it to go on without it, or score again with --overwrite"
        with reading(file):
            try:
                content = parquet.ParquetFile(file)
            except ArrowException as error:
                raise InputError(f"{str(file)!r} is damaged; {remedy}") from error
        if (content.schema_arrow.metadata or {}).get(OF_DATA) != manifest.data.fingerprint.encode():
            raise InputError(f"{str(file)!r} belongs to other data; {remedy}")
        opened.append(content)
    for content in sorted(opened, key=lambda each: int(each.read_row_group(0, ["id"])["id"][0].as_py())):
        yield from map(content.read_row_group, range(content.num_row_groups))


def with_texts(tables: Iterable[ObservationTable], texts: Iterator[Any]) -> Iterator[ObservationTable]:
    """Add the texts to tables of observations in the order of the ids."""
    import pyarrow as pa

    here = next(texts)
    for table in tables:
        more = [here]
        while more[-1]["id"][-1].as_py() < table.id[-1]:
            more.append(next(texts))
        here = pa.concat_tables(more)
        place = np.searchsorted(here["id"].to_numpy(), table.id)
        yield replace(table, text=tuple(here["text"].take(pa.array(place)).to_pylist()))
        here = here.slice(place[-1])
