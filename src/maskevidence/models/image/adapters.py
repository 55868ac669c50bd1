"""What a masked image model predicts with: a ViT-MAE of Hugging Face, or a function of images and masks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from maskevidence.errors import InputError, NumericalError
from maskevidence.model import Conditionals
from maskevidence.models.image.loading import A_VIT_MAE
from maskevidence.models.image.patches import check_patch_size
from maskevidence.models.pretrained import config_settings


class ViTMAENetwork(nn.Module):
    """A `ViTMAEForPreTraining` as a function of images and hidden patches."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, pixels: Float[Tensor, "b C H W"], hidden: Bool[Tensor, "b D"]
    ) -> Float[Tensor, "b D K"]:
        """Predictions of all patches, shape (b, D, K); only those of hidden patches have a meaning."""
        return self.ask(self.model, pixels, hidden).logits

    @staticmethod
    def ask(
        model: Any, pixels: Float[Tensor, "b C H W"], hidden: Bool[Tensor, "b D"], through: Any = None
    ) -> Any:
        """The model's whole output, with its own loss, for given hidden patches.

        ViT-MAE hides the fraction `mask_ratio` of the patches, those with the largest noise, and keeps the
        others in the order of their noise.

        Args:
            model: a `ViTMAEForPreTraining`.
            pixels: preprocessed images.
            hidden: the patches to hide, the same number in each row.
            through: the model wrapped for distributed training, if it is.

        Raises:
            NumericalError: the model hid other patches.
        """
        d, n_hidden = hidden.shape[1], int(hidden[0].sum())
        noise = hidden * d + torch.arange(d, device=hidden.device)
        with _mask_ratio(model.config, 1 - (d - n_hidden + 0.5) / d):
            output = (model if through is None else through)(
                pixel_values=pixels, noise=noise.to(pixels.dtype)
            )
        if not torch.equal(output.mask.bool(), hidden):
            raise NumericalError(
                f"the model hid {int(output.mask.sum())} patches that differ from the {int(hidden.sum())} "
                "requested ones; this version of transformers handles masks differently"
            )
        return output


@contextmanager
def _mask_ratio(config: Any, ratio: float) -> Iterator[None]:
    """Set the fraction of hidden patches for one call."""
    before = config.mask_ratio
    config.mask_ratio = ratio
    try:
        yield
    finally:
        config.mask_ratio = before


@dataclass(frozen=True)
class PatchNetwork:
    """A network that predicts hidden patches, and the images it reads.

    Attributes:
        predict: a function or `torch.nn.Module` from images (b, C, H, W) and hidden patches (b, D), the same
            number in each row, to predictions (b, D, P·P·C).
        image_size: H and W, in pixels.
        patch_size: P, in pixels.
        channels: C.
        norm_pix_loss: whether it predicts normalised patches.
        conditionals: what its predictions of pixels are; see `MaskedModel`.
        transformer: the transformers model behind it; None for a function.

    Raises:
        InputError: patches that do not fill the image.
    """

    predict: Callable[[Tensor, Tensor], Tensor]
    image_size: int
    patch_size: int
    channels: int
    norm_pix_loss: bool = False
    conditionals: Conditionals = "learned"
    transformer: Any = None

    def __post_init__(self) -> None:
        check_patch_size(self.image_size, self.image_size, self.patch_size)

    def settings(self) -> dict[str, Any]:
        """What decides the predictions besides the weights, as content for JSON."""
        shape = {"image_size": self.image_size, "patch_size": self.patch_size, "channels": self.channels}
        if self.transformer is None:
            return shape
        # ViT-MAE's own mask ratio is never used: each call sets it
        return shape | config_settings(self.transformer, ignored=("mask_ratio",))


def vit_mae_adapter(model: Any) -> PatchNetwork:
    """A `ViTMAEForPreTraining` as a `PatchNetwork`.

    Raises:
        InputError: another model, or images or patches that are not square.
    """
    config: Any = getattr(model, "config", None)
    if getattr(config, "model_type", None) != "vit_mae" or not hasattr(model, "decoder"):
        raise InputError(f"{type(model).__name__} has no decoder that predicts patches; {A_VIT_MAE}")
    return PatchNetwork(
        ViTMAENetwork(model),
        image_size=_one_side(config.image_size, "image"),
        patch_size=_one_side(config.patch_size, "patch"),
        channels=config.num_channels,
        norm_pix_loss=bool(config.norm_pix_loss),
        transformer=model,
    )


def _one_side(size: Any, what: str) -> int:
    sides = {int(side) for side in (size if isinstance(size, list | tuple) else [size])}
    if len(sides) != 1:
        raise InputError(f"the model has a {what} size of {size}; only square ones can be used")
    return sides.pop()
