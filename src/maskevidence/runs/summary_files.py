"""The files that a finished run leaves."""

from collections.abc import Mapping
from typing import Any

from maskevidence.errors import MissingExtraError
from maskevidence.evidence import EvidenceEstimate
from maskevidence.runs.curve_picture import draw_curves
from maskevidence.runs.directory import CURVE, CURVE_PICTURE, ESTIMATE, RunDirectory
from maskevidence.runs.lock import locked
from maskevidence.runs.manifest import Manifest
from maskevidence.runs.score_into import write_scores
from maskevidence.runs.summary import Run
from maskevidence.support.files import write_atomic, write_json


def write_run(
    folder: RunDirectory,
    manifest: Manifest,
    result: Mapping[str, Any],
    estimate: EvidenceEstimate,
    model: Any = None,
) -> str | None:
    """Write a run that was made in memory: run.json, the scores, the model where given, and the summary.

    Args:
        folder: that the run may be written to.
        manifest: what the run is of.
        result: the estimate, as it goes to estimate.json.
        estimate: with scores and curve.
        model: a fitted model to keep in `model/`.

    Returns:
        One line on what could not be drawn, or None.

    Raises:
        InputError: the folder cannot be written.
    """
    with locked(folder.path):
        folder.begin(manifest)
        if model is not None:
            folder.keep_model(model)
        write_scores(folder, manifest, estimate.scores, estimate.n_model_calls)
        return write_summary(folder, Run(manifest, estimate, ()), result)


def write_summary(folder: RunDirectory, run: Run, result: Mapping[str, Any]) -> str | None:
    """Write curve.csv, curve.png and, last, estimate.json.

    Args:
        folder: of the run.
        run: what the record says.
        result: the estimate, as it goes to estimate.json.

    Returns:
        One line on what could not be drawn, or None.

    Raises:
        InputError: the folder cannot be written.
    """
    missing = None
    curve, manifest = run.estimate.curve, run.manifest
    try:
        picture = draw_curves({manifest.model: curve}, _title(manifest, run.estimate))
    except MissingExtraError as error:
        picture, missing = None, f"{CURVE_PICTURE} was not drawn: {error}"
    write_atomic(folder.path / CURVE, curve.to_csv())
    if picture is not None:
        write_atomic(folder.path / CURVE_PICTURE, picture)
    write_json(folder.path / ESTIMATE, result)
    return missing


def _title(manifest: Manifest, estimate: EvidenceEstimate) -> str:
    errors = [("mask_se", estimate.mask_se), ("data_se", estimate.data_se)]
    known = ", ".join(f"{name} {value:.2f}" for name, value in errors if value is not None)
    numbers = f"{estimate.log_evidence:.2f} nats per observation" + (f" ({known})" if known else "")
    return f"{manifest.model} on {manifest.data.name}: log evidence {numbers}"
