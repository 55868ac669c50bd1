"""A Parquet file that is scored by row groups has the scores of the file that is read at once."""

import gc
import itertools
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.packed_tokens import StoredTokens
from maskevidence.runs.blocks import rows_per_block
from maskevidence.tables import row_groups
from maskevidence.tables.reading.columns import FileOptions

NAMES = list("abcd")
SCORE = ("score", "model", "t.parquet", "--design", "random-size:4", "--out")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A saved model, fitted to a half of the rows of a file with another order of columns and a word."""
    monkeypatch.chdir(tmp_path)
    x = me.models.PPCA(n_features=4, n_components=2, seed=1).sample(520, seed=0)
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    frame = pd.DataFrame(x, columns=NAMES)
    frame = frame[~frame.isna().all(axis=1)].reset_index(drop=True)
    model = me.models.PPCA(n_features=4, n_components=2).fit(frame[:200].to_numpy())
    model.columns = NAMES
    model.save("model")
    frame[["c", "a", "d", "b"]].assign(word="w", whole=1).to_parquet("t.parquet", row_group_size=23)
    return tmp_path


@pytest.fixture
def too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every table is larger than the memory."""
    monkeypatch.setattr(row_groups, "COPIES", 2**50)


def stored(run: Path) -> list[bytes]:
    """What a run holds but its notes and command."""
    scores = [file.read_bytes() for file in sorted((run / "scores").iterdir())]
    named = ("curve.csv", "observations.csv", "closed_form.parquet")
    return [*scores, *((run / name).read_bytes() for name in named)]


def test_the_scores_are_equal_to_the_last_bit(
    folder: Path, run: CommandLine, request: pytest.FixtureRequest
) -> None:
    assert run(*SCORE, "whole").code == 0
    request.getfixturevalue("too_large")
    result = run(*SCORE, "groups", "--json", "r.json")
    assert result.code == 0, result.err
    assert stored(folder / "whole") == stored(folder / "groups")
    manifests = [json.loads((folder / name / "run.json").read_text()) for name in ("whole", "groups")]
    assert manifests[0]["data"]["fingerprint"] == manifests[1]["data"]["fingerprint"]
    n_groups = pq.ParquetFile("t.parquet").num_row_groups
    notes = json.loads((folder / "r.json").read_text())["notes"]
    assert notes[0] == f"read by {n_groups} row groups, since memory does not hold all rows at once"
    assert notes[1:] == manifests[0]["data"]["notes"]


def test_a_run_goes_on_by_row_groups(folder: Path, run: CommandLine, request: pytest.FixtureRequest) -> None:
    more = [word.replace(":4", ":8") for word in SCORE]
    for name in ("whole", "groups"):
        assert run(*SCORE, name).code == 0
    assert run(*more, "whole").code == 0
    request.getfixturevalue("too_large")
    assert run(*more, "groups").code == 0
    assert stored(folder / "whole")[-3:] == stored(folder / "groups")[-3:]


@pytest.mark.usefixtures("too_large")
def test_what_cannot_be_scored_by_row_groups(folder: Path, run: CommandLine) -> None:
    result = run(*SCORE[:-1])
    assert result.code == 2
    assert "larger than the memory that is free; give --out FOLDER" in result.err
    frame = pd.read_parquet("t.parquet")
    frame.loc[100, "b"] = np.inf
    frame.to_parquet("t.parquet", row_group_size=23)
    result = run(*SCORE, "bad")
    assert result.code == 2
    assert "has an infinite value in column 'b', row 8" in result.err
    assert "(rows counted from row 92 of the file)" in result.err
    frame.loc[100] = np.nan
    frame.to_parquet("t.parquet", row_group_size=23)
    result = run(*SCORE, "bad")
    assert result.code == 2
    assert "has no value in row 8" in result.err
    frame["b"] = frame["b"].astype(str)  # read at once, which says what does not fit
    frame.loc[100, "b"] = "x"
    frame.to_parquet("t.parquet", row_group_size=23)
    assert "column 'b': 1 cell is not a number" in " ".join(run(*SCORE, "odd").out.split())


CELLS = ("cells", "model", "t.parquet", "--trusted", "trusted.csv", "--out")


def test_without_trusted_rows_all_are_read_at_once_which_is_said_first(
    folder: Path, run: CommandLine, too_large: None
) -> None:
    result = run("cells", "model", "t.parquet", "--out", "alone")
    assert result.code == 0, result.err
    n_rows = pq.ParquetFile("t.parquet").metadata.num_rows
    assert f"note: without --trusted, all {n_rows:,} rows are read at once" in result.err


def test_other_readers_keep_their_memory_pool(folder: Path) -> None:
    before = pa.default_memory_pool().backend_name
    row_groups.RowGroups(me.models.load("model"), "t.parquet", FileOptions())
    assert pa.default_memory_pool().backend_name == before


@pytest.mark.parametrize("most", [None, 18])
def test_the_cells_of_row_groups_are_those_of_the_whole_file(
    folder: Path,
    run: CommandLine,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    most: int | None,
) -> None:
    frame = pd.read_parquet("t.parquet")
    frame[NAMES].iloc[320:].to_csv("trusted.csv", index=False)
    frame = frame.iloc[200:320].reset_index(drop=True)
    frame.loc[::8, "b"] += 15.0
    frame.to_parquet("t.parquet", row_group_size=23)
    assert run(*CELLS, "whole").code == 0
    request.getfixturevalue("too_large")
    if most is not None:
        monkeypatch.setattr("maskevidence.tables.wrong_cells.wrong_cells._MOST_KEPT", most)
    read, piece = list[int](), row_groups.RowGroups._table
    monkeypatch.setattr(
        row_groups.RowGroups, "_table", lambda self, x, first: read.append(first) or piece(self, x, first)
    )
    result = run(*CELLS, "groups")
    assert result.code == 0, result.err
    assert read == [0, *range(0, 120, 23)]  # the first piece tells the columns, then each is read once
    whole, groups = (json.loads((folder / name / "cells.json").read_text()) for name in ("whole", "groups"))
    counts = ("n_rows", "n_cells", "n_called", "n_calls", "n_trusted")
    assert [groups[name] for name in counts] == [whole[name] for name in counts]
    assert whole["n_calls"] >= 4
    kept = {(cell["row"], cell["column"]) for cell in groups["cells"]}
    listed = [cell for cell in whole["cells"] if (cell["row"], cell["column"]) in kept]
    assert (most is None) == (len(groups["cells"]) == len(whole["cells"]))
    for name in ("row", "column", "value", "called", "one_of", "fault", "suggestion"):
        assert [cell[name] for cell in groups["cells"]] == [cell[name] for cell in listed], name
    for name in ("suspicion", "p_value"):
        np.testing.assert_allclose(
            [cell[name] for cell in groups["cells"]], [cell[name] for cell in listed], atol=1e-9
        )
    notes = " ".join(groups["notes"])
    assert "row groups, since memory does not hold" in notes
    assert ("of the rows with a suspicious cell the 18 most suspicious" in notes) == (most is not None)
    again = run(*CELLS, "groups")
    assert "finds the cells again" in " ".join(again.out.split()), again.out


def test_a_block_of_wide_rows_has_a_million_cells() -> None:
    model, none = me.models.PPCA(n_features=500, n_components=1), torch.zeros(0, 500, dtype=torch.bool)
    n = 10**6
    tokens = StoredTokens(none.double(), none, none, torch.arange(n), counts=torch.full((n,), 500))
    assert rows_per_block(model, tokens, me.RandomSize(1), MaskKey(0, "own")) == 2**20 // 500


def test_a_piece_leaves_nothing_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What each piece leaves lies between freed pieces, so that the addresses of the process grow."""
    monkeypatch.chdir(tmp_path)
    x = me.models.PPCA(n_features=4, n_components=2, seed=1).sample(1600, seed=0)
    frame = pd.DataFrame(x, columns=NAMES)
    frame.to_parquet("t.parquet", row_group_size=4)
    model = me.models.PPCA(n_features=4, n_components=2).fit(x)
    model.columns = NAMES
    groups = row_groups.RowGroups(model, "t.parquet", FileOptions())
    whole, pieces = row_groups.converted, itertools.count()
    ours, left = tracemalloc.Filter(True, row_groups.__file__), list[int]()

    def counted(*args: Any, **options: Any) -> Any:
        """Count the memory that the reader of pieces has kept since piece 50; torch frees its own unseen."""
        number = next(pieces)
        if number == 50:
            tracemalloc.start()
        if number == 399:
            gc.collect()
            kept = tracemalloc.take_snapshot().filter_traces([ours]).statistics("filename")
            left.append(sum(each.count for each in kept))
        return whole(*args, **options)

    monkeypatch.setattr(row_groups, "converted", counted)
    try:
        _, counts = groups.checked()
    finally:
        tracemalloc.stop()
    assert counts.tolist() == [4] * 1600
    assert left[0] < 100  # of 349 pieces
