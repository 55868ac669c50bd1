"""A model's answers on a table, and the parts of a look at it."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.core.table import Table
from maskevidence.tables.base import TableModel
from maskevidence.tables.choosing.selection import Fill
from maskevidence.tables.reading.description import TableDescription
from maskevidence.tables.table_files import RawTable
from maskevidence.tables.table_options import TableOptions
from maskevidence.tables.wrong_cells.found_cells import WrongCell, WrongCells


@dataclass(frozen=True)
class Modelled:
    """A model's answers on a table of N rows and D columns.

    Attributes:
        word: the MODEL word.
        model: fitted to all rows without suspicious cells.
        table: the rows and columns that it takes.
        means: shape (N, D), holes and suspicious cells by their conditional mean or most probable word.
        filled: shape (N, D), holes as their columns write values.
        deviation: shape (N, D), conditional standard deviations of holes, 0 elsewhere; of columns in
            `likeliest` the probability of the filled value.
        likeliest: columns that are filled by their most probable value.
        fills: by column, how well held-out values are filled.
        simple: how columns are filled that the model fills no better: "mean", "median" or "commonest".
        found: the cells that may be wrong.
        links: shape (D, D), in [0, 1]; NaN on the diagonal.
        folds: the number of fits of which each leaves rows out.
        notes: what a reader needs to know, one sentence each.
        of_time: what was left out because the time was short, in a sentence; "" for nothing.
    """

    word: str
    model: TableModel
    table: Table
    means: Float64[np.ndarray, "N D"]
    filled: Float64[np.ndarray, "N D"]
    deviation: Float64[np.ndarray, "N D"]
    likeliest: tuple[str, ...]
    fills: Mapping[str, Fill]
    simple: Mapping[str, str]
    found: WrongCells
    links: Float64[np.ndarray, "D D"]
    folds: int
    notes: tuple[str, ...] = ()
    of_time: str = ""

    @cached_property
    def holes(self) -> Bool[np.ndarray, "N D"]:
        """The cells that were filled."""
        return self.table.holes() & ~np.isnan(self.filled)


@dataclass(frozen=True, repr=False)
class Looked:
    """The parts of a `Look`, which its page and files show."""

    description: TableDescription
    raw: RawTable
    table: Table
    given: Any
    modelled: Modelled | None
    options: TableOptions
    seconds: float
    notes: tuple[str, ...]

    @property
    def cells(self) -> tuple[WrongCell, ...]:
        """The cells to look at, the most suspicious first."""
        return () if self.modelled is None else self.modelled.found.cells

    @property
    def n_filled(self) -> int:
        """The number of holes that were filled."""
        return 0 if self.modelled is None else int(self.modelled.holes.sum())
