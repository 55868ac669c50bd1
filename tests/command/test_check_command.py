"""maskevidence check: a table, JSON, and exit codes that tell a fault from bad input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import CommandLine
from image_models import saved, small_vit_mae, smooth_images, write_images
from text_models import SENTENCES, save_bert


def test_a_sound_model_of_rows(run: CommandLine) -> None:
    result = run("check", "ppca:2", "digits", "--limit", 60, "--json", "-")
    assert result.code == 0, result.err
    written = json.loads(result.out)
    assert written["ok"] is True
    assert written["model"] == "PPCA"
    checks = {finding["check"]: finding for finding in written["findings"]}
    assert checks["leak"]["status"] == "passed"
    assert checks["leak"]["n_masks"] > 10
    assert "leak" in result.err  # the table
    assert written["notes"][0].startswith("fitted to 48 rows")


@pytest.mark.parametrize(
    "options", [[], ["--text", "text", "--whole-words"], ["--block-size", 8], ["--bf16"]]
)
def test_a_sound_model_of_texts(run: CommandLine, tmp_path: Path, options: list[Any]) -> None:
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    save_bert(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("\n".join([*SENTENCES, *(text[4:] for text in SENTENCES[:4])]) + "\n")
    result = run("check", tmp_path / "model", tmp_path / "texts.txt", *options)
    assert result.code == 0, result.out + result.err
    assert "0 failed" in result.out or "failed" not in result.out


@pytest.mark.filterwarnings("ignore::maskevidence.core.errors.UnknownTokensWarning")
def test_a_fault_ends_with_exit_code_1(run: CommandLine, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    save_bert(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("1 2 3 4 5 rain\n1 2 3 4 rain 5\n")
    result = run(
        "check", tmp_path / "model", tmp_path / "texts.txt", "--allow-unknown", "--json", tmp_path / "r.json"
    )
    assert result.code == 1
    assert "unknown tokens failed" in result.out
    assert json.loads((tmp_path / "r.json").read_text())["ok"] is False


def test_images(run: CommandLine, tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    pytest.importorskip("PIL.Image")
    saved(small_vit_mae(), tmp_path / "model")
    write_images(tmp_path / "images", smooth_images(20))
    result = run("check", tmp_path / "model", tmp_path / "images", "--density", "discretised", "--json", "-")
    assert result.code == 0, result.err
    checks = {finding["check"]: finding["status"] for finding in json.loads(result.out)["findings"]}
    assert checks["units"] == "skipped"
    assert checks["normalisation"] == "skipped"


def test_a_saved_model(run: CommandLine, tmp_path: Path) -> None:
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(40, 4)))
    assert run("score", "gaussian", tmp_path / "t.npy", "--out", tmp_path / "a").code == 0
    assert run("check", tmp_path / "a" / "model", tmp_path / "t.npy").code == 0
