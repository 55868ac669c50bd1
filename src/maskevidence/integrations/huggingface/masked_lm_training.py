"""A masked language model trained on texts by transformers' Trainer."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from maskevidence import MaskDesign, Tokens
from maskevidence.errors import InputError
from maskevidence.integrations.huggingface.collator import MaskSizeCollator
from maskevidence.integrations.huggingface.recipe import Recipe, Trained, TrainingOrder
from maskevidence.integrations.huggingface.running import TrainerOptions, run_trainer
from maskevidence.integrations.huggingface.trainer import EvidenceTrainer
from maskevidence.models import MaskedLM


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
