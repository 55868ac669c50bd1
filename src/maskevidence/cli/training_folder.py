"""The folder of a transformer's training: of which training it is, and what is there already."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maskevidence.checkpoints import differences
from maskevidence.errors import InputError
from maskevidence.files import write_atomic

SETTINGS, RESULT, HISTORY = "training.json", "train.json", "history.csv"


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
        try:
            theirs = json.loads((out / SETTINGS).read_text())
        except json.JSONDecodeError as error:
            raise InputError(
                f"{str(out / SETTINGS)!r} cannot be read; give another folder, or --overwrite"
            ) from error
        different = differences(theirs, settings)
        if different:
            raise InputError(
                f"{str(out)!r} is of another training ({different}); give another folder, or --overwrite to "
                "replace it"
            )
        if (out / RESULT).exists():
            return json.loads((out / RESULT).read_text())
        return None
    held = [name for name in ("config.json", "checkpoint.safetensors") if (out / name).exists()]
    held += [path.name for path in out.glob("checkpoint-*")]
    if held and not overwrite:
        raise InputError(
            f"{str(out)!r} holds another model ({held[0]}); give another folder, or --overwrite to replace it"
        )
    write_atomic(out / SETTINGS, json.dumps(settings, indent=2) + "\n")
    return None


def finish_training(out: Path, result: Mapping[str, Any]) -> None:
    """Write train.json, and remove the checkpoints, which are of no use any more."""
    write_atomic(out / RESULT, json.dumps(result, indent=2, allow_nan=False) + "\n")
    remove_checkpoints(out)


def remove_checkpoints(out: Path) -> None:
    """Remove all checkpoints of the Trainer."""
    for checkpoint in out.glob("checkpoint-*"):
        shutil.rmtree(checkpoint)
