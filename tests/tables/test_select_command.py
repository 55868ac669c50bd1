"""maskevidence select: one table, one picture, and the chosen model in a folder."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from command_line import CommandLine, files_in
from maskevidence.runs import read_run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    x = me.models.PPCA(6, 2, seed=1).sample(120, seed=2)
    frame = pd.DataFrame(x, columns=list("abcdef"))
    frame.insert(0, "who", [f"row {k}" for k in range(120)])
    frame.loc[3, "b"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


WORDS = ("select", "ppca,gaussian", "t.csv", "--id-column", "who", "--components", "1-4", "--folds", 3)


def test_a_table_a_picture_and_the_chosen_model(folder: Path, run: CommandLine) -> None:
    result = run(*WORDS, "--out", "chosen", "--json", "r.json")
    assert result.code == 0, result.err
    assert "Chosen: ppca:2, highest held-out log evidence" in result.out
    assert {"selection.json", "selection.csv", "selection.png", "model/config.json"} <= files_in(
        folder / "chosen"
    )
    said = json.loads((folder / "r.json").read_text())
    written = json.loads((folder / "chosen" / "selection.json").read_text())
    assert said == {name: value for name, value in written.items() if name != "seal"}
    assert (said["choice"], said["folds"], said["options"]) == ("ppca:2", 3, {"id_column": "who"})
    ranked = pd.read_csv(folder / "chosen" / "selection.csv")
    assert ranked["log_evidence"].is_monotonic_decreasing
    assert me.models.load(folder / "chosen" / "model").columns == list("abcdef")
    filled = run("impute", "chosen/model", "t.csv", "--id-column", "who", "--out", "f.csv")
    assert filled.code == 0, filled.err


def test_a_folder_that_holds_something_is_refused(folder: Path, run: CommandLine) -> None:
    assert run(*WORDS, "--out", "chosen").code == 0
    assert (
        "'chosen' holds another selection; give another folder, or --overwrite"
        in run(*WORDS, "--out", "chosen").error
    )
    assert run(*WORDS, "--out", "chosen", "--overwrite").code == 0
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.tex").write_text("Once upon a time")
    assert "holds files that belong to no selection" in run(*WORDS, "--out", "mine").error


def test_without_matplotlib_the_rest_is_written(
    folder: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture of the selection that was in the folder before is not left beside the new one."""
    assert run(*WORDS, "--out", "chosen").code == 0
    assert (folder / "chosen" / "selection.png").exists()
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    result = run(*WORDS, "--out", "chosen", "--overwrite")
    assert result.code == 0, result.err
    assert "selection.png was not drawn" in result.out
    assert not (folder / "chosen" / "selection.png").exists()


def test_nothing_is_typed_twice(run: CommandLine, tmp_path: Path) -> None:
    """The chosen model knows its columns, the words for missing values and the column of names."""
    rng, table = np.random.default_rng(0), tmp_path / "messy.csv"
    x = rng.normal(size=(40, 1)) + 0.3 * rng.normal(size=(40, 3))
    rows = [f"s{k};{a};{b:.4f};{c:.4f};red" for k, (a, b, c) in enumerate(x)]
    rows[3] = "s3;gap;0.5;gap;red"
    table.write_text("\n".join(["sample;a;b;c;colour", *rows]))
    words = ("--id-column", "sample", "--missing", "gap", "--drop", "colour")
    assert run("select", "ppca:1,gaussian", table, *words, "--out", tmp_path / "chosen").code == 0
    model = tmp_path / "moved"  # the model itself knows
    (tmp_path / "chosen" / "model").replace(model)
    result = run("impute", model, table, "--out", tmp_path / "filled.csv")
    assert result.code == 0, result.err
    assert "--missing gap --id-column sample" in " ".join(result.out.split())
    assert (tmp_path / "filled.csv").read_text().splitlines()[4].startswith("s3;")
    assert run("score", model, table, "--out", tmp_path / "run").code == 0
    assert read_run(tmp_path / "run").estimate.names[3] == "s3"
    said = " ".join(run("score", model, table, "--missing", "zero").out.split())
    assert "column 'a': 1 cell is not a number: kept as it is, hidden from the model (line 5: 'gap')" in said
