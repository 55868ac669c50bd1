"""Values in [0, 1] made binary, by a threshold or at random."""

import numpy as np
import pytest

from maskevidence.data.table import Table, binarise
from maskevidence.errors import InputError


def grey_table() -> Table:
    values = np.tile(np.array([0.0, 0.1, 0.5, 0.75, 1.0, np.nan]), (4000, 1))
    return Table("grey", values, tuple("abcdef"), np.arange(4000))


def test_values_above_the_threshold_become_one() -> None:
    table = binarise(grey_table(), "threshold:0.5")
    assert np.array_equal(table.values[0], [0, 0, 0, 1, 1, np.nan], equal_nan=True)
    assert np.array_equal(binarise(table, "threshold").values, table.values, equal_nan=True)


def test_stochastic_binarisation_has_the_values_as_its_means() -> None:
    table = binarise(grey_table(), "stochastic", seed=3)
    assert set(np.unique(table.values[:, :5])) == {0.0, 1.0}
    for column, mean in enumerate([0.0, 0.1, 0.5, 0.75, 1.0]):
        se = np.sqrt(mean * (1 - mean) / len(table))
        assert abs(table.values[:, column].mean() - mean) <= 4 * se
    assert np.isnan(table.values[:, 5]).all()


def test_stochastic_binarisation_depends_only_on_seed_and_id() -> None:
    table = grey_table()
    whole = binarise(table, "stochastic", seed=3).values
    part = binarise(table.split(0.5, seed=0)[1], "stochastic", seed=3)
    assert np.array_equal(part.values, whole[part.ids], equal_nan=True)
    assert not np.array_equal(whole, binarise(table, "stochastic", seed=4).values, equal_nan=True)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("treshold", "did you mean 'threshold:0.5'"),
        ("threshold:x", "has no threshold in"),
        ("threshold:1", "has no threshold in"),
        ("stochastic:2", "unknown way to binarise"),
    ],
)
def test_unknown_ways_to_binarise_are_refused(how: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        binarise(grey_table(), how)


def test_values_outside_the_unit_interval_are_refused() -> None:
    table = Table("t", np.array([[0.0, 2.0]]), ("a", "b"), np.array([7]))
    with pytest.raises(InputError, match=r"t has 2 in column 'b', row 7 \(from 0\)"):
        binarise(table, "threshold")
