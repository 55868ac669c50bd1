"""Tables from files: which columns are used, what is read and said, and one clear line for each problem."""

import gzip
import io
import random
import re
import sys
from collections.abc import Callable
from csv import field_size_limit
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
from maskevidence.tables.category_columns import with_columns_of
from maskevidence.tables.reading.columns import FileOptions
from maskevidence.tables.reading.layout import numbered_rows
from maskevidence.tables.table_files import read_raw

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

    def test_of_text_are_named_all_at_once(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "name,a,day,b,kind\nx,1,2024-01-01,2,red\ny,3,2024-01-02,?,blue\n")
        with pytest.raises(me.InputError) as caught:
            read_table(path)
        assert str(caught.value) == (
            f"{str(path)!r} has text in 2 columns ('name', line 2: 'x'; 'kind', line 2: 'red'); give numbers "
            "only: --drop name,kind leaves them out, --one-hot name,kind encodes categories, the model "
            "auto takes words as they are"
        )

    def test_a_hint_can_be_pasted_as_it_stands(self, tmp_path: Path) -> None:
        rows = "".join(f"P{k},{'fm'[k % 2]},{k * k if k % 3 else '?'}\n" for k in range(6))
        path = csv(tmp_path, f"patient id,sex at birth,age\n{rows}")
        with pytest.raises(me.InputError) as caught:
            read_table(path)
        hint = str(caught.value).partition("give numbers only: ")[2]
        assert hint.startswith(
            "--drop 'sex at birth' leaves it out, --one-hot 'sex at birth' encodes a category, "
        )

    def test_without_a_name_are_called_by_their_place(self, tmp_path: Path) -> None:
        pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]}, index=["x", "y"]).to_csv(tmp_path / "t.csv")
        table = read_table(tmp_path / "t.csv", id_column="c0")
        assert (table.columns, table.labels) == (("a", "b"), ("x", "y"))


HEADLESS = "the first line holds numbers only and was read as data"
READ: dict[str, tuple[str, list[list[float]], list[str]]] = {
    "with a header": ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]], []),
    "without header": ("1,2\n3,4\n", [[1, 2], [3, 4]], [HEADLESS]),
    "in quotes": ('"a, first","b"\n"1","-2.5"\n3,"4e1"\n', [[1, -2.5], [3, 40]], []),
    "with empty cells": ("a,b\n1,\n,4\n", [[1, NAN], [NAN, 4]], []),
    "with words for missing": ("a,b\nNA,2\n3,nan\n", [[NAN, 2], [3, NAN]], []),
    "with carriage returns": ("a,b\r\n1,2\r\n", [[1, 2]], []),
    "of one column": ("a\n1\n2\n", [[1], [2]], []),
    "of one column in quotes": ('"a;b"\n1\n2\n', [[1], [2]], []),
    "with a byte order mark": ("\ufeffa,b\n1,2\n", [[1, 2]], []),
    "of truth values": ("a,b\ntrue,2\nfalse,3\n", [[1, 2], [0, 3]], []),
    "with semicolons": ("a;b\n1;2\n3;4\n", [[1, 2], [3, 4]], ["cells are separated by ';'"]),
    "with tabs": ("a\tb\n1\t2\n3\t4\n", [[1, 2], [3, 4]], ["cells are separated by tabs"]),
    "with bars": ("a|b\n1|2\n3|4\n", [[1, 2], [3, 4]], ["cells are separated by '|'"]),
    "with decimal commas": (
        "1,5;2\n3;4,25\n",
        [[1.5, 2], [3, 4.25]],
        ["cells are separated by ';'", HEADLESS, "numbers are read with a decimal comma"],
    ),
    "with a semicolon in quotes": ('"a;b",c\n1,2\n3,4\n', [[1, 2], [3, 4]], []),
    "below an empty line": ('\na;"b, c"\n1;2\n', [[1, 2]], ["cells are separated by ';'"]),
    "below names that are numbers": (
        "x,1,2\n1,2,3\n4,5,6\n",
        [[1, 2, 3], [4, 5, 6]],
        ["the first line was taken for the names of the columns, though '1', '2' are numbers"],
    ),
    "of large numbers that are not whole": (
        f"a,b\n1e20,1.5\n9007199254740993.0,{2**63 + 1}\n",
        [[1e20, 1.5], [2**53, 2**63]],
        [],
    ),
    "of 2^53 itself": (f"a\n{2**53}\n{-(2**53)}\n", [[2.0**53], [-(2.0**53)]], []),
}


@pytest.mark.parametrize("case", READ)
def test_a_csv_file(tmp_path: Path, case: str) -> None:
    text, values, notes = READ[case]
    table = read_table(csv(tmp_path, text))
    np.testing.assert_array_equal(table.values, np.array(values, dtype=float))
    assert list(table.notes) == notes
    assert table.ids.tolist() == list(range(len(values)))


def test_numbers_are_written_in_many_ways(tmp_path: Path) -> None:
    cells = ["+5", ".5", "5.", "-1E+2", " 7 ", "005", "NAN", "x"]
    path = csv(tmp_path, "a,b\n" + "".join(f"{cell},{k * k}\n" for k, cell in enumerate(cells)))
    values = [5.0, 0.5, 5.0, -100.0, 7.0, 5.0, NAN, NAN]
    np.testing.assert_array_equal(read_table(path, missing=["x"]).values[:, 0], values)
    assert read_table(csv(tmp_path, "a:b\n1:2\n"), delimiter=":").values.tolist() == [[1.0, 2.0]]


def test_rows_that_nobody_reads_to_the_end_leave_the_limit_of_cells_alone() -> None:
    held = numbered_rows(["a,b\n", "1,2\n"], ",")
    assert next(held) == (1, ["a", "b"])
    assert field_size_limit() == 131_072


def test_lines_in_quotes_empty_lines_and_long_cells(tmp_path: Path) -> None:
    rows = "".join(f'{k % 7},{k % 5},"a\n\n, text {k}"\n\n' for k in range(6000))
    table = read_table(csv(tmp_path, f"\na,b,r\n{rows}{2},{3},{'a' * 200_000}\n"), id_column="r")
    assert table.values[-2].tolist() == [5999 % 7, 5999 % 5]
    assert table.labels is not None
    assert table.labels[-2] == "a\n\n, text 5999"
    short_rows = "1,2,\n" * 30 + "  \n\n" + "1,2,3\n"  # the last cell of a row may be empty
    assert read_table(csv(tmp_path, f"a,b,c\n{short_rows}")).values.shape == (31, 3)


def test_quotes_and_ends_of_lines_are_read_as_by_pandas(tmp_path: Path) -> None:
    generator = random.Random(0)
    cells = ["1", "a", "", ' "b', '"q"', '"u\nv"', '"w""z"', '"x"y', "NA", "é", " "]
    for _ in range(120):
        width, delimiter = generator.randint(2, 4), generator.choice(",;\t")
        end = generator.choice(["\n", "\r\n", "\r", "\n\n", "\n  \n"])
        text = end.join(delimiter.join(generator.choices(cells, k=width)) for _ in range(4))
        path = csv(tmp_path, text + generator.choice(["", end]))
        expected = (
            pd.read_csv(path, sep=delimiter, header=None, dtype=str, na_filter=False).to_numpy().tolist()
        )
        raw = read_raw(path, FileOptions(delimiter=delimiter))
        rows = [
            list(row) for row in zip(*(column.to_pylist() for column in raw.columns.columns), strict=True)
        ]
        assert ([raw.columns.column_names] if raw.first_line > 1 else []) + rows == expected, text


def test_first_lines_that_are_longer_than_what_is_looked_at(tmp_path: Path) -> None:
    cells = ["1.5"] * 3000
    head = ",".join(f"c{j}" * 30 for j in range(3000))
    assert len(head) > 2**18
    assert read_table(csv(tmp_path, f"{head}\n{','.join(cells)}\n")).values.shape == (1, 3000)


@pytest.mark.parametrize("name", ["t.csv.gz", "t.tsv", "t.tsv.gz"])
def test_compressed_or_with_tabs(tmp_path: Path, name: str) -> None:
    content = b"a\tb\n1\t2\n" if "tsv" in name else b"a,b\n1,2\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    assert read_table(tmp_path / name).values.tolist() == [[1.0, 2.0]]


def npy(values: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, values, allow_pickle=True)
    return file.getvalue()


def npz(values: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, values)
    return file.getvalue()


def columns_of(write: Callable[..., None] = parquet.write_table, **columns: Any) -> bytes:
    file = io.BytesIO()
    write(pa.table(columns), file)
    return file.getvalue()


NAMES = "name,a,b,c\nx,1,2,3\n"
NOT_UTF_8 = {"name": pa.array([b"a", b"\xff"]).view(pa.string()), "a": [1.0, 2.0]}
BEYOND = "has text in column '{}', {}: '{}' ({} with leading zeros or too many digits: codes, not numbers)"
REFUSED: list[tuple[str, str | bytes, dict[str, Any], str]] = [
    ("t.csv", "", {}, "is empty; give a table with at least one row"),
    ("t.csv", "a,b\n", {}, "has no rows; give a table with at least one"),
    ("t.csv", "a,b\n1,2\n3,red\n", {}, "has text in column 'b', line 3: 'red'"),
    ("t.csv", "1,2\n3,4\n5,x\n", {}, "has text in column 'c1', line 3: 'x'"),
    ("t.csv", f"r,b\n{'a' * 200_000},1\nshort,2\n", {}, f"text in column 'r', line 2: '{'a' * 60}...';"),
    ("t.csv", "a,b\n1,2\n3,inf\n", {}, "has an infinite value in column 'b', line 3;"),
    ("t.csv", "a,b\n1,2.5\n3,1e400\n", {}, "has an infinite value in column 'b', line 3;"),
    ("t.csv", "a,b\n-Infinity,2\n3,4\n", {}, "has an infinite value in column 'a', line 2;"),
    ("t.csv", "a,b\n1,2\n3,-1e200\n", {}, "the value -1e+200 in column 'b', line 3"),
    ("t.csv", "a,b\n1,\n2,\n", {"columns": ["a", "b"]}, "has no value in column 'b'; leave it out"),
    ("t.csv", "a,b\n,\n,\n", {}, "no column of"),
    ("t.csv", "a,b,c\n,,1\n,,2\n", {"columns": ["a", "b"]}, "no value in line 2, nor in any other row"),
    ("t.csv", "a,b\n1,2\n3\n", {}, "is not a regular CSV table"),
    ("t.csv", "a;b;c\n1;2;3\n1;2\n", {}, "is not a regular CSV table"),
    ("t.csv", "a,b,c\n1,2,\n1,2,7\n  \n\n1,2\n", {}, "it has 2 cells in line 6, 3 above"),
    ("t.csv", 'a,b,r\n1,2,"x\n2,5,y\n3,1,z\n', {"drop": ["r"]}, "it has quotes that are not closed"),
    ("t.csv", 'a,b\n1,2\n3,"4', {}, "it has quotes that are not closed"),
    ("t.csv", 'a\n1\n"2\n', {}, "it has quotes that are not closed"),
    ("t.csv", 'a,b\n"1,2\n3,4\n', {}, "it has quotes that are not closed"),
    ("t.csv", "a,b\n1,2\n3,4,5\n", {}, "it has 3 cells in line 3, 2 above"),
    ("t.csv", "a b\n1 2\n3 4 \n", {"delimiter": " "}, "it has 3 cells in line 3, 2 above"),
    ("t.csv", "a§b\n1§2\n", {"delimiter": "§"}, "give one character of ASCII"),
    (
        "t.csv",
        "a;b\n2.5;8\n1,5;2\n",
        {},
        "column 'a' has numbers with a decimal comma (line 3: '1,5') and others with a decimal point",
    ),
    ("t.csv", "\n\na,b\n\n1,2\n \n3,x\n", {}, "text in column 'b', line 7: 'x'"),
    ("t.csv", 'n,a,b\n"two\nlines",1,2\nz,3,x\n', {"id_column": "n"}, "text in column 'b', line 4: 'x'"),
    ("t.csv", "\na\n1\n\nx\n\n", {}, "text in column 'a', line 5: 'x'"),
    (
        "t.csv",
        "a;b\n" + "1,234;2\n" * 9,
        {},
        "column 'a': '1,234' in line 2 may be 1.234 or 1234: give --decimal ',' or",
    ),
    ("t.csv", "a,a\n1,2\n", {}, "has 2 columns with the name 'a'"),
    ("t.csv", b"a,b\n\x01\xff,2\n", {}, "is not UTF-8 text"),
    (
        "t.csv",
        b"a,b\n\xff,2\n",
        {"encoding": "utf-8"},
        "is not text in utf-8: byte 0xff at offset 4; give another",
    ),
    ("t.csv", b"a,b\n1,2\n", {"encoding": "utf-9"}, "--encoding 'utf-9' is not known"),
    ("t.csv", b"\xff\xfea", {}, "is not text in utf-16: byte 0x61"),
    ("t.csv", "a,b\n1,2\n", {"header": 9}, "--header 9: "),
    ("t.csv", "a,b\n1,2\n", {"skip_rows": "5-3"}, "--skip-rows '5-3' has '5-3'; give lines, from 1"),
    ("t.csv", "a,b\n1,2\n", {"dates": "month"}, "month"),
    ("t.csv", b"n,a\nx\0y,1\n", {"id_column": "n"}, "zero byte"),
    ("t.csv.gz", "a,b\n1,2\n", {}, "t.csv.gz' cannot be read"),
    (
        "t.ods",
        "1,2\n",
        {},
        "is not a .csv, .tsv, .txt, .tab, .dat, .xlsx, .parquet, .feather, .npy file; convert",
    ),
    ("t.csv", NAMES, {"columns": ["a", "z"]}, "has no column 'z'; it has name, a, b, c"),
    ("t.csv", NAMES, {"drop": ["z"]}, "has no column 'z'"),
    ("t.csv", NAMES, {"id_column": "z"}, "has no column 'z'"),
    ("t.csv", '"a,b",c\n1,2\n3,5\n', {"drop": ["a"]}, """has no column 'a'; it has "a,b", c"""),
    ("t.csv", NAMES, {"one_hot": ["z"]}, "has no column 'z'"),
    ("t.csv", NAMES, {"drop": ["name", "a", "b", "c"]}, "is left; name one or more that are data"),
    ("t.csv", NAMES, {"one_hot": ["name"], "drop": ["name"]}, "--one-hot 'name' is not among the columns"),
    ("t.csv", "c,a\nx,1\nx,2\n", {"one_hot": ["c"]}, "has only 1 different values"),
    ("t.csv", "c,a\n" + "".join(f"{k},1\n" for k in range(51)), {"one_hot": ["c"]}, "more than 50"),
    ("t.npy", npy(np.zeros(3)), {}, "save an (N, D) array of numbers"),
    ("t.npy", npy(np.zeros((2, 2, 2))), {}, "save an (N, D) array of numbers"),
    ("t.npy", npy(np.array([["a"]])), {}, "save an (N, D) array of numbers"),
    ("t.npy", npy(np.zeros((2, 2), complex)), {}, "save an (N, D) array of numbers"),
    ("t.npy", npy(np.zeros((0, 3))), {}, "give a table with at least one"),
    ("t.npy", npy(np.zeros((3, 0))), {}, "give a table with at least one"),
    ("t.npy", npy(np.array([[object()]])), {}, "cannot be read as a .npy array of numbers"),
    ("t.npy", npy(np.zeros((2, 2))), {"delimiter": ":"}, "--delimiter belongs to CSV tables"),
    ("t.npy", npz(np.zeros((2, 2))), {}, "is an .npz archive"),
    ("t.npy", b"PK\x03\x04 damaged", {}, "cannot be read as a .npy array"),
    ("t.parquet", columns_of(a=["1", "red"]), {}, "text in column 'a', row 1 (from 0): 'red'"),
    (
        "t.parquet",
        columns_of(**NOT_UTF_8),
        {"id_column": "name"},
        "not UTF-8 in column 'name', row 1 (from 0)",
    ),
    ("t.feather", columns_of(feather.write_feather, **NOT_UTF_8), {}, "not UTF-8 in column 'name', row 1"),
    (
        "t.feather",
        columns_of(feather.write_feather, a=[1.0, 2.0], w=[b"A", b"B"]),
        {"words": True, "categories": ["w"]},
        "has values of type binary in column 'w', which are not words; write them as text",
    ),
    ("t.parquet", columns_of(a=[1.0, 2.0], w=[[1], [2]]), {"id_column": "w"}, "which are not words"),
    ("t.parquet", columns_of(a=[1.0, 2.0], w=[b"A", b"B"]), {"one_hot": ["w"]}, "which are not words"),
    ("t.csv", NAMES, {"id_column": ""}, "has no column ''; it has name, a, b, c"),
    # whole numbers that float64 cannot hold, which would be rounded
    (
        "t.npy",
        npy(np.array([[2**53 + 1, 1], [2**53 + 3, 2]])),
        {},
        BEYOND.format("c0", "row 0 (from 0)", 2**53 + 1, "2 cells"),
    ),
    (
        "t.parquet",
        columns_of(a=pa.array([Decimal(1), Decimal(2**53 + 1)], pa.decimal128(30, 0))),
        {},
        BEYOND.format("a", "row 1 (from 0)", 2**53 + 1, "1 cell"),
    ),
    ("t.csv", f"a,b\n1,{2**63}\n2,{2**63 + 1}\n", {}, BEYOND.format("b", "line 2", 2**63, "2 cells")),
    ("t.csv", f"a,b\n1,5\n2,-{10**30}\n", {}, BEYOND.format("b", "line 3", -(10**30), "1 cell")),
    ("t.csv", f"a,b\n1,1\n2, {2**53 + 1}\n", {}, BEYOND.format("b", "line 3", f" {2**53 + 1}", "1 cell")),
    # digits that are not 0 to 9
    *(
        ("t.csv", f"a,b\n1,2\n5,5\n{cell},3\n", {}, f"has text in column 'a', line 4: '{cell}'")
        for cell in ("1_000", "1d5", "0x10")
    ),
    *((name, np.random.default_rng(0).bytes(500), {}, "t.") for name in ("t.npy", "t.parquet", "t.csv")),
    ("t.feather", np.random.default_rng(0).bytes(500), {}, "cannot be read as Feather"),
]


@pytest.mark.parametrize(("name", "content", "options", "message"), REFUSED)
def test_what_cannot_be_read_is_one_line(
    tmp_path: Path, name: str, content: str | bytes, options: dict[str, Any], message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(me.InputError, match=re.escape(message)) as error:
        read_table(path, **options)
    assert "\n" not in str(error.value).strip()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(me.InputError, match="there is no file"):
        read_table(tmp_path / "t.csv")


@pytest.mark.parametrize(
    ("cells", "options", "note"),
    [
        ("-999,1\n3,-999\n4,5\n5,2\n", {}, "-999 stands far below all other values of 'a', 'b': if it means"),
        ("-999,1\n3,-999\n4,5\n5,2\n", {"missing": ["-999"]}, ""),
        ("-999,1\n3,3\n4,5\n5,2\n", {}, "-999 stands far below all other values of 'a': if it means missing"),
        ("999,1\n3,3\n4,5\n5,2\n", {}, "999 stands far above all other values of 'a': if it means missing"),
        ("-88,1\n3,3\n4,5\n5,2\n-88,7\n", {}, "-88 stands far below all other values of 'a'"),
        ("-99,1\n3,3\n500,5\n900,2\n-99,7\n", {}, "-99 is the only negative value of 'a': if it means"),
        ("-9,1\n0,3\n1,5\n1,2\n-9,7\n", {}, "-9 is the only negative value of 'a': if it means missing"),
        ("-99.9,1\n3,3\n500,5\n900,2\n-99.9,7\n", {}, "-99.9 is the only negative value of 'a'"),
        ("-99,1\n3,3\n500,5\n900,2\n", {}, ""),
        ("-99,1\n-3,3\n500,5\n900,2\n-99,7\n", {}, ""),
        (
            "".join(f"{k * 999},{k % 7}\n" for k in (*[-1] * 5, *range(-9, 9))),
            {},
            "-999 is in more cells than all",
        ),
        ("".join(f"{k * 999},{k % 7}\n" for k in (*[-1] * 5, *range(-9, 9), 3)), {}, ""),
        ("-88,1\n3,3\n4,5\n5,2\n", {}, ""),  # once
        ("88,1\n3,3\n4,5\n5,2\n88,7\n", {}, ""),  # may be a large value
        ("-9,1\n30,-9\n4,50\n5,2\n", {}, ""),  # not below the range of the others
        ("-1,1\n1,-1\n-1,1\n1,1\n", {}, ""),  # two levels
        ("0,10\n10,0\n11,12\n12,13\n", {}, ""),  # counts
        ("x,1\nx,2\n", {"id_column": "a"}, "only 1 of the 2 names in 'a' are different"),
        ("0,1\n1,5\n2,3\n3,3\n4,1\n", {}, "column 'a' counts 0, 1, 2, ...: if it is an index"),
        ("1,1\n2,5\n3,3\n4,3\n5,1\n", {}, "column 'a' counts 1, 2, 3, ...: if it is an index"),
    ],
)
def test_what_looks_like_a_mistake_is_noted(
    tmp_path: Path, cells: str, options: dict[str, Any], note: str
) -> None:
    notes = read_table(csv(tmp_path, "a,b\n" + cells), **options).notes
    assert [one[: len(note)] for one in notes] == ([note] if note else [])


class TestFiles:
    def test_npy_and_parquet_give_the_same_table(self, tmp_path: Path) -> None:
        values = np.array([[1.0, NAN], [3.0, 4.0]])
        np.save(tmp_path / "t.npy", values)
        columns = {"c0": pa.array([1, 3]), "c1": pa.array([None, 4.0])}
        parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
        for name in ("t.npy", "t.parquet"):
            table = read_table(tmp_path / name)
            assert table.columns == ("c0", "c1")
            np.testing.assert_array_equal(table.values, values)
        parquet.write_table(pa.table({"a": pa.array([3, 4, 3]).dictionary_encode()}), tmp_path / "t.parquet")
        assert read_table(tmp_path / "t.parquet").values.tolist() == [[3.0], [4.0], [3.0]]

    def test_numbers_that_stand_for_missing_values(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "a,b\n-999,2\n3,-999.0\n5,NA\n-9990,1\n")
        expected = [[NAN, 2], [3, NAN], [5, NAN], [-9990, 1]]
        np.testing.assert_array_equal(read_table(path, missing=["-999"]).values, expected)
        frame = pd.DataFrame({"a": [-999, 3, 5, -9990], "b": [2, -999.0, NAN, 1]})
        frame.to_parquet(tmp_path / "t.parquet")
        np.testing.assert_array_equal(read_table(tmp_path / "t.parquet", missing=["-999"]).values, expected)

    @pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
    def test_the_index_of_a_data_frame_names_the_rows(self, tmp_path: Path, name: str) -> None:
        frame = pd.DataFrame({"a": [1, 2], "b": [0.5, NAN]}, index=pd.Index(["x", "y"], name="who"))
        arrow = pa.Table.from_pandas(frame)
        (parquet.write_table if "parquet" in name else feather.write_feather)(arrow, tmp_path / name)
        table = read_table(tmp_path / name)
        assert (table.columns, table.labels) == (("a", "b"), ("x", "y"))
        np.testing.assert_array_equal(table.values, [[1, 0.5], [2, NAN]])
        assert table.notes == ("the rows are named by the index of the data frame, 'who'",)

    @pytest.mark.parametrize("stored", [b"{", b"[1]", b'{"index_columns": 3}', b"\xff"])
    def test_damaged_metadata_of_pandas(self, tmp_path: Path, stored: bytes) -> None:
        table = pa.table({"a": [1.0, 2.0]}).replace_schema_metadata({b"pandas": stored})
        parquet.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(me.InputError, match="has metadata of pandas that cannot be read; write it again"):
            read_table(tmp_path / "t.parquet")

    def test_text_of_pyarrow_in_views(self, tmp_path: Path) -> None:
        words = pa.array(["u", "v", None, "u"], pa.string_view())
        parquet.write_table(pa.table({"w": words, "x": [1.0, 2, 3, 4]}), tmp_path / "t.parquet")
        table = read_table(tmp_path / "t.parquet", words=True)
        assert table.levels == {"w": ("u", "v")}

    def test_a_file_that_grows_beyond_memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "t.csv.gz").write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 10_000_000, 1))
        monkeypatch.setattr("maskevidence.core.support.checks.free_memory", lambda: 2**26)
        with pytest.raises(me.InputError, match=r"unpacked, need about 0 GiB of memory, .*; give fewer rows"):
            read_table(tmp_path / "t.csv.gz")

    def test_blank_lines_are_said(self, tmp_path: Path) -> None:
        note = "2 blank lines are no row of the table (first: line 3)"
        table = read_table(csv(tmp_path, "\na,b\n\n1,2\n  \n3,4\n\n\n"))
        assert note in table.notes
        assert table.place(1) == "line 6"
        assert read_table(csv(tmp_path, "a,b\n1,2\n3,4\n\n\n")).notes == ()

    def test_words_that_a_spreadsheet_runs(self, tmp_path: Path) -> None:
        table = read_table(csv(tmp_path, "who,a\n=1+1,2\n=2,3\nx,9\n"), id_column="who")
        assert (
            "'=1+1' is a formula to a spreadsheet (of 2 such words): import written CSV files as text"
            in table.notes
        )

    @pytest.mark.parametrize("name", ["t.csv.gz", "t.parquet"])
    def test_addresses_are_read_by_fsspec(self, name: str) -> None:
        frame = pd.DataFrame({"c0": [1.0, 2.0], "c1": [0.5, NAN]})
        file = io.BytesIO()
        frame.to_csv(file, index=False, compression="gzip") if "csv" in name else frame.to_parquet(file)
        with fsspec.open(f"memory://tables/{name}", "wb") as remote:
            remote.write(file.getvalue())
        table = read_table(f"memory://tables/{name}")
        assert table.columns == ("c0", "c1")
        np.testing.assert_array_equal(table.values, frame)
        assert table.name == f"memory://tables/{name}"

    def test_addresses_that_cannot_be_read(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "s3fs", None)
        for address, message in (
            ("memory://tables/no.csv", "there is no file 'memory://tables/no.csv'; check the addr"),
            ("nothing://t.csv", "'nothing://t.csv' cannot be read: Protocol not known"),
            ("nothing://me:secret@host/t.csv", "'nothing://...@host/t.csv' cannot be read: "),
            (
                "memory://tables/t.ods",
                "is not a .csv, .tsv, .txt, .tab, .dat, .xlsx, .parquet, .feather, .npy file",
            ),
        ):
            with pytest.raises(me.InputError, match=re.escape(message)):
                read_table(address)
        with pytest.raises(
            me.MissingExtraError, match=r"begins with s3:// needs s3fs.*pip install '\.\[remote\]'"
        ):
            read_table("s3://bucket/t.csv")


class TestCategories:
    def test_become_columns_of_0_and_1(self, tmp_path: Path) -> None:
        table = read_table(csv(tmp_path, "colour,a\nred,1\nblue,2\n,3\ngreen,4\nred,5\n"), one_hot=["colour"])
        assert table.columns == ("colour=green", "colour=red", "a")
        assert table.categories == {"colour": ("blue", "green", "red")}
        expected = [[0, 1, 1], [0, 0, 2], [NAN, NAN, 3], [1, 0, 4], [0, 1, 5]]
        np.testing.assert_array_equal(table.values, expected)

    def test_are_text_as_it_stands(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "c,a\n01,1\n1,2\n+1,3\n1.0,4\nTRUE,5\ntrue,6\nNA,7\n")
        table = read_table(path, one_hot=["c"])
        assert table.categories == {"c": ("+1", "01", "1", "1.0", "TRUE", "true")}

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


class TestTokensOfPython:
    @pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
    def test_whole_numbers(self, kind: Callable[[object], object]) -> None:
        x = [[1, 2], [3, -(2**53) - 1]]
        with pytest.raises(me.InputError, match=r"row 1, column 1, -9007199254740993, is a whole number"):
            me.Tokens.from_array(kind(x))
        with pytest.raises(me.InputError, match=f"row 0, column 0, {2**70}, is a whole number"):
            me.Tokens.from_array([[2**70]])
        assert me.Tokens.from_array(kind([[2**53, 1]])).values.tolist() == [[2.0**53, 1.0]]

    @pytest.mark.parametrize("value", [1j, np.datetime64("2020-01-01")])
    def test_what_is_no_number(self, value: object) -> None:
        with pytest.raises(me.InputError, match="the data are not a table of numbers"):
            me.Tokens.from_array(np.array([[value]]))

    def test_data_frames_with_marks_of_pandas(self) -> None:
        frame = pd.DataFrame({"a": pd.array([1, None, 3], "Int64"), "b": [0.5, 1.5, 2.5]})
        tokens = me.Tokens.from_array(frame)
        assert tokens.maskable.tolist() == [[True, True], [False, True], [True, True]]


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
        from maskevidence.sklearn import PPCA, MaskedImputer

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
