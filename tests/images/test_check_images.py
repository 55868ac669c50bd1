"""Masked image models: sound ones have no fault, and normalised patches are no pixels."""

from typing import Any

import pytest
import torch
from torch import Tensor

import maskevidence as me
from image_models import small_vit_mae, smooth_images
from maskevidence.core.tokens import Tokens

pytest.importorskip("transformers", reason="the extra hf is not installed")


def calibrated(density: str = "gaussian", *, visible: bool = False, **options: Any) -> tuple[Any, Tokens]:
    model = me.models.MaskedImage(small_vit_mae(**options))
    tokens = model.tokens(smooth_images(24))
    model.calibrate(tokens[:8], density, patch_statistics="visible" if visible else None)
    return model, tokens[8:]


@pytest.mark.parametrize(
    "options",
    [{}, {"density": "discretised"}, {"norm_pix_loss": True}, {"norm_pix_loss": True, "visible": True}],
    ids=str,
)
def test_sound_models_have_no_fault(options: dict[str, Any]) -> None:
    report = me.check_model(*calibrated(**options))
    assert report.ok, report
    assert report["normalisation"].status == "skipped"


class NormalisedAsPixels(torch.nn.Module):
    """Scores normalised patches, and calls it the density of their pixels."""

    conditionals = "learned"
    base_measure = "density per level (0..255) of each pixel"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def log_conditionals(self, tokens: Tokens, masked: Tensor) -> Tensor:
        return self.model.log_conditionals(tokens, masked)


def test_normalised_patches_scored_as_pixels_are_caught() -> None:
    model, tokens = calibrated(norm_pix_loss=True)
    report = me.check_model(NormalisedAsPixels(model), tokens)
    assert report["units"].status == "failed", report
    assert "stays the same" in report["units"].found
