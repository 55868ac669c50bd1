"""Scoring and summarizing without the command line: the numbers of a run, of shards and of one in memory."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import maskevidence as me
from maskevidence.command.options import RunOptions
from maskevidence.command.score import score
from maskevidence.command.summarize import summarize
from maskevidence.tables.by_name import new_model
from maskevidence.tables.table_options import RowOptions
from maskevidence.texts.text_options import TextOptions

DESIGN = "every-size:2"


def scored(
    model: str, data: str, design: str | None = None, how: RowOptions | TextOptions = RowOptions(), **run: Any
) -> Mapping[str, Any]:
    """What the command gives as JSON."""
    return score(model, data, design, options=how, run=RunOptions(**run)).content


def test_in_memory_and_in_a_run_the_same_numbers(
    four_columns: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    how = RowOptions(seed=1, test_fraction=0.5)
    found = scored("ppca:1", four_columns, DESIGN, how)
    assert found["n_observations"] == 30
    assert any("dropped 1 constant column " in note for note in found["notes"])
    saved = scored("ppca:1", four_columns, DESIGN, how, out=tmp_path / "r")
    for name in ("log_evidence", "mask_se", "mask_df", "data_se", "closed_form", "per_token"):
        assert saved[name] == pytest.approx(found[name], rel=1e-9)
    assert saved["notes"] == found["notes"]
    assert scored("ppca:1", four_columns, DESIGN, how, out=tmp_path / "r") == saved
    assert json.loads((tmp_path / "r" / "estimate.json").read_text()) == saved
    assert summarize([tmp_path / "r"]).content["log_evidence"] == saved["log_evidence"]
    assert capfd.readouterr() == ("", "")


def test_a_run_that_is_continued_keeps_its_replicates(four_columns: str, tmp_path: Path) -> None:
    """They are 4 of 4 draws, and would be 8 of 8 draws in a new run."""
    assert scored("gaussian", four_columns, "random-size:4", out=tmp_path / "r")["n_masks"] == 48
    more = scored("gaussian", four_columns, "random-size:8", out=tmp_path / "r")
    assert (more["n_masks"], more["design"]["replicates"]) == (96, 4)
    with pytest.raises(me.InputError, match="replicates 8 instead of 4"):
        scored("gaussian", four_columns, "random-size:8,replicates=8", out=tmp_path / "r")
    again = scored("gaussian", four_columns, "random-size:8", out=tmp_path / "r", overwrite=True)
    assert again["design"]["replicates"] == 8


@pytest.mark.parametrize(("limit", "draws"), [(1, 40), (2, 24), (None, 8)])
def test_a_few_texts_have_more_draws_by_default(
    limit: int | None, draws: int, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many that their error is known, and smaller than the estimate."""
    monkeypatch.chdir(world)
    how = TextOptions(limit=limit)
    found = scored("models/bert", "data/texts.jsonl", None, how, out=tmp_path / "r")
    assert found["design"]["draws"] == draws
    assert any("random sizes per text instead of 8" in note for note in found["notes"]) == (draws > 8)
    low, high = found["interval_95"]
    assert (high - low) / 2 < -found["log_evidence"]
    assert scored("models/bert", "data/texts.jsonl", None, how, out=tmp_path / "r") == found
    few = scored("models/bert", "data/texts.jsonl", "random-size:4", how)
    assert few["design"]["draws"] == 4


def test_sizes_follow_the_held_out_rows_in_shards_too(four_columns: str, tmp_path: Path) -> None:
    """The position of a row is that among all rows of the run, of which a shard scores some."""
    design, how = "random-size", RowOptions(seed=1, test_fraction=0.5)
    whole = scored("gaussian", four_columns, design, how)
    shards = [tmp_path / str(k) for k in (1, 2)]
    for k, out in enumerate(shards, 1):
        scored("gaussian", four_columns, design, how, out=out, shard=f"{k}/2")
    result = summarize(shards).content
    for name in ("log_evidence", "mask_se"):
        assert result[name] == pytest.approx(whole[name], rel=1e-9)


def test_a_new_model_leaves_out_what_is_constant(four_columns: str) -> None:
    rows = me.data.read_table(four_columns)
    model, dropped = new_model(lambda n: me.models.PPCA(n, 1), rows, rows)
    assert (model.n_features, model.columns, dropped) == (3, ["a", "b", "c"], ["same"])
    binary = replace(rows, values=(rows.values > 0).astype(float))
    model, dropped = new_model(lambda n: me.models.BernoulliPCA(n, 1), binary, binary)
    assert (model.n_features, dropped) == (4, [])
    same = rows.select(["same"])
    with pytest.raises(me.InputError, match="is constant; there is nothing to train on"):
        new_model(lambda n: me.models.Gaussian(n_features=n), same, same, "train on")
