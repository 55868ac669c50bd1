"""A network trained by masked prediction as an estimator, for tables of numbers, yes/no and categories."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence import Orderings, Tokens, estimate_evidence, models
from maskevidence.integrations.sklearn.categories import Categories
from maskevidence.integrations.sklearn.density_base import (
    TableDensity,
    checked_table,
    seed_from,
    with_names,
)
from maskevidence.integrations.sklearn.residuals import (
    MOST_VALUES,
    HeldOutResiduals,
    hidden_residuals,
    varies,
)
from maskevidence.models.base import TableModel
from maskevidence.support.keyed_random import keyed_bits

_ORDERS = 16
_FEWEST_RESIDUALS = 50


@dataclass(eq=False, repr=False)
class MaskedNetworkDensity(TableDensity):
    """A network trained by masked prediction, for tables of numbers, counts, yes/no, categories and holes.

    `score_samples` is the importance bound of 16 random orders, a lower bound on the log evidence of the
    mixture over all orders. The orders of a row depend on its values alone, not on the other rows. A column
    of two numbers counts as yes/no, and a third value in new rows is an error; as a category it is none.

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
        """The words of each column of words, in order, by its position."""
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
        X = with_names(X)
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
        model = models.MaskedNetwork(table.shape[1], **settings)
        model.declare(table, {int(k): "category" for k in np.flatnonzero(is_category)})
        out = rng.permutation(len(table))[: len(table) // 10]
        left = np.setdiff1d(np.arange(len(table)), out)
        n_residuals = int((~np.isnan(table[np.ix_(out, ~is_category)])).sum())
        self.held_out_: HeldOutResiduals | None = None
        if n_residuals >= _FEWEST_RESIDUALS and varies(table[left]).all():
            model.fit(table[left], held_out=table[out], **options)
        else:
            out = out[:0]
            model.fit(table, **options)
        model.double()  # so that rows of one call do not change each other's sums
        if len(out):
            self.held_out_ = hidden_residuals(model.impute, table[out], ~is_category, MOST_VALUES, rng)
        names = getattr(self, "feature_names_in_", None)
        if names is not None:
            model.levels = {str(names[k]): words for k, words in self._categories.words.items()}
        return model
