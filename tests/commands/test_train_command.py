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
    arguments = ["train", word, table, "--out", out, "--json", target, "--learning-rate", "0.05"]
    trained = run(*arguments, "--epochs", "60")
    assert trained.code == 0, trained
    held_out = json.loads(target.read_text())["log_evidence_held_out"]
    scored = run("score", out, table, "--test-fraction", "0.2", "--json", target)
    assert scored.code == 0, scored
    assert json.loads(target.read_text())["closed_form"] == pytest.approx(held_out, rel=1e-10)
    assert "after epoch 60" in run(*arguments, "--epochs", "60").out
    refused = run(*arguments, "--epochs", "60", "--objective", "likelihood")
    assert "belongs to another training" in refused.error


def test_bad_input_gets_a_one_line_error(run: CommandLine, tmp_path: Path) -> None:
    table, out = tmp_path / "table.csv", tmp_path / "run"
    np.savetxt(
        table, np.random.default_rng(0).normal(size=(30, 3)), delimiter=",", header="a,b,c", comments=""
    )
    for options, message in (
        (["--learning-rate", "0"], "learning_rate=0.0"),
        (["--epochs", "0"], "epochs=0"),
        (["--objective", "fixed-rate:2"], "mask rate 2"),
        (["--objective", "likelihood:3"], "write likelihood alone, which draws no masks"),
        (["--objective", "every-sise"], "every-size"),
        (["--patience", "3", "--test-fraction", "0"], "--patience needs held-out rows"),
        (
            ["--steps", "3"],
            "--steps belongs to masked language models and masked image models; 'ppca:1' is one of models of",
        ),
    ):
        assert message in run("train", "ppca:1", table, "--out", out, *options).error
    assert not out.exists()


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


def test_options_of_other_models_are_refused(run: CommandLine, tmp_path: Path) -> None:
    for options, message in (
        (["masked-lm", "x.txt", "--epochs", "3"], "--epochs belongs to models of rows"),
        (["masked-lm", "x.txt", "--objective", "random-size:shared"], "leave shared out of --objective"),
        (
            ["masked-lm", "x.txt", "--patch-size", "4"],
            "--patch-size belongs to masked image models; 'masked-lm' is one of masked language models",
        ),
        (
            ["vit-mae", "mnist", "--block-size", "64"],
            "--block-size belongs to masked language models; 'vit-mae' is one of masked image models",
        ),
    ):
        assert message in run("train", *options, "--out", tmp_path / "run").error
