"""New ViT-MAEs in a few sizes, with the position embeddings and tokens that transformers leaves at zero."""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence.core.errors import InputError, import_extra, unknown_name
from maskevidence.images.masked_image import MaskedImage
from maskevidence.images.patches import check_patch_size
from maskevidence.core.support.threads import seeded

SIZES: dict[str, dict[str, Any]] = {
    "small": {
        "hidden_size": 128,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "decoder_hidden_size": 96,
        "decoder_num_hidden_layers": 2,
        "decoder_num_attention_heads": 4,
        "decoder_intermediate_size": 192,
        "layer_norm_eps": 1e-6,
    },
    "base": {"layer_norm_eps": 1e-6},
}
_TOKEN_SPREAD = 0.02


def new_vit_mae(
    size: str = "small",
    *,
    image_size: int,
    patch_size: int,
    channels: int,
    pixel_mean: list[float] | None = None,
    pixel_std: list[float] | None = None,
    seed: int = 0,
) -> MaskedImage:
    """A ViT-MAE with random weights that can be trained.

    When transformers 5.23 builds a ViT-MAE from a configuration, the position embeddings of encoder and
    decoder, the class token and the mask token are all zero: hidden patches cannot be told apart, and
    training never gets below the error of the mean image, or ends in NaN. This function gives it sin-cos
    position embeddings, normal tokens with standard deviation 0.02, and a patch projection that is
    initialised like a linear layer.

    Args:
        size: "small" (3 layers of 128, decoder 2 of 96) or "base" (the shape of facebook/vit-mae-base).
        image_size: H and W, in pixels.
        patch_size: P, a divisor of the image size.
        channels: 1 or 3.
        pixel_mean: mean of the preprocessing, one for each channel; by default 0.5.
        pixel_std: standard deviation of the preprocessing, likewise.
        seed: seed of the weights.

    Raises:
        InputError: another size, or patches that do not fill the image.
        MissingExtraError: transformers is not installed.

    Source:
        He, Chen, Xie, Li, Dollár, Girshick (2022), Masked Autoencoders Are Scalable Vision Learners, app. A.

    Example:
        >>> model = new_vit_mae(image_size=28, patch_size=7, channels=1)
        >>> model.n_patches, bool(model.network.model.vit.embeddings.position_embeddings.std() > 0.3)
        (16, True)
    """
    if size not in SIZES:
        raise unknown_name("size", size, SIZES)
    check_patch_size(image_size, image_size, patch_size)
    transformers = import_extra("transformers", "hf", "a masked image model")
    config = transformers.ViTMAEConfig(
        image_size=image_size, patch_size=patch_size, num_channels=channels, **SIZES[size]
    )
    network = random_vit_mae(config, seed)
    mean, std = pixel_mean or [0.5], pixel_std or [0.5]
    return MaskedImage(network, pixel_mean=mean, pixel_std=std).eval()


def random_vit_mae(config: Any, seed: int = 0) -> Any:
    """A `ViTMAEForPreTraining` of any configuration with random weights, ready to be trained.

    Args:
        config: a `ViTMAEConfig`.
        seed: seed of the weights.

    Raises:
        MissingExtraError: transformers is not installed.

    Example:
        >>> from transformers import ViTMAEConfig
        >>> sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
        >>> of_decoder = {f"decoder_{name}": value for name, value in sizes.items()}
        >>> network = random_vit_mae(ViTMAEConfig(image_size=8, patch_size=4, **sizes, **of_decoder))
        >>> bool(network.decoder.mask_token.std() > 0)
        True
    """
    transformers = import_extra("transformers", "hf", "a masked image model")
    with seeded(seed), torch.no_grad():
        network = transformers.ViTMAEForPreTraining(config)
        embeddings, decoder = network.vit.embeddings, network.decoder
        side = math.isqrt(embeddings.patch_embeddings.num_patches)
        for positions in (embeddings.position_embeddings, decoder.decoder_pos_embed):
            positions[0, 0] = 0.0
            positions[0, 1:] = sin_cos_positions(side, positions.shape[2])
        for token in (embeddings.cls_token, decoder.mask_token):
            token.normal_(0.0, _TOKEN_SPREAD)
        torch.nn.init.xavier_uniform_(embeddings.patch_embeddings.projection.weight.flatten(1))
    return network


def sin_cos_positions(side: int, width: int) -> Float[Tensor, "D width"]:
    """The fixed embedding of the patches of a square grid: a quarter each of sin and cos of column and row.

    Frequencies are 10000^(-i / (width / 4)); patches are numbered row by row. This is the layout of the
    published ViT-MAE weights.

    Example:
        >>> sin_cos_positions(2, 4).shape
        torch.Size([4, 4])
    """
    if width % 4:
        raise InputError(
            f"a width of {width} has no sin-cos positions in two dimensions; give a multiple of 4"
        )
    quarter = width // 4
    frequency = 10000.0 ** (-np.arange(quarter) / quarter)
    row, column = (grid.ravel() for grid in np.indices((side, side)))
    angles = [np.outer(coordinate, frequency) for coordinate in (column, row)]
    parts = [function(angle) for angle in angles for function in (np.sin, np.cos)]
    return torch.from_numpy(np.concatenate(parts, axis=1)).float()
