"""The files that a finished run leaves."""

import json
from collections.abc import Mapping
from typing import Any

from maskevidence.curve import Curve
from maskevidence.errors import MissingExtraError
from maskevidence.report.curves import draw_curves
from maskevidence.runs import CURVE, CURVE_PICTURE, ESTIMATE, MODEL, Manifest, RunDirectory, write_atomic


def write_run(
    folder: RunDirectory, manifest: Manifest, result: Mapping[str, Any], curve: Curve, model: Any = None
) -> str | None:
    """Write run.json, curve.csv, curve.png, the model where it was fitted here, and estimate.json last.

    Args:
        folder: that the run may be written to.
        manifest: what the run is of.
        result: the estimate, as it goes to estimate.json.
        curve: the score by mask size.
        model: a fitted model to keep in `model/`.

    Returns:
        One line on what could not be drawn, or None.

    Raises:
        InputError: the folder cannot be written.
    """
    missing = None
    try:
        picture = draw_curves({manifest.model: curve}, f"{manifest.model} on {manifest.data.name}")
    except MissingExtraError as error:
        picture, missing = None, f"{CURVE_PICTURE} was not drawn: {error}"
    folder.begin(manifest)
    if model is not None:
        model.save(folder.path / MODEL)
    write_atomic(folder.path / CURVE, curve.to_csv())
    if picture is not None:
        write_atomic(folder.path / CURVE_PICTURE, picture)
    write_atomic(folder.path / ESTIMATE, json.dumps(result, indent=2, allow_nan=False) + "\n")
    return missing
