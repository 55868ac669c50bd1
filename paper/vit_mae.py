"""ViT-MAEs for Figure 6: new ones in a few sizes, and their training by masks of random sizes."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence import MaskDesign, MaskKey, RandomSize, Tokens
from maskevidence.core.errors import InputError, import_extra, unknown_name
from maskevidence.core.support.devices import seeded
from maskevidence.core.support.keyed_random import keyed_ranks
from maskevidence.core.support.progress import quiet
from maskevidence.huggingface.collator import one_mask_each
from maskevidence.huggingface.recipe import ID, Recipe, Trained, TrainingOrder
from maskevidence.huggingface.trainer import BaseTrainer
from maskevidence.huggingface.training import TrainerOptions, newest_checkpoint, run_trainer
from maskevidence.images.adapters import ViTMAENetwork
from maskevidence.images.masked_image import MaskedImage
from maskevidence.images.patches import check_patch_size

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


PIXELS, HIDDEN = "pixel_values", "hidden"


VIT_MAE_RECIPE = Recipe(steps=3000, batch_size=64, learning_rate=1e-3, warmup=100, weight_decay=0.05)


class PatchMaskCollator:
    """Turns images into a training batch: one mask size for all, drawn by the design, and a mask per image.

    The encoder sees visible patches only, so that the images of a batch must share their mask size. Sizes
    are spread evenly over the steps. The loss is the mean squared error of hidden
    pixels: with uniformly random sizes, its mean is the mean of the curve of reconstruction losses. Up to
    constants, this is the masked objective for a Gaussian density with one variance for all sizes.

    Args:
        design: how sizes are drawn; by default `RandomSize`, uniform on 1..D.

    Example:
        >>> from paper.vit_mae import new_vit_mae
        >>> model = new_vit_mae(image_size=8, patch_size=4, channels=1)
        >>> patches = np.zeros((4, 16), dtype=np.uint8)
        >>> batch = PatchMaskCollator(model, batch_size=2)([{"input_ids": patches, "id": i} for i in (0, 1)])
        >>> batch["pixel_values"].shape, len(set(batch["hidden"].sum(1).tolist()))
        (torch.Size([2, 1, 8, 8]), 1)
    """

    def __init__(
        self, model: MaskedImage, design: MaskDesign | None = None, *, batch_size: int, seed: int = 0
    ) -> None:
        self.model = model
        self.design = RandomSize(1, 1) if design is None else design
        self.batch_size = batch_size
        self.key = MaskKey(seed)

    def __call__(self, features: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """The batch: pixel_values (B, C, H, W), preprocessed, and hidden (B, D), equally many in each row."""
        ids = np.array([int(feature[ID]) for feature in features])
        patches = torch.from_numpy(np.stack([feature["input_ids"] for feature in features]))
        size = self.size_of_step(int(ids[0]) // self.batch_size)
        everywhere = np.ones(patches.shape[:2], dtype=np.bool_)
        hidden = keyed_ranks(self.key.seed, ids[:, None], everywhere) < size
        return {PIXELS: self.model.pixel_values(patches), HIDDEN: torch.from_numpy(hidden)}

    def size_of_step(self, step: int) -> int:
        """The number of patches that a step hides."""
        everywhere = np.ones((1, self.model.n_patches), dtype=np.bool_)
        masked, _ = one_mask_each(self.design, self.key, np.array([step]), everywhere)
        return int(masked.sum())


class ImageTrainer(BaseTrainer):
    """The Trainer for the batches of a `PatchMaskCollator`, whose masks the network gets."""

    def mean_loss(self, model: Any, inputs: Mapping[str, Tensor]) -> tuple[Tensor, Any]:
        """The mean squared error of the hidden pixels, in preprocessed units."""
        output = ViTMAENetwork.ask(self.model, inputs[PIXELS], inputs[HIDDEN], through=model)
        return output.loss, output


def train_vit_mae(
    model: MaskedImage,
    tokens: Tokens,
    design: MaskDesign | None = None,
    recipe: Recipe = VIT_MAE_RECIPE,
    *,
    out: str | Path | None = None,
    checkpoint_every: int = 500,
    report_to: str = "none",
    callbacks: Sequence[Callable[[Any], Any]] = (),
    device: str | torch.device | None = None,
) -> Trained:
    """Train a ViT-MAE in place by its reconstruction loss, with one mask size per step.

    The order of the images, sizes and masks are functions of the seed and the step: a training that resumes
    from a checkpoint ends where an uninterrupted one does. Pixel variances that were fitted before belong to
    the old weights and are dropped: calibrate the model again.

    Args:
        model: from `new_vit_mae` or `MaskedImage.from_pretrained`.
        tokens: the images, `model.tokens(pixels)`.
        design: how sizes are drawn; see `PatchMaskCollator`.
        recipe: how to train.
        out, checkpoint_every, report_to, callbacks, device: as for `TrainerOptions`.

    Raises:
        InputError: a model that is not a ViT-MAE, or options that cannot be used.
        NumericalError: a loss that is not finite.

    Example:
        >>> from paper.vit_mae import new_vit_mae
        >>> model = new_vit_mae(image_size=8, patch_size=4, channels=1)
        >>> tokens = model.tokens(np.random.default_rng(0).integers(0, 256, (4, 8, 8, 1), dtype=np.uint8))
        >>> trained = train_vit_mae(model, tokens, recipe=Recipe(steps=2, batch_size=4, warmup=0))
        >>> [entry["step"] for entry in trained.history]
        [2]
    """
    if not isinstance(model.network, ViTMAENetwork):
        raise InputError("only a ViT-MAE can be trained by the Trainer; train the function yourself")
    network = model.to("cpu").network.model  # batches are made on the processor, and the Trainer moves them
    checkpoint = None if out is None else newest_checkpoint(out)
    if checkpoint is not None:
        # The Trainer would not load these weights: it looks for the current names of parameters in a file
        # that transformers writes with the names of older versions.
        with quiet():
            saved = type(network).from_pretrained(checkpoint, dtype=next(network.parameters()).dtype)
        network.load_state_dict(saved.state_dict())
    collator = PatchMaskCollator(model, design, batch_size=recipe.batch_size, seed=recipe.seed)

    def make(arguments: Any) -> Any:
        return ImageTrainer(
            model=network,
            args=arguments,
            data_collator=collator,
            train_dataset=TrainingOrder(tokens, recipe.steps * recipe.batch_size, recipe.seed),
        )

    model.density = None
    options = TrainerOptions(out, checkpoint_every, report_to, callbacks, device)
    trained = run_trainer(make, recipe, options, unit="squared error")
    model.to(network.device)  # the Trainer moved the network alone
    return trained
