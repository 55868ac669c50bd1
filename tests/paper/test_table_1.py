"""Table 1 of the paper, with the draws of the published code."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import Result
from paper import table_1

# Computed independently, with the draws of the published code.
TRUE = -60.3436
CHECKED = {1: (-60.4447, 0.4749), 10: (-60.2226, 0.1299), 100: (-60.3409, 0.0300)}
P_1_BY_SEED = (-60.149, -60.580, -61.150, -59.898, -60.445)


@pytest.mark.slow
def test_agrees_with_the_checked_values(tmp_path: Path, paper: Callable[..., Result]) -> None:
    file = tmp_path / "t.json"
    result = paper("table-1", "--json", file, "--out", tmp_path / "table")
    assert result.code == 0
    assert "-60.34" in result.out
    content = json.loads(file.read_text())
    assert content["true"] == pytest.approx(TRUE, abs=1e-3)
    assert [row["masks_per_size"] for row in content["rows"]] == [1, 10, 100]
    for row in content["rows"]:
        mean, sd = CHECKED[row["masks_per_size"]]
        assert row["mean"] == pytest.approx(mean, abs=1e-3)
        assert row["sd"] == pytest.approx(sd, abs=1e-3)
    assert content["rows"][0]["estimates"] == pytest.approx(P_1_BY_SEED, abs=1e-3)
    assert (content["rows"][1]["paper_mean"], content["rows"][1]["paper_sd"]) == (-60.22, 0.12)
    lines = (tmp_path / "table" / "table_1.csv").read_text().splitlines()
    assert lines[0] == "masks_per_size,mean,sd,paper_mean,paper_sd"
    assert len(lines) == 4


def test_quick_and_with_other_seeds(paper: Callable[..., Result]) -> None:
    result = paper("table-1", "--quick", "--seeds", "4", "--json", "-")
    content = json.loads(result.out)
    assert content["true"] == pytest.approx(TRUE, abs=1e-3)
    assert [row["masks_per_size"] for row in content["rows"]] == [1, 10]
    assert content["rows"][0]["mean"] == pytest.approx(P_1_BY_SEED[0], abs=1e-3)
    assert content["rows"][0]["sd"] is None


@pytest.mark.parametrize("seeds", ["", "4,x", "1.5"])
def test_bad_seeds(paper: Callable[..., Result], seeds: str) -> None:
    error = paper("table-1", "--seeds", seeds).error
    assert "are not whole numbers between commas; write 4,44,444" in error


def test_places_that_cannot_be_written_are_refused_before_any_work(
    paper: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_1, "table_1", None)  # work would be an error of another type
    (tmp_path / "file").write_text("once upon a time")
    for words in (("--json", tmp_path), ("--json", tmp_path / "file" / "a"), ("--out", tmp_path / "file")):
        assert "cannot be written" in paper("table-1", *words).error
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert "cannot be written" in paper("table-1", "--out", tmp_path / "a/b", "--json", tmp_path / "a").error
