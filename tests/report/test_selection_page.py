"""The page of a selection: candidates, holes, outlying rows."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.data import read_table
from maskevidence.tables.selection_page import read_selection

pytest.importorskip("matplotlib", reason="the extra plots is not installed")


@pytest.fixture
def chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: CommandLine) -> Path:
    """A selection on a table with holes, words for them, and one absurd cell."""
    monkeypatch.chdir(tmp_path)
    x = me.models.PPCA(4, 1, seed=1).sample(80, seed=2)
    frame = pd.DataFrame(x, columns=list("abcd")).round(4)
    frame.insert(0, "who", [f"row {k}" for k in range(80)])
    frame["note"] = "text"
    frame.loc[7, "c"] = 900.0
    frame = frame.astype(object)
    frame.loc[[3, 5, 9], "b"] = "?"
    frame.to_csv("t.csv", index=False)
    words = "--id-column who --missing ? --drop note --components 1-2 --folds 3 --out chosen"
    result = run("select", "factor-analysis,gaussian", "t.csv", *words.split())
    assert result.code == 0, result.err
    return Path("chosen")


def test_the_page_says_what_was_chosen_what_is_missing_and_which_cell_is_odd(
    chosen: Path, run: CommandLine
) -> None:
    result = run("report", chosen, "--out", "page.html")
    assert result.code == 0, result.err
    html = Path("page.html").read_text()
    text = " ".join(re.sub(r"<(style|script|svg).*?</\1>|<[^>]+>", " ", html, flags=re.S).split())
    said = json.loads((chosen / "selection.json").read_text())
    assert f"Chosen: {said['choice']}, highest held-out log evidence" in text
    for candidate in said["candidates"]:
        assert f" {candidate['name']} " in text
    assert re.search(r"far below the others: row 7 \([^)]*c = 900\)", text)
    assert "maskevidence select factor-analysis,gaussian t.csv" in text
    assert "3 candidates, each fitted in 3 folds" in text


def test_known_values_are_filled_as_holes_are(chosen: Path) -> None:
    selection = read_selection(chosen)
    assert selection.holes is not None
    ((name, holes, error, without),) = selection.holes.rows
    table = read_table("t.csv", id_column="who", missing=["?"], drop=["note"])
    model = me.models.load(chosen / "model")
    wrong, b = [], table.values[:, 1]
    for row in np.flatnonzero(~np.isnan(b)):  # one at a time
        x = table.values[row : row + 1].copy()
        x[0, 1] = np.nan
        wrong.append(model.impute(x).values[0, 1] - b[row])
    assert (name, holes, error) == ("b", "3", f"{np.sqrt(np.mean(np.square(wrong))):.3g}")
    assert without == f"{np.nanstd(b):.3g}"
    assert "RMSE" in selection.holes.title


def test_what_cannot_be_shown_is_one_line(chosen: Path, run: CommandLine) -> None:
    assert "is a selection, which has a page of its own" in run("report", chosen, chosen).error
    file = chosen / "selection.json"
    content = json.loads(file.read_text())
    for name in ("candidates", "data", "smallest"):
        file.write_text(json.dumps(content | {name: []}))
        assert "selection.json' was changed after it was written; select" in run("report", chosen).error
    file.write_text(json.dumps(content))
    Path("t.csv").unlink()
    assert "t.csv" in run("report", chosen).error
    assert not Path("report.html").exists()
