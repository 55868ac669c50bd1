"""What a run knows of its observations without masks: their names, and their log evidence in closed form.

`labels.parquet` belongs to the data that run.json describes, `closed_form.parquet` to its model, too.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from maskevidence.errors import InputError
from maskevidence.runs.manifest import Manifest
from maskevidence.support.files import reading, write_atomic

LABELS, CLOSED_FORM = "labels.parquet", "closed_form.parquet"
_OF_DATA = b"data"


def write_labels(folder: Path, manifest: Manifest, labels: Mapping[int, str]) -> None:
    """Write the names of the observations of all shards, unless the folder has the same ones.

    Args:
        folder: the run directory.
        manifest: what decides the numbers of the run.
        labels: names by observation id.

    Raises:
        InputError: the folder cannot be written.
    """
    _write(folder / LABELS, manifest, "label", labels)


def write_closed_form(folder: Path, manifest: Manifest, values: Mapping[int, float]) -> None:
    """Write the log evidence of the run's own observations by the model itself, nats, likewise.

    Args:
        folder: the run directory.
        manifest: what decides the numbers of the run; its `closed_form` is the mean of these values.
        values: log evidence by observation id.

    Raises:
        InputError: the folder cannot be written.
    """
    _write(folder / CLOSED_FORM, manifest, "closed_form", values)


def read_labels(folder: Path, manifest: Manifest) -> dict[int, str]:
    """The names of a run's observations by id; empty if they have none.

    Raises:
        InputError: the file cannot be read, or belongs to other data.
    """
    return _read(folder / LABELS, manifest, "label")


def read_closed_form(folder: Path, manifest: Manifest) -> dict[int, float]:
    """The log evidence in closed form by id, nats; empty if the model has none.

    Raises:
        InputError: the file cannot be read, or belongs to other data or to another model.
    """
    values = _read(folder / CLOSED_FORM, manifest, "closed_form")
    mean = manifest.closed_form
    if values and (mean is None or not math.isclose(sum(values.values()) / len(values), mean, rel_tol=1e-9)):
        raise InputError(
            f"{str(folder / CLOSED_FORM)!r} does not have the mean that run.json records; remove it to go on "
            "without it, or score again with --overwrite"
        )
    return values


def _write(file: Path, manifest: Manifest, name: str, values: Mapping[int, Any]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    content = pa.table({"id": pa.array(list(values), pa.int64()), name: pa.array(list(values.values()))})
    content = content.replace_schema_metadata({_OF_DATA: manifest.data.fingerprint})
    sink = pa.BufferOutputStream()
    parquet.write_table(content, sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    with reading(file):
        same = file.is_file() and file.read_bytes() == data
    if not same:
        write_atomic(file, data)


def _read(file: Path, manifest: Manifest, name: str) -> dict[int, Any]:
    import pyarrow as pa
    from pyarrow import ArrowException, parquet

    with reading(file):
        if not file.exists():
            return {}
        try:
            content = parquet.read_table(pa.BufferReader(file.read_bytes()))
            columns = content.column("id").to_pylist(), content.column(name).to_pylist()
            of_data = (content.schema.metadata or {}).get(_OF_DATA)
        except (ArrowException, KeyError) as error:
            raise InputError(
                f"{str(file)!r} is damaged; remove it to go on without it, or score again with --overwrite"
            ) from error
    if of_data != manifest.data.fingerprint.encode():
        raise InputError(
            f"{str(file)!r} belongs to other data; remove it, and run the command in run.json again"
        )
    return dict(zip(*columns, strict=True))
