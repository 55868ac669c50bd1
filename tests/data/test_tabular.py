"""Tables from files: what is read, and one clear line for each problem."""

import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import feather, parquet

import maskevidence as me
from maskevidence.data.table import Table
from maskevidence.data.tables import digits, read_table

NAN = float("nan")


def csv(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


class TestCsv:
    @pytest.mark.parametrize(
        ("text", "columns", "values"),
        [
            ("a,b\n1,2\n3,4\n", ("a", "b"), [[1, 2], [3, 4]]),
            ("1,2\n3,4\n", ("c0", "c1"), [[1, 2], [3, 4]]),
            ('"a, first","b"\n"1","-2.5"\n3,"4e1"\n', ("a, first", "b"), [[1, -2.5], [3, 40]]),
            ("a,b\n1,\n,4\n", ("a", "b"), [[1, NAN], [NAN, 4]]),
            ("a,b\nNA,2\n3,nan\n", ("a", "b"), [[NAN, 2], [3, NAN]]),
            ("a,b\r\n1,2\r\n", ("a", "b"), [[1, 2]]),
            ("a\n1\n2\n", ("a",), [[1], [2]]),
            ("\ufeffa,b\n1,2\n", ("a", "b"), [[1, 2]]),
            ("a,b\ntrue,2\nfalse,3\n", ("a", "b"), [[1, 2], [0, 3]]),
        ],
        ids=[
            "header",
            "no header",
            "quoted",
            "empty cells",
            "words for missing",
            "crlf",
            "one column",
            "bom",
            "bool",
        ],
    )
    def test_is_read(
        self, tmp_path: Path, text: str, columns: tuple[str, ...], values: list[list[float]]
    ) -> None:
        table = read_table(csv(tmp_path, text))
        assert table.columns == columns
        np.testing.assert_array_equal(table.values, np.array(values, dtype=float))
        assert table.ids.tolist() == list(range(len(values)))

    def test_without_a_header_says_so(self, tmp_path: Path) -> None:
        assert "was read as data" in read_table(csv(tmp_path, "1,2\n3,4\n")).notes[0]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "is empty; give a table with at least one row"),
            ("a,b\n", "has no rows; give a table with at least one"),
            ("a,b\n1,2\n3,red\n", "has text in column 'b', line 3: 'red'"),
            ("1,2\n3,4\n5,x\n", "has text in column 'c1', line 3: 'x'"),
            ("a,b\n1,2\n3,inf\n", "has an infinite value in column 'b', row 1 (from 0)"),
            ("a,b\n-Infinity,2\n3,4\n", "has an infinite value in column 'a', row 0 (from 0)"),
            ("a,b\n1,\n2,\n", "has no value in column 'b'; leave it out"),
            ("a,b\n1,2\n,\n3,4\n", "has no value in row 1 (from 0); leave it out"),
            ("a,b\n1,2\n3\n", "is not a regular CSV table"),
            ("a,b\n2024-01-01,2\n2024-01-02,3\n", "in column 'a'"),
            ("a,a\n1,2\n", "has two columns named 'a'"),
        ],
    )
    def test_bad(self, tmp_path: Path, text: str, message: str) -> None:
        with pytest.raises(me.InputError, match=re.escape(message)) as error:
            read_table(csv(tmp_path, text))
        assert "t.csv" in str(error.value)
        assert "\n" not in str(error.value).strip()

    def test_that_is_not_utf_8(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_bytes("größe,b\n1,2\n".encode("latin-1"))
        with pytest.raises(me.InputError, match="is not UTF-8 text"):
            read_table(tmp_path / "t.csv")

    def test_that_is_not_utf_8_far_down(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"1,2\n" * 50_000 + b"\xff,2\n")
        with pytest.raises(me.InputError):
            read_table(tmp_path / "t.csv")


class TestOtherFiles:
    def test_npy_and_parquet_give_the_same_table(self, tmp_path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        values = np.array([[1.0, NAN], [3.0, 4.0]])
        np.save(tmp_path / "t.npy", values)
        columns = {"c0": pa.array([1, 3]), "c1": pa.array([None, 4.0])}
        parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
        for name in ("t.npy", "t.parquet"):
            table = read_table(tmp_path / name)
            assert table.columns == ("c0", "c1")
            np.testing.assert_array_equal(table.values, values)

    def test_text_in_parquet_names_column_and_row(self, tmp_path: Path) -> None:
        import pyarrow as pa
        from pyarrow import parquet

        parquet.write_table(pa.table({"a": ["1", "red"]}), tmp_path / "t.parquet")
        with pytest.raises(me.InputError, match=r"text in column 'a', row 1 \(from 0\): 'red'"):
            read_table(tmp_path / "t.parquet")

    @pytest.mark.parametrize("name", ["t.npy", "t.parquet", "t.csv"])
    def test_of_noise(self, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_bytes(np.random.default_rng(0).bytes(500))
        with pytest.raises(me.InputError):
            read_table(tmp_path / name)

    @pytest.mark.parametrize(
        "values", [np.zeros(3), np.zeros((2, 2, 2)), np.array([["a"]]), np.zeros((2, 2), complex)]
    )
    def test_npy_of_another_shape_or_type(self, tmp_path: Path, values: np.ndarray) -> None:
        np.save(tmp_path / "t.npy", values)
        with pytest.raises(me.InputError, match=r"save an \(N, D\) array of numbers"):
            read_table(tmp_path / "t.npy")

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
    def test_npy_without_rows_or_columns(self, tmp_path: Path, shape: tuple[int, int]) -> None:
        np.save(tmp_path / "t.npy", np.zeros(shape))
        with pytest.raises(me.InputError, match="give a table with at least one"):
            read_table(tmp_path / "t.npy")

    def test_npy_with_pickled_objects_is_not_loaded(self, tmp_path: Path) -> None:
        np.save(tmp_path / "t.npy", np.array([[object()]]), allow_pickle=True)
        with pytest.raises(me.InputError, match=r"cannot be read as a \.npy array of numbers"):
            read_table(tmp_path / "t.npy")

    def test_missing_or_of_another_kind(self, tmp_path: Path) -> None:
        with pytest.raises(me.InputError, match="there is no file"):
            read_table(tmp_path / "t.csv")
        with pytest.raises(
            me.InputError, match=r"is not a \.csv, \.tsv, \.parquet, \.feather, \.npy file; convert it"
        ):
            read_table(csv(tmp_path, "1,2\n", "t.xlsx"))


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
        with pytest.raises(me.InputError, match=r"give a fraction in \(0, 1\) and more rows"):
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


class TestNumbersThatFloat64CannotHold:
    @pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
    def test_whole_numbers_beyond_2_53(self, tmp_path: Path, suffix: str) -> None:
        numbers = np.array([[2**53 + 1, 1], [2**53 + 3, 2]])
        file = tmp_path / f"t.{suffix}"
        if suffix == "npy":
            np.save(file, numbers)
        elif suffix == "csv":
            csv(tmp_path, "a,b\n" + "\n".join(f"{a},{b}" for a, b in numbers.tolist()))
        else:
            parquet.write_table(pa.table({"a": numbers[:, 0], "b": numbers[:, 1]}), file)
        with pytest.raises(me.InputError, match=r"the whole number 9007199254740993 in column '(a|c0)', "):
            read_table(file)

    @pytest.mark.parametrize(
        "cells",
        [
            [str(2**63), str(2**63 + 1)],  # beyond int64
            ["1.5", str(2**63 + 1)],
            ["", f"-{10**30}"],
            ["1.5", str(2**53 + 1)],
            ["x", " 9007199254740993"],
        ],
    )
    def test_whole_numbers_in_columns_that_are_not_of_integers(
        self, tmp_path: Path, cells: list[str]
    ) -> None:
        """They were rounded without a word."""
        first, second = (cell.replace("x", " 1") for cell in cells)
        number, line = (first, 2) if abs(float(first or 0)) > 2**53 else (second, 3)
        place = f"the whole number {int(number)} in column 'b', line {line}, beyond 2^53"
        with pytest.raises(me.InputError, match=re.escape(place)):
            read_table(csv(tmp_path, f"a,b\n1,{first}\n2,{second}\n"))

    @pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
    def test_whole_numbers_in_python(self, kind: Callable[[object], object]) -> None:
        x = [[1, 2], [3, -(2**53) - 1]]
        with pytest.raises(me.InputError, match=r"row 1, column 1, -9007199254740993, is a whole number"):
            me.Tokens.from_array(kind(x))
        with pytest.raises(me.InputError, match=f"row 0, column 0, {2**70}, is a whole number"):
            me.Tokens.from_array([[2**70]])
        assert me.Tokens.from_array(kind([[2**53, 1]])).values.tolist() == [[2.0**53, 1.0]]

    @pytest.mark.parametrize("value", [1j, np.datetime64("2020-01-01")])
    def test_what_is_no_number_in_python(self, value: object) -> None:
        with pytest.raises(me.InputError, match="the data are not a table of numbers"):
            me.Tokens.from_array(np.array([[value]]))

    def test_large_numbers_that_are_not_written_as_whole_ones(self, tmp_path: Path) -> None:
        table = read_table(csv(tmp_path, "a,b\n1e20,1\n9007199254740993.0,2\n"))
        assert table.values[:, 0].tolist() == [1e20, 2.0**53]

    def test_decimals_and_categories_of_parquet(self, tmp_path: Path) -> None:
        file = tmp_path / "t.parquet"
        whole = pa.array([Decimal(1), Decimal(2**53 + 1)], pa.decimal128(30, 0))
        parquet.write_table(pa.table({"a": whole}), file)
        with pytest.raises(me.InputError, match=r"9007199254740993 in column 'a', row 1 \(from 0\)"):
            read_table(file)
        parquet.write_table(pa.table({"a": pa.array([3, 4, 3]).dictionary_encode()}), file)
        assert read_table(file).values.tolist() == [[3.0], [4.0], [3.0]]

    def test_2_53_itself(self, tmp_path: Path) -> None:
        assert read_table(csv(tmp_path, f"a\n{2**53}\n{-(2**53)}\n")).values.tolist() == [
            [2.0**53],
            [-(2.0**53)],
        ]

    def test_magnitudes_whose_squares_overflow(self, tmp_path: Path) -> None:
        with pytest.raises(me.InputError, match=r"the value -1e\+200 in column 'b', row 1 \(from 0\)"):
            read_table(csv(tmp_path, "a,b\n1,2\n3,-1e200\n"))


def test_an_archive_named_npy(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", np.zeros((2, 2)))
    (tmp_path / "t.npz").rename(tmp_path / "t.npy")
    with pytest.raises(me.InputError, match=r"is an \.npz archive"):
        read_table(tmp_path / "t.npy")
    (tmp_path / "t.npy").write_bytes(b"PK\x03\x04 damaged")
    with pytest.raises(me.InputError, match=r"cannot be read as a \.npy array"):
        read_table(tmp_path / "t.npy")


def test_long_cells_beside_the_numbers(tmp_path: Path) -> None:
    path = csv(tmp_path, f"remark,b\n{'a' * 200_000},1\nshort,2\n")
    assert read_table(path, drop=["remark"]).values.tolist() == [[1.0], [2.0]]
    with pytest.raises(me.InputError, match=r"text in column 'remark', line 2: 'a{60}\.\.\.';"):
        read_table(path)


@pytest.mark.parametrize("ending", ["parquet", "feather"])
def test_texts_that_are_not_utf_8(tmp_path: Path, ending: str) -> None:
    table = pa.table({"name": pa.array([b"a", b"\xff"]).view(pa.string()), "a": [1.0, 2.0]})
    file = tmp_path / f"t.{ending}"
    (parquet.write_table if ending == "parquet" else feather.write_feather)(table, file)
    with pytest.raises(me.InputError, match=r"text that is not UTF-8 in column 'name', row 1 \(from 0\)"):
        read_table(file, id_column="name")
