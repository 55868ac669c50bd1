"""The files of a finished run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from maskevidence.data.table import Table
from maskevidence.errors import InputError, MissingExtraError
from maskevidence.evidence.curve import curve_lines
from maskevidence.evidence.result import EvidenceEstimate
from maskevidence.runs.directory import CURVE, CURVE_PICTURE, ESTIMATE, OBSERVATIONS, RunDirectory
from maskevidence.runs.labels import write_closed_form, write_labels
from maskevidence.runs.lock import locked
from maskevidence.runs.manifest import DataSource, Manifest
from maskevidence.runs.score_into import closed_form, write_scores
from maskevidence.runs.summary import Run, read_run
from maskevidence.show.draw import image
from maskevidence.show.words import evidence_name
from maskevidence.support.files import check_place, write_atomic, write_json


def write_run(
    folder: str | Path,
    name: str,
    model: Any,
    data: Table,
    estimate: EvidenceEstimate,
    *,
    overwrite: bool = False,
) -> str | None:
    """Write an estimate that was computed in memory as a run, which reports and comparisons can read.

    Args:
        folder: the run directory; it is created if it does not exist.
        name: what the run calls its model, such as "ppca:3".
        model: the model that was scored; it is kept in `model/` if it has a method `save`.
        data: the rows that were scored.
        estimate: the estimate of this model on these rows.
        overwrite: replace another run in the folder.

    Returns:
        One line on what could not be drawn, or None.

    Raises:
        InputError: the estimate is of other rows, or the folder holds another run or other files, or cannot
            be written.

    Example:
        >>> import tempfile, maskevidence as me
        >>> from maskevidence.runs import read_run
        >>> train, test = me.data.digits().split(test_fraction=0.1, seed=0)
        >>> model = me.models.Gaussian(n_features=2).fit(train.select(["pixel_3_3", "pixel_3_4"]))
        >>> test = test.select(["pixel_3_3", "pixel_3_4"])
        >>> folder = Path(tempfile.mkdtemp()) / "run"
        >>> _ = write_run(folder, "two pixels", model, test, me.estimate_evidence(model, test))
        >>> read_run(folder).estimate.n_observations
        180
    """
    tokens = data.tokens()
    if estimate.data_fingerprint not in (None, tokens.fingerprint()):
        raise InputError(f"the estimate of {name!r} is not of the rows of {data.name!r}; give those rows")
    source = DataSource(
        name=data.name,
        fingerprint=data.fingerprint(),
        n_observations=len(data),
        columns=list(data.columns),
        notes=list(data.notes),
    )
    manifest = Manifest(
        model=name,
        conditionals=model.conditionals,
        base_measure=estimate.base_measure,
        data=source,
        design=estimate.design,
        masks=estimate.masks,
        token_scores=estimate.scores.hidden is not None,
        seed=estimate.seed,
        rows_per_block=len(data),
    )
    exact = closed_form(model, manifest, tokens)
    if exact is not None:
        manifest = manifest.model_copy(update={"closed_form": float(np.mean(list(exact.values())))})
    directory = RunDirectory(folder)
    directory.check(manifest, overwrite=overwrite)
    with locked(directory.path):
        manifest = directory.begin(manifest, getattr(model, "save", None))
        if data.labels is not None:
            write_labels(directory.path, manifest, dict(zip(data.ids.tolist(), data.labels, strict=True)))
        if exact is not None:
            write_closed_form(directory.path, manifest, exact)
        write_scores(directory, manifest, estimate.scores, estimate.n_model_calls)
        run = read_run(directory.path)
        return write_summary(directory, run, run.result())


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
        picture = image(curve_lines({manifest.model: curve}), _title(manifest, run.estimate))
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
