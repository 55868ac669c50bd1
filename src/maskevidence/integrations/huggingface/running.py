"""Runs a Trainer of transformers quietly, from the newest checkpoint, and leaves the process as it was."""

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

from maskevidence.errors import InputError, NumericalError, import_extra
from maskevidence.integrations.huggingface.processes import (
    end_processes,
    n_processes,
    on_cpu,
    training_device,
)
from maskevidence.integrations.huggingface.recipe import Recipe, Trained
from maskevidence.support.files import read_json
from maskevidence.support.progress import Advance, progress, quiet

_transformers = import_extra("transformers", "hf", "training by transformers")

LOG_EVERY = 50
_COMPLETE = ("trainer_state.json", "model.safetensors", "optimizer.pt", "scheduler.pt")


@dataclass(frozen=True)
class TrainerOptions:
    """The checkpoints and reports of a training."""

    out: str | Path | None  # a folder for checkpoints and reports; None for neither
    checkpoint_every: int  # steps between two checkpoints
    report_to: str  # where the Trainer reports to, such as "tensorboard"; "none" for no report
    callbacks: Sequence[Callable[[Any], Any]]  # functions of the trainer that return a callback for it
    # where to train, as for `choose_device`; None for all GPUs, if there is one
    device: str | torch.device | None = None


def run_trainer(
    make: Callable[[Any], Any],
    recipe: Recipe,
    options: TrainerOptions,
    *,
    unit: str,
    loss_scale: float = 1.0,
) -> Trained:
    """Run a Trainer from the newest checkpoint, with a progress bar.

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
        with progress("training", recipe.steps) as advance:
            trainer.add_callback(_Watch(advance, loss_scale, unit))
            trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
        history = tuple(entry for entry in trainer.state.log_history if "loss" in entry)
        devices = tuple(trainer.devices)
        trainer.model.eval()
        trainer.callback_handler.callbacks.clear()  # they hold the trainer, and it holds the wrapped model
        del trainer
        end_processes()
    return Trained(history, None if checkpoint is None else _step_of(checkpoint), devices)


def _folder(out: str | Path | None) -> AbstractContextManager[str]:
    """The folder that the Trainer gets; a temporary one if nothing is kept, since it needs one.

    The path is absolute: the Trainer would replace a leading "~" by the user's home.
    """
    return tempfile.TemporaryDirectory() if out is None else nullcontext(str(Path(out).absolute()))


def _arguments(recipe: Recipe, options: TrainerOptions, loss_scale: float, folder: str) -> Any:
    """The Trainer's arguments; a gradient is clipped at `loss_scale` times `recipe.clip`."""
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
        logging_steps=min(LOG_EVERY, recipe.steps),
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


def _train_on(arguments: Any, device: torch.device) -> None:
    """Train on one device; by itself, the Trainer takes the first GPU, or all of them.

    Its device is a cached property, and its accelerator has the one of the process's state.
    """
    if device.type == "cuda":
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)
    arguments.distributed_state.device = arguments._setup_devices = device
    arguments._n_gpu = int(device.type == "cuda")


def newest_checkpoint(folder: str | Path) -> Path | None:
    """The newest complete checkpoint in a folder; one that a kill left incomplete is passed over."""
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
    """Moves the progress bar, and ends a training whose loss is not finite."""

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
def _random_state_restored() -> Iterator[None]:
    """The Trainer seeds every generator of the process; restore their states afterwards."""
    python_state, numpy_state = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        yield
    random.setstate(python_state)
    np.random.set_state(numpy_state)
