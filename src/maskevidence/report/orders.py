"""A picture of what orders of the tokens make of the same observations: area, bounds, mixture, policies."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from maskevidence.evidence.result import EvidenceEstimate
from maskevidence.evidence.standard_errors import t_half_width
from maskevidence.report.figures import Figure, figure, numbers_of
from maskevidence.report.reading import ReportedRun
from maskevidence.show.draw import shortened
from maskevidence.show.parts import Table, Value, Values
from maskevidence.show.words import digits_for, plus_minus, typeset


class Mark(NamedTuple):
    """One number of a run.

    Attributes:
        run: the name of the run.
        name: what it is.
        value: nats per observation.
        se: its standard error, of masks or orders; None if it is not known, 0 without one.
        orders: how many orders it is from, in words; empty for all.
    """

    run: str
    name: str
    value: float
    se: float | None
    orders: str = ""


def orders(runs: Sequence[ReportedRun]) -> Figure | None:
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
        f"Orders of the tokens, nats per observation: {listed}.",
        Values(values, "nats per observation", words=""),
        Table(["number", "nats per observation"], rows),
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
        word = estimate.design.get("policy", "policy") if estimate.kind == "policy" else "area"
        return [Mark(run, word, estimate.log_evidence, estimate.mask_se)]
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
