"""A masked language model trained on blocks of text by transformers' Trainer."""

import math
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from maskevidence.errors import InputError, NumericalError, import_extra
from maskevidence.integrations.huggingface.collator import ID, MaskSizeCollator
from maskevidence.integrations.huggingface.processes import end_processes, on_cpu
from maskevidence.integrations.huggingface.trainer import EvidenceTrainer
from maskevidence.masks import MaskDesign
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.support.files import csv_text, read_json
from maskevidence.support.keyed_random import keyed_ranks
from maskevidence.support.progress import Advance, progress, quiet
from maskevidence.tokens import Tokens

_transformers = import_extra("transformers", "hf", "training a masked language model")

HISTORY = ("step", "loss", "grad_norm", "learning_rate")
LOG_EVERY = 50
_WHOLE = ("trainer_state.json", "model.safetensors", "optimizer.pt", "scheduler.pt")


@dataclass(frozen=True)
class Recipe:
    """How to train: AdamW, a short rise of the learning rate and a linear fall to 0.

    Attributes:
        steps: of the optimizer.
        batch_size: texts in one step, over all processes.
        learning_rate: the highest.
        warmup: steps of the rise.
        weight_decay: of AdamW.
        clip: the largest norm of the gradient of the loss in nats per token.
        seed: of the order of the texts, the masks and dropout.
    """

    steps: int = 1000
    batch_size: int = 32
    learning_rate: float = 2e-3
    warmup: int = 50
    weight_decay: float = 0.0
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size"):
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}; give a whole number of 1 or more")
        for name in ("learning_rate", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name}={getattr(self, name):g}; give a number above 0")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"seed={self.seed}; give a whole number in 0..2^32 - 1")


class TrainingOrder(Dataset[dict[str, Any]]):
    """The texts in the order of training, numbered in it: one permutation of them after the other.

    Args:
        tokens: the texts.
        length: how many texts training takes.
        seed: of the permutations.

    Example:
        >>> order = TrainingOrder(Tokens.from_array([[1.0], [2.0]]), length=5, seed=0)
        >>> len(order), sorted(int(order[k]["input_ids"][0]) for k in range(2)), order[4]["id"]
        (5, [1, 2], 4)
    """

    def __init__(self, tokens: Tokens, length: int, seed: int) -> None:
        n = len(tokens)
        rounds = np.arange(-(-length // n))[:, None]
        ranks = keyed_ranks(seed, rounds, np.ones((len(rounds), n), dtype=np.bool_))
        self.order = np.argsort(ranks, axis=1).ravel()[:length]
        self.values = tokens.values.cpu().numpy()
        self.present = (tokens.maskable | tokens.context).cpu().numpy()
        self.context = tokens.context.cpu().numpy()

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, place: int) -> dict[str, Any]:
        row = self.order[place]
        kept = self.present[row]
        context = self.context[row][kept]
        return {"input_ids": self.values[row][kept], "special_tokens_mask": context, ID: int(place)}


@dataclass(frozen=True)
class Trained:
    """What training did.

    Attributes:
        history: the loss (nats per text, mean of the steps since the entry before), norm of the gradient and
            learning rate, by step; those of a checkpoint included.
        resumed_from: the step of the checkpoint that it went on from; None for a fresh start.
    """

    history: tuple[dict[str, float], ...]
    resumed_from: int | None

    def to_csv(self) -> str:
        """CSV text, columns step,loss,grad_norm,learning_rate."""
        return csv_text(HISTORY, ([entry.get(name) for name in HISTORY] for entry in self.history))


def train_masked_lm(
    model: MaskedLM,
    tokens: Tokens,
    design: MaskDesign | None = None,
    recipe: Recipe | None = None,
    *,
    out: str | Path | None = None,
    checkpoint_every: int = 200,
    report_to: str = "none",
    callbacks: Sequence[Any] = (),
) -> Trained:
    """Train a masked language model in place by one mask per text and step.

    Order of the texts, masks and dropout are functions of the seed and the step: a training that goes on
    from a checkpoint ends where an uninterrupted one does. The process's own random state is left as it
    was. Started by `torchrun`, the processes share each batch, with the result of one process up to rounding.

    Args:
        model: a transformers model with a masked-LM head, and its tokenizer.
        tokens: the texts; blocks of one length, or texts that are padded in each batch.
        design: of the masks; by default `RandomSize`, the evidence. See `MaskSizeCollator`.
        recipe: how to train.
        out: a folder for checkpoints (checkpoint-200, ...); training goes on from the newest whole one there.
        checkpoint_every: steps between two checkpoints; the last one is kept.
        report_to: where the Trainer reports to, such as "tensorboard" (in `out`); "none" for nowhere.
        callbacks: functions of the trainer that return a callback for it, such as
            `lambda trainer: EvidenceCallback(trainer, held_out)`.

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

    return run_trainer(
        make,
        recipe,
        loss_scale=float(tokens.n_tokens.double().mean()),
        unit="nats per token",
        out=out,
        checkpoint_every=checkpoint_every,
        report_to=report_to,
        callbacks=callbacks,
    )


def run_trainer(
    make: Callable[[Any], Any],
    recipe: Recipe,
    *,
    loss_scale: float = 1.0,
    unit: str,
    out: str | Path | None,
    checkpoint_every: int,
    report_to: str,
    callbacks: Sequence[Any],
) -> Trained:
    """Run a Trainer from the newest checkpoint on, quietly, with a progress bar, and leave no trace of it.

    Args:
        make: gives the trainer from its arguments.
        recipe: how to train.
        loss_scale: the loss is so many times `unit`: tokens of a text, where it is in nats per text.
        unit: of the loss that the bar shows.
        out, checkpoint_every, report_to, callbacks: as for `train_masked_lm`.
    """
    checkpoint = None if out is None else newest_checkpoint(out)
    with _random_state_kept(), tempfile.TemporaryDirectory() as nowhere, quiet():
        arguments = training_arguments(
            recipe,
            loss_scale,
            out=nowhere if out is None else out,
            checkpoint_every=None if out is None else checkpoint_every,
            report_to=report_to,
        )
        trainer = make(arguments)
        trainer.remove_callback(_transformers.PrinterCallback)
        for of_trainer in callbacks:
            trainer.add_callback(of_trainer(trainer))
        with progress("training", recipe.steps) as advance:
            trainer.add_callback(_Watch(advance, loss_scale, unit))
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        history = tuple(entry for entry in trainer.state.log_history if "loss" in entry)
        trainer.model.eval()
        trainer.callback_handler.callbacks.clear()  # they hold the trainer, and it holds the wrapped model
        del trainer
        end_processes()
    return Trained(history, None if checkpoint is None else _step_of(checkpoint))


def training_arguments(
    recipe: Recipe,
    tokens_per_text: float,
    *,
    out: str | Path,
    checkpoint_every: int | None = None,
    report_to: str = "none",
) -> Any:
    """The Trainer's arguments for a recipe.

    Args:
        recipe: how to train.
        tokens_per_text: the loss is in nats per text, so that gradients are clipped at so many times
            `recipe.clip`.
        out: for checkpoints and reports.
        checkpoint_every: steps between two checkpoints; None for none.
        report_to: as the Trainer takes it.

    Raises:
        InputError: a batch that the processes cannot share.
    """
    slow = on_cpu()
    arguments = _transformers.TrainingArguments(
        output_dir=str(out),
        max_steps=recipe.steps,
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup,
        lr_scheduler_type="linear",
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.clip * tokens_per_text,
        seed=recipe.seed,
        optim="adamw_torch_fused",
        use_cpu=slow,
        train_sampling_strategy="sequential",
        average_tokens_across_devices=False,
        remove_unused_columns=False,
        dataloader_pin_memory=not slow,
        logging_steps=min(LOG_EVERY, recipe.steps),
        logging_nan_inf_filter=False,
        save_strategy="no" if checkpoint_every is None else "steps",
        save_steps=checkpoint_every or recipe.steps,
        save_total_limit=1,
        report_to=report_to,
        disable_tqdm=True,
    )
    n_processes = arguments.world_size * max(1, arguments.n_gpu)
    if recipe.batch_size % n_processes:
        raise InputError(
            f"{recipe.batch_size} texts in a step cannot be shared by {n_processes} processes; give a "
            "multiple"
        )
    arguments.per_device_train_batch_size = recipe.batch_size // n_processes
    return arguments


def newest_checkpoint(folder: str | Path) -> Path | None:
    """The newest checkpoint in a folder that is whole; a kill while one was written leaves the one before."""
    found = [path for path in Path(folder).glob("checkpoint-*") if path.name.split("-")[1].isdigit()]
    for path in sorted(found, key=_step_of, reverse=True):
        try:
            read_json(path / _WHOLE[0])
        except InputError:
            continue
        if all((path / name).is_file() for name in _WHOLE):
            return path
    return None


class _Watch(_transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Moves the bar, and ends a training whose loss is not finite."""

    def __init__(self, advance: Advance, loss_scale: float, unit: str) -> None:
        self.advance = advance
        self.loss_scale = loss_scale
        self.unit = unit
        self.done = 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        self.advance(state.global_step - self.done)
        self.done = state.global_step

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_keywords: Any) -> None:
        loss = (logs or {}).get("loss")
        if loss is None:
            return
        if not math.isfinite(loss):
            raise NumericalError(
                f"the loss is {loss} at step {state.global_step}; give a lower learning rate"
            )
        self.advance(0, f"training, loss {loss / self.loss_scale:.3f} {self.unit}")


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.split("-")[1])


@contextmanager
def _random_state_kept() -> Iterator[None]:
    """The Trainer seeds every generator of the process; they go on afterwards as if it had not."""
    own, numpys = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        yield
    random.setstate(own)
    np.random.set_state(numpys)
