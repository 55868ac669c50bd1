"""Columns of texts in .txt, .jsonl, .csv and .parquet files, and sequences in FASTA files."""

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from maskevidence.data.fasta import FASTA_SUFFIXES, is_fasta, read_fasta
from maskevidence.data.sources import check_utf_8, long_cells, reading_parquet
from maskevidence.errors import InputError

TEXT_SUFFIXES = (".txt", ".jsonl", ".csv", ".parquet", *FASTA_SUFFIXES)


class Columns:
    """Columns by name, whose values are read on demand.

    Args:
        columns: lists by name, or anything with `column_names`, such as a table of pyarrow.
        header: the file whose first row gave the names; None if they do not come from a row.
        labels: the column with the names of the rows, where the format has one.
        notes: what was done to the values, one sentence each.
    """

    def __init__(
        self,
        columns: dict[str, list[Any]] | Any,
        header: Path | None = None,
        labels: str | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        self._columns = columns
        self.header = header
        self.labels = labels
        self.notes = tuple(notes)
        self.names: list[str] = list(getattr(columns, "column_names", columns))

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        values = self._columns[name]
        return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def read_text_file(file: Path, running: bool) -> Columns:
    """The columns of a file, by its suffix.

    Args:
        file: a .txt, .jsonl, .csv or .parquet file; the lines of a .txt file are a column "text". A FASTA
        file
            has the columns "sequence" and "name".
        running: keep the ends of the lines of a .txt file.

    Raises:
        InputError: another suffix, a file that is empty, damaged or not UTF-8, or two columns of one name.
    """
    kind = file.suffix.lower()
    if is_fasta(file):
        records = read_fasta(file)
        columns = {"sequence": records.sequences, "name": records.names}
        return Columns(columns, labels="name", notes=records.notes)
    if kind not in TEXT_SUFFIXES:
        raise InputError(
            f"{str(file)!r} is not a {', '.join(TEXT_SUFFIXES)} file; convert it to one of these"
        )
    if file.stat().st_size == 0:
        raise InputError(f"{str(file)!r} is empty; give a text or more")
    if kind == ".parquet":
        from pyarrow import parquet

        with reading_parquet(file):
            _check_names(file, parquet.read_schema(file).names)
            table = parquet.read_table(file)
        check_utf_8(file, table)
        return Columns(table)
    text = _utf_8(file)
    if kind == ".txt":
        lines = io.StringIO(text, newline=None).readlines()
        return Columns({"text": lines if running else [line.removesuffix("\n") for line in lines]})
    if kind == ".csv":
        with long_cells():
            return _from_csv(file, text)
    return _from_jsonl(file, text)


def _utf_8(file: Path) -> str:
    try:
        return file.read_bytes().decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{str(file)!r} is not UTF-8 text: byte 0x{error.object[error.start]:02x} at offset "
            f"{error.start:,}; save it as UTF-8"
        ) from error
    except OSError as error:
        raise InputError(f"{str(file)!r} cannot be read ({error.strerror}); check the path") from error


def _from_csv(file: Path, text: str) -> Columns:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = next(rows)
        _check_names(file, names)
        columns: dict[str, list[Any]] = {name: [] for name in names}
        for row in rows:
            if not row:
                continue  # an empty line
            if len(row) != len(names):
                raise InputError(
                    f"{str(file)!r} has {len(row)} cells in line {rows.line_num} and {len(names)} in the "
                    "first; make them equal, with quotes around cells that hold a comma"
                )
            for name, cell in zip(names, row, strict=True):
                columns[name].append(cell)
    except csv.Error as error:
        raise InputError(
            f"{str(file)!r} is not a regular CSV table, line {rows.line_num}: {error}"
        ) from error
    return Columns(columns, header=file)


def _check_names(file: Path, names: list[str]) -> None:
    """Raise an InputError for two columns of one name."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(
            f"{str(file)!r} has {names.count(twice)} columns with the name {twice!r}; give each its own name"
        )


def _from_jsonl(file: Path, text: str) -> Columns:
    records = []
    for number, line in enumerate(text.splitlines() if "\r" in text else text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if r"\u" in line:
                json.dumps(record, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{str(file)!r} has half of a surrogate pair in line {number}: "
                f"\\u{ord(error.object[error.start]):04x}, which is not a character; repair that line"
            ) from error
        except (ValueError, RecursionError) as error:
            reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise InputError(
                f"{str(file)!r} is not JSON in line {number}: {reason}; repair that line"
            ) from error
        if not isinstance(record, dict):
            raise InputError(
                f'{str(file)!r} has no JSON object in line {number}; give one, as {{"text": ...}}'
            )
        records.append(record)
    names = list(dict.fromkeys(name for record in records for name in record))
    return Columns({name: [record.get(name) for record in records] for name in names})
