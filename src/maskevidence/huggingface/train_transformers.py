"""Shared parts of training transformers: objective, recipe, folder and result."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from maskevidence import __version__
from maskevidence.command.options import Result
from maskevidence.command.training_folder import (
    HISTORY,
    SETTINGS,
    check_training_folder,
    remove_checkpoints,
    training_folder,
    training_result,
    write_result,
)
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.result import EvidenceEstimate
from maskevidence.core.masks.design import MaskDesign
from maskevidence.core.masks.design_words import parse_design
from maskevidence.core.support.files import write_atomic
from maskevidence.huggingface.processes import is_main_process, training_device
from maskevidence.huggingface.recipe import Recipe, Trained
from maskevidence.huggingface.training_options import TransformerTraining
from maskevidence.images.masked_image import MaskedImage
from maskevidence.runs.prepared import recorded
from maskevidence.texts.masked_lm import MaskedLM


@dataclass(frozen=True)
class TransformerJob:
    """One training of a transformer."""

    model: str  # "masked-lm" or "vit-mae"
    data: str  # the DATA word
    options: TransformerTraining  # how the model is trained
    design: MaskDesign  # the masks of training, one for each observation and step
    recipe: Recipe  # steps, batch size and learning rate
    checkpoint_every: int  # steps between two checkpoints
    device: torch.device | None  # the device; None leaves it to the Trainer

    def settings(self, start: Mapping[str, Any]) -> dict[str, Any]:
        """All settings that the training depends on."""
        return {
            **start,
            "test_fraction": self.options.test_fraction,
            "objective": self.options.objective,
            **asdict(self.recipe),
            "version": __version__,
        }

    def save(self, network: MaskedLM | MaskedImage, trained: Trained) -> None:
        """Save the trained model and its history in the folder."""
        network.save(self.options.out)
        write_atomic(self.options.out / HISTORY, trained.to_csv())

    def finish(self, network: nn.Module, trained: Trained, **numbers: Any) -> Result:
        """Write `train.json`, and remove the checkpoints."""
        result = write_result(
            self.model,
            self.data,
            self.design.settings(),
            self.options,
            recipe=asdict(self.recipe),
            resumed_from=trained.resumed_from,
            devices=list(trained.devices),
            **recorded(network),
            n_parameters=sum(parameter.numel() for parameter in network.parameters()),
            loss=trained.history[-1]["loss"],
            **numbers,
        )
        remove_checkpoints(self.options.out)
        return training_result(result, training_folder(self.options.out).written())


def transformer_job(
    model: str, data: str, options: TransformerTraining, default: Recipe, checkpoint_every: int
) -> TransformerJob:
    """Read the options shared by all transformers.

    Example:
        >>> from pathlib import Path
        >>> options = TransformerTraining(Path("x"), seed=1)
        >>> job = transformer_job("masked-lm", "x.txt", options, Recipe(), 200)
        >>> job.design, job.recipe.seed
        (RandomSize(draws=1, replicates=1), 1)
    """
    device = training_device(options.device)
    if is_main_process():  # the main process may be writing while others look
        check_training_folder(options, SETTINGS)
    word = options.objective
    if word == "likelihood":
        raise InputError(f"the likelihood of {model} has no closed form; give --objective random-size")
    masks = parse_design(word, draws=1, replicates=1).without_tokens("train")
    if masks.masks == "shared":
        raise InputError(f"{model} draws masks for each observation; leave shared out of --objective {word}")
    design = masks.design.in_training()
    asked: dict[str, Any] = {
        "steps": options.steps,
        "batch_size": options.batch_size,
        "learning_rate": options.learning_rate,
        "seed": options.seed,
    }
    recipe = replace(default, **{name: value for name, value in asked.items() if value is not None})
    every = checkpoint_every if options.checkpoint_every is None else options.checkpoint_every
    return TransformerJob(model, data, options, design, recipe, every, device)


def numbers_of(estimate: EvidenceEstimate) -> dict[str, Any]:
    """The estimate's entries, without the versions and command already in `train.json`."""
    return {name: value for name, value in estimate.to_dict().items() if name not in ("versions", "command")}
