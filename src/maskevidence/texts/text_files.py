"""Texts to score: from files of lines, JSON, tables or sequences, folders of them, the Hugging Face hub."""

import csv
import io
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.provenance import digest
from maskevidence.core.support.sources import (
    HubSet,
    check_distinct,
    check_utf_8,
    choose_split,
    find_source,
    lines_of,
    long_cells,
    reading_parquet,
    splits,
)
from maskevidence.core.table import place_of
from maskevidence.texts.fasta import FASTA_SUFFIXES, is_fasta, read_fasta, unpacked_text

TEXT_SUFFIXES = (".txt", ".jsonl", ".csv", ".tsv", ".parquet", ".smi", *FASTA_SUFFIXES)
_JSON = ".json"  # not in folders, where it describes the data
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
    skipped: tuple[str, ...] = ()  # the columns whose empty rows were left out

    def __len__(self) -> int:
        return len(self.fields[0])

    def __getitem__(self, column: str) -> tuple[str, ...]:
        """The texts of a column."""
        return self.fields[self.columns.index(column)]

    def fingerprint(self) -> str:
        """A hash of the texts, independent of any tokenizer."""
        return digest(f"{len(text)} {text}" for field in self.fields for text in field)


class TextColumns(NamedTuple):
    """Columns by name, whose values are read on demand; "doc.text" is the field "text" of column "doc"."""

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
        """The values of a column, or of a field nested in one."""
        if name not in self.names:
            outer, _, inner = name.rpartition(".")
            return [value.get(inner) if isinstance(value, dict) else None for value in self.column(outer)]
        values = self.columns[name]
        return values.to_pylist() if hasattr(values, "to_pylist") else list(values)

    def has(self, name: str) -> bool:
        """Whether there is such a column or nested field."""
        outer, _, inner = name.rpartition(".")
        return name in self.names or (
            bool(outer)
            and self.has(outer)
            and any(isinstance(value, dict) and inner in value for value in self.column(outer))
        )

    def textual(self) -> list[str]:
        """The columns and nested fields that have a text, or a list, in any row."""
        of_numbers = re.compile("u?int|float|double|half|bool|date|time|decimal|null")
        kinds = {name: str(getattr(self.columns[name], "type", "")) for name in self.names}
        names = [name for name, kind in kinds.items() if not of_numbers.match(kind)]
        return [found for name in names for found in _with_text(name, self.column(name))]


def _with_text(name: str, values: list[Any]) -> list[str]:
    """The name if there is a text or a list among the values, and those of the fields nested in them."""
    nested = [value for value in values if isinstance(value, dict)]
    own = [name] if any(isinstance(value, str | list) for value in values) else []
    fields = dict.fromkeys(key for value in nested for key in value)
    return own + [
        found for key in fields for found in _with_text(f"{name}.{key}", [each.get(key) for each in nested])
    ]


def read_texts(
    source: str,
    columns: Sequence[str] | None = None,
    *,
    extra: Sequence[str] = (),
    id_column: str | None = None,
    limit: int | None = None,
    running: bool = False,
    skip_empty: Sequence[str] | None = None,
    upper: bool = False,
) -> Texts:
    """Read texts from a file, a folder or the hub.

    Args:
        source: a .txt (one text per line), .jsonl, .json (an array of objects, or one per line), .csv, .tsv,
            .smi (SMILES and name) or .parquet file, or a FASTA file (.fa, .fasta, .fas, .fna, .faa, .pep,
            .a2m, .a3m) of sequences, gzipped or not; a folder of such files (but .json) named by split; the
            name of a data set such as "glue/qnli", or "python-topics", which is always available; or
            "hub:OWNER/NAME[/CONFIG]". A split follows after a colon; it is required if there is more than
            one.
        columns: the columns with the texts; by default "text", "sentence", "sequence", or the only one with
            text. "doc.text" is a field nested in column "doc".
        extra: further columns to read.
        id_column: the column with the names of the texts; by default those of a FASTA file.
        limit: read only the first `limit` rows.
        running: the lines of a .txt file are running text: keep their ends, and empty lines.
        skip_empty: leave rows out that have no text, or blanks alone, in one of these columns; if there are
            none in the list, in one of `columns`.
        upper: make small letters capital ones, as proteins and DNA are written.

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
    required = () if skip_empty is None else tuple(skip_empty or chosen)
    missing = [column for column in (*names, *named, *required) if not read.has(column)]
    if missing:
        there = dict.fromkeys([*read.names, *read.textual()])
        raise InputError(f"{source!r} has no column {missing[0]!r}; it has {', '.join(there)}")
    values = {column: read.column(column)[:limit] for column in dict.fromkeys((*names, *required))}
    n_rows = len(values[names[0]])
    empty = {row for column in required for row in range(n_rows) if _is_empty(values[column][row])}
    if empty:
        notes.append(f"{len(empty):,} of {n_rows:,} texts are empty and were skipped")
    kept = [row for row in range(n_rows) if row not in empty]
    for column in names:
        for row in kept:
            if not isinstance(value := values[column][row], str):
                kind = "nothing" if value is None else f"{value!r}, which is not text,"
                place = place_of(row, read.lines)
                remedy = (
                    "leave it out" if value is not None else "leave it out, or skip such rows: --skip-empty"
                )
                raise InputError(f"{source!r} has {kind} in column {column!r}, {place}; {remedy}")
    if not kept:
        raise InputError(f"{source!r} has no {'text' if empty else 'rows'}; give a text or more")
    fields = [tuple(values[column][row] for row in kept) for column in names]
    if upper:
        n_small = sum(letter.islower() for field in fields for text in field for letter in text)
        fields = [tuple(map(str.upper, field)) for field in fields]
        notes.append(f"small letters were made capital ones ({n_small:,})")
    labels = _labels(source, read, id_column or read.labels, kept)
    lines = None if read.lines is None else [read.lines[row] for row in kept]
    return Texts(source, tuple(names), tuple(fields), tuple(notes), labels, lines, required)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def _labels(
    source: str, read: TextColumns, column: str | None, kept: Sequence[int]
) -> tuple[str, ...] | None:
    """The names of the texts in some rows, from a column of text or numbers."""
    if column is None:
        return None
    values = read.column(column)
    for row in kept:
        if values[row] is None:
            place = place_of(row, read.lines)
            raise InputError(f"{source!r} has no name in column {column!r}, {place}; give one")
    return tuple(str(values[row]) for row in kept)


def _only_text(source: str, read: TextColumns, notes: list[str]) -> str:
    """The column to score by default; `notes` says which, unless its name does."""
    for name in _PREFERRED:
        if name in read.names:
            return name
    textual = read.textual()
    if len(textual) != 1:
        there = ", ".join(dict.fromkeys([*read.names, *textual]))
        raise InputError(f"{source!r} has the columns {there}; choose with --text COLUMN")
    name = textual[0]
    if read.header is not None:
        if len(name.split()) >= _WORDS_OF_A_TEXT or len(name) >= _CHARACTERS_OF_A_TEXT:
            raise InputError(
                f"the first row of {str(read.header)!r} seems to be a text, not the name of a column: "
                f"{_short(name)!r}; write a name above it, or if it is one, give it with --text"
            )
        notes.append(f"the first row of {read.header.name!r} was taken for the header: {name!r}")
    elif len(read.names) > 1:
        notes.append(f"the texts are column {name!r}, the only one with text")
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
        suffix = Path(source.removesuffix(".gz")).suffix.lower()
        if suffix in (*TEXT_SUFFIXES, _JSON) or source.startswith((".", "/", "~")):
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
        file: a file of texts, which `read_texts` lists; the lines of a .txt file are a column "text". A FASTA
            file has the columns "sequence" and "name", and a .smi file "text" and "name".
    """
    kind = Path(file.name.lower().removesuffix(".gz")).suffix
    if is_fasta(file):
        records = read_fasta(file)
        columns = {"sequence": records.sequences, "name": records.names}
        return TextColumns(columns, labels="name", notes=tuple(records.notes))
    if kind not in (*TEXT_SUFFIXES, _JSON):
        kinds = ", ".join((*TEXT_SUFFIXES, _JSON))
        raise InputError(f"{str(file)!r} is not a {kinds} file; convert it to one of these")
    if file.stat().st_size == 0:
        raise InputError(f"{str(file)!r} is empty; give a text or more")
    if kind == ".parquet":
        from pyarrow import parquet

        with reading_parquet(file):
            check_distinct(file, parquet.read_schema(file).names)
            table = parquet.read_table(file)
        check_utf_8(file, table)
        return TextColumns(table)
    text = unpacked_text(file)
    if not text:
        raise InputError(f"{str(file)!r} is empty; give a text or more")
    if kind == ".txt":
        lines = io.StringIO(text, newline=None).readlines()
        texts = lines if running else [line.removesuffix("\n") for line in lines]
        return TextColumns({"text": texts}, lines=range(1, len(texts) + 1))
    if kind == ".smi":  # SMILES, a blank and a name, which may be missing
        cells = {n: line.split(None, 1) for n, line in _lines(text)}
        names = [each[1].strip() for each in cells.values() if len(each) > 1]
        named = {"name": names} if len(names) == len(cells) else {}
        columns = {"text": [each[0] for each in cells.values()], **named}
        return TextColumns(columns, labels="name" if named else None, lines=list(cells))
    if kind in (".csv", ".tsv"):
        with long_cells():
            return _from_csv(file, text, "," if kind == ".csv" else "\t")
    return _from_json(file, text)


def _lines(text: str) -> list[tuple[int, str]]:
    """The lines with more than blanks, each with its number; other separators of Unicode end no line."""
    return [(number, line) for number, line in enumerate(lines_of(text), start=1) if line.strip()]


def _from_csv(file: Path, text: str, delimiter: str) -> TextColumns:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
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
                    f"first; make them equal, with quotes around cells that hold a "
                    f"{'comma' if delimiter == ',' else 'tab'}"
                )
            for name, cell in zip(names, row, strict=True):
                columns[name].append(cell)
            lines.append(line)
    except csv.Error as error:
        raise InputError(
            f"{str(file)!r} is not a regular CSV table, line {rows.line_num}: {error}"
        ) from error
    return TextColumns(columns, header=file, lines=lines)


def _from_json(file: Path, text: str) -> TextColumns:
    """The columns of JSON objects: one in each line, or all of them (or single texts) in an array."""
    lines = None
    if text.lstrip().startswith("["):
        records = _parsed(file, text, "")
        if records and all(isinstance(record, str) for record in records):
            return TextColumns({"text": records})
    else:
        numbered = _lines(text)
        lines = [number for number, _ in numbered]
        records = [_parsed(file, line, f" in line {number}") for number, line in numbered]
    for row, record in enumerate(records):
        if not isinstance(record, dict):
            place = place_of(row, lines)
            raise InputError(f'{str(file)!r} has no JSON object in {place}; give one, as {{"text": ...}}')
    names = dict.fromkeys(name for record in records for name in record)
    return TextColumns({name: [record.get(name) for record in records] for name in names}, lines=lines)


def _parsed(file: Path, text: str, place: str) -> Any:
    """The value of a JSON text, which stands in some place of a file."""
    try:
        value = json.loads(text)
        if r"\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{str(file)!r} has half of a surrogate pair{place}: "
            f"\\u{ord(error.object[error.start]):04x}, which is not a character; repair it"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = str(error) if place == "" or not isinstance(error, json.JSONDecodeError) else error.msg
        raise InputError(f"{str(file)!r} is not JSON{place}: {reason}; repair it") from error
    return value


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
