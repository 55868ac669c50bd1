"""maskevidence report: one page about a run, or about several side by side."""

from pathlib import Path
from typing import Annotated

from maskevidence.commands.result import Reported
from maskevidence.kinds.declaring import Argument, Option
from maskevidence.show.parts import Page
from maskevidence.show.words import count


def report(
    runs: Annotated[list[Path], Argument("RUN...", "One or more run directories.")],
    out: Annotated[Path, Option("The page, a file ending in .html.", "FILE", writes="file")] = Path(
        "report.html"
    ),
    observations: Annotated[
        int,
        Option("Number of hardest and of easiest observations to show; 0 shows none.", "N", min=0),
    ] = 5,
) -> Reported:
    """Write one self-contained page about a run, or about several side by side; it needs no network.

    The page shows the numbers with both errors, interactive curves, the comparison of runs on the same data,
    the hardest and easiest observations, and how the runs were made. The observations are read again from
    their source, and are shown only if they are still those that were scored. Of an unfinished run, the page
    shows what is finished.

    Examples:

        maskevidence report runs/a
        maskevidence report runs/a runs/b --out comparison.html

    Args:
        runs: one or more run directories.
        out: the page, a file ending in .html.
        observations: how many of the hardest and of the easiest observations are shown.

    Raises:
        InputError: runs that cannot be read, or a place that cannot be written.
    """
    from maskevidence.report.page import check_target, write_report
    from maskevidence.report.reading import read_runs

    check_target(out)
    write_report(read_runs(runs), out, observations=observations)
    size = out.stat().st_size
    written = f"Written: {out} ({size / 1e6:.1f} MB); open it in a browser"
    content = {"runs": list(map(str, runs)), "out": str(out), "bytes": size}
    return Reported(Page("", f"A report about {count(len(runs), 'run')}"), content, [written])
