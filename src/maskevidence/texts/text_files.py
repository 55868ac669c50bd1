"""Texts to score: from files of lines, JSON, tables or sequences, folders of them, the Hugging Face hub."""

import csv
import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.support.checks import some_of, whole_number
from maskevidence.core.support.provenance import digest
from maskevidence.core.support.sources import (
    HubSet,
    check_distinct,
    check_utf_8,
    choose_split,
    find_source,
    long_cells,
    reading_parquet,
    splits,
)
from maskevidence.core.table import place_of
from maskevidence.texts.fasta import FASTA_SUFFIXES, is_fasta, read_fasta
from maskevidence.texts.text_options import GLUE
from maskevidence.texts.text_store import Lines, TextStore, opened_text

TEXT_SUFFIXES = (".txt", ".jsonl", ".csv", ".tsv", ".parquet", ".smi", *FASTA_SUFFIXES)
_JSON = ".json"  # not in folders, where it describes the data
_PREFERRED = ("text", "sentence", "sequence")
TEXT_SETS = {f"glue/{name}": HubSet(f"glue/{name}", "nyu-mll/glue", name) for name in GLUE}
TEXT_SETS["tiny-shakespeare"] = HubSet("tiny_shakespeare", None)
PYTHON_TOPICS = "python-topics"
_ROWS_AT_ONCE = 2**13  # of a table of pyarrow
_ANY_LINE = range(1, 2**62)
_WORDS_OF_A_TEXT = 3  # a column has a shorter name
_CHARACTERS_OF_A_TEXT = 40
_SHOWN = 3  # equal names


@dataclass(frozen=True)
class Texts:
    """Texts in one or more columns.

    Attributes:
        name: where they come from, as the user named it.
        columns: the names of the columns, in the order asked for.
        fields: one sequence of texts per column, all of the same length; many texts lie in a temporary file
            (TMPDIR), and slices are read from it.
        notes: how they were read, where this was not asked for, one sentence each.
        labels: a name for each text; None if they have none.
        lines: the line of each text in its file; None if that has no lines.
    """

    name: str
    columns: tuple[str, ...]
    fields: tuple[Sequence[str], ...]
    notes: tuple[str, ...] = ()
    labels: tuple[str, ...] | None = None
    lines: Sequence[int] | None = None
    skipped: tuple[str, ...] = ()  # the columns whose empty rows were left out

    def __len__(self) -> int:
        return len(self.fields[0])

    def __getitem__(self, column: str) -> Sequence[str]:
        """The texts of a column."""
        return self.fields[self.columns.index(column)]

    def fingerprint(self) -> str:
        """A hash of the texts, independent of any tokenizer."""
        return digest(f"{len(text)} {text}" for field in self.fields for text in field)


class TextColumns(NamedTuple):
    """Columns by name, whose values are read on demand; "doc.text" is the field "text" of column "doc"."""

    columns: Any  # by name: values, or what is called for an iterator over them; or a table of pyarrow
    header: Path | None = None  # the file whose first row gave the names; None if they do not come from a row
    labels: str | None = None  # the column with the names of the rows, where the format has one
    notes: tuple[str, ...] = ()  # changes of the values, one sentence each
    lines: Sequence[int] | None = None  # the line of each row in its file; None if that has no lines

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return list(getattr(self.columns, "column_names", self.columns))

    def each(self, name: str) -> Iterator[Any]:
        """The values of a column, or of a field nested in one, one by one."""
        if name not in self.names:
            outer, _, inner = name.rpartition(".")
            return (value.get(inner) if isinstance(value, dict) else None for value in self.each(outer))
        values = self.columns[name]
        if callable(values):
            return iter(values())
        if not hasattr(values, "to_pylist"):
            return iter(values)
        starts = range(0, len(values), _ROWS_AT_ONCE)
        return chain.from_iterable(values.slice(k, _ROWS_AT_ONCE).to_pylist() for k in starts)

    def column(self, name: str) -> list[Any]:
        """The values of a column, or of a field nested in one."""
        return list(self.each(name))

    def has(self, name: str) -> bool:
        """Whether there is such a column or nested field."""
        outer, _, inner = name.rpartition(".")
        return name in self.names or (
            bool(outer)
            and self.has(outer)
            and any(isinstance(value, dict) and inner in value for value in self.each(outer))
        )

    def textual(self) -> list[str]:
        """The columns and nested fields that have a text, or a list, in any row."""
        of_numbers = re.compile("u?int|float|double|half|bool|date|time|decimal|null")
        kinds = {name: str(getattr(self.columns[name], "type", "")) for name in self.names}
        names = [name for name, kind in kinds.items() if not of_numbers.match(kind)]
        return [
            found
            for name in names
            for found in (
                [name]
                if isinstance(self.columns[name], Lines | TextStore)
                else _with_text(name, self.column(name))
            )
        ]


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
        limit: read only the first `limit` rows, not counting those that `skip_empty` leaves out.
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
    found, row, n_empty, n_small = _kept(source, read, names, required, limit, upper)
    if n_empty:
        notes.append(f"{n_empty:,} of {n_empty + len(row):,} texts are empty and were skipped")
    if not row:
        raise InputError(f"{source!r} has no {'text' if n_empty else 'rows'}; give a text or more")
    if upper:
        notes.append(f"small letters were made capital ones ({n_small:,})")
    labels = _labels(source, read, id_column or read.labels, row)
    notes += [] if labels is None else _equal(labels)
    if labels is None and n_empty:
        labels = tuple(place_of(k, read.lines) for k in row)
    lines = read.lines
    if lines is not None:
        lines = lines[: len(row)] if not n_empty else [lines[k] for k in row]
    fields = tuple(field.in_memory() for field in found)
    return Texts(source, tuple(names), fields, tuple(notes), labels, lines, required)


def _kept(
    source: str, read: TextColumns, names: list[str], required: Sequence[str], limit: int | None, upper: bool
) -> tuple[list[TextStore], Sequence[int], int, int]:
    """The texts of the rows with text in all required columns, by column, and the place of each row.

    Also how many rows were left out, and how many letters were made capital ones.
    """
    asked = list(dict.fromkeys((*names, *required)))
    places = [asked.index(column) for column in required]
    fields, taken, n_rows, n_empty, n_small = [TextStore() for _ in names], array("q"), 0, 0, 0
    for row, values in enumerate(zip(*map(read.each, asked), strict=True)):
        if any(_is_empty(values[place]) for place in places):
            n_empty += 1
            continue
        n_rows += 1
        if required:
            taken.append(row)
        for column, field, value in zip(names, fields, values, strict=False):
            if not isinstance(value, str):
                raise _no_text(source, value, column, place_of(row, read.lines))
            if upper:
                n_small += sum(letter.islower() for letter in value)
                value = value.upper()
            field.append(value)
        if n_rows == limit:
            break
    return fields, taken if required else range(n_rows), n_empty, n_small


def _no_text(source: str, value: Any, column: str, place: str) -> InputError:
    kind = "nothing" if value is None else f"{value!r}, which is not text,"
    remedy = "leave it out" if value is not None else "leave it out, or skip such rows: --skip-empty"
    return InputError(f"{source!r} has {kind} in column {column!r}, {place}; {remedy}")


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
        if _is_empty(values[row]) and column != read.labels:  # a record of FASTA may have no name
            place = place_of(row, read.lines)
            raise InputError(f"{source!r} has no name in column {column!r}, {place}; give one")
    return tuple(str(values[row]) for row in kept)


def _equal(names: Sequence[str]) -> list[str]:
    """A note on names that several texts have.

    Example:
        >>> _equal(["a", "b", "a", "a"])
        ["only 2 of the 4 names of the texts are different: 'a' 3 times"]
    """
    counts = Counter(names)
    if len(counts) == len(names):
        return []
    listed = some_of([f"{name!r} {n:,} times" for name, n in counts.items() if n > 1], _SHOWN)
    return [f"only {len(counts):,} of the {len(names):,} names of the texts are different: {listed}"]


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
    """A text on one line, cut if it is long."""
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
    columns = {name: partial(_of_all, parts, name) for name in parts[0].names}
    notes = dict.fromkeys(note for part in parts for note in part.notes)
    return TextColumns(columns, header=parts[0].header, labels=parts[0].labels, notes=tuple(notes))


def _of_all(parts: Sequence[TextColumns], name: str) -> Iterator[Any]:
    return chain.from_iterable(part.each(name) for part in parts)


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
    if next(iter(Lines(file)), None) is None:
        raise InputError(f"{str(file)!r} is empty; give a text or more")
    if kind == ".txt":
        return TextColumns({"text": Lines(file, ends=running)}, lines=_ANY_LINE)
    if kind == ".smi":  # SMILES, a blank and a name, which may be missing
        cells = {n: line.split(None, 1) for n, line in _lines(file)}
        names = [each[1].strip() for each in cells.values() if len(each) > 1]
        named = {"name": names} if len(names) == len(cells) else {}
        columns = {"text": [each[0] for each in cells.values()], **named}
        return TextColumns(columns, labels="name" if named else None, lines=list(cells))
    if kind in (".csv", ".tsv"):
        with long_cells(), opened_text(file, newline="") as text:
            return _from_csv(file, text, "," if kind == ".csv" else "\t")
    return _from_json(file)


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """The lines with more than blanks, each with its number."""
    return ((number, line) for number, line in enumerate(Lines(file), start=1) if line.strip())


def _from_csv(file: Path, text: Iterable[str], delimiter: str) -> TextColumns:
    rows = csv.reader(text, delimiter=delimiter, strict=True)
    try:
        names = next(rows)
        check_distinct(file, names)
        columns, lines, before = [TextStore() for _ in names], array("q"), rows.line_num
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
            for column, cell in zip(columns, row, strict=True):
                column.append(cell)
            lines.append(line)
    except csv.Error as error:
        raise InputError(
            f"{str(file)!r} is not a regular CSV table, line {rows.line_num}: {error}"
        ) from error
    return TextColumns(dict(zip(names, columns, strict=True)), header=file, lines=lines)


def _from_json(file: Path) -> TextColumns:
    """The columns of JSON objects: one in each line, or all of them (or single texts) in an array."""
    first = next(_lines(file), (0, ""))[1]
    if first.lstrip().startswith("["):
        with opened_text(file) as text:
            records = _parsed(file, text.read(), "")
        if records and all(isinstance(record, str) for record in records):
            return TextColumns({"text": records})
        names = _names_of(file, records, None)
        return TextColumns({name: [record.get(name) for record in records] for name in names})
    lines, kept = array("q"), TextStore()
    for number, line in _lines(file):
        lines.append(number)
        kept.append(line)
    parsed = (_parsed(file, line, f" in line {n}") for n, line in zip(lines, kept, strict=True))
    names = _names_of(file, parsed, lines)
    columns = {name: partial(_field, kept, name) for name in names}
    return TextColumns(columns, lines=lines)


def _field(lines: Iterable[str], name: str) -> Iterator[Any]:
    """The values of a name in lines of JSON objects."""
    return (json.loads(line).get(name) for line in lines)


def _names_of(file: Path, records: Iterable[Any], lines: Sequence[int] | None) -> list[str]:
    """The names of all fields, in the order in which they appear."""
    names: dict[str, None] = {}
    for row, record in enumerate(records):
        if not isinstance(record, dict):
            place = place_of(row, lines)
            raise InputError(f'{str(file)!r} has no JSON object in {place}; give one, as {{"text": ...}}')
        if isinstance(record, _Repeating):
            try:
                check_distinct(file, record.names)
            except InputError as error:
                raise InputError(f"{error} ({place_of(row, lines)})") from None
        names |= dict.fromkeys(record)
    return list(names)


def _parsed(file: Path, text: str, place: str) -> Any:
    """Parse a JSON text; errors name its place in the file."""
    try:
        value = _DECODER.decode(text)
        if r"\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{str(file)!r} has half of a surrogate pair{place}: "
            f"\\u{ord(error.object[error.start]):04x}, which is not a character; repair it"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = str(error) if place == "" or not isinstance(error, json.JSONDecodeError) else error.msg
        remedy = "give an object in each line, or all in one array" if place == " in line 1" else "repair it"
        raise InputError(f"{str(file)!r} is not JSON{place}: {reason}; {remedy}") from error
    return value


class _Repeating(dict[str, Any]):
    """A JSON object that has a name twice."""

    names: list[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build a JSON object that remembers names given twice."""
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    repeating = _Repeating(value)
    repeating.names = [name for name, _ in pairs]
    return repeating


_DECODER = json.JSONDecoder(object_pairs_hook=_object)  # one, since each is a cycle of objects


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
