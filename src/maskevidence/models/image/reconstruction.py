"""The paper's own quantity for masked autoencoders: the reconstruction loss."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.model import Conditionals
from maskevidence.models.image.masked_image import MaskedImage
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
