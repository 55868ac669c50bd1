"""maskevidence score with a masked image model: densities, runs, and bad input."""

import json
from pathlib import Path

import pytest

from command_line import CommandLine
from image_models import saved, small_vit_mae, smooth_images, write_images
from maskevidence.images.image_files import read_images
from maskevidence.images.prepared_images import _parts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30 grey images of 8×8 as files, and small models of them."""
    root = tmp_path_factory.mktemp("images")
    write_images(root / "images", smooth_images(30))
    saved(small_vit_mae(), root / "model")
    saved(small_vit_mae(norm_pix_loss=True), root / "normalised")
    return root


def test_images_are_scored_with_variances_fitted_to_some_of_them(run: CommandLine, folder: Path) -> None:
    result = run("score", folder / "model", folder / "images", "--json", folder / "a.json")
    assert result.code == 0, result.err
    for words in ("lower bound", "masked reconstruction loss", "fitted to 6 of the images"):
        assert words in " ".join(result.out.split())
    written = json.loads((folder / "a.json").read_text())
    assert written["n_observations"] == 24
    assert written["n_pixels"] == 64
    assert written["design"]["name"] == "random-size"
    assert written["mask_se"] > 0
    assert written["pixel_density"]["n_images"] == 6
    assert len(written["pixel_density"]["variances"]) == 16
    assert all(0 < entry["loss"] < 255**2 for entry in written["reconstruction_loss"])
    again = run("score", folder / "model", folder / "images", "--json", "-", "--batch-tokens", 20)
    assert json.loads(again.out)["log_evidence"] == pytest.approx(written["log_evidence"], abs=1e-4)


def test_the_rates_of_the_paper_and_bits_per_dimension(run: CommandLine, folder: Path) -> None:
    words = ("score", folder / "model", folder / "images", "--design", "rates:0.05-0.95-0.05", "--json", "-")
    gaussian = json.loads(run(*words).out)
    assert gaussian["kind"] == "pseudo"
    assert len(gaussian["reconstruction_loss"]) == 15  # sizes 1..15 of 16 patches
    discretised = json.loads(run(*words, "--density", "discretised").out)
    assert "reconstruction_loss" not in discretised
    # both are nats per level, and the levels are far finer than the error of a model with random weights
    per_dimension = -discretised["log_evidence"] / 64 / 0.6931471805599453
    assert discretised["bits_per_dimension"] == pytest.approx(per_dimension)
    assert discretised["log_evidence"] == pytest.approx(gaussian["log_evidence"], rel=0.15)


@pytest.mark.slow
def test_a_run_goes_on_with_its_own_variances(run: CommandLine, folder: Path, tmp_path: Path) -> None:
    words = ("score", folder / "model", folder / "images", "--out", tmp_path / "r")
    first = json.loads(run(*words, "--json", "-").out)
    for name in ("run.json", "estimate.json", "curve.csv", "curve.png"):
        assert (tmp_path / "r" / name).exists()
    manifest = json.loads((tmp_path / "r" / "run.json").read_text())
    assert manifest["details"]["pixel_density"] == first["pixel_density"]
    assert first["reconstruction_loss"]
    assert "finished before" in " ".join(run(*words).out.split())
    more = json.loads(run(*words, "--design", "random-size:16", "--json", "-").out)
    assert more["n_masks"] == 2 * first["n_masks"]
    assert more["pixel_density"] == first["pixel_density"]
    assert "another run" in run(*words, "--density", "discretised").error
    assert "another run" in run(*words, "--calibration-fraction", 0.5).error


def test_a_run_does_not_go_on_with_the_variances_of_other_images(
    run: CommandLine, folder: Path, tmp_path: Path
) -> None:
    """An image that variances were fitted to was replaced, those that are scored were not."""
    write_images(tmp_path / "images", smooth_images(30))
    words = ("score", folder / "model", tmp_path / "images", "--out", tmp_path / "r")
    assert run(*words).code == 0
    fitted = _parts(read_images(str(tmp_path / "images")), 6, seed=0)[1]
    assert fitted.labels is not None
    write_images(tmp_path / "other", smooth_images(1, seed=5))
    next((tmp_path / "other").iterdir()).replace(tmp_path / "images" / fitted.labels[0])
    assert "another run" in run(*words).error


def test_normalised_patches_are_pseudo_or_brought_back(run: CommandLine, folder: Path) -> None:
    words = ("score", folder / "normalised", folder / "images", "--json", "-")
    normalised = json.loads(run(*words).out)
    assert normalised["kind"] == "pseudo"
    assert any("--patch-statistics visible" in note for note in normalised["notes"])
    visible = json.loads(run(*words, "--patch-statistics", "visible").out)
    assert visible["kind"] == "lower_bound"


def test_a_calibrated_model_scores_every_image(run: CommandLine, folder: Path, tmp_path: Path) -> None:
    from maskevidence.images.masked_image import MaskedImage

    model = MaskedImage.from_pretrained(folder / "model", device="cpu")
    images = read_images(str(folder / "images"))
    model.calibrate(model.tokens(images.pixels), "discretised")
    model.save(tmp_path / "m")
    scored = json.loads(run("score", tmp_path / "m", folder / "images", "--json", "-").out)
    assert scored["n_observations"] == 30
    assert scored["bits_per_dimension"] > 0
    assert any("stored with the model" in note for note in scored["notes"])
    held_out = run("score", tmp_path / "m", folder / "images", "--test-fraction", 0.2, "--json", "-")
    assert json.loads(held_out.out)["n_observations"] == 6
    other = run("score", tmp_path / "m", folder / "images", "--density", "gaussian", "--json", "-")
    assert json.loads(other.out)["n_observations"] == 24


def test_images_that_fit_only_after_an_option(run: CommandLine, folder: Path, tmp_path: Path) -> None:
    from transformers import ViTConfig, ViTForImageClassification

    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    classifier = ViTForImageClassification(ViTConfig(image_size=8, patch_size=2, **small))
    classifier.save_pretrained(tmp_path / "classifier")
    saved(small_vit_mae(image_size=16), tmp_path / "larger")
    write_images(tmp_path / "bad", smooth_images(4))
    (tmp_path / "bad" / "02.png").write_bytes(b"no image")
    model, images = folder / "model", folder / "images"
    error = run("score", tmp_path / "classifier", images).error
    assert "is a vit model, which has no decoder that predicts patches" in error
    words = ("--skip-bad", "--calibration-fraction", 0.4, "--json", "-")
    skipped = json.loads(run("score", model, tmp_path / "bad", *words).out)
    assert "skipped 1 image that cannot be read: 02.png" in skipped["notes"]
    resized = json.loads(run("score", tmp_path / "larger", images, "--resize", 16, "--json", "-").out)
    assert "resized 30 images" in resized["notes"][0]
