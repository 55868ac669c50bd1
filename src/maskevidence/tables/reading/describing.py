"""Describe a table before it is read: what each column holds, and what a person may decide otherwise."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence.core.support.checks import some_of, typed
from maskevidence.tables.reading.columns import (
    ENOUGH_ROWS,
    MAX_CATEGORIES,
    NAMED_CODE,
    Cells,
    ReadColumn,
    are_compact_dates,
    left_out,
)
from maskevidence.tables.reading.description import (
    DECIDE,
    LOOK,
    RECORD,
    ColumnDescription,
    Finding,
    TableDescription,
    finding,
    quoted,
)
from maskevidence.tables.reading.numbers import decimals_of
from maskevidence.tables.reading.table_notes import note_on_codes, note_on_copies

_ROWS_OF_IDS, _FEWEST_OF_IDS, _DIFFERENT = 50, 10_000, 0.9  # rows, size and share of numbers that name rows
_DIGITS_OF_IDS = 8  # in other columns than the first: fewest of an article number
_RELATED = 3.5  # standard errors of a rank correlation
_REMEDY = re.compile(": (?=give |write )")  # before what a refusal asks for
_FEW_CODES = 3  # different whole numbers that may be codes


def described(
    name: str,
    columns: Mapping[str, Any],
    read: Mapping[str, ReadColumn],
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
        one, more = _column(column, columns[key], first=not all_columns)
        copy_of = seen.setdefault(_content(column) or key, key)
        if copy_of != key and one.kind not in ("empty", "constant"):
            one = replace(one, copy_of=copy_of)
            note = f"has the same cells as {copy_of!r}"
            more.append(Finding("copy", key, one.n_cells, (), note, f"--drop {typed([key])}", LOOK))
        all_columns.append(one)
        found += [*column.findings, *more]
    full = {key: _numbers(column) for key, column in read.items()}
    full = {key: values for key, values in full.items() if not np.isnan(values).all()}
    of_numbers = [key for key in full if read[key].values is not None]
    for place, one in enumerate(all_columns):
        others = [values for key, values in full.items() if key != one.name]
        if one.kind != "number" or one.name not in full or not _names_rows(full[one.name], others, not place):
            continue
        why = "whole numbers, nearly all different and without relation to another column"
        why += ", come first" if not place else ", have as many digits each"
        options = f"--id-column {typed([one.name])}, or --drop {typed([one.name])}"
        note = f"{why}: they may name the rows, and are read as numbers"
        all_columns[place] = replace(one, kind="id", why=why)
        found.append(Finding("id", one.name, one.n_cells, (), note, options, LOOK))
    if full:
        found += _of_rows(np.column_stack(list(full.values())))
    if of_numbers:
        found += _of_codes(np.column_stack([full[key] for key in of_numbers]), of_numbers)
    found.sort(key=lambda each: (-each.weight, -each.n_cells))
    n_rows = len(next(iter(columns.values()))) if columns else 0
    return TableDescription(name, n_rows, tuple(all_columns), tuple(found), **file)


def _names_rows(
    column: Float64[np.ndarray, " N"], others: Sequence[Float64[np.ndarray, " N"]], is_first: bool
) -> bool:
    """Whether numbers look like names of rows: long, whole, nearly all different, unlike other columns."""
    known = column[~np.isnan(column)]
    digits = {len(f"{end:.0f}") for end in (known.min(), known.max())}
    long = len(digits) == 1 and min(digits) >= _DIGITS_OF_IDS
    if not long and (not is_first or len(known) < _ROWS_OF_IDS or known.min() < _FEWEST_OF_IDS):
        return False
    different = len(np.unique(known))
    if different < max(ENOUGH_ROWS, _DIFFERENT * len(known)) or not (np.floor(known) == known).all():
        return False
    from scipy.stats import rankdata  # takes half a second to import

    rank = rankdata(column, nan_policy="omit")
    for other in others:
        both = ~np.isnan(column) & ~np.isnan(other)
        x, y = rank[both], rankdata(other[both])
        if len(x) > 2 and x.std() and y.std() and abs(np.corrcoef(x, y)[0, 1]) * np.sqrt(len(x)) > _RELATED:
            return False
    return len(others) > 0


def _content(read: ReadColumn) -> str:
    """A key that equal columns share; "" for columns that are not read."""
    from maskevidence.core.support.provenance import digest

    if read.values is None:
        return "" if read.cells is None else digest(read.cells.codes, map(repr, read.cells.texts))
    return digest(repr((read.form, read.odd, read.codes, read.limits)), read.values)


def _numbers(read: ReadColumn) -> Float64[np.ndarray, " N"]:
    """Numbers as they are read, words by their places among the distinct ones."""
    if read.values is not None or read.cells is None:
        return np.full(1, np.nan) if read.values is None else read.values
    return np.where(read.cells.codes < 0, np.nan, read.cells.codes)


def _column(read: ReadColumn, cells: Any, first: bool) -> tuple[ColumnDescription, list[Finding]]:
    """Complete a column's description with its slow parts, and its findings."""
    one, found = read.described, list[Finding]()
    if read.values is not None:
        values = read.values[~np.isnan(read.values)]
        different = np.unique(values)
        one = replace(one, n_different=len(different) or one.n_different, decimals=decimals_of(different))
        if not len(different):
            return one, [] if one.n_limits else [left_out(one)]
        if len(different) == 1 and one.kind != "date":
            one = replace(one, kind="constant", why=f"one value, {different[0]:.15g}")
        elif one.kind == "number":
            one, found = _whole_numbers(one, read.values, values, different)
            if one.decimals in (1, 2) and len(different) <= MAX_CATEGORIES:
                found += _versions(one.name, cells)
    elif one.used_as is None and read.refusal:
        what, (why, *remedy) = "decimals" if "may be" in read.refusal else "type", _REMEDY.split(read.refusal)
        note = f"cannot be read: {why}"
        return one, [Finding(what, one.name, one.n_cells, (), note, "".join(remedy), DECIDE)]
    else:
        if first and one.kind == "text" and one.n_different == one.n_cells - one.n_missing:
            one = replace(one, kind="id", why=f"{one.why}, in the first column")
        if one.used_as is None:
            found.append(left_out(one))
        if one.kind in ("words", "yes/no") and read.cells is not None:
            found += _spellings(one.name, read.cells)
    if one.kind == "constant":
        unless = ", unless empty cells mean another" if one.n_missing else ""
        note, option = f"{one.why}: says nothing of other columns{unless}", f"--drop {typed([one.name])}"
        found.append(Finding("constant", one.name, one.n_cells, (), note, option, RECORD))
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
    if are_compact_dates(different):
        note = f"whole numbers that may be dates ({different[0]:.0f}): read as numbers"
        found.append(Finding("codes", name, len(values), (), note, "", LOOK))
        return one, found
    few = len(different) <= _FEW_CODES and len(values) > 10 * len(different)
    if named or few:
        listed = some_of([f"{value:.0f}" for value in different])
        note = f"whole numbers that may be codes ({listed}): read as numbers"
        hint, weight = f"--categories {typed([name])}", LOOK if named else RECORD
        found.append(Finding("codes", name, len(values), (), note, hint, weight))
    return one, found


def _versions(name: str, cells: Any) -> list[Finding]:
    """A finding on numbers that may be versions, of which 3.10 follows 3.9."""
    ends = {text: len(text.partition(".")[2]) for text in map(str, cells.unique().to_pylist())}
    longer = [text for text, n in ends.items() if n == 2 and text.endswith("0")]
    if not longer or min(ends.values()) == 0 or {*ends.values()} == {2}:
        return []
    note = f"{longer[0]!r} among numbers with fewer digits: versions are words"
    return [Finding("codes", name, len(longer), (), note, f"--categories {typed([name])}", LOOK)]


def _spellings(name: str, cells: Cells) -> list[Finding]:
    """A finding on words that differ only by case, blanks or Unicode composition."""
    groups: dict[str, list[int]] = {}
    for k in sorted(range(len(cells.texts)), key=lambda k: -cells.counts[k]):
        groups.setdefault(folded_word(cells.texts[k]), []).append(k)
    several = [group for group in groups.values() if len(group) > 1]
    if not several:
        return []
    pairs = [" and ".join(quoted(cells.texts[k]) for k in group[:2]) for group in several]
    note = f"{some_of(pairs, 2)} differ by capitals, blanks or encoding alone: kept apart"
    at = cells.at([k for group in several for k in group[1:]])
    return [finding("spellings", name, at, note, "--fold-words takes them for one", DECIDE)]


def folded_word(word: str) -> str:
    """A word with case, blanks and Unicode composition normalised."""
    return unicodedata.normalize("NFC", " ".join(word.split())).casefold()


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
        which, _, todo = note.partition(": ")
        found.append(Finding("equal rows", None, number, (), which, todo.partition("; ")[0], LOOK))
    return found
