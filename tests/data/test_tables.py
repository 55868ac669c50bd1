"""Tables from files: which columns are used, what is read and said, and one clear line for each problem."""

import gzip
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch
from pyarrow import feather, parquet

import maskevidence as me
from maskevidence.data import Table, read_table
from maskevidence.data.table import with_columns_of

NAN = float("nan")


def csv(folder: Path, text: str, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


class TestColumns:
    TEXT = "name,a,b,c\nx,1,2,3\ny,4,5,6\nz,7,8,\n"

    @pytest.mark.parametrize(
        ("options", "columns"),
        [
            ({"columns": ["c", "a"]}, ("c", "a")),
            ({"drop": ["name", "b"]}, ("a", "c")),
            ({"columns": ["name", "a", "b"], "drop": ["name"]}, ("a", "b")),
            ({"id_column": "name"}, ("a", "b", "c")),
            ({"id_column": "b", "drop": ["name"]}, ("a", "c")),
        ],
    )
    def test_are_chosen(self, tmp_path: Path, options: dict[str, Any], columns: tuple[str, ...]) -> None:
        table = read_table(csv(tmp_path, self.TEXT), **options)
        assert table.columns == columns
        every = {"a": [1, 4, 7], "b": [2, 5, 8], "c": [3, 6, NAN]}
        np.testing.assert_array_equal(table.values, np.array([every[name] for name in columns]).T)

    def test_the_names_of_rows_follow_them(self, tmp_path: Path) -> None:
        table = read_table(csv(tmp_path, self.TEXT), id_column="name")
        assert table.labels == ("x", "y", "z")
        train, test = table.split(0.34, seed=1)
        assert [*train.labels, *test.labels] == ["xyz"[row] for row in [*train.ids, *test.ids]]
        assert table.head(2).labels == ("x", "y")
        assert table.select(["a"]).labels == table.labels
        assert read_table(csv(tmp_path, self.TEXT), drop=["name"]).labels is None
        assert read_table(csv(tmp_path, self.TEXT), drop=["name"]).fingerprint() == table.fingerprint()

    def test_the_names_of_rows_are_text_as_it_stands(self, tmp_path: Path) -> None:
        names = ("00456", "456", "+456", "NA", "1e5", "TRUE", "12345678901234567891", "")
        path = csv(tmp_path, "n,a\n" + "".join(f"{name},{k * k}\n" for k, name in enumerate(names)))
        assert read_table(path, id_column="n").labels == names

    def test_names_that_are_not_different_are_noted(self, tmp_path: Path) -> None:
        table = read_table(csv(tmp_path, "n,a\nx,1\nx,2\n"), id_column="n")
        assert "only 1 of the 2 names in 'n' are different" in table.notes

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"columns": ["a", "z"]}, "has no column 'z'; it has name, a, b, c"),
            ({"drop": ["z"]}, "has no column 'z'"),
            ({"id_column": "z"}, "has no column 'z'"),
            ({"one_hot": ["z"]}, "has no column 'z'"),
            ({"drop": ["name", "a", "b", "c"]}, "is left; name one or more that are data"),
            (
                {"one_hot": ["name"], "drop": ["name"]},
                "--one-hot 'name' is not among the columns that are used",
            ),
        ],
    )
    def test_that_do_not_exist(self, tmp_path: Path, options: dict[str, Any], words: str) -> None:
        with pytest.raises(me.InputError, match=re.escape(words)):
            read_table(csv(tmp_path, self.TEXT), **options)

    def test_of_text_are_named_all_at_once(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "name,a,day,b\nx,1,2024-01-01,2\ny,3,2024-01-02,?\n")
        with pytest.raises(me.InputError) as caught:
            read_table(path)
        assert str(caught.value) == (
            f"{str(path)!r} has text in 3 columns ('name', line 2: 'x'; 'day', line 2: '2024-01-01'; "
            "'b', line 3: '?'); give numbers only: --missing '?' reads what stands among numbers as missing "
            "values, --drop name,day leaves them out, --one-hot name,day encodes categories, the model "
            "masked-net takes words as they are"
        )

    def test_with_a_few_words_among_numbers_may_be_missing_values(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "a,b\n1,?\n2,3\n?,4\n")
        with pytest.raises(me.InputError, match=r"--missing '\?' reads what stands .* values$"):
            read_table(path)
        table = read_table(path, missing=["?"])
        np.testing.assert_array_equal(table.values, [[1, NAN], [2, 3], [NAN, 4]])

    def test_a_hint_can_be_pasted_as_it_stands(self, tmp_path: Path) -> None:
        rows = "".join(f"P{k},{'fm'[k % 2]},{k * k if k % 3 else '?'}\n" for k in range(6))
        path = csv(tmp_path, f"patient id,sex at birth,age\n{rows}")
        with pytest.raises(me.InputError) as caught:
            read_table(path)
        hint = str(caught.value).partition("give numbers only: ")[2]
        assert hint.startswith(
            "--missing '?' reads what stands among numbers as missing values, --id-column 'patient id' "
            "takes that for the names of the rows, --drop 'sex at birth' leaves it out, --one-hot 'sex at "
            "birth' encodes a category, "
        )

    @pytest.mark.parametrize("start", [0, 1])
    def test_that_count_the_rows_are_noted(self, tmp_path: Path, start: int) -> None:
        rows = "".join(f"{start + k},{k * k}\n" for k in range(6))
        (note,) = read_table(csv(tmp_path, f"i,a\n{rows}")).notes
        assert note.startswith(f"column 'i' counts {start}, {start + 1}, {start + 2}, ...: if it is an index")

    def test_without_a_name_are_called_by_their_place(self, tmp_path: Path) -> None:
        pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]}, index=["x", "y"]).to_csv(tmp_path / "t.csv")
        table = read_table(tmp_path / "t.csv", id_column="c0")
        assert (table.columns, table.labels) == (("a", "b"), ("x", "y"))


class TestCsv:
    @pytest.mark.parametrize(
        ("text", "values", "notes"),
        [
            ("a;b\n1;2\n3;4\n", [[1, 2], [3, 4]], ["cells are separated by ';'"]),
            ("a\tb\n1\t2\n3\t4\n", [[1, 2], [3, 4]], ["cells are separated by tabs"]),
            ("a|b\n1|2\n3|4\n", [[1, 2], [3, 4]], ["cells are separated by '|'"]),
            (
                "a;b\n1,5;2\n3;4,25\n",
                [[1.5, 2], [3, 4.25]],
                ["cells are separated by ';'", "numbers are read with a decimal comma"],
            ),
            (
                "1,5;2\n3;4,25\n",
                [[1.5, 2], [3, 4.25]],
                [
                    "cells are separated by ';'",
                    "numbers are read with a decimal comma",
                    "the first line holds numbers only and was read as data",
                ],
            ),
            ('"a;b",c\n1,2\n3,4\n', [[1, 2], [3, 4]], []),
            ("a\n1\n2\n", [[1], [2]], []),
            ('"a;b"\n1\n2\n', [[1], [2]], []),
            ('\na;"b, c"\n1;2\n', [[1, 2]], ["cells are separated by ';'"]),
            (
                "x,1,2\n1,2,3\n4,5,6\n",
                [[1, 2, 3], [4, 5, 6]],
                ["the first line was taken for the names of the columns, though '1', '2' are numbers"],
            ),
        ],
        ids=[
            "semicolon",
            "tab",
            "bar",
            "decimal comma",
            "without header",
            "quoted",
            "one column",
            "one column, quoted",
            "below an empty line",
            "numbers",
        ],
    )
    def test_is_guessed_and_said(
        self, tmp_path: Path, text: str, values: list[list[float]], notes: list[str]
    ) -> None:
        table = read_table(csv(tmp_path, text))
        np.testing.assert_array_equal(table.values, values)
        assert list(table.notes) == notes

    def test_with_a_delimiter_that_is_given(self, tmp_path: Path) -> None:
        assert read_table(csv(tmp_path, "a:b\n1:2\n"), delimiter=":").values.tolist() == [[1.0, 2.0]]
        with pytest.raises(me.InputError, match="--delimiter belongs to CSV tables"):
            read_table(tmp_path / "t.npy", delimiter=":")

    def test_with_ragged_rows_between_semicolons(self, tmp_path: Path) -> None:
        with pytest.raises(me.InputError, match="is not a regular CSV table"):
            read_table(csv(tmp_path, "a;b;c\n1;2;3\n1;2\n"))

    def test_with_a_row_that_is_too_short(self, tmp_path: Path) -> None:
        """Pandas fills it up without a word, and a cell may be empty where a row has its end."""
        rows = "1,2,\n" * 30 + "  \n\n" + "1,2,3\n"
        assert read_table(csv(tmp_path, f"a,b,c\n{rows}")).values.shape == (31, 3)
        with pytest.raises(me.InputError, match="it has 2 cells in line 35, 3 above"):
            read_table(csv(tmp_path, f"a,b,c\n{rows}1,2\n"))

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
    def test_with_zero_bytes(self, tmp_path: Path, encoding: str) -> None:
        (tmp_path / "t.csv").write_bytes("n,a\nx\0y,1\n".encode(encoding))
        with pytest.raises(me.InputError, match=r"zero byte|is not UTF-8"):
            read_table(tmp_path / "t.csv", id_column="n")

    def test_with_both_decimal_marks(self, tmp_path: Path) -> None:
        with pytest.raises(me.InputError, match="decimal comma and others with a decimal point"):
            read_table(csv(tmp_path, "a;b\n1,5;2.5\n"))

    def test_with_points_among_decimal_commas_further_down(self, tmp_path: Path) -> None:
        text = "a;b\n" + "1,5;2\n" * 50_000 + "1.000;3\n"
        with pytest.raises(me.InputError, match=r"text in column 'a', line 50002: '1\.000'"):
            read_table(csv(tmp_path, text))

    @pytest.mark.parametrize("cell", ["1_000", "١٢٣", "０", "1d5", "0x10"])
    def test_with_numbers_that_are_not_of_the_digits_0_to_9(self, tmp_path: Path, cell: str) -> None:
        with pytest.raises(me.InputError, match=f"has text in column 'a', line 4: '{cell}'"):
            read_table(csv(tmp_path, f"a,b\n1,2\n5,5\n{cell},3\n"))

    def test_with_all_ways_to_write_a_number(self, tmp_path: Path) -> None:
        cells = ["+5", ".5", "5.", "-1E+2", " 7 ", "005", "NAN", "x"]
        path = csv(tmp_path, "a,b\n" + "".join(f"{cell},{k * k}\n" for k, cell in enumerate(cells)))
        values = [5.0, 0.5, 5.0, -100.0, 7.0, 5.0, NAN, NAN]
        np.testing.assert_array_equal(read_table(path, missing=["x"]).values[:, 0], values)

    def test_with_a_quote_that_is_not_closed(self, tmp_path: Path) -> None:
        """The rows after it were lost without a word."""
        with pytest.raises(me.InputError, match="it has quotes that are not closed"):
            read_table(csv(tmp_path, 'a,b,r\n1,2,"x\n2,5,y\n3,1,z\n'), drop=["r"])

    def test_with_lines_in_quotes_and_empty_lines(self, tmp_path: Path) -> None:
        rows = "".join(f'{k % 7},{k % 5},"a\n\n, text {k}"\n\n' for k in range(60_000))
        table = read_table(csv(tmp_path, f"\na,b,r\n{rows}"), id_column="r")
        assert table.values[-1].tolist() == [59_999 % 7, 59_999 % 5]
        assert table.labels is not None
        assert table.labels[-1] == "a\n\n, text 59999"

    @pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv", "t.tsv.gz"])
    def test_compressed_or_with_tabs(self, tmp_path: Path, name: str) -> None:
        content = b"a\tb\n1\t2\n" if "tsv" in name else b"a,b\n1,2\n"
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        assert read_table(tmp_path / name).values.tolist() == [[1.0, 2.0]]

    def test_that_is_said_to_be_compressed(self, tmp_path: Path) -> None:
        (tmp_path / "t.csv.gz").write_text("a,b\n1,2\n")
        with pytest.raises(me.InputError, match=r"t\.csv\.gz' cannot be read"):
            read_table(tmp_path / "t.csv.gz")

    def test_whose_first_lines_are_longer_than_what_is_looked_at(self, tmp_path: Path) -> None:
        cells = ["1.5"] * 3000
        head = ",".join(f"c{j}" * 30 for j in range(3000))
        assert len(head) > 2**18
        assert read_table(csv(tmp_path, f"{head}\n{','.join(cells)}\n")).values.shape == (1, 3000)


class TestMissing:
    def test_numbers_that_stand_for_missing_values(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "a,b\n-999,2\n3,-999.0\n5,NA\n-9990,1\n")
        expected = [[NAN, 2], [3, NAN], [5, NAN], [-9990, 1]]
        np.testing.assert_array_equal(read_table(path, missing=["-999"]).values, expected)
        frame = pd.DataFrame({"a": [-999, 3, 5, -9990], "b": [2, -999.0, NAN, 1]})
        frame.to_parquet(tmp_path / "t.parquet")
        np.testing.assert_array_equal(read_table(tmp_path / "t.parquet", missing=["-999"]).values, expected)


class TestFiles:
    def frame(self) -> pd.DataFrame:
        return pd.DataFrame({"a": [1, 2], "b": [0.5, NAN]}, index=pd.Index(["x", "y"], name="who"))

    @pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
    def test_the_index_of_a_data_frame_names_the_rows(self, tmp_path: Path, name: str) -> None:
        arrow = pa.Table.from_pandas(self.frame())
        (parquet.write_table if "parquet" in name else feather.write_feather)(arrow, tmp_path / name)
        table = read_table(tmp_path / name)
        assert (table.columns, table.labels) == (("a", "b"), ("x", "y"))
        np.testing.assert_array_equal(table.values, [[1, 0.5], [2, NAN]])
        assert table.notes == ("the rows are named by the index of the data frame, 'who'",)

    def test_of_noise(self, tmp_path: Path) -> None:
        (tmp_path / "t.feather").write_bytes(np.random.default_rng(0).bytes(500))
        with pytest.raises(me.InputError, match="cannot be read as Feather"):
            read_table(tmp_path / "t.feather")


class TestAddresses:
    @pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.npy"])
    def test_are_read_by_fsspec(self, tmp_path: Path, name: str) -> None:
        frame = pd.DataFrame({"c0": [1.0, 2.0], "c1": [0.5, NAN]})
        path = tmp_path / name
        if "csv" in name:
            frame.to_csv(path, index=False)
        elif name == "t.npy":
            np.save(path, frame.to_numpy())
        else:
            frame.to_parquet(path)
        with fsspec.open(f"memory://tables/{name}", "wb") as file:
            file.write(path.read_bytes())
        table = read_table(f"memory://tables/{name}")
        assert table.columns == ("c0", "c1")
        np.testing.assert_array_equal(table.values, frame)
        assert table.name == f"memory://tables/{name}"

    def test_that_cannot_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "s3fs", None)
        with pytest.raises(
            me.InputError, match=r"there is no file 'memory://tables/no\.csv'; check the addr"
        ):
            read_table("memory://tables/no.csv")
        with pytest.raises(me.InputError, match=r"'nothing://t\.csv' cannot be read: Protocol not known"):
            read_table("nothing://t.csv")
        with pytest.raises(
            me.MissingExtraError, match=r"begins with s3:// needs s3fs.*maskevidence\[remote\]"
        ):
            read_table("s3://bucket/t.csv")
        with pytest.raises(me.InputError, match=r"is not a \.csv, \.tsv, \.parquet, \.feather, \.npy file"):
            read_table("memory://tables/t.xlsx")


class TestCategories:
    TEXT = "colour,a\nred,1\nblue,2\n,3\ngreen,4\nred,5\n"

    def test_become_columns_of_0_and_1(self, tmp_path: Path) -> None:
        table = read_table(csv(tmp_path, self.TEXT), one_hot=["colour"])
        assert table.columns == ("colour=green", "colour=red", "a")
        assert table.categories == {"colour": ("blue", "green", "red")}
        expected = [[0, 1, 1], [0, 0, 2], [NAN, NAN, 3], [1, 0, 4], [0, 1, 5]]
        np.testing.assert_array_equal(table.values, expected)

    def test_are_text_as_it_stands(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "c,a\n01,1\n1,2\n+1,3\n1.0,4\nTRUE,5\ntrue,6\nNA,7\n")
        table = read_table(path, one_hot=["c"])
        assert table.categories == {"c": ("+1", "01", "1", "1.0", "TRUE", "true")}

    @pytest.mark.parametrize(
        ("rows", "words"),
        [
            ("x,1\nx,2\n", "has only 1 different values"),
            ("".join(f"{k},1\n" for k in range(51)), "more than 50"),
        ],
    )
    def test_that_are_too_few_or_too_many(self, tmp_path: Path, rows: str, words: str) -> None:
        with pytest.raises(me.InputError, match=words):
            read_table(csv(tmp_path, f"c,a\n{rows}"), one_hot=["c"])

    def test_of_a_model_that_was_fitted_before(self, tmp_path: Path) -> None:
        columns = ["colour=green", "colour=red", "a"]
        few = read_table(csv(tmp_path, "colour,a\nred,1\nblue,2\n,3\n"), one_hot=["colour"])
        expected = [[0, 1, 1], [0, 0, 2], [NAN, NAN, 3]]
        np.testing.assert_array_equal(with_columns_of(few, columns).values, expected)
        others = read_table(csv(tmp_path, "colour,a\nred,1\ngreen,2\n"), one_hot=["colour"])
        np.testing.assert_array_equal(with_columns_of(others, columns).values, [[0, 1, 1], [1, 0, 2]])
        new = read_table(csv(tmp_path, "colour,a\nred,1\nblue,2\npink,3\n"), one_hot=["colour"])
        with pytest.raises(
            me.InputError, match="has the categories blue, pink; the model has columns for green"
        ):
            with_columns_of(new, columns)


class TestTableIsTakenForAnArray:
    def table(self) -> Table:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(60, 1)) + 0.5 * rng.normal(size=(60, 4))
        x[rng.random(x.shape) < 0.1] = NAN
        x[np.isnan(x).all(1)] = 0.0
        return Table("t", x, ("a", "b", "c", "d"), np.arange(60) * 3 + 1)

    def test_by_every_function(self) -> None:
        table, model = self.table(), me.models.PPCA(4, 1)
        model.fit(table)
        assert model.columns == ["a", "b", "c", "d"]
        estimate = me.estimate_evidence(model, table)
        assert estimate.ids.tolist() == table.ids.tolist()
        assert estimate.log_evidence == me.estimate_evidence(model, table.tokens()).log_evidence
        np.testing.assert_array_equal(me.impute(model, table).values, me.impute(model, table.values).values)
        assert me.draw_missing(model, table, draws=2).shape == (2, 60, 4)
        masked = table.tokens().maskable
        assert (
            me.score_masks(model, table, masked).tolist()
            == me.score_masks(model, table.tokens(), masked).tolist()
        )
        assert me.check_model(model, table).ok
        assert len(me.fit(model, table, me.RandomSize(1, 1), epochs=2)) == 2
        assert model.score_samples(table).tolist() == model.score_samples(table.tokens()).tolist()
        assert repr(table) == f"Table('t': 60 rows, 4 columns, {np.isnan(table.values).sum()} missing)"

    def test_by_the_estimators(self) -> None:
        from maskevidence.integrations.sklearn import PPCA, MaskedImputer

        table = self.table()
        by_array = PPCA(1).fit(table.values).score(table.values)
        density = PPCA(1).fit(table)
        assert density.score(table) == by_array
        assert density.feature_names_in_.tolist() == density.model_.columns == list(table.columns)
        assert not np.isnan(MaskedImputer(PPCA(1), random_state=0).fit_transform(table)).any()

    @pytest.mark.parametrize("kind", ["Table", "DataFrame"])
    def test_columns_are_found_by_their_names(self, kind: str) -> None:
        table = self.table()
        frame = pd.DataFrame(table.values, columns=list(table.columns))
        data: Any = table if kind == "Table" else frame
        model = me.models.PPCA(3, 1).fit(
            data.select(["a", "b", "d"]) if kind == "Table" else frame[["a", "b", "d"]]
        )
        swapped = table.select(["d", "c", "b", "a"]) if kind == "Table" else frame[["d", "c", "b", "a"]]
        np.testing.assert_array_equal(model.score_samples(swapped), model.score_samples(data))
        with pytest.raises(
            me.InputError, match="have no column 'b', to which the model was fitted; they have a, c"
        ):
            model.score_samples(table.select(["a", "c"]) if kind == "Table" else frame[["a", "c"]])

    def test_data_frames_with_marks_of_pandas(self) -> None:
        frame = pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": [0.5, 1.5, 2.5]})
        tokens = me.Tokens.from_array(frame)
        assert tokens.maskable.tolist() == [[True, True], [False, True], [True, True]]


@pytest.mark.parametrize(
    ("cells", "missing", "noted"),
    [
        ("-999,1\n3,-999\n4,5\n5,2\n", [], True),
        ("-999,1\n3,-999\n4,5\n5,2\n", ["-999"], False),
        ("-999,1\n3,3\n4,5\n5,2\n", [], False),  # in one column alone
        ("-9,1\n30,-9\n4,50\n5,2\n", [], False),  # not below the range of the others
        ("-1,1\n1,-1\n-1,1\n1,1\n", [], False),  # two levels
        ("0,10\n10,0\n11,12\n12,13\n", [], False),  # counts
    ],
)
def test_a_code_for_missing_values_that_was_forgotten(
    tmp_path: Path, cells: str, missing: list[str], noted: bool
) -> None:
    table = read_table(csv(tmp_path, "a,b\n" + cells), missing=missing)
    words = "-999 stands far below all other values of 'a', 'b': if it means missing, give --missing=-999"
    assert any(note.startswith(words) for note in table.notes) is noted
    assert noted or not any("far below" in note for note in table.notes)


class TestFirstTables:
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
            ("a,a\n1,2\n", "has 2 columns with the name 'a'"),
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
        values = np.array([[1.0, NAN], [3.0, 4.0]])
        np.save(tmp_path / "t.npy", values)
        columns = {"c0": pa.array([1, 3]), "c1": pa.array([None, 4.0])}
        parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
        for name in ("t.npy", "t.parquet"):
            table = read_table(tmp_path / name)
            assert table.columns == ("c0", "c1")
            np.testing.assert_array_equal(table.values, values)

    def test_text_in_parquet_names_column_and_row(self, tmp_path: Path) -> None:
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
