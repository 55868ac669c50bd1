"""A picture of what orders of the tokens make of the same observations: area, bounds, mixture, policies."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from maskevidence.estimate import EvidenceEstimate
from maskevidence.report.reading import ReportedRun
from maskevidence.standard_errors import t_half_width
from maskevidence.support.hidden_characters import plain
from maskevidence.wording import digits_for, plus_minus, typeset

COLUMNS = ["number", "nats per observation"]
_WIDTH, _LABELS, _ROW, _MARGIN = 760, 330, 30, 24
_COLOURS = {"area": "#0072B2", "bound": "#009E73", "mixture": "#D55E00", "policy": "#B0609A"}


@dataclass(frozen=True)
class Mark:
    """One number of the picture.

    Attributes:
        label: what it is, and of which run.
        colour: the name of its colour.
        value: nats per observation.
        se: its standard error, of masks or orders; None if it is not known, 0 without one.
    """

    label: str
    colour: str
    value: float
    se: float | None


@dataclass(frozen=True)
class OrdersPicture:
    """The picture, and its numbers as a table.

    Attributes:
        svg: the picture.
        rows: the rows of the table.
        notes: why an upper bound is missing, one sentence for each run.
    """

    svg: str
    rows: list[list[str]]
    notes: list[str]


def orders_picture(runs: Sequence[ReportedRun]) -> OrdersPicture | None:
    """The numbers of all runs of the same data side by side; None without a mixture, bracket or policy.

    Pseudo-log-likelihoods have another scale and are left out, and so are runs of other data.
    """
    scored = [(run.name, run.estimate) for run in runs if run.estimate is not None and run.finished]
    first = next((run for run in runs if run.estimate is not None and _is_of_orders(run.estimate)), None)
    if first is None:
        return None
    same = {run.name for run in runs if run.manifest.data.fingerprint == first.manifest.data.fingerprint}
    marks, notes = [], []
    for name, estimate in scored:
        if name in same and estimate.kind != "pseudo":
            marks += _marks(name, estimate)
            bracket = estimate.bracket
            if bracket is not None and bracket.no_upper is not None:
                notes.append(f"{name} has no upper bound: {bracket.no_upper}")
    digits = digits_for(*(mark.se for mark in marks))
    listed = [*marks, *(mark for name, one in scored if name in same for mark in _of_fewer_orders(name, one))]
    rows = [[mark.label, plus_minus(mark.value, mark.se or None, digits, typeset)] for mark in listed]
    return OrdersPicture(_svg(marks, digits), rows, notes)


def _is_of_orders(estimate: EvidenceEstimate) -> bool:
    return estimate.kind in ("mixture", "policy") or estimate.bracket is not None


def _marks(name: str, estimate: EvidenceEstimate) -> list[Mark]:
    bracket = estimate.bracket
    if bracket is None:
        word = estimate.design.get("policy", "policy") if estimate.kind == "policy" else "area"
        colour = "policy" if estimate.kind == "policy" else "area"
        return [Mark(f"{name}: {word}", colour, estimate.log_evidence, estimate.mask_se)]
    area = Mark(f"{name}: area", "area", bracket.area, bracket.area_se)
    if bracket.mixture is not None:
        return [area, Mark(f"{name}: order mixture", "mixture", bracket.mixture, 0.0)]
    orders = f"{bracket.n_orders} orders"
    marks = [area, Mark(f"{name}: lower bound, {orders}", "bound", bracket.lower, bracket.lower_se)]
    if bracket.upper is not None:
        marks.append(Mark(f"{name}: upper bound, {orders}", "bound", bracket.upper, bracket.upper_se))
    return marks


def _of_fewer_orders(name: str, estimate: EvidenceEstimate) -> list[Mark]:
    """The importance bound for fewer orders, from the same ones."""
    if estimate.bracket is None:
        return []
    found = estimate.bracket
    points = zip(found.n_averaged.tolist(), found.curve.tolist(), found.curve_se.tolist(), strict=True)
    return [
        Mark(f"{name}: lower bound, {n} of the orders", "bound", bound, None if math.isnan(se) else se)
        for n, bound, se in points
        if 1 < n < found.n_orders
    ]


def _svg(marks: Sequence[Mark], digits: int) -> str:
    """A row for each number: its label, its point and a bar for its 95 % interval."""
    half = [t_half_width(mark.se or 0.0, float("inf"), 0.95) for mark in marks]
    low = min(mark.value - h for mark, h in zip(marks, half, strict=True))
    high = max(mark.value + h for mark, h in zip(marks, half, strict=True))
    span = (high - low) or 1.0

    def x(value: float) -> float:
        return _LABELS + _MARGIN + (value - low) / span * (_WIDTH - _LABELS - 4 * _MARGIN)

    height = _ROW * len(marks) + _ROW
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {height}" width="100%" role="img" font-size="13" fill="currentColor">',
        f"<title>{escape(plain(_summary(marks, digits)))}</title>",
    ]
    for place, (mark, h) in enumerate(zip(marks, half, strict=True)):
        y, colour = _ROW * place + _ROW / 2, _COLOURS[mark.colour]
        label = mark.label if len(mark.label) < 46 else f"{mark.label[:20]}...{mark.label[-22:]}"
        parts.append(f'<text x="{_LABELS}" y="{y + 4}" text-anchor="end">{escape(plain(label))}</text>')
        if h:
            ends = f'x1="{x(mark.value - h):.1f}" x2="{x(mark.value + h):.1f}"'
            parts.append(f'<line {ends} y1="{y}" y2="{y}" stroke="{colour}" stroke-width="3"/>')
        parts.append(f'<circle cx="{x(mark.value):.1f}" cy="{y}" r="5" fill="{colour}"/>')
        value = typeset(mark.value, digits)
        parts.append(f'<text x="{x(mark.value + h) + 9:.1f}" y="{y + 4}">{value}</text>')
    parts.append(f'<text x="{_WIDTH}" y="{height - 8}" text-anchor="end">nats per observation</text></svg>')
    return "".join(parts)


def _summary(marks: Sequence[Mark], digits: int) -> str:
    listed = "; ".join(f"{mark.label} {typeset(mark.value, digits)}" for mark in marks)
    return f"Orders of the tokens, nats per observation: {listed}."
