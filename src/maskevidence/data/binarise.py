"""Values in [0, 1] made binary, for models of binary tokens."""

from dataclasses import replace

import numpy as np

from maskevidence.data.table import Table
from maskevidence.errors import InputError, unknown_name
from maskevidence.support.keyed_random import keyed_bits

BINARISE = ("threshold:0.5", "stochastic")


def binarise(table: Table, how: str, seed: int = 0) -> Table:
    """Turn a table of values in [0, 1] into one of zeros and ones; missing values stay missing.

    Args:
        table: grey levels, probabilities or 0/1.
        how: "threshold" or "threshold:T" for 1 where a value exceeds T (by default 0.5); "stochastic" for 1
            with the value as its probability, drawn once from the seed, the row's id and the column.
        seed: seed of the stochastic binarisation.

    Raises:
        InputError: a value outside [0, 1], an unknown word, or a threshold outside [0, 1).

    Source:
        The threshold is that of Moreno-Muñoz et al. (2023), Figure 3; stochastic binarisation is that of
        Salakhutdinov and Murray (2008), On the quantitative analysis of deep belief networks.

    Example:
        >>> table = Table("grey", np.array([[0.2, 0.7], [np.nan, 1.0]]), ("a", "b"), np.arange(2))
        >>> binarise(table, "threshold").values.tolist()
        [[0.0, 1.0], [nan, 1.0]]
    """
    name, _, argument = how.partition(":")
    if name not in ("threshold", "stochastic") or (name == "stochastic" and argument):
        raise unknown_name("way to binarise", how, BINARISE)
    outside = np.argwhere((table.values < 0) | (table.values > 1))
    if len(outside):
        row, column = outside[0]
        raise InputError(
            f"{table.name} has {table.values[row, column]:g} in column {table.columns[column]!r}, row "
            f"{int(table.ids[row])} (from 0); values to binarise must lie in [0, 1]"
        )
    if name == "threshold":
        limit = _threshold(how, argument)
        ones = table.values > limit
        note = f"binarised: 1 above {limit:g}"
    else:
        bits = keyed_bits(seed, table.ids[:, None], np.arange(len(table.columns))[None, :])
        ones = (bits >> np.uint64(11)) * 2.0**-53 < table.values
        note = "binarised at random, 1 with the value as its probability"
    values = np.where(np.isnan(table.values), np.nan, ones.astype(np.float64))
    return replace(table, values=values, notes=(*table.notes, note))


def _threshold(how: str, argument: str) -> float:
    try:
        limit = float(argument or "0.5")
    except ValueError:
        limit = np.nan
    if not 0.0 <= limit < 1.0:
        raise InputError(f"{how!r} has no threshold in [0, 1); write threshold:0.5, for example")
    return limit
