"""What data frames hold: whole numbers, missing values and dates, as the reader of files takes them."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from maskevidence.core.table import as_table
from maskevidence.sklearn import GaussianDensity

SIDE = np.random.default_rng(0).normal(size=60)
LONG = {
    "int64": 2**53 + 1,
    "uint64": 2**63,
    "Int64": -(2**53) - 1,
    "object": 2**63,
    "int64[pyarrow]": 2**60 + 1,
}
DOORS = {
    "as_table": as_table,
    "with words": lambda frame: as_table(frame.assign(w=["x", "y"] * 30)),
    "fit": lambda frame: me.models.Gaussian(n_features=2).fit(frame),
    "information": lambda frame: me.information("gaussian", frame, "a", "b"),
    "sklearn": lambda frame: GaussianDensity().fit(frame),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("dtype", LONG)
def test_whole_numbers_that_would_be_rounded_are_refused(dtype: str, door: str) -> None:
    numbers = [1, 2, *(LONG[dtype] + k * (1 if LONG[dtype] > 0 else -1) for k in range(58))]
    frame = pd.DataFrame({"b": SIDE, "a": pd.Series(numbers, dtype=dtype)})
    with pytest.raises(me.InputError, match=f"row 2, column 'a', {LONG[dtype]}, is a whole number beyond"):
        DOORS[door](frame)


def test_long_whole_numbers_are_words_or_exact() -> None:
    words = as_table(pd.DataFrame({"a": pd.Categorical([2**53 + 1, 2**53 + 2]), "b": [2**53, 1]}))
    assert words.levels == {"a": (str(2**53 + 1), str(2**53 + 2))}
    assert words.values[:, 1].tolist() == [2.0**53, 1.0]


@pytest.mark.parametrize("missing", [pd.NA, pd.NaT, None, np.nan])
@pytest.mark.parametrize("door", DOORS)
def test_missing_values_among_objects(door: str, missing: Any) -> None:
    numbers = pd.Series([1.0, missing, *SIDE[2:].tolist()], dtype=object)
    DOORS[door](frame := pd.DataFrame({"b": SIDE, "a": numbers}))
    np.testing.assert_array_equal(as_table(frame).values[:3, 1], [1.0, np.nan, SIDE[2]])
