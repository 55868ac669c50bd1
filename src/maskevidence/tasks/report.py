"""maskevidence report: one page about a run, or about several side by side."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from maskevidence.errors import InputError
from maskevidence.inputs.command_words import Argument, Option
from maskevidence.show.parts import Page
from maskevidence.show.words import count
from maskevidence.tasks.result import Result


def report(
    runs: Annotated[
        list[Path],
        Argument("RUN...", "One or more run directories, or the folder of a selection or of wrong cells."),
    ],
    out: Annotated[Path, Option("The page, a file ending in .html.", "FILE", writes="file")] = Path(
        "report.html"
    ),
    observations: Annotated[
        int,
        Option("Number of hardest and of easiest observations to show; 0 shows none.", "N", min=0),
    ] = 5,
) -> Result:
    """Write one self-contained page about runs, a selection, mutants or wrong cells; it needs no network.

    The page shows the numbers with both errors, the curves, the comparison of runs on the same data, the
    hardest and easiest observations, and how the runs were made. The observations are read again from
    their source, and are shown only if they are still those that were scored. Of an unfinished run, the page
    shows what is finished. Of a selection, it shows the candidates, and how well the chosen model fills
    known values of rows that it was not fitted to; of mutants, their scores by site and residue; of wrong
    cells, the page of `cells`.

    Examples:

        maskevidence report runs/a
        maskevidence report runs/a runs/b --out comparison.html
        maskevidence report runs/chosen
    """
    from maskevidence.comparing.selection import SELECTION
    from maskevidence.integrations.proteins.mutant_tables import SUMMARY
    from maskevidence.report import read_runs, read_selection, read_variants, write_report
    from maskevidence.report.page import check_report_file
    from maskevidence.tasks.cells import RESULT, read_page

    check_report_file(out)
    about, reported = count(len(runs), "run"), None
    readers: dict[str, tuple[str, Callable[[Path], Any]]] = {
        SELECTION: ("selection", read_selection),
        SUMMARY: ("table of mutants", read_variants),
        RESULT: ("table of wrong cells", read_page),
    }
    for sign, folder in product(readers, runs):
        if (folder / sign).is_file():
            noun, read = readers[sign]
            if len(runs) > 1:
                raise InputError(f"{str(folder)!r} is a {noun}, which has a page of its own; give it alone")
            about, reported = f"a {noun}", read(folder)
    write_report(reported or read_runs(runs), out, observations=observations)
    size = out.stat().st_size
    written = f"Written: {out} ({size / 1e3:,.0f} kB); open it in a browser"
    content = {"runs": list(map(str, runs)), "out": str(out), "bytes": size}
    return Result(Page("", f"A report about {about}"), content, [written])
