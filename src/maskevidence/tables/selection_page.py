"""The page of a selection: what was chosen among which models, how holes are filled, and outlying rows."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from maskevidence.command.pages.layout import Figure, Section, notes
from maskevidence.command.pages.page import how_made, meanings, title_of
from maskevidence.command.pages.reading import ReportedRun, noun_of
from maskevidence.command.pages.shown_observations import section_of_observations
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.masks.sizes import EverySize
from maskevidence.core.model import HasValuesOf, base_measure_of
from maskevidence.core.scores.score import Scoring
from maskevidence.core.show.parts import Page, Picture, Table
from maskevidence.core.show.pictures import Lines
from maskevidence.core.show.words import NOT_KNOWN, capital, count, sentence, typeset
from maskevidence.core.table import Table as Rows
from maskevidence.core.table import with_levels_of
from maskevidence.runs.directory import MODEL
from maskevidence.runs.folder import read_sealed, seal_of_files
from maskevidence.runs.prepared import manifest_of, score_prepared
from maskevidence.tables.base import TableModel
from maskevidence.tables.choosing.selection import (
    SELECTION,
    below_picture,
    page_of_selection,
    picture_of_selection,
)
from maskevidence.tables.outlying import MOST_WORK
from maskevidence.tables.rows import by_cells, note_on_pairs, reread, use_saved
from maskevidence.tables.saving import load


@dataclass(frozen=True)
class ReportedSelection:
    """A selection, and its chosen model on all rows."""

    page: Page  # the answer and the notes
    candidates: Table  # the best of them, with what each loses
    figures: list[Figure]  # how far the candidates are behind, and their evidence by number of components
    # the missing values of each column, and how well such values are filled; None without holes
    holes: Table | None
    on_pairs: list[str]  # a note on columns of two values that are filled with other numbers, or none
    run: ReportedRun  # the rows under the chosen model, which was fitted to them
    compared: str  # how many candidates were compared, and how

    @property
    def title(self) -> str:
        """Model and data."""
        return title_of([self.run])

    def sections(self, observations: int) -> list[Section]:
        """The sections of the page."""
        run, page = self.run, self.page
        noun = noun_of([run])
        head, _, rest = page.headline.partition("; ")
        answer = [capital(rest), self.candidates, *self.figures, *meanings([run], noun)]
        holes = self.holes or "No value is missing."
        words = f"The {noun}s under the chosen model, which was fitted to all of them."
        return [
            Section("numbers", head.removesuffix("."), answer if rest else answer[1:]),
            Section("holes", "Holes", [holes, *notes(list(map(sentence, self.on_pairs)))]),
            *section_of_observations(run, observations, noun, words),
            how_made([run], noun, {"Selection": self.compared}, page.notes),
        ]


def read_selection(folder: Path) -> ReportedSelection:
    """Read a folder of `select --out` and the table again, and score its rows by the chosen model."""
    result = read_sealed(folder / SELECTION, "select again with --overwrite")
    model = load(folder / MODEL)
    page, (picture, _) = page_of_selection(result), picture_of_selection(result)
    data, options, seed = result["data"], result["options"], result["seed"]
    table = reread(data, options, seed)
    ready = use_saved(model, table).read_with(data, options)
    if result["base_measure"] != base_measure_of(model):
        ready = by_cells(ready, table, table)
    compared = f"{count(len(result['candidates']), 'candidate')}, each fitted in {result['folds']} folds"
    origin = {"command": result["command"], "versions": result["versions"]}
    scoring = Scoring(EverySize(2), MaskKey(seed))
    _, estimate = score_prepared(ready, scoring)
    if ready.labels is not None:
        estimate = replace(estimate, labels=ready.labels)
    manifest = manifest_of(result["choice"], ready, scoring, len(ready.tokens), **origin)
    manifest = manifest.model_copy(update={"kept_model": seal_of_files(folder / MODEL)})
    pictures = [part for part in (*page.parts, picture) if isinstance(part, Picture)]
    titles = ("Behind the best model", "Held-out log evidence")
    figures = [Figure(title, part, page.headline) for title, part in zip(titles, pictures, strict=True)]
    if isinstance(picture, Lines) and (below := below_picture(result)):
        listed = ", ".join(f"{each['name']} ({typeset(each['log_evidence'])})" for each in below)
        figures[-1] = replace(figures[-1], notes=[f"Below the picture: {listed}."])
    (candidates,) = (part for part in page.parts if isinstance(part, Table))
    run = ReportedRun(folder.name, manifest, estimate, 1, 1, folder)
    rows = with_levels_of(table.select(list(model.columns or table.columns)), model.levels)
    on_pairs = [] if isinstance(model, HasValuesOf) else note_on_pairs(rows)
    return ReportedSelection(page, candidates, figures, _holes(model, rows), on_pairs, run, compared)


def _holes(model: TableModel, rows: Rows) -> Table | None:
    """The holes of each column, and the error where known values of it are hidden and filled."""
    missing = np.isnan(rows.values)
    cells = []
    for column in np.flatnonzero(missing.any(axis=0)).tolist():
        name = rows.columns[column]
        cells.append([name, f"{missing[:, column].sum():,}", *_errors(model, rows.values, column, name)])
    title = (
        "Each known value was hidden once and filled like a hole: the root mean square error (RMSE), beside "
        "that of the column's mean; for words, the share filled right, beside that of the most frequent word."
    )
    return (
        Table(["column", "holes", "RMSE or share right", "without a model"], cells, title) if cells else None
    )


def _errors(model: TableModel, values: Float64[np.ndarray, "N D"], column: int, name: str) -> list[str]:
    """The RMSE of filled values and of the column's mean; for words, the shares that are right."""
    known = ~np.isnan(values[:, column])
    if not known.any() or known.sum() * values.shape[1] ** 2 > MOST_WORK:
        return [NOT_KNOWN] * 2
    truth, hidden = values[known, column], values[known].copy()
    hidden[:, column] = math.nan
    filled = model.impute(hidden).values[:, column]
    if name in model.levels:
        _, counts = np.unique(truth, return_counts=True)
        return [
            f"{100 * share:.0f} % right" for share in (np.mean(filled == truth), counts.max() / len(truth))
        ]
    return [f"{math.sqrt(np.mean((truth - guess) ** 2)):.3g}" for guess in (filled, truth.mean())]
