"""The folder of a transformer's training: of which training it is, and what is there already."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from maskevidence.cli.transformer import TransformerOptions
from maskevidence.errors import InputError
from maskevidence.evidence import EvidenceEstimate
from maskevidence.masks import MaskDesign
from maskevidence.support.files import read_json, write_json
from maskevidence.support.provenance import command, versions
from maskevidence.training.checkpoints import differences

SETTINGS, RESULT, HISTORY = "training.json", "train.json", "history.csv"
_ANOTHER_FOLDER = "give another folder, or --overwrite"


def begin_training(
    out: Path, settings: Mapping[str, Any], *, overwrite: bool, belongings: Sequence[str] = ()
) -> dict[str, Any] | None:
    """Make the folder ready for this training; what it left there, where it was finished before.

    Args:
        out: the folder, held by this process.
        settings: what the training is of.
        overwrite: replace another training.
        belongings: files that go with it.

    Raises:
        InputError: the folder holds another training or model.
    """
    if overwrite:
        for name in (SETTINGS, RESULT, *belongings):
            (out / name).unlink(missing_ok=True)
        remove_checkpoints(out)
    if (out / SETTINGS).exists():
        different = differences(read_json(out / SETTINGS, _ANOTHER_FOLDER), settings)
        if different:
            raise InputError(
                f"{str(out)!r} is of another training ({different}); give another folder, or --overwrite to "
                "replace it"
            )
        if (out / RESULT).exists():
            return read_json(out / RESULT, _ANOTHER_FOLDER)
        return None
    held = [name for name in ("config.json", "checkpoint.safetensors") if (out / name).exists()]
    held += [path.name for path in out.glob("checkpoint-*")]
    if held and not overwrite:
        raise InputError(
            f"{str(out)!r} holds another model ({held[0]}); give another folder, or --overwrite to replace it"
        )
    write_json(out / SETTINGS, settings)
    return None


def finish_training(
    asked: TransformerOptions,
    design: MaskDesign,
    recipe: Any,
    trained: Any,
    model: nn.Module,
    **particular: Any,
) -> dict[str, Any]:
    """Write train.json, and remove the checkpoints, which are of no use any more.

    Args:
        asked: what the user asked for.
        design: the masks of training.
        recipe: steps, learning rates and the like.
        trained: what training gave: its history, and what it went on from.
        model: after training.
        particular: what this kind of model says besides.

    Returns:
        What train.json holds.
    """
    result = {
        "model": asked.model,
        "data": asked.data,
        "objective": design.settings(),
        "recipe": asdict(recipe),
        "resumed_from": trained.resumed_from,
        "n_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "loss": trained.history[-1]["loss"],
        **particular,
        "seed": asked.seed,
        "versions": versions(),
        "command": command(),
    }
    write_json(asked.out / RESULT, result)
    remove_checkpoints(asked.out)
    return result


def held_out_numbers(estimate: EvidenceEstimate) -> dict[str, Any]:
    """An estimate as train.json holds it, which has versions and command of its own."""
    return {name: value for name, value in estimate.to_dict().items() if name not in ("versions", "command")}


def remove_checkpoints(out: Path) -> None:
    """Remove all checkpoints of the Trainer."""
    for checkpoint in out.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
