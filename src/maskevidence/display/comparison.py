"""A comparison of models in a notebook."""

import math
from typing import Any

from maskevidence.comparison import Comparison, Difference, Verdict
from maskevidence.display import html, svg
from maskevidence.display.curve import curve_part
from maskevidence.display.curve_picture import axes_for, draw_on, set_title
from maskevidence.display.frames import data_frame
from maskevidence.wording import (
    common_name,
    decided_by_few,
    digits_for,
    number,
    plus_minus,
    ranking,
    typeset,
    verdict,
)

_COLOURS: dict[Verdict, str] = {"better": svg.COLOURS[1], "not told apart": svg.COLOURS[0]}
_MARKERS: dict[Verdict, str] = {"better": "s", "not told apart": "o"}
_LEGEND: dict[Verdict, str] = {
    "better": "behind the best model",
    "not told apart": "cannot be told apart from it",
    "proves nothing": "the order proves nothing",
    "not known": "the error is not known",
}
_OTHER = svg.COLOURS[3]


def comparison_line(comparison: Comparison) -> str:
    """The comparison in one line."""
    digits = _digits(comparison)
    rest = ", ".join(
        f"{one.second} {plus_minus(-one.difference, one.standard_error, digits)} ({_told(one)})"
        for one in comparison.behind
    )
    best = f"{comparison.names[0]} {number(comparison.log_evidence[0], digits)}"
    return f"Comparison({best} {comparison.unit}; behind it {rest})"


def answer(comparison: Comparison) -> str:
    """Which model is best, and which ones cannot be told apart from it.

    Args:
        comparison: two or more models.
    """
    best, n = comparison.names[0], len(comparison.behind)
    close = [one.second for one in comparison.behind if one.verdict == "not told apart"]
    open_ = [one.second for one in comparison.behind if one.verdict in ("proves nothing", "not known")]
    parts = []
    if close:
        parts.append(f"{_listed(close)} cannot be told apart from it")
    if open_:
        parts.append(f"nothing is known about {_listed(open_)}")
    if not parts:
        parts.append("it is better than the other" if n == 1 else f"it is better than all {n} others")
    return f"{best} has the highest {common_name(comparison.estimates.values())}; {', and '.join(parts)}"


def comparison_html(comparison: Comparison) -> str:
    """The answer, the ranking with the errors of the differences, and a picture of these."""
    digits = _digits(comparison)
    columns, rows = ranking(comparison, digits, typeset)
    verdicts = ["best", *map(_told, comparison.behind)]
    rows = [[name, told, *rest] for (name, *rest), told in zip(rows, verdicts, strict=True)]
    intervals = [svg.Interval(comparison.names[0], 0.0, 0.0, 0.0, svg.COLOURS[2])]
    for one in comparison.behind:
        low, high = _ends(one)
        intervals.append(
            svg.Interval(one.second, -one.difference, low, high, _COLOURS.get(one.verdict, _OTHER))
        )
    axis = f"behind the best, {comparison.unit}"
    names = comparison.estimates[comparison.names[0]].names
    decided = filter(None, (decided_by_few(one, names, typeset) for one in comparison.behind))
    return html.block(
        html.headline(f"{answer(comparison)}."),
        html.table([columns[0], "verdict", *columns[1:]], rows, words=(0, 1)),
        svg.intervals_svg(intervals, axis, answer(comparison)),
        html.paragraph(
            f"In {comparison.unit}. {_bars(comparison)}, for the masks and the observations; zero is the "
            "best model. Wins: the share of the observations on which the model is higher than the best one."
        ),
        html.notes([*decided, *comparison.all_notes()]),
    )


def comparison_plot(comparison: Comparison, ax: Any) -> Any:
    """How far each model is behind the best one, with intervals, on axes."""
    n = len(comparison.names)
    axes = axes_for(ax, (7.0, 2.2 + 0.3 * n))
    axes.axvline(0.0, color="0.5", linewidth=1, linestyle="--")
    axes.plot(0.0, 0, marker="D", color=svg.COLOURS[2], linestyle="none", label="the best model")
    told: set[str] = set()
    for place, one in enumerate(comparison.behind, 1):
        low, high = _ends(one)
        colour, label = _COLOURS.get(one.verdict, _OTHER), _LEGEND[one.verdict]
        reach = [[0.0], [0.0]] if math.isnan(low) else [[-one.difference - low], [high + one.difference]]
        axes.errorbar(
            -one.difference,
            place,
            xerr=reach,
            color=colour,
            marker=_MARKERS.get(one.verdict, "x"),
            capsize=3,
            linestyle="none",
            label=None if label in told else label,
        )
        told.add(label)
    axes.set_yticks(range(n), comparison.names)
    axes.set_ylim(n + 0.5 + 0.6 * len(told), -0.5)  # room for the legend
    axes.set_xlabel(f"minus the best model  ({comparison.unit})")
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(
        title=f"{_bars(comparison)} (masks and observations)",
        title_fontsize=8,
        fontsize=8,
        frameon=False,
        loc="lower left",
        alignment="left",
    )
    set_title(axes, f"{answer(comparison)}.")
    return axes


def comparison_frame(comparison: Comparison) -> Any:
    """A data frame with a row for each model, best first."""
    best = comparison.names[0]
    behind = comparison.behind
    intervals = [one.interval() or (math.nan, math.nan) for one in behind]
    nan = math.nan
    columns = {
        "log_evidence": comparison.log_evidence,
        "behind": [0.0, *(one.difference for one in behind)],
        "standard_error": [
            nan,
            *(nan if one.standard_error is None else one.standard_error for one in behind),
        ],
        "low": [nan, *(low for low, _ in intervals)],
        "high": [nan, *(high for _, high in intervals)],
        "wins": [nan, *(1 - one.win_share for one in behind)],
        "verdict": ["best", *map(_told, behind)],
        "kind": [behind[0].kinds[0], *(one.kinds[1] for one in behind)],
        "unit": [comparison.unit] * len(comparison.names),
    }
    return data_frame(columns, [best, *(one.second for one in behind)], "model")


def difference_line(difference: Difference) -> str:
    """The difference in one line."""
    digits = digits_for(difference.mask_se, difference.data_se)
    error = plus_minus(difference.difference, difference.standard_error, digits)
    names = f"{difference.first} minus {difference.second}"
    return f"Difference({names}: {error} {difference.unit}, {difference.verdict})"


def difference_html(difference: Difference) -> str:
    """What the interval of the difference says, and where on the curve the models differ."""
    digits = digits_for(difference.mask_se, difference.data_se)
    error = plus_minus(difference.difference, difference.standard_error, digits, typeset)
    words = f"{difference.first} minus {difference.second}"
    return html.block(
        html.headline(f"{verdict(difference, digits, typeset)}."),
        html.paragraph(f"{words}: {error} {difference.unit}."),
        "" if difference.curve is None else curve_part(difference.curve, "difference of the scores"),
        html.notes(difference.notes),
    )


def difference_plot(difference: Difference, ax: Any) -> Any:
    """The difference by mask size on axes; for models with other masks, the differences of observations."""
    axes = axes_for(ax)
    digits = digits_for(difference.mask_se, difference.data_se)
    words = f"{difference.first} minus {difference.second}"
    if difference.curve is not None:
        draw_on(axes, {words: difference.curve}, value="difference of the scores")
        axes.axhline(0.0, color="0.5", linewidth=1, linestyle="--")
    else:
        axes.hist(difference.per_observation, bins="auto", color=svg.COLOURS[0], label="observations")
        axes.axvline(0.0, color="0.5", linewidth=1, linestyle="--")
        axes.set_xlabel(f"{words}  ({difference.unit})")
        axes.set_ylabel("number of observations")
        axes.legend(fontsize=8, frameon=False)
    set_title(axes, f"{verdict(difference, digits, typeset)}.")
    return axes


def _told(one: Difference) -> str:
    """The verdict on a model that is compared with the best one."""
    return "behind" if one.verdict == "better" else one.verdict


def _ends(one: Difference) -> tuple[float, float]:
    """The interval of how far the second model lies above the first."""
    interval = one.interval()
    return (math.nan, math.nan) if interval is None else (-interval[1], -interval[0])


def _bars(comparison: Comparison) -> str:
    several = len(comparison.behind) > 1
    return f"Bars are {'simultaneous ' if several else ''}95 % intervals"


def _listed(names: list[str]) -> str:
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _digits(comparison: Comparison) -> int:
    return digits_for(*(one.standard_error for one in comparison.behind))
