"""Figures of the report: curves, how far runs are behind, components and orders, each with a table."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from maskevidence.comparing.comparison import (
    Comparison,
    Difference,
    common_name,
    verdict,
)
from maskevidence.errors import InputError
from maskevidence.evidence.curve import Curve, curve_lines
from maskevidence.evidence.result import EvidenceEstimate
from maskevidence.evidence.standard_errors import t_half_width
from maskevidence.report.reading import ReportedRun, noun_of
from maskevidence.runs import compare_runs
from maskevidence.show.draw import COLOURS, DASHES, shortened, svg
from maskevidence.show.html import table
from maskevidence.show.parts import Picture, Table, Value, Values
from maskevidence.show.pictures import FEWEST_IN_A_BAND, Band, Floats, Line, Lines
from maskevidence.show.words import (
    NOT_KNOWN,
    capital,
    data_error,
    digits_for,
    plus_minus,
    sentence,
    standard_error,
    typeset,
)


@dataclass(frozen=True)
class Ranking:
    """How the runs of a report compare."""

    notes: list[str]  # what the reader should know, one sentence each, without full stops
    refusal: str | None = None  # why the runs are not compared, if they are not
    comparison: Comparison | None = None  # the comparison, if there is one

    @property
    def differences(self) -> dict[str, Difference]:
        """The difference of the best run from each other run, by the name of the other."""
        behind = () if self.comparison is None else self.comparison.behind
        return {difference.second: difference for difference in behind}

    @property
    def table(self) -> Table:
        """A row for each compared run, the best one first."""
        assert self.comparison is not None
        return next(part for part in self.comparison.page().parts if isinstance(part, Table))

    @property
    def unknown(self) -> list[str]:
        """For each run whose order proves nothing or is not known, why."""
        unknown = [
            each for each in self.differences.values() if each.verdict in ("proves nothing", "not known")
        ]
        return [sentence(verdict(each, digits_for(each.standard_error), typeset)) for each in unknown]


def rank(runs: Sequence[ReportedRun]) -> Ranking:
    """Compare the finished runs, if they score the same observations."""
    finished = {run.name: run.run for run in runs if run.finished and run.estimate is not None}
    notes = [
        f"{run.name} is not finished and is left out of the comparison"
        for run in runs
        if run.name not in finished
    ]
    if len(finished) < 2:
        return Ranking(notes, "Fewer than two runs are finished.")
    try:
        comparison = compare_runs(finished)
    except InputError as error:
        return Ranking(notes, f"The runs cannot be compared: {error}.")
    return Ranking(
        list(dict.fromkeys([*notes, *comparison.page(noun_of(runs)).notes])), comparison=comparison
    )


MAX_ROWS = 120
_DASHES = dict(zip(DASHES, ("solid", "dashed", "dotted"), strict=True))  # in the words of CSS
_CUT = "The widest bands go on beyond the picture; its table has their numbers."
_UNITS = (
    "Scores and standard errors are in nats per hidden token; mask_se is the error of the masks, data_se the "
    "error of the observations."
)


class Drawn(NamedTuple):
    """A run in the legend of a figure: its number in the report, its name, and how its line looks."""

    number: int
    name: str
    colour: str
    dash: str


@dataclass(frozen=True)
class Figure:
    """A figure of the page."""

    key: str  # unique in the page
    title: str  # its heading
    svg: str  # the picture
    table: str  # its numbers as HTML; empty where the page has them elsewhere
    runs: Sequence[Drawn] = ()  # the runs of the legend, which can be switched off; empty for a single one
    bands: Sequence[str] = ()  # the names of bands or bars, which can be switched off
    off: Sequence[str] = ()  # those that are off at first
    few: bool = False  # whether lines have a bar at each point in place of bands
    notes: Sequence[str] = ()  # below the picture
    # what is said of a point before its values, with {x} and {share} in place of numbers; empty for a figure
    # from which no values are read off
    where: str = ""
    factor: float = 1.0  # what {x} is multiplied by for {share}


def figure(
    key: str,
    title: str,
    summary: str,
    picture: Picture,
    numbers: Table | None = None,
    *,
    notes: Sequence[str] = (),
    where: str = "",
    factor: float = 1.0,
) -> Figure:
    """Draw a picture as a figure; the arguments are its attributes."""
    lines = picture.lines if isinstance(picture, Lines) else ()
    runs = [_drawn(line) for line in lines] if len(lines) > 1 else []
    return Figure(
        key=key,
        title=title,
        svg=svg(picture, summary, key, points=bool(where), legend=not lines),
        table="" if numbers is None else table(numbers, label=f"{title}, as a table"),
        runs=runs,
        bands=list(dict.fromkeys(band.name for line in lines for band in line.bands)),
        off=hopeless_bands(lines),
        few=all(len(line.x) < FEWEST_IN_A_BAND for line in lines),
        notes=notes,
        where=where,
        factor=factor,
    )


def numbers_of(runs: Sequence[ReportedRun]) -> dict[str, int]:
    """The number of each run in the report, which decides its colour in all figures."""
    return {run.name: place for place, run in enumerate(runs)}


def figures_of_curves(runs: Sequence[ReportedRun], ranking: Ranking | None) -> list[Figure]:
    """The curves of all runs, and how far each is below the curve of the best one."""
    numbers = numbers_of(runs)
    curves = {run.name: run.estimate.curve for run in runs if run.estimate is not None}
    if not curves:
        return []
    figures = [_of_curves("curves", "Score by mask size", curves, "score", numbers)]
    behind = {} if ranking is None else ranking.differences
    below = {name: each.curve for name, each in behind.items() if each.curve is not None}
    if below:
        best = next(iter(behind.values())).first
        others = next(iter(below)) if len(below) == 1 else "each other run"
        title = f"{best} minus {others}"
        figures.append(_of_curves("differences", title, below, "difference of the scores", numbers))
    return figures


def _of_curves(
    key: str, title: str, curves: Mapping[str, Curve], value: str, numbers: Mapping[str, int]
) -> Figure:
    places = [numbers[name] for name in curves]
    picture = curve_lines(curves, value, numbers=places, zero=key == "differences")
    lines = [
        replace(line, words=_words(curve)) for line, curve in zip(picture.lines, curves.values(), strict=True)
    ]
    off = hopeless_bands(lines)
    shown = [replace(line, bands=[band for band in line.bands if band.name not in off]) for line in lines]
    window = y_window(shown)
    if off and window is None:  # the axis is that of what is shown at first
        sides = [side for line in shown for band in line.bands for side in (band.low, band.high)]
        ends = np.concatenate([*(line.y for line in shown), *sides])
        room = 0.05 * float(np.nanmax(ends) - np.nanmin(ends))
        window = float(np.nanmin(ends)) - room, float(np.nanmax(ends)) + room
    picture = replace(picture, lines=lines, y_limits=window)
    notes = [_CUT] if window is not None and not off else []
    notes += [f"The bands of {name} are far wider than the curves differ, and off at first." for name in off]
    if all(len(curve.score) == 1 for curve in curves.values()):
        each = " for each run" if len(curves) > 1 else ""
        notes.append(f"There is only one mask size, and therefore one point{each} and no curve.")
    by_size = picture.top is not None
    if by_size and all(len(line.x) < FEWEST_IN_A_BAND for line in lines):
        picture = replace(picture, x_limits=_room_for_bars(lines))
    return figure(
        key,
        title,
        _summary(title, curves, value),
        picture,
        _table(curves, by_size=by_size),
        notes=notes,
        where="mask size {x} ({share} % hidden)" if by_size else "{share} % hidden",
        factor=1.0 if picture.top is None else picture.top[1],
    )


def hopeless_bands(lines: Sequence[Line]) -> list[str]:
    """The names of bands whose median width is more than twice the span of all lines.

    Example:
        >>> from maskevidence.show.pictures import Band
        >>> x = np.arange(1.0, 8.0)
        >>> bands = [Band("data", -x - 9, 9 - x, ""), Band("masks", -x - 1, 1 - x, "")]
        >>> hopeless_bands([Line("a", x, -x, bands)])
        ['data']
    """
    if any(len(line.x) < FEWEST_IN_A_BAND for line in lines):
        return []
    span = float(np.ptp(np.concatenate([line.y for line in lines]))) if lines else 0.0
    widths: dict[str, list[Floats]] = {}
    for band in (band for line in lines for band in line.bands):
        widths.setdefault(band.name, []).append(band.high - band.low)
    return [name for name, each in widths.items() if np.nanmedian(np.concatenate(each)) > 2 * span > 0]


def y_window(lines: Sequence[Line]) -> tuple[float, float] | None:
    """A vertical axis for lines that a few wide bands would press flat; None where all bands fit.

    It holds every line, and around them half of their span or three times the median half-width of the
    bands, whichever is more.

    Example:
        >>> from maskevidence.show.pictures import Band
        >>> x = np.arange(1.0, 8.0)
        >>> y_window([Line("a", x, -x, [Band("masks", -x - 0.1, 0.1 - x, "masks")])])
    """
    bands = [band for line in lines for band in line.bands]
    if not bands or any(len(line.x) < 3 for line in lines):
        return None
    scores = np.concatenate([line.y for line in lines])
    lows, highs = (np.concatenate([getattr(band, side) for band in bands]) for side in ("low", "high"))
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    room = max((high - low) / 2, 3 * float(np.nanmedian(highs - lows)) / 2)
    if np.nanmin(lows) >= low - 2 * room and np.nanmax(highs) <= high + 2 * room:
        return None
    return max(low - room, float(np.nanmin(lows))), min(high + room, float(np.nanmax(highs)))


def _room_for_bars(lines: Sequence[Line]) -> tuple[float, float]:
    """The ends of a horizontal axis that cuts no bar."""
    low, high = min(line.x[0] for line in lines), max(line.x[-1] for line in lines)
    room = 1.0 if high == low else max(0.5, (high - low) / 20)
    return float(low - room), float(high + room)


def _drawn(line: Line) -> Drawn:
    dash = DASHES[line.number // len(COLOURS) % len(DASHES)]
    return Drawn(line.number, line.label, COLOURS[line.number % len(COLOURS)], _DASHES[dash])


def _words(curve: Curve) -> list[str]:
    """Each score with its errors."""
    columns = (curve.score.tolist(), curve.mask_se.tolist(), curve.data_se.tolist())
    words = []
    for score, *errors in zip(*columns, strict=True):
        in_words = [
            f"{name} ± {typeset(error, 4)}"
            for name, error in zip(("masks", "data"), errors, strict=True)
            if error > 0
        ]
        words.append(", ".join([typeset(score, 4), *in_words]))
    return words


def _summary(title: str, curves: Mapping[str, Curve], value: str) -> str:
    """One sentence on the shape of each curve."""
    parts = []
    for label, curve in curves.items():
        first, last = typeset(float(curve.score[0]), 3), typeset(float(curve.score[-1]), 3)
        if len(curve.score) == 1:
            parts.append(f"{label}: one point, {first} at {typeset(100 * float(curve.rate[0]), 1)} % hidden.")
        else:
            span = f"{typeset(100 * curve.rate[0], 1)} to {typeset(100 * curve.rate[-1], 1)} % hidden"
            parts.append(f"{label}: {len(curve.score)} points, from {first} to {last} over {span}.")
    return f"{title}: {value}, nats per hidden token. {' '.join(parts)}"


def _table(curves: Mapping[str, Curve], *, by_size: bool) -> Table:
    """The points of the curves, thinned evenly where there are many."""
    several = len(curves) > 1
    columns = ["run"] * several + (["size"] if by_size else []) + ["hidden"]
    columns += ["score", "mask_se", "data_se", "masks"]
    rows: list[list[str]] = []
    max_rows = max(20, MAX_ROWS // len(curves))
    thinned = any(len(curve.score) > max_rows for curve in curves.values())
    for label, curve in curves.items():
        n_points = len(curve.score)
        for k in np.unique(np.linspace(0, n_points - 1, min(n_points, max_rows)).round().astype(int)):
            row = [label] * several + ([f"{curve.size[k]:.0f}"] if by_size else [])
            row += [f"{typeset(100 * curve.rate[k], 1)} %", typeset(curve.score[k], 4)]
            row += [_error(curve.mask_se[k]), _error(curve.data_se[k]), f"{curve.n_masks[k]:,}"]
            rows.append(row)
    note = " Evenly spaced points; curve.csv in the run directory has all of them." if thinned else ""
    return Table(columns, rows, title=f"{_UNITS}{note}")


def _error(value: float) -> str:
    if np.isnan(value):
        return NOT_KNOWN
    return typeset(float(value), 4) if value else "0"


def forest(runs: Sequence[ReportedRun], ranking: Ranking | None, digits: int, noun: str) -> list[Figure]:
    """The figures of the compared runs; none if the runs are not compared."""
    comparison = None if ranking is None else ranking.comparison
    if comparison is None:
        return []
    numbers = numbers_of(runs)
    unit = comparison.unit.replace("observation", noun)
    figures = [_behind(comparison, numbers, digits, unit)]
    if comparison.unit == "nats per observation":
        figures.append(_numbers(comparison, numbers, digits, unit))
    return figures


def _behind(comparison: Comparison, numbers: dict[str, int], digits: int, unit: str) -> Figure:
    """The differences from the best run, with hollow marks for those that are not told apart."""
    apart = {each.second: each.told_apart for each in comparison.behind}
    values = [
        replace(value, group="", number=numbers[value.label], hollow=not apart.get(value.label, True))
        for value in comparison.picture()[0].values
    ]
    rows = []
    for value in values:
        ends = ("", "") if value.thin is None else (typeset(end, digits) for end in value.thin)
        rows.append([value.label, typeset(value.value, digits), *ends])
    listed = "; ".join(f"{row[0]} {row[1]}" for row in rows)
    return figure(
        "behind",
        "Behind the best run",
        f"Behind the best run, {unit}: {listed}.",
        Values(values, f"behind the best run ({unit})", zero=True, words=""),
        Table(["run", "behind the best", "95 % from", "to"], rows),
        notes=["Hollow: not told apart from the best run."] if not all(apart.values()) else [],
    )


def _numbers(comparison: Comparison, numbers: dict[str, int], digits: int, unit: str) -> Figure:
    """The numbers themselves with the errors of masks and of observations."""
    estimates = {name: comparison.estimates[name] for name in comparison.names}
    name = common_name(estimates.values())
    values = [
        Value(run, each.log_evidence, _of_data(each), _of_masks(each), number=numbers[run])
        for run, each in estimates.items()
    ]
    rows = [
        [
            run,
            typeset(each.log_evidence, digits),
            standard_error(each.mask_se, digits, typeset),
            data_error(each.data_se, each.mask_se, each.n_observations, digits, typeset),
        ]
        for run, each in estimates.items()
    ]
    listed = "; ".join(f"{row[0]} {row[1]}, masks {row[2]}, data {row[3]}" for row in rows)
    return figure(
        "numbers-of-runs",
        capital(name),
        f"{capital(name)}, {unit}: {listed}.",
        Values(values, f"{name} ({unit})", words=""),
        Table(["run", name, "masks", "data"], rows),
        notes=["Thick bars are for the masks, thin bars for the data."],
    )


def _of_masks(estimate: EvidenceEstimate) -> tuple[float, float] | None:
    if not estimate.mask_se or estimate.no_interval is not None:
        return None
    low, high = estimate.interval()
    return low, high


def _of_data(estimate: EvidenceEstimate) -> tuple[float, float] | None:
    if not estimate.data_se:
        return None
    half = t_half_width(estimate.data_se, estimate.n_observations - 1, 0.95)
    return estimate.log_evidence - half, estimate.log_evidence + half


_SIZED = re.compile(r"([\w-]+):(\d+)")


def components(runs: Sequence[ReportedRun], ranking: Ranking | None, noun: str) -> Figure | None:
    """The log evidence of compared runs of models such as ppca:2, ppca:8, ... against that number.

    Returns:
        None unless three or more runs differ in the number of components alone.
    """
    if ranking is None or ranking.comparison is None:
        return None
    comparison = ranking.comparison
    values = dict(zip(comparison.names, comparison.log_evidence, strict=True))
    sized = {run.name: _SIZED.fullmatch(run.manifest.model) for run in runs if run.name in values}
    matches = {name: match for name, match in sized.items() if match is not None}
    names = {int(match[2]): name for name, match in matches.items()}
    families = {match[1] for match in matches.values()}
    if len(families) > 1 or len(matches) < len(values) or not 3 <= len(names) == len(values):
        return None
    best, name, numbers = comparison.names[0], common_name(comparison.estimates.values()), numbers_of(runs)
    words = {run: f"{typeset(value, 2)} nats per {noun}" for run, value in values.items()}
    sizes = sorted(names)
    lines, rows = [], []
    for size in sizes:
        run = names[size]
        difference = ranking.differences.get(run)
        ends = None if difference is None else difference.interval()
        bands = [] if ends is None else [_bar(values[best] - ends[1], values[best] - ends[0])]
        point = np.array([values[run]])
        lines.append(Line(run, np.array([float(size)]), point, bands, numbers[run], [words[run]]))
        behind = (
            "best"
            if difference is None
            else plus_minus(difference.difference, difference.standard_error, 2, typeset)
        )
        rows.append([str(size), typeset(values[run], 2), behind])
    summary = (
        f"{capital(name)} against the number of components, {sizes[0]} to {sizes[-1]}: from "
        f"{words[names[sizes[0]]]} it goes to {words[names[sizes[-1]]]}, and {best} has the highest."
    )
    room = 0.05 * (sizes[-1] - sizes[0])
    limits = sizes[0] - room, sizes[-1] + room
    return figure(
        "components",
        f"{capital(name)} by number of components",
        summary,
        Lines(lines, "number of components", f"{name} (nats per {noun})", x_limits=limits),
        Table(["components", name, "behind best"], rows),
        notes=["Bars are for the difference from the best run."],
        where="{x} components",
    )


def _bar(low: float, high: float) -> Band:
    return Band("difference", np.array([low]), np.array([high]), "difference from the best run")


class Mark(NamedTuple):
    """One number of a run."""

    run: str  # the name of the run
    name: str  # what it is
    value: float  # nats per observation
    se: float | None  # its standard error, of masks or orders; None if it is not known, 0 without one
    orders: str = ""  # how many orders it is from, in words; empty for all


def orders(runs: Sequence[ReportedRun], noun: str) -> Figure | None:
    """The numbers of all runs of the same data side by side; None without a mixture, bracket or policy.

    Pseudo-log-likelihoods have another scale and are left out, and so are runs of other data.
    """
    first = next((run for run in runs if run.estimate is not None and _is_of_orders(run.estimate)), None)
    if first is None:
        return None
    data, numbers = first.manifest.data.fingerprint, numbers_of(runs)
    estimates = {
        run.name: run.estimate
        for run in runs
        if run.estimate is not None and run.finished and run.manifest.data.fingerprint == data
    }
    marks = [mark for run, each in estimates.items() if each.kind != "pseudo" for mark in _marks(run, each)]
    fewer = [mark for run, each in estimates.items() for mark in _of_fewer_orders(run, each)]
    several = len(estimates) > 1
    values = [
        Value(
            f"{shortened(mark.run, 20)}: {mark.name}" if several else mark.name,
            mark.value,
            _interval(mark),
            number=numbers[mark.run],
        )
        for mark in marks
    ]
    digits = digits_for(*(mark.se for mark in marks))
    rows = [
        [_label(mark, several=several), plus_minus(mark.value, mark.se or None, digits, typeset)]
        for mark in [*marks, *fewer]
    ]
    notes = [
        f"{run} has no upper bound: {each.bracket.no_upper}."
        for run, each in estimates.items()
        if each.kind != "pseudo" and each.bracket is not None and each.bracket.no_upper is not None
    ]
    listed = "; ".join(f"{_label(mark, several=several)} {typeset(mark.value, digits)}" for mark in marks)
    return figure(
        "orders",
        "Numbers of the orders",
        f"Orders of the tokens, nats per {noun}: {listed}.",
        Values(values, f"nats per {noun}", words=""),
        Table(["number", f"nats per {noun}"], rows),
        notes=["Bars are for random masks or orders.", *notes],
    )


def _is_of_orders(estimate: EvidenceEstimate) -> bool:
    return estimate.kind in ("mixture", "policy") or estimate.bracket is not None


def _label(mark: Mark, *, several: bool) -> str:
    of = f", {mark.orders}" if mark.orders else ""
    return f"{mark.run}: {mark.name}{of}" if several else f"{mark.name}{of}"


def _interval(mark: Mark) -> tuple[float, float] | None:
    if not mark.se:
        return None
    half = t_half_width(mark.se, math.inf, 0.95)
    return mark.value - half, mark.value + half


def _marks(run: str, estimate: EvidenceEstimate) -> list[Mark]:
    bracket = estimate.bracket
    if bracket is None:
        name = estimate.design.get("policy", "policy") if estimate.kind == "policy" else "area"
        return [Mark(run, name, estimate.log_evidence, estimate.mask_se)]
    area = Mark(run, "area", bracket.area, bracket.area_se)
    if bracket.mixture is not None:
        return [area, Mark(run, "order mixture", bracket.mixture, 0.0)]
    of = f"{bracket.n_orders} orders"
    marks = [area, Mark(run, "lower bound", bracket.lower, bracket.lower_se, of)]
    if bracket.upper is not None:
        marks.append(Mark(run, "upper bound", bracket.upper, bracket.upper_se, of))
    return marks


def _of_fewer_orders(run: str, estimate: EvidenceEstimate) -> list[Mark]:
    """The importance bound for fewer orders, from the same ones."""
    bracket = estimate.bracket
    if bracket is None:
        return []
    points = zip(bracket.n_averaged.tolist(), bracket.curve.tolist(), bracket.curve_se.tolist(), strict=True)
    return [
        Mark(run, "lower bound", bound, None if math.isnan(se) else se, f"{n} of the orders")
        for n, bound, se in points
        if 1 < n < bracket.n_orders
    ]
