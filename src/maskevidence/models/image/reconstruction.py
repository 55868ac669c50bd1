"""The paper's own quantity for masked autoencoders: the reconstruction loss by mask size."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.model import Conditionals
from maskevidence.models.image.masked_image import MaskedImage
from maskevidence.tokens import Tokens


class ReconstructionLoss(nn.Module):
    """Minus the reconstruction loss of a masked autoencoder, by mask size.

    No log-probability: `estimate_evidence` of it gives the curve of minus the mean squared error, marked
    `pseudo`.

    Args:
        model: what is measured; it needs no density.
    """

    conditionals: Conditionals = "transformed"

    def __init__(self, model: MaskedImage) -> None:
        super().__init__()
        self.model = model

    def batches(self, n_present: Int64[np.ndarray, " n_pairs"]) -> Iterator[Int64[np.ndarray, " n_in_call"]]:
        """As the model's own."""
        return self.model.batches(n_present)

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Minus the mean squared error of each hidden patch, shape (B, D)."""
        return -self.model.reconstruction_losses(tokens, masked)
