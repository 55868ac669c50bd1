"""Texts to score: from .txt, .jsonl, .csv and .parquet files, folders of them, and the Hugging Face hub."""

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maskevidence.data.python_topics import python_topics
from maskevidence.data.sources import HubSet, choose_split, divide, from_hub, from_hub_word, splits
from maskevidence.errors import InputError, unknown_name

TEXT_SUFFIXES = (".txt", ".jsonl", ".csv", ".parquet")
_PREFERRED = ("text", "sentence")


_GLUE = ("ax", "cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")
TEXT_SETS = {f"glue/{name}": HubSet(f"glue/{name}", "nyu-mll/glue", name) for name in _GLUE}
TEXT_SETS["tiny-shakespeare"] = HubSet("tiny_shakespeare", None)
PYTHON_TOPICS = "python-topics"


@dataclass(frozen=True)
class Texts:
    """Texts in one or more columns.

    Attributes:
        name: where they come from, as the user named it.
        columns: their names, in the order asked for.
        fields: one sequence of texts per column, all of one length.
    """

    name: str
    columns: tuple[str, ...]
    fields: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.fields[0])

    def __getitem__(self, column: str) -> tuple[str, ...]:
        """The texts of a column."""
        return self.fields[self.columns.index(column)]

    def fingerprint(self) -> str:
        """A hash of the texts, whatever tokens they are cut into."""
        digest = hashlib.sha256()
        for field in self.fields:
            for text in field:
                digest.update(f"{len(text)} {text}".encode(errors="surrogatepass"))
        return digest.hexdigest()


def read_texts(
    source: str,
    columns: Sequence[str] | None = None,
    *,
    extra: Sequence[str] = (),
    limit: int | None = None,
    running: bool = False,
) -> Texts:
    """Read texts from a file, a folder or the hub.

    Args:
        source: a .txt (one text a line), .jsonl, .csv or .parquet file; a folder of .parquet files named by
            split; a data set's own word such as "glue/qnli", or "python-topics", which is always there; or
            "hub:OWNER/NAME[/CONFIG]". A split follows after a colon where there is more than one.
        columns: the columns with the texts; by default "text", "sentence", or the only one with text.
        extra: further columns to read.
        limit: read the first so many rows only.
        running: the lines of a .txt file are running text: keep their ends, and empty ones.

    Raises:
        InputError: a source that is missing, empty or damaged, bytes that are not UTF-8 (file and offset), a
            column or split that is not there (lists those that are), a row without text.
        MissingExtraError: the hub is asked for and `datasets` is not installed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "poem.txt"
        >>> _ = path.write_text("I wandered lonely\\nas a cloud\\n")
        >>> read_texts(str(path))["text"]
        ('I wandered lonely', 'as a cloud')
    """
    read = _open(source, running)
    chosen = list(columns) if columns else [_only_text(source, read)]
    wanted = list(dict.fromkeys([*chosen, *extra]))
    missing = [column for column in wanted if column not in read.names]
    if missing:
        raise InputError(f"{source!r} has no column {missing[0]!r}; it has {', '.join(read.names)}")
    fields = []
    for column in wanted:
        values = read.column(column)[:limit]
        for row, value in enumerate(values):
            if not isinstance(value, str):
                kind = "nothing" if value is None else f"{value!r}, which is not text,"
                raise InputError(
                    f"{source!r} has {kind} in column {column!r}, row {row} (from 0); leave it out"
                )
        fields.append(tuple(values))
    if not fields[0]:
        raise InputError(f"{source!r} has no rows; give a text or more")
    return Texts(source, tuple(wanted), tuple(fields))


class _Columns:
    """Columns by name, their values read when asked for."""

    def __init__(self, columns: dict[str, list[Any]] | Any) -> None:
        self._columns = columns
        self.names: list[str] = list(getattr(columns, "column_names", columns))

    def column(self, name: str) -> list[Any]:
        values = self._columns[name]
        return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def _only_text(source: str, read: _Columns) -> str:
    for name in _PREFERRED:
        if name in read.names:
            return name
    textual = [name for name in read.names if isinstance(next(iter(read.column(name)[:1]), None), str)]
    if len(textual) == 1:
        return textual[0]
    raise InputError(f"{source!r} has the columns {', '.join(read.names)}; choose with --text COLUMN")


def _open(source: str, running: bool) -> _Columns:
    path = Path(source)
    if source.startswith("hub:"):
        return _Columns(from_hub_word(source))
    if path.is_file():
        return _from_file(path, running)
    if path.is_dir():
        return _from_folder(source, path, None, running)
    base, split = divide(source)
    if Path(base).is_dir():
        return _from_folder(source, Path(base), split, running)
    if base in TEXT_SETS:
        return _from_set(source, TEXT_SETS[base], split, running)
    if source == PYTHON_TOPICS:
        lines = python_topics()
        kept = lines if running else [line.strip() for line in lines if line.strip()]
        return _Columns({"text": list(kept)})
    if path.suffix.lower() in TEXT_SUFFIXES or source.startswith((".", "/", "~")):
        raise InputError(f"there is no file {source!r}; check the path")
    words = [*TEXT_SETS, PYTHON_TOPICS, "hub:OWNER/NAME[/CONFIG][:SPLIT]", "a file or folder"]
    raise unknown_name("text", source, words)


def _from_set(source: str, known: HubSet, split: str | None, running: bool) -> _Columns:
    folder = known.local()
    if folder is not None and (split is None or split in splits(folder, TEXT_SUFFIXES)):
        return _from_folder(source, folder, split, running)
    if known.hub is None:
        raise InputError(f"{source!r} is not in MASKEVIDENCE_DATA; point that variable to the folder with it")
    return _Columns(from_hub(source, known.hub, known.config, split))


def _from_folder(source: str, folder: Path, split: str | None, running: bool) -> _Columns:
    found = splits(folder, TEXT_SUFFIXES)
    if not found:
        kinds = ", ".join(TEXT_SUFFIXES)
        raise InputError(f"the folder {str(folder)!r} has no {kinds} file; give one with texts")
    parts = [_from_file(file, running) for file in choose_split(source, found, split)]
    if any(part.names != parts[0].names for part in parts):
        raise InputError(f"the files of {source!r} have different columns; make them equal")
    return _Columns(
        {name: [value for part in parts for value in part.column(name)] for name in parts[0].names}
    )


def _from_file(file: Path, running: bool) -> _Columns:
    kind = file.suffix.lower()
    if kind not in TEXT_SUFFIXES:
        raise InputError(
            f"{str(file)!r} is not a {', '.join(TEXT_SUFFIXES)} file; convert it to one of these"
        )
    if file.stat().st_size == 0:
        raise InputError(f"{str(file)!r} is empty; give a text or more")
    if kind == ".parquet":
        return _from_parquet(file)
    text = _utf_8(file)
    if kind == ".txt":
        lines = io.StringIO(text, newline=None).readlines()
        return _Columns({"text": lines if running else [line.removesuffix("\n") for line in lines]})
    return _from_csv(file, text) if kind == ".csv" else _from_jsonl(file, text)


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


def _from_csv(file: Path, text: str) -> _Columns:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = next(rows)
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
    return _Columns(columns)


def _from_jsonl(file: Path, text: str) -> _Columns:
    records = []
    for number, line in enumerate(text.splitlines() if "\r" in text else text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(
                f"{str(file)!r} is not JSON in line {number}: {error.msg}; mend that line"
            ) from error
        if not isinstance(record, dict):
            raise InputError(
                f'{str(file)!r} has no JSON object in line {number}; give one, as {{"text": ...}}'
            )
        records.append(record)
    names = list(dict.fromkeys(name for record in records for name in record))
    return _Columns({name: [record.get(name) for record in records] for name in names})


def _from_parquet(file: Path) -> _Columns:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return _Columns(parquet.read_table(file))
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"{str(file)!r} cannot be read as Parquet: {reason}; write it again") from error
