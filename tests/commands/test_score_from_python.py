"""Scoring and summarizing from Python: the numbers of the command line, without its output."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from maskevidence.commands.score import score
from maskevidence.commands.summarize import summarize
from maskevidence.kinds.options import RowOptions, RowReading, RowSample, RunOptions, TextOptions, TextSample
from maskevidence.kinds.rows import new_model, prepare

DESIGN = "every-size:2"


@pytest.fixture
def table(tmp_path: Path) -> str:
    rng = np.random.default_rng(0)
    values = np.column_stack([rng.normal(size=(60, 3)), np.ones(60)])
    np.savetxt(tmp_path / "t.csv", values, delimiter=",", header="a,b,c,same", comments="")
    return str(tmp_path / "t.csv")


def test_in_memory_and_in_a_run_the_same_numbers(
    table: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    how = RowOptions(RowSample(seed=1, test_fraction=0.5))
    scored = score("ppca:1", table, DESIGN, how)
    assert scored.result["n_observations"] == 30
    assert (scored.folder, scored.files, scored.tokens) == (None, (), None)
    assert any("dropped 1 constant column(s)" in note for note in scored.result["notes"])
    run = RunOptions(out=tmp_path / "r")
    saved = score("ppca:1", table, DESIGN, how, run)
    assert saved.folder == tmp_path / "r"
    assert {"run.json", "estimate.json", "curve.csv"} <= set(saved.files)
    for name in ("log_evidence", "mask_se", "mask_df", "data_se", "closed_form", "per_token"):
        assert saved.result[name] == pytest.approx(scored.result[name], rel=1e-9)
    assert saved.result["notes"] == scored.result["notes"]
    again = score("ppca:1", table, DESIGN, how, run)
    assert again.finished_before
    assert again.result == saved.result
    assert json.loads((tmp_path / "r" / "estimate.json").read_text()) == saved.result
    summary = summarize([tmp_path / "r"])
    assert summary.result["log_evidence"] == saved.result["log_evidence"]
    assert capfd.readouterr() == ("", "")


def test_a_run_that_is_continued_keeps_its_replicates(table: str, tmp_path: Path) -> None:
    """They are 4 of 4 draws, and would be 8 of 8 draws in a new run."""
    run = RunOptions(out=tmp_path / "r")
    assert score("gaussian", table, "random-size:4", run=run).result["n_masks"] == 48
    more = score("gaussian", table, "random-size:8", run=run).result
    assert (more["n_masks"], more["design"]["replicates"]) == (96, 4)
    with pytest.raises(me.InputError, match="replicates 8 instead of 4"):
        score("gaussian", table, "random-size:8,replicates=8", run=run)
    anew = RunOptions(out=tmp_path / "r", overwrite=True)
    again = score("gaussian", table, "random-size:8", run=anew).result
    assert again["design"]["replicates"] == 8


@pytest.mark.parametrize(("limit", "draws"), [(1, 40), (2, 24), (None, 8)])
def test_a_few_texts_have_more_draws_by_default(
    limit: int | None, draws: int, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So many that their error is known, and smaller than the estimate."""
    monkeypatch.chdir(world)
    how, run = TextOptions(TextSample(limit=limit)), RunOptions(out=tmp_path / "r")
    scored = score("models/bert", "data/texts.jsonl", options=how, run=run).result
    assert scored["design"]["draws"] == draws
    assert any("random sizes per text instead of 8" in note for note in scored["notes"]) == (draws > 8)
    low, high = scored["interval_95"]
    assert (high - low) / 2 < -scored["log_evidence"]
    again = score("models/bert", "data/texts.jsonl", options=how, run=run)
    assert again.finished_before
    few = score("models/bert", "data/texts.jsonl", "random-size:4", how).result
    assert few["design"]["draws"] == 4


def test_sizes_follow_the_held_out_rows_in_shards_too(table: str, tmp_path: Path) -> None:
    """The position of a row is that among all rows of the run, of which a shard scores some."""
    design, how = "random-size", RowOptions(RowSample(seed=1, test_fraction=0.5))
    whole = score("gaussian", table, design, how).result
    shards = [tmp_path / str(k) for k in (1, 2)]
    for k, out in enumerate(shards, 1):
        score("gaussian", table, design, how, RunOptions(out=out, shard=f"{k}/2"))
    result = summarize(shards).result
    for name in ("log_evidence", "mask_se"):
        assert result[name] == pytest.approx(whole[name], rel=1e-9)


def test_shards_are_one_run(table: str, tmp_path: Path) -> None:
    whole = score("gaussian", table, DESIGN).result
    shards = [tmp_path / str(k) for k in (1, 2)]
    for k, out in enumerate(shards, 1):
        score("gaussian", table, DESIGN, run=RunOptions(out=out, shard=f"{k}/2"))
    summary = summarize(shards, tmp_path / "whole")
    assert summary.folder == tmp_path / "whole"
    assert summary.result["log_evidence"] == pytest.approx(whole["log_evidence"], rel=1e-9)
    assert summarize(shards).folder is None
    with pytest.raises(me.InputError, match="is one of the runs"):
        summarize(shards, shards[0])
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(me.InputError, match="cannot be written"):
        summarize(shards, loop / "x")


def test_options_that_do_not_belong(table: str, tmp_path: Path) -> None:
    message = "TextOptions has the options of masked language models; 'gaussian' is one of models of rows"
    with pytest.raises(me.InputError, match=message):
        score("gaussian", table, options=TextOptions())
    with pytest.raises(me.InputError, match="--shard needs --out"):
        score("gaussian", table, run=RunOptions(shard="1/2"))


def test_rows_are_prepared(table: str) -> None:
    ready = prepare("gaussian", table, RowOptions(RowSample(limit=20)))
    assert (len(ready.tokens), ready.fitted, ready.model.columns) == (4, True, ["a", "b", "c"])


def test_rows_are_made_binary(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).uniform(size=(20, 4)))
    reading = RowReading(binarise="threshold:0.5")
    ready = prepare("bernoulli-pca:1", str(tmp_path / "x.npy"), RowOptions(reading=reading))
    assert set(np.unique(ready.tokens.values)) == {0.0, 1.0}


def test_a_new_model_leaves_out_what_is_constant(table: str) -> None:
    rows = me.data.read_table(table)
    model, dropped = new_model(lambda n: me.models.PPCA(n, 1), rows, rows)
    assert (model.n_features, model.columns, dropped) == (3, ["a", "b", "c"], ["same"])
    model, dropped = new_model(lambda n: me.models.BernoulliPCA(n, 1), rows, rows)
    assert (model.n_features, dropped) == (4, [])
    same = rows.select(["same"])
    with pytest.raises(me.InputError, match="is constant; there is nothing to train on"):
        new_model(lambda n: me.models.Gaussian(n_features=n), same, same, "train on")


def test_no_typer_is_needed() -> None:
    program = "import sys, maskevidence.commands.score; sys.exit('typer' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
