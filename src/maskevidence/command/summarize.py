"""maskevidence summarize: summarise a run from its scores, or several shards as one run."""

import os
import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from maskevidence.command.options import Argument, Option, Overwrite, Result
from maskevidence.core.errors import InputError

if TYPE_CHECKING:
    from maskevidence.runs import Run, RunDirectory


def summarize(
    runs: Annotated[list[Path], Argument("RUN...", "A run directory, or those of all shards of a run.")],
    out: Annotated[
        Path | None, Option("Write the whole run into this folder.", "DIR", writes="folder")
    ] = None,
    overwrite: Overwrite = False,
) -> Result:
    """Compute estimate.json, curve.csv and curve.png again from the Parquet scores of a run.

    Several directories must be all shards of one run (score --shard 1/8 ...). They give what one run would
    have given, and --out writes it into a run directory.

    Examples:

        maskevidence summarize runs/a
        maskevidence summarize runs/shard-* --out runs/whole
    """
    from maskevidence.command.scoring import result_of
    from maskevidence.runs import RunDirectory, read_run, write_summary
    from maskevidence.runs.folder import locked

    if out is not None and os.path.realpath(out) in {os.path.realpath(run) for run in runs}:
        raise InputError(f"--out {str(out)!r} is one of the runs; give another folder, or leave it out")
    if out is not None:
        RunDirectory(out).refuse_unrelated()
    run = read_run(*runs)
    result = run.result()
    if out is None and len(runs) > 1:
        return result_of(result, run.manifest.data)
    folder = RunDirectory(out or runs[0])
    if out is not None:
        folder.check(run.manifest, overwrite=overwrite)
    with locked(folder.path):
        if out is not None:
            _copy(run, runs[0], folder)
        missing = write_summary(folder, run, result)
    return result_of(result, run.manifest.data, folder.written(missing))


def _copy(run: "Run", source: Path, folder: "RunDirectory") -> None:
    """Copy the scores, and the model if it was fitted for the run."""
    from maskevidence.core.support.files import write_atomic
    from maskevidence.runs.directory import CLOSED_FORM, LABELS, MODEL, TEXTS, saved_beginnings, write_beside

    model = source / MODEL
    folder.begin(run.manifest, partial(shutil.copytree, model) if model.is_dir() else None)
    estimate = run.estimate
    if estimate.labels is not None:
        write_beside(folder.path / LABELS, run.manifest, estimate.ids, estimate.labels)
    if estimate.closed_form is not None:
        write_beside(folder.path / CLOSED_FORM, run.manifest, estimate.ids, estimate.closed_form)
    if run.texts:
        texts = (
            text for table in saved_beginnings(run.texts, run.manifest) for text in table["text"].to_pylist()
        )
        write_beside(folder.path / TEXTS, run.manifest, estimate.ids, texts)
    for part in run.parts:
        write_atomic(folder.scores / part.path.name, part.path.read_bytes())
