"""maskevidence report: one page that shows a run, or several side by side."""

from pathlib import Path
from typing import Annotated

import typer

from maskevidence.cli import options
from maskevidence.report.page import OBSERVATIONS, check_target, write_report
from maskevidence.report.reading import read_runs


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run directories, one or more.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="The page, a file ending in .html.")
    ] = Path("report.html"),
    observations: Annotated[
        int,
        typer.Option(
            "--observations",
            min=0,
            metavar="N",
            help="How many of the hardest and of the easiest observations to show; 0 leaves them out.",
        ),
    ] = OBSERVATIONS,
    threads: options.Threads = None,
) -> None:
    """Write one self-contained page on a run, or on several side by side; it opens without a network.

    It has the numbers with both errors, interactive curves, the comparison of runs on the same data, the
    hardest and easiest observations, and how all of it was made. The observations are read again from where
    the run's data came from, and are shown only if they are still what was scored. Runs that are not finished
    are shown as far as they came.

    Examples:

        maskevidence report runs/a

        maskevidence report runs/a runs/b --out comparison.html
    """
    options.use_threads(threads)
    check_target(out)
    write_report(read_runs(runs), out, observations=observations)
    typer.echo(f"Written: {out} ({out.stat().st_size / 1e6:.1f} MB); open it in a browser")
