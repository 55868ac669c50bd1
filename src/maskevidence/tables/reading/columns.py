"""Decide what each column of a file holds, from a description of its cells."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.show.words import count
from maskevidence.core.support.checks import MISSING, NUMBER, is_number, typed
from maskevidence.tables.reading.dates import DateForm, Order, days_since_first, read_dates
from maskevidence.tables.reading.description import (
    DECIDE,
    LOOK,
    RECORD,
    CellAt,
    ColumnDescription,
    ColumnKind,
    Finding,
    finding,
    quoted,
    some_texts,
)
from maskevidence.tables.reading.numbers import (
    CODES,
    Cell,
    Choice,
    NumberForm,
    Numbers,
    Signs,
    cell_of,
    decimal_of,
    is_plain,
    read_numbers,
    signs_of,
)

TRUE, FALSE = ["1", "true", "TRUE", "True"], ["0", "false", "FALSE", "False"]
MAX_CATEGORIES = 50
ENOUGH_ROWS = 5  # fewest rows to call a column an index
_NUMBERS = 0.9  # share of numbers that makes a column one of numbers
_MOST_CODES = 3  # repeated words among numbers
_OFTEN = 3  # fewest cells of a repeated word among numbers
_SAMPLE = 2000  # cells of a column of plain numbers whose marks are looked at
_TRUTHS = (
    "yes y true t ja j oui o si sí sì sim on 1 wahr vrai verdadero vero да tak はい",
    "no n false f nein non não nee off 0 falsch faux falso нет nie いいえ",
)
_YES, _NO = ({*words.split(" ")} for words in _TRUTHS)
NAMED_CODE = re.compile(
    r"(?i)(^|[\s_.-])(id|no|nr|num|number|code|key|index|zip|plz|type|phone|tel)\.?$|[a-z](ID|Id|Code|No|Nr|Type)$"
)

_NAMED_ID = re.compile(r"(?i)(^|[\s_.-])(id|no|nr|num|number|key)\.?$")


@dataclass(frozen=True)
class FileOptions:
    """How to read a file, and which of its columns to use."""

    columns: Sequence[str] | None = None  # the columns to use, in this order; None for all
    drop: Sequence[str] = ()  # columns to leave out
    id_column: str | None = None  # the column with the rows' names; not data
    one_hot: Sequence[str] = ()  # columns to encode as 0 and 1
    missing: Sequence[str] = ()  # words and numbers that mark missing values
    # whether to read columns of text as categories, coded by position among their words
    words: bool = False
    categories: Sequence[str] = ()  # columns to read as categories, whatever they hold; with `words`
    numbers: Sequence[str] = ()  # columns to read as numbers, whatever most of their cells are
    decimal: Choice | None = None  # the decimal sign of all columns; None to find it
    thousands: str = ""  # the mark between thousands; "" to find it
    dates: Order | None = None  # day or month first, where the cells do not say it
    day_0: Mapping[str, str] = field(default_factory=dict)  # of columns of dates, in place of their first
    fold_words: bool = False  # whether words that differ by case, blanks or composition are one
    near_unique: bool = False  # whether to keep near-unique text and names of rows, too; with `words`
    # of a text file; by default the reader finds them
    delimiter: str | None = None  # one ASCII character
    encoding: str | None = None
    header: int | None = None  # the line with the names of the columns
    comment: str | None = None  # the mark of lines to leave out
    skip: Sequence[range] = ()  # lines to leave out

    @cached_property
    def of_words(self) -> set[str]:
        """Columns that hold words, whatever they hold."""
        return {*self.categories, *self.one_hot}


@dataclass(frozen=True)
class ReadColumn:
    """A column as it was read.

    Attributes:
        described: what it holds.
        values: shape (N,); numbers, or days since the first; NaN for other cells. None for words.
        form: how it writes numbers or dates; None where Python writes them so.
        odd: cells that fit neither, by their row.
        codes: repeated words among numbers, by their row.
        limits: ends of the interval of a limit such as <0.5, by its row.
        findings: what may be decided otherwise.
        refusal: why no number can be read where there should be some; "" if they can.
    """

    described: ColumnDescription
    values: Float64[np.ndarray, " N"] | None = None
    form: NumberForm | DateForm | None = None
    odd: Mapping[int, str] = field(default_factory=dict)
    codes: Mapping[int, str] = field(default_factory=dict)
    limits: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    refusal: str = ""


class _Cells(NamedTuple):
    """The distinct cells of a column of text."""

    texts: list[str]
    counts: list[int]
    codes: Int64[np.ndarray, " N"]  # each row's place among them; -1 for holes
    given: Any  # the column as it stands
    lines: Sequence[int] | None  # of the rows

    def at(self, row: int) -> CellAt:
        """A cell with its line."""
        return CellAt(row, None if self.lines is None else self.lines[row], self.given[row].as_py())

    def rows_of(self, places: Collection[int]) -> list[int]:
        """The rows with the given distinct texts."""
        return np.flatnonzero(np.isin(self.codes, list(places))).tolist() if places else []


def read_columns(
    columns: Mapping[str, Any],
    lines: Sequence[int] | None,
    choices: FileOptions,
    delimiter: str = ",",
    decimal: str = "",
) -> dict[str, ReadColumn]:
    """Read the columns of a file in two passes: unambiguous marks settle the ambiguous ones.

    Args:
        columns: chunked arrays of pyarrow, by name.
        lines: the line of each row, if the source has lines.
    """
    import pyarrow as pa

    read, later, signs = dict[str, ReadColumn](), dict[str, _Cells](), Signs()
    for name, column in columns.items():
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_dictionary(column.type):
            column = column.cast(kind)
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
            read[name] = _typed(name, column, choices)
            continue
        fast, point = _plain(name, column, choices)
        of_commas = fast is not None and isinstance(fast.form, NumberForm)
        signs = Signs(signs.point + point, signs.comma + of_commas)
        if fast is not None:
            read[name] = fast
            continue
        cells = _different(column, lines, choices)
        later[name] = cells
        found = _signs(cells, [cell_of(text) for text in cells.texts])
        if name not in choices.of_words:
            signs = Signs(signs.point + found.point, signs.comma + found.comma)
    file: Choice | None = choices.decimal
    if file is None and (signs.point == 0) != (signs.comma == 0):
        file = "." if signs.point else ","
    for name, cells in later.items():
        read[name] = _decided(name, cells, choices, file, delimiter)
    return {name: _since(read[name], choices.day_0.get(name)) for name in columns}


def _since(column: ReadColumn, day_0: str | None) -> ReadColumn:
    """A column of dates, as days since a reference day."""
    form = column.form
    if day_0 is None or not isinstance(form, DateForm) or form.order is None or column.values is None:
        return column
    days = (np.datetime64(form.origin, "D") - np.datetime64(day_0, "D")).astype(float)
    return replace(column, values=column.values + days, form=replace(form, origin=day_0))


def _typed(name: str, column: Any, choices: FileOptions) -> ReadColumn:
    """A column that is typed in the file: numbers, dates, truth values."""
    import pyarrow as pa
    from pyarrow import types

    kind, n = column.type, len(column)
    if types.is_null(kind):
        return _empty(name, n)
    if types.is_date(kind) or types.is_timestamp(kind):
        seconds = floats(column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64())) / 1e6
        values, origin = days_since_first(seconds)
        described = _numbers_described(name, "date", values, writing="")
        return ReadColumn(described, values, DateForm("ymd", origin=origin, time="H:M:S"))
    if not (
        types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind) or types.is_decimal(kind)
    ):
        described = ColumnDescription(name, "words", None, n, column.null_count, why=f"values of type {kind}")
        return ReadColumn(described, refusal=f"values of type {kind}")
    values = floats(column.cast(pa.float64(), safe=False), own=bool(choices.missing))
    _mark_missing(values, choices.missing)
    return ReadColumn(_numbers_described(name, "number", values), values)


def _empty(name: str, n: int) -> ReadColumn:
    described = ColumnDescription(name, "empty", None, n, n, why="no cell has a value")
    return ReadColumn(described, np.full(n, np.nan))


def _plain(name: str, column: Any, choices: FileOptions) -> tuple[ReadColumn | None, int]:
    """Fast path for numbers in Python's format; also count the cells that prove a decimal point."""
    import pyarrow as pa
    from pyarrow import compute

    cells = compute.utf8_trim_whitespace(column)
    absent = compute.is_in(cells, arrow_texts(sorted({*MISSING, *choices.missing}), column.type))
    cells = compute.if_else(absent, pa.nulls(1, column.type)[0], cells)
    if name in choices.of_words:
        return None, 0
    if cells.null_count == len(cells):
        return _empty(name, len(cells)), 0
    if name in choices.numbers or choices.decimal != ",":
        read, points = _as_points(name, cells, choices)
        if read is not None:
            return read, points
    truth = arrow_texts(TRUE + FALSE, column.type)
    if compute.all(compute.is_in(compute.drop_null(cells), truth)).as_py():
        true = compute.is_in(cells, arrow_texts(TRUE, column.type)).cast(pa.float64())
        values = floats(compute.if_else(compute.is_null(cells), pa.nulls(1, pa.float64())[0], true))
        return ReadColumn(_numbers_described(name, "yes/no", values), values), 0
    if choices.decimal != ".":
        return _as_commas(name, cells, choices), 0
    return None, 0


def _as_points(name: str, cells: Any, choices: FileOptions) -> tuple[ReadColumn | None, int]:
    """Read a column if all cells have a decimal point at most; count the first cells that prove it."""
    import pyarrow as pa
    from pyarrow import compute

    try:
        numbers = cells.cast(pa.float64())
    except pa.ArrowInvalid:
        if not compute.all(compute.match_substring_regex(cells, NUMBER)).as_py():
            return None, 0
        numbers = compute.utf8_ltrim(cells, "+").cast(pa.float64())
    words = compute.any(compute.is_nan(numbers)).as_py()  # such as nan(x)
    if words and not compute.all(compute.match_substring_regex(cells, NUMBER)).as_py():
        return None, 0
    values = floats(numbers)
    whole = not np.isinf(values).any() and bool((np.isnan(values) | (np.floor(values) == values)).all())
    first = compute.drop_null(cells.slice(0, _SAMPLE)).to_pylist()
    signs = signs_of(Counter(text.lstrip("+-") for text in first if set(text) <= set("+-.0123456789")))
    if name not in choices.numbers:
        if whole and compute.any(compute.match_substring_regex(cells, "^0[0-9]")).as_py():
            return None, 0  # codes such as 02208, perhaps
        if not signs.point and compute.any(compute.match_substring(cells, ".")).as_py():
            every = [text.lstrip("+-") for text in compute.unique(compute.drop_null(cells)).to_pylist()]
            signs = signs_of(Counter(every))
            if not signs.point:
                return None, 0  # 1.417 beside 907
    _mark_missing(values, choices.missing)
    return ReadColumn(_numbers_described(name, "number", values), values), signs.point


def _as_commas(name: str, cells: Any, choices: FileOptions) -> ReadColumn | None:
    """Read a column of decimal commas, if one of its first cells proves that they are decimal."""
    import pyarrow as pa
    from pyarrow import compute

    first = compute.drop_null(cells.slice(0, _SAMPLE)).to_pylist()
    signs = signs_of(Counter(text.lstrip("+-") for text in first if set(text) <= set("+-,0123456789")))
    if not signs.comma or compute.any(compute.match_substring(cells, ".")).as_py():
        return None
    try:
        values = floats(compute.replace_substring(cells, ",", ".", max_replacements=1).cast(pa.float64()))
    except pa.ArrowInvalid:
        return None
    _mark_missing(values, choices.missing)
    form = NumberForm(",")
    found = Finding("decimal", name, len(values), (), "numbers are read with a decimal comma", "", RECORD)
    described = _numbers_described(name, "number", values, form.said())
    return ReadColumn(described, values, form, findings=(found,))


def _numbers_described(
    name: str, kind: ColumnKind, values: Float64[np.ndarray, " N"], writing: str = "", why: str = ""
) -> ColumnDescription:
    """Describe a column of clean numbers; `describe` adds the slow parts."""
    n_missing = int(np.count_nonzero(np.isnan(values)))
    n = len(values) - n_missing
    return ColumnDescription(name, kind, "number", len(values), n_missing, n, writing=writing, why=why)


def _mark_missing(values: Float64[np.ndarray, " N"], missing: Sequence[str]) -> None:
    """Replace codes of missing values by NaN, in place."""
    for marker in missing:
        if is_number(marker) and marker.strip() not in MISSING:
            values[values == float(marker)] = np.nan


def floats(column: Any, *, own: bool = True) -> Float64[np.ndarray, " N"]:
    """A column of float64, NaN where it is null; its own `to_numpy` imports pandas.

    Args:
        own: whether it may be changed; otherwise it may be the column's memory.
    """
    import pyarrow as pa
    from pyarrow import compute

    if column.null_count:
        nan = arrow_texts(["nan"], pa.large_string()).cast(pa.float64())[0]
        column = compute.if_else(compute.is_null(column), nan, column)
    parts = list(map(np.from_dlpack, column.chunks))
    return parts[0] if len(parts) == 1 and not own else np.concatenate([np.empty(0), *parts])


def arrow_texts(words: Sequence[str], kind: Any) -> Any:
    """Texts as an Arrow array; `pa.array` imports pandas, which takes a fifth of a small command."""
    import pyarrow as pa

    encoded = [text.encode() for text in words]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.large_string(), len(words), buffers).cast(kind)


def _different(column: Any, lines: Sequence[int] | None, choices: FileOptions) -> _Cells:
    """The distinct non-empty cells of a column of text, trimmed."""
    from pyarrow import compute

    encoded = compute.utf8_trim_whitespace(column).combine_chunks().dictionary_encode()
    every = encoded.dictionary.to_pylist()
    codes = np.array(compute.fill_null(encoded.indices, -1), dtype=np.int64)
    absent = {*MISSING, *choices.missing}
    missing = np.array([text in absent or _is_marked(text, choices.missing) for text in every] + [True])
    place = np.full(len(every) + 1, -1)
    kept = np.flatnonzero(~missing[:-1])
    place[kept] = np.arange(len(kept))
    codes = place[codes]
    counts = np.bincount(codes[codes >= 0], minlength=len(kept))
    return _Cells([every[k] for k in kept], counts.tolist(), codes, column, lines)


def _is_marked(text: str, missing: Sequence[str]) -> bool:
    """Whether a number equals a code of missing values in any notation: -999.0 for -999."""
    return is_plain(text) and any(is_plain(mark) and float(mark) == float(text) for mark in missing)


def _signs(cells: _Cells, taken: Sequence[Cell | None]) -> Signs:
    """The evidence of a column's separators; `taken` holds the parsed cells."""
    bodies = Counter[str]()
    for cell, n in zip(taken, cells.counts, strict=True):
        if cell is not None:
            bodies[cell.body] += n
    return signs_of(bodies)


def _decided(
    name: str, cells: _Cells, choices: FileOptions, file: Choice | None, delimiter: str
) -> ReadColumn:
    """Read a column of text as numbers, dates or words."""
    n_cells = len(cells.codes)
    n_missing = int((cells.codes < 0).sum())
    base = ColumnDescription(name, "words", "words", n_cells, n_missing, n_different=len(cells.texts))
    if not cells.texts:
        return _empty(name, n_cells)
    if name not in choices.of_words:
        said = name in choices.numbers
        codes = [k for k, text in enumerate(cells.texts) if re.fullmatch("0[0-9]+", text)]
        if codes and not said and all(re.fullmatch("[0-9]+", text) for text in cells.texts):
            at = _at(cells, codes)
            note = f"{count(len(at), 'cell')} with leading zeros: codes, not numbers"
            found = finding("leading zeros", name, at, note, f"--numbers {typed([name])}", LOOK)
            return _of_words(replace(base, why=note), cells, choices, [found])
        for reader in (_as_numbers, _as_dates):
            read = reader(base, cells, choices, file, delimiter)
            if read is not None:
                return read
    return _of_words(base, cells, choices, [])


def _at(cells: _Cells, places: Collection[int]) -> list[CellAt]:
    """The cells of a column with the given distinct texts, as they are written."""
    return [cells.at(row) for row in cells.rows_of(places)]


class _Others(NamedTuple):
    """The distinct cells of a column that are neither numbers nor dates."""

    holes: list[int]  # words for "missing"
    codes: list[int]  # repeated words among numbers
    odd: list[int]  # all others


def _others(
    cells: _Cells, fits: Sequence[bool], said: bool, other_writing: Collection[int] = ()
) -> _Others | None:
    """Classify the cells that are no numbers; None if they are too many for a column of numbers."""
    strange = [k for k, fit in enumerate(fits) if not fit]
    holes = [k for k in strange if cells.texts[k].casefold() in CODES]
    rest = [k for k in strange if k not in {*holes} and k not in other_writing]
    n_fit = sum(n for n, fit in zip(cells.counts, fits, strict=True) if fit)
    n_all = sum(cells.counts) - sum(cells.counts[k] for k in holes)
    words = [k for k in rest if cells.counts[k] >= _OFTEN and not re.search("[0-9]", cells.texts[k])]
    often = sorted(words, key=lambda k: -cells.counts[k])[:_MOST_CODES]
    n_others = sum(cells.counts[k] for k in rest)
    repeated = sum(cells.counts[k] for k in often)
    if not n_fit or 2 * n_fit < n_all:
        return None
    if n_others and not said and n_others - repeated > (1 - _NUMBERS) * (n_all - repeated):
        return None
    if n_others and repeated and n_others <= (1 - _NUMBERS) * n_all and repeated < 0.02 * n_all:
        often = []  # typing errors that repeat
    odd = [k for k in rest if k not in often] + list(other_writing)
    return _Others(holes, often, odd)


def _as_numbers(
    base: ColumnDescription, cells: _Cells, choices: FileOptions, file: Choice | None, delimiter: str
) -> ReadColumn | None:
    """Read a column of numbers in any format; None if it is not a column of numbers."""
    said = base.name in choices.numbers
    taken = [cell_of(text) for text in cells.texts]
    may_be = [cell is not None or is_plain(text) for cell, text in zip(taken, cells.texts, strict=True)]
    if _others(cells, may_be, said) is None:
        return None
    signs = _signs(cells, taken)
    decimal = choices.decimal or _without(choices.thousands) or decimal_of(signs, file, delimiter)
    if decimal is None:
        return replace(_refused(base), refusal=_two_readings(cells, taken, signs))
    read = read_numbers(cells.texts, cells.counts, decimal, choices.thousands)
    values = np.array(read.values)
    others = _others(cells, (~np.isnan(values)).tolist(), said, read.other_writing)
    if others is None:
        return None
    limits, by_cell = _limits(cells, read, values)
    column = by_cell[cells.codes]
    _mark_missing(column, choices.missing)
    as_read = _finished(base, column, cells, others, read.form, limits)
    may_be_fraction = not signs.point and not signs.comma and choices.decimal is None and file is None
    on_writing = _on_writing(as_read.described, cells, taken, read, may_be_fraction)
    return replace(as_read, findings=(*as_read.findings, *on_writing))


def _limits(
    cells: _Cells, read: Numbers, values: Float64[np.ndarray, " K"]
) -> tuple[dict[int, tuple[float, float]], Float64[np.ndarray, " K+1"]]:
    """Intervals of limits such as <0.5 by row, and the values with NaN in their place."""
    by_cell, limits = np.append(values, np.nan), dict[int, tuple[float, float]]()
    least = (
        -np.inf if (np.delete(values, [*read.limits]) < 0).any() else 0.0
    )  # a column that is never below 0
    for k, side in read.limits.items():
        end = float(values[k])
        by_cell[k] = np.nan
        ends = (min(least, end), end) if side < 0 else (end, np.inf)
        limits |= dict.fromkeys(cells.rows_of([k]), ends)
    return limits, by_cell


def _on_writing(
    described: ColumnDescription,
    cells: _Cells,
    taken: Sequence[Cell | None],
    read: Numbers,
    may_be_fraction: bool,
) -> list[Finding]:
    """Findings on limits, units, separators of thousands and decimal commas."""
    found, name, form = list[Finding](), described.name, read.form

    def having(test: Callable[[Cell], object]) -> list[CellAt]:
        return _at(cells, [k for k, cell in enumerate(taken) if cell is not None and test(cell)])

    if read.limits:
        at = _at(cells, [*read.limits])
        verb = "is a limit, an interval" if len(at) == 1 else "are limits, intervals"
        note = f"{count(len(at), 'cell')} {verb}: filled within, hidden from fits"
        found.append(finding("limits", name, at, note, "", LOOK))
    if read.n_units:
        units = Counter((cell.prefix or cell.suffix).strip() for cell in taken if cell is not None)
        unit = (form.prefix or form.suffix).strip() or next(each for each, _ in units.most_common() if each)
        what = "percent" if unit in "%‰" else "currency" if form.prefix else "unit"
        n, few = described.n_numbers + described.n_limits, read.n_units < described.n_numbers
        note = f"{read.n_units:,} of {n:,} numbers have the unit {unit}, which is taken off"
        at, weight = (having(lambda cell: cell.prefix or cell.suffix), LOOK) if few else ([], RECORD)
        found.append(Finding(what, name, read.n_units, tuple(at), note, "", weight))
    if at := having(lambda cell: cell.mark):
        said = (
            "have something else beside the number, which" if len(at) > 1 else "has more than a number, which"
        )
        note = f"{count(len(at), 'cell')} {said} is not read: filled cells are numbers alone"
        found.append(finding("marks", name, at, note, f"--categories {typed([name])}", LOOK))
    if at := _at(cells, [k for k, text in enumerate(cells.texts) if re.search(r"(?![0-9])\d", text)]):
        note = f"{count(len(at), 'cell')} in digits of another script: filled cells have the digits 0 to 9"
        found.append(finding("digits", name, at, note, "", LOOK))
    if form.thousands:
        at = having(lambda cell: form.thousands in cell.body)
        hint = f"--decimal '{form.thousands}'" if form.thousands in ".," and may_be_fraction else ""
        note = f"{form.thousands!r} is taken for the separator of thousands"
        found.append(finding("thousands", name, at, note, hint, LOOK))
    if form.decimal == "." and may_be_fraction:
        at = having(lambda cell: "." in cell.body)
        note = "the point is taken for the decimal sign, though three digits follow each"
        found += [finding("thousands", name, at, note, "--thousands .", LOOK)] if at else []
    if form.decimal == ",":
        note = "numbers are read with a decimal comma"
        found.append(Finding("decimal", name, described.n_numbers, (), note, "", RECORD))
    return found


def _without(thousands: str) -> Choice | None:
    """The decimal sign that is left once the thousands separator is known."""
    return {".": ",", ",": "."}.get(thousands)  # type: ignore[return-value]


def _as_dates(
    base: ColumnDescription, cells: _Cells, choices: FileOptions, file: Choice | None, delimiter: str
) -> ReadColumn | None:
    """Read a column of dates or times; None if it is not one."""
    sample = cells.texts[:: max(1, len(cells.texts) // 50)]
    if read_dates(sample, [1] * len(sample)) is None:
        return None
    read = read_dates(cells.texts, cells.counts, choices.dates, said=choices.dates is not None)
    if read is None:
        return None
    others = _others(cells, [value == value for value in read.values], base.name in choices.numbers)
    if others is None:
        return None
    column = np.append(np.array(read.values), np.nan)[cells.codes]
    as_read = _finished(base, column, cells, others, read.form, {})
    if not read.n_either:
        return as_read
    at = _at(cells, [k for k, value in enumerate(read.values) if value == value][:3])
    note = f"{quoted(at[0].text)} may have the day or the month first; the day was assumed"
    found = Finding("date order", base.name, read.n_either, tuple(at), note, "--dates month-first", DECIDE)
    return replace(as_read, findings=(*as_read.findings, found))


def _finished(
    base: ColumnDescription,
    column: Float64[np.ndarray, " N"],
    cells: _Cells,
    others: _Others,
    form: NumberForm | DateForm,
    limits: Mapping[int, Any],
) -> ReadColumn:
    """A column of numbers or dates with its counts, and findings on its other cells."""
    odd, n_codes = _at(cells, others.odd), sum(cells.counts[k] for k in others.codes)
    n_numbers = int((~np.isnan(column)).sum())
    at = tuple(map(cells.at, limits))
    n_missing = len(column) - n_numbers - len(odd) - len(limits) - n_codes
    n_full = len(column) - n_missing
    kind: ColumnKind = "number" if isinstance(form, NumberForm) else "date"
    why = f"{n_numbers + len(limits):,} of {n_full:,} cells are {kind}s"
    described = replace(
        base,
        kind=kind,
        used_as="number",
        writing=form.said(),
        n_missing=n_missing,
        n_numbers=n_numbers,
        n_limits=len(limits),
        n_odd=len(odd) + n_codes,
        why=why,
        odd=tuple(odd),
        limits=at,
    )
    of_codes = {each.row: each.text for each in _at(cells, others.codes)}
    found = tuple(_findings(described, cells, others))
    return ReadColumn(described, column, form, {each.row: each.text for each in odd}, of_codes, limits, found)


def _findings(described: ColumnDescription, cells: _Cells, others: _Others) -> list[Finding]:
    """Findings on cells that are no numbers or dates in a column of them."""
    name, found = described.name, []
    noun = "number" if described.kind == "number" else "date"
    if others.odd:
        at = list(described.odd)
        is_none = f"is not a {noun}" if len(at) == 1 else f"are not {noun}s"
        if all(cell_of(cell.text.strip()) for cell in at):
            is_none = f"{'has' if len(at) == 1 else 'have'} another unit or sign than the others"
        they = "it is" if len(at) == 1 else "they are"
        note = f"{count(len(at), 'cell')} {is_none}: kept as {they}, hidden from the model"
        first = list(dict.fromkeys(cell.text.strip() for cell in at))
        hint = f"--missing {_as_typed(first[:1])}" if len(first) == 1 else f"--categories {typed([name])}"
        found.append(finding("odd cells", name, at, note, hint, DECIDE))
    if others.codes:
        at = _at(cells, others.codes)
        note = f"{some_texts(at)} among {noun}s, in {count(len(at), 'cell')}: kept, hidden from the model"
        words = [cells.texts[k] for k in others.codes]
        hint = f"--missing {_as_typed(words)} if that means missing"
        found.append(finding("codes", name, at, note, hint, DECIDE))
    if others.holes:
        at = _at(cells, others.holes)
        note = f"{some_texts(at)} in {count(len(at), 'cell')} is read as missing"
        found.append(finding("missing words", name, at, note, f"--categories {typed([name])}", LOOK))
    return found


def _refused(base: ColumnDescription) -> ReadColumn:
    """An ambiguous column of numbers: two readings are possible."""
    return ReadColumn(replace(base, kind="number", used_as=None, why="its numbers can be read in two ways"))


def _two_readings(cells: _Cells, taken: Sequence[Any], signs: Signs) -> str:
    """Explain the two possible readings of a column, and the options that decide."""

    def first(mark: str) -> int | None:
        """The first cell that proves the decimal sign; without any proof the first that may have it."""
        for k, cell in enumerate(taken):
            if cell is not None and mark in cell.body:
                one = signs_of({cell.body: 1})
                if (one.comma if mark == "," else one.point) or not (signs.point or signs.comma):
                    return k
        return None

    comma, point = first(","), first(".")
    if comma is not None and point is not None:
        with_comma, with_point = _at(cells, [comma])[0], _at(cells, [point])[0]
        both = f"numbers with a decimal comma ({with_comma}) and others with a decimal point ({with_point})"
        return f"{both}; write all in one way"
    k, mark = (point, ".") if comma is None else (comma, ",")
    assert k is not None
    cell, body = _at(cells, [k])[0], taken[k].body
    fraction, whole = body.replace(mark, "."), body.replace(mark, "")
    line = f"row {cell.row} (from 0)" if cell.line is None else f"line {cell.line}"
    options = f"--decimal '{mark}' or --thousands '{mark}'"
    return f"{quoted(cell.text)} in {line} may be {fraction} or {whole}: give {options}"


def _of_words(
    base: ColumnDescription, cells: _Cells, choices: FileOptions, found: list[Finding]
) -> ReadColumn:
    """A column of words: a category, text, names of rows, or yes and no."""
    name, n_full, n_different = base.name, base.n_cells - base.n_missing, len(cells.texts)
    folded = {text.casefold() for text in cells.texts}
    kind: ColumnKind = "words"
    why = base.why or count(n_different, "different word")
    numbers = [cell is not None and not cell.suffix for cell in map(cell_of, cells.texts)]
    n_numbers = sum(n for number, n in zip(numbers, cells.counts, strict=True) if number)
    unique = names_rows(n_different, n_full, base.n_cells)
    if folded <= _YES | _NO and folded & _YES and folded & _NO:
        kind, why = "yes/no", "yes and no"
        if len(folded) > 2:  # that --fold-words does not bring together
            note, at = f"yes and no in {len(folded)} spellings", _at(cells, range(n_different))
            found.append(finding("spellings", name, at, note, "mend them in the file", LOOK))
    elif unique or (_NAMED_ID.search(name) and _share(cells, r"^\S*[0-9]\S*$") >= _NUMBERS):
        one_token = min(_share(cells, r"^\S*$"), _share(cells, "[0-9]")) >= _NUMBERS
        named = _NAMED_ID.search(name) or (NAMED_CODE.search(name) and n_different >= _NUMBERS * n_full)
        kind = "id" if one_token and (n_different == n_full or named) else "text"
        why = f"{n_different:,} different words in {n_full:,} cells"
    elif n_different == 1:
        kind, why = "constant", f"one value, {quoted(cells.texts[0])}"
    if 0 < n_numbers < n_full and kind == "words" and not found and name not in choices.of_words:
        fewer = 2 * n_numbers < n_full
        rarer = [k for k, number in enumerate(numbers) if number == fewer]
        note = f"words in {n_full - n_numbers:,} of {n_full:,} cells, numbers in {n_numbers:,}"
        hint = "" if fewer else f"--numbers {typed([name])}"
        found.append(finding("mixed", name, _at(cells, rarer), note, hint, DECIDE))
    described = replace(
        base, kind=kind, why=why, used_as=None if unique else base.used_as, n_numbers=n_numbers
    )
    return ReadColumn(described, findings=tuple(found))


def _share(cells: _Cells, pattern: str) -> float:
    """The share of cells in which a pattern is found."""
    found = sum(n for text, n in zip(cells.texts, cells.counts, strict=True) if re.search(pattern, text))
    return found / sum(cells.counts)


def left_out(one: ColumnDescription) -> Finding:
    """The finding on a column that says nothing of others."""
    name, what = typed([one.name]), {"id": "names of rows", "text": "near-unique text"}.get(one.kind)
    options = {"empty": "", "constant": f"--drop {name}"}
    option = options.get(one.kind, f"--id-column {name}, or --categories {name}")
    why, n_full = one.why, one.n_cells - one.n_missing
    if what and n_full <= 2 * one.n_numbers < 2 * n_full:
        why, option = f"{why}, {one.n_numbers:,} of them numbers", f"{option}, or --numbers {name}"
    note = f"{what} ({why}): left out" if what else f"{why}: left out"
    return Finding(one.kind, one.name, one.n_cells, (), note, option, LOOK)


def names_rows(n_different: int, n_full: int, n_cells: int) -> bool:
    """Whether a column has too many different words for categories, as names of rows have."""
    all_differ = n_different == n_full >= max(ENOUGH_ROWS, n_cells / 2)
    return all_differ or n_different > max(MAX_CATEGORIES, n_cells / 2)


def _as_typed(words: Sequence[str]) -> str:
    """Join words by commas, always in quotes: a shell may expand ? and *."""
    text = typed(words)
    return text if text.startswith("'") else f"'{text}'"
