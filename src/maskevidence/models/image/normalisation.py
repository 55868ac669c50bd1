"""Normalised patches, the targets of networks trained with `norm_pix_loss`, and the way back to pixels."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from maskevidence.models.image.pixel_density import PixelDensity

_EPSILON = 1e-6  # ViT-MAE's own, under the root of a patch's variance


def normalised(patches: Float[Tensor, "n K"]) -> Float[Tensor, "n K"]:
    """Each patch with mean 0 and variance 1.

    Example:
        >>> normalised(torch.tensor([[1.0, 3.0]]))
        tensor([[-0.7071,  0.7071]])
    """
    variance, mean = torch.var_mean(patches, dim=1, keepdim=True)
    return (patches - mean) / (variance + _EPSILON).sqrt()


def brought_back(
    outputs: Float[Tensor, "n K"], mean: Float[Tensor, " n"], variance: Float[Tensor, " n"]
) -> Float[Tensor, "n K"]:
    """Normalised patches as patches with this mean and variance: the inverse of `normalised`."""
    return outputs * (variance[:, None] + _EPSILON).sqrt() + mean[:, None]


def visible_statistics(
    patches: Float[Tensor, "b D K"], hidden: Bool[Tensor, "b D"], density: PixelDensity
) -> tuple[Float[Tensor, " b"], Float[Tensor, " b"]]:
    """Mean and variance of a patch, averaged over the visible patches of each image.

    If no patch is visible, they are those of the images of the calibration, which the density holds.
    """
    visible = ~hidden
    count = visible.sum(1)
    averages = []
    for each, otherwise in (
        (patches.mean(2), density.patch_mean),
        (patches.var(2), density.patch_variance),
    ):
        total = torch.where(visible, each, 0.0).sum(1)
        averages.append(torch.where(count > 0, total / count.clamp(min=1), float(otherwise or 0.0)))
    return averages[0], averages[1]
