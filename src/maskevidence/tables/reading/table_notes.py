"""Notes on the values of a table: codes that may mean "missing", and rows that equal others or nearly do."""

import math
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

from maskevidence.core.support.checks import some_of
from maskevidence.core.support.keyed_random import (
    BY_CHANCE,
    FEW_VALUES,
    SHARE,
    first_copies,
    n_nearly_equal,
    values_of,
)

_NINES = re.compile(r"-9+(\.9+)?|9\.?9[9.]*")  # -9, -999, -99.9, 99, 999.9
_CODES = [-round(10.0**n - 10.0**-d, d) for n in range(1, 8) for d in range(3)]  # -9, -9.9, -9.99, -99, ...
_FEWEST_OF_CODE, _TIMES_AS_OFTEN = 5, 5
_FAR = "stands far {} all other values of"
_MOST_CELLS = 2**22  # most cells of a table that is searched for nearly equal rows


def note_on_codes(values: Float64[np.ndarray, "N D"], columns: Sequence[str]) -> list[str]:
    """Note each value that lies far from all others of its column and may be a code for "missing".

    It stands far from them if the nearest one is farther away than the range of all of them. Such a value is
    noted if its digits are nines, as in -999 and 99, or if it is negative and not alone. Whatever the range,
    a code such as -999 in several cells is noted if no other value is negative, or if it is in 5 cells or
    more and in 5 times as many as any other value.

    Example:
        >>> note_on_codes(np.array([[1.0, 99, 0.5], [2, 7, 1], [3, 8, 2], [-99, 9, 3]]), "abc")[0][:54]
        "-99 stands far below all other values of 'a': if it me"
        >>> note_on_codes(np.array([[300.0], [900], [4000], [-999], [-999]]), ["rent"])[0][:43]
        "-999 is the only negative value of 'rent': "
    """
    apart: dict[tuple[float, str], list[str]] = {}
    n_cells: Counter[float] = Counter()
    for name, column in zip(columns, values.T, strict=True):
        different, counts = np.unique(column[~np.isnan(column)], return_counts=True)
        if len(different) < 3:
            continue
        low, high, inner = different[0], different[-1], different[1:-1]
        found = {}
        if len(inner) > 1 and inner[0] - low > high - inner[0]:
            found[0] = _FAR.format("below")
        if len(inner) > 1 and high - inner[-1] > inner[-1] - low:
            found[len(different) - 1] = _FAR.format("above")
        for place in np.flatnonzero(np.isin(different, _CODES) & (counts > 1)).tolist():
            many = max(_FEWEST_OF_CODE, _TIMES_AS_OFTEN * int(np.delete(counts, place).max()))
            if place == 0 and inner[0] >= 0:
                found.setdefault(place, "is the only negative value of")
            elif counts[place] >= many:
                found.setdefault(place, "is in more cells than all other values of")
        for place, how in found.items():
            apart.setdefault((float(different[place]), how), []).append(name)
            n_cells[float(different[place])] += int(counts[place])
    notes = []
    for (code, how), names in apart.items():
        word = np.format_float_positional(code, trim="-")
        if _NINES.fullmatch(word) or (code < 0 and n_cells[code] > 1):
            listed = some_of(list(map(repr, names)))
            notes.append(
                f"{word} {how} {listed}: if it means missing, give --missing={word} (in Python, NaN)"
            )
    return notes


def note_on_copies(values: Float64[np.ndarray, "N D"]) -> list[str]:
    """Note rows that equal earlier rows, and rows that differ in one cell, unless chance explains them.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 4))
        >>> note_on_copies(np.concatenate([x, x[:2]]))[0][:45]
        '2 of 52 rows equal an earlier row: if they ar'
        >>> note_on_copies((x > 0).astype(float)), note_on_copies(x)
        ([], [])
    """
    n_copies, n_near = int((first_copies(values) < np.arange(len(values))).sum()), nearly_copies(values)
    notes, of = [], f"of {len(values):,} rows"
    if n_copies:
        are, them = (
            ("equals", "it is a copy, leave it")
            if n_copies == 1
            else ("equal", "they are copies, leave them")
        )
        notes.append(
            f"{n_copies:,} {of} {are} an earlier row: if {them} out; folds and test rows keep copies together"
        )
    if n_near:
        notes.append(
            f"{n_near:,} {of} {'differs' if n_near == 1 else 'differ'} from an earlier row in a single cell: "
            "if that is the same row again, leave it out, since a fit to one judges the other too well"
        )
    return notes


def nearly_copies(rows: Float64[np.ndarray, "N D"]) -> int:
    """`n_nearly_equal`, or 0 if independent columns could explain such rows or the table is large.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(50, 4))
        >>> nearly_copies(np.concatenate([x, x[:3] + [0, 0, 0, 1]])), nearly_copies(x.round())
        (3, 0)
    """
    if len(rows) < 2 or rows.size > _MOST_CELLS:
        return 0
    n_values, agree = values_of(rows)
    if sum(n > FEW_VALUES for n in n_values) < 2:  # then rows may agree by chance
        return 0
    others = [math.prod(agree[:j] + agree[j + 1 :]) for j in range(len(agree))]
    n_near = n_nearly_equal(rows)
    return n_near if math.comb(len(rows), 2) * sum(others) <= min(BY_CHANCE, SHARE * n_near) else 0
