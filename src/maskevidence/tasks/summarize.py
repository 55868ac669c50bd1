"""Summarize a run from its scores, and several shards as one run."""

import os
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from maskevidence.errors import InputError
from maskevidence.runs import Run, RunDirectory, read_run, write_summary
from maskevidence.runs.directory import MODEL, write_closed_form, write_labels
from maskevidence.runs.lock import locked
from maskevidence.support.files import write_atomic
from maskevidence.tasks.score import Scored


def summarize(runs: Sequence[Path], out: Path | None = None, *, overwrite: bool = False) -> Scored:
    """Compute the estimate, the curve and its picture again from the scores of a run.

    Args:
        runs: one run directory, or all shards of one run.
        out: a folder for the whole run; without it, one run is summarized in its own folder, and several
            shards are not written.
        overwrite: replace another run in `out`.

    Raises:
        InputError: the directories are not all shards of one run, or `out` cannot be written.
    """
    if out is not None and os.path.realpath(out) in {os.path.realpath(run) for run in runs}:
        raise InputError(f"--out {str(out)!r} is one of the runs; give another folder, or leave it out")
    if out is not None:
        RunDirectory(out).check_folder()
    run = read_run(*runs)
    result = run.result()
    if out is None and len(runs) > 1:
        return Scored(result)
    folder = RunDirectory(out or runs[0])
    if out is not None:
        folder.check(run.manifest, overwrite=overwrite)
    with locked(folder.path):
        if out is not None:
            _copy(run, runs[0], folder)
        missing = write_summary(folder, run, result)
    return Scored(result, folder.path, files=tuple(folder.files()), missing=missing)


def _copy(run: Run, source: Path, folder: RunDirectory) -> None:
    """Copy the scores, and the model if the run fitted one."""
    model = source / MODEL
    folder.begin(run.manifest, partial(shutil.copytree, model) if model.is_dir() else None)
    estimate = run.estimate
    for write, known in ((write_labels, estimate.labels), (write_closed_form, estimate.closed_form)):
        if known is not None:
            write(folder.path, run.manifest, dict(zip(estimate.ids.tolist(), known, strict=True)))
    for part in run.parts:
        write_atomic(folder.scores / part.path.name, part.path.read_bytes())
