"""Columns as codes: indices of words, and numbers as cells and as bins of cells."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.tables.network.network_columns import Column

_Floats = Float64[np.ndarray, " n"]

_MOST_BINS = 24
_REPEATED = 0.5  # the share of cells with a value that occurs again, from which single values are counted
_WIDE = 3.0  # scales of the distribution of a number that is in no bin


class Codes(NamedTuple):
    """One way to count the cells of a column.

    Attributes:
        column: its position.
        values: the values or the first cells of the bins that have the codes 0, 1, ..., in order.
        log_size: log of the number of cells in each bin; 0 for values.
        bins: whether these are bins.
    """

    column: int
    values: Float64[np.ndarray, " V"]
    log_size: Float64[np.ndarray, " V"]
    bins: bool

    def of(self, x: _Floats) -> Int64[np.ndarray, " n"]:
        """The code of each value (of a number: its cell); -1 for holes and values without a code."""
        x = np.nan_to_num(x, nan=np.inf)
        if self.bins:
            place = np.searchsorted(self.values, x, "right") - 1
            size = np.exp(self.log_size)[np.maximum(place, 0)]
            return np.where((place >= 0) & (x < self.values[place] + size - 0.5), place, -1)
        place = np.minimum(np.searchsorted(self.values, x), len(self.values) - 1)
        return np.where(self.values[place] == x, place, -1)


def cells_of(column: Column, x: _Floats) -> _Floats:
    """The cell of each number, in steps from the centre; other values unchanged."""
    return np.round((x - column.centre) / column.step) if column.kind == "number" else x


def codes_of(place: int, column: Column, cells: _Floats) -> list[Codes]:
    """The ways to count a column: by value, if values recur, and by bins for many numbers.

    Args:
        cells: of the training rows, NaN for holes.
    """
    values, counts = np.unique(cells[~np.isnan(cells)], return_counts=True)
    if column.kind != "number":
        return [Codes(place, values, np.zeros(len(values)), False)]
    found = []
    if len(values) > _MOST_BINS:
        starts = _starts(values, counts)
        found.append(Codes(place, starts[:-1], np.log(np.diff(starts)), True))
    if counts[counts > 1].sum() >= _REPEATED * counts.sum() or not found:
        found.insert(0, Codes(place, values, np.zeros(len(values)), False))
    return found


def _starts(values: _Floats, counts: Int64[np.ndarray, " n"]) -> Float64[np.ndarray, " E"]:
    """The first cells of bins with about equally many rows, and the end of the last one."""
    n_bins = int(np.clip(1.5 * np.cbrt(counts.sum()), 4, _MOST_BINS))
    ends = np.cumsum(counts)
    cut = np.unique(np.searchsorted(ends, np.arange(1, n_bins) * ends[-1] / n_bins, "left"))
    inner = np.ceil((values[cut[cut < len(values) - 1]] + values[cut[cut < len(values) - 1] + 1]) / 2)
    return np.unique([values[0], *inner, values[-1] + 1])


def log_far(column: Column, cells: _Floats) -> _Floats:
    """log of the mass of a Cauchy distribution of 3 scales about the centre on each cell of a number."""
    scale = _WIDE * column.scale / column.step
    mass = np.arctan((np.abs(cells) + 0.5) / scale) - np.arctan((np.abs(cells) - 0.5) / scale)
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.log(1 / (scale * (1 + (cells / scale) ** 2)))
        return np.where(np.abs(cells) > 1e4 * scale, far, np.log(mass)) - np.log(np.pi)
