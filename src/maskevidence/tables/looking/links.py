"""How much one column tells about another, from rows that the models have not seen."""

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.table import Table
from maskevidence.tables.base import TableModel
from maskevidence.tables.information.gains import Fitted, Fold
from maskevidence.tables.information.matrix import discovered


def links_of(
    models: tuple[TableModel, ...], table: Table, rows: list[Int64[np.ndarray, " _"]]
) -> Float64[np.ndarray, "D D"]:
    """The strength of the link of each pair of columns, in [0, 1]; NaN on the diagonal.

    It is √(1 - exp(-2 I)) with the mutual information I of `me.information_matrix` in nats: of two normal
    columns their correlation. Where I is not above 0, at its rate of false discoveries, it is 0.

    Args:
        models: one for each fold, which has not seen it.
        rows: of each fold; without any, all is NaN.

    Source:
        Linfoot (1957), An informational measure of correlation.
    """
    if not any(map(len, rows)):
        return np.full((len(table.columns),) * 2, np.nan)
    folds = [Fold(model, some, None, None) for model, some in zip(models, rows, strict=True)]
    nats, _, _, found = discovered(Fitted("", table, [], folds, (), 0, None))
    strength = np.sqrt(-np.expm1(-2 * np.where(found, nats, 0.0)))
    np.fill_diagonal(strength, np.nan)
    return strength
