"""The log evidence against the number of components, for runs of one family that differ in nothing else."""

import re
from collections.abc import Sequence

import numpy as np

from maskevidence.comparing.comparison import common_name
from maskevidence.report.figures import Figure, figure, numbers_of
from maskevidence.report.ranking import Ranking
from maskevidence.report.reading import ReportedRun
from maskevidence.show.parts import Table
from maskevidence.show.pictures import Band, Line, Lines
from maskevidence.show.words import capital, plus_minus, typeset

_SIZED = re.compile(r"([\w-]+):(\d+)")


def components(runs: Sequence[ReportedRun], ranking: Ranking | None, noun: str) -> Figure | None:
    """The log evidence of compared runs of models such as ppca:2, ppca:8, ... against that number.

    Args:
        runs: the runs of the report.
        ranking: how they compare, if there are several.
        noun: what an observation is.

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
