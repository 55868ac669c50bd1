"""The command `train` on rows: its files, and its errors."""

import json
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine


@pytest.mark.parametrize("word", ["ppca:2", "factor-analysis:2", "gaussian"])
def test_train_writes_a_model_that_score_reads(word: str, run: CommandLine, tmp_path: Path) -> None:
    table, out, target = tmp_path / "table.csv", tmp_path / "run", tmp_path / "a.json"
    x = me.models.PPCA(4, 2, seed=3).sample(150) * [1.0, 100.0, 0.01, 5.0] + [0.0, 1e3, 0.0, -7.0]
    x[::9, 1] = np.nan
    np.savetxt(table, x, delimiter=",", header="a,b,c,d", comments="")
    arguments = ["train", word, table, "--out", out, "--learning-rate", "0.05"]
    trained = run(*arguments, "--epochs", "60", "--json", target)
    assert trained.code == 0, trained
    held_out = json.loads(target.read_text())["log_evidence_held_out"]
    scored = run("score", out, table, "--test-fraction", "0.2", "--json", "-")
    assert scored.code == 0, scored
    assert json.loads(scored.out)["closed_form"] == pytest.approx(held_out, rel=1e-10)
    assert "after epoch 60" in run(*arguments, "--epochs", "60").out
    refused = run(*arguments, "--epochs", "60", "--objective", "likelihood")
    assert "belongs to another training" in refused.error


def test_patience_keeps_the_best_epoch(run: CommandLine, tmp_path: Path) -> None:
    table, target = tmp_path / "table.csv", tmp_path / "a.json"
    x = np.random.default_rng(1).normal(size=(40, 6))  # noise: the model soon gets worse on other rows
    np.savetxt(table, x, delimiter=",", header="a,b,c,d,e,f", comments="")
    options = ["--epochs", "400", "--learning-rate", "0.1", "--json", target]
    patient = run("train", "ppca:4", table, "--out", tmp_path / "p", "--patience", "5", *options)
    assert patient.code == 0, patient
    result = json.loads(target.read_text())
    assert result["epochs"] == result["best_epoch"] + 5 < 400
    assert "was not higher for 5 epochs; the model is that of epoch" in " ".join(patient.out.split())
    history = np.genfromtxt(tmp_path / "p" / "history.csv", delimiter=",", names=True)
    assert history["epoch"][np.argmax(history["held_out"])] == result["best_epoch"]
    assert len(history) == result["epochs"]
