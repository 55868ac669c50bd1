"""Cells that are no number among numbers: hidden by all commands, listed first by cells, filled if asked."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from command_line import CommandLine


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two tables, each with a typing error, the second of right rows otherwise."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name, odd in (("t.csv", "17o.2"), ("right.csv", "l80")):
        x = rng.normal([170, 70], [9, 8], (80, 2)).round(1).astype(str)
        x[40, 0], x[50, 1] = odd, ""
        Path(name).write_text("height,weight\n" + "".join(f"{a},{b}\n" for a, b in x))
    return tmp_path


@pytest.mark.parametrize("model", ["kernel-gaussian", "gaussian", "auto"])
def test_cells_list_them_first(folder: Path, run: CommandLine, model: str) -> None:
    for more in ((), ("--trusted", "right.csv")):
        assert run("cells", model, "t.csv", "--json", "c.json", "--overwrite", *more, "--folds", 3).code == 0
        cells = json.loads(Path("c.json").read_text())["cells"]
        assert (cells[0]["value"], cells[0]["row"], cells[0]["fault"]) == ("17o.2", 40, "not a number")
        assert not cells[0]["called"]
        assert all(cell["fault"] != "not a number" for cell in cells[1:])


def test_many_of_one_column_leave_room_for_others(folder: Path, run: CommandLine) -> None:
    lines = Path("t.csv").read_text().splitlines()
    rows = [
        lines[0],
        *(f"{k}x,{line.split(',')[1]}" if k % 11 == 5 else line for k, line in enumerate(lines[1:])),
    ]
    rows[3] = "170.0,999.9"
    Path("many.csv").write_text("\n".join(rows) + "\n")
    said = run("cells", "gaussian", "many.csv", "--folds", 3).out.split("The worst rows")[0].split()
    assert "999.9" in said
    assert [word for word in said if word.endswith("x")] == ["5x", "16x", "27x"]


def test_saved_models_meet_them_the_same_way(folder: Path, run: CommandLine) -> None:
    assert run("train", "gaussian", "t.csv", "--epochs", 5, "--out", "chosen").code == 0
    for words in (("score", "chosen", "right.csv"), ("cells", "chosen", "right.csv")):
        said = run(*words)
        assert said.code == 0, said.err
        assert "1 cell is not a number: kept as it is, hidden from the model (line 42: 'l80')" in " ".join(
            said.out.split()
        )
    Path("short.csv").write_text(
        "height,weight\n17o,60.5\n180.5,71.5\n"
    )  # half of the cells: the model's word counts
    assert run("score", "chosen", "short.csv").code == 0


def test_impute_fills_them_if_asked(folder: Path, run: CommandLine) -> None:
    assert run("impute", "gaussian", "t.csv", "--out", "f.csv").code == 0
    kept = pd.read_csv("f.csv", dtype=str)
    assert kept["height"][40] == "17o.2"
    assert "height_sd" not in kept
    assert float(kept["weight"][50])
    assert run("impute", "gaussian", "t.csv", "--out", "g.csv", "--fill-odd").code == 0
    filled = pd.read_csv("g.csv")
    assert 140 < filled["height"][40] < 200
    assert filled["height_sd"][40] > 0
    assert run("impute", "gaussian", "t.csv", "--out", "h.parquet").code == 0
    assert pd.read_parquet("h.parquet")["height"][40] == "17o.2"
