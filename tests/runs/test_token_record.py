"""Runs that record what each hidden token scored."""

import json
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine
from maskevidence.runs import RunDirectory, read_run, record_run
from recorded_runs import make_manifest, make_model, make_tokens

DESIGN = me.RandomSize(8, 4)


def recorded(
    folder: Path, design: me.RandomSize, *, per_token: bool = True, **others: object
) -> me.EvidenceEstimate:
    model, tokens = make_model(), make_tokens()
    manifest = make_manifest(model, tokens, design, token_scores=per_token, **others)
    record_run(RunDirectory(folder), manifest, model, tokens)
    return read_run(folder).estimate


def test_equals_an_estimate_in_memory_and_can_be_extended(tmp_path: Path) -> None:
    wanted = me.estimate_evidence(make_model(), make_tokens(), me.RandomSize(16, 4), seed=0, per_token=True)
    recorded(tmp_path / "run", DESIGN)
    grown = recorded(tmp_path / "run", me.RandomSize(16, 4))
    assert grown.mask_se == pytest.approx(wanted.mask_se, rel=1e-6)
    assert grown.log_evidence == pytest.approx(wanted.log_evidence, rel=1e-9)
    without = recorded(tmp_path / "without", me.RandomSize(16, 4), per_token=False)
    assert without.scores.hidden is None
    assert without.log_evidence != grown.log_evidence
    np.testing.assert_array_equal(without.scores.score, grown.scores.score)


def test_shards_are_the_run(tmp_path: Path) -> None:
    whole = recorded(tmp_path / "run", DESIGN)
    for k in (1, 2):
        recorded(tmp_path / str(k), DESIGN, shard=(k, 2))
    put_together = read_run(tmp_path / "2", tmp_path / "1").estimate
    assert (put_together.log_evidence, put_together.mask_se) == (whole.log_evidence, whole.mask_se)


def test_a_run_is_not_continued_without_its_tokens(tmp_path: Path, run: CommandLine) -> None:
    table = tmp_path / "table.csv"
    np.savetxt(table, make_tokens().values.numpy(), delimiter=",", header="a,b,c,d,e,f", comments="")
    words = ("score", "gaussian", table, "--out", tmp_path / "run", "--design")
    assert run(*words, "random-size:per-token").code == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["token_scores"] is True
    assert "token_scores False instead of True" in run(*words, "random-size").error


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ("leave-one-out:per-token", "leave-one-out:per-token is a report on texts"),
        ("every-size:per-token", "belongs to random-size with own masks"),
        ("random-size:shared,per-token", "belongs to random-size"),
        ("random-size:1,per-token", "belongs to random-size"),
    ],
)
def test_designs_without_use_for_tokens_are_refused(run: CommandLine, design: str, message: str) -> None:
    assert message in run("score", "gaussian", "digits", "--design", design).error
