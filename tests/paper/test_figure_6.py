"""Figure 6 on small images and models."""

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import Result
from image_models import saved, small_vit_mae, smooth_images
from paper import figure_6 as module
from paper import vit_mae as small_vit_mae_sizes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from PIL import Image

    path = tmp_path_factory.mktemp("images")
    (path / "grey").mkdir()
    for i, image in enumerate(smooth_images(400)):
        Image.fromarray(image[:, :, 0]).save(path / "grey" / f"{i:03}.png")
    saved(small_vit_mae(num_channels=3), path / "colour")
    saved(small_vit_mae(), path / "model")
    saved(small_vit_mae(norm_pix_loss=True), path / "normalised")
    return path


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = {"batch_size": 32, "learning_rate": 2e-3, "warmup": 10, "weight_decay": 0.05}
    monkeypatch.setattr(module, "TRAINING", recipe)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
    of_decoder = {f"decoder_{name}": value for name, value in shape.items()}
    monkeypatch.setitem(small_vit_mae_sizes.SIZES, "small", shape | of_decoder)


@pytest.mark.slow
def test_random_is_flat_and_trained_falls(folder: Path, fast: None) -> None:
    """The visible patches are informative, and the training is long enough to use them."""
    images = module.ImageSet("smooth", str(folder / "grey"), None, 2, 250)
    figure = module.figure_6(model="small", sets=[images], masks_per_size=8)
    assert [claim.holds for claim in figure.claims] == [True, True, True], figure.claims
    rows = {weights: [] for weights in ("random", "trained")}
    for row in csv.DictReader(figure.to_csv().splitlines()):
        rows[row["weights"]].append(row)
    assert [int(row["size"]) for row in rows["trained"]] == list(range(1, 16))  # 5 % to 95 % of 16 patches
    for row in (*rows["random"], *rows["trained"]):
        assert float(row["mask_se"]) > 0
        assert float(row["reconstruction_loss"]) > 0
    losses = [[float(row["reconstruction_loss"]) for row in rows[name]] for name in ("random", "trained")]
    assert all(trained < random for random, trained in zip(*losses, strict=True))
    assert figure.draw is not None
    assert len(figure.draw().axes) == 2
    again = module.figure_6(model="small", sets=[replace(images, steps=2)], masks_per_size=2, test_images=5)
    # A model that is hardly trained does not pass for a trained one, and says why.
    assert again.claims[1].holds is None
    assert again.claims[1].verdict == "too short to tell"


def test_z_of_difference_is_a_paired_test() -> None:
    """Rows of the model itself have no difference, so that z has a standard deviation of 1."""
    model = me.models.Gaussian(torch.zeros(4), torch.eye(4))  # every size has the same score
    z = []
    for seed in range(60):
        estimate = me.estimate_evidence(model, model.sample(40, seed=seed), me.Rates((0.25, 0.5, 0.75), 2))
        z.append(module.z_of_difference(estimate, slice(0, 1), slice(1, 3)))
    assert np.std(z) == pytest.approx(1.0, abs=0.3)
    assert abs(np.mean(z)) < 3 / np.sqrt(60)


@pytest.mark.parametrize("name", ["colour", pytest.param("normalised", marks=pytest.mark.slow)])
def test_a_pretrained_model_beside_random_weights(
    paper: Callable[..., Result], folder: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of coloured images gets grey images as three equal channels, resized for it."""
    monkeypatch.setattr(module, "PRETRAINED_SETS", (str(folder / "grey"),))
    words = ("figure-6", "--model", folder / name, "--out", tmp_path, "--json", tmp_path / "f.json")
    result = paper(*words)
    assert result.code == 0, result.err
    assert {path.name for path in tmp_path.iterdir()} >= {"figure_6.png", "figure_6.pdf", "figure_6.csv"}
    numbers = json.loads((tmp_path / "f.json").read_text())["numbers"]
    assert next(iter(numbers.values()))["n_patches"] == 16
