"""Train a ViT-MAE on images: model, pixel variances, and held-out log evidence."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from maskevidence.images.image_files import Images
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.estimate import estimate_evidence
from maskevidence.images.kind import read
from maskevidence.command.options import ImageTraining
from maskevidence.huggingface.training import VIT_MAE_RECIPE, train_vit_mae
from maskevidence.core.masks.sizes import RandomSize
from maskevidence.core.fingerprints import weights_fingerprint
from maskevidence.images.masked_image import MaskedImage
from maskevidence.images.new_vit_mae import SIZES, new_vit_mae
from maskevidence.images.summary import DENSITY, N_PIXELS, ReconstructionLoss, image_summary
from maskevidence.runs.folder import locked
from maskevidence.command.result import Result
from maskevidence.huggingface.train_transformers import numbers_of, transformer_job
from maskevidence.command.training_folder import begin_training

IMAGE_TEST_FRACTION = 0.2
TRAINING_CALIBRATION_FRACTION = 0.1  # of the images that are not held out, to fit variances
MAX_CALIBRATION_IMAGES, MAX_SCORED_IMAGES, MAX_MEASURED_IMAGES = 512, 1000, 2000
STEPS, CHECKPOINT_EVERY = 5000, 500
_PATCHES_PER_SIDE = 4


def train_images(data: str, options: ImageTraining) -> Result:
    """Train a ViT-MAE, fit its pixel variances, save it, and estimate its held-out log evidence.

    The model is a new one with the size and channels of the images, or one whose training is continued. The
    same call resumes an interrupted training.
    """
    default = replace(VIT_MAE_RECIPE, steps=STEPS)
    job = transformer_job("vit-mae", data, options, default, CHECKPOINT_EVERY)
    images = read(data, options.reading, limit=options.limit)
    train, calibration, test = _parts(
        images, IMAGE_TEST_FRACTION if options.test_fraction is None else options.test_fraction, options.seed
    )
    model = _model(options, train, job.device)
    config = options.config
    start = {
        "config": config or "small",
        "weights": None if config is None else weights_fingerprint(model),
        "patch_size": model.patch_size,
        "images": images.fingerprint(),
    }
    with locked(options.out):
        finished = begin_training(options, job.settings(start))
        if finished is not None:
            return finished
        trained = train_vit_mae(
            model,
            model.tokens(train.pixels, train.ids),
            job.design,
            job.recipe,
            out=options.out,
            checkpoint_every=job.checkpoint_every,
            device=job.device,
        )
        model.calibrate(
            model.tokens(calibration.pixels, calibration.ids),
            patch_statistics="visible" if model.norm_pix_loss else None,
            seed=options.seed,
        )
        job.save(model, trained)
        return job.finish(
            model,
            trained,
            n_patches=model.n_patches,
            patch_size=model.patch_size,
            n_train=len(train),
            n_calibration=len(calibration),
            n_test=0 if test is None else len(test),
            held_out=None if test is None else _held_out(model, train, test, options.seed),
            notes=list(images.notes),
        )


def _parts(images: Images, test_fraction: float, seed: int) -> tuple[Images, Images, Images | None]:
    """The images to train on, to fit variances to, and to score.

    `score --test-fraction` with the same share and seed scores the last ones.
    """
    if not 0 <= test_fraction < 1:
        raise InputError(f"--test-fraction {test_fraction:g}; give a share of the images in [0, 1)")
    if len(images) < 10:
        raise InputError(f"{len(images)} images are too few to train on; give 10 or more")
    rest, test = (images, None) if test_fraction == 0 else images.split(test_fraction, seed)
    share = min(TRAINING_CALIBRATION_FRACTION, MAX_CALIBRATION_IMAGES / len(rest))
    train, calibration = rest.split(max(share, 1 / len(rest)), seed)
    return train, calibration, test


def _model(options: ImageTraining, train: Images, device: torch.device | None) -> MaskedImage:
    """A new model for the images, or the model whose training is continued."""
    config, patch_size = options.config or "small", options.patch_size
    if config not in SIZES:
        if patch_size is not None:
            raise InputError(f"--patch-size belongs to new models; {config!r} has its own")
        model = MaskedImage.from_pretrained(config, device=device)
        model.tokens(train.pixels[:1])  # raises if the images do not fit
        return model
    _, height, width, channels = train.pixels.shape
    if height != width:
        raise InputError(
            f"the images have {height}×{width} pixels, a ViT-MAE reads square ones; add --resize {height}"
        )
    if patch_size is None and height % _PATCHES_PER_SIDE:
        raise InputError(
            f"{height} pixels cannot be cut into {_PATCHES_PER_SIDE} patches a side; give a --patch-size"
        )
    part = train.pixels[:: max(1, len(train) // MAX_MEASURED_IMAGES)] / 255
    return new_vit_mae(
        config,
        image_size=height,
        patch_size=patch_size or height // _PATCHES_PER_SIDE,
        channels=channels,
        pixel_mean=part.mean((0, 1, 2)).tolist(),
        pixel_std=np.maximum(part.std((0, 1, 2)), 1e-3).tolist(),
        seed=options.seed,
    )


def _held_out(model: MaskedImage, train: Images, test: Images, seed: int) -> dict[str, Any]:
    """The log evidence of held-out images, and their reconstruction loss beside that of the mean image."""
    assert model.density is not None
    test = test.select(slice(MAX_SCORED_IMAGES))
    tokens = model.tokens(test.pixels, test.ids)
    estimate = estimate_evidence(model, tokens, RandomSize(8), seed=seed)
    details = {DENSITY: model.density.to_dict(), N_PIXELS: model.n_pixels}
    numbers = numbers_of(estimate) | details
    numbers |= image_summary(details, estimate.log_evidence, estimate.curve)
    if not model.norm_pix_loss:
        losses = -estimate_evidence(ReconstructionLoss(model), tokens, RandomSize(8), seed=seed).curve.score
        numbers["reconstruction_loss_mean"] = float(losses.mean())
        numbers["mean_image_loss"] = mean_image_loss(model, train, test)
    return numbers


def mean_image_loss(model: MaskedImage, train: Images, test: Images) -> float:
    """The reconstruction loss of the mean training image, a prediction that ignores the visible patches."""
    mean = train.pixels.mean(axis=0, dtype=np.float64)
    deviation = torch.from_numpy((test.pixels - mean) / 255) / model.pixel_std.cpu().double()
    return float(deviation.square().mean())
