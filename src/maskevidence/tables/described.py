"""A model of a table whose columns are numbers, yes/no and words."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from maskevidence.core.table import as_table
from maskevidence.core.tokens import Tokens, column_names, number_labels
from maskevidence.tables.base import TableModel
from maskevidence.tables.network.network_columns import Column, base_measure, columns_of, declared_columns


class DescribedTableModel(TableModel):
    """A model with a `Column` for each column of its table, and the words of its categories."""

    takes_words = True
    described: tuple[Column, ...] | None  # None before a fit

    def __init__(self, n_features: int, levels: Mapping[str, Sequence[str]] | None) -> None:
        super().__init__(n_features)
        self.levels = {name: list(words) for name, words in (levels or {}).items()}
        self._declared: list[Column] | None = None

    def declare(self, x: object, kinds: Mapping[Any, str] | None = None) -> None:
        """Determine every column's kind and words from all rows, before a fit to some of them.

        Args:
            x: shape (N, D), as for `fit`; a `Table` may name kinds itself.
            kinds: of some columns, by name or position.

        Raises:
            InputError: a column without a value, a kind that does not suit its values, or an unknown column.
        """
        self.columns, x = column_names(x) or self.columns, self._dated(x, fit=True)
        rows = x if column_names(x) is None else as_table(x)
        self.levels = {name: list(words) for name, words in getattr(rows, "levels", {}).items()}
        self._declared = declared_columns(rows, self._table(rows), kinds, self.columns, number_labels(x))
        self.base_measure = base_measure(self._declared)

    def _rows_to_fit(
        self, x: object, kinds: Mapping[Any, str] | None = None
    ) -> tuple[Float64[np.ndarray, "N D"], tuple[Column, ...]]:
        """The rows and their columns, of the kinds that `declare` found, or else guessed from x."""
        if kinds is not None or self._declared is None:
            self.declare(x, kinds)
        table = self._table(self._own_columns(x))
        columns, self._declared = columns_of(table, self._declared), None
        return table, columns

    def _values(self, tokens: Tokens, read: Bool[Tensor, "B D"]) -> Float64[Tensor, "B D"]:
        """Check the cells that are read and set the others to 0."""
        self.refuse_strange_cells(tokens, read)
        return torch.where(read, tokens.values.double(), 0.0)

    def strange_cell(self, tokens: Tokens, read: Bool[Tensor, "B D"]) -> tuple[int, int, str] | None:
        for j, column in enumerate(self.described or ()):
            if column.kind == "yes/no":
                values, (no, yes) = tokens.values[:, j].double(), column.values
                strange = read[:, j] & (values != no) & (values != yes)
                if bool(strange.any()):
                    advice = "fit it to rows with all values, or call the column a number"
                    return (
                        int(strange.nonzero()[0, 0]),
                        j,
                        f"the model was fitted to {no:g} and {yes:g} alone: {advice}",
                    )
        return None

    def values_of(self, column: int) -> Float64[Tensor, " V"] | None:
        """All values of a discrete column, shape (V,), an unseen category last; None for a number."""
        of = (self.described or [Column()] * self.n_features)[column]
        values = [*of.values, max(of.values) + 1] if of.kind == "category" else list(of.values)
        return torch.tensor(values, dtype=torch.float64, device=self._like().device) if values else None

    def _draw_rows(self, n: int, seed: int) -> Float[Tensor, "n D"]:
        blank = torch.full((n, self.n_features), torch.nan, dtype=torch.float64)
        if not n:
            return blank
        return self._draw_missing(Tokens.from_array(blank, empty_rows=True).to(self._like().device), seed)
