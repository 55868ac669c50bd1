"""Holes filled by a network: in the words of the column, with a note on categories that it does not know."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet

import maskevidence as me
from maskevidence.data import read_table
from maskevidence.tables.filling import fill_table
from maskevidence.tables.table_options import ImputeOptions

SPELLINGS = ["false true", "FALSE TRUE", "False True", "0.0 1.0", "00 01", "+0 +1", "0 1", "2 5", "1e0 2e0"]


@pytest.fixture
def yes_no(tmp_path: Path) -> Path:
    """A table with the same answer in each spelling, and a network that was fitted to it."""
    rng = np.random.default_rng(0)
    answer = rng.integers(2, size=40)
    lines = [",".join([*(f"c{k}" for k in range(len(SPELLINGS))), "x"])]
    for row in answer:
        cells = ["" if rng.random() < 0.2 else spelling.split()[row] for spelling in SPELLINGS]
        lines.append(",".join([*cells, f"{4 * row + rng.normal():.3f}"]))
    (tmp_path / "t.csv").write_text("\n".join(lines))
    table = read_table(tmp_path / "t.csv", words=True)
    me.models.MaskedNetwork(len(table.columns), 4, 1).fit(table, epochs=1).save(tmp_path / "model")
    return tmp_path


@pytest.mark.parametrize("draws", [None, 2])
def test_yes_and_no_are_filled_in_the_columns_own_words(yes_no: Path, draws: int | None) -> None:
    fill_table(str(yes_no / "model"), str(yes_no / "t.csv"), ImputeOptions(yes_no / "f.csv", draws=draws))
    filled = pd.read_csv(yes_no / "f.csv", dtype=str, keep_default_na=False)
    found = [" ".join(sorted(set(filled[f"c{k}"]))) for k in range(len(SPELLINGS))]
    assert found == [" ".join(sorted(spelling.split())) for spelling in SPELLINGS]


def test_truth_values_of_parquet_stay_truth_values(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=30)
    frame = pd.DataFrame({"b": pd.array([True, None, False] * 10, "boolean"), "x": x})
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet", words=True)
    me.models.MaskedNetwork(2, 4, 1).fit(table, epochs=1).save(tmp_path / "model")
    frame[frame["b"].isna() | frame["b"]].to_parquet(tmp_path / "yes.parquet")  # the other one is not there
    for name in ("t", "yes"):
        options = ImputeOptions(tmp_path / f"filled_{name}.parquet")
        fill_table(str(tmp_path / "model"), str(tmp_path / f"{name}.parquet"), options)
        assert parquet.read_schema(options.out).field("b").type == "bool"


def test_a_category_of_whole_numbers_is_known_again_with_holes(tmp_path: Path) -> None:
    """Pandas writes 1.0 for 1 where the column has a hole; unseen categories are noted, as by score."""
    code = np.random.default_rng(0).choice([1, 2, 3], 90)
    pd.DataFrame({"code": code, "y": 10.0 * code}).to_csv(tmp_path / "t.csv", index=False)
    table = read_table(tmp_path / "t.csv", words=True, categories=["code"])
    assert table.levels == {"code": ("1", "2", "3")}
    model = me.models.MaskedNetwork(2, 4, 1).fit(table, epochs=1)
    model.save(tmp_path / "model")
    whole = pd.DataFrame({"code": [1, 2, 3], "y": [np.nan] * 3})
    holed = pd.DataFrame({"code": [1, 2, 3, np.nan], "y": [np.nan] * 3 + [30.0]})
    expected = me.impute(model, whole).values[:, 1]
    np.testing.assert_allclose(me.impute(model, holed).values[:3, 1], expected)
    holed.loc[4] = [7.0, 1.0]
    for ending, write in (("csv", pd.DataFrame.to_csv), ("parquet", pd.DataFrame.to_parquet)):
        write(holed, tmp_path / f"h.{ending}", index=False)
        options = ImputeOptions(tmp_path / f"f.{ending}")
        result = fill_table(str(tmp_path / "model"), str(tmp_path / f"h.{ending}"), options)
        filled = (pd.read_csv if ending == "csv" else pd.read_parquet)(options.out)
        np.testing.assert_allclose(filled["y"][:3], expected)
        (note,) = [note for note in result["notes"] if "training has not seen" in note]
        assert note.startswith(
            "1 of 4 cells of column 'code' holds a category that training has not seen (7)"
        )


def test_blank_lines_of_one_column_are_missing_values(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\na\n1\n\n3\n   \n4\n9\n\n")
    fill_table("gaussian", str(tmp_path / "t.csv"), ImputeOptions(tmp_path / "f.csv"))
    filled = pd.read_csv(tmp_path / "f.csv")["a"]
    assert filled.tolist() == [1.0, 4.25, 3.0, 4.25, 4.0, 9.0]
    table = read_table(tmp_path / "t.csv")
    assert table.ids.tolist() == [0, 2, 4, 5]
    assert table.notes[-1] == "2 of 6 rows have no value (line 4, line 6): left out"


@pytest.mark.parametrize("ending", ["parquet", "feather"])
@pytest.mark.parametrize("model", ["gaussian", "masked-net"])
def test_pandas_reads_what_stands_in_place_of_nullable_columns(
    tmp_path: Path, ending: str, model: str
) -> None:
    """ArrowInvalid: the file named the column's old type Int64, and it holds 5.13."""
    rng = np.random.default_rng(0)
    base = rng.normal(5, 1, 60)
    kinds = ["Int64", "UInt8", "Int8", "boolean", "Float32", "Float64", "int64[pyarrow]", "bool[pyarrow]"]
    numbers = {
        name: base + rng.normal(0, 1, 60) > 5 if "bool" in name else (9 * base + rng.normal(0, 3, 60)).round()
        for name in kinds
    }
    given = pd.DataFrame({name: pd.array(pd.array(of).astype(name)) for name, of in numbers.items()})
    holes = rng.random(given.shape) < 0.15
    frame = given.mask(holes).assign(
        whole=np.arange(60, dtype="int16"), x=(base + rng.normal(0, 0.3, 60)).astype("float32")
    )
    frame = frame.astype({name: name for name in kinds}).set_index(pd.Index(range(100, 160), name="who"))
    frame.loc[101, "x"] = np.nan
    getattr(frame, f"to_{ending}")(tmp_path / f"t.{ending}")
    if model == "masked-net":
        table, model = read_table(tmp_path / f"t.{ending}", words=True), str(tmp_path / "model")
        me.models.MaskedNetwork(len(table.columns), 4, 1).fit(table, epochs=1).save(model)
    out = tmp_path / f"f.{ending}"
    fill_table(model, str(tmp_path / f"t.{ending}"), ImputeOptions(out))
    filled = getattr(pd, f"read_{ending}")(out)
    assert filled.index.equals(frame.index)
    assert not filled[frame.columns].isna().any(axis=None)
    for name in frame.columns:
        seen = frame[name].notna()
        assert filled[name][seen].tolist() == frame[name][seen].tolist(), name
        old, new = str(frame[name].dtype), str(filled[name].dtype)
        if seen.all() or "loat" in old or (filled[name] == filled[name].round()).all():
            assert new == old
        else:
            assert new == ("double[pyarrow]" if "pyarrow" in old else "Float64")
    fill_table(model, str(tmp_path / f"t.{ending}"), ImputeOptions(out, draws=2, overwrite=True))
    assert len(getattr(pd, f"read_{ending}")(out)) == 120


@pytest.mark.parametrize("sign", [".", ","])
def test_filled_numbers_have_as_many_digits_as_their_column(tmp_path: Path, sign: str) -> None:
    """Halves written as 1.50: a filled 7.5 or 7 is 7.50 or 7.00."""
    rng = np.random.default_rng(0)
    x = rng.integers(2, 40, 30) / 2
    rows = [f"{k};{a:.2f};{a + b:.1f}" for k, (a, b) in enumerate(zip(x, rng.normal(size=30), strict=True))]
    rows[4] = f"4;;{x[4]:.1f}"
    (tmp_path / "t.csv").write_text("\n".join(["n;half;y", *rows]).replace(".", sign))
    fill_table("gaussian", str(tmp_path / "t.csv"), ImputeOptions(tmp_path / "f.csv"))
    filled = (tmp_path / "f.csv").read_text().splitlines()[5].split(";")
    assert re.fullmatch(rf"\d+{re.escape(sign)}\d0", filled[1])
