"""The folder of a training: check it before, write the result at the end, show it."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from maskevidence.command.options import Result, Training, kind_of_training
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.result import page_of_numbers
from maskevidence.core.show.parts import Page
from maskevidence.core.support.files import read_json, write_json
from maskevidence.core.support.provenance import origin
from maskevidence.core.training import checkpoints
from maskevidence.runs.folder import ResultFolder, read_sealed, write_sealed

SETTINGS, RESULT, HISTORY = "training.json", "train.json", "history.csv"
_CHECKPOINTS = "checkpoint-*"  # written by the `Trainer`
_SIGNS = (SETTINGS, RESULT, "config.json", checkpoints.FILE, _CHECKPOINTS)  # signs of a training or model
_OF_A_MODEL = (
    "model.safetensors",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "pixel_density.json",
)
_FILES = (SETTINGS, checkpoints.FILE, _CHECKPOINTS, "config.json", *_OF_A_MODEL, HISTORY, RESULT)
_REMEDY = "give another folder, or --overwrite to replace it"


def training_result(content: dict[str, Any], lines: Sequence[str]) -> Result:
    """Make the result of a training from the content of `train.json`."""
    return Result(kind_of_training(content["model"]).training_page(content), content, lines)


def training_folder(out: Path) -> ResultFolder:
    """The folder of a training, as a `ResultFolder`.

    Its files are removed in reverse: the result goes first and the signs of a training last, so that a kill
    leaves neither a finished training without its model nor files that belong to no training.
    """
    return ResultFolder(out, "training", _FILES, _SIGNS)


def check_training_folder(options: Training, own: str) -> None:
    """Refuse a folder that cannot hold the training, before any work; write nothing.

    Args:
        own: the file by which trainings of this kind are known: `SETTINGS`, or `checkpoints.FILE` for rows.
    """
    training_folder(options.out).refuse_unrelated()
    if options.overwrite or (options.out / own).exists():
        return
    held = sorted(path.name for sign in _SIGNS for path in options.out.glob(sign))
    if held:
        raise InputError(f"{str(options.out)!r} holds another model ({held[0]}); {_REMEDY}")


def finished_training(options: Training, settings: Mapping[str, Any]) -> Result | None:
    """The result of a transformer's training, if the folder holds it.

    Returns:
        The result; None if the training can start or resume.
    """
    out = options.out
    if options.overwrite or not (out / SETTINGS).exists():
        return None
    theirs, finished = read_json(out / SETTINGS, _REMEDY), (out / RESULT).exists()
    if finished:  # versions read each other's finished trainings
        theirs = theirs | {"version": settings["version"]}
    checkpoints.check_settings(out, theirs, settings, _REMEDY)
    if not finished:
        return None
    with suppress(InputError):  # left if a kill came after the result was written
        remove_checkpoints(out)
    lines = training_folder(out).finished_before("trains again")
    return training_result(read_sealed(out / RESULT, _REMEDY), lines)


def begin_training(options: Training, settings: Mapping[str, Any]) -> Result | None:
    """Begin or resume a transformer's training; this process must hold the folder.

    Args:
        settings: what the training depends on. It is written to `training.json` before anything else, and a
            folder with other settings is refused.

    Returns:
        The result, if this training is finished; None if it can start or resume.
    """
    finished = finished_training(options, settings)
    prepare_folder(options)
    if finished is None:
        write_json(options.out / SETTINGS, settings)
    return finished


def prepare_folder(options: Training) -> None:
    """Remove temporary files, and with `overwrite` another training; this process must hold the folder."""
    folder = training_folder(options.out)
    folder.remove_temporaries()
    if options.overwrite:
        folder.remove(*reversed(_FILES))


def write_result(
    model: str, data: str, objective: Mapping[str, Any], options: Training, **numbers: Any
) -> dict[str, Any]:
    """Write `train.json`."""
    result = {"model": model, "data": data, "objective": dict(objective), **numbers, "seed": options.seed}
    result |= origin()
    write_sealed(options.out / RESULT, result)
    return result


def remove_checkpoints(out: Path) -> None:
    """Remove the `Trainer`'s checkpoints."""
    training_folder(out).remove(_CHECKPOINTS)


def notes_on_devices(result: Mapping[str, Any]) -> list[str]:
    """Note a change of device during training."""
    devices = result["devices"]
    if len(devices) < 2:
        return []
    return [
        f"trained on {' and '.join(devices)}; a training on one of them would differ by rounding and in "
        "its random draws"
    ]


def page_of_transformer(
    own: Page, result: Mapping[str, Any], heading: str, noun: str, token: str = "token"
) -> Page:
    """Put a training's notes and its held-out estimate before the page's own parts."""
    of_training = [*result["notes"], *notes_on_devices(result)]
    if result["resumed_from"] is not None:
        of_training.append(f"resumed from the checkpoint after step {result['resumed_from']}")
    if result["held_out"] is None:
        return replace(own, parts=["nothing was held out"], notes=of_training)
    page = page_of_numbers(result["held_out"], noun, token)
    parts = [heading, f"{page.headline} {page.aside}", *page.parts, *own.parts]
    return replace(own, parts=parts, notes=[*of_training, *page.notes, *own.notes])
