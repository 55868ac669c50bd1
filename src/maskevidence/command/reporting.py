"""maskevidence report: one page on one or several runs."""

from itertools import product
from pathlib import Path
from typing import Annotated

from maskevidence.command.options import Argument, Option, Result
from maskevidence.core.errors import InputError
from maskevidence.core.kind import kinds, named


def report(
    runs: Annotated[
        list[Path],
        Argument(
            "RUN...", "One or more run directories, or one folder of pairs, select, cells or information."
        ),
    ],
    out: Annotated[Path, Option("The page, a file ending in .html.", "FILE", writes="file")] = Path(
        "report.html"
    ),
    observations: Annotated[
        int, Option("Number of hardest and of easiest observations to show; 0 shows none.", "N", min=0)
    ] = 5,
) -> Result:
    """Write one self-contained page about runs, or what another command found; it needs no network.

    The page shows the numbers with both errors, the curves, the comparison of runs on the same data, the
    hardest and easiest observations, and how the runs were made. The observations are read again from
    their source, and are shown only if they are still those that were scored. Of an unfinished run, the page
    shows what is finished. Of a selection, it shows the candidates, and how well the chosen model fills
    known values of rows that it was not fitted to; of pairs of texts, how often the first is more probable;
    of mutants, their scores by site and residue; of wrong cells and of information, the page of `cells` or
    `information`.

    Examples:

        maskevidence report runs/a
        maskevidence report runs/a runs/b --out comparison.html
        maskevidence report runs/chosen
    """
    from maskevidence.command.pages.page import check_report_file, write_report
    from maskevidence.command.pages.reported_runs import read_runs
    from maskevidence.core.show.parts import Page
    from maskevidence.core.show.words import count

    check_report_file(out)
    about, reported = count(len(runs), "run"), None
    readers = {sign: reader for kind in kinds() for sign, reader in kind.folders.items()}
    for sign, folder in product(readers, runs):
        if (folder / sign).is_file():
            noun, place = readers[sign]
            if len(runs) > 1:
                raise InputError(f"{str(folder)!r} is a {noun}, which has a page of its own; give it alone")
            about, reported = f"a {noun}", named(place)(folder)
    write_report(reported or read_runs(runs), out, observations=observations)
    size = out.stat().st_size
    written = f"Written: {out} ({size / 1e3:,.0f} kB); open it in a browser"
    content = {"runs": list(map(str, runs)), "out": str(out), "bytes": size}
    return Result(Page("", f"A report about {about}"), content, [written])
