"""Train by transformers' Trainer: a masked language model on texts, a ViT-MAE on images."""

import math
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from maskevidence import MaskDesign, Tokens
from maskevidence.core.errors import InputError, NumericalError, import_extra
from maskevidence.core.support.files import read_json, write_json
from maskevidence.core.support.progress import Advance, progress, quiet
from maskevidence.huggingface.collator import MaskSizeCollator
from maskevidence.huggingface.processes import (
    end_processes,
    n_processes,
    on_cpu,
    training_device,
)
from maskevidence.huggingface.recipe import Recipe, Trained, TrainingOrder
from maskevidence.huggingface.trainer import EvidenceTrainer
from maskevidence.texts.masked_lm import MaskedLM

_transformers = import_extra("transformers", "hf", "training by transformers")

LOG_EVERY = 50
_DEVICES = "devices.json"
_COMPLETE = ("trainer_state.json", "model.safetensors", "optimizer.pt", "scheduler.pt")


@dataclass(frozen=True)
class TrainerOptions:
    """Checkpoints, reports, callbacks and device of a training.

    Attributes:
        out: a folder for checkpoints (checkpoint-200, ...); training resumes from the newest complete one.
        checkpoint_every: steps between two checkpoints; only the last one is kept.
        report_to: where the Trainer reports to, such as "tensorboard" (in `out`); "none" for no report.
        callbacks: functions of the trainer that return a callback for it, such as
            `lambda trainer: EvidenceCallback(trainer, held_out)`.
        device: where to train, and where the model is afterwards: "cpu", "cuda", "cuda:1", "mps"; by default
            on all GPUs, if there is one.
    """

    out: str | Path | None = None
    checkpoint_every: int = 200
    report_to: str = "none"
    callbacks: Sequence[Callable[[Any], Any]] = ()
    device: str | torch.device | None = None


def train_masked_lm(
    model: MaskedLM,
    tokens: Tokens,
    design: MaskDesign | None = None,
    recipe: Recipe | None = None,
    options: TrainerOptions | None = None,
) -> Trained:
    """Train a masked language model in place, with one mask per text and step.

    The order of the texts, the masks and dropout are functions of the seed and the step: a training that
    resumes from a checkpoint ends where an uninterrupted one does. The random state of the process is left
    as it was. Processes that `torchrun` started share each batch, and give the result of one process up to
    rounding.

    Args:
        model: a transformers model with a masked-LM head, and its tokenizer.
        tokens: the texts; blocks of one length, or texts that are padded in each batch.
        design: how masks are drawn; by default `RandomSize`, the evidence. See `MaskSizeCollator`.
        recipe: how to train.
        options: a folder for checkpoints, from which training resumes; reports, callbacks and the device.

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
    if not len(tokens):
        raise InputError("there are no texts to train on; give one or more")
    collator = MaskSizeCollator(model.tokenizer, design, seed=recipe.seed)

    def make(arguments: Any) -> Any:
        return EvidenceTrainer(
            model=model.network,
            args=arguments,
            data_collator=collator,
            train_dataset=TrainingOrder(tokens, recipe.steps * recipe.batch_size, recipe.seed),
            processing_class=model.tokenizer,
        )

    options = TrainerOptions() if options is None else options
    tokens_per_text = float(tokens.n_tokens.double().mean())
    trained = run_trainer(make, recipe, options, unit="nats per token", loss_scale=tokens_per_text)
    model.to(model.device)  # the Trainer moved only the network
    return trained


def run_trainer(
    make: Callable[[Any], Any],
    recipe: Recipe,
    options: TrainerOptions,
    *,
    unit: str,
    loss_scale: float = 1.0,
) -> Trained:
    """Run a Trainer, from the newest checkpoint if there is one, with a progress bar.

    Args:
        loss_scale: the loss is `loss_scale` times its value in `unit`: the tokens of a text if the loss is
            in nats per text and the unit is nats per token.
    """
    checkpoint = None if options.out is None else newest_checkpoint(options.out)
    with _random_state_restored(), _folder(options.out) as folder, quiet():
        trainer = make(_arguments(recipe, options, loss_scale, folder))
        trainer.remove_callback(_transformers.PrinterCallback)
        for callback_for in options.callbacks:
            trainer.add_callback(callback_for(trainer))
        devices = _devices_of(checkpoint, str(trainer.args.device))
        with progress("training", recipe.steps) as advance:
            trainer.add_callback(_Watch(advance, loss_scale, unit, devices))
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        history = tuple(entry for entry in trainer.state.log_history if "loss" in entry)
        trainer.model.eval()
        trainer.callback_handler.callbacks.clear()  # they keep the trainer and wrapped model alive
        del trainer
        end_processes()
    return Trained(history, None if checkpoint is None else _step_of(checkpoint), tuple(devices))


def _devices_of(checkpoint: Path | None, device: str) -> list[str]:
    """The devices used up to a checkpoint, plus this one."""
    file = None if checkpoint is None else checkpoint / _DEVICES
    before: list[str] = read_json(file)["devices"] if file is not None and file.exists() else []
    return [*before, *([] if device in before else [device])]


def _folder(out: str | Path | None) -> AbstractContextManager[str]:
    """The Trainer's folder; a temporary one if nothing is kept, since the Trainer needs a folder.

    The path is absolute because the Trainer would expand a leading "~".
    """
    return tempfile.TemporaryDirectory() if out is None else nullcontext(str(Path(out).absolute()))


def _arguments(recipe: Recipe, options: TrainerOptions, loss_scale: float, folder: str) -> Any:
    """The Trainer's arguments; gradients are clipped at `loss_scale` times `recipe.clip`."""
    device = training_device(options.device)
    slow = on_cpu(device)
    arguments = _transformers.TrainingArguments(
        output_dir=folder,
        max_steps=recipe.steps,
        per_device_train_batch_size=recipe.batch_size,
        learning_rate=recipe.learning_rate,
        warmup_steps=recipe.warmup,
        lr_scheduler_type="linear",
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.clip * loss_scale,
        seed=recipe.seed,
        optim="adamw_torch_fused",
        use_cpu=slow,
        train_sampling_strategy="sequential",
        average_tokens_across_devices=False,
        remove_unused_columns=False,
        dataloader_pin_memory=not slow,
        logging_steps=min(recipe.steps, _log_every(options.checkpoint_every)),
        logging_nan_inf_filter=False,
        save_strategy="no" if options.out is None else "steps",
        save_steps=recipe.steps if options.out is None else options.checkpoint_every,
        save_total_limit=1,
        report_to=options.report_to,
        disable_tqdm=True,
    )
    if device is not None and n_processes() == 1:
        _train_on(arguments, device)
    shares = arguments.world_size * max(1, arguments.n_gpu)
    if recipe.batch_size % shares:
        raise InputError(
            f"{recipe.batch_size} observations in a step cannot be shared by {shares} processes; give a "
            f"multiple of {shares}"
        )
    arguments.per_device_train_batch_size = recipe.batch_size // shares
    return arguments


def _log_every(checkpoint_every: int) -> int:
    """Steps between two logs, so that every checkpoint has one: the Trainer drops losses since the last log.

    Example:
        >>> _log_every(200), _log_every(70), _log_every(2)
        (50, 35, 2)
    """
    return max(steps for steps in range(1, LOG_EVERY + 1) if checkpoint_every % steps == 0)


def _train_on(arguments: Any, device: torch.device) -> None:
    """Train on one device; by default, the Trainer takes the first GPU or all of them.

    The Trainer caches its device as a property; its accelerator uses the device of the process's state.
    """
    if device.type == "cuda":
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)
    arguments.distributed_state.device = arguments._setup_devices = device
    arguments._n_gpu = int(device.type == "cuda")


def newest_checkpoint(folder: str | Path) -> Path | None:
    """The newest complete checkpoint in a folder."""
    checkpoints = [path for path in Path(folder).glob("checkpoint-*") if path.name.split("-")[1].isdigit()]
    for path in sorted(checkpoints, key=_step_of, reverse=True):
        try:
            read_json(path / _COMPLETE[0])
        except InputError:
            continue
        if all((path / name).is_file() for name in _COMPLETE):
            return path
    return None


class _Watch(_transformers.TrainerCallback):  # type: ignore[misc, name-defined]
    """Update the progress bar, stop when the loss is not finite, and record devices in checkpoints."""

    def __init__(self, advance: Advance, loss_scale: float, unit: str, devices: list[str]) -> None:
        self.advance = advance
        self.loss_scale = loss_scale
        self.unit = unit
        self.devices = devices
        self.done = 0

    def on_save(self, args: Any, state: Any, control: Any, **_keywords: Any) -> None:
        if state.is_world_process_zero:
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            write_json(checkpoint / _DEVICES, {"devices": self.devices})

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
def _random_state_restored() -> Iterator[None]:
    """Restore the random states of the process, because the Trainer seeds every generator."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        yield
    random.setstate(python_state)
    np.random.set_state(numpy_state)
