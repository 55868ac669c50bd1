"""Read a table, turning refusals into findings that the user may override."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int64

from maskevidence.core.errors import InputError
from maskevidence.core.support.checks import join_words, some_of
from maskevidence.core.table import Table
from maskevidence.tables.looking.determined import Rules, determined, rules_of
from maskevidence.tables.reading.describing import folded_word
from maskevidence.tables.reading.description import LOOK, CellAt, Finding, TableDescription, quoted
from maskevidence.tables.rows import read_described, selection_of
from maskevidence.tables.table_files import RawTable, described_file, names_of, raw_of
from maskevidence.tables.table_options import TableOptions
from maskevidence.tables.wrong_cells.found_cells import WrongCell

_CODE = r"--missing=(\S+)"  # the option of a finding on numbers
_TIMES = 10  # as often as a rare word is the word that it may stand for
_FEWEST = 5  # cells of that word
_MOST_WORDS = 400  # different words of a column in which neighbours are looked for
Read = tuple[RawTable, Table, TableDescription, TableOptions, Rules]


def read_for_look(data: object, options: TableOptions, limit: int | None = None) -> Read:
    """Read a file or data frame; return its description, the options used, and rules between columns.

    Numbers that are likely codes, such as -999, are taken as missing unless `missing` is given. Columns that
    the reader would refuse are left out, with its reason among the findings.
    """
    raw, table, found = _read(data, options)
    if options.missing is None and (codes := _codes(found)):
        options = replace(options, missing=join_words(codes))
        raw, table, again = _read(data, options)
        too = "".join(f"--missing={code} " for code in codes)  # another --missing alone makes them numbers
        others = [
            replace(each, option=too + each.option) if each.option.startswith("--missing ") else each
            for each in again.findings
        ]
        found = replace(again, findings=_sorted([*_assumed(found, raw), *others]))
    elif options.missing is not None:  # numbers that are not in the given list are no open question
        kept = [
            replace(each, weight=LOOK) if re.fullmatch(_CODE, each.option) else each
            for each in found.findings
        ]
        found = replace(found, findings=tuple(kept))
    spelt = [each for name in table.levels if (each := near_words(table, name)) is not None]
    copies = [each.name for each in found.columns if each.copy_of]
    table = table if limit is None else table.head(limit)
    rules = rules_of(table)
    more = [*spelt, *determined(table, rules, copies)]
    return raw, table, replace(found, findings=_sorted([*found.findings, *more])), options, rules


def _read(data: object, options: TableOptions) -> tuple[RawTable, Table, TableDescription]:
    try:
        return read_described(data, options)
    except InputError:
        selection = selection_of(options, words=True)
        raw = raw_of(data, selection)
        found = described_file(raw, selection)  # refuses a file that is not a table
        used = [each.name for each in found.columns if each.used_as is not None]
        refused = [each.name for each in found.columns if each.used_as is None and each.kind not in _LEFT_OUT]
        if not refused or not used:
            raise
        _, table, _ = read_described(data, replace(options, columns=join_words(used)))
        return raw, table, found


_LEFT_OUT = ("id", "text", "empty")


def _codes(found: TableDescription) -> list[str]:
    """The numbers that findings call likely codes for missing values, as typed."""
    given = (re.fullmatch(_CODE, each.option) for each in found.findings if each.what == "codes")
    return list(dict.fromkeys(each[1] for each in given if each is not None))


def _assumed(found: TableDescription, raw: RawTable) -> list[Finding]:
    """The findings on codes that are now read as missing values, with their cells."""
    changed = []
    for each in found.findings:
        code = re.fullmatch(_CODE, each.option)
        if each.what != "codes" or code is None or each.column is None:
            continue
        column = dict(zip(names_of(raw), raw.columns.columns, strict=True)).get(each.column)
        cells = [] if column is None else _cells_with(column.to_pylist(), code[1], raw.lines)
        changed.append(
            replace(
                each,
                n_cells=len(cells),
                first=tuple(cells[:3]),
                assumed=f"{each.assumed}: read as missing",
                option="if they are real numbers, add --missing NA",
            )
        )
    return changed


def _cells_with(cells: Sequence[Any], code: str, lines: Sequence[int] | None) -> list[CellAt]:
    """The cells equal to a number, in any notation."""
    found = []
    for row, cell in enumerate(cells):
        text = "" if cell is None else str(cell).strip().replace(",", ".")
        plain = text.rstrip("0").rstrip(".") if "." in text else text
        if plain == code:
            found.append(CellAt(row, None if lines is None else lines[row], str(cell)))
    return found


def _sorted(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(sorted(findings, key=lambda each: (-each.weight, -each.n_cells)))


def near_words(table: Table, name: str) -> Finding | None:
    """A finding on rare words that differ from a common word by one letter or a swap of two.

    Example:
        >>> values = np.array([[0.0]] * 30 + [[1.0], [2.0]])
        >>> words = {"city": ("Berlin", "Brelin", "Rome")}
        >>> table = Table("t", values, ("city",), np.arange(32), levels=words)
        >>> near_words(table, "city").assumed
        "1 rare word is one letter from a common one ('Brelin' and 'Berlin'): kept as it is"
    """
    words, codes = table.levels[name], table.values[:, table.columns.index(name)]
    meant = _meant(table, name)
    if not meant:
        return None
    rows = np.flatnonzero(np.isin(codes, list(meant)))
    first = [_at(table, int(row), words[int(codes[row])]) for row in rows[:3]]
    pairs = some_of([f"{quoted(words[k])} and {quoted(words[c])}" for k, c in meant.items()], 2)
    is_one, them = ("word is", "it is") if len(meant) == 1 else ("words are", "they are")
    note = f"{len(meant)} rare {is_one} one letter from a common one ({pairs}): kept as {them}"
    return Finding("spellings", name, len(rows), tuple(first), note, "mend them in the file", LOOK)


def meant_words(table: Table, name: str) -> dict[str, str]:
    """The words of a column that findings on spellings name, each with the word that it may stand for."""
    words, n = table.levels[name], _counts(table, name)
    groups: dict[str, list[int]] = {}
    for k in np.argsort(-n, kind="stable").tolist():
        groups.setdefault(folded_word(words[k]), []).append(k)
    meant = {k: group[0] for group in groups.values() for k in group[1:]} | _meant(table, name)
    return {words[k]: words[other] for k, other in meant.items()}


def with_meant_words(table: Table, cells: Sequence[WrongCell]) -> tuple[WrongCell, ...]:
    """The cells, of which misspelt words are suggested to be the words that findings name."""
    meant = {(name, word): other for name in table.levels for word, other in meant_words(table, name).items()}
    return tuple(
        replace(cell, likelier="", suggested=other, probability=None)
        if (other := meant.get((cell.column, str(cell.value)))) is not None
        else cell
        for cell in cells
    )


def _counts(table: Table, name: str) -> Int64[np.ndarray, " V"]:
    """How many cells hold each word of a column."""
    codes = table.values[:, table.columns.index(name)]
    return np.bincount(codes[~np.isnan(codes)].astype(int), minlength=len(table.levels[name]))


def _meant(table: Table, name: str) -> dict[int, int]:
    """The codes of rare words, each with the commonest word that is one letter from it."""
    words, n = table.levels[name], _counts(table, name)
    if len(words) > _MOST_WORDS:
        return {}
    common = [k for k in np.argsort(-n, kind="stable").tolist() if n[k] >= _FEWEST]
    near = {
        k: [
            c for c in common if n[c] >= _TIMES * n[k] and _one_edit(words[k].casefold(), words[c].casefold())
        ]
        for k in np.flatnonzero(n).tolist()
    }
    return {k: those[0] for k, those in near.items() if those}


def _at(table: Table, row: int, text: str) -> CellAt:
    key = int(table.ids[row])
    return CellAt(key, None if table.lines is None else table.lines[key], text)


def _one_edit(a: str, b: str) -> bool:
    """Whether two words differ by one inserted, deleted or replaced letter, or by two swapped neighbours.

    Example:
        >>> _one_edit("brelin", "berlin"), _one_edit("munchen", "munich"), _one_edit("a", "a")
        (True, False, False)
    """
    if a == b or abs(len(a) - len(b)) > 1 or min(len(a), len(b)) < 3:
        return False
    start = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    x, y = a[start:], b[start:]
    if len(a) == len(b):
        return x[1:] == y[1:] or (x[:2] == y[1::-1] and x[2:] == y[2:])
    return x[1:] == y or x == y[1:]
