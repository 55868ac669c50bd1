"""What a study has found so far: one record for each trained model, which survives a kill.

A record is added as one line of NAME.jsonl. `pack` moves all records into NAME.parquet, which is small enough
for the repository. Both are read when a study goes on, so that no model is trained twice.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from maskevidence.core.support.files import write_atomic

KEY = "key"
Record = dict[str, Any]


class Records:
    """The records of one part of the study.

    Args:
        folder: where the files are.
        name: the part, the stem of the files.

    Attributes:
        by_key: the records by their key, in the order in which they were added.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._lines, self._packed = folder / f"{name}.jsonl", folder / f"{name}.parquet"
        packed = pq.read_table(self._packed).to_pylist() if self._packed.exists() else []
        self.by_key: dict[str, Record] = {record[KEY]: record for record in packed}
        if self._lines.exists():
            content = self._lines.read_bytes()
            whole = content[: content.rfind(b"\n") + 1]
            if whole != content:  # a kill has cut the last line
                write_atomic(self._lines, whole)
            for line in whole.splitlines():
                record = json.loads(line)
                self.by_key[record[KEY]] = record

    def add(self, record: Mapping[str, Any]) -> None:
        """Keep a record, which has an entry "key"."""
        self._lines.parent.mkdir(parents=True, exist_ok=True)
        with self._lines.open("a") as file:
            file.write(json.dumps(record) + "\n")
        self.by_key[record[KEY]] = dict(record)

    def pack(self) -> None:
        """Write all records into the Parquet file, ordered by key, and remove the lines."""
        if not self._lines.exists():
            return
        names = dict.fromkeys(name for record in self.by_key.values() for name in record)
        rows = [{name: record.get(name) for name in names} for _, record in sorted(self.by_key.items())]
        content = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows), content, compression="zstd")
        write_atomic(self._packed, content.getvalue().to_pybytes())
        self._lines.unlink()
