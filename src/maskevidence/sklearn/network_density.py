"""A network trained by masked prediction as an estimator, for tables of numbers, yes/no and categories.

The model sees words as codes; filled cells are words again.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import pandas
from jaxtyping import Bool, Float64

import maskevidence as me
from maskevidence import Orderings, Tokens, estimate_evidence
from maskevidence.core.errors import import_extra
from maskevidence.core.support.keyed_random import held_out_first, keyed_bits
from maskevidence.core.table import as_table, is_words, varies, with_levels_of
from maskevidence.sklearn.density_base import (
    PURPOSE,
    TableDensity,
    checked_table,
    seed_from,
    with_names,
)
from maskevidence.sklearn.residuals import (
    MOST_VALUES,
    HeldOutResiduals,
    hidden_residuals,
)
from maskevidence.tables.base import TableModel

_validation = import_extra("sklearn.utils.validation", "sklearn", PURPOSE)
_ORDERS = 16
_FEWEST_RESIDUALS = 50


@dataclass(eq=False, repr=False)
class MaskedNetworkDensity(TableDensity):
    """A network trained by masked prediction, for tables of numbers, counts, yes/no, categories and holes.

    `score_samples` is the importance bound of 16 random orders, a lower bound on the log evidence of the
    mixture over all orders. A row's orders depend only on its values, not on the other rows. A column of two
    numbers counts as yes/no, and a third value in new rows is an error unless the column is a category.

    Args:
        width: units of each layer.
        layers: residual blocks of two linear layers each.
        dropout: the share of units that a training step leaves out; None for the model's default.
        epochs: passes over the rows; None for the model's default.
        learning_rate: the highest learning rate; None for the model's default.
        categorical_features: the columns of categories, by position, name or mask. "from_dtype" stands for
            the columns of a data frame that have pandas' dtype "category" or hold words, None for none.
        random_state: of the weights, the masks, the held-out rows, the orders and `sample`.

    Attributes:
        categories_: the words of each column of words, by its position.
        held_out_: the residuals of hidden values of the tenth of the rows by which the epoch is chosen; None
            for tables with few of them.
        model_: the fitted `maskevidence.models.MaskedNetwork`.

    Example:
        >>> import pandas as pd
        >>> rng = np.random.default_rng(0)
        >>> frame = pd.DataFrame({"kind": rng.choice(["cat", "dog"], 300)})
        >>> frame["weight"] = rng.normal(np.where(frame["kind"] == "dog", 20.0, 4.0))
        >>> density = MaskedNetworkDensity(width=16, epochs=20, random_state=0).fit(frame)
        >>> light, heavy = (pd.DataFrame({"kind": ["cat"], "weight": [kg]}) for kg in (4.0, 20.0))
        >>> density.categories_, density.score(light) > density.score(heavy)
        ({0: ['cat', 'dog']}, True)
    """

    width: int = 256
    layers: int = 2
    _: KW_ONLY
    dropout: float | None = None
    epochs: int | None = None
    learning_rate: float | None = None
    categorical_features: Any = "from_dtype"
    random_state: Any = None

    @property
    def categories_(self) -> dict[int, list[str]]:
        """The words of each column of words, in order, by the column's position."""
        return self._categories.words

    def _scores(self, table: Float64[np.ndarray, "N D"]) -> Float64[np.ndarray, " N"]:
        """The importance bound of 16 random orders for the observed values of each row, nats, shape (N,)."""
        bits = np.where(np.isnan(table), np.nan, table + 0.0).view(np.int64)  # -0.0 + 0.0 is 0.0
        bits, position = np.unique(bits, axis=0, return_inverse=True)
        ids = (keyed_bits(*bits.T) >> np.uint64(1)).astype(np.int64)
        tokens = Tokens.from_array(bits.view(np.float64), ids=ids)
        design = Orderings(_ORDERS, bound="importance")
        estimate = estimate_evidence(self.model_, self.model_.tokens(tokens), design, seed=self.model_.seed)
        order = np.argsort(estimate.ids)
        of_row = order[np.searchsorted(estimate.ids, ids, sorter=order)]
        return estimate.per_observation[of_row[position.ravel()]]

    def _table(self, X: Any, *, reset: bool) -> Float64[np.ndarray, "N D"]:
        if reset:
            self._categories = Categories(self.categorical_features)
        X = with_names(X, self, reset=reset)
        codes = self._categories.codes(self, X, reset=reset)
        return checked_table(self, codes, reset=reset, named=codes is X)

    def _fitted_model(self, table: Float64[np.ndarray, "N D"]) -> TableModel:
        seed = seed_from(self.random_state)
        rng = np.random.default_rng(seed)
        settings: dict[str, Any] = {"width": self.width, "layers": self.layers, "seed": seed}
        if self.dropout is not None:
            settings["dropout"] = self.dropout
        options: dict[str, Any] = {"epochs": self.epochs, "seed": seed}
        if self.learning_rate is not None:
            options["learning_rate"] = self.learning_rate
        is_category = self._categories.among(table.shape[1])
        model = me.models.MaskedNetwork(table.shape[1], **settings)
        model.declare(table, {int(k): "category" for k in np.flatnonzero(is_category)})
        out, _ = held_out_first(table, rng.permutation(len(table)), len(table) // 10)
        left = np.setdiff1d(np.arange(len(table)), out)
        n_residuals = int((~np.isnan(table[np.ix_(out, ~is_category)])).sum())
        self.held_out_: HeldOutResiduals | None = None
        if n_residuals >= _FEWEST_RESIDUALS and varies(table[left]).all():
            model.fit(table[left], held_out=table[out], **options)
        else:
            out = out[:0]
            model.fit(table, **options)
        model.double()  # so that rows in one call do not change each other's sums
        if len(out):
            self.held_out_ = hidden_residuals(model.impute, table[out], ~is_category, MOST_VALUES, rng)
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            model.levels = {str(names[k]): words for k, words in self._categories.words.items()}
        return model


class Categories:
    """Encodes tables with the columns of `fit`: words by their position among the words of `fit`, numbers
    unchanged.

    A word unseen in `fit` gets the position after the last.

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
        """Which columns of a table hold categories."""
        return self._chosen if self._chosen.any() else np.zeros(width, dtype=bool)

    def codes(self, estimator: Any, X: Any, *, reset: bool) -> Any:
        """Encode X as numbers with NaN for missing values; without categories, return X unchanged.

        Args:
            estimator: whose `n_features_in_` and `feature_names_in_` are set or compared.
        """
        if reset:
            self._chosen = self._columns(estimator, X)
            self.words = {}
        if not self._chosen.any():
            return X
        _validation.validate_data(estimator, X, reset=reset, skip_check_array=True)
        cells = pandas.DataFrame(np.asarray(X, dtype=object))
        cells = cells.where(cells.notna(), np.nan)
        table = np.full(cells.shape, np.nan)
        table[:, ~self._chosen] = cells.loc[:, ~self._chosen].to_numpy(np.float64, na_value=np.nan)
        chosen = cells.loc[:, self._chosen].rename(columns=str)
        coded = as_table(chosen, {str(k) for k in self.words})
        if reset:
            self.words = {int(name): list(words) for name, words in coded.levels.items()}
        levels = {str(k): words for k, words in self.words.items()}
        table[:, self._chosen] = with_levels_of(coded, levels).values
        return table

    def filled(self, X: Any, table: Float64[np.ndarray, "N D"]) -> Any:
        """Fill X's missing cells from a table of codes; codes become words again."""
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
        """Fill a data frame's column; words and categories keep their dtype."""
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
            return np.array([is_words(X.iloc[:, k]) for k in range(X.shape[1])], dtype=bool)
        _validation.validate_data(estimator, X, reset=True, skip_check_array=True)
        return chosen_columns(self.selection, X, list(getattr(estimator, "feature_names_in_", [])))


def chosen_columns(selection: Any, X: Any, names: list[str]) -> Bool[np.ndarray, " D"]:
    """A mask of the selected columns; the selection is positions, names or a mask, as in scikit-learn.

    Example:
        >>> chosen_columns([2], np.zeros((4, 3)), []).tolist()
        [False, False, True]
    """
    chosen, selected = np.zeros(np.shape(X)[1], dtype=bool), np.atleast_1d(selection)
    if all(isinstance(name, str) for name in selected.flat):
        selected = np.array([names.index(name) if name in names else -1 for name in selected], dtype=int)
    is_mask = selected.dtype.kind == "b" and selected.shape == chosen.shape
    if not is_mask and (
        selected.dtype.kind not in "iu" or not np.isin(selected, np.arange(len(chosen))).all()
    ):
        raise ValueError(
            f"categorical_features={selection}; give positions from 0 to {len(chosen) - 1}, names of "
            f"columns of a data frame, or a mask of {len(chosen)} columns"
        )
    chosen[selected] = True
    return chosen
