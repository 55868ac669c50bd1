"""Models of a table by folds, which judge rows that they have not seen."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.support.folds import folds_of
from maskevidence.core.support.progress import Course
from maskevidence.core.table import Table, with_values
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import COUNTS, parse_model
from maskevidence.tables.choosing.choosing import varying_columns
from maskevidence.tables.fitting import declared
from maskevidence.tables.saving import load
from maskevidence.tables.wrong_cells.found_cells import WrongCells
from maskevidence.tables.wrong_cells.wrong_cells import cells_by_folds

_FOLDS = 5
MOST_FITTED = 600  # rows of a fit by folds; the last fit takes all
_JUDGED, _LEAST_JUDGED = 300, 500  # cells to judge in a round, per second of the time; rows
_HIDDEN_FROM_FITS = 3.0  # nats of suspicion


FoldModels = tuple[TableModel, ...]


@dataclass(frozen=True)
class Kept:
    """A folder that keeps fitted models, so that the same work goes on after an interruption.

    Attributes:
        folder: None keeps nothing.
    """

    folder: Path | None = None

    def get(self, name: str) -> TableModel | None:
        """A model that was kept under this name."""
        if self.folder is None or not (self.folder / name / "config.json").exists():
            return None
        return load(self.folder / name)

    def put(self, name: str, model: TableModel) -> None:
        """Keep a fitted model."""
        if self.folder is not None:
            model.save(self.folder / name)


@dataclass(frozen=True)
class Folds:
    """A table and its division into folds.

    Attributes:
        word: the MODEL word; "" before one is chosen.
        table: the columns that the model takes, in all rows with a value.
        parts: the positions of the rows of each fold.
    """

    word: str
    table: Table
    parts: tuple[Int64[np.ndarray, " _"], ...]
    kept: Kept = field(default_factory=Kept)

    def fit(self, values: Float64[np.ndarray, "N D"], name: str, out: Int64[np.ndarray, " n"]) -> TableModel:
        """Fit the model to rows of these values, without those of a fold."""
        if (before := self.kept.get(name)) is not None:
            return before
        build, _ = parse_model(self.word)
        assert build is not None
        columns = list(self.table.columns)
        model = declared(build(len(columns)), self.table, columns)
        train = np.delete(values, out, axis=0)
        train = train[with_values(train)]
        if len(out) and len(train) > MOST_FITTED and self.word != COUNTS:
            some = np.random.default_rng(len(train)).permutation(len(train))[:MOST_FITTED]
            train = train[np.sort(some)]
        model.fit(train)
        self.kept.put(name, model)
        return model

    def fit_all(self, values: Float64[np.ndarray, "N D"], course: Course, number: int) -> FoldModels:
        """Fit a model for each fold, to the other rows of these values."""
        models = []
        for k, part in enumerate(self.parts, 1):
            with course.step("fit", f"{self.word}, fit {k} of {len(self.parts)}"):
                models.append(self.fit(values, f"{self.word}-{number}-{k}", part))
        return tuple(models)

    def search(
        self,
        models: FoldModels,
        values: Float64[np.ndarray, "N D"],
        course: Course,
        limits: tuple[float, int],
    ) -> "Searched":
        """Judge the cells of as many rows as the time allows.

        Args:
            models: of `fit_all`.
            values: that they were fitted to.
            limits: seconds of the whole look, and the seed.
        """
        (n_rows, width), (seconds, seed) = values.shape, limits
        most = n_rows if self.word == COUNTS else max(_LEAST_JUDGED, int(_JUDGED * seconds / width))
        judged = np.sort(np.random.default_rng(seed).permutation(n_rows)[:most])
        place = np.full(n_rows, -1)
        place[judged] = np.arange(len(judged))
        parts = [place[part][place[part] >= 0] for part in self.parts]
        with course.step("cells", "looking for wrong cells"):
            known = [np.delete(values, part, axis=0) for part in self.parts]
            found = cells_by_folds(models, self.table.take(judged), parts, known, seed=seed)
        suspicious = np.zeros(values.shape, dtype=bool)
        suspicious[judged] = np.nan_to_num(found.suspicion, nan=-np.inf) > _HIDDEN_FROM_FITS
        cleaned = np.where(suspicious, np.nan, self.table.values)
        return Searched(models, found, cleaned, len(judged))


@dataclass(frozen=True)
class Searched:
    """The wrong cells of a table, by models of the other folds.

    Attributes:
        models: one for each fold.
        found: the wrong cells.
        values: the table's without suspicious ones, which no later fit sees.
        n_judged: the number of rows whose cells were judged.
    """

    models: tuple[TableModel, ...]
    found: WrongCells
    values: Float64[np.ndarray, "N D"]
    n_judged: int


def folds_for(table: Table, seed: int, kept: Kept) -> Folds | None:
    """Divide the rows of a table, without columns that do not vary in every fold; None if few are left."""
    n = min(_FOLDS, len(table) // 2)
    if n < 2:
        return None
    table = table.take(np.flatnonzero(with_values(table.values)))
    parts: Sequence[Int64[np.ndarray, " _"]] = folds_of(table.values, n, np.random.default_rng(seed))
    columns = np.flatnonzero(varying_columns(table.values, parts)).tolist()
    if not columns or len(parts) < 2:
        return None
    table = table.select([table.columns[j] for j in columns])
    empty = ~with_values(table.values)
    if empty.any():  # rows whose values stand in other columns
        table = table.take(np.flatnonzero(~empty))
        parts = folds_of(table.values, n, np.random.default_rng(seed))
    return Folds("", replace(table, labels=None), tuple(map(np.sort, parts)), kept)
