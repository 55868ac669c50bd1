"""The ViT-MAE of transformers, with given hidden patches."""

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
