"""What a masked image model predicts with: a ViT-MAE of Hugging Face, or a function of images and masks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from maskevidence.errors import InputError
from maskevidence.model import Conditionals
from maskevidence.models.image.loading import A_VIT_MAE
from maskevidence.models.image.patches import check_patch_size
from maskevidence.models.image.vit_mae import ViTMAENetwork
from maskevidence.models.pretrained import config_settings


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
