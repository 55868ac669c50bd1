"""A model that was changed under the same path: the run of the old one is refused, and not mixed with it.

The weights stay as they are. What changes is a setting that decides the numbers: a transformer's
`config.json`, or the `arguments` of a saved model.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine
from image_models import saved, small_vit_mae, smooth_images, write_images
from maskevidence.runs.blocks import list_parts
from text_models import SENTENCES, save_bert

pytest.importorskip("transformers", reason="the extra hf is not installed")

Words = list[object]


def bert(folder: Path) -> Words:
    """A small BERT and texts."""
    save_bert(folder / "model")
    (folder / "texts.txt").write_text("\n".join(SENTENCES * 8) + "\n")
    return [folder / "model", folder / "texts.txt", "--design", "random-size:4"]


def vit_mae(folder: Path) -> Words:
    """A small ViT-MAE and images."""
    saved(small_vit_mae(), folder / "model")
    return [folder / "model", write_images(folder / "images", smooth_images(30)), "--design", "random-size:4"]


def of_rows(model: Any, rows: np.ndarray) -> Callable[[Path], Words]:
    """A saved model of rows, and rows."""

    def prepare(folder: Path) -> Words:
        model.save(folder / "model")
        np.save(folder / "rows.npy", rows)
        return [folder / "model", folder / "rows.npy", "--design", "random-size:4"]

    return prepare


def vae(folder: Path) -> Words:
    rule = me.models.ImportanceSampling(8, 1, prior_draws=2, fills=2)
    model = me.models.VAE(n_features=3, n_components=1, hidden=(2,), conditioning=rule)
    return of_rows(model, np.random.default_rng(0).normal(size=(60, 3)))(folder)


def bernoulli(folder: Path) -> Words:
    model = me.models.BernoulliPCA(3, 1, integration=me.models.Importance(64))
    return of_rows(model, np.random.default_rng(0).integers(2, size=(60, 3)).astype(float))(folder)


# What is prepared, and the change of `config.json` that makes it another model.
CHANGES: dict[str, tuple[Callable[[Path], Words], dict[str, Any]]] = {
    "bert, activation": (bert, {"hidden_act": "relu"}),
    "bert, heads": (bert, {"num_attention_heads": 4}),
    "vit-mae, heads": (vit_mae, {"decoder_num_attention_heads": 4}),
    "vae, seed of the draws": (vae, {"arguments": {"seed": 1}}),
    "vae, draws": (vae, {"arguments": {"conditioning": {"draws": 16, "steps": 1}}}),
    "bernoulli, nodes": (bernoulli, {"arguments": {"integration": {"n_nodes": 128, "seed": 0}}}),
}


def change(model: Path, changes: dict[str, Any]) -> None:
    """Edit `config.json` by hand."""
    config = json.loads((model / "config.json").read_text())
    for name, value in changes.items():
        config[name] = config[name] | value if isinstance(value, dict) else value
    (model / "config.json").write_text(json.dumps(config))


def left_unfinished(out: Path) -> None:
    """The run as a kill left it: some of its scores, and no summary."""
    (out / "estimate.json").unlink()
    parts = list_parts(out / "scores")
    assert len(parts) > 1
    parts[-1].path.unlink()


def refused(run: CommandLine, *words: object) -> str:
    error = run(*words).error
    assert "holds another run (model_fingerprint" in error
    assert "--overwrite" in error
    return error


@pytest.mark.usefixtures("every_block_saved")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name, marks=[pytest.mark.slow] * (name not in ("bert, heads", "vae, draws", "bernoulli, nodes"))
        )
        for name in CHANGES
    ],
)
def test_a_run_of_the_model_before_the_change_is_refused(run: CommandLine, tmp_path: Path, name: str) -> None:
    prepare, changes = CHANGES[name]
    words: Words = ["score", *prepare(tmp_path), "--out", tmp_path / "run"]
    before = run(*words, "--json", "-")
    assert before.code == 0, before.err
    change(tmp_path / "model", changes)
    finished = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    refused(run, *words)
    more = ["random-size:8" if word == "random-size:4" else word for word in words]
    refused(run, *more)  # more masks would mix two models
    assert finished == {path: path.read_bytes() for path in finished}
    left_unfinished(tmp_path / "run")
    kept = [part.path for part in list_parts(tmp_path / "run" / "scores")]
    refused(run, *words)
    assert [part.path for part in list_parts(tmp_path / "run" / "scores")] == kept
    again = run(*words, "--overwrite", "--json", "-")
    assert json.loads(again.out)["log_evidence"] != json.loads(before.out)["log_evidence"]
