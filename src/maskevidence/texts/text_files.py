"""Texts to score: from .txt, .jsonl, .csv and .parquet files, folders of them, and the Hugging Face hub."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.digest import digest
from maskevidence.core.support.files import reading
from maskevidence.core.support.sources import (
    HubSet,
    check_distinct,
    check_utf_8,
    choose_split,
    find_source,
    long_cells,
    reading_parquet,
    splits,
    utf_8_text,
)
from maskevidence.core.table import place_of
from maskevidence.texts.fasta import FASTA_SUFFIXES, is_fasta, read_fasta

TEXT_SUFFIXES = (".txt", ".jsonl", ".csv", ".parquet", *FASTA_SUFFIXES)
_PREFERRED = ("text", "sentence", "sequence")
_GLUE = ("ax", "cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "stsb", "wnli")
TEXT_SETS = {f"glue/{name}": HubSet(f"glue/{name}", "nyu-mll/glue", name) for name in _GLUE}
TEXT_SETS["tiny-shakespeare"] = HubSet("tiny_shakespeare", None)
PYTHON_TOPICS = "python-topics"
_WORDS_OF_A_TEXT = 3  # a column has a shorter name
_CHARACTERS_OF_A_TEXT = 40


@dataclass(frozen=True)
class Texts:
    """Texts in one or more columns.

    Attributes:
        name: where they come from, as the user named it.
        columns: the names of the columns, in the order asked for.
        fields: one sequence of texts per column, all of the same length.
        notes: how they were read, where this was not asked for, one sentence each.
        labels: a name for each text; None if they have none.
        lines: the line of each text in its file; None if that has no lines.
    """

    name: str
    columns: tuple[str, ...]
    fields: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    lines: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.fields[0])

    def __getitem__(self, column: str) -> tuple[str, ...]:
        """The texts of a column."""
        return self.fields[self.columns.index(column)]

    def fingerprint(self) -> str:
        """A hash of the texts, independent of any tokenizer."""
        return digest(f"{len(text)} {text}" for field in self.fields for text in field)


class TextColumns(NamedTuple):
    """TextColumns by name, whose values are read on demand."""

    columns: Any  # lists by name, or anything with `column_names`, such as a table of pyarrow
    header: Path | None = None  # the file whose first row gave the names; None if they do not come from a row
    labels: str | None = None  # the column with the names of the rows, where the format has one
    notes: tuple[str, ...] = ()  # changes of the values, one sentence each
    lines: Sequence[int] | None = None  # the line of each row in its file; None if that has no lines

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(getattr(self.columns, "column_names", self.columns))

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        values = self.columns[name]
        return values.to_pylist() if hasattr(values, "to_pylist") else list(values)


def read_texts(
    source: str,
    columns: Sequence[str] | None = None,
    *,
    extra: Sequence[str] = (),
    id_column: str | None = None,
    limit: int | None = None,
    running: bool = False,
) -> Texts:
    """Read texts from a file, a folder or the hub.

    Args:
        source: a .txt (one text per line), .jsonl, .csv or .parquet file, or a FASTA file (.fa, .fasta, .faa,
            .a2m, .a3m; also gzipped) of sequences; a folder of such files named by split; the name of a data
            set such as "glue/qnli", or "python-topics", which is always available; or
            "hub:OWNER/NAME[/CONFIG]". A split follows after a colon; it is required if there is more than
            one.
        columns: the columns with the texts; by default "text", "sentence", or the only one with text.
        extra: further columns to read.
        id_column: the column with the names of the texts; by default those of a FASTA file.
        limit: read only the first `limit` rows.
        running: the lines of a .txt file are running text: keep their ends, and empty lines.

    Raises:
        InputError: a source that is missing, empty or damaged, bytes that are not UTF-8 (file and offset), a
            missing column or split (lists those that exist), two columns of one name, a CSV table whose
            first row is a text, or a row without text.
        MissingExtraError: a data set of the hub is asked for and `datasets` is not installed.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "poem.txt"
        >>> _ = path.write_text("I wandered lonely\\nas a cloud\\n")
        >>> read_texts(str(path))["text"]
        ('I wandered lonely', 'as a cloud')
    """
    limit = None if limit is None else whole_number("limit", limit, 1)
    read = _find(source, running)
    notes: list[str] = [*read.notes]
    chosen = list(columns) if columns else [_only_text(source, read, notes)]
    names = list(dict.fromkeys([*chosen, *extra]))
    named = [] if id_column is None else [id_column]
    missing = [column for column in (*names, *named) if column not in read.names]
    if missing:
        raise InputError(f"{source!r} has no column {missing[0]!r}; it has {', '.join(read.names)}")
    fields = []
    for column in names:
        values = read.column(column)[:limit]
        for row, value in enumerate(values):
            if not isinstance(value, str):
                kind = "nothing" if value is None else f"{value!r}, which is not text,"
                place = place_of(row, read.lines)
                raise InputError(f"{source!r} has {kind} in column {column!r}, {place}; leave it out")
        fields.append(tuple(values))
    if not fields[0]:
        raise InputError(f"{source!r} has no rows; give a text or more")
    labels = _labels(source, read, id_column or read.labels, limit)
    return Texts(source, tuple(names), tuple(fields), tuple(notes), labels, read.lines)


def _labels(source: str, read: TextColumns, column: str | None, limit: int | None) -> tuple[str, ...] | None:
    """The names of the texts, from a column of text or numbers."""
    if column is None:
        return None
    values = read.column(column)[:limit]
    for row, value in enumerate(values):
        if value is None:
            place = place_of(row, read.lines)
            raise InputError(f"{source!r} has no name in column {column!r}, {place}; give one")
    return tuple(str(value) for value in values)


def _only_text(source: str, read: TextColumns, notes: list[str]) -> str:
    """The column to score by default; if the first row of a file gave its name, `notes` says so."""
    for name in _PREFERRED:
        if name in read.names:
            return name
    textual = [name for name in read.names if isinstance(next(iter(read.column(name)[:1]), None), str)]
    if len(textual) != 1:
        raise InputError(f"{source!r} has the columns {', '.join(read.names)}; choose with --text COLUMN")
    name = textual[0]
    if read.header is not None:
        if len(name.split()) >= _WORDS_OF_A_TEXT or len(name) >= _CHARACTERS_OF_A_TEXT:
            raise InputError(
                f"the first row of {str(read.header)!r} seems to be a text, not the name of a column: "
                f"{_short(name)!r}; write a name above it, or if it is one, give it with --text"
            )
        notes.append(f"the first row of {read.header.name!r} was taken for the header: {name!r}")
    return name


def _short(text: str) -> str:
    """A text on one line, and its beginning if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _CHARACTERS_OF_A_TEXT else f"{line[:_CHARACTERS_OF_A_TEXT]}..."


def _find(source: str, running: bool) -> TextColumns:
    """The columns of the file, folder or data set that a DATA word names."""
    located = find_source(source, TEXT_SETS, TEXT_SUFFIXES)
    if located is None and source == PYTHON_TOPICS:
        lines = list(python_topics())
        return TextColumns({"text": lines if running else [line.strip() for line in lines if line.strip()]})
    if located is None:
        if Path(source.removesuffix(".gz")).suffix.lower() in TEXT_SUFFIXES or source.startswith(
            (".", "/", "~")
        ):
            raise InputError(f"there is no file {source!r}; check the path")
        words = [*TEXT_SETS, PYTHON_TOPICS, "hub:OWNER/NAME[/CONFIG][:SPLIT]", "a file or folder"]
        raise unknown_name("text", source, words)
    if not isinstance(located, tuple):
        return TextColumns(located)
    path, split = located
    return _from_folder(source, path, split, running) if path.is_dir() else read_text_file(path, running)


def _from_folder(source: str, folder: Path, split: str | None, running: bool) -> TextColumns:
    files = splits(folder, TEXT_SUFFIXES)
    if not files:
        kinds = ", ".join(TEXT_SUFFIXES)
        raise InputError(f"the folder {str(folder)!r} has no {kinds} file; give one with texts")
    parts = [read_text_file(file, running) for file in choose_split(source, files, split)]
    if len(parts) == 1:
        return parts[0]
    if any(part.names != parts[0].names for part in parts):
        raise InputError(f"the files of {source!r} have different columns; make them equal")
    columns = {name: [value for part in parts for value in part.column(name)] for name in parts[0].names}
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    return TextColumns(columns, header=parts[0].header, labels=parts[0].labels, notes=tuple(notes))


def read_text_file(file: Path, running: bool) -> TextColumns:
    """The columns of a file, by its suffix.

    Args:
        file: a .txt, .jsonl, .csv or .parquet file; the lines of a .txt file are a column "text". A FASTA
            file has the columns "sequence" and "name".
    """
    kind = file.suffix.lower()
    if is_fasta(file):
        records = read_fasta(file)
        columns = {"sequence": records.sequences, "name": records.names}
        return TextColumns(columns, labels="name", notes=tuple(records.notes))
    if kind not in TEXT_SUFFIXES:
        raise InputError(
            f"{str(file)!r} is not a {', '.join(TEXT_SUFFIXES)} file; convert it to one of these"
        )
    if file.stat().st_size == 0:
        raise InputError(f"{str(file)!r} is empty; give a text or more")
    if kind == ".parquet":
        from pyarrow import parquet

        with reading_parquet(file):
            check_distinct(file, parquet.read_schema(file).names)
            table = parquet.read_table(file)
        check_utf_8(file, table)
        return TextColumns(table)
    with reading(file):
        text = utf_8_text(file, file.read_bytes())
    if kind == ".txt":
        lines = io.StringIO(text, newline=None).readlines()
        texts = lines if running else [line.removesuffix("\n") for line in lines]
        return TextColumns({"text": texts}, lines=range(1, len(texts) + 1))
    if kind == ".csv":
        with long_cells():
            return _from_csv(file, text)
    return _from_jsonl(file, text)


def _from_csv(file: Path, text: str) -> TextColumns:
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        names = next(rows)
        check_distinct(file, names)
        columns: dict[str, list[Any]] = {name: [] for name in names}
        lines, before = [], rows.line_num
        for row in rows:
            line, before = before + 1, rows.line_num
            if not row:
                continue  # an empty line
            if len(row) != len(names):
                raise InputError(
                    f"{str(file)!r} has {len(row)} cells in line {rows.line_num} and {len(names)} in the "
                    "first; make them equal, with quotes around cells that hold a comma"
                )
            for name, cell in zip(names, row, strict=True):
                columns[name].append(cell)
            lines.append(line)
    except csv.Error as error:
        raise InputError(
            f"{str(file)!r} is not a regular CSV table, line {rows.line_num}: {error}"
        ) from error
    return TextColumns(columns, header=file, lines=lines)


def _from_jsonl(file: Path, text: str) -> TextColumns:
    records, lines = [], []
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
        lines.append(number)
    names = list(dict.fromkeys(name for record in records for name in record))
    return TextColumns({name: [record.get(name) for record in records] for name in names}, lines=lines)


def python_topics() -> tuple[str, ...]:
    """The lines of the text, with their ends; they differ between versions of Python.

    Example:
        >>> sum(map(len, python_topics())) > 300_000
        True
    """
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise InputError("this Python has no text of its documentation (pydoc_data); give a file") from error
    return tuple(line for topic in topics.values() for line in topic.splitlines(keepends=True))
