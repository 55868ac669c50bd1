"""Decide what each column of a file holds, from a description of its cells."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.show.words import count
from maskevidence.core.support.checks import MAX_WHOLE, MISSING, NUMBER, is_number, typed
from maskevidence.tables.reading.dates import COMPACT, DateForm, Order, days_since_first, read_dates
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
FIRST_COMPACT = 19000101  # the first of the whole numbers that may be days
_NUMBERS = 0.9  # share of numbers that makes a column one of numbers
_MOST_CODES = 3  # repeated words among numbers
_OFTEN = 3  # fewest cells of a repeated word among numbers
_REASONS = ("mixed", "leading zeros")  # findings that say why a column is one of words
_WHOLE = "[+-]?[0-9]+([eE][0-9]{4,}|[xX])?"  # also codes such as 4e018197235378 and 316148410X
_SAMPLE = 2000  # cells of a column of plain numbers whose marks are looked at
_TRUTHS = (
    "yes y true t ja j oui o si sí sì sim on 1 wahr vrai verdadero vero да tak はい",
    "no n false f nein non não nee off 0 falsch faux falso нет nie いいえ",
)
_YES, _NO = ({*words.split(" ")} for words in _TRUTHS)
NAMED_CODE = re.compile(
    r"(?i)((^|[\s_.-])(id|no|nr|num|number|key|index|zip|plz|pin|ean|isbn|sku|type|phone|tel)|code)\.?$|[a-z](ID|Id|Code|No|Nr|Type)$"
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


class Cells(NamedTuple):
    """The distinct cells of a column of text."""

    texts: list[str]
    counts: list[int]
    parsed: list[Cell | None]  # as numbers
    codes: Int64[np.ndarray, " N"]  # each row's place among them; -1 for holes
    given: Any  # the column as it stands
    lines: Sequence[int] | None  # of the rows

    def rows_of(self, places: Collection[int]) -> list[int]:
        """The rows with the given distinct texts."""
        return np.flatnonzero(np.isin(self.codes, list(places))).tolist() if places else []

    def at_rows(self, rows: Iterable[int]) -> list[CellAt]:
        """Cells with their lines, as they are written."""
        return [CellAt(k, None if self.lines is None else self.lines[k], self.given[k].as_py()) for k in rows]

    def at(self, places: Collection[int]) -> list[CellAt]:
        """The cells with the given distinct texts."""
        return self.at_rows(self.rows_of(places))

    def where(self, test: Callable[[Cell], object]) -> list[CellAt]:
        """The cells that are numbers in some format and pass a test."""
        return self.at([k for k, cell in enumerate(self.parsed) if cell is not None and test(cell)])

    def number(self, fits: Iterable[object]) -> int:
        """The number of cells whose distinct text fits."""
        return sum(n for n, fit in zip(self.counts, fits, strict=True) if fit)

    def signs(self) -> Signs:
        """The evidence of the column's separators."""
        bodies = Counter[str]()
        for cell, n in zip(self.parsed, self.counts, strict=True):
            if cell is not None:
                bodies[cell.body] += n
        return signs_of(bodies)


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
        cells: of a column of words, or one that is refused.
        word: where the first word stands, and the mix with numbers.
    """

    described: ColumnDescription
    values: Float64[np.ndarray, " N"] | None = None
    form: NumberForm | DateForm | None = None
    odd: Mapping[int, str] = field(default_factory=dict)
    codes: Mapping[int, str] = field(default_factory=dict)
    limits: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    refusal: str = ""
    cells: Cells | None = None
    word: str = ""


def read_columns(
    columns: Mapping[str, Any],
    lines: Sequence[int] | None,
    choices: FileOptions,
    delimiter: str = ",",
) -> dict[str, ReadColumn]:
    """Read the columns of a file in two passes: unambiguous marks settle the ambiguous ones.

    Args:
        columns: chunked arrays of pyarrow, by name.
        lines: the line of each row, if the source has lines.
    """
    import pyarrow as pa
    from pyarrow import types

    read, later, points, commas = dict[str, ReadColumn](), dict[str, Cells](), 0, 0
    for name, column in columns.items():
        if types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if name in choices.of_words or (name not in choices.numbers and _would_be_rounded(column)):
            cells_of = ["" if cell is None else str(cell) for cell in column.to_pylist()]
            later[name] = _different(
                pa.chunked_array([arrow_texts(cells_of, pa.large_string())]), lines, choices
            )
            continue
        if not (types.is_string(column.type) or types.is_large_string(column.type)):
            read[name] = _typed(name, column, choices)
            continue
        fast, signs = _plain(name, column, choices)
        if fast is not None:
            read[name] = fast
        else:
            cells = later[name] = _different(column, lines, choices)
            signs = cells.signs()
        points, commas = points + signs.point, commas + signs.comma
    file: Choice | None = choices.decimal
    if file is None and (points == 0) != (commas == 0):
        file = "." if points else ","
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


def _would_be_rounded(column: Any) -> bool:
    """Whether a typed column has whole numbers beyond 2^53, which float64 takes for equal."""
    from pyarrow import compute, types

    if not types.is_integer(column.type) and not (types.is_decimal(column.type) and column.type.scale == 0):
        return False
    return any(abs(end or 0) > MAX_WHOLE for end in compute.min_max(column).as_py().values())


def _typed(name: str, column: Any, choices: FileOptions) -> ReadColumn:
    """A column that is typed in the file: numbers, dates, truth values."""
    import pyarrow as pa
    from pyarrow import types

    kind, n = column.type, len(column)
    if types.is_null(kind):
        return _empty(name, n)
    if types.is_date(kind) or types.is_timestamp(kind):
        microseconds = column.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64(), safe=False)
        values, origin = days_since_first(floats(microseconds) / 1e6)
        return _clean(name, "date", values, DateForm("ymd", origin=origin, time="H:M:S"))
    if not (
        types.is_integer(kind) or types.is_boolean(kind) or types.is_floating(kind) or types.is_decimal(kind)
    ):
        described = ColumnDescription(name, "words", None, n, column.null_count, why=f"values of type {kind}")
        return ReadColumn(described, refusal=f"values of type {kind}")
    values = floats(column.cast(pa.float64(), safe=False), own=bool(choices.missing))
    _mark_missing(values, choices.missing)
    return _clean(name, "number", values)


def _empty(name: str, n: int) -> ReadColumn:
    described = ColumnDescription(name, "empty", None, n, n, why="no cell has a value")
    return ReadColumn(described, np.full(n, np.nan))


def _plain(name: str, column: Any, choices: FileOptions) -> tuple[ReadColumn | None, Signs]:
    """Fast path for numbers without anything beside them, and what they prove of the decimal sign."""
    import pyarrow as pa
    from pyarrow import compute

    cells = compute.utf8_trim_whitespace(column)
    absent = compute.is_in(cells, arrow_texts(sorted({*MISSING, *choices.missing}), column.type))
    cells = compute.if_else(absent, pa.nulls(1, column.type)[0], cells)
    if cells.null_count == len(cells):
        return _empty(name, len(cells)), Signs()
    marks: tuple[Choice, ...] = (".", ",") if choices.decimal is None else (choices.decimal,)
    for mark in marks:
        values, signs = _with_mark(name, cells, choices, mark)
        if values is None:
            continue
        _mark_missing(values, choices.missing)
        if mark == ".":
            return _clean(name, "number", values), signs
        found = Finding("decimal", name, len(values), (), "numbers are read with a decimal comma", "", RECORD)
        return _clean(name, "number", values, NumberForm(","), found), signs
    truth = arrow_texts(TRUE + FALSE, column.type)
    if not compute.all(compute.is_in(compute.drop_null(cells), truth)).as_py():
        return None, Signs()
    true = compute.is_in(cells, arrow_texts(TRUE, column.type)).cast(pa.float64())
    values = floats(compute.if_else(compute.is_null(cells), pa.nulls(1, pa.float64())[0], true))
    return _clean(name, "yes/no", values), Signs()


def _with_mark(
    name: str, cells: Any, choices: FileOptions, mark: Choice
) -> tuple[Float64[np.ndarray, " N"] | None, Signs]:
    """Read numbers with one decimal sign and no other mark; a comma needs proof. None if some do not fit."""
    import pyarrow as pa
    from pyarrow import compute

    def proofs(texts: Any) -> Signs:
        return signs_of(Counter(text.lstrip("+-") for text in texts.to_pylist()))

    def some(pattern: str) -> bool:
        return compute.any(compute.match_substring_regex(cells, pattern)).as_py()

    signs = proofs(compute.drop_null(cells.slice(0, _SAMPLE)))
    if mark == ",":
        if not signs.comma or some("[.]"):
            return None, signs
        cells = compute.replace_substring(cells, ",", ".", max_replacements=1)
    try:
        numbers = cells.cast(pa.float64())
        words = compute.any(compute.is_nan(numbers)).as_py()  # such as nan(x)
    except pa.ArrowInvalid:
        numbers, words = None, True
    if words and not compute.all(compute.match_substring_regex(cells, NUMBER)).as_py():
        return None, signs
    values = floats(compute.utf8_ltrim(cells, "+").cast(pa.float64()) if numbers is None else numbers)
    if (name not in choices.numbers or name in choices.day_0) and are_compact_dates(values):
        return None, signs
    if name in choices.numbers:
        return values, signs
    whole = bool((np.isnan(values) | (np.floor(values) == values)).all())
    if whole and some("^0[0-9]|[0-9]{16}|[eE][0-9]{4}"):
        return None, signs  # codes such as 02208, perhaps
    if mark == "." and not signs.point and some("[.]"):
        signs = proofs(compute.unique(compute.drop_null(cells)))
        if not signs.point:
            return None, signs  # 1.417 beside 907
    return values, signs


def _clean(
    name: str,
    kind: ColumnKind,
    values: Float64[np.ndarray, " N"],
    form: NumberForm | DateForm | None = None,
    *findings: Finding,
) -> ReadColumn:
    """A column whose cells all fit; `describe` adds the slow parts."""
    n_missing = int(np.count_nonzero(np.isnan(values)))
    writing = form.said() if isinstance(form, NumberForm) else ""
    n = len(values) - n_missing
    described = ColumnDescription(name, kind, "number", len(values), n_missing, n, writing=writing)
    return ReadColumn(described, values, form, findings=findings)


def are_compact_dates(values: Float64[np.ndarray, " N"]) -> bool:
    """Whether all whole numbers are days such as 20240131."""
    if not (np.fmin.reduce(values) >= FIRST_COMPACT and np.fmax.reduce(values) <= 20991231):
        return False
    known = values[~np.isnan(values)]
    month, day = known // 100 % 100, known % 100
    return bool(((month >= 1) & (month <= 12) & (day >= 1) & (day <= 31) & (known % 1 == 0)).all())


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


def _different(column: Any, lines: Sequence[int] | None, choices: FileOptions) -> Cells:
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
    codes, texts = place[codes], [every[k] for k in kept]
    counts = np.bincount(codes[codes >= 0], minlength=len(kept)).tolist()
    return Cells(texts, counts, list(map(cell_of, texts)), codes, column, lines)


def _is_marked(text: str, missing: Sequence[str]) -> bool:
    """Whether a number equals a code of missing values in any notation: -999.0 for -999."""
    return is_plain(text) and any(is_plain(mark) and float(mark) == float(text) for mark in missing)


def _decided(
    name: str, cells: Cells, choices: FileOptions, file: Choice | None, delimiter: str
) -> ReadColumn:
    """Read a column of text as numbers, dates or words."""
    n_cells, said = len(cells.codes), name in choices.numbers
    if not cells.texts:
        empty = _empty(name, n_cells)
        return ReadColumn(empty.described, cells=cells) if name in choices.of_words else empty
    n_missing = int((cells.codes < 0).sum())
    base = ColumnDescription(name, "words", "words", n_cells, n_missing, n_different=len(cells.texts))
    if name in choices.of_words:
        return _of_words(base, cells, choices)
    if not said and (found := _on_codes(name, cells)) is not None:
        return _of_words(replace(base, why=found.assumed), cells, choices, found)
    n_compact = cells.number(map(COMPACT.fullmatch, cells.texts))
    of_dates = n_compact >= _NUMBERS * (n_cells - n_missing) and (not said or name in choices.day_0)
    read = None if of_dates else _as_numbers(base, cells, choices, file, delimiter)
    read = read or _as_dates(base, cells, choices)
    return _of_words(base, cells, choices) if read is None else read


def _on_codes(name: str, cells: Cells) -> Finding | None:
    """A finding on whole numbers of which some can only be codes; other words may stand among them."""
    whole = {k: text for k, text in enumerate(cells.texts) if cells.parsed[k] is not None}
    codes = [k for k, text in whole.items() if _is_code(text)]
    few = 2 * cells.number(cells.parsed) < sum(cells.counts)  # of words, whatever these are
    if few or not codes or not all(re.fullmatch(_WHOLE, text) for text in whole.values()):
        return None
    at = cells.at(codes)
    note = f"{count(len(at), 'cell')} with leading zeros or too many digits: codes, not numbers"
    return finding("leading zeros", name, at, note, f"--numbers {typed([name])}", LOOK)


def _is_code(text: str) -> bool:
    """Whether digits have a zero in front, an x or e that no number has, or a value that float64 rounds."""
    if re.fullmatch("[+-]?[0-9]{16,}", text) and (len(text) > 20 or abs(int(text)) > MAX_WHOLE):
        return True
    return re.fullmatch("0[0-9]+|[0-9]+[eE][0-9]{4,}|[0-9]{7,9}[xX]", text) is not None


class _Others(NamedTuple):
    """The distinct cells of a column that are neither numbers nor dates."""

    odd: list[int]
    codes: list[int]  # repeated words among numbers
    holes: list[int]  # words for "missing"


def _others(
    cells: Cells, fits: Sequence[bool], said: bool, other_writing: Collection[int] = ()
) -> _Others | None:
    """Classify the cells that are no numbers; None if they are too many for a column of numbers."""
    strange = [k for k, fit in enumerate(fits) if not fit]
    holes = [k for k in strange if cells.texts[k].casefold() in CODES]
    rest = [k for k in strange if k not in {*holes} and k not in other_writing]
    words = [k for k in rest if cells.counts[k] >= _OFTEN and not re.search("[0-9]", cells.texts[k])]
    often = sorted(words, key=lambda k: -cells.counts[k])[:_MOST_CODES]
    n_holes, n_others, repeated = (sum(cells.counts[k] for k in each) for each in (holes, rest, often))
    n_fit, n_all = cells.number(fits), sum(cells.counts) - n_holes
    if not n_fit or 2 * n_fit < n_all:
        return None
    if n_others and not said and n_others - repeated > (1 - _NUMBERS) * (n_all - repeated):
        return None
    return _Others([*(k for k in rest if k not in often), *other_writing], often, holes)


def _as_numbers(
    base: ColumnDescription, cells: Cells, choices: FileOptions, file: Choice | None, delimiter: str
) -> ReadColumn | None:
    """Read a column of numbers in any format; None if it is not a column of numbers."""
    said, signs = base.name in choices.numbers, cells.signs()
    may_be = [
        cell is not None or is_plain(text) for cell, text in zip(cells.parsed, cells.texts, strict=True)
    ]
    if _others(cells, may_be, said) is None:
        return None
    left: dict[str, Choice] = {".": ",", ",": "."}  # the decimal sign, if the other one separates thousands
    decimal = choices.decimal or left.get(choices.thousands) or decimal_of(signs, file, delimiter)
    if decimal is None:
        refused = replace(base, kind="number", used_as=None, why="its numbers can be read in two ways")
        return ReadColumn(refused, refusal=_two_readings(cells, signs), cells=cells)
    read = read_numbers(cells.texts, cells.counts, decimal, choices.thousands)
    values = np.append(read.values, np.nan)
    letters = Counter[str]()  # behind a number, as in 12a and 12b, or in 2020 SS and 2021 FW
    for cell, n in zip(cells.parsed, cells.counts, strict=True):
        if cell is not None and (len(cell.suffix) == 1 or not (cell.is_amount or len(cell.unit) == 1)):
            letters[cell.suffix.lstrip()] += n
    rarer = sorted(n for letter, n in letters.items() if letter.isalpha())[:-1]
    if sum(rarer) > (1 - _NUMBERS) * sum(cells.counts) and not said:
        return None
    others = _others(cells, (~np.isnan(values[:-1])).tolist(), said, read.other_writing)
    if others is None:
        return None
    below_0, limits = bool((np.delete(values, [*read.limits]) < 0).any()), dict[int, tuple[float, float]]()
    for k, side in read.limits.items():
        end, values[k] = float(values[k]), np.nan
        least = -np.inf if below_0 else min(0.0, end)  # of a column that is never below 0
        limits |= dict.fromkeys(cells.rows_of([k]), (least, end) if side < 0 else (end, np.inf))
    column = values[cells.codes]
    _mark_missing(column, choices.missing)
    as_read = _finished(base, column, cells, others, read.form, limits)
    may_be_fraction = not signs.point and not signs.comma and choices.decimal is None and file is None
    on_writing = _on_writing(as_read.described, cells, read, may_be_fraction)
    return replace(as_read, findings=(*as_read.findings, *on_writing))


def _on_writing(
    described: ColumnDescription, cells: Cells, read: Numbers, may_be_fraction: bool
) -> list[Finding]:
    """Findings on limits, units, separators of thousands and decimal commas."""
    found, name, form = list[Finding](), described.name, read.form

    def add(what: str, at: list[CellAt], note: str, option: str = "", weight: int = LOOK, n: int = 0) -> None:
        found.append(replace(finding(what, name, at, note, option, weight), n_cells=n or len(at)))

    if at := cells.at([*read.limits]):
        verb = "is a limit, an interval" if len(at) == 1 else "are limits, intervals"
        add("limits", at, f"{count(len(at), 'cell')} {verb}: filled within, hidden from fits")
    if read.n_units:
        units = Counter((cell.prefix or cell.suffix).strip() for cell in cells.parsed if cell is not None)
        unit = (form.prefix or form.suffix).strip() or next(each for each, _ in units.most_common() if each)
        what = "percent" if unit in "%‰" else "currency" if form.prefix else "unit"
        n, few = described.n_numbers + described.n_limits, read.n_units < described.n_numbers
        note = f"{read.n_units:,} of {n:,} numbers have the unit {unit}, which is taken off"
        at = cells.where(lambda cell: cell.prefix or cell.suffix) if few else []
        add(what, at, note, weight=LOOK if few else RECORD, n=read.n_units)
    if at := cells.where(lambda cell: cell.mark):
        has = "has more than a number" if len(at) == 1 else "have something else beside the number"
        note = f"{count(len(at), 'cell')} {has}, which is not read: filled cells are numbers alone"
        add("marks", at, note, f"--categories {typed([name])}")
    if at := cells.at([k for k, text in enumerate(cells.texts) if re.search(r"(?![0-9])\d", text)]):
        note = f"{count(len(at), 'cell')} in digits of another script: filled cells have the digits 0 to 9"
        add("digits", at, note)
    if form.thousands:
        at = cells.where(lambda cell: form.thousands in cell.body)
        hint = f"--decimal '{form.thousands}'" if form.thousands in ".," and may_be_fraction else ""
        add("thousands", at, f"{form.thousands!r} is taken for the separator of thousands", hint)
    if form.decimal == "." and may_be_fraction and (at := cells.where(lambda cell: "." in cell.body)):
        note = "the point is taken for the decimal sign, though three digits follow each"
        add("thousands", at, note, "--thousands .")
    if form.decimal == ",":
        add("decimal", [], "numbers are read with a decimal comma", weight=RECORD, n=described.n_numbers)
    return found


def _as_dates(base: ColumnDescription, cells: Cells, choices: FileOptions) -> ReadColumn | None:
    """Read a column of dates or times; None if it is not one."""
    sample = cells.texts[:: max(1, len(cells.texts) // 50)]
    read = read_dates(sample, [1] * len(sample))
    if read is not None:
        read = read_dates(cells.texts, cells.counts, choices.dates, said=choices.dates is not None)
    if read is None:
        return None
    exist = [value == value for value in read.values]
    others = _others(cells, exist, base.name in choices.numbers)
    if others is None:
        words, n_dates = cells.at([k for k, date in enumerate(exist) if not date]), cells.number(exist)
        note = f"words in {len(words):,} cells, dates in {n_dates:,}"
        found = finding("mixed", base.name, words, note, f"--numbers {typed([base.name])}", DECIDE)
        return _of_words(base, cells, choices, found) if n_dates >= len(words) else None
    column = np.append(np.array(read.values), np.nan)[cells.codes]
    as_read = _finished(base, column, cells, others, read.form, {})
    if not read.n_either:
        return as_read
    at = cells.at(np.flatnonzero(exist)[:3].tolist())
    note = f"{quoted(at[0].text)} may have the day or the month first; the day was assumed"
    found = Finding("date order", base.name, read.n_either, tuple(at), note, "--dates month-first", DECIDE)
    return replace(as_read, findings=(*as_read.findings, found))


def _finished(
    base: ColumnDescription,
    column: Float64[np.ndarray, " N"],
    cells: Cells,
    others: _Others,
    form: NumberForm | DateForm,
    limits: Mapping[int, Any],
) -> ReadColumn:
    """A column of numbers or dates with its counts, and findings on its other cells."""
    odd, codes, holes = map(cells.at, others)
    name, found = base.name, list[Finding]()
    noun: ColumnKind = "number" if isinstance(form, NumberForm) else "date"
    n_numbers = int((~np.isnan(column)).sum())
    n_full = n_numbers + len(limits) + len(odd) + len(codes)
    described = replace(
        base,
        kind=noun,
        used_as="number",
        writing=form.said(),
        n_missing=len(column) - n_full,
        n_numbers=n_numbers,
        n_limits=len(limits),
        n_odd=len(odd) + len(codes),
        why=f"{n_numbers + len(limits):,} of {n_full:,} cells are {noun}s",
        odd=tuple(odd),
        limits=tuple(cells.at_rows(limits)),
    )
    if odd:
        has, they, is_none = "have", "they are", f"are not {noun}s"
        if len(odd) == 1:
            has, they, is_none = "has", "it is", f"is not a {noun}"
        if all(cell_of(cell.text.strip()) for cell in odd):
            is_none = f"{has} another unit or sign than the others"
        if isinstance(form, DateForm) and all(_in_other_order(cell.text.strip(), form) for cell in odd):
            is_none = f"{has} day and month in another order, as dates with two readings may have, too"
        note = f"{count(len(odd), 'cell')} {is_none}: kept as {they}, hidden from the model"
        first, *more = dict.fromkeys(cell.text.strip() for cell in odd)
        hint = f"--categories {typed([name])}" if more else f"--missing {_as_typed([first])}"
        found.append(finding("odd cells", name, odd, note, hint, DECIDE))
    if codes:
        note = (
            f"{some_texts(codes)} among {noun}s, in {count(len(codes), 'cell')}: kept, hidden from the model"
        )
        hint = f"--missing {_as_typed([cells.texts[k] for k in others.codes])} if that means missing"
        found.append(finding("codes", name, codes, note, hint, DECIDE))
    if holes:
        note = f"{some_texts(holes)} in {count(len(holes), 'cell')} is read as missing"
        found.append(finding("missing words", name, holes, note, f"--categories {typed([name])}", LOOK))
    of_odd, of_codes = ({cell.row: cell.text for cell in each} for each in (odd, codes))
    return ReadColumn(described, column, form, of_odd, of_codes, limits, tuple(found))


def _in_other_order(text: str, form: DateForm) -> bool:
    """Whether a cell is a date if day and month change places."""
    read = read_dates([text], [1])
    return read is not None and {read.form.order, form.order} == {"dmy", "mdy"}


def _two_readings(cells: Cells, signs: Signs) -> str:
    """Explain the two possible readings of a column, and the options that decide."""
    proving = dict[str, int]()  # for each mark, the first cell that proves it; without any proof that has it
    for k, cell in enumerate(cells.parsed):
        one = signs_of({} if cell is None else {cell.body: 1})
        for mark, proof in ((",", one.comma), (".", one.point)):
            if cell is not None and mark in cell.body and (proof or not (signs.point or signs.comma)):
                proving.setdefault(mark, k)
    first = {mark: cells.at([k])[0] for mark, k in proving.items()}
    if len(first) == 2:
        both = f"numbers with a decimal comma ({first[',']}) and others with a decimal point ({first['.']})"
        n = {m: cells.number(cell is not None and m in cell.body for cell in cells.parsed) for m in first}
        option = f"--decimal '{max(n, key=n.__getitem__)}'"
        return f"{both}: write all in one way, or give {option}, which keeps the others apart"
    ((mark, at),) = first.items()
    cell = cells.parsed[proving[mark]]
    assert cell is not None
    line = f"row {at.row} (from 0)" if at.line is None else f"line {at.line}"
    readings = f"{cell.body.replace(mark, '.')} or {cell.body.replace(mark, '')}"
    return f"{quoted(at.text)} in {line} may be {readings}: give --decimal '{mark}' or --thousands '{mark}'"


def _of_words(base: ColumnDescription, cells: Cells, choices: FileOptions, *found: Finding) -> ReadColumn:
    """A column of words: a category, text, names of rows, or yes and no."""
    name, n_full, n_different = base.name, base.n_cells - base.n_missing, len(cells.texts)
    folded = {text.casefold() for text in cells.texts}
    kind: ColumnKind = "words"
    why = base.why or count(n_different, "different word")
    numbers = [cell is not None and cell.is_amount for cell in cells.parsed]
    n_numbers, asked = cells.number(numbers), name in choices.of_words
    unique = not asked and _names_rows(n_different, n_full, base.n_cells)

    def share(pattern: str) -> float:
        return cells.number(re.search(pattern, text) for text in cells.texts) / n_full

    if folded <= _YES | _NO and folded & _YES and folded & _NO:
        kind, why = "yes/no", "yes and no"
        if len(folded) > 2:  # that --fold-words does not bring together
            note, at = f"yes and no in {len(folded)} spellings", cells.at(range(n_different))
            found += (finding("spellings", name, at, note, "mend them in the file", LOOK),)
    elif unique or (not asked and _NAMED_ID.search(name) and share(r"^(?=\D*[0-9])\S*$") >= _NUMBERS):
        one_token = min(share(r"^\S*$"), share("[0-9]")) >= _NUMBERS
        named = _NAMED_ID.search(name) or (NAMED_CODE.search(name) and n_different >= _NUMBERS * n_full)
        kind = "id" if one_token and (n_different == n_full or named) else "text"
        why = f"{n_different:,} different words in {n_full:,} cells"
    elif n_different == 1:
        kind, why = "constant", f"one value, {quoted(cells.texts[0])}"
    if 0 < n_numbers < n_full and kind == "words" and not found and not asked:
        fewer = 2 * n_numbers < n_full
        rarer = [k for k, number in enumerate(numbers) if number == fewer]
        note = f"words in {n_full - n_numbers:,} of {n_full:,} cells, numbers in {n_numbers:,}"
        hint = "" if fewer else f"--numbers {typed([name])}"
        found += (finding("mixed", name, cells.at(rarer), note, hint, DECIDE),)
    if kind == "words" and not found and not asked and share(r"^\W*[0-9]") >= _NUMBERS:
        several = cells.number(cells.parsed) >= _NUMBERS * n_full
        near = next(text for text in cells.texts if re.match(r"\W*[0-9]", text))
        note = f"cells such as {quoted(near)} begin with a number and are read as words"
        option, weight = (f"--numbers {typed([name])}", LOOK) if several else ("", RECORD)  # in several units
        found += (Finding("near numbers", name, n_full, (), note, option, weight),)
    holes = cells.at([k for k, text in enumerate(cells.texts) if text.casefold() in CODES])
    if kind == "words" and 0 < len(holes) < n_full and not asked:
        note = f"{some_texts(holes)} in {count(len(holes), 'cell')} is taken for a word"
        hint = f"--missing {_as_typed([*dict.fromkeys(cell.text.strip() for cell in holes)])}"
        found += (finding("missing words", name, holes, note, f"{hint} if that means missing"),)
    no_number = [
        (cell is None and not is_plain(text)) or _is_code(text)
        for cell, text in zip(cells.parsed, cells.texts, strict=True)
    ]
    (first,) = cells.at_rows([int(np.argmax(cells.codes == int(np.argmax(no_number))))])
    word = "".join([str(first), *(f" ({each.assumed})" for each in found if each.what in _REASONS)])
    used = None if unique else base.used_as
    found = tuple(each for each in found if used or each.what != "leading zeros")  # `left_out` says more
    described = replace(base, kind=kind, why=why, used_as=used, n_numbers=n_numbers)
    return ReadColumn(described, findings=found, cells=cells, word=word)


def left_out(one: ColumnDescription) -> Finding:
    """The finding on a column that is left out, since it tells nothing about other columns."""
    name, what = typed([one.name]), {"id": "names of rows", "text": "near-unique text"}.get(one.kind)
    options = {"empty": "", "constant": f"--drop {name}"}
    option = options.get(one.kind, f"--id-column {name}, or --categories {name}")
    why, n_full = one.why, one.n_cells - one.n_missing
    if what and n_full <= 2 * one.n_numbers:
        why, option = f"{why}, {one.n_numbers:,} of them numbers", f"{option}, or --numbers {name}"
    note = f"{what} ({why}): left out" if what else f"{why}: left out"
    return Finding(one.kind, one.name, one.n_cells, (), note, option, LOOK)


def _names_rows(n_different: int, n_full: int, n_cells: int) -> bool:
    """Whether a column has too many different words for categories, as names of rows have."""
    all_differ = n_different == n_full >= max(ENOUGH_ROWS, n_cells / 2)
    return all_differ or n_different > max(MAX_CATEGORIES, n_cells / 2)


def _as_typed(words: Sequence[str]) -> str:
    """Join words by commas, always in quotes: a shell may expand ? and *."""
    text = typed(words)
    return text if text.startswith("'") else f"'{text}'"
