"""A table: its parts, its fingerprint, and values in [0, 1] made binary, by a threshold or at random."""

import numpy as np
import pytest

import maskevidence as me
from maskevidence.core.errors import InputError
from maskevidence.core.table import Table
from maskevidence.tables.rows import binarise
from maskevidence.tables.table_files import digits

NAN = float("nan")


class TestTable:
    def table(self) -> Table:
        return Table("t", np.arange(20.0).reshape(10, 2), ("a", "b"), np.arange(10))

    def test_split_is_a_partition_that_keeps_order_and_numbers(self) -> None:
        train, test = self.table().split(0.3, seed=0)
        assert len(train) == 7
        assert len(test) == 3
        assert sorted([*train.ids, *test.ids]) == list(range(10))
        assert test.ids.tolist() == sorted(test.ids)
        np.testing.assert_array_equal(test.values[:, 0], 2.0 * test.ids)
        assert self.table().split(0.3, seed=1)[1].ids.tolist() != test.ids.tolist()

    @pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 1.5, 0.01, 0.99, NAN])
    def test_split_that_leaves_nothing(self, share: float) -> None:
        with pytest.raises(me.InputError, match=r"give a (fraction in \(0, 1\) and more rows|finite number)"):
            self.table().split(share, seed=0)

    def test_fingerprint_depends_on_values_names_and_numbers(self) -> None:
        table = self.table()
        same = Table("other name", table.values.copy(), table.columns, table.ids.copy())
        assert same.fingerprint() == table.fingerprint()
        changed = table.values.copy()
        changed[3, 1] += 1e-12
        others = [
            Table("t", changed, table.columns, table.ids),
            Table("t", table.values, ("a", "c"), table.ids),
            Table("t", table.values, table.columns, table.ids + 1),
            table.head(9),
        ]
        assert len({other.fingerprint() for other in [table, *others]}) == 5

    def test_select_and_head(self) -> None:
        table = self.table().select(["b"]).head(2)
        assert table.columns == ("b",)
        assert table.values.tolist() == [[1.0], [3.0]]
        with pytest.raises(me.InputError, match="t has no column 'z'; it has a, b"):
            self.table().select(["z"])
        with pytest.raises(me.InputError, match="limit=0"):
            self.table().head(0)

    def test_constant_columns(self) -> None:
        values = np.array([[1.0, 2.0, NAN, NAN], [1.0, 3.0, 5.0, NAN], [NAN, 2.0, 5.0, NAN]])
        table = Table("t", values, ("same", "varies", "once", "never"), np.arange(3))
        assert table.constant_columns() == ["same", "once", "never"]

    def test_tokens_have_holes_where_values_are_missing(self) -> None:
        tokens = Table("t", np.array([[1.0, NAN]]), ("a", "b"), np.array([7])).tokens()
        assert tokens.maskable.tolist() == [[True, False]]
        assert tokens.ids.tolist() == [7]

    def test_digits(self) -> None:
        table = digits()
        assert table.values.shape == (1797, 64)
        assert (table.values.min(), table.values.max()) == (0, 16)


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
