"""Further results for images: bits per dimension and reconstruction losses."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.curve import Curve
from maskevidence.core.model import Conditionals
from maskevidence.core.tokens import Tokens
from maskevidence.images.masked_image import MaskedImage
from maskevidence.images.pixel_density import PixelDensity


class ReconstructionLoss(nn.Module):
    """A masked autoencoder's negative reconstruction loss, by mask size.

    It is not a log-probability: `estimate_evidence` returns minus the mean squared error as a curve over mask
    sizes, with kind `pseudo`.

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
        """The model's settings."""
        return self.model.fingerprint_settings()


DENSITY, N_PIXELS = "pixel_density", "n_pixels"


def image_summary(details: Mapping[str, Any], log_evidence: float, curve: Curve) -> dict[str, Any]:
    """Further entries of estimate.json for images, computed from the density and the curve.

    With the discretised density, bits_per_dimension is -log_evidence / (n_pixels · log 2), a code length.

    With the Gaussian density, reconstruction_loss is the paper's own quantity, the masked reconstruction loss
    by mask size. It follows from the score, for patches of K pixels: S(x; M) = -K/2 (log 2πv_M + loss_M/v_M).
    Its unit is levels², or squared standard deviations of the patch if normalised patches are scored.

    Example:
        >>> from maskevidence.images.pixel_density import PixelDensity
        >>> density = PixelDensity("gaussian", (1,), (4.0,), n_patches=2)
        >>> score = -0.5 * (math.log(2 * math.pi * 4.0) + 9.0 / 4.0) * 8  # 8 pixels, off by 3 levels each
        >>> ones = np.ones(1)
        >>> curve = Curve(2, ones, ones / 2, score * ones, 0 * ones, ones, ones, ones.astype(np.int64))
        >>> found = image_summary({DENSITY: density.to_dict(), N_PIXELS: 16}, -40.0, curve)
        >>> round(found["reconstruction_loss"][0]["loss"], 6)
        9.0
    """
    try:
        density = PixelDensity.from_dict(dict(details[DENSITY]))
        n_pixels = int(details[N_PIXELS])
        in_patch = n_pixels // density.n_patches
        if in_patch < 1:
            raise InputError(f"{n_pixels} pixels in {density.n_patches} patches")
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise InputError(
            f"the details of the images in run.json cannot be used ({type(error).__name__}: {error}); "
            "score the images again"
        ) from error
    if density.name == "discretised":
        return {"bits_per_dimension": -log_evidence / n_pixels / math.log(2)}
    variances = density.variances_at(curve.size.astype(np.int64))
    loss = variances * (-2 * curve.score / in_patch - np.log(2 * math.pi * variances))
    mask_se = 2 * variances / in_patch * curve.mask_se
    rows = zip(curve.size, curve.rate, loss, mask_se, strict=True)
    return {
        "reconstruction_loss": [
            {"size": int(m), "rate": float(r), "loss": float(x), "mask_se": None if np.isnan(s) else float(s)}
            for m, r, x, s in rows
        ]
    }
