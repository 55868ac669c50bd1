"""maskevidence cells: the table, the page and the JSON of a run, and the calls as holes of impute."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from command_line import CommandLine

WORDS = ("cells", "gaussian", "t.csv", "--id-column", "who")
TRUSTED = ("--trusted", "trusted.csv")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with names of the rows, twelve cells of which are wrong, and trusted rows."""
    x = me.models.PPCA(n_features=4, n_components=2, seed=1).sample(400, seed=0).round(2)
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame.insert(0, "who", [f"p{k}" for k in range(400)])
    frame[:200].to_csv(tmp_path / "trusted.csv", index=False)
    frame.loc[200:211, "c"] += 30
    frame.loc[250, "d"] = np.nan
    frame[200:].to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_calls_are_written_shown_and_filled(folder: Path, run: CommandLine) -> None:
    result = run(*WORDS, *TRUSTED, "--out", "found", "--json", "r.json")
    assert result.code == 0, result.err
    cells = pd.read_csv(folder / "found" / "cells.csv")
    called = cells[cells["called"]]
    assert set(called["row"][called["column"] == "c"]) == set(range(12))
    assert set(cells["label"][:12]) == {f"p{k}" for k in range(200, 212)}
    said = json.loads((folder / "r.json").read_text())
    assert said["n_called"] == len(called)
    assert said["n_trusted"] == 200
    assert said["cells"][0]["suspicion"] == cells["suspicion"][0]
    assert "called wrong" in result.out
    page = (folder / "found" / "cells.html").read_text()
    assert page.count("<mark>") >= 12
    assert "p200" in page
    assert "% of such calls are false on average" in page
    assert all(made in page for made in ("How it was made", "maskevidence cells", "t.csv", "torch "))
    filling = ("impute", "gaussian", "t.csv", "--id-column", "who", "--wrong", "found/cells.csv")
    assert run(*filling, "--out", "mended.csv").code == 0
    given, mended = pd.read_csv("t.csv"), pd.read_csv("mended.csv")
    places = {(row, name) for row, name in zip(called["row"], called["column"], strict=True)} | {(50, "d")}
    changed = (mended[list("abcd")] != given[list("abcd")]).to_numpy()
    assert {(int(i), "abcd"[j]) for i, j in np.argwhere(changed)} == places
    assert mended["c"][:12].abs().max() < 15


def test_a_saved_model_remembers_how_its_table_was_read(folder: Path, run: CommandLine) -> None:
    train = (
        "train",
        "gaussian",
        "trusted.csv",
        "--id-column",
        "who",
        "--out",
        "m",
        "--objective",
        "likelihood",
    )
    assert run(*train).code == 0
    result = run("cells", "m", "t.csv", "--json", "r.json")
    assert result.code == 0, result.err
    said = json.loads((folder / "r.json").read_text())
    assert {cell["label"] for cell in said["cells"][:12]} == {f"p{k}" for k in range(200, 212)}
    assert any("no trusted rows" in note for note in said["notes"])


def test_another_folder_is_not_overwritten(folder: Path, run: CommandLine) -> None:
    assert run(*WORDS, "--out", "found").code == 0
    again = run(*WORDS, "--out", "found")
    assert again.code == 2
    assert "holds wrong cells" in again.err
    assert run(*WORDS, "--out", "found", "--overwrite").code == 0
    (folder / "other").mkdir()
    (folder / "other" / "thesis.tex").write_text("x")
    assert "belong to no wrong cells" in run(*WORDS, "--out", "other").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*WORDS, "--rate", "1.5"), "rate=1.5; give a share of false calls"),
        ((*WORDS, "--trusted", "none.csv"), "there is no file 'none.csv'"),
        (("cells", "gpt2", "t.csv"), "gpt2"),
        (("cells", "gaussian", "t.csv"), "who"),
        (("impute", "gaussian", "t.csv", "--drop", "who", "--wrong", "t.csv"), "is not a cells.csv"),
        (("impute", "gaussian", "t.csv", "--drop", "who", "--wrong", "none.csv"), "none.csv"),
    ],
)
def test_bad_input_has_one_line(folder: Path, run: CommandLine, words: tuple[str, ...], message: str) -> None:
    result = run(*words)
    assert result.code == 2
    assert message in result.err
    assert result.err.count("\n") == 1


def test_calls_of_another_table_are_refused(folder: Path, run: CommandLine) -> None:
    assert run(*WORDS, *TRUSTED, "--out", "found").code == 0
    pd.DataFrame({"x": range(9), "y": [3, 1, 2] * 3}).to_csv("u.csv", index=False)
    result = run("impute", "gaussian", "u.csv", "--wrong", "found/cells.csv")
    assert "is in this table" in result.err
