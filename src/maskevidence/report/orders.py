"""A picture of what orders of the tokens make of the same observations: area, bounds, mixture, policies."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from maskevidence.estimate import EvidenceEstimate
from maskevidence.report.figures import Figure, figure, numbers_of
from maskevidence.report.reading import ReportedRun
from maskevidence.show.parts import Table, Value, Values
from maskevidence.standard_errors import t_half_width
from maskevidence.wording import digits_for, plus_minus, typeset


class Mark(NamedTuple):
    """One number of the picture.

    Attributes:
        label: what it is, and of which run.
        value: nats per observation.
        se: its standard error, of masks or orders; None if it is not known, 0 without one.
    """

    label: str
    value: float
    se: float | None


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
    prefixes = {name: f"{name}: " if len(estimates) > 1 else "" for name in estimates}
    scored = {name: each for name, each in estimates.items() if each.kind != "pseudo"}
    marks = {name: _marks(prefixes[name], each) for name, each in scored.items()}
    values = [
        Value(mark.label, mark.value, _interval(mark), number=numbers[name])
        for name, of_run in marks.items()
        for mark in of_run
    ]
    shown = [mark for of_run in marks.values() for mark in of_run]
    digits = digits_for(*(mark.se for mark in shown))
    fewer = [mark for name, each in estimates.items() for mark in _of_fewer_orders(prefixes[name], each)]
    rows = [
        [mark.label, plus_minus(mark.value, mark.se or None, digits, typeset)] for mark in [*shown, *fewer]
    ]
    notes = [
        f"{name} has no upper bound: {each.bracket.no_upper}."
        for name, each in scored.items()
        if each.bracket is not None and each.bracket.no_upper is not None
    ]
    listed = "; ".join(f"{mark.label} {typeset(mark.value, digits)}" for mark in shown)
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


def _interval(mark: Mark) -> tuple[float, float] | None:
    if not mark.se:
        return None
    half = t_half_width(mark.se, math.inf, 0.95)
    return mark.value - half, mark.value + half


def _marks(run: str, estimate: EvidenceEstimate) -> list[Mark]:
    bracket = estimate.bracket
    if bracket is None:
        word = estimate.design.get("policy", "policy") if estimate.kind == "policy" else "area"
        return [Mark(f"{run}{word}", estimate.log_evidence, estimate.mask_se)]
    area = Mark(f"{run}area", bracket.area, bracket.area_se)
    if bracket.mixture is not None:
        return [area, Mark(f"{run}order mixture", bracket.mixture, 0.0)]
    of = f"{bracket.n_orders} orders"
    marks = [area, Mark(f"{run}lower bound, {of}", bracket.lower, bracket.lower_se)]
    if bracket.upper is not None:
        marks.append(Mark(f"{run}upper bound, {of}", bracket.upper, bracket.upper_se))
    return marks


def _of_fewer_orders(run: str, estimate: EvidenceEstimate) -> list[Mark]:
    """The importance bound for fewer orders, from the same ones."""
    bracket = estimate.bracket
    if bracket is None:
        return []
    points = zip(bracket.n_averaged.tolist(), bracket.curve.tolist(), bracket.curve_se.tolist(), strict=True)
    return [
        Mark(f"{run}lower bound, {n} of the orders", bound, None if math.isnan(se) else se)
        for n, bound, se in points
        if 1 < n < bracket.n_orders
    ]
