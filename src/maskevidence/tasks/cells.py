"""maskevidence cells: the cells of a table that are probably wrong."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.errors import InputError
from maskevidence.inputs.command_words import Argument, kind_of_model
from maskevidence.inputs.options import CellOptions, RowDevice, RowReading
from maskevidence.tasks.result import Result

if TYPE_CHECKING:
    from maskevidence.comparing.found_cells import WrongCells
    from maskevidence.runs.folder import ResultFolder

RESULT, TABLE, PAGE = "cells.json", "cells.csv", "cells.html"


def cells(
    model: Annotated[
        str,
        Argument(
            "MODEL",
            "kernel-gaussian, masked-net, gaussian, ppca:8, factor-analysis:8, fitted by folds; or a saved "
            "model's folder.",
        ),
    ],
    data: Annotated[
        str,
        Argument("DATA", "A .csv, .tsv, .parquet, .feather or .npy table, or an address (s3://...)."),
    ],
    options: CellOptions = CellOptions(),
) -> Result:
    """Find the cells of a table that are probably wrong, at a stated rate of false discoveries.

    The most surprising cell of a row is hidden and the rest of the row judged again without it, one cell
    after the other. With --trusted, rows that are known to be right go through the same search, as they are
    and with wrong cells planted into them, which keeps the share of false calls at --rate. Where several
    cells explain the same surprise, the call says that one of them is wrong. Faults of form, wrong units and
    swapped columns are named.

    Examples:

        maskevidence cells kernel-gaussian table.csv --trusted checked.csv --out runs/cells
        maskevidence cells masked-net table.csv --id-column name --rate 0.05
        maskevidence impute masked-net table.csv --wrong runs/cells/cells.csv --out mended.csv
    """
    from maskevidence.comparing.wrong_cells import wrong_cells
    from maskevidence.inputs.rows import model_on, read, reading_for, takes_words
    from maskevidence.runs.folder import ResultFolder
    from maskevidence.support.provenance import origin

    if kind_of_model(model) != "rows":
        raise InputError(
            f"{model!r} is not a model of rows; give one, such as kernel-gaussian, to judge a table"
        )
    folder = None
    if options.out is not None:
        folder = ResultFolder(options.out, "search for wrong cells", (TABLE, PAGE, RESULT))
        folder.refuse(overwrite=options.overwrite)
    build, saved = model_on(model, RowDevice())
    reading, notes = RowReading(table=options.table), list[str]()
    if build is None:
        reading, notes = reading_for(saved, data, reading)
    words = takes_words(model, saved)
    table = read(data, reading, limit=options.limit, words=words)
    trusted = options.trusted
    known = None if trusted is None else read(trusted, reading, words=words)
    found = wrong_cells(
        model if build is not None else saved,
        table,
        options.rate,
        known,
        folds=options.folds,
        seed=options.seed,
    )
    found = replace(found, notes=(*table.notes, *notes, *found.notes))
    content = {"model": model, "data": data, "trusted": trusted} | found.to_dict() | origin()
    return Result(found.page(), content, [] if folder is None else _write(found, content, folder))


def read_page(folder: Path) -> bytes:
    """The page in a folder that `cells --out` wrote."""
    from maskevidence.runs.folder import read_sealed
    from maskevidence.support.files import reading

    read_sealed(folder / RESULT, "find the cells again with --overwrite")
    with reading(folder / PAGE):
        return (folder / PAGE).read_bytes()


def _write(found: "WrongCells", content: dict[str, Any], folder: "ResultFolder") -> list[str]:
    """The table and the page; and last what shows that the folder is complete."""
    from maskevidence.report import write_report
    from maskevidence.runs.folder import write_sealed
    from maskevidence.support.files import csv_text, write_atomic
    from maskevidence.support.provenance import made_of

    columns = found.columns().values
    with folder.rewritten():
        write_atomic(folder.path / TABLE, csv_text(columns, zip(*columns.values(), strict=True)))
        write_report(replace(found.page(), made=made_of(content)), folder.path / PAGE)
        write_sealed(folder.path / RESULT, content)
    return folder.written()
