"""transformers' ViT-MAE, told which patches to hide."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from maskevidence.errors import NumericalError


class ViTMAENetwork(nn.Module):
    """A `ViTMAEForPreTraining` as a function of images and hidden patches."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, pixels: Float[Tensor, "b C H W"], hidden: Bool[Tensor, "b D"]
    ) -> Float[Tensor, "b D K"]:
        """Predictions of all patches; only those of hidden ones mean anything.

        It hides the patches with the largest noise, a share `mask_ratio` of them, and keeps the others in the
        order of their noise.
        """
        return self.ask(self.model, pixels, hidden).logits

    @staticmethod
    def ask(
        model: Any, pixels: Float[Tensor, "b C H W"], hidden: Bool[Tensor, "b D"], through: Any = None
    ) -> Any:
        """The model's whole output, with its own loss, for these hidden patches.

        Args:
            model: a `ViTMAEForPreTraining`.
            pixels: preprocessed images.
            hidden: as many in each row.
            through: the model in a wrapper of distributed training, where there is one.
        """
        d, n_hidden = hidden.shape[1], int(hidden[0].sum())
        noise = hidden * d + torch.arange(d, device=hidden.device)
        with _mask_ratio(model.config, 1 - (d - n_hidden + 0.5) / d):
            output = (model if through is None else through)(
                pixel_values=pixels, noise=noise.to(pixels.dtype)
            )
        if not torch.equal(output.mask.bool(), hidden):
            raise NumericalError(
                f"the model hid {int(output.mask.sum())} patches and not the {int(hidden.sum())} asked for; "
                "its version of transformers takes masks in another way"
            )
        return output


@contextmanager
def _mask_ratio(config: Any, ratio: float) -> Iterator[None]:
    """The share of hidden patches, as it is set for one call."""
    before = config.mask_ratio
    config.mask_ratio = ratio
    try:
        yield
    finally:
        config.mask_ratio = before
