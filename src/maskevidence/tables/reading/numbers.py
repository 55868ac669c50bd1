"""Numbers as people write them: decimal signs, thousands, units, currencies, limits."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.core.support.checks import NUMBER

_MINUS = r"\-\u2212\u2013"  # in brackets of a regular expression
_SPACES = "\u00a0\u202f\u2009 "
_GROUPS = {"'": "'", "\u2019": "'"} | dict.fromkeys(_SPACES, " ")  # marks that only separate thousands
_SYMBOLS = "$¢£¥\u20a0-\u20cf"  # of currencies, in brackets of a regular expression
_CURRENCY = (
    rf"[A-Z]{{0,2}}\$|[{_SYMBOLS}]|(?:USD|EUR|GBP|CHF|JPY|CAD|AUD|SEK|NOK|DKK|PLN|INR|CNY)\b"
    r"|(?:Fr|Rs|kr)\.?(?=\s|\d)"
)
_RAISED = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
_LETTER = r"[^\W\d_]"
# what may stand before and behind a number, and says something else: about, an error, a footnote
_BEFORE = r"(?:[A-Za-z]{1,3}\s*+=|[~≈∼]|(?:ca|approx)\b\.?)\s*+"
_BEHIND = r"\s*+(?:(?:±|\+/-)\s*+[0-9.,]++|\[[^\[\]]{1,12}\]|(?<=\s)\([^()]{1,20}\)|\*{1,3}|[†‡§])"
_CELL = re.compile(
    rf"(?P<before>{_BEFORE})?(?P<limit>[<>]=?|[≤≥])?\s*+(?P<bracket>\()?\s*+(?P<sign>[+{_MINUS}])?\s*+"
    rf"(?P<prefix>{_CURRENCY})?\s*+(?P<after>[{_MINUS}]|\((?=.*\)$))?"
    rf"(?P<body>[0-9]++(?:[.,'\u2019{_SPACES}][0-9]++)*[.,]?|[.,][0-9]++)"
    rf"(?P<exponent>(?:[eE]|\s*+[x×·]\s*+10(?=[\^{_MINUS}{_RAISED}])\^?)[+{_MINUS}⁻]?[0-9{_RAISED}]++)?"
    rf"(?P<behind>{_BEHIND})?\s*+(?P<suffix>(?:[%‰°µΩ{_SYMBOLS}]|{_LETTER})"
    rf"(?:{_LETTER}|[ .%°/²³^*µΩ{_SYMBOLS}-])*(?:(?<=[^\W\d_]|\^)[23])?)?"
    rf"(?P<minus>(?<=[.,])(?:--|[–—])|-)?\s*+(?P<close>\))?(?P<mark>{_BEHIND})?"
)
# digits and marks of other scripts
_NARROW = {
    **{zero + k: str(k) for zero in (0xFF10, 0x0660, 0x06F0, 0x0966) for k in range(10)},
    **dict(zip(map(ord, "．，－＋％\u066b\u066c"), ".,-+%.,", strict=True)),
}
_NO_GROUPS = re.compile(r"([.,])[0-9]*\1(?![0-9]{2,3}(?![0-9]))|([.,])(?![0-9]{2,3}(?![0-9]))[0-9]+\2")
_MOST_DECIMALS = 6
_MOST_UNIT, _LONGEST = 24, 200  # characters of a unit, and of a cell
_SCALES = {"%", "‰", "k", "m", "b", "bn", "mn", "mio", "mrd", "tsd", "t", "million", "billion", "thousand"}
_ALONE = set("mgshlVWNJtKCFL°")  # units of one letter that may stand beside numbers without a unit
_USUAL = (
    "kg g mg µg ng t lb lbs oz m cm mm km nm µm in ft yd mi miles m2 m² m3 m³ cm2 cm² km2 km² ha l ml dl "
    "cl h hrs min s sec ms d day days yr yrs y year years month months week weeks j kj kcal cal w kw mw kwh "
    "v mv a ma hz khz mhz ghz pa hpa kpa bar psi mmhg mol mmol k c f px pt pcs db rpm kmh km/h mph m/s mg/l "
    "mg/dl mmol/l g/l kg/m2 kg/m² eur usd chf gbp"
)
_KNOWN = frozenset(_USUAL.split(" "))  # units that may be glued to a few numbers
_GLUED = 0.05  # share of cells that makes letters behind a number a unit
_MIXED_SHARE = 0.1  # cells of the rarer of two writings, at most

# words for "missing" where they stand among numbers or dates, besides `MISSING`
_CODES = (
    "?|-|--|---|.|..|...|*|–|—|n/a|na|n.a.|n. a.|none|nil|null|nan|missing|unknown|<na>|\\n|#n/a|#na|#null!|"
    "#value!|#div/0!|#ref!|#num!|#name?|k.a.|k. a.|n.d.|nd|not available|no data|(null)|(blank)|"
    "keine angabe|n.v.|s/o|нет данных|н/д"
)
CODES = {*_CODES.split("|")}

Choice = Literal[".", ","]


class Cell(NamedTuple):
    """A parsed cell that is a number in some format."""

    body: str  # digits, marks between them
    exponent: str
    negative: str  # "", "-", "−", "()" or "trailing"
    prefix: str
    suffix: str
    limit: str  # "", "<" or ">"
    mark: str = ""  # what else stands there, such as ± 0.2 or [1]

    @property
    def unit(self) -> str:
        """The first word of the unit, however it is spelled, and where degrees point to; "" for none."""
        word = (self.prefix or self.suffix).split()
        return "".join(word[: 1 + (word[:1] == ["°"])]).rstrip(".-").casefold()

    @property
    def is_amount(self) -> bool:
        """Whether it is a number without doubt: no letters follow, as in 12e5, or a usual unit."""
        if not self.suffix:
            return not self.exponent or not self.body.isdigit()
        return not self.unit[:1].isalpha() or self.unit in _KNOWN | _SCALES


@dataclass(frozen=True)
class NumberForm:
    """The number format of a column.

    Example:
        >>> NumberForm(",", ".", suffix=" m²", decimals=2).write(1234.5)
        '1.234,50 m²'
    """

    decimal: str = "."
    thousands: str = ""
    prefix: str = ""
    suffix: str = ""
    negative: str = "-"
    decimals: int | None = None  # behind the sign; None for as many as a number needs
    lakhs: bool = False  # whether groups above the first thousand have two digits: 12,34,567

    def write(self, value: float) -> str:
        """Write a number as the column does."""
        places = self.decimals
        text = repr(abs(value)).removesuffix(".0") if places is None else f"{abs(value):.{places}f}"
        whole, point, behind = text.partition(".")
        if self.thousands and "e" not in whole:
            groups = r"\B(?=(\d\d)*\d{3}$)" if self.lakhs else r"\B(?=(\d{3})+$)"
            whole = re.sub(groups, self.thousands, whole)
        text = f"{self.prefix}{whole}{point and self.decimal}{behind}{self.suffix}"
        if value >= 0 or not re.search("[1-9]", whole + behind):
            return text
        return {"()": f"({text})", "trailing": f"{text}-"}.get(self.negative, self.negative + text)

    def said(self) -> str:
        """The format in words; "" for Python's."""
        parts = []
        if self.decimal == ",":
            parts.append("decimal comma")
        if self.thousands:
            parts.append(f"{self.thousands!r} between thousands")
        if self.prefix or self.suffix:
            parts.append(f"unit {(self.prefix or self.suffix).strip()}")
        if self.negative != "-":
            said = {"()": "brackets", "trailing": "a trailing minus"}.get(
                self.negative, f"the sign {self.negative}"
            )
            parts.append(f"negative numbers by {said}")
        return ", ".join(parts)


class Signs(NamedTuple):
    """Counts of a column's unambiguous and ambiguous cells, by decimal sign."""

    point: int = 0  # cells that only a decimal point explains
    comma: int = 0  # only a decimal comma
    points_of_three: int = 0  # 1.234, which may be 1234
    commas_of_three: int = 0  # 1,234
    below: int = 0  # whole numbers below 1,000 without a mark
    above: int = 0  # larger ones without a mark


class Numbers(NamedTuple):
    """The distinct cells of a column, read as numbers."""

    values: list[float]  # NaN for other cells
    limits: Mapping[int, int]  # below (-1) or above (1) of a limit such as <0.5, for some cells
    form: NumberForm
    n_units: int  # cells with the unit
    other_writing: set[int]  # cells that are numbers in another writing (unit, sign) than the column's


def cell_of(text: str) -> Cell | None:
    """Parse a cell; None if it is not a number in any format.

    Example:
        >>> cell_of("<\u22121.417,5 kg"), cell_of("17o.2"), cell_of("4th of 5")
        (Cell(body='1.417,5', exponent='', negative='−', ..., suffix=' kg', limit='<', mark=''), None, None)
    """
    if len(text) > _LONGEST:
        return None
    text = text if text.isascii() else text.translate(_NARROW)
    if text.startswith("("):  # of (1,1) % the sign goes into the brackets
        text = re.sub(rf"^(\([^()]*)\)(\s*[%‰{_SYMBOLS}])$", r"\1\2)", text)
    found = _CELL.fullmatch(text)
    if found is None or ("(" in (found["bracket"], found["after"])) != bool(found["close"]):
        return None
    if _NO_GROUPS.search(found["body"]):
        return None  # a version such as 1.10.1
    sign, suffix = found["sign"] or found["after"] or "", found["suffix"] or ""
    if found["body"].endswith(".") and suffix[:1].isalpha():
        return None  # 1. floor
    trailing = found["minus"] or ("-" if suffix.endswith("-") else "")
    of_francs = found["body"][-1] in ".," and bool(found["minus"])  # 5.- is 5
    trailing = "" if of_francs else trailing
    n_signs = bool(found["sign"]) + bool(found["after"]) + bool(trailing) + bool(found["bracket"])
    if n_signs > 1 or len(suffix) > _MOST_UNIT or (found["prefix"] and suffix):
        return None
    negative = sign.replace("+", "").replace("\u2013", "\u2212")
    if found["close"] or trailing:
        negative = "()" if found["close"] else "trailing"
    body = "".join(_GROUPS.get(mark, mark) for mark in found["body"])
    start, end = found.span("body")
    prefix = found["prefix"] or ""
    if prefix and not found["after"]:
        prefix = text[found.start("prefix") : start]  # with the blank behind it
    exponent = re.sub(r"\s*[x×·]\s*10\^?", "e", found["exponent"] or "")
    exponent = exponent.translate(str.maketrans(f"\u2212\u2013{_RAISED}", "---0123456789"))
    end = max(end, found.end("exponent"), found.end("behind"))
    behind = text[end : found.end("suffix")] if suffix else ""  # with the blank before it
    limit = {"<": "<", "≤": "<", ">": ">", "≥": ">"}.get((found["limit"] or "")[:1], "")
    parts = ("before", "behind", "mark", *(["minus"] * of_francs))
    mark = "".join((found[part] or "").strip() for part in parts)
    suffix = behind.removesuffix("-") if trailing else behind
    return Cell(body, exponent, negative, prefix, suffix, limit, mark)


def signs_of(cells: Mapping[str, int]) -> Signs:
    """Count the cells that prove a decimal sign, and those that do not.

    Args:
        cells: the bodies of the numbers, and in how many cells each stands.

    Example:
        >>> signs_of({"1.417": 3, "907": 2, "1,5": 1})
        Signs(point=0, comma=1, points_of_three=3, commas_of_three=0, below=2, above=0)
    """
    seen = Counter[str]()
    for body, n in cells.items():
        body = body.rstrip(".,")  # a last mark proves nothing
        points, commas = body.count("."), body.count(",")
        mark, other = (".", ",") if body.rfind(".") > body.rfind(",") else (",", ".")
        name = {".": "point", ",": "comma"}
        if not points and not commas:
            seen["below" if len(body) <= 3 else "above"] += n
        elif points and commas:
            seen[name[mark]] += n  # the last mark is the decimal one
        elif max(points, commas) > 1:
            seen[name[other]] += n  # a mark that is repeated separates thousands
        elif re.fullmatch(r"[1-9][0-9]{0,2}[.,][0-9]{3}", body):
            seen["points_of_three" if points else "commas_of_three"] += n
        else:
            seen[name[mark]] += n
    return Signs(**seen)


def decimal_of(signs: Signs, file: Choice | None, delimiter: str) -> Choice | None:
    """The decimal sign of a column; None where two readings are possible.

    Marks with three digits behind each of them separate thousands if whole numbers below 1,000 have none, and
    no larger number lacks one. In a file with commas between cells, a point is the decimal sign of numbers
    such as 1.234 alone.

    Args:
        file: the decimal sign of the file's other columns, if they say one.

    Example:
        >>> alone, beside = signs_of({"1,417": 9}), signs_of({"1,417": 9, "907": 4})
        >>> decimal_of(beside, None, ";"), decimal_of(alone, None, ";")
        ('.', None)
    """
    if signs.point or signs.comma:
        fewer, more = sorted([signs.point, signs.comma])
        if fewer > _MIXED_SHARE * more:
            return None
        return "." if signs.point >= signs.comma else ","
    points, commas = signs.points_of_three, signs.commas_of_three
    if points and commas:
        return None
    if not points and not commas:
        return file or "."
    mark, other = (".", ",") if points else (",", ".")
    few = points + commas < 2 or signs.below < 1
    thousands = not few and not signs.above
    if file is not None:
        return None if thousands and file == mark and mark == "," else file
    if thousands and (mark == "," or delimiter != "," or (points >= 5 and signs.below >= 2)):
        return other  # type: ignore[return-value]
    return "." if mark == "." and delimiter == "," else None


def number_of(cell: Cell, decimal: str, thousands: str = "") -> float | None:
    """The number of a cell; None if it is in another format.

    Args:
        decimal: the decimal sign.
        thousands: the mark between thousands; by default any other one.

    Example:
        >>> number_of(cell_of("(1.417,5)"), ","), number_of(cell_of("1.5"), ",")
        (-1417.5, None)
    """
    whole, _, behind = cell.body.partition(decimal)
    between = {*whole} - {*"0123456789"}
    if not re.fullmatch("[0-9]*", behind) or len(between) > 1 or (thousands and between - {thousands}):
        return None
    if between:
        first, *groups = whole.split(between.pop())
        lengths = {len(group) for group in groups[:-1]} or {3}  # 3, or 2 of lakhs
        if not re.fullmatch("[1-9][0-9]{0,2}", first) or len(groups[-1]) != 3 or lengths not in ({2}, {3}):
            return None
    digits = re.sub("[^0-9]", "", whole)
    value = float(f"{digits or '0'}.{behind or '0'}{cell.exponent}")
    return -value if cell.negative else value


def read_numbers(texts: Sequence[str], counts: Sequence[int], decimal: str, thousands: str = "") -> Numbers:
    """Read the distinct cells of a column as numbers in one format.

    Args:
        texts: the different cells.
        counts: how often each stands in the column.

    Example:
        >>> read = read_numbers(["142,10 m²", "7", "x", "<0,5", "3 kg"], [25, 20, 1, 2, 1], ",")
        >>> read.values, read.limits, read.form.suffix, read.other_writing
        ([142.1, 7.0, nan, 0.5, nan], {3: -1}, ' m²', {4})
    """
    cells = [cell_of(text) for text in texts]
    taken = [(each, n) for each, n in zip(cells, counts, strict=True) if each is not None]
    units = Counter[str]()
    for each, n in taken:
        units[each.unit] += n
    unit = max(((n, unit) for unit, n in units.items() if unit), default=(0, ""))[1]
    glued = sum(n for cell, n in taken if cell.suffix[:1].isalpha() and cell.unit == unit)
    if unit not in _KNOWN and 0 < glued < _GLUED * sum(counts):
        unit = ""  # 334793870x is not a number of x
    with_others = _may_stand_beside_none(unit)
    values, limits, others = list[float](), dict[int, int](), set[int]()
    form_of = Counter[tuple[str, str, str, str]]()  # cells by prefix, suffix, mark of thousands and sign
    most_common = with_others or units[unit] >= units[""]
    fitting = ({unit, ""} if with_others else {unit}) if most_common else {""}
    trailing = sum(n for cell, n in taken if cell.negative == "trailing")
    for place, (cell, n) in enumerate(zip(cells, counts, strict=True)):
        lone = cell is not None and cell.negative == "trailing" and trailing < 2 and cell.body.isdigit()  # 5-
        fits = cell is not None and cell.unit in fitting and not lone
        value = number_of(cell, decimal, thousands) if cell is not None and fits else None
        if cell is None or value is None:
            others |= set() if cell is None or lone else {place}
            infinite = cell is None and is_plain(texts[place])
            values.append(float(texts[place]) if infinite else math.nan)
            continue
        values.append(value)
        if cell.limit:
            limits[place] = -1 if cell.limit == "<" else 1
        mark = next((mark for mark in cell.body.partition(decimal)[0] if not mark.isdigit()), "")
        form_of[cell.prefix, cell.suffix, mark, cell.negative] += n
    fit = [cell for cell, value in zip(cells, values, strict=True) if cell and value == value]
    lakhs = any(re.search(r"\D\d\d\D", cell.body.partition(decimal)[0]) for cell in fit)
    form = replace(_form(form_of, decimal), decimals=decimals_written(fit, decimal), lakhs=lakhs)
    n_units = units[unit] if unit and most_common else 0
    return Numbers(values, limits, form, n_units, others)


def decimals_written(cells: Iterable[Cell], decimal: str) -> int | None:
    """The digits behind the decimal sign where all cells have as many, above 0; None otherwise.

    Example:
        >>> decimals_written(map(cell_of, ["1,50", "<0,25 kg"]), ","), decimals_written([cell_of("7")], ",")
        (2, None)
    """
    found = {-1 if cell.exponent else len(cell.body.partition(decimal)[2]) for cell in cells}
    return max(found) if len(found) == 1 and max(found) > 0 else None


def decimals_of(known: Float64[np.ndarray, " n"]) -> int | None:
    """The number of decimals that all values need; None above six.

    Example:
        >>> decimals_of(np.array([1.5, 2.25])), decimals_of(np.array([3.0])), decimals_of(np.array([1 / 3]))
        (2, 0, None)
    """
    for decimals in range(_MOST_DECIMALS + 1):
        if np.allclose(np.round(known, decimals), known, rtol=1e-12, atol=0):
            return decimals
    return None


def is_plain(text: str) -> bool:
    """Whether a cell is a number in Python's format."""
    return re.match(NUMBER, text) is not None


def _may_stand_beside_none(unit: str) -> bool:
    """Whether numbers with and without the unit have the same scale: 5 kg and 5, but not 5 % and 5."""
    if unit in _SCALES and unit not in {"m", "t"}:
        return False
    return len(unit) != 1 or not unit.isalpha() or unit in {each.casefold() for each in _ALONE}


def _form(seen: Counter[tuple[str, str, str, str]], decimal: str) -> NumberForm:
    """The most frequent format; thousands and minus signs as in the cells that have them."""
    n = sum(seen.values())

    def most_common(k: int) -> list[tuple[str, int]]:
        counted = Counter[str]()
        for parts, times in seen.items():
            counted[parts[k]] += times
        return counted.most_common()

    prefix, suffix = (next((part for part, times in most_common(k) if 2 * times > n), "") for k in (0, 1))
    thousands, negative = (next((part for part, _ in most_common(k) if part), "") for k in (2, 3))
    return NumberForm(decimal, thousands, prefix, suffix, negative or "-")
