"""Dates and times as people write them, as days since the first."""

import datetime
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

Order = Literal["ymd", "dmy", "mdy", "ym", "my"]
DAY = 86_400  # seconds
_DAY_0 = datetime.date(1970, 1, 1).toordinal()
_MONTHS = [  # by language
    names.split(" ")
    for names in (
        "January February March April May June July August September October November December",
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "januari februari maart april mei juni juli augustus september oktober november december",
        "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
    )
]
_NAME = r"[^\W\d_]{3,10}"
_WEEKDAYS = (
    "(mon|tues?|wed(nes)?|thu(rs?)?|fri|sat(ur)?|sun)(day)?|mo(ntag)?|di(enstag)?|mi(ttwoch)?|do(nnerstag)?|"
    "fr(eitag)?|sa(mstag)?|so(nntag)?|(lun|mar|mercre|jeu|vendre|same)di|dimanche"
)
_WEEKDAY = rf"(?:(?:{_WEEKDAYS})\.?,?\s++)?"
_TIME = (
    r"(?P<between>[ T]\s*+)?(?P<hour>[0-9]{1,3}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?P<part>[.,][0-9]+)?)?(?P<half>\s*+[AaPp]\.?[Mm]\.?)?"
    r"(?P<zone>Z|\s?[+-][0-9]{2}:?[0-9]{2})?"
)
_NUMBERS = r"(?P<a>[0-9]{1,4})(?P<sep>[-./年])(?P<b>[0-9]{1,2})(?P=sep)(?P<c>[0-9]{1,4})"
_NAMED = (
    rf"(?:(?P<month_first>{_NAME})\.?\s+)?(?P<a>[0-9]{{1,2}})(?:st|nd|rd|th|er|º)?,?"
    rf"(?:(?P<sep>-|\.? | de |)\s*+(?P<month>{_NAME})\.?)?"
    r"(?P<sep2> de |[ ,-]|(?<=[a-z]))\s*+(?P<c>[0-9]{4}|(?<=-)[0-9]{2})"
)
_MONTH = re.compile(  # of a year
    r"(?P<year>[12][0-9]{3})-(?P<number>0[1-9]|1[0-2])"
    rf"|(?P<name>{_NAME})\.?(?P<sep>[ -])(?P<of>[0-9]{{4}}|(?<=-)[0-9]{{2}})"
)
COMPACT = re.compile("((?:19|20)[0-9]{2})(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])")  # 20240131
_SPANS = {  # seconds of a unit
    word: seconds
    for seconds, words in (
        (7 * DAY, "w wk wks week weeks woche wochen"),
        (DAY, "d day days tag tage j jour jours"),
        (3600, "h hr hrs hour hours std stunde stunden heure heures"),
        (60, "m min mins minute minutes minuten mn"),
        (1, "s sec secs second seconds sek sekunde sekunden"),
    )
    for word in words.split(" ")
}
_SPAN = re.compile(r"([0-9]+(?:[.,][0-9]+)?)(\s*([^\W\d_]*)\.?[,:]?\s*)")
_CELL = re.compile(rf"{_WEEKDAY}(?:{_NUMBERS})?(?:{_TIME})?", re.I)
_NAMED_CELL = re.compile(rf"{_WEEKDAY}(?:{_NAMED})(?:{_TIME})?", re.I)


class _Date(NamedTuple):
    """The two or three numbers of a date whose order is still unknown."""

    parts: tuple[int, int, int] | None = None  # None for a time of the day alone
    widths: tuple[int, int, int] = (0, 0, 0)
    separator: str = ""
    name: str = ""  # or where the month is named: "dmy" or "mdy"; "ym" or "my" for a month of a year
    seconds: float = 0.0  # of the day, in UTC where the zone is known
    time: str = ""  # its writing: "", "H:M" or "H:M:S"
    between: str = ""
    zone: str = ""  # such as Z or +02:00
    month: str = ""  # its name
    spans: tuple[tuple[int, str, int], ...] = ()  # of a duration: seconds, mark, digits
    half: str = ""  # such as PM
    hour_digits: int = 2


@dataclass(frozen=True)
class DateForm:
    """The date format of a column, and the date of day 0.

    Example:
        >>> DateForm("dmy", ".", origin="2019-01-01").write(31.2)
        '01.02.2019'
        >>> DateForm(None, spans=((3600, "h ", 1), (60, "min", 1))).write(0.0625)
        '1h 30min'
    """

    order: Order | None  # None for a time of the day alone
    separator: str = "-"
    origin: str = "1970-01-01"  # day 0, at midnight
    padded: bool = True  # whether days and months have two digits
    century: bool = True  # whether years have four digits
    months: tuple[str, ...] = ()  # their names, if they have some
    time: str = ""  # "H:M" or "H:M:S"
    between: str = " "
    zone: str = ""  # such as Z or +02:00; days are then those of UTC
    long: bool = False  # whether times alone are durations, of more than a day
    spans: tuple[tuple[int, str, int], ...] = ()  # of durations with units, such as 2 h 5 min; in days
    half: str = ""  # of the day, such as PM, if hours go to 12
    hour_digits: int = 2  # at least
    decimals: int | None = None

    def write(self, value: float) -> str:
        """Write days since `origin` as the column does, rounded to a day, minute or second."""
        unit = self.spans[-1][0] if self.spans else {"": DAY, "H:M": 60, "H:M:S": 1}[self.time]
        seconds = int(np.floor(value * DAY / unit + 0.5)) * unit
        if self.spans:
            text, rest = "", max(0, seconds)
            for unit, behind, width in self.spans:
                number, rest = divmod(rest, unit)
                text += f"{number:0{width}}{behind}" if number or self.padded else ""
            return text.strip() or f"0{self.spans[-1][1]}".rstrip()
        if self.long:
            minute, second = divmod(max(0, seconds), 60)
            text = f"{minute // 60}:{minute % 60:02}"
            return text if self.time == "H:M" else f"{text}:{second:02}"
        when = np.datetime64(self.origin, "s") + np.timedelta64(seconds + _offset(self.zone), "s")
        day, clock = str(when).split("T")
        hour, clock = int(clock[:2]), clock[2:] if self.time == "H:M:S" else clock[2:5]
        letter = ("a", "p")[hour >= 12] if self.half.islower() else ("A", "P")[hour >= 12]
        hour = (hour % 12 or 12) if self.half else hour
        clock = f"{hour:0{self.hour_digits}}{clock}{re.sub('[AaPp]', letter, self.half)}"
        if self.order is None:
            return clock
        year, month, of_month = day.split("-")
        if not self.century:
            year = year[-2:]
        if not self.padded:
            month, of_month = str(int(month)), str(int(of_month))
        if self.months:
            month = self.months[int(month) - 1]
        part = {"y": year, "m": month, "d": of_month}
        text = self.separator.join(part[letter] for letter in self.order)
        if self.months and self.order == "mdy":
            text = f"{month} {of_month}, {year}"
        elif self.separator == "年":
            text = f"{year}年{month}月{of_month}日"
        elif self.separator == ". ":
            text = f"{of_month}. {month} {year}"
        return f"{text}{self.between}{clock}{self.zone}" if self.time else text

    def said(self) -> str:
        """The format in words."""
        if self.order is None:
            return "duration" if self.long or self.spans else "time of the day"
        words = {"y": "year", "m": "month", "d": "day"}
        return self.separator.join(words[letter] for letter in self.order) + (
            f" and time{', days of UTC' * bool(self.zone)}" if self.time else ""
        )


class Dates(NamedTuple):
    """The distinct cells of a column as days since the first date; NaN for other cells."""

    values: tuple[float, ...]
    form: DateForm
    n_either: int = 0  # cells that may be day first or month first, where nothing says which


def read_dates(
    texts: Sequence[str], counts: Sequence[int], order: Order | None = None, *, said: bool = False
) -> Dates | None:
    """Read the distinct cells of a column as dates; None if none is a date.

    Args:
        order: day first or month first, where the cells do not say it.
        said: whether the user said so.

    Example:
        >>> dates = read_dates(["31.01.2019", "2.2.2019", "red"], [1, 1, 1])
        >>> dates.values, dates.form.order, dates.form.origin
        ((0.0, 2.0, nan), 'dmy', '2019-01-31')
        >>> read_dates(["1/2/2019"], [1]).n_either
        1
    """
    cells = [_parts(text) for text in texts]
    n_of = Counter[tuple[str, bool]]()
    for cell, n in zip(cells, counts, strict=True):
        if cell is not None:
            n_of[cell.name, cell.parts is None] += n
    if not n_of:
        return None
    (name, alone), _ = n_of.most_common(1)[0]
    chosen = [
        cell if cell is not None and (cell.name, cell.parts is None) == (name, alone) else None
        for cell in cells
    ]
    pairs = [(cell, n) for cell, n in zip(chosen, counts, strict=True) if cell is not None]
    if alone:
        seconds = np.array([np.nan if cell is None else cell.seconds for cell in chosen])
        form = DateForm(None, long=bool(np.nanmax(seconds) > DAY), **_marks(pairs))
        if form.time == "spans":
            written = [cell.spans for cell, _ in pairs if cell.spans]
            alike = len({tuple(unit for unit, *_ in spans) for spans in written}) == 1
            form = replace(form, spans=_spans(written), padded=alike)
        return Dates(tuple((seconds / DAY).tolist()), form)
    known: Order | None = name or _order(pairs)  # type: ignore[assignment]
    n_either = sum(n for _, n in pairs) if known is None and order is None and not said else 0
    if known is None or (said and order is not None and not name):
        known = order or "dmy"
    seconds = np.array([np.nan if cell is None else _seconds(cell, known) for cell in chosen])
    exists = ~np.isnan(seconds)
    pairs = [
        (cell, n) for cell, n, real in zip(chosen, counts, exists, strict=True) if cell is not None and real
    ]
    if not pairs:
        return None
    if known in ("dmy", "mdy"):  # a year of four digits in front has one reading
        for k in np.flatnonzero(~exists).tolist():
            if (other := chosen[k]) is not None and not other.name:
                seconds[k] = _seconds(other, "ymd")
    days, origin = days_since_first(seconds)
    return Dates(tuple(days.tolist()), _form(pairs, known, origin), n_either)


def _form(pairs: Sequence[tuple[_Date, int]], order: Order, origin: str) -> DateForm:
    """The format of a column of dates."""
    shortest = [min(cell.widths[k] for cell, _ in pairs) for k in range(3)]
    return DateForm(
        order,
        origin=origin,
        padded=min(w for letter, w in zip(f"{order}d", shortest, strict=False) if letter != "y") >= 2,
        century=shortest[order.index("y")] > 2,
        months=_months([cell.month for cell, _ in pairs]),
        **_marks(pairs),
    )


def _marks(pairs: Sequence[tuple[_Date, int]]) -> dict[str, Any]:
    """The most frequent marks of a column's dates and times."""
    marks: dict[str, Any] = {}
    for part in ("separator", "time", "between", "zone", "half"):
        seen = Counter[str]()
        for cell, n in pairs:
            seen[getattr(cell, part)] += n
        marks[part] = seen.most_common(1)[0][0]
    return marks | {"hour_digits": min(cell.hour_digits for cell, _ in pairs)}


def _spans(written: Sequence[tuple[tuple[int, str, int], ...]]) -> tuple[tuple[int, str, int], ...]:
    """The parts of a column's durations, the longest unit first, each as it is written before another one."""
    behind, width = dict[int, str](), Counter[int]()
    for spans in sorted(written, key=len, reverse=True):
        for k, (unit, mark, least) in enumerate(spans):
            behind.setdefault(unit, f"{mark} " if k == len(spans) - 1 else mark)
            width[unit] = max(width[unit], least)
    return tuple((unit, behind[unit], width[unit]) for unit in sorted(behind, reverse=True))


def _duration(text: str) -> _Date | None:
    """Parse a duration with units, such as 13h 3min, 12h30, 2 d 4 h or 1 day, 3:04:05."""
    spans, seconds, before = list[tuple[int, str, int]](), 0.0, 0
    parts = [*_SPAN.finditer(text)]  # one after the other: a pattern of all would try each division of digits
    if not parts or "".join(part[0] for part in parts) != text:
        return None
    for digits, behind, word in (part.groups() for part in parts):
        follows = {3600: 60, 60: 1} | ({DAY: 3600} if ":" in text else {})
        unit = _SPANS.get(word.lower(), 0) if word else follows.get(before, 0)
        if not word and len(digits) < 2 and ":" not in text:
            return None  # 2020m1 is a month
        if not unit or (spans and unit >= before):
            return None
        spans.append((unit, behind, 2 if re.match("0[0-9]", digits) else 1))
        seconds, before = seconds + unit * float(digits.replace(",", ".")), unit
    if len(spans) == 1 and text[-1:] in "mM":
        return None  # metres
    return _Date(seconds=seconds, time="spans", spans=tuple(spans))


def _parts(text: str) -> _Date | None:
    """Parse a date, a time or a duration; return None for other text."""
    if (compact := COMPACT.fullmatch(text)) is not None:
        first, second, third = map(int, compact.groups())
        return _Date((first, second, third), (4, 2, 2))
    if text.endswith("日"):
        text = text[:-1].replace("月", "年")
    month = _MONTH.fullmatch(text)
    if month is not None and month["year"]:
        return _Date((int(month["year"]), int(month["number"]), 1), (4, 2, 2), "-", "ym")
    if month is not None:
        number, (mark, year, word) = _month(month["name"]), month.group("sep", "of", "name")
        date = _Date((number, int(year), 1), (2, len(year), 2), mark, "my", month=word)
        return date if number else None
    found = _CELL.fullmatch(text) or _NAMED_CELL.fullmatch(text)
    if found is None or not text:
        return _duration(text)
    of = found.groupdict()
    seconds, time = 0.0, ""
    if of["hour"] is not None:
        hour, minute, second = int(of["hour"]), int(of["minute"]), int(of["second"] or 0)
        if of["half"]:
            hour = hour % 12 + (12 if "p" in of["half"].lower() else 0)
        if minute > 59 or second > 60 or (of["a"] is not None and (of["between"] is None or hour > 24)):
            return None
        part = float((of["part"] or "0").replace(",", "."))
        seconds = hour * 3600 + minute * 60 + second + part - _offset(of["zone"] or "")
        time = "H:M" if of["second"] is None else "H:M:S"
    zone, between = of["zone"] or "", (of["between"] or "")[:1]
    how: dict[str, Any] = {"seconds": seconds, "time": time, "between": between, "zone": zone}
    how |= {"half": of["half"] or "", "hour_digits": min(2, len(of["hour"] or "00"))}
    if of["a"] is None:  # 22:00-06:00 are two times
        return _Date(**how) if time and not between and zone in "Z" else None
    day, year, of_day, of_year = int(of["a"]), int(of["c"]), len(of["a"]), len(of["c"])
    if "b" in of:
        return _Date((day, int(of["b"]), year), (of_day, len(of["b"]), of_year), of["sep"], **how)
    if (of["month"] is None) == (of["month_first"] is None):
        return None
    how["month"] = of["month"] or of["month_first"]
    number = _month(how["month"])
    if not number:
        return None
    if of["month"] is not None:
        return _Date((day, number, year), (of_day, 2, of_year), of["sep"], "dmy", **how)
    return _Date((number, day, year), (2, of_day, of_year), " ", "mdy", **how)


@lru_cache(maxsize=1000)
def _month(word: str) -> int:
    """The number of a month by its name, or three letters and more of it; 0 for other words."""
    word = {"mrz": "mär", "mrt": "maa"}.get(word.casefold(), word.casefold())
    names = ((k, name) for of in _MONTHS for k, name in enumerate(of, 1))
    return next((k for k, name in names if len(word) > 2 and name.casefold().startswith(word)), 0)


def _months(words: Sequence[str]) -> tuple[str, ...]:
    """The names of months in the language and length of those seen; () for none."""
    if not any(words):
        return ()
    seen = {word.casefold() for word in words}

    def fit(names: Sequence[str]) -> tuple[int, int]:
        lower = [name.casefold() for name in names]
        return len({*lower} & seen), sum(name.startswith(word) for name in lower for word in seen)

    names, (first, *_) = max(_MONTHS, key=fit), sorted(words, key=len, reverse=True)
    whole = len(first) > 4 or (len(first) == 4 and first.casefold() in map(str.casefold, names))  # Juni
    names = names if whole else [name[:3] for name in names]
    style = str.upper if first.isupper() else str.lower if first.islower() else str.title
    return tuple(map(style, names))


def _offset(zone: str) -> int:
    """The seconds by which the clocks of a zone such as +02:00 are ahead of UTC."""
    found = re.fullmatch(r"\s?([+-])([0-9]{2}):?([0-9]{2})", zone)
    return 0 if found is None else int(f"{found[1]}1") * (3600 * int(found[2]) + 60 * int(found[3]))


def _order(pairs: Sequence[tuple[_Date, int]]) -> Order | None:
    """The order of year, month and day that most unambiguous cells have; None if that is unclear."""
    valid = Counter[Order]()
    orders: tuple[Order, ...] = ("ymd", "dmy", "mdy")
    for cell, n in pairs:
        for order in orders:
            if not np.isnan(_seconds(cell, order)):
                valid[order] += n
    if not valid:
        return "dmy"
    (best, most), *_ = valid.most_common(1)
    if {order for order, n in valid.items() if n == most} >= {"dmy", "mdy"}:
        return "dmy" if all(cell.separator == "." for cell, _ in pairs) else None
    return best


def _seconds(cell: _Date, order: Order) -> float:
    """Seconds since 1970, or NaN for a date that does not exist."""
    assert cell.parts is not None
    letters = f"{order}d"[:3]  # a month of a year is its first day
    part, width = (dict(zip(letters, each, strict=True)) for each in (cell.parts, cell.widths))
    year, month, day = part["y"], part["m"], part["d"]
    if width["y"] == 2 and order != "ymd":
        year += 2000 if year < 69 else 1900
    elif width["y"] != 4:
        return np.nan
    if max(width["m"], width["d"]) > 2:
        return np.nan
    try:
        day_number = datetime.date(year, month, day).toordinal() - _DAY_0
    except ValueError:  # no such day
        return np.nan
    return float(day_number * DAY) + cell.seconds


def days_since_first(seconds: Float64[np.ndarray, " N"]) -> tuple[Float64[np.ndarray, " N"], str]:
    """Days since midnight of the first date, and that date.

    Example:
        >>> days_since_first(np.array([86400.0 * 1.5, np.nan, 86400.0]))
        (array([0.5, nan, 0. ]), '1970-01-02')
    """
    origin = 0.0 if np.isnan(seconds).all() else float(np.floor(np.nanmin(seconds) / DAY))
    return seconds / DAY - origin, str(np.datetime64(int(origin), "D"))
