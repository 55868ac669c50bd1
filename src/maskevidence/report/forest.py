"""All runs of a comparison, best first, each with a dot and its errors on a common scale."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from maskevidence.comparison import common_name
from maskevidence.report.answer import PER_OBSERVATION
from maskevidence.report.ranking import Ranking
from maskevidence.report.reading import ReportedRun
from maskevidence.wording import data_error, plus_minus, standard_error, typeset


@dataclass(frozen=True)
class Mark:
    """A number on a scale, with its place in percent of the scale's width.

    Attributes:
        words: the number and its errors.
        at: the place of the dot.
        thick: start and width of the thick bar; None where the error is not known.
        thin: start and width of the thin bar, likewise.
    """

    words: str
    at: float
    thick: tuple[float, float] | None = None
    thin: tuple[float, float] | None = None


@dataclass(frozen=True)
class Panel:
    """One scale with a mark for each run.

    Attributes:
        title: what the scale shows, with its unit.
        label: the same in a word or two, for a narrow screen; empty where the numbers speak for themselves.
        marks: one for each run, in their order.
        ticks: place and label of each tick.
    """

    title: str
    label: str
    marks: list[Mark]
    ticks: list[tuple[float, str]]


@dataclass(frozen=True)
class Forest:
    """The runs of a comparison on common scales, best first."""

    names: list[str]
    panels: list[Panel]


def forest(runs: Sequence[ReportedRun], ranking: Ranking, digits: int, noun: str) -> Forest | None:
    """Rank the compared runs: their numbers with both errors, and their differences from the best one.

    Args:
        runs: the runs of the report.
        ranking: how they compare.
        digits: the number of decimals.
        noun: what an observation is.

    Returns:
        None if the runs are not compared.
    """
    if ranking.refusal is not None or not ranking.rows:
        return None
    names = [row[0] for row in ranking.rows]
    unit = ranking.unit.replace(PER_OBSERVATION, f"nats per {noun}")
    panels = [_behind(names, ranking, digits, unit)]
    if ranking.unit == PER_OBSERVATION:
        panels.insert(0, _numbers(names, runs, digits, unit))
    return Forest(names, panels)


def _numbers(names: Sequence[str], runs: Sequence[ReportedRun], digits: int, unit: str) -> Panel:
    estimates = {run.name: run.estimate for run in runs if run.estimate is not None}
    values = [
        (each.log_evidence, each.mask_se, each.data_se, each.n_observations)
        for each in (estimates[name] for name in names)
    ]
    words = [
        f"{typeset(value, digits)}, masks {standard_error(mask, digits, typeset)}, "
        f"observations {data_error(data, mask, n, digits, typeset)}"
        for value, mask, data, n in values
    ]
    name = common_name(estimates[name] for name in names)
    return _panel(f"{name}, {unit}", "", words, [value[:3] for value in values])


def _behind(names: Sequence[str], ranking: Ranking, digits: int, unit: str) -> Panel:
    values: list[tuple[float, float | None, float | None]] = [(0.0, None, None)]
    words = ["best"]
    for name in names[1:]:
        difference = ranking.differences[name]
        values.append((-difference.difference, difference.standard_error, None))
        words.append(plus_minus(-difference.difference, difference.standard_error, digits, typeset))
    return _panel(f"difference from the best, {unit}", "difference from the best", words, values)


def _panel(
    title: str,
    label: str,
    words: Sequence[str],
    values: Sequence[tuple[float, float | None, float | None]],
) -> Panel:
    """Put numbers with a thick and a thin error on a scale that holds them all."""
    reach = [max(thick or 0.0, thin or 0.0) for _, thick, thin in values]
    low = min(value - error for (value, *_), error in zip(values, reach, strict=True))
    high = max(value + error for (value, *_), error in zip(values, reach, strict=True))
    width = (high - low) or 1.0
    low, width = low - 0.03 * width, 1.06 * width

    def place(value: float) -> float:
        return round(100 * (value - low) / width, 2)

    def bar(value: float, error: float | None) -> tuple[float, float] | None:
        return None if not error else (place(value - error), round(200 * error / width, 2))

    marks = [
        Mark(text, place(value), bar(value, thick), bar(value, thin))
        for text, (value, thick, thin) in zip(words, values, strict=True)
    ]
    ticks = [(place(tick), label) for tick, label in nice_ticks(low, low + width)]
    return Panel(title, label, marks, ticks)


def nice_ticks(low: float, high: float, wanted: int = 4) -> list[tuple[float, str]]:
    """About as many round numbers as wanted between two others, and how they are written.

    Example:
        >>> nice_ticks(-0.3, 11.0)
        [(0, '0'), (2, '2'), (4, '4'), (6, '6'), (8, '8'), (10, '10')]
    """
    step = 10 ** math.floor(math.log10((high - low) / wanted))
    step *= min((1, 2, 5, 10), key=lambda k: abs((high - low) / (k * step) - wanted))
    digits = max(0, -math.floor(math.log10(step)))
    first, last = math.ceil(low / step), math.floor(high / step)
    return [(k * step, typeset(k * step, digits)) for k in range(first, last + 1)]
