"""Describe a table before it is read: what each column holds, and what a person may decide otherwise."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.core.support.checks import MISSING, some_of, typed, word_of
from maskevidence.tables.reading.columns import ENOUGH_ROWS, NAMED_CODE, ReadColumn, left_out
from maskevidence.tables.reading.description import (
    DECIDE,
    LOOK,
    RECORD,
    CellAt,
    ColumnDescription,
    Finding,
    TableDescription,
    finding,
    quoted,
)
from maskevidence.tables.reading.numbers import decimals_of
from maskevidence.tables.reading.table_notes import note_on_codes, note_on_copies

_ROWS_OF_IDS, _FEWEST_OF_IDS, _DIFFERENT = 50, 10_000, 0.9  # rows, size and share of numbers that name rows
_RELATED = 3.5  # standard errors of a rank correlation
_FEW_CODES = 3  # different whole numbers that may be codes


def described(
    name: str,
    columns: Mapping[str, Any],
    read: Mapping[str, ReadColumn],
    lines: Sequence[int] | None,
    findings: Sequence[Finding] = (),
    **file: str,
) -> TableDescription:
    """Describe a table from the columns that were read.

    Args:
        columns: the file's cells, chunked arrays of pyarrow, by column.
        read: how each was read.
        findings: on rows and the file.
        file: delimiter, decimal and encoding.
    """
    found, all_columns, seen = list(findings), list[ColumnDescription](), dict[Any, str]()
    for key, column in read.items():
        one, more = _column(column, columns[key], lines, first=not all_columns)
        copy_of = seen.setdefault(_content(columns[key]), key)
        if copy_of != key and one.kind not in ("empty", "constant"):
            one = replace(one, copy_of=copy_of)
            note = f"has the same cells as {copy_of!r}"
            more.append(Finding("copy", key, one.n_cells, (), note, f"--drop {typed([key])}", LOOK))
        all_columns.append(one)
        found += [*column.findings, *more]
    numbers = {
        key: _codes(columns[key]) if column.values is None else column.values for key, column in read.items()
    }
    full = {key: values for key, values in numbers.items() if not np.isnan(values).all()}
    of_numbers = [key for key in full if read[key].values is not None]
    if of_numbers and of_numbers[0] == next(iter(read)) and all_columns[0].kind == "number":
        first, *others = (
            full[key] for key in [of_numbers[0], *(key for key in full if key != of_numbers[0])]
        )
        if _names_rows(first, others):
            why = "whole numbers, nearly all different and without relation to another column, come first"
            options = f"--id-column {typed(of_numbers[:1])}, or --drop {typed(of_numbers[:1])}"
            note = f"{why}: they may name the rows, and are read as numbers"
            all_columns[0] = replace(all_columns[0], kind="id", why=why)
            found.append(Finding("id", of_numbers[0], len(first), (), note, options, LOOK))
    if full:
        found += _of_rows(np.column_stack(list(full.values())))
    if of_numbers:
        found += _of_codes(np.column_stack([full[key] for key in of_numbers]), of_numbers)
    found.sort(key=lambda each: (-each.weight, -each.n_cells))
    n_rows = len(next(iter(columns.values()))) if columns else 0
    return TableDescription(name, n_rows, tuple(all_columns), tuple(found), **file)


def _names_rows(column: Float64[np.ndarray, " N"], others: Sequence[Float64[np.ndarray, " N"]]) -> bool:
    """Whether numbers look like names of rows: long, whole, nearly all different, unlike other columns."""
    from scipy.stats import rankdata  # takes half a second to import

    known = column[~np.isnan(column)]
    if len(known) < _ROWS_OF_IDS or known.min() < _FEWEST_OF_IDS or not (np.floor(known) == known).all():
        return False
    if len(np.unique(known)) < _DIFFERENT * len(known):
        return False
    rank = rankdata(column, nan_policy="omit")
    for other in others:
        both = ~np.isnan(column) & ~np.isnan(other)
        x, y = rank[both], rankdata(other[both])
        if len(x) > 2 and x.std() and y.std() and abs(np.corrcoef(x, y)[0, 1]) * np.sqrt(len(x)) > _RELATED:
            return False
    return len(others) > 0


def _content(column: Any) -> Any:
    """A key that equal columns share."""
    import pyarrow as pa

    from maskevidence.core.support.provenance import digest

    cells = column.combine_chunks()
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        encoded = cells.dictionary_encode()
        codes = np.asarray(encoded.indices.fill_null(-1))
        return digest(str(cells.type), codes, map(str, encoded.dictionary.to_pylist()))
    return digest(str(cells.type), map(str, cells.to_pylist()))


def _column(
    read: ReadColumn, cells: Any, lines: Sequence[int] | None, first: bool
) -> tuple[ColumnDescription, list[Finding]]:
    """Complete a column's description with its slow parts, and its findings."""
    one, found = read.described, list[Finding]()
    if read.values is None:
        if one.used_as is None and read.refusal:
            what, note = "decimals" if "may be" in read.refusal else "type", f"cannot be read: {read.refusal}"
            return one, [Finding(what, one.name, one.n_cells, (), note, "", DECIDE)]
        if first and one.kind == "text" and one.n_different == one.n_cells - one.n_missing:
            one = replace(one, kind="id", why=f"{one.why}, in the first column")
        if one.used_as is None:
            found.append(left_out(one))
        if one.kind in ("words", "yes/no"):
            found += _spellings(one.name, cells, lines)
        return one, found
    values = read.values[~np.isnan(read.values)]
    different = np.unique(values)
    one = replace(one, n_different=len(different) or one.n_different, decimals=decimals_of(different))
    if not len(different):
        return one, [] if one.n_limits else [left_out(one)]
    if len(different) == 1 and one.kind != "date":
        one = replace(one, kind="constant", why=f"one value, {different[0]:.15g}")
    elif one.kind == "number":
        one, found = _whole_numbers(one, read.values, values, different)
    if one.kind == "constant":
        note = f"{one.why}: says nothing of other columns"
        found.append(
            Finding("constant", one.name, one.n_cells, (), note, f"--drop {typed([one.name])}", RECORD)
        )
    return one, found


def _whole_numbers(
    one: ColumnDescription,
    column: Float64[np.ndarray, " N"],
    values: Float64[np.ndarray, " n"],
    different: Float64[np.ndarray, " k"],
) -> tuple[ColumnDescription, list[Finding]]:
    """Whether whole numbers are row numbers or codes."""
    name, whole, found = one.name, bool((np.floor(different) == different).all()), list[Finding]()
    if {*different.tolist()} == {0.0, 1.0}:
        return replace(one, kind="yes/no", why="0 and 1"), found
    if not whole:
        return one, found
    of_years = different[0] >= 1500 and different[-1] <= 2100
    counts_rows = len(column) >= ENOUGH_ROWS and bool((np.diff(column) == 1).all()) and not of_years
    all_differ = len(different) == len(values) >= ENOUGH_ROWS
    named = NAMED_CODE.search(name) is not None
    options = f"--id-column {typed([name])}, or --drop {typed([name])}"
    most_differ = 2 * len(different) > len(values)
    if counts_rows or (named and (all_differ or (most_differ and different[-1] >= 1e8))):
        note = "counts the rows" if counts_rows else "names something by a number"
        found.append(Finding("id", name, len(values), (), f"{note}: read as numbers", options, LOOK))
        return replace(one, kind="id", why=note), found
    few = len(different) <= _FEW_CODES and len(values) > 10 * len(different)
    if named or few:
        listed = some_of([f"{value:.0f}" for value in different])
        note = f"whole numbers that may be codes ({listed}): read as numbers"
        hint, weight = f"--categories {typed([name])}", LOOK if named else RECORD
        found.append(Finding("codes", name, len(values), (), note, hint, weight))
    return one, found


def _spellings(name: str, cells: Any, lines: Sequence[int] | None) -> list[Finding]:
    """A finding on words that differ only by case, blanks or Unicode composition."""
    words = Counter(text for text in map(word_of, cells.to_pylist()) if text not in MISSING)
    groups: dict[str, list[str]] = {}
    for word, _ in words.most_common():
        groups.setdefault(folded_word(word), []).append(word)
    rare = [word for group in groups.values() for word in group[1:]]
    if not rare:
        return []
    kept = {*rare}
    at = [
        CellAt(row, None if lines is None else lines[row], str(cell))
        for row, cell in enumerate(cells.to_pylist())
        if word_of(cell) in kept
    ]
    pairs = [f"{quoted(group[0])} and {quoted(group[1])}" for group in groups.values() if len(group) > 1]
    note = f"{some_of(pairs, 2)} differ by capitals, blanks or composition alone: kept apart"
    return [finding("spellings", name, at, note, "--fold-words", DECIDE)]


def folded_word(word: str) -> str:
    """A word with case, blanks and Unicode composition normalised."""
    return unicodedata.normalize("NFC", " ".join(word.split())).casefold()


def _codes(column: Any) -> Float64[np.ndarray, " N"]:
    """The cells of a column as indices of its distinct texts; NaN for empty cells."""
    place: dict[str, float] = {}
    words = [word_of(cell) for cell in column.to_pylist()]
    return np.array(
        [np.nan if word in MISSING else place.setdefault(word, float(len(place))) for word in words]
    )


def _of_codes(values: Float64[np.ndarray, "N D"], names: Sequence[str]) -> list[Finding]:
    """Findings on numbers that may be codes for missing values."""
    found = []
    for note in note_on_codes(values, names):
        text, _, option = note.partition(": if it means missing, give ")
        column = re.search("of '(.*?)'", text)
        found.append(
            Finding("codes", column[1] if column else None, 1, (), text, option.split(" ")[0], DECIDE)
        )
    return found


def _of_rows(values: Float64[np.ndarray, "N D"]) -> list[Finding]:
    """Findings on equal rows."""
    filled, found = values[~np.isnan(values).all(axis=1)], []
    for note in note_on_copies(filled):
        number = int(note.split(" ")[0].replace(",", ""))
        found.append(Finding("equal rows", None, number, (), note, "", LOOK))
    return found
