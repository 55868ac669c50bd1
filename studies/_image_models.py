"""One small ViT-MAE: trained by one way to mask, with its criteria and what they are to predict."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
import torch
from jaxtyping import Float64
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import maskevidence as me
from _table_sets import Labels, data_folder
from maskevidence.images.image_files import read_images
from maskevidence.huggingface.recipe import Recipe
from maskevidence.huggingface.training import train_vit_mae
from maskevidence.images.masked_image import MaskedImage
from maskevidence.images.new_vit_mae import new_vit_mae
from maskevidence.images.summary import ReconstructionLoss

RANDOM = "random sizes"
WAYS: Mapping[str, me.MaskDesign] = {
    "15 %": me.FixedRate(0.15, 1),
    "50 %": me.FixedRate(0.50, 1),
    "75 %": me.FixedRate(0.75, 1),
    RANDOM: me.RandomSize(1, 1),
}
CALIBRATION, TEST = 300, 1000  # images
SCORED = 300  # of the test images
AT_ONCE = 100


class ImageSet(NamedTuple):
    """A data set, and how it is read.

    Attributes:
        source: its DATA word.
        label: the column with the classes.
        patch_size: the side of a patch.
        limit: how many images are read.
    """

    source: str
    label: str
    patch_size: int
    limit: int


SETS = {
    "mnist": ImageSet("mnist:train", "label", 7, 8000),
    "cifar100": ImageSet("cifar100:test", "fine_label", 4, 4000),
}


@lru_cache(maxsize=2)
def images(data_set: str) -> tuple[np.ndarray, Labels]:
    """Pixels and classes."""
    chosen = SETS[data_set]
    pixels = read_images(chosen.source, limit=chosen.limit).pixels
    split = chosen.source.split(":")[1]
    file = data_folder() / data_set / f"{split}-00000-of-00001.parquet"
    labels = pq.read_table(file, columns=[chosen.label])[chosen.label].to_numpy()
    return pixels, labels[: len(pixels)].astype(np.int64)


def image_model(data_set: str, seed: int, way: str, steps: int) -> dict[str, Any]:
    """Train a ViT-MAE and measure it.

    Args:
        data_set: one of `SETS`.
        seed: of the weights, the split of the images, their order and the masks.
        way: one of `WAYS`.
        steps: of training, each with 64 images.

    Returns:
        The criteria and targets of claims.toml.
    """
    pixels, labels = images(data_set)
    order = np.random.default_rng([seed, 26]).permutation(len(pixels))
    calibration, test, train = np.split(order, [CALIBRATION, CALIBRATION + TEST])
    model = new_vit_mae(
        image_size=pixels.shape[1],
        patch_size=SETS[data_set].patch_size,
        channels=pixels.shape[3],
        seed=seed,
    )
    recipe = Recipe(
        steps=steps,
        batch_size=64,
        learning_rate=1e-3,
        warmup=min(100, steps // 4),
        weight_decay=0.05,
        seed=seed,
    )
    train_vit_mae(model, model.tokens(pixels[train]), WAYS[way], recipe, device="cpu")
    model.eval()
    model.calibrate(model.tokens(pixels[calibration]))
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=300))
    probe.fit(encoded(model, pixels[train]), labels[train])
    return {
        **_criteria(model, pixels[test[:SCORED]], seed),
        "probed": float(probe.score(encoded(model, pixels[test]), labels[test])),
    }


def _criteria(model: MaskedImage, pixels: np.ndarray, seed: int) -> dict[str, float | None]:
    """Area in nats per image; minus the reconstruction loss at 75 % and over all sizes, per pixel."""
    tokens = model.tokens(pixels)
    area = me.estimate_evidence(model, tokens, me.RandomSize(8), seed=seed, check=False, per_token=True)
    loss = ReconstructionLoss(model)
    at_75, at_all = (
        me.estimate_evidence(loss, tokens, design, seed=seed, check=False)
        for design in (me.FixedRate(0.75, 4), me.RandomSize(8))
    )
    return {
        "area": area.log_evidence,
        "area_se": area.mask_se,
        "score_75": at_75.log_evidence / model.n_patches,
        "score_all": at_all.log_evidence / model.n_patches,
        "score_all_se": None if at_all.mask_se is None else at_all.mask_se / model.n_patches,
    }


def encoded(model: MaskedImage, pixels: np.ndarray) -> Float64[np.ndarray, "N width"]:
    """The mean of the encoder's states of all patches, with nothing hidden."""
    encoder = model.network.model.vit
    before, encoder.config.mask_ratio = encoder.config.mask_ratio, 0.0
    parts = []
    try:
        for first in range(0, len(pixels), AT_ONCE):
            images = model.pixel_values(model.tokens(pixels[first : first + AT_ONCE]).values)
            noise = torch.arange(float(model.n_patches)).expand(len(images), -1)
            with torch.no_grad():
                parts.append(encoder(images, noise=noise).last_hidden_state[:, 1:].mean(1))
    finally:
        encoder.config.mask_ratio = before
    return torch.cat(parts).double().numpy()
