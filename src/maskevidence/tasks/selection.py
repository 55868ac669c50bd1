"""The result of choosing a model by held-out evidence."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from maskevidence.comparison import Difference
from maskevidence.display import html, svg
from maskevidence.display.curve_picture import COLOURS, axes_for, set_title
from maskevidence.display.frames import data_frame
from maskevidence.display.svg import COLOURS as SHOWN
from maskevidence.estimate import Kind
from maskevidence.models.base import TableModel
from maskevidence.support.files import csv_text
from maskevidence.wording import Write, digits_for, evidence_name, number, plus_minus, sentence, typeset

COLUMNS = (
    *("model", "n_components", "n_parameters", "log_evidence", "mask_se", "data_se"),
    *("behind", "behind_se", "beaten_by"),
)
_MAX_DRAWN = 12  # candidates in the small picture of a notebook


@dataclass(frozen=True)
class Candidate:
    """A model among which is chosen.

    Attributes:
        name: its word, such as "ppca:3".
        family: the part of the word before the colon.
        n_components: K; None for a model without components.
        n_parameters: free parameters.
        log_evidence: mean over the observations, each held out once, nats.
        mask_se: Monte-Carlo standard error of the masks; 0 if the log evidence has a closed form.
        data_se: sampling standard error of the observations.
        behind: the candidate with the highest evidence minus this one; None for that one.
        beaten_by: the name of the candidate that is better beyond doubt; None if none is.
    """

    name: str
    family: str
    n_components: int | None
    n_parameters: int
    log_evidence: float
    mask_se: float | None
    data_se: float | None
    behind: Difference | None
    beaten_by: str | None

    def to_dict(self) -> dict[str, Any]:
        """The numbers in a form for JSON."""
        names = (
            "name",
            "family",
            "n_components",
            "n_parameters",
            "log_evidence",
            "mask_se",
            "data_se",
            "beaten_by",
        )
        values = {name: getattr(self, name) for name in names}
        return values | {"behind": None if self.behind is None else self.behind.to_dict()}


@dataclass(frozen=True)
class Selection:
    """Candidates ranked by held-out evidence; the first one is chosen.

    Attributes:
        candidates: by their log evidence, the highest first.
        model: the chosen model, fitted to all rows.
        kind: what the numbers are; see `EvidenceEstimate.kind`.
        n_observations: the number of rows, each of which was held out once.
        folds: the number of parts into which the rows were divided.
        design: name and parameters of the mask design; None if the log evidence has a closed form.
        seed: of the division of the rows and of the masks.
        columns: the columns that were modelled.
        notes: what a reader needs to know, one sentence each.
    """

    candidates: tuple[Candidate, ...]
    model: TableModel = field(repr=False)
    kind: Kind
    n_observations: int
    folds: int
    design: Mapping[str, Any] | None
    seed: int
    columns: tuple[str, ...] = field(repr=False)
    notes: tuple[str, ...]

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
        """The candidate with the fewest parameters among those that no other one beats.

        It cannot be told apart from the chosen one; its `behind` is what it gives up.
        """
        near = (one for one in self.candidates if one.beaten_by is None)
        return min(near, key=lambda one: (one.n_parameters, -one.log_evidence))

    def __repr__(self) -> str:
        return f"Selection of {len(self.candidates)} candidates; {self.answer()}"

    def answer(self, write: Write = number) -> str:
        """The choice, and the smallest model that cannot be told apart from it with what it gives up.

        Args:
            write: how to write numbers.
        """
        name = evidence_name(self.kind, (self.design or {}).get("name", ""))
        closed = " in closed form" if self.design is None else ""
        words = f"chosen: {self.choice}, highest held-out {name}{closed}"
        smallest = self.smallest
        if smallest.behind is None:
            fewer = any(one.n_parameters < smallest.n_parameters for one in self.candidates)
            return words + ("; every smaller model is worse" if fewer else "")
        error = smallest.behind.standard_error
        gives_up = plus_minus(smallest.behind.difference, error, digits_for(error), write)
        return (
            f"{words}; smallest model not told apart from it: {smallest.name}; "
            f"it gives up {gives_up} nats per row"
        )

    def _repr_html_(self) -> str:
        """The answer, the table, and how far each candidate is behind the best one, for a notebook."""
        digits = digits_for(*(one.behind.standard_error for one in self.candidates if one.behind))
        rows, drawn = [], []
        for one in self.candidates:
            difference, error, ends = 0.0, None, (0.0, 0.0)
            if one.behind is not None:
                difference, error = one.behind.difference, one.behind.standard_error
                ends = one.behind.interval() or (math.nan, math.nan)
            told = "chosen" if one is self.chosen else f"behind {one.beaten_by}" if one.beaten_by else ""
            told = "smallest not told apart" if one is self.smallest is not self.chosen else told
            behind = "best" if one.behind is None else plus_minus(difference, error, digits, typeset)
            rows.append([one.name, told, typeset(one.log_evidence, digits), behind, f"{one.n_parameters:,}"])
            colour = SHOWN[2] if told == "chosen" else SHOWN[1] if one.beaten_by else SHOWN[0]
            drawn.append(svg.Interval(one.name, -difference, -ends[1], -ends[0], colour))
        columns = ["model", "", "held-out log evidence", "behind the best", "parameters"]
        answer = self.answer(typeset)
        explained = "Nats per row. Bars are simultaneous 95 % intervals of the difference from the best one."
        return html.block(
            html.headline(sentence(answer)),
            html.table(columns, rows, words=(0, 1)),
            svg.intervals_svg(drawn[:_MAX_DRAWN], "behind the best, nats per row", answer),
            html.paragraph(explained),
            html.notes(self.notes),
        )

    def to_frame(self) -> Any:
        """A data frame of pandas with the columns of `to_csv`, by the names of the candidates.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        rows = list(zip(*self._rows(), strict=True))
        return data_frame(dict(zip(COLUMNS[1:], rows[1:], strict=True)), list(rows[0]), COLUMNS[0])

    def to_dict(self) -> dict[str, Any]:
        """The numbers in a form for JSON."""
        return {
            "choice": self.choice,
            "smallest": self.smallest.name,
            "kind": self.kind,
            "n_observations": self.n_observations,
            "folds": self.folds,
            "design": self.design,
            "seed": self.seed,
            "columns": list(self.columns),
            "candidates": [candidate.to_dict() for candidate in self.candidates],
            "notes": list(self.notes),
        }

    def to_csv(self) -> str:
        """One row for each candidate, the best one first."""
        return csv_text(COLUMNS, self._rows())

    def _rows(self) -> list[tuple[Any, ...]]:
        rows = []
        for one in self.candidates:
            behind = (0.0, 0.0) if one.behind is None else (one.behind.difference, one.behind.standard_error)
            numbers = (one.n_components, one.n_parameters, one.log_evidence, one.mask_se, one.data_se)
            rows.append((one.name, *numbers, *behind, one.beaten_by))
        return rows

    def plot(self, ax: Any = None) -> Any:
        """Draw the held-out evidence against the number of components, with both errors; needs matplotlib.

        The thin bars are the sampling error of the observations, which all candidates share, and the thick
        ones that of the masks. A star marks the choice, and a circle the smallest model that
        cannot be told apart from it.

        Args:
            ax: axes of matplotlib; by default those of a new figure.

        Returns:
            The axes.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        ax = axes_for(ax)
        families = dict.fromkeys(one.family for one in self.candidates)
        for family, colour in zip(families, COLOURS * len(families), strict=False):
            self._draw(ax, family, colour)
        marks = {
            "chosen": (self.chosen, "*", 9, "black"),
            "smallest not told apart": (self.smallest, "o", 13, "none"),
        }
        for label, (one, marker, size, face) in marks.items():
            place, name = ([self._place(one)], [one.log_evidence]), f"{label}: {one.name}"
            ax.plot(
                *place, marker, markersize=size, markerfacecolor=face, markeredgecolor="black", label=name
            )
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("number of components K")
        ax.set_ylabel("held-out log evidence  (nats per row)")
        ax.grid(alpha=0.25)
        bars = "thin bars: sampling of the observations; thick bars: drawing of the masks"
        ax.legend(fontsize=8, frameon=False, title=bars, title_fontsize=8)
        set_title(ax, sentence(self.answer(typeset)))
        return ax

    def _draw(self, ax: Any, family: str, colour: str) -> None:
        """One family: a curve over K, or a level for a model without components."""
        members = sorted(
            (one for one in self.candidates if one.family == family), key=lambda one: one.n_components or 0
        )
        x = [self._place(one) for one in members]
        y = [one.log_evidence for one in members]
        for name, width, alpha in (("data_se", 1.0, 0.5), ("mask_se", 3.0, 0.9)):
            errors = [getattr(one, name) or 0.0 for one in members]
            if any(errors):
                ax.errorbar(x, y, errors, fmt="none", ecolor=colour, elinewidth=width, alpha=alpha)
        if members[0].n_components is None:
            ax.axhline(y[0], color=colour, linewidth=0.8, linestyle="--")
        ax.plot(x, y, color=colour, marker="." if len(x) > 1 else "s", linewidth=1.2, label=family)

    def _place(self, one: Candidate) -> int:
        """K, or a place to the right of all K for a model without components."""
        if one.n_components is not None:
            return one.n_components
        return 1 + max(each.n_components or 0 for each in self.candidates)
