"""The log evidence against the number of components, for runs of one family that differ in nothing else."""

import re
from collections.abc import Sequence

from maskevidence.comparison import common_name
from maskevidence.report.plots import COLOURS, MARKERS, Plot, plot_of
from maskevidence.report.ranking import Ranking
from maskevidence.report.reading import ReportedRun
from maskevidence.wording import capital, count, plus_minus, typeset

_SIZED = re.compile(r"([\w-]+):(\d+)")


def plot_components(runs: Sequence[ReportedRun], ranking: Ranking | None, noun: str) -> Plot | None:
    """Plot the log evidence of compared runs of models such as ppca:2, ppca:8, ... against that number.

    Args:
        runs: the runs of the report.
        ranking: how they compare, if there are several.
        noun: what an observation is.

    Returns:
        None unless three or more runs differ in the number of components alone.
    """
    if ranking is None or ranking.comparison is None:
        return None
    values = dict(zip(ranking.comparison.names, ranking.comparison.log_evidence, strict=True))
    sized = {run.name: _SIZED.fullmatch(run.manifest.model) for run in runs if run.name in values}
    matches = {name: match for name, match in sized.items() if match is not None}
    numbers = {int(match[2]): name for name, match in matches.items()}
    families = {match[1] for match in matches.values()}
    if len(families) > 1 or len(matches) < len(values) or not 3 <= len(numbers) == len(values):
        return None
    best = ranking.comparison.names[0]
    name = common_name(ranking.comparison.estimates.values())
    x = sorted(numbers)
    y = [values[numbers[k]] for k in x]
    errors = [0.0 if numbers[k] == best else ranking.differences[numbers[k]].standard_error or 0.0 for k in x]
    words = [f"{typeset(value, 2)} nats per {noun}" for value in y]
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": families.pop(),
        "x": x,
        "y": [float(f"{value:.8g}") for value in y],
        "error_y": {"type": "data", "array": errors, "color": COLOURS[0], "thickness": 1.5, "width": 5},
        "customdata": words,
        "hovertemplate": "%{x} components: %{customdata}<extra></extra>",
        "line": {"color": COLOURS[0], "width": 2},
        "marker": {"size": 9, "symbol": [MARKERS[2 if numbers[k] == best else 0] for k in x]},
        "meta": {"where": [count(k, "component") for k in x]},
        "showlegend": False,
    }
    rows = [
        [str(k), typeset(value, 2), plus_minus(value - max(y), error or None, 2, typeset)]
        for k, value, error in zip(x, y, errors, strict=True)
    ]
    most = numbers.keys() & {k for k in x if numbers[k] == best}
    summary = (
        f"{capital(name)} against the number of components, {x[0]} to {x[-1]}: from {words[0]} it goes to "
        f"{words[-1]}, and it is highest at {most.pop()}."
    )
    return plot_of(
        "components",
        f"{capital(name)} by number of components",
        summary,
        [trace],
        ("number of components", f"{name}, nats per {noun}"),
        ["components", name, "difference from the best"],
        rows,
    )
