"""maskevidence summarize: the summary of a run from its record, and of several shards as of one run."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from maskevidence.cli import options, output
from maskevidence.errors import InputError
from maskevidence.runs import MODEL, Run, RunDirectory, locked, read_run, write_summary
from maskevidence.support.files import write_atomic, writing


def summarize(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="A run directory, or all shards' ones.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Leave the whole run in this folder.")
    ] = None,
    overwrite: options.Overwrite = False,
    json: options.Json = None,
) -> None:
    """Compute estimate.json, curve.csv and curve.png again from a run's Parquet scores.

    Several directories must be all shards of one run (score --shard 1/8 ...): they give what one run would
    have given, and --out makes it a run directory of its own.

    Examples:

        maskevidence summarize runs/a

        maskevidence summarize runs/shard-* --out runs/whole
    """
    if out is not None and out.resolve() in {run.resolve() for run in runs}:
        raise InputError(f"--out {str(out)!r} is one of the runs; give another folder, or leave it out")
    run = read_run(*runs)
    result = run.result()
    screen = output.console(json)
    output.show_estimate(screen, result)
    missing = None
    if out is not None:
        folder = RunDirectory(out)
        folder.check(run.manifest, overwrite=overwrite)
        with locked(out):
            _copy(run, runs[0], folder)
            missing = write_summary(folder, run, result)
    elif len(runs) == 1:
        folder = RunDirectory(runs[0])
        with locked(folder.path):
            missing = write_summary(folder, run, result)
    else:
        output.write_json(result, json)
        return
    screen.print(f"Left in {folder.path}: {', '.join(folder.files())}")
    if missing:
        screen.print(missing)
    output.write_json(result, json)


def _copy(run: Run, source: Path, folder: RunDirectory) -> None:
    """The record, and the model where the run had fitted one."""
    folder.begin(run.manifest)
    for part in run.parts:
        write_atomic(folder.scores / part.path.name, part.path.read_bytes())
    if (source / MODEL).is_dir():
        with writing(folder.path / MODEL):
            shutil.copytree(source / MODEL, folder.path / MODEL)
