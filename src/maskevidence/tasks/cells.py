"""maskevidence cells: the cells of a table that are probably wrong."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.errors import InputError
from maskevidence.inputs.declaring import Argument
from maskevidence.inputs.options import CellOptions, RowDevice, RowReading
from maskevidence.inputs.words import kind_of_model
from maskevidence.tasks.result import Result, written

if TYPE_CHECKING:
    from maskevidence.comparing.found_cells import WrongCells

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
    after the other. With --trusted, rows that are known to be right go through the same search and say how
    surprising a right cell can be, which keeps the share of false calls at --rate. Faults of form, wrong
    units and swapped columns are named.

    Examples:

        maskevidence cells kernel-gaussian table.csv --trusted checked.csv --out runs/cells
        maskevidence cells masked-net table.csv --id-column name --rate 0.05
        maskevidence impute masked-net table.csv --wrong runs/cells/cells.csv --out mended.csv
    """
    from maskevidence.comparing.wrong_cells import wrong_cells
    from maskevidence.inputs.rows import model_on, read, reading_for, takes_words
    from maskevidence.runs.lock import refuse_unrelated
    from maskevidence.support.provenance import command, versions

    if kind_of_model(model) != "rows":
        raise InputError(
            f"{model!r} is not a model of rows; give one, such as kernel-gaussian, to judge a table"
        )
    if options.out is not None:
        refuse_unrelated(options.out, (RESULT, TABLE), "wrong cells")
        if (options.out / RESULT).exists() and not options.overwrite:
            raise InputError(f"{str(options.out)!r} holds wrong cells; give another folder, or --overwrite")
    build, saved = model_on(model, RowDevice())
    reading, id_column, notes = RowReading(table=options.table), options.id_column, list[str]()
    if build is None:
        reading, id_column, notes = reading_for(saved, data, reading, id_column)
    words = takes_words(model, saved)
    table = read(data, reading, limit=options.limit, id_column=id_column, words=words)
    trusted = options.trusted
    known = None if trusted is None else read(trusted, reading, id_column=id_column, words=words)
    found = wrong_cells(
        model if build is not None else saved,
        table,
        options.rate,
        known,
        folds=options.folds,
        seed=options.seed,
    )
    found = replace(found, notes=(*table.notes, *notes, *found.notes))
    content = {"model": model, "data": data, "trusted": trusted} | found.to_dict()
    content |= {"versions": versions(), "command": command()}
    return Result(found.page(), content, [] if options.out is None else _write(found, content, options.out))


def _write(found: "WrongCells", content: dict[str, Any], out: Path) -> list[str]:
    """The table and the page; and last what shows that the folder is complete."""
    from maskevidence.report import write_report
    from maskevidence.runs.blocks import write_sealed
    from maskevidence.runs.lock import rewritten
    from maskevidence.support.files import write_atomic
    from maskevidence.support.provenance import made_of

    with rewritten(out, RESULT):
        write_atomic(out / TABLE, found.to_csv())
        write_report(replace(found.page(), made=made_of(content)), out / PAGE)
        write_sealed(out / RESULT, content)
    return written(out, (TABLE, PAGE, RESULT))
