"""Models fitted by folds: each row is judged by a model that has not seen it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.support.progress import Course
from maskevidence.core.table import Table, with_values
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import COUNTS, KERNELS, declared, parse_model
from maskevidence.tables.choosing.choosing import varying_columns
from maskevidence.tables.folds import folds_of
from maskevidence.tables.saving import load
from maskevidence.tables.wrong_cells.cell_search import CellJudge, facts_of
from maskevidence.tables.wrong_cells.found_cells import WrongCells, odd_cells
from maskevidence.tables.wrong_cells.wrong_cells import Search, cells_by_folds

_FOLDS = 5
MOST_FITTED = 600  # rows of a fit by folds; the last fit takes all
_AT_ONCE, _PAIRS_AT_ONCE = 100, 10**6  # rows, and pairs of their columns, that are judged in one call
_HIDDEN_FROM_FITS = 3.0  # nats of suspicion


Models = tuple[TableModel, ...]


@dataclass(frozen=True)
class Folds:
    """A table and its division into folds.

    Attributes:
        word: the MODEL word; "" before one is chosen.
        table: the columns that the model takes, in all rows with a value.
        parts: the positions of the rows of each fold.
        kept: a folder of fitted models, from which an interrupted command resumes; None keeps nothing.
    """

    word: str
    table: Table
    parts: tuple[Int64[np.ndarray, " _"], ...]
    kept: Path | None = None

    def fit(self, values: Float64[np.ndarray, "N D"], name: str, out: Int64[np.ndarray, " n"]) -> TableModel:
        """Fit the model to all rows but a fold's, with these values."""
        folder = None if self.kept is None else self.kept / name
        if folder is not None and (folder / "config.json").exists():
            return load(folder)
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
        if folder is not None:
            model.save(folder)
        return model

    def fit_all(self, values: Float64[np.ndarray, "N D"], course: Course, number: int) -> Models:
        """Fit a model for each fold to the other rows, with these values."""
        models = []
        for k, part in enumerate(self.parts, 1):
            with course.step(self.word, f"{self.word}, fit {k} of {len(self.parts)}"):
                models.append(self.fit(values, f"{self.word}-{number}-{k}", part))
        return tuple(models)

    def judge(self, models: Models, values: Float64[np.ndarray, "N D"], k: int) -> CellJudge:
        """The judge of the rows of a fold."""
        words = [self.table.columns.index(name) for name in self.table.levels]
        return CellJudge(models[k], facts_of(models[k], np.delete(values, self.parts[k], axis=0), words))

    def without_suspicious(
        self, models: Models, course: Course, end: float
    ) -> tuple[Float64[np.ndarray, "N D"], bool, bool]:
        """Hide suspicious values; also say whether there are any, and whether all rows were judged.

        Args:
            models: of `fit_all`, to the values of the table.
            end: seconds of the course.
        """
        values, in_time, rng = self.table.values, True, np.random.default_rng(len(self.table))
        suspicious = np.zeros(values.shape, dtype=bool)
        with course.step("suspect", "looking for wrong cells"):
            judges = [self.judge(models, values, k) for k in range(len(self.parts))]
            orders = [rng.permutation(part) for part in self.parts]
            n = max(1, min(_AT_ONCE, _PAIRS_AT_ONCE // values.shape[1] ** 2))
            for start in range(0, max(map(len, orders)), n):
                for judge, order in zip(judges, orders, strict=True):
                    if len(rows := order[start : start + n]) and (in_time := course.spent <= end):
                        found = judge.search(values[rows]).suspicion
                        suspicious[rows] = np.nan_to_num(found, nan=-np.inf) > _HIDDEN_FROM_FITS
        return self.cleaned(suspicious), bool(suspicious.any()), in_time

    def cleaned(self, suspicious: Bool[np.ndarray, "N D"]) -> Float64[np.ndarray, "N D"]:
        """The values without suspicious ones, but of columns that would not vary."""
        values = np.where(suspicious, np.nan, self.table.values)
        kept = ~varying_columns(values, self.parts)
        values[:, kept] = self.table.values[:, kept]
        return values

    def search(
        self,
        models: Models,
        values: Float64[np.ndarray, "N D"],
        course: Course,
        size: tuple[int, Search],
    ) -> WrongCells:
        """Judge the cells of some rows.

        Args:
            models: of `fit_all`.
            values: that they were fitted to.
            size: the number of rows, and how to search them.
        """
        n_rows, (most, how) = len(values), size
        judged = np.sort(np.random.default_rng(how.seed).permutation(n_rows)[:most])
        place = np.full(n_rows, -1)
        place[judged] = np.arange(len(judged))
        parts = [place[part][place[part] >= 0] for part in self.parts]
        with course.step("cells", "looking for wrong cells"):
            known = [np.delete(values, part, axis=0) for part in self.parts]
            found = cells_by_folds(models, self.table.take(judged), parts, known, how)
        others = odd_cells(self.table.take(np.flatnonzero(place < 0)))  # known without a model
        return replace(found, cells=(*others, *found.cells))

    def without(self, found: WrongCells, values: Float64[np.ndarray, "N D"]) -> Float64[np.ndarray, "N D"]:
        """The values of the table without suspicious ones, of rows that were not judged as in `values`."""
        suspicious = np.isnan(values) & ~np.isnan(self.table.values)
        judged = np.searchsorted(self.table.ids, found.table.ids)
        suspicious[judged] = np.nan_to_num(found.suspicion, nan=-np.inf) > _HIDDEN_FROM_FITS
        return self.cleaned(suspicious)

    def of_numbers(self) -> "Folds | None":
        """The columns of numbers, which kernels judge better than counts; None if there are none."""
        table = self.table
        numbers = [
            name
            for name, column in zip(table.columns, table.values.T, strict=True)
            if name not in table.levels and len(np.unique(column[~np.isnan(column)])) > 2
        ]
        if self.word != COUNTS or not numbers:
            return None
        return replace(self, word=KERNELS, table=table.select(numbers))


def folds_for(table: Table, seed: int, kept: Path | None) -> Folds | None:
    """Divide the rows into folds and drop columns that are constant in a fold; None if too few are left."""
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
