"""The files of a finished run."""

from collections.abc import Mapping
from typing import Any

from maskevidence.display.curve_picture import draw_curves
from maskevidence.errors import MissingExtraError
from maskevidence.evidence import EvidenceEstimate
from maskevidence.runs.directory import CURVE, CURVE_PICTURE, ESTIMATE, OBSERVATIONS, RunDirectory
from maskevidence.runs.labels import write_closed_form
from maskevidence.runs.lock import locked
from maskevidence.runs.manifest import Manifest
from maskevidence.runs.score_into import write_scores
from maskevidence.runs.summary import Run
from maskevidence.support.files import check_place, write_atomic, write_json
from maskevidence.wording import evidence_name


def write_run(
    folder: RunDirectory,
    manifest: Manifest,
    result: Mapping[str, Any],
    estimate: EvidenceEstimate,
    model: Any = None,
) -> str | None:
    """Write a run that was computed in memory: run.json, the scores, the model if given, and the summary.

    Args:
        folder: the run directory, which `RunDirectory.check` accepts.
        manifest: what decides the numbers of the run.
        result: the content of estimate.json.
        estimate: the estimate, with scores and curve.
        model: a fitted model to keep in `model/`.

    Returns:
        One line on what could not be drawn, or None.

    Raises:
        InputError: the folder cannot be written.
    """
    with locked(folder.path):
        manifest = folder.begin(manifest, None if model is None else model.save)
        if estimate.closed_form is not None:
            exact = zip(estimate.ids.tolist(), estimate.closed_form.tolist(), strict=True)
            write_closed_form(folder.path, manifest, dict(exact))
        write_scores(folder, manifest, estimate.scores, estimate.n_model_calls)
        return write_summary(folder, Run(manifest, estimate, ()), result)


def write_summary(folder: RunDirectory, run: Run, result: Mapping[str, Any]) -> str | None:
    """Write curve.csv, curve.png, observations.csv and, last, estimate.json.

    The caller holds the folder (`locked`).

    Args:
        folder: the run directory.
        run: the finished run.
        result: the content of estimate.json.

    Returns:
        One line on what could not be drawn, or None.

    Raises:
        InputError: the folder cannot be written.
    """
    manifest, curve, missing = run.manifest, run.estimate.curve, None
    for name in (CURVE, CURVE_PICTURE, OBSERVATIONS, ESTIMATE):
        check_place(folder.path / name)
    folder.remove_temporaries()
    write_atomic(folder.path / CURVE, curve.to_csv())
    write_atomic(folder.path / OBSERVATIONS, run.observations().to_csv())
    try:
        picture = draw_curves({manifest.model: curve}, _title(manifest, run.estimate))
        write_atomic(folder.path / CURVE_PICTURE, picture)
    except MissingExtraError as error:
        missing = f"{CURVE_PICTURE} was not drawn: {error}"
    write_json(folder.path / ESTIMATE, result)
    return missing


def _title(manifest: Manifest, estimate: EvidenceEstimate) -> str:
    errors = [("mask_se", estimate.mask_se), ("data_se", estimate.data_se)]
    known = ", ".join(f"{name} {value:.2f}" for name, value in errors if value is not None)
    numbers = f"{estimate.log_evidence:.2f} nats per observation" + (f" ({known})" if known else "")
    name = evidence_name(estimate.kind, estimate.design["name"])
    return f"{manifest.model} on {manifest.data.name}: {name} {numbers}"
