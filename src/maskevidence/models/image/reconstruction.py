"""The paper's own quantity for masked autoencoders, the reconstruction loss, and reconstructed images."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.errors import InputError
from maskevidence.model import Conditionals
from maskevidence.models.image.calls import Call, put_in_place
from maskevidence.models.image.masked_image import MaskedImage
from maskevidence.models.image.normalisation import normalised
from maskevidence.tokens import Tokens


class ReconstructionLoss(nn.Module):
    """Minus the reconstruction loss of a masked autoencoder, by mask size.

    It is not a log-probability: `estimate_evidence` gives the curve of minus the mean squared error, with
    kind `pseudo`.

    Args:
        model: the masked autoencoder; it needs no density.
    """

    conditionals: Conditionals = "transformed"

    def __init__(self, model: MaskedImage) -> None:
        super().__init__()
        target = "normalised patches" if model.norm_pix_loss else "pixels in the network's units"
        self.base_measure = f"negative squared error of {target}"
        self.model = model

    def batches(self, n_present: Int64[np.ndarray, " n_pairs"]) -> Iterator[Int64[np.ndarray, " n_in_call"]]:
        """Split pairs of image and mask into parts as the model itself does."""
        return self.model.batches(n_present)

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Minus the mean squared error of each hidden patch, shape (B, D)."""
        return -self.model.reconstruction_losses(tokens, masked)

    def fingerprint_settings(self) -> dict[str, Any]:
        """Those of the model."""
        return self.model.fingerprint_settings()


def reconstruction_losses(
    model: MaskedImage, tokens: Tokens, masked: Bool[Tensor, "B D"]
) -> Float[Tensor, "B D"]:
    """The mean squared error of each hidden patch, as ViT-MAE is trained by, shape (B, D); 0 elsewhere.

    The units are the network's own: squared preprocessed pixels, or squared standard deviations of the patch
    with `norm_pix_loss`. The mean over hidden patches is the loss of `ViTMAEForPreTraining`.
    """

    def loss(call: Call) -> Float[Tensor, " n"]:
        pixels = model._in_model_units(call.levels[call.scored])
        targets = normalised(pixels) if model.norm_pix_loss else pixels
        return (call.outputs[call.scored] - targets).double().square().mean(1)

    return put_in_place(model._calls(tokens, masked), loss, like=masked)


def reconstruct(model: MaskedImage, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D K"]:
    """The patches with hidden ones replaced by their predictions, in levels (not rounded or clipped).

    Raises:
        InputError: a network of normalised patches that is not calibrated with statistics of visible patches,
            and so says nothing about pixels.
    """
    if model.conditionals == "transformed":
        raise InputError(
            "the network predicts normalised patches, which are not pixels; calibrate it with "
            "patch_statistics='visible' (--patch-statistics visible)"
        )
    patch_statistics = None if model.density is None else model.density.patch_statistics
    result = tokens.values.to(model.pixel_mean.dtype).clone()
    for call in model._calls(tokens, masked):
        _, means = model._targets(call, patch_statistics, model.density)
        row, column = torch.nonzero(call.scored, as_tuple=True)
        rows = call.rows.to(row.device)[row]
        result[rows.to(result.device), column.to(result.device)] = means.to(result)
    return result
