"""Images with hidden patches, and their reconstructions by a masked image model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8

from maskevidence.masks.sizes import size_of_rate
from maskevidence.models.image.masked_image import MaskedImage
from maskevidence.models.image.patches import random_masks, unpatchify
from maskevidence.show.pictures import ImageGrid
from maskevidence.show.words import typeset
from maskevidence.tokens import Tokens

RATES = (0.25, 0.5, 0.75, 0.9)
_HIDDEN_COLOUR = (0.72, 0.80, 0.90)  # neither grey nor common in photographs


@dataclass(frozen=True)
class Reconstruction:
    """Some images at one mask rate."""

    rate: float  # the fraction of hidden patches asked for
    size: int  # the number of hidden patches
    hidden: Bool[np.ndarray, "N D"]
    levels: Float[np.ndarray, "N H W C"]  # hidden patches hold their predictions, which are not clipped
    log_prob: Float[np.ndarray, " N"]  # log p of the hidden patches given the visible ones, nats
    per_pixel: Float[np.ndarray, " N"]  # the same divided by the number of hidden pixels and channels


def reconstruct_images(
    model: MaskedImage, tokens: Tokens, rates: Sequence[float] = RATES, seed: int = 0
) -> list[Reconstruction]:
    """Predict hidden patches at some mask rates, with their log-probabilities."""
    return [_at_rate(model, tokens, rate, seed) for rate in rates]


def _at_rate(model: MaskedImage, tokens: Tokens, rate: float, seed: int) -> Reconstruction:
    size = int(size_of_rate(rate, np.array([model.n_patches]))[0])
    masked = random_masks(tokens, size, seed)
    with torch.no_grad():
        patches = model.reconstruct(tokens, masked)
        log_prob = model.log_conditionals(tokens, masked).sum(1).cpu().numpy()
    levels = unpatchify(patches, model.image_size, model.image_size, model.channels)
    per_pixel = log_prob / (size * (model.n_pixels // model.n_patches))
    return Reconstruction(rate, size, masked.cpu().numpy(), levels.cpu().numpy(), log_prob, per_pixel)


def reconstructions_picture(
    originals: UInt8[np.ndarray, "N H W C"], reconstructions: Sequence[Reconstruction]
) -> ImageGrid:
    """One row per image: the original, then visible and reconstructed patches at each rate."""
    names = ["original"]
    for each in reconstructions:
        names += [f"{each.rate:.0%} hidden", "reconstructed"]
    images, words = [], []
    for row, original in enumerate(originals):
        levels = _in_colour(original / 255.0)
        images.append([levels])
        words.append([""])
        for each in reconstructions:
            hidden = np.where(_pixels(each.hidden[row], original.shape), _HIDDEN_COLOUR, levels)
            images[-1] += [hidden, _in_colour(np.clip(each.levels[row] / 255.0, 0.0, 1.0))]
            nats, per_pixel = typeset(float(each.log_prob[row]), 0), typeset(float(each.per_pixel[row]))
            words[-1] += ["", f"{nats} nats\n{per_pixel} per pixel"]
    return ImageGrid(np.array(images), names, words)


def _in_colour(image: Float[np.ndarray, "H W C"]) -> Float[np.ndarray, "H W 3"]:
    return np.broadcast_to(image, (*image.shape[:2], 3)) if image.shape[2] == 1 else image


def _pixels(hidden: Bool[np.ndarray, " D"], shape: tuple[int, ...]) -> Bool[np.ndarray, "H W 1"]:
    """Which pixels belong to hidden patches of a square grid."""
    side = round(len(hidden) ** 0.5)
    grid = hidden.reshape(side, side)
    return grid.repeat(shape[0] // side, axis=0).repeat(shape[1] // side, axis=1)[..., None]
