"""The folder of a training: what it may hold before, and what is written at the end."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maskevidence.errors import InputError
from maskevidence.kinds.options import Training
from maskevidence.runs.lock import refuse_unrelated
from maskevidence.support.files import read_json, remove_temporaries, write_json, writing
from maskevidence.support.provenance import command, versions
from maskevidence.training import checkpoints

SETTINGS, RESULT, HISTORY = "training.json", "train.json", "history.csv"
_SIGNS = (SETTINGS, RESULT, "config.json", checkpoints.FILE, "checkpoint-*")  # of a training or a model
_OF_A_MODEL = ("model.safetensors", "tokenizer.json", "tokenizer_config.json", "pixel_density.json")
_REMEDY = "give another folder, or --overwrite to replace it"


@dataclass(frozen=True)
class TrainingResult:
    """What a training gives.

    Attributes:
        result: what `train.json` holds.
        folder: the folder with the model.
        files: the names of the files that were written.
        finished_before: whether the folder held the finished training, so that nothing was trained.
    """

    result: dict[str, Any]
    folder: Path
    files: tuple[str, ...] = ()
    finished_before: bool = False


def check_training_folder(options: Training, own: str) -> None:
    """Refuse a folder that cannot hold the training, before any work; nothing is written.

    Args:
        options: the options, with the folder.
        own: the file by which trainings of this kind are known: `SETTINGS`, or `checkpoints.FILE` for rows.

    Raises:
        InputError: the folder holds files that belong to no training, or another model.
    """
    refuse_unrelated(options.out, _SIGNS, "training")
    if options.overwrite or (options.out / own).exists():
        return
    held = sorted(path.name for sign in _SIGNS for path in options.out.glob(sign))
    if held:
        raise InputError(f"{str(options.out)!r} holds another model ({held[0]}); {_REMEDY}")


def finished_training(options: Training, settings: Mapping[str, Any]) -> TrainingResult | None:
    """The result of the training of a transformer, if its folder holds it.

    Args:
        options: the options, with the folder.
        settings: what the training depends on.

    Returns:
        The result; None if the training can start or resume.

    Raises:
        InputError: the folder holds another training, or one that another version did not finish.
    """
    out = options.out
    if options.overwrite or not (out / SETTINGS).exists():
        return None
    theirs, finished = read_json(out / SETTINGS, _REMEDY), (out / RESULT).exists()
    if finished:  # every version reads what another one has finished
        theirs = theirs | {"version": settings["version"]}
    different = checkpoints.differences(theirs, settings)
    if different:
        raise InputError(f"{str(out)!r} belongs to another training ({different}); {_REMEDY}")
    if not finished:
        return None
    with suppress(OSError):  # a kill after the result was written may have left them
        remove_checkpoints(out)
    return TrainingResult(read_json(out / RESULT, _REMEDY), out, finished_before=True)


def begin_training(options: Training, settings: Mapping[str, Any]) -> TrainingResult | None:
    """Begin or resume the training of a transformer; this process holds the folder.

    Args:
        options: the options, with the folder.
        settings: what the training depends on. It is written to `training.json` before anything else, and a
            folder with other settings is refused.

    Returns:
        The result, if this training is finished; None if it can start or resume.

    Raises:
        InputError: the folder holds another training, or cannot be written.
    """
    finished = finished_training(options, settings)
    prepare_folder(options)
    if finished is None:
        write_json(options.out / SETTINGS, settings)
    return finished


def prepare_folder(options: Training) -> None:
    """Remove what a kill left, and with `overwrite` another training or model; this process holds the folder.

    The result goes first and the signs of a training last, so that a kill leaves neither a finished training
    without its model nor files that belong to no training.
    """
    out = options.out
    remove_temporaries(out)
    if not options.overwrite:
        return
    with writing(out):
        for name in (RESULT, HISTORY, *_OF_A_MODEL):
            (out / name).unlink(missing_ok=True)
        remove_checkpoints(out)
        for name in ("config.json", checkpoints.FILE, SETTINGS):
            (out / name).unlink(missing_ok=True)


def write_result(
    model: str, data: str, objective: Mapping[str, Any], options: Training, **numbers: Any
) -> dict[str, Any]:
    """Write `train.json`.

    Args:
        model: the MODEL word.
        data: the DATA word.
        objective: the settings of the objective.
        options: the options, with the folder and the seed.
        numbers: what the training gave.

    Returns:
        What the file holds.
    """
    result = {"model": model, "data": data, "objective": dict(objective), **numbers, "seed": options.seed}
    result |= {"versions": versions(), "command": command()}
    write_json(options.out / RESULT, result)
    return result


def remove_checkpoints(out: Path) -> None:
    """Remove the checkpoints of the `Trainer`."""
    for checkpoint in out.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
