"""The folder of a training: what it may hold before, and what is written at the end."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maskevidence.errors import InputError
from maskevidence.support.files import read_json, remove_temporaries, write_json
from maskevidence.support.provenance import command, versions
from maskevidence.tasks.training_options import TrainingOptions
from maskevidence.training import checkpoints

SETTINGS, RESULT, HISTORY = "training.json", "train.json", "history.csv"
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


def begin_training(
    options: TrainingOptions, settings: Mapping[str, Any], belongings: Sequence[str] = ()
) -> TrainingResult | None:
    """Prepare the folder for the training of a transformer.

    Args:
        options: the options, with the folder, which no other process may use.
        settings: what the training depends on. It is written to `training.json`, and a folder with other
            settings is refused.
        belongings: further files to remove with `--overwrite`.

    Returns:
        The result, if this training is finished; None if it can start or resume.

    Raises:
        InputError: the folder holds another training or model.
    """
    out = options.out
    remove_temporaries(out)
    if options.overwrite:
        for name in (SETTINGS, RESULT, *belongings):
            (out / name).unlink(missing_ok=True)
        remove_checkpoints(out)
    if (out / SETTINGS).exists():
        different = checkpoints.differences(read_json(out / SETTINGS, _REMEDY), settings)
        if different:
            raise InputError(f"{str(out)!r} belongs to another training ({different}); {_REMEDY}")
        if (out / RESULT).exists():
            remove_checkpoints(out)  # a kill after the result was written may have left them
            return TrainingResult(read_json(out / RESULT, _REMEDY), out, finished_before=True)
        return None
    held = [name for name in ("config.json", checkpoints.FILE) if (out / name).exists()]
    held += [path.name for path in out.glob("checkpoint-*")]
    if held and not options.overwrite:
        raise InputError(f"{str(out)!r} holds another model ({held[0]}); {_REMEDY}")
    write_json(out / SETTINGS, settings)
    return None


def begin_row_training(options: TrainingOptions) -> None:
    """Prepare the folder for the training of a model of rows, whose checkpoint knows its own settings.

    Raises:
        InputError: the folder holds a model without a checkpoint.
    """
    remove_temporaries(options.out)
    checkpoint = options.out / checkpoints.FILE
    if options.overwrite:
        checkpoint.unlink(missing_ok=True)
    elif (options.out / "config.json").exists() and not checkpoint.exists():
        raise InputError(f"{str(options.out)!r} holds a model; {_REMEDY}")


def write_result(
    model: str, data: str, objective: Mapping[str, Any], options: TrainingOptions, **numbers: Any
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
