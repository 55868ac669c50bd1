"""Runs that record what a surrogate scored on the same masks."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.errors import InputError
from maskevidence.runs import Recording, RunDirectory, read_run, record_run
from recorded_runs import make_manifest, make_model, make_tokens, same_rows

DESIGN = me.RandomSize(8, 4)


def make_control() -> me.models.Gaussian:
    return make_model(seed=1)


def recorded(folder: Path, design: me.RandomSize = DESIGN, **others: object) -> me.EvidenceEstimate:
    model, tokens = make_model(), make_tokens()
    manifest = make_manifest(model, tokens, design, control="gaussian", **others)
    record_run(RunDirectory(folder), manifest, model, tokens, Recording(control=make_control()))
    return read_run(folder).estimate


@pytest.mark.parametrize("per_token", [False, True])
def test_equals_an_estimate_in_memory_and_can_be_extended(tmp_path: Path, *, per_token: bool) -> None:
    design = me.RandomSize(16, 4)
    wanted = me.estimate_evidence(
        make_model(), make_tokens(), design, per_token=per_token, control=make_control()
    )
    recorded(tmp_path / "run", token_scores=per_token)
    grown = recorded(tmp_path / "run", design, token_scores=per_token)
    assert grown.log_evidence == pytest.approx(wanted.log_evidence, rel=1e-9)
    assert grown.mask_se == pytest.approx(wanted.mask_se, rel=1e-6)
    assert grown.notes == wanted.notes
    recorded(tmp_path / "once", design, token_scores=per_token)
    assert grown.scores.control is not None
    assert per_token or same_rows(tmp_path / "run", tmp_path / "once")


def test_shards_are_the_run(tmp_path: Path) -> None:
    whole = recorded(tmp_path / "run")
    for k in (1, 2):
        recorded(tmp_path / str(k), shard=(k, 2))
    put_together = read_run(tmp_path / "2", tmp_path / "1").estimate
    assert (put_together.log_evidence, put_together.mask_se) == (whole.log_evidence, whole.mask_se)


def test_a_run_is_continued_with_the_surrogate_that_it_keeps(tmp_path: Path) -> None:
    recorded(tmp_path / "run")
    assert me.models.load(tmp_path / "run" / "control").n_features == 6
    manifest = RunDirectory(tmp_path / "run").existing_manifest()
    model, tokens = make_model(), make_tokens()
    more = manifest.model_copy(update={"design": me.RandomSize(12, 4).settings()})
    record_run(RunDirectory(tmp_path / "run"), more, model, tokens, Recording(control=make_model(seed=2)))
    recorded(tmp_path / "once", me.RandomSize(12, 4))
    assert same_rows(tmp_path / "run", tmp_path / "once")
    config = tmp_path / "run" / "control" / "config.json"
    config.write_text(config.read_text() + "\n")
    with pytest.raises(InputError, match="is not the control of this run"):
        read_run(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "control")
    with pytest.raises(InputError, match="restore the folder control"):
        recorded(tmp_path / "run", me.RandomSize(16, 4))


def table_of(folder: Path) -> Path:
    table = folder / "table.csv"
    np.savetxt(table, make_tokens().values.numpy(), delimiter=",", header="a,b,c,d,e,f", comments="")
    return table


def test_from_the_command_line(tmp_path: Path, run: CommandLine) -> None:
    words = ("score", "gaussian", table_of(tmp_path), "--design", "random-size", "--control", "ppca:3")
    first, second = tmp_path / "first", tmp_path / "second"
    assert "times as many passes" in "".join(run(*words, "--out", first).out.split("\n"))
    numbers = json.loads((first / "estimate.json").read_text())
    for k in (1, 2):
        assert run(*words, "--out", tmp_path / str(k), "--shard", f"{k}/2").code == 0
    assert run("summarize", tmp_path / "1", tmp_path / "2", "--out", second).code == 0
    whole = json.loads((second / "estimate.json").read_text())
    assert [whole[name] for name in ("log_evidence", "mask_se")] == [
        numbers[name] for name in ("log_evidence", "mask_se")
    ]
    assert (second / "control" / "config.json").exists()
    assert "control none instead of ppca:3" in run(*words[:-2], "--out", first).error
    saved = run(*words[:-1], first / "control", "--out", tmp_path / "saved")
    assert saved.code == 0
    again = json.loads((tmp_path / "saved" / "estimate.json").read_text())
    assert again["log_evidence"] == pytest.approx(numbers["log_evidence"], rel=1e-12)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--control", "ppca:3"), "--control belongs to --design random-size with own masks"),
        (("--control", "ppc:3", "--design", "random-size"), "did you mean"),
        (
            ("--control", "vae:3", "--design", "random-size"),
            "vae:3 has no log evidence in closed form",
        ),
        (("--control", "bernoulli-pca:4", "--design", "random-size"), "do not add up to its log evidence"),
        (
            ("--control", "bernoulli-pca:1", "--design", "random-size"),
            "to the 72 scored rows",
        ),
    ],
)
def test_what_cannot_be_a_surrogate_is_refused(
    run: CommandLine, words: tuple[str, ...], message: str
) -> None:
    found = run("score", "gaussian", "digits", "--limit", "360", *words)
    assert message in found.error


def test_texts_have_no_surrogate(run: CommandLine, world: Path) -> None:
    model = world / "models" / "bert"
    found = run("score", model, "texts.jsonl", "--control", "ppca:2")
    assert (found.code, "--control belongs to models of rows" in found.error) == (2, True)
