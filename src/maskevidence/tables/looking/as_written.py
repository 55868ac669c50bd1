"""Filled values as their columns hold them: decimals, whole numbers that exist, one of two values, bounds."""

import numpy as np
from jaxtyping import Float64

from maskevidence.core.table import Table
from maskevidence.tables.wrong_cells.cell_search import decimals_of

FEW_VALUES = 20  # whole numbers that are filled by one of them


def as_written(
    means: Float64[np.ndarray, "N D"], table: Table
) -> tuple[Float64[np.ndarray, "N D"], list[str]]:
    """Turn conditional means into values that the columns can hold; notes say what was changed.

    A number is rounded to the decimals of its column. Whole numbers with at most 20 different values, and
    columns of two numbers, get the nearest one. Below 0 is the least value of a column without negative ones.
    A limit such as <0.5 is filled within.

    Args:
        means: shape (N, D), with the codes of words.
        table: the rows with holes.
    """
    means = means.copy()
    written, below = means.copy(), list[str]()
    for j, name in enumerate(table.columns):
        known = table.values[~np.isnan(table.values[:, j]), j]
        hole = np.isnan(table.values[:, j])
        if name in table.levels or not hole.any() or not len(known):
            continue
        values, decimals = np.unique(known), decimals_of(known)
        if len(values) == 2 or (decimals == 0 and len(values) <= FEW_VALUES):
            middle = (values[1:] + values[:-1]) / 2
            written[:, j] = values[np.searchsorted(middle, means[:, j])]
            continue
        for row, (low, high) in table.limits.get(name, {}).items():
            place = np.flatnonzero(table.ids == row)
            written[place, j] = means[place, j] = np.clip(means[place, j], low, high)
        if values[0] >= 0 and (negative := hole & (means[:, j] < 0)).any():
            below.append(f"{int(negative.sum())} of {name}")
            written[negative, j] = values[0]
        if decimals is not None:
            written[:, j] = written[:, j].round(decimals)
    note = "means below 0 in columns without negative values became the column's least value"
    return written, [f"{note}: {', '.join(below)}"] if below else []
