"""The result of choosing a model by held-out evidence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from maskevidence.core.comparing.comparison import Difference
from maskevidence.core.evidence.result import EstimateKind
from maskevidence.core.show.parts import Group, Page, Part, Table, Value, ValueRows
from maskevidence.core.show.pictures import Band, Line, Lines
from maskevidence.core.show.shown import Columns, Shown
from maskevidence.core.show.words import (
    Write,
    capital,
    count,
    digits_for,
    evidence_name,
    figures,
    number,
    plus_minus,
    standard_error,
    typeset,
)
from maskevidence.core.support.files import csv_text
from maskevidence.tables.base import TableModel

SELECTION = "selection.json"
COLUMNS = (
    *("model", "n_components", "n_parameters", "log_evidence", "mask_se", "data_se"),
    *("behind", "behind_se", "beaten_by"),
)
_MOST_ROWS, _MOST_DRAWN = 24, 12  # candidates listed in the table, and drawn in the picture
_Z = 1.96
_FAR = 30
_DATA, _MASKS = "95 % interval, data", "95 % interval, masks"


@dataclass(frozen=True)
class Candidate:
    """A model that `select` may choose."""

    name: str  # the MODEL word, such as "ppca:3"
    family: str  # the part of the word before the colon
    n_components: int | None  # K; None for a model without components
    n_parameters: int  # free parameters
    log_evidence: float  # mean over the observations, each held out once, nats
    mask_se: float | None  # standard error due to the masks; 0 for a closed form
    data_se: float | None  # standard error due to the sample of observations
    behind: Difference | None  # the best candidate minus this one; None for the best
    beaten_by: str | None  # a candidate that is significantly better, or None

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return vars(self) | {"behind": None if self.behind is None else self.behind.to_dict()}


class Fill(NamedTuple):
    """How well models of the other folds fill hidden known values of a column."""

    holes: int  # missing values of the column
    quality: float  # root mean square error; for words, the share filled right
    without: float  # the same quality for filling by the column's mean or most frequent word
    words: bool  # whether the column holds words


def error_left(fill: Fill) -> float:
    """The error of filled values as a share of the error without a model; 1 if that has none.

    Example:
        >>> error_left(Fill(9, 0.8, 0.6, True)), error_left(Fill(9, 1.0, 4.0, False))
        (0.5, 0.25)
    """
    error, without = (1 - fill.quality, 1 - fill.without) if fill.words else (fill.quality, fill.without)
    return round(error / without, 12) if without > 0 else 1.0


def best_filler(fills: Mapping[str, Mapping[str, Fill]]) -> tuple[str, str]:
    """The MODEL word with the least error left, as a mean over columns, and the reason.

    Evidence would decide by the exactness of numbers, too, which a filled value does not need.
    """
    left = {
        word: float(np.mean([min(1.0, error_left(fill)) for fill in of_word.values()]))
        for word, of_word in fills.items()
    }
    shares = ", ".join(f"{word} {100 * share:.0f} %" for word, share in left.items())
    why = f"which fills hidden cells best; errors, of those of the mean or commonest word: {shares}"
    return min(left, key=lambda word: left[word]), why


@dataclass(frozen=True, repr=False)
class Selection(Shown):
    """Candidates ranked by held-out evidence; the first one is chosen.

    Attributes:
        candidates: by their log evidence, the highest first.
        model: the chosen model, fitted to all rows.
        kind: of the chosen model's number; see `EvidenceEstimate.kind`.
        base_measure: the measure of all numbers; with a network, the mass of each cell over its step.
        n_observations: the number of rows, each of which was held out once.
        folds: the number of parts into which the rows were divided.
        design: name and parameters of the mask design; None if the log evidence has a closed form.
        seed: of the division of the rows and of the masks.
        column_names: the columns that were modelled.
        notes: what a reader needs to know, one sentence each.
        fills: by the name of each column with holes, how well the chosen model fills known values of rows
            that it was not fitted to.
    """

    candidates: tuple[Candidate, ...]
    model: TableModel
    kind: EstimateKind
    base_measure: str | None
    n_observations: int
    folds: int
    design: Mapping[str, Any] | None
    seed: int
    column_names: tuple[str, ...]
    notes: tuple[str, ...]
    fills: Mapping[str, Fill] = field(default_factory=dict)

    @property
    def chosen(self) -> Candidate:
        """The candidate with the highest held-out evidence."""
        return self.candidates[0]

    @property
    def choice(self) -> str:
        """The name of the chosen candidate, such as "ppca:3"."""
        return self.chosen.name

    @property
    def smallest(self) -> Candidate:
        """The candidate with the fewest parameters among those that no other candidate beats.

        It is not told apart from the chosen one; its `behind` is the evidence it gives up. Candidates whose
        order with the chosen one proves nothing are excluded.
        """
        near = (each for each in self.candidates if not (each.beaten_by or _proves_nothing(each.to_dict())))
        return min(near, key=lambda each: (each.n_parameters, -each.log_evidence))

    def answer(self, write: Write = number) -> str:
        """The choice, and the smallest model not told apart from it with the evidence it gives up.

        Args:
            write: how to write numbers.
        """
        return answer_of_selection(self.to_dict(), write)

    def page(self) -> Page:
        """A page with the answer, the best candidates, and their distances from the best one."""
        return page_of_selection(self.to_dict())

    def picture(self) -> tuple[Lines | ValueRows, str]:
        """The held-out evidence against the number of components; the choice is marked.

        A family without components is a horizontal line. The intervals show the sampling error of each
        candidate alone; differences between candidates are known better, because all score the same rows.
        """
        return picture_of_selection(self.to_dict())

    def columns(self) -> Columns:
        """The columns of `to_csv`, with one row per candidate."""
        rows = list(zip(*self._rows(), strict=True))
        return Columns(dict(zip(COLUMNS[1:], rows[1:], strict=True)), list(rows[0]), COLUMNS[0])

    def to_dict(self) -> dict[str, Any]:
        """The selection as JSON values."""
        return {
            "choice": self.choice,
            "smallest": self.smallest.name,
            "kind": self.kind,
            "base_measure": self.base_measure,
            "n_observations": self.n_observations,
            "folds": self.folds,
            "design": self.design,
            "seed": self.seed,
            "columns": list(self.column_names),
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "notes": list(self.notes),
            "fills": {name: fill._asdict() for name, fill in self.fills.items()},
        }

    def to_csv(self) -> str:
        """One CSV line per candidate, the best first."""
        return csv_text(COLUMNS, self._rows())

    def _rows(self) -> list[tuple[Any, ...]]:
        rows = []
        for each in self.candidates:
            behind = (
                (0.0, 0.0) if each.behind is None else (each.behind.difference, each.behind.standard_error)
            )
            numbers = (each.n_components, each.n_parameters, each.log_evidence, each.mask_se, each.data_se)
            rows.append((each.name, *numbers, *behind, each.beaten_by))
        return rows


_Entry = Mapping[str, Any]  # a candidate or a whole selection, as returned by `to_dict`


def answer_of_selection(result: _Entry, write: Write = number) -> str:
    """The choice and the smallest model not told apart from it, from a selection.json."""
    name = evidence_name(result["kind"], (result["design"] or {}).get("name", ""))
    closed = " in closed form" if result["design"] is None else ""
    words = f"chosen: {result['choice']}, highest held-out {name}{closed}"
    smallest = _smallest(result)
    fewer = [each for each in result["candidates"] if each["n_parameters"] < smallest["n_parameters"]]
    unproved = [each["name"] for each in fewer if _proves_nothing(each)]
    if smallest["behind"] is None and not unproved:
        return words + ("; every smaller model is worse" if fewer else "")
    if smallest["behind"] is None:
        return f"{words}; the order of it and {' and '.join(unproved)} proves nothing"
    error = smallest["behind"]["standard_error"]
    gives_up = plus_minus(smallest["behind"]["difference"], error, digits_for(error), write)
    return (
        f"{words}; smallest model not told apart from it: {smallest['name']}; "
        f"it gives up {gives_up} nats per row"
    )


def page_of_selection(result: _Entry) -> Page:
    """Build the page of a selection from its selection.json."""
    candidates = result["candidates"]
    listed = list(candidates[:_MOST_ROWS])
    if _smallest(result) not in listed:
        listed.append(_smallest(result))
    digits = digits_for(*(each[error] for each in listed for error in ("mask_se", "data_se")))
    masks = any(each["mask_se"] != 0 for each in listed)  # closed forms have no mask error
    rows = [_cells(result, each, digits, masks) for each in listed]
    hidden = len(candidates) - len(listed)
    more = f"; the {count(hidden, 'other')} are worse" if hidden else ""
    title = (
        f"Held-out log evidence ± data error, nats per row, {result['n_observations']:,} rows in "
        f"{result['folds']} folds{more}"
    )
    headings = ["model", "", "parameters", "log evidence", *["mask error"] * masks, "behind the best"]
    parts: list[Part] = [Table(headings, rows, title, words=(0, 1))]
    if len(candidates) > 1:
        parts.append(_distances(listed[:_MOST_DRAWN]))
    if result["fills"]:
        parts.append(_filled(result["fills"]))
    line = f"Selection of {len(candidates)} candidates; {answer_of_selection(result)}"
    return Page(line, capital(answer_of_selection(result, typeset)), parts=parts, notes=result["notes"])


def _filled(fills: Mapping[str, Mapping[str, Any]]) -> Group:
    rows, words = [], any(fill["words"] for fill in fills.values())
    for name, fill in fills.items():
        of_each = (
            f"{100 * x:.0f} % right" if fill["words"] else figures(x, 3, padded=True)
            for x in (fill["quality"], fill["without"])
        )
        rows.append([name, f"{fill['holes']:,}", *of_each])
    title = (
        "Known values were hidden and filled by the chosen model, fitted to the other folds. The root mean "
        "square error (RMSE), compared with filling by the column’s mean"
        + "; for words, the share filled right, compared with filling by the most frequent word" * words
        + "."
    )
    heading = "RMSE or share right" if words else "RMSE"
    return Group("Holes", [Table(["column", "holes", heading, "without a model"], rows, title)])


def picture_of_selection(result: _Entry) -> tuple[Lines | ValueRows, str]:
    """The picture of a selection.json, and its title; see `Selection.picture`."""
    title, y_label = capital(answer_of_selection(result, typeset)), "held-out log evidence  (nats per row)"
    candidates = result["candidates"]
    sizes = sorted({each["n_components"] for each in candidates if each["n_components"] is not None})
    if len(sizes) < 2:
        of_masks = "Bars are 95 % intervals: thick for the masks, thin for the data."
        words = ValueRows.words if result["design"] is None else of_masks
        return ValueRows([_value(each) for each in candidates], y_label, words=words), title
    families = dict.fromkeys(each["family"] for each in candidates)
    lines = [_line(candidates, family, sizes, number) for number, family in enumerate(families)]
    marked = {"smallest not told apart": _smallest(result)} | {"chosen": candidates[0]}
    points = [
        (_place(each, sizes), each["log_evidence"], f"{words}: {each['name']}")
        for words, each in reversed(marked.items())
        if words == "chosen" or each is not candidates[0]
    ]
    level = _lowest_drawn(candidates)
    picture = Lines(lines, "number of components K", y_label, y_limits=_window(lines, level), points=points)
    return picture, title


def below_picture(result: _Entry) -> list[_Entry]:
    """The candidates too far behind to be drawn without squashing the others."""
    level = _lowest_drawn(result["candidates"])
    return [each for each in result["candidates"] if each["log_evidence"] < level]


def _lowest_drawn(candidates: Sequence[_Entry]) -> float:
    """The lowest evidence to draw: 30 times as far behind the best as the third quartile, or the minimum."""
    values = np.array([each["log_evidence"] for each in candidates])
    behind = _FAR * float(np.quantile(values.max() - values, 0.75))
    return float(max(values.min(), values.max() - behind) if behind else values.min())


def _window(lines: Sequence[Line], level: float) -> tuple[float, float] | None:
    """Limits of the vertical axis that fit the points above `level`, with bands; None if all are above it."""
    if all(line.y.min() >= level for line in lines):
        return None
    drawn = [(line, line.y >= level) for line in lines]
    ends = [line.y[keep] for line, keep in drawn]
    ends += [end[keep] for line, keep in drawn for band in line.bands for end in (band.low, band.high)]
    low, high = (
        min(each.min(initial=np.inf) for each in ends),
        max(each.max(initial=-np.inf) for each in ends),
    )
    room = 0.05 * (high - low)
    return float(low - room), float(high + room)


def _smallest(result: _Entry) -> _Entry:
    entry: _Entry = {each["name"]: each for each in result["candidates"]}[result["smallest"]]
    return entry


def _cells(result: _Entry, each: _Entry, digits: int, masks: bool) -> list[str]:
    """A row of the table; `masks` adds the error of the masks."""
    behind, verdict = "best", "worse" if each["beaten_by"] else "proves nothing" * _proves_nothing(each)
    if each["behind"] is not None:
        error = each["behind"]["standard_error"]
        behind = plus_minus(each["behind"]["difference"], error, digits)
    for name, words in (("smallest", "smallest not told apart"), ("choice", "chosen")):
        verdict = words if each["name"] == result[name] else verdict
    return [
        each["name"],
        verdict,
        f"{each['n_parameters']:,}",
        plus_minus(each["log_evidence"], each["data_se"], digits),
        *[standard_error(each["mask_se"], digits)] * masks,
        behind,
    ]


def _proves_nothing(each: _Entry) -> bool:
    """Whether a candidate is unbeaten and has the verdict "proves nothing"."""
    behind = each["behind"]
    return not each["beaten_by"] and behind is not None and behind.get("verdict") == "proves nothing"


def _worse(each: _Entry) -> str:
    """The label of a beaten candidate: behind the best, or worse than another candidate."""
    ends = each["behind"]["interval_95"]
    return "behind" if ends is not None and ends[0] > 0 else "worse than another candidate"


def _distances(listed: Sequence[_Entry]) -> ValueRows:
    """How far each candidate is behind the best, which comes first."""
    values = [Value(listed[0]["name"], 0.0, group="chosen", number=2)]
    for each in listed[1:]:
        group, number = (_worse(each), 1) if each["beaten_by"] else ("not told apart from the best", 0)
        if _proves_nothing(each):
            group, number = "the order proves nothing", 3
        ends = each["behind"]["interval_95"]
        difference, between = each["behind"]["difference"], None if ends is None else (ends[0], ends[1])
        values.append(Value(each["name"], difference, between, group=group, number=number))
    words = "Bars are simultaneous 95 % intervals, for masks and data."
    return ValueRows(values, "behind the best  (nats per row)", True, words)


def _line(candidates: Sequence[_Entry], family: str, sizes: Sequence[int], number: int) -> Line:
    """A family's evidence by number of components."""
    members = [each for each in candidates if each["family"] == family]
    members = sorted(members, key=lambda each: each["n_components"] or 0)
    x = [_place(each, sizes) for each in members]
    y = np.array([each["log_evidence"] for each in members])
    bands = []
    for name, words in (("data_se", _DATA), ("mask_se", _MASKS)):
        half = _Z * np.array([each[name] or 0.0 for each in members])
        if half.any():
            bands.append(Band(name[:-3], y - half, y + half, words, wide=name == "data_se"))
    label = family if members[0]["n_components"] is not None else f"{family}, without K, at the right"
    return Line(label, np.array(x), y, bands, number)


def _place(each: _Entry, sizes: Sequence[int]) -> float:
    """The place of a candidate on the axis of K; without K, to the right of the largest one."""
    return float(each["n_components"] or sizes[-1] + 0.06 * (sizes[-1] - sizes[0]))


def _value(each: _Entry) -> Value:
    """A candidate's evidence with its intervals."""
    value = each["log_evidence"]
    thin, thick = (
        None if not each[error] else (value - _Z * each[error], value + _Z * each[error])
        for error in ("data_se", "mask_se")
    )
    return Value(each["name"], value, thin, thick)
