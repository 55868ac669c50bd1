"""--device and --dtype: one line for what cannot be used, and a run says where and how it was computed."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import CommandLine

ROWS = ("gaussian", "rows.npy")


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.random.default_rng(0).normal(size=(60, 3)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_gpu_that_is_not_there_is_one_line(run: CommandLine) -> None:
    assert "device 'cuda' cannot be used: " in run("score", *ROWS, "--device", "cuda").error


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_score_and_train_in_a_precision(run: CommandLine, dtype: str) -> None:
    words = ["--device", "cpu", "--dtype", dtype]
    assert run("score", *ROWS, *words, "--out", "a").code == 0
    manifest = json.loads(Path("a/run.json").read_text())
    assert (manifest["dtype"], manifest["devices"]) == (dtype, ["cpu"])
    assert str(me.models.load("a/model").dtype) == f"torch.{dtype}"
    assert run("train", *ROWS, *words, "--epochs", 2, "--out", "b").code == 0
    result = json.loads(Path("b/train.json").read_text())
    assert (result["dtype"], result["device"]) == (dtype, "cpu")
    assert str(me.models.load("b").dtype) == f"torch.{dtype}"


def test_a_run_is_not_resumed_in_another_precision(run: CommandLine) -> None:
    assert run("score", *ROWS, "--out", "a", "--design", "every-size:2").code == 0
    more = ("score", *ROWS, "--out", "a", "--design", "every-size:4")
    assert "holds another run (dtype float32 instead of float64;" in run(*more, "--dtype", "float32").error
    assert run(*more).code == 0


def test_a_training_is_not_resumed_in_another_precision(run: CommandLine) -> None:
    assert run("train", *ROWS, "--out", "b", "--epochs", 2).code == 0
    more = ("train", *ROWS, "--out", "b", "--epochs", 4)
    assert "belongs to another training (" in run(*more, "--dtype", "float32").error
    assert run(*more).code == 0


def test_a_run_that_goes_on_elsewhere_says_so(run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    from maskevidence.runs import prepared

    assert run("score", *ROWS, "--out", "a", "--design", "every-size:2").code == 0
    monkeypatch.setattr(prepared, "recorded", lambda _model: {"dtype": "float64", "device": "cuda:0"})
    result = run("score", *ROWS, "--out", "a", "--design", "every-size:4", "--json", "-")
    assert result.code == 0, result.err
    assert "scored on cpu and cuda:0, which agree up to rounding" in json.loads(result.out)["notes"]
    assert json.loads(Path("a/run.json").read_text())["devices"] == ["cpu", "cuda:0"]


@pytest.mark.parametrize("model", ["vae:1", "masked-lm"])
def test_a_training_that_goes_on_elsewhere_says_so(run: CommandLine, model: str) -> None:
    """The first part is said to be of another device, as the checkpoint records it."""
    from maskevidence.core.training import loop
    from maskevidence.huggingface import masked_lm_training, training

    Path("x.txt").write_text("the rain falls on the roof and the dog sings\n" * 40)
    words: tuple[Any, ...] = ("train", "vae:1", "rows.npy", "--out", "b", "--epochs")
    with pytest.MonkeyPatch.context() as patched:
        if model == "masked-lm":
            words = ("train", "masked-lm", "x.txt", "--device", "cpu", "--out", "b", "--checkpoint-every", 1)
            words = (*words, "--batch-size", 2, "--block-size", 8, "--steps", 2)
            patched.setattr(training, "_devices_of", lambda *_given: ["cuda:0"])
            patched.setattr(masked_lm_training, "_save", interrupted)
            assert run(*words).code == 130
        else:
            patched.setattr(loop, "device_of", lambda _model: "cuda:0")
            assert run(*words, 2).code == 0
            words = (*words, 3)
    resumed = run(*words)
    assert "trained on cuda:0 and cpu; a training on one of them" in " ".join(resumed.out.split())
    result = json.loads(Path("b/train.json").read_text())
    assert (result["devices"], result["device"]) == (["cuda:0", "cpu"], "cpu")


def interrupted(*_arguments: Any) -> None:
    raise KeyboardInterrupt
