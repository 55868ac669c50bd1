"""Dates and times as people write them, as days since the first."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float64

Order = Literal["ymd", "dmy", "mdy", "ym"]
DAY = 86_400  # seconds
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_TIME = (
    r"(?P<between>[ T]\s*)?(?P<hour>[0-9]{1,3}):(?P<minute>[0-9]{2})"
    r"(?::(?P<second>[0-9]{2})(?P<part>\.[0-9]+)?)?(?P<half>\s*[AaPp]\.?[Mm]\.?)?(?P<zone>Z|\s?[+-][0-9]{2}:?[0-9]{2})?"
)
_NUMBERS = r"(?P<a>[0-9]{1,4})(?P<sep>[-./])(?P<b>[0-9]{1,2})(?P=sep)(?P<c>[0-9]{1,4})"
_NAMED = (
    r"(?:(?P<month_first>[A-Za-z]{3,9})\.?\s+)?(?P<a>[0-9]{1,2})(?:st|nd|rd|th)?[.,]?"
    r"(?:(?P<sep>[ -])\s*(?P<month>[A-Za-z]{3,9})\.?)?(?P<sep2>[ ,-])\s*(?P<c>[0-9]{4})"
)
_MONTH = re.compile(r"(?P<a>[12][0-9]{3})-(?P<b>0[1-9]|1[0-2])")  # of a year
_CELL = re.compile(rf"(?:{_NUMBERS})?(?:{_TIME})?")
_NAMED_CELL = re.compile(rf"(?:{_NAMED})(?:{_TIME})?")


class _Date(NamedTuple):
    """The two or three numbers of a date whose order is still unknown."""

    parts: tuple[int, int, int] | None  # None for a time of the day alone
    widths: tuple[int, int, int]
    separator: str
    name: str  # "", or where the month is named: "dmy" or "mdy"; "ym" for a month of a year
    seconds: float  # of the day, in UTC where the zone is known
    time: str = ""  # its writing: "", "H:M" or "H:M:S"
    between: str = ""
    zone: str = ""  # such as Z or +02:00


@dataclass(frozen=True)
class DateForm:
    """The date format of a column, and the date of day 0.

    Example:
        >>> DateForm("dmy", ".", origin="2019-01-01").write(31.2)
        '01.02.2019'
    """

    order: Order | None  # None for a time of the day alone
    separator: str = "-"
    origin: str = "1970-01-01"  # day 0, at midnight
    padded: bool = True  # whether days and months have two digits
    century: bool = True  # whether years have four digits
    named: bool = False  # whether months have names
    time: str = ""  # "H:M" or "H:M:S"
    between: str = " "
    zone: str = ""  # such as Z or +02:00; days are then those of UTC
    long: bool = False  # whether times alone are durations, of more than a day
    decimals: int | None = None

    def write(self, value: float) -> str:
        """Write days since `origin` as the column does, rounded to a day, minute or second."""
        unit = {"": DAY, "H:M": 60, "H:M:S": 1}[self.time]
        seconds = int(np.floor(value * DAY / unit + 0.5)) * unit
        if self.long:
            minute, second = divmod(max(0, seconds), 60)
            text = f"{minute // 60}:{minute % 60:02}"
            return text if self.time == "H:M" else f"{text}:{second:02}"
        when = np.datetime64(self.origin, "s") + np.timedelta64(seconds + _offset(self.zone), "s")
        day, clock = str(when).split("T")
        clock = clock if self.time == "H:M:S" else clock[:5]
        if self.order is None:
            return clock
        year, month, of_month = day.split("-")
        if not self.century:
            year = year[-2:]
        if self.named:
            name = _MONTHS[int(month) - 1][:3]
            of_day = of_month if self.padded else str(int(of_month))
            text = (
                f"{name} {of_day}, {year}"
                if self.order == "mdy"
                else self.separator.join([of_day, name, year])
            )
        else:
            if not self.padded:
                month, of_month = str(int(month)), str(int(of_month))
            part = {"y": year, "m": month, "d": of_month}
            text = self.separator.join(part[letter] for letter in self.order)
        return f"{text}{self.between}{clock}{self.zone}" if self.time else text

    def said(self) -> str:
        """The format in words."""
        if self.order is None:
            return "duration" if self.long else "time of the day"
        words = {"y": "year", "m": "month", "d": "day"}
        return self.separator.join(words[letter] for letter in self.order) + (
            f" and time{', days of UTC' * bool(self.zone)}" if self.time else ""
        )


@dataclass(frozen=True)
class Dates:
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
    known: Order | None = name or _order(chosen, counts)  # type: ignore[assignment]
    n_either = 0
    if alone:
        seconds = np.array([np.nan if cell is None else cell.seconds for cell in chosen])
        form = DateForm(None, time=_commonest(chosen, counts, "time"), long=bool(np.nanmax(seconds) > DAY))
        return Dates(tuple((seconds / DAY).tolist()), form)
    if known is None or (said and order is not None and not name):
        n_either = 0 if said else sum(n for cell, n in zip(chosen, counts, strict=True) if cell is not None)
        known = order or "dmy"
        n_either = 0 if order is not None else n_either
    seconds = np.array([np.nan if cell is None else _seconds(cell, known) for cell in chosen])
    if np.isnan(seconds).all():
        return None
    origin = float(np.floor(np.nanmin(seconds) / DAY)) * DAY
    one = next(cell for cell in chosen if cell is not None)
    shortest = [min(cell.widths[k] for cell in chosen if cell) for k in range(3)]
    place_of_year = known.index("y")
    form = DateForm(
        known,
        _commonest(chosen, counts, "separator"),
        str(np.datetime64(int(origin), "s")).split("T")[0],
        padded=min(
            w
            for k, w in enumerate(shortest)
            if k != place_of_year and (name in ("", "ym") or k == 0 or name == "mdy")
        )
        >= 2,
        century=shortest[place_of_year] > 2,
        named=bool(one.name) and name != "ym",
        zone=_commonest(chosen, counts, "zone"),
        time=_commonest(chosen, counts, "time"),
        between=_commonest(chosen, counts, "between") or " ",
    )
    return Dates(tuple(((seconds - origin) / DAY).tolist()), form, n_either)


def _parts(text: str) -> _Date | None:
    """Parse a date or time; return None for other text."""
    month = _MONTH.fullmatch(text)
    if month is not None:
        return _Date((int(month["a"]), int(month["b"]), 1), (4, 2, 2), "-", "ym", 0.0)
    found = _CELL.fullmatch(text) or _NAMED_CELL.fullmatch(text)
    if found is None or not text:
        return None
    of = found.groupdict()
    seconds, time = 0.0, ""
    if of["hour"] is not None:
        hour, minute, second = int(of["hour"]), int(of["minute"]), int(of["second"] or 0)
        if of["half"]:
            hour = hour % 12 + (12 if "p" in of["half"].lower() else 0)
        if minute > 59 or second > 60 or (of["a"] is not None and (of["between"] is None or hour > 24)):
            return None
        seconds = hour * 3600 + minute * 60 + second + float(of["part"] or 0) - _offset(of["zone"] or "")
        time = "H:M" if of["second"] is None else "H:M:S"
    if of["a"] is None:
        return _Date(None, (0, 0, 0), "", "", seconds, time, "") if time and not of["between"] else None
    between, zone = (of["between"] or "")[:1], of["zone"] or ""
    if "b" in of:
        a, b, c = of["a"], of["b"], of["c"]
        return _Date(
            (int(a), int(b), int(c)), (len(a), len(b), len(c)), of["sep"], "", seconds, time, between, zone
        )
    if (of["month"] is None) == (of["month_first"] is None):
        return None
    word = (of["month"] or of["month_first"]).casefold()
    number = next(
        (
            k
            for k, month in enumerate(_MONTHS, 1)
            if month.casefold() in (word,) or month[:3].casefold() == word or (word == "sept" and k == 9)
        ),
        0,
    )
    if not number:
        return None
    day, widths = int(of["a"]), (len(of["a"]), 2, 4)
    if of["month"] is not None:
        return _Date((day, number, int(of["c"])), widths, of["sep"], "dmy", seconds, time, between, zone)
    return _Date((number, day, int(of["c"])), (2, len(of["a"]), 4), " ", "mdy", seconds, time, between, zone)


def _offset(zone: str) -> int:
    """The seconds by which the clocks of a zone such as +02:00 are ahead of UTC."""
    found = re.fullmatch(r"\s?([+-])([0-9]{2}):?([0-9]{2})", zone)
    return 0 if found is None else int(f"{found[1]}1") * (3600 * int(found[2]) + 60 * int(found[3]))


def _order(cells: Sequence[_Date | None], counts: Sequence[int]) -> Order | None:
    """The order of year, month and day that most unambiguous cells have; None if that is unclear."""
    valid = Counter[str]()
    n = 0
    for cell, times in zip(cells, counts, strict=True):
        if cell is None or cell.parts is None:
            continue
        n += times
        for order in ("ymd", "dmy", "mdy"):
            if not np.isnan(_seconds(cell, order)):
                valid[order] += times
    if not n:
        return None
    (best, most), *_ = valid.most_common(1) or [("dmy", 0)]
    rivals = [order for order, k in valid.items() if k == most and order != best]
    if {best, *rivals} >= {"dmy", "mdy"}:
        return "dmy" if all(cell is None or cell.separator == "." for cell in cells) else None
    return best  # type: ignore[return-value]


def _seconds(cell: _Date, order: Order) -> float:
    """Seconds since 1970, or NaN for a date that does not exist."""
    assert cell.parts is not None
    part = dict(zip("ymd" if order == "ym" else order, cell.parts, strict=True))
    width = dict(zip("ymd" if order == "ym" else order, cell.widths, strict=True))
    year, month, day = part["y"], part["m"], part["d"]
    if width["y"] == 2 and order != "ymd":
        year += 2000 if year < 69 else 1900
    elif width["y"] != 4:
        return np.nan
    if not (1 <= month <= 12 and 1 <= day <= 31 and year >= 1) or max(width["m"], width["d"]) > 2:
        return np.nan
    first = np.datetime64(f"{year:04d}-{month:02d}", "M")
    date = first.astype("M8[D]") + np.timedelta64(day - 1, "D")
    if date.astype("M8[M]") != first:
        return np.nan
    return float(date.astype("M8[s]").astype(np.int64)) + cell.seconds


def _commonest(cells: Sequence[_Date | None], counts: Sequence[int], what: str) -> str:
    """The most frequent format of a part."""
    seen = Counter[str]()
    for cell, n in zip(cells, counts, strict=True):
        if cell is not None:
            seen[getattr(cell, what)] += n
    return seen.most_common(1)[0][0]


def days_since_first(seconds: Float64[np.ndarray, " N"]) -> tuple[Float64[np.ndarray, " N"], str]:
    """Days since midnight of the first date, and that date.

    Example:
        >>> days_since_first(np.array([86400.0 * 1.5, np.nan, 86400.0]))
        (array([0.5, nan, 0. ]), '1970-01-02')
    """
    origin = 0.0 if np.isnan(seconds).all() else float(np.floor(np.nanmin(seconds) / DAY))
    return seconds / DAY - origin, str(np.datetime64(int(origin), "D"))
