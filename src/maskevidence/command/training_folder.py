"""The folder of a training: what it may hold before, what is written at the end, and how it is shown."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.result import page_of_numbers
from maskevidence.command.command_words import kind_of_training
from maskevidence.command.options import Training
from maskevidence.tables.by_name import is_network
from maskevidence.runs.folder import ResultFolder, read_sealed, write_sealed
from maskevidence.core.show.parts import Page, Part, Table
from maskevidence.core.show.words import typeset
from maskevidence.core.support.files import read_json, write_json
from maskevidence.core.support.provenance import origin
from maskevidence.command.result import Result
from maskevidence.core.training import checkpoints

SETTINGS, RESULT, HISTORY = "training.json", "train.json", "history.csv"
_CHECKPOINTS = "checkpoint-*"  # of the `Trainer`
_SIGNS = (SETTINGS, RESULT, "config.json", checkpoints.FILE, _CHECKPOINTS)  # of a training or a model
_OF_A_MODEL = (
    "model.safetensors",
    "preprocessor_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "pixel_density.json",
)
_FILES = (SETTINGS, checkpoints.FILE, _CHECKPOINTS, "config.json", *_OF_A_MODEL, HISTORY, RESULT)
_REMEDY = "give another folder, or --overwrite to replace it"
_LITTLE = 0.05  # nats per token that a context is worth


def training_result(content: dict[str, Any], lines: Sequence[str]) -> Result:
    """The result of a training from the content of `train.json`: the evidence of the data, and the notes."""
    pages = {"rows": _page_of_rows, "texts": _page_of_texts, "images": _page_of_images}
    return Result(pages[kind_of_training(content["model"])](content), content, lines)


def training_folder(out: Path) -> ResultFolder:
    """The folder of a training.

    Its files are removed in reverse: the result goes first and the signs of a training last, so that a kill
    leaves neither a finished training without its model nor files that belong to no training.
    """
    return ResultFolder(out, "training", _FILES, _SIGNS)


def check_training_folder(options: Training, own: str) -> None:
    """Refuse a folder that cannot hold the training, before any work; nothing is written.

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
    """The result of the training of a transformer, if its folder holds it.

    Returns:
        The result; None if the training can start or resume.
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
    with suppress(InputError):  # a kill after the result was written may have left them
        remove_checkpoints(out)
    lines = training_folder(out).finished_before("trains again")
    return training_result(read_sealed(out / RESULT, _REMEDY), lines)


def begin_training(options: Training, settings: Mapping[str, Any]) -> Result | None:
    """Begin or resume the training of a transformer; this process holds the folder.

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
    """Remove what a kill left, and with `overwrite` another training or model; this process holds it."""
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
    """Remove the checkpoints of the `Trainer`."""
    training_folder(out).remove(_CHECKPOINTS)


def _page_of_rows(result: Mapping[str, Any]) -> Page:
    """The exact log evidence of a model of rows, or a bound on it."""
    rows = [[f"training, {result['n_train']:,} rows", typeset(result["log_evidence_train"], 4)]]
    if result["log_evidence_held_out"] is not None:
        rows.append([f"held out, {result['n_test']:,} rows", typeset(result["log_evidence_held_out"], 4)])
    bound = (
        "importance bound, 16 orders"
        if is_network(result["model"])
        else "importance-weighted bound, 1,024 draws"
    )
    what = "exact log evidence" if result["kind"] == "exact" else bound
    title = f"{result['model']} on {result['data']}, {result['epochs']} epochs: {what}"
    notes = [*result["notes"], *_notes_on_devices(result)]
    if result["dropped_columns"]:
        notes.append(f"dropped constant columns: {', '.join(result['dropped_columns'])}")
    if result["stopped"] is not None:
        notes.append(f"{result['stopped']}; the model is that of epoch {result['best_epoch']}")
    if result["resumed_from"] is not None:
        notes.append(f"resumed from the checkpoint after epoch {result['resumed_from']}")
    return Page("", title, parts=[Table(["rows", "nats per row"], rows)], notes=notes)


def _page_of_texts(result: Mapping[str, Any]) -> Page:
    """The held-out evidence of a masked language model, beside what the frequencies of tokens give."""
    recipe = result["recipe"]
    noun, token = ("protein", "residue") if result.get("of_residues") else ("text", "token")
    title = (
        f"{result['model']} on {result['data']}: {result['n_parameters']:,} parameters, {recipe['steps']:,} "
        f"steps of {recipe['batch_size']} {noun}s, {result['n_train']:,} {noun}s to train on"
    )
    more: list[Part] = []
    held_out, notes = result["held_out"], []
    if held_out is not None and "frequencies_per_token" in held_out:
        frequencies = held_out["frequencies_per_token"]
        more.append(f"the frequencies of {token}s alone give {typeset(frequencies, 4)} nats per {token}")
        if held_out["per_token"] < frequencies + _LITTLE:
            notes.append(
                "the model does hardly better than these, so that it has not learnt from the context; "
                "give more --steps or another --learning-rate"
            )
    return _page_of_transformer(Page("", title, parts=more, notes=notes), result, "held out:", noun, token)


def _page_of_images(result: Mapping[str, Any]) -> Page:
    """The held-out evidence of a masked image model, and its reconstruction loss."""
    recipe, held_out = result["recipe"], result["held_out"]
    title = (
        f"{result['model']} on {result['data']}: {result['n_parameters']:,} parameters, "
        f"{result['n_patches']} patches of {result['patch_size']}×{result['patch_size']} pixels, trained on "
        f"{result['n_train']:,} images, {recipe['steps']:,} steps of {recipe['batch_size']}"
    )
    n_scored = 0 if held_out is None else held_out["n_observations"]
    more: list[Part] = []
    if held_out is not None and "mean_image_loss" in held_out:
        more.append(
            f"reconstruction loss, mean over mask sizes: {held_out['reconstruction_loss_mean']:.4f}; of "
            f"the mean image: {held_out['mean_image_loss']:.4f}"
        )
    heading = f"{n_scored:,} of {result['n_test']:,} images held out:"
    return _page_of_transformer(Page("", title, parts=more), result, heading, "image")


def _notes_on_devices(result: Mapping[str, Any]) -> list[str]:
    """A note on a training that went on elsewhere, or none."""
    devices = result["devices"]
    if len(devices) < 2:
        return []
    return [
        f"trained on {' and '.join(devices)}; a training on one of them differs by rounding and in what is "
        "drawn there"
    ]


def _page_of_transformer(
    own: Page, result: Mapping[str, Any], heading: str, noun: str, token: str = "token"
) -> Page:
    """The notes of a training and, below a heading, the held-out estimate before the page's own parts."""
    of_training = [*result["notes"], *_notes_on_devices(result)]
    if result["resumed_from"] is not None:
        of_training.append(f"resumed from the checkpoint after step {result['resumed_from']}")
    if result["held_out"] is None:
        return replace(own, parts=["nothing was held out"], notes=of_training)
    page = page_of_numbers(result["held_out"], noun, token)
    parts = [heading, f"{page.headline} {page.aside}", *page.parts, *own.parts]
    return replace(own, parts=parts, notes=[*of_training, *page.notes, *own.notes])
