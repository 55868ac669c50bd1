"""Complete trainings by transformers' Trainer: a masked language model on texts, a ViT-MAE on images."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from maskevidence import MaskDesign, MaskKey, RandomSize, Tokens
from maskevidence.errors import InputError
from maskevidence.integrations.huggingface.collator import MaskSizeCollator, one_mask_each
from maskevidence.integrations.huggingface.recipe import ID, Recipe, Trained, TrainingOrder
from maskevidence.integrations.huggingface.running import TrainerOptions, newest_checkpoint, run_trainer
from maskevidence.integrations.huggingface.trainer import BaseTrainer, EvidenceTrainer
from maskevidence.models import MaskedImage, MaskedLM
from maskevidence.models.image.adapters import ViTMAENetwork
from maskevidence.support.keyed_random import keyed_ranks
from maskevidence.support.progress import quiet

HIDDEN = "hidden"
PIXELS = "pixel_values"
VIT_MAE_RECIPE = Recipe(steps=3000, batch_size=64, learning_rate=1e-3, warmup=100, weight_decay=0.05)


def train_masked_lm(
    model: MaskedLM,
    tokens: Tokens,
    design: MaskDesign | None = None,
    recipe: Recipe | None = None,
    *,
    out: str | Path | None = None,
    checkpoint_every: int = 200,
    report_to: str = "none",
    callbacks: Sequence[Callable[[Any], Any]] = (),
    device: str | torch.device | None = None,
) -> Trained:
    """Train a masked language model in place by one mask per text and step.

    The order of the texts, the masks and dropout are functions of the seed and the step: a training that
    resumes from a checkpoint ends where an uninterrupted one does. The random state of the process is left
    as it was. Processes that `torchrun` started share each batch, and give the result of one process up to
    rounding.

    Args:
        model: a transformers model with a masked-LM head, and its tokenizer.
        tokens: the texts; blocks of one length, or texts that are padded in each batch.
        design: how masks are drawn; by default `RandomSize`, the evidence. See `MaskSizeCollator`.
        recipe: how to train.
        out: a folder for checkpoints (checkpoint-200, ...); training resumes from the newest complete one.
        checkpoint_every: steps between two checkpoints; only the last one is kept.
        report_to: where the Trainer reports to, such as "tensorboard" (in `out`); "none" for no report.
        callbacks: functions of the trainer that return a callback for it, such as
            `lambda trainer: EvidenceCallback(trainer, held_out)`.
        device: where to train, and where the model is afterwards: "cpu", "cuda", "cuda:1", "mps"; by default
            on all GPUs, if there is one.

    Raises:
        InputError: options that cannot be used, or a batch that the processes cannot share.
        NumericalError: a loss that is not finite.

    Example:
        >>> from transformers import BertConfig, BertForMaskedLM, BertTokenizerFast
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "rain", "falls"]
        >>> tokenizer = BertTokenizerFast(vocab={word: i for i, word in enumerate(words)})
        >>> config = BertConfig(vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
        >>> model = MaskedLM(BertForMaskedLM(config), tokenizer)
        >>> tokens = model.tokens(["rain falls rain falls"] * 4)
        >>> trained = train_masked_lm(model, tokens, recipe=Recipe(steps=2, batch_size=4, warmup=0))
        >>> [entry["step"] for entry in trained.history], trained.resumed_from
        ([2], None)
    """
    recipe = Recipe() if recipe is None else recipe
    if model.tokenizer is None or not hasattr(model.network, "save_pretrained"):
        raise InputError("training needs a transformers model and its tokenizer; give MaskedLM both")
    collator = MaskSizeCollator(model.tokenizer, design, seed=recipe.seed)

    def make(arguments: Any) -> Any:
        return EvidenceTrainer(
            model=model.network,
            args=arguments,
            data_collator=collator,
            train_dataset=TrainingOrder(tokens, recipe.steps * recipe.batch_size, recipe.seed),
            processing_class=model.tokenizer,
        )

    options = TrainerOptions(out, checkpoint_every, report_to, callbacks, device)
    tokens_per_text = float(tokens.n_tokens.double().mean())
    trained = run_trainer(make, recipe, options, unit="nats per token", loss_scale=tokens_per_text)
    model.to(model.device)  # the Trainer moved the network alone
    return trained


class PatchMaskCollator:
    """Turns images into a training batch: one mask size for all, drawn by the design, and a mask per image.

    The encoder sees visible patches only, so that the images of a batch must share their mask size. Sizes
    are spread evenly over the steps. The loss is the mean squared error of hidden
    pixels: with uniformly random sizes, its mean is the mean of the curve of reconstruction losses. Up to
    constants, this is the masked objective for a Gaussian density with one variance for all sizes.

    Args:
        design: how sizes are drawn; by default `RandomSize`, uniform on 1..D.

    Example:
        >>> from maskevidence.models.image.new_vit_mae import new_vit_mae
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
        out, checkpoint_every, report_to, callbacks, device: as for `train_masked_lm`.

    Raises:
        InputError: a model that is not a ViT-MAE, or options that cannot be used.
        NumericalError: a loss that is not finite.

    Example:
        >>> from maskevidence.models.image.new_vit_mae import new_vit_mae
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
