"""Where a table is in a file: names, rows that are none of data, encodings, archives."""

import gzip
import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from maskevidence.data import describe, read_table
from maskevidence.tables.filling import fill_table
from maskevidence.tables.table_options import ImputeOptions, TableOptions

ROWS = "".join(f"{k},{20 - k / 5:.2f}\n" for k in range(30))
BODY = "depth,temp\n" + ROWS
WIDE = "town,a,b\n" + "".join(f"t{k % 7},{k},{k * k}\n" for k in range(12))


def found(path: Path, what: str) -> list[int | None]:
    """The lines of findings of a kind."""
    return [cell.line for each in describe(path).findings if each.what == what for cell in each.first]


@pytest.mark.parametrize(
    ("text", "what", "lines", "first"),
    [
        ("# made by hand\n#\n" + BODY, "comments", [1, 2], 4),
        ("\n# made by hand\n\n" + BODY, "comments", [2], 5),
        ("Report of 2024\n\n" + BODY, "header", [1], 4),
        ("Report of 2024\nby, me, and you\n" + WIDE.replace("town,", "town,"), "header", [1], 4),
        ("0,1\n" + BODY, "header", [1], 3),
        ("depth,temp\nm,degC\n" + ROWS, "units row", [2], 3),
        ("depth,temp\n[m],[°C]\n" + ROWS, "units row", [2], 3),
        (WIDE + "Total,66,506\n", "totals", [14], 2),
        (WIDE + "\nSource: the office of statistics\n", "totals", [15], 2),
        (WIDE + ",,\n* preliminary values of the year,,\n", "totals", [14, 15], 2),
        (WIDE + WIDE, "header", [14], 2),
    ],
)
def test_rows_that_are_none_of_data_are_named(
    tmp_path: Path, text: str, what: str, lines: list[int], first: int
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert found(path, what) == lines
    table = read_table(path, words=True)
    assert not table.odd
    assert table.place(0) == f"line {first}"
    assert np.isfinite(table.values).all()
    assert text.splitlines()[int(table.place(len(table) - 1).split()[1]) - 1].startswith(("29,", "t4,"))


@pytest.mark.parametrize(
    "text",
    [
        BODY,
        "#depth,temp\n" + ROWS,
        "a,b\nx,1\ny,2\n",
        "a,b,\n" + "1,2,3\n" * 9,
        "a,b\n1,2\n",
        "n,a,b\nTotal of x,1,2\nTotal of y,3,4\nz,5,6\nw,1,1\n",
    ],
)
def test_ordinary_tables_have_no_such_rows(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    description = describe(path)
    assert description.n_rows == text.count("\n") - 1
    assert not {"header", "units row", "totals"} & {each.what for each in description.findings}


def test_what_the_user_says_about_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\nx,y\n1,2\n% no\n3,4\n5,6\n7,9\n")
    table = read_table(path, header=2, comment="%", skip_rows="5,7-9")
    assert table.columns == ("x", "y")
    assert table.values.tolist() == [[1, 2], [5, 6]]
    assert [table.place(row) for row in range(2)] == ["line 3", "line 6"]
    assert any("2 lines left out" in note or "1 line left out" in note for note in table.notes)


def test_a_last_separator_that_is_missing_and_an_escaped_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b;c\n" + "1;2;\n3;4;\n" * 3 + "5;6\n7;8\n" * 3)
    table = read_table(path)
    assert table.values[-1].tolist() == [7, 8]
    assert any("6 rows without the last separator" in note for note in table.notes)
    path.write_text("a,b,c\n" + "1,x,2\n" * 3 + "1,one\\, two,2\n" + '1,"x, y",2\n')
    assert read_table(path, words=True).levels["b"] == ("one, two", "x", "x, y")


def test_rows_without_a_value_are_counted_and_stay_empty(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rng = np.random.default_rng(0)
    path.write_text(
        "a,b\n" + "".join(f"{x:.2f},{y:.2f}\n" for x, y in rng.normal(size=(30, 2))) + ",\n , \n7,\n"
    )
    table = read_table(path)
    assert len(table) == 31
    assert any("2 of 33 rows have no value (line 32, line 33): left out" in note for note in table.notes)
    result = fill_table("gaussian", str(path), ImputeOptions(tmp_path / "f.csv"))
    lines = (tmp_path / "f.csv").read_text().splitlines()
    assert [line.replace(",", "").strip() for line in lines[31:33]] == ["0", "0"]  # of the column b_sd
    assert result["n_filled"] == 1


def test_units_totals_and_comments_stay_in_the_filled_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"t{k % 4};{x:.2f};{y:.2f}".replace(".", ",") for k, (x, y) in enumerate(rng.normal(size=(30, 2)))
    ]
    rows[3] = "t3;;7,25"
    lines = ["# by hand", "town;a;b", ";m;kg", *rows, "Total;1,0;2,0"]
    (tmp_path / "t.csv").write_text("\n".join(lines), "cp1252")
    options = ImputeOptions(tmp_path / "f.csv", table=TableOptions(drop="town"))
    fill_table("gaussian", str(tmp_path / "t.csv"), options)
    filled = (tmp_path / "f.csv").read_text("cp1252").splitlines()
    assert len(filled) == len(lines)
    for k, line in enumerate(lines):
        if k != 6:
            assert filled[k].startswith(line)
    assert filled[6].split(";")[1]


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8", "utf-8-sig", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("größe;é\n1;2\n3,5;4\n".encode(encoding))
    table = read_table(path)
    assert table.columns == ("größe", "é")
    assert table.values.tolist() == [[1, 2], [3.5, 4]]
    assert any("Windows-1252" in note for note in table.notes) == (encoding in ("latin-1", "cp1252"))


def test_archives_and_endings(tmp_path: Path) -> None:
    expected = read_table(_written(tmp_path / "t.csv", BODY.encode())).values
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("inside/t.csv", BODY)
    for name, content in (
        ("t.zip", packed.getvalue()),
        ("t.csv.zip", packed.getvalue()),
        ("t.csv.gz", gzip.compress(BODY.encode())),
        ("t.txt", BODY.replace(",", "\t").encode()),
        ("t.dat", BODY.replace(",", ";").encode()),
        ("t.tab", BODY.replace(",", "\t").encode()),
    ):
        np.testing.assert_array_equal(read_table(_written(tmp_path / name, content)).values, expected, name)
    with zipfile.ZipFile(packed, "a") as archive:
        archive.writestr("other.csv", BODY)
    with pytest.raises(me.InputError, match="holds 2 files; give an archive of one"):
        read_table(_written(tmp_path / "two.zip", packed.getvalue()))
    with pytest.raises(me.InputError, match="cannot be read as a zip archive"):
        read_table(_written(tmp_path / "bad.zip", b"no archive"))


def test_a_spreadsheet_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    with pytest.raises(me.MissingExtraError, match=r"needs openpyxl.*pip install '\.\[xlsx\]'"):
        read_table(_written(tmp_path / "t.xlsx", b"PK"))


def test_a_spreadsheet(tmp_path: Path) -> None:
    pytest.importorskip("openpyxl", reason="the extra xlsx is not installed")
    frame = pd.DataFrame(
        {"day": pd.to_datetime(["2024-01-01", "2024-01-05"] * 5), "x": [1.5, None] * 5, "n": range(10)}
    )
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    table = read_table(tmp_path / "t.xlsx")
    assert table.values[:2, 0].tolist() == [0, 4]
    assert table.place(0) == "line 2"


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_many_columns_of_few_names_are_no_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n,A,B,A,B,A\n" + "x,1,2,3,4,5\n" * 4)
    with pytest.raises(me.InputError, match="is not a table of rows: 5 columns share 2 names, such as 'A'"):
        read_table(path)
