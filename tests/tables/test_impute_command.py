"""maskevidence impute: the holes filled, everything else as it was."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from command_line import CommandLine

NAN = float("nan")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    """Two factors in four columns, with names of the rows, a text, categories, a constant and holes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2)).repeat(2, axis=1) + 0.3 * rng.normal(size=(60, 4))
    x[rng.random(x.shape) < 0.15] = NAN
    frame = pd.DataFrame(x, columns=list("bdac"))
    frame["n"] = np.where(np.arange(60) % 7, np.arange(60.0).round(), NAN)
    frame.insert(0, "who", [f"row {k}" for k in range(60)])
    frame.insert(3, "remark", "as it is")
    frame["same"] = np.where(np.arange(60) % 9, 4.0, NAN)
    return frame


@pytest.fixture
def folder(tmp_path: Path, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> Path:
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


USED = ("--id-column", "who", "--drop", "remark")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_lines_end_as_in_the_file(folder: Path, run: CommandLine, end: str) -> None:
    rows = [f'{k % 7}.{k % 10},{k % 7}.5,"word, {k}"' for k in range(60)]
    rows[4], rows[30] = ',1.5,"two\nlines"', '5.0,2.5,"word, 30"'
    text = end.join(["a,b,c", *rows, ""])
    (folder / "ends.csv").write_text(text, newline="")
    assert run("impute", "gaussian", "ends.csv", "--drop", "c", "--out", "filled.csv").code == 0
    filled = (folder / "filled.csv").read_bytes().decode().split(end)
    assert filled[0] == "a,b,c,a_sd"
    known = [line.removesuffix(",0") for line in filled]
    given = text.split(end)
    assert (known[1:5], known[7:]) == (given[1:5], given[7:])  # the fifth row has the hole


def test_columns_rows_and_what_was_known_stay_as_they_are(
    folder: Path, run: CommandLine, frame: pd.DataFrame
) -> None:
    result = run("impute", "factor-analysis:2", "t.csv", "--out", "filled.csv", *USED, "--json", "r.json")
    assert result.code == 0, result.err
    filled = pd.read_csv(folder / "filled.csv")
    assert filled.columns.tolist() == [*frame.columns, *(f"{name}_sd" for name in "bdacn")]
    known = frame.notna()
    assert (filled[frame.columns][known].fillna(0) == frame[known].fillna(0)).all(axis=None)
    assert not filled.isna().any(axis=None)
    numbers = frame[list("bdacn")]
    model = me.models.FactorAnalysis(5, 2).fit(numbers)
    expected = model.impute(numbers)
    np.testing.assert_allclose(filled[list("bdac")], expected.values[:, :4], rtol=1e-6)
    np.testing.assert_allclose(filled["n"], expected.values[:, 4].round(), rtol=1e-6)  # whole, as the others
    sds = filled[[f"{name}_sd" for name in "bdacn"]]
    np.testing.assert_allclose(sds, np.sqrt(expected.variance), rtol=1e-6)
    assert (filled["same"] == 4).all()
    said = json.loads((folder / "r.json").read_text())
    assert said["n_filled"] == int(frame[[*"bdacn", "same"]].isna().sum().sum())
    assert said["columns"][0]["name"] == "b"
    assert any("filled by the one value that they have: same" in note for note in said["notes"])
    assert "sd of the column" in result.out


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv.gz", "tsv"])
def test_the_ending_names_the_form(folder: Path, run: CommandLine, ending: str) -> None:
    assert run("impute", "gaussian", "t.parquet", "--out", f"f.{ending}", *USED, "--limit", 40).code == 0
    assert run("impute", "gaussian", "t.csv", "--out", "f.csv", *USED, "--limit", 40).code == 0
    read = {
        "parquet": pd.read_parquet,
        "feather": pd.read_feather,
        "csv.gz": pd.read_csv,
        "tsv": lambda file: pd.read_csv(file, sep="\t"),
    }[ending]
    pd.testing.assert_frame_equal(
        pd.read_csv("f.csv"), read(f"f.{ending}"), check_dtype=False, rtol=1e-9, check_column_type=False
    )


def test_draws_stand_below_each_other(folder: Path, run: CommandLine, frame: pd.DataFrame) -> None:
    words = ("impute", "ppca:2", "t.csv", "--draws", 3, *USED)
    assert run(*words, "--out", "draws.csv").code == 0
    drawn = pd.read_csv(folder / "draws.csv")
    assert drawn.columns.tolist() == ["draw", *frame.columns]
    assert drawn["draw"].tolist() == np.repeat([1, 2, 3], 60).tolist()
    numbers = frame[list("bdacn")]
    model = me.models.PPCA(5, 2).fit(numbers)
    expected = me.draw_missing(model, numbers, draws=3, seed=0)
    expected = expected.reshape(-1, 5)
    np.testing.assert_allclose(drawn[list("bdac")], expected[:, :4], rtol=1e-5)
    above = expected[:, 4] >= 0
    np.testing.assert_allclose(drawn["n"][above], expected[above, 4].round(), rtol=1e-5)
    assert (drawn["n"] >= 0).all()  # as all known counts
    assert (drawn["who"] == [*frame["who"]] * 3).all()
    assert run(*words, "--out", "more.csv", "--seed", 1).code == 0
    assert (pd.read_csv(folder / "more.csv")["b"] != drawn["b"]).any()


def test_a_saved_model_fills_the_columns_that_it_knows(
    folder: Path, run: CommandLine, frame: pd.DataFrame
) -> None:
    model = me.models.Gaussian(n_features=2).fit(frame[["d", "a"]].dropna(how="all"))
    model.save(folder / "model")
    assert run("impute", "model", "t.csv", "--out", "f.csv", "--drop", "who,remark").code == 0
    filled = pd.read_csv(folder / "f.csv")
    expected = model.impute(frame[["d", "a"]]).values
    np.testing.assert_allclose(filled[["d", "a"]], expected, rtol=1e-12)
    assert filled["b"].isna().sum() == frame["b"].isna().sum()
    assert filled.columns.tolist() == [*frame.columns, "d_sd", "a_sd"]


def test_categories_are_filled_by_the_likeliest(folder: Path, run: CommandLine) -> None:
    rng = np.random.default_rng(1)
    group = rng.integers(3, size=90)
    colours = np.array(["blue", "green", "red"])[group].astype(object)
    colours[::6] = None
    data = pd.DataFrame({"colour": colours, "a": group + 0.1 * rng.normal(size=90), "b": rng.normal(size=90)})
    data["c"] = (group == 1) + 0.1 * rng.normal(size=90)
    data.loc[3, "b"] = NAN
    data.to_csv(folder / "g.csv", index=False)
    assert run("impute", "gaussian", "g.csv", "--one-hot", "colour", "--out", "f.csv").code == 0
    filled = pd.read_csv(folder / "f.csv")
    assert filled.columns.tolist() == ["colour", "a", "b", "c", "b_sd"]
    truth = np.array(["blue", "green", "red"])[group]
    assert (filled["colour"] == truth).mean() == 1.0


def test_whole_numbers_of_few_values_are_filled_with_values_that_exist(
    folder: Path, run: CommandLine, frame: pd.DataFrame, few_steps: None
) -> None:
    frame = frame.assign(sex=np.where(frame["b"].fillna(0) > 0, 2.0, 1.0)).drop(columns=["n", "same"])
    frame.loc[[2, 5], "sex"] = NAN
    frame.to_csv("sex.csv", index=False)
    result = run("impute", "gaussian", "sex.csv", "--out", "g.csv", *USED, "--json", "r.json")
    assert result.code == 0, result.err
    new = pd.read_csv("g.csv")["sex"][[2, 5]]
    assert new.isin([1, 2]).all()
    assert not pd.read_csv("g.csv")["sex_mean"][[2, 5]].isin([1, 2]).any()
    notes = json.loads(Path("r.json").read_text())["notes"]
    assert "filled with the nearest value that the column has, its mean in a column NAME_mean: sex" in notes
    assert not any("two values" in note for note in notes)
    result = run("impute", "masked-net:8x1", "sex.csv", "--out", "n.csv", *USED)
    assert result.code == 0, result.err
    assert "two values" not in result.out


def test_a_table_without_holes_is_written_as_it_is(folder: Path, run: CommandLine) -> None:
    (folder / "w.csv").write_text("a;b\n1;2\n3;5\n4;9\n")
    result = run("impute", "gaussian", "w.csv", "--out", "f.csv")
    assert "no value is missing: the table is written as it is" in result.out
    assert pd.read_csv(folder / "f.csv", sep=";").to_numpy().tolist() == [[1, 2], [3, 5], [4, 9]]


ASIDE = [
    "00123",
    "12345678901234567891",
    "NA",
    "1e5",
    "TRUE",
    '"NA"',
    '"two, parts"',
    "",
    " x ",
    "+4",
    "2024-1-1",
]


def table_with_cells_aside(delimiter: str = ",", decimal: str = ".") -> list[str]:
    """Lines of a column that is not data, and of three that are, each with some way to write its numbers."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(33, 1)) + 0.3 * rng.normal(size=(33, 3))
    cells = [[f"{value:.4f}".replace(".", decimal) for value in row] for row in x]
    for row in range(0, 33, 4):
        cells[row][1] = ("", "?", "NA")[row % 3]
    cells[2][2] = f"{decimal}50"
    lines = [delimiter.join(["aside", "a", '"b"', "c"])]
    return [*lines, *(delimiter.join([ASIDE[row % 11], *each]) for row, each in enumerate(cells))]


@pytest.mark.parametrize(("delimiter", "decimal"), [(",", "."), ("\t", "."), ("|", ",")])
def test_cells_that_are_not_filled_are_copied_as_text(
    folder: Path, run: CommandLine, delimiter: str, decimal: str
) -> None:
    lines = table_with_cells_aside(delimiter, decimal)
    if delimiter != ",":
        lines = [line.replace('"two, parts"', "two, parts") for line in lines]
    (folder / "c.csv").write_text("\r\n".join(lines))
    given = list(csv.reader(lines, delimiter=delimiter))
    words = ("impute", "ppca:1", "c.csv", "--drop", "aside", "--missing", "?", "--delimiter", delimiter)
    assert run(*words, "--out", "f.csv").code == 0
    written = list(csv.reader((folder / "f.csv").read_text().splitlines(), delimiter=delimiter))
    assert written[0] == [*given[0], "b_sd"]
    for row, (before, after) in enumerate(zip(given[1:], written[1:], strict=True)):
        if row % 4:
            assert after == [*before, "0"]
        else:
            assert [*after[:2], after[3]] == [*before[:2], before[3]]
            assert abs(float(after[2].replace(decimal, "."))) < 5
    again = run(
        "impute", "ppca:1", "f.csv", "--drop", "aside", "--delimiter", delimiter, "--out", "again.csv"
    )
    assert "no value is missing" in again.out
    assert (folder / "again.csv").read_text() == (folder / "f.csv").read_text()


def test_cells_are_copied_into_other_forms(folder: Path, run: CommandLine) -> None:
    lines = table_with_cells_aside()
    (folder / "c.csv").write_text("\n".join(lines).replace("two, parts", "two\tparts"))
    texts = [cell.strip('"').replace("two, parts", "two\tparts") for cell in ASIDE] * 3
    words = ("impute", "ppca:1", "c.csv", "--drop", "aside", "--missing", "?", "--limit", 30)
    assert run(*words, "--out", "f.parquet").code == 0
    filled = pd.read_parquet(folder / "f.parquet")
    assert filled["aside"].tolist() == texts[:30]
    assert [kind.kind for kind in filled[["a", "b", "c", "b_sd"]].dtypes] == ["f"] * 4
    assert run(*words, "--out", "f.tsv", "--draws", 2).code == 0
    drawn = pd.read_csv(folder / "f.tsv", sep="\t", dtype=str, keep_default_na=False)
    assert drawn["aside"].tolist() == texts[:30] * 2
    assert drawn["draw"].tolist() == ["1"] * 30 + ["2"] * 30


def test_categories_stay_what_they_are(folder: Path, run: CommandLine) -> None:
    cells = ["01", "1", "2", ""] * 10
    values = np.random.default_rng(0).normal(size=40)
    rows = [f"{cell},{value}" for cell, value in zip(cells, values, strict=True)]
    (folder / "g.csv").write_text("c,a\n" + "\n".join(rows) + "\n")
    assert run("impute", "gaussian", "g.csv", "--one-hot", "c", "--out", "f.csv").code == 0
    written = [line.split(",")[0] for line in (folder / "f.csv").read_text().splitlines()[1:]]
    assert [new for old, new in zip(cells, written, strict=True) if old] == [old for old in cells if old]
    assert set(written) <= {"01", "1", "2"}
    numbers = pd.DataFrame({"c": pd.array([3, 1, 2, None] * 10, "Int64"), "a": values})
    numbers.to_parquet(folder / "g.parquet")
    assert run("impute", "gaussian", "g.parquet", "--one-hot", "c", "--out", "f.parquet").code == 0
    filled = pd.read_parquet(folder / "f.parquet")["c"]
    assert filled.dtype.kind == "i"
    assert set(filled) <= {1, 2, 3}


def test_columns_of_unlike_units_are_noted_for_ppca(folder: Path, run: CommandLine) -> None:
    assert "use factor-analysis, which does not depend on units" in " ".join(
        run("impute", "ppca:1", "t.csv", "--out", "f.csv", *USED).out.split()
    )


def test_options_of_tables_belong_to_every_command_that_reads_them(folder: Path, run: CommandLine) -> None:
    """`--id-column` and `--missing` for score, check and train."""
    for command in ("score", "check"):
        result = run(command, "gaussian", "t.csv", *USED, "--columns", "b,d,a")
        assert result.code == 0, result.err
    result = run("train", "ppca:1", "t.csv", *USED, "--columns", "b,d,a", "--epochs", 1, "--out", "trained")
    assert result.code == 0, result.err


def test_the_names_of_rows_reach_the_observations_of_a_run(folder: Path, run: CommandLine) -> None:
    result = run("score", "ppca:1", "t.csv", *USED, "--columns", "b,d,a,c", "--out", "run")
    assert result.code == 0, result.err
    observations = pd.read_csv(folder / "run" / "observations.csv")
    assert (observations["label"] == [f"row {k}" for k in observations["id"]]).all()


def test_kernel_gaussian_has_its_word(folder: Path, run: CommandLine) -> None:
    assert run("impute", "kernel-gaussian", "t.csv", "--out", "f.csv", *USED, "--columns", "b,d").code == 0
    score = run("score", "kernel-gaussian", "t.csv", *USED, "--columns", "b,d,a,c", "--out", "run")
    assert score.code == 0, score.err
    assert isinstance(me.models.load(folder / "run" / "model"), me.models.KernelGaussian)
