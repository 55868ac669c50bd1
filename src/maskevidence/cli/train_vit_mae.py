"""What `train vit-mae` does: a model of the images' size, Trainer, variances, and the held-out evidence."""

from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch

from maskevidence.cli import output
from maskevidence.cli.training_folder import (
    HISTORY,
    RESULT,
    SETTINGS,
    begin_training,
    finish_training,
    held_out_numbers,
)
from maskevidence.cli.transformer import TransformerOptions, objective_of_transformer
from maskevidence.data.images import Images, read_images
from maskevidence.errors import InputError
from maskevidence.evidence import estimate_evidence
from maskevidence.masks import RandomSize
from maskevidence.models.image.masked_image import MaskedImage
from maskevidence.models.image.reconstruction import ReconstructionLoss
from maskevidence.models.image.summary import DENSITY, N_PIXELS, image_summary
from maskevidence.models.saving import weights_fingerprint
from maskevidence.runs import locked
from maskevidence.support.files import write_atomic
from maskevidence.tasks.parse import parse_size

TEST_FRACTION, CALIBRATION_FRACTION = 0.2, 0.1
MOST_CALIBRATION_IMAGES, MOST_SCORED_IMAGES = 512, 1000
STEPS = 5000
CHECKPOINT_EVERY = 500
_PATCHES_A_SIDE = 4


def train_vit_mae(asked: TransformerOptions, screen: Any) -> dict[str, Any]:
    """Train a ViT-MAE, fit its pixel variances, save it, and print its held-out log evidence.

    Returns:
        What train.json holds.
    """
    from maskevidence.integrations.huggingface import vit_mae_training

    design = objective_of_transformer(asked.model, asked.objective)
    given = {name: getattr(asked, name) for name in ("steps", "batch_size", "learning_rate", "seed")}
    chosen = {"steps": STEPS} | {name: value for name, value in given.items() if value is not None}
    recipe = replace(vit_mae_training.RECIPE, **chosen)
    images = read_images(
        asked.data,
        column=asked.column,
        limit=asked.limit,
        resize=parse_size(asked.resize),
        skip_bad=asked.skip_bad,
    )
    parts = _parts(images, TEST_FRACTION if asked.test_fraction is None else asked.test_fraction, asked.seed)
    model = _start(asked, parts.train)
    settings = {
        "config": asked.config or "small",
        "weights": None if asked.config is None else weights_fingerprint(model),
        "patch_size": model.patch_size,
        "images": images.fingerprint(),
        "test_fraction": asked.test_fraction,
        "objective": asked.objective,
        **asdict(recipe),
        "version": metadata.version("maskevidence"),
    }
    with locked(asked.out):
        finished = begin_training(
            asked.out, settings, overwrite=asked.overwrite, belongings=("pixel_density.json",)
        )
        if finished is not None:
            _show(screen, finished, asked.out)
            screen.print(f"This training in {asked.out} was finished before; --overwrite makes it anew.")
            return finished
        trained = vit_mae_training.train_vit_mae(
            model,
            model.tokens(parts.train.pixels, parts.train.ids),
            design,
            recipe,
            out=asked.out,
            checkpoint_every=asked.checkpoint_every or CHECKPOINT_EVERY,
        )
        model.calibrate(
            model.tokens(parts.calibration.pixels, parts.calibration.ids),
            patch_statistics="visible" if model.norm_pix_loss else None,
            seed=asked.seed,
        )
        model.save(asked.out)
        write_atomic(asked.out / HISTORY, trained.to_csv())
        result = finish_training(
            asked,
            design,
            recipe,
            trained,
            model,
            n_patches=model.n_patches,
            patch_size=model.patch_size,
            n_train=len(parts.train),
            n_calibration=len(parts.calibration),
            n_test=0 if parts.test is None else len(parts.test),
            held_out=None if parts.test is None else _held_out(model, parts, asked.seed),
            notes=list(images.notes),
        )
    _show(screen, result, asked.out)
    return result


@dataclass(frozen=True)
class _Parts:
    """Images to train on, to fit variances to, and to score; the last ones may be none."""

    train: Images
    calibration: Images
    test: Images | None


def _parts(images: Images, test_fraction: float, seed: int) -> _Parts:
    """`score --test-fraction` of the same share and seed scores the images of `test`."""
    if not 0 <= test_fraction < 1:
        raise InputError(f"--test-fraction {test_fraction:g}; give a share of the images in [0, 1)")
    if len(images) < 10:
        raise InputError(f"{len(images)} images are too few to train on; give 10 or more")
    rest, test = (images, None) if test_fraction == 0 else images.split(test_fraction, seed)
    share = min(CALIBRATION_FRACTION, MOST_CALIBRATION_IMAGES / len(rest))
    train, calibration = rest.split(max(share, 1 / len(rest)), seed)
    return _Parts(train, calibration, test)


def _start(asked: TransformerOptions, train: Images) -> MaskedImage:
    """A new model of the images' size and colours, or one to go on from."""
    from maskevidence.models.image.new_vit_mae import SIZES, new_vit_mae

    config = asked.config or "small"
    _, height, width, channels = train.pixels.shape
    if config not in SIZES:
        if asked.patch_size is not None:
            raise InputError(f"--patch-size belongs to new models; {config!r} has its own")
        model = MaskedImage.from_pretrained(config)
        model.tokens(train.pixels[:1])  # says at once what does not fit
        return model
    if height != width:
        raise InputError(
            f"the images have {height}×{width} pixels, a ViT-MAE reads square ones; add --resize {height}"
        )
    if asked.patch_size is None and height % _PATCHES_A_SIDE:
        raise InputError(f"{height} pixels make no {_PATCHES_A_SIDE} patches a side; give a --patch-size")
    part = train.pixels[:: max(1, len(train) // 2000)] / 255
    return new_vit_mae(
        config,
        image_size=height,
        patch_size=asked.patch_size or height // _PATCHES_A_SIDE,
        channels=channels,
        pixel_mean=part.mean((0, 1, 2)).tolist(),
        pixel_std=np.maximum(part.std((0, 1, 2)), 1e-3).tolist(),
        seed=asked.seed,
    )


def _held_out(model: MaskedImage, parts: _Parts, seed: int) -> dict[str, Any]:
    """The log evidence of held-out images, and their reconstruction loss beside that of the mean image."""
    assert parts.test is not None
    test = parts.test.select(slice(MOST_SCORED_IMAGES))
    tokens = model.tokens(test.pixels, test.ids)
    estimate = estimate_evidence(model, tokens, RandomSize(8), seed=seed)
    assert model.density is not None
    details = {DENSITY: model.density.to_dict(), N_PIXELS: model.n_pixels}
    numbers = held_out_numbers(estimate) | details
    numbers |= image_summary(details, estimate.log_evidence, estimate.curve)
    if not model.norm_pix_loss:
        losses = -estimate_evidence(ReconstructionLoss(model), tokens, RandomSize(8), seed=seed).curve.score
        numbers["reconstruction_loss_mean"] = float(losses.mean())
        numbers["mean_image_loss"] = mean_image_loss(model, parts.train, test)
    return numbers


def mean_image_loss(model: MaskedImage, train: Images, test: Images) -> float:
    """The reconstruction loss of each pixel's mean over the training images: what knows no visible patch."""
    mean = train.pixels.mean(axis=0, dtype=np.float64)
    deviation = torch.from_numpy((test.pixels - mean) / 255) / model.pixel_std.cpu().double()
    return float(deviation.square().mean())


def _show(screen: Any, result: dict[str, Any], out: Path) -> None:
    recipe, held_out = result["recipe"], result["held_out"]
    title = (
        f"{result['model']} on {result['data']}: {result['n_parameters']:,} parameters, "
        f"{result['n_patches']} patches of {result['patch_size']}×{result['patch_size']} pixels, trained on "
        f"{result['n_train']:,} images, {recipe['steps']:,} steps of {recipe['batch_size']}"
    )
    n_scored = 0 if held_out is None else held_out["n_observations"]
    output.show_training(screen, title, result, f"{n_scored:,} of {result['n_test']:,} images held out:")
    if held_out is not None and "mean_image_loss" in held_out:
        screen.print(
            f"reconstruction loss, mean over mask sizes: {held_out['reconstruction_loss_mean']:.4f}; of "
            f"the mean image: {held_out['mean_image_loss']:.4f}"
        )
    screen.print(
        f"Left in {out}: config.json, model.safetensors, preprocessor_config.json, pixel_density.json, "
        f"{HISTORY}, {RESULT}, {SETTINGS}"
    )
