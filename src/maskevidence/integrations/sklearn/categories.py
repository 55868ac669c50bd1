"""Columns of categories in a table of scikit-learn: words as codes for a model, and filled back as words."""

from typing import Any

import numpy as np
import pandas
from jaxtyping import Bool, Float64

from maskevidence.errors import import_extra
from maskevidence.integrations.sklearn.density_base import PURPOSE

_validation = import_extra("sklearn.utils.validation", "sklearn", PURPOSE)


class Categories:
    """Reads tables of one layout: words as positions among the words of `fit`, numbers as they are.

    A word that `fit` did not see gets the position after the last.

    Args:
        selection: positions, names or a mask of the columns that hold categories; "from_dtype" for the
            columns of a data frame that have pandas' dtype "category" or hold words; None if there are none.

    Attributes:
        words: the words in order, by the position of their column; none for categories that are numbers.
    """

    def __init__(self, selection: Any) -> None:
        self.selection = selection
        self._chosen = np.zeros(0, dtype=bool)
        self.words: dict[int, list[str]] = {}

    def among(self, width: int) -> Bool[np.ndarray, " D"]:
        """Which of the columns of a table hold categories."""
        return self._chosen if self._chosen.any() else np.zeros(width, dtype=bool)

    def codes(self, estimator: Any, X: Any, *, reset: bool) -> Any:
        """A table of numbers with NaN where a value is missing, or X as it is if it has no categories.

        Args:
            estimator: whose `n_features_in_` and `feature_names_in_` are set or compared.
        """
        if reset:
            self._chosen = self._columns(estimator, X)
            self.words = {}
        if not self._chosen.any():
            return X
        _validation.validate_data(estimator, X, reset=reset, skip_check_array=True)
        cells = np.asarray(X, dtype=object)
        missing = pandas.isna(cells)
        if reset:
            for k in np.flatnonzero(self._chosen).tolist():
                present = cells[~missing[:, k], k]
                if any(isinstance(cell, str) for cell in present):
                    self.words[k] = sorted({str(cell) for cell in present})
        table = np.full(cells.shape, np.nan)
        for k in range(cells.shape[1]):
            there = ~missing[:, k]
            present = cells[there, k]
            if k in self.words:
                position = {word: code for code, word in enumerate(self.words[k])}
                present = np.array([position.get(str(cell), len(position)) for cell in present])
            table[there, k] = present.astype(np.float64)
        return table

    def filled(self, X: Any, table: Float64[np.ndarray, "N D"]) -> Any:
        """X with its missing cells replaced by those of a table of codes, words by words."""
        if hasattr(X, "columns"):
            columns = [self._filled_column(X.iloc[:, k], table[:, k], k) for k in range(table.shape[1])]
            return pandas.concat(columns, axis=1)
        cells = np.array(X, dtype=object)
        for row, k in np.argwhere(pandas.isna(cells)).tolist():
            cells[row, k] = self._cell(table[row, k], k)
        return cells

    def _cell(self, code: float, column: int) -> Any:
        words = self.words.get(column)
        return code if words is None else words[min(int(code), len(words) - 1)]

    def _filled_column(self, values: Any, codes: Float64[np.ndarray, " N"], column: int) -> Any:
        """A column of a data frame, of the same dtype where words or categories are filled."""
        missing = values.isna().to_numpy()
        if not self._chosen[column]:
            return values.astype(np.float64).where(~missing, codes)
        cells = [self._cell(code, column) for code in codes[missing]]
        filled = values.copy()
        if isinstance(values.dtype, pandas.CategoricalDtype):
            new = [cell for cell in dict.fromkeys(cells) if cell not in values.cat.categories]
            filled = filled.cat.add_categories(new)
        filled[missing] = cells
        return filled

    def _columns(self, estimator: Any, X: Any) -> Bool[np.ndarray, " D"]:
        """Which columns hold categories."""
        is_frame = isinstance(X, pandas.DataFrame)
        if self.selection is None or (isinstance(self.selection, str) and not is_frame):
            return np.zeros(0, dtype=bool)
        if isinstance(self.selection, str) and self.selection == "from_dtype":
            return np.array([_holds_categories(X.iloc[:, k]) for k in range(X.shape[1])], dtype=bool)
        _validation.validate_data(estimator, X, reset=True, skip_check_array=True)
        return chosen_columns(self.selection, X, list(getattr(estimator, "feature_names_in_", [])))


def chosen_columns(selection: Any, X: Any, names: list[str]) -> Bool[np.ndarray, " D"]:
    """The mask of the columns that a user selects, by positions, names or a mask as in scikit-learn.

    Example:
        >>> chosen_columns([2], np.zeros((4, 3)), []).tolist()
        [False, False, True]
    """
    width = np.shape(X)[1]
    selected = np.atleast_1d(selection)
    chosen = np.zeros(width, dtype=bool)
    if selected.size == 0:
        return chosen
    if selected.dtype.kind == "b":
        if selected.shape != (width,):
            raise ValueError(
                f"categorical_features set as a boolean mask should have shape ({width},), got: "
                f"{selected.shape}"
            )
        chosen = selected
    elif selected.dtype.kind in "iu":
        if selected.min() < 0 or selected.max() >= width:
            raise ValueError(
                "categorical_features set as integer indices must be in [0, n_features - 1]; there are "
                f"{width} features, got: {selected.tolist()}"
            )
        chosen[selected] = True
    elif all(isinstance(name, str) for name in selected.flat):
        for name in selected.flat:
            if name not in names:
                raise ValueError(f"A given column is not a column of the dataframe: {str(name)!r}")
            chosen[names.index(name)] = True
    else:
        raise ValueError(
            f"categorical_features must be an array-like of bool, int or str, got: {selected.dtype}"
        )
    return chosen


def _holds_categories(column: Any) -> bool:
    """Whether a column of a data frame has pandas' dtype "category", or holds words."""
    if isinstance(column.dtype, pandas.CategoricalDtype):
        return True
    return column.dtype.kind not in "biuf" and any(isinstance(cell, str) for cell in column)
