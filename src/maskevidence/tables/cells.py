"""maskevidence cells: find the cells of a table that are probably wrong."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.command.failures import say
from maskevidence.command.options import Argument, Result, kind_of_model
from maskevidence.core.errors import InputError
from maskevidence.tables.table_options import CellOptions, RowDevice, RowReading

if TYPE_CHECKING:
    from maskevidence.core.show.parts import Page
    from maskevidence.runs.folder import ResultFolder
    from maskevidence.tables.wrong_cells.found_cells import WrongCells

RESULT, TABLE, PAGE = "cells.json", "cells.csv", "cells.html"
SHOWN = "page"  # key of the page's tables in cells.json
_COPIES = 3  # of a table, for each that a score takes
_REMEDY = "find the cells again with --overwrite"


def cells(
    model: Annotated[
        str,
        Argument(
            "MODEL",
            "auto: the table decides; or kernel-gaussian, masked-net, gaussian, ppca:8, fitted by folds; "
            "mixture-transition, for words; or a saved model's folder.",
        ),
    ],
    data: Annotated[
        str,
        Argument("DATA", "A .csv, .tsv, .parquet, .feather or .npy table, or an address (s3://...)."),
    ],
    options: CellOptions = CellOptions(),
) -> Result:
    """Find the cells of a table that are probably wrong, at a stated rate of false discoveries.

    The most surprising cell of a row is hidden and the rest of the row is judged again without it, one cell
    after the other. With --trusted, rows that are known to be right go through the same search, unchanged and
    with wrong cells planted into them; this keeps the share of false calls at --rate. Where several cells
    explain the same surprise, the call says that one of them is wrong. Formatting faults, wrong units and
    swapped columns are named.

    Examples:

        maskevidence cells kernel-gaussian table.csv --trusted checked.csv --out runs/cells
        maskevidence cells auto table.csv --id-column name --rate 0.05
        maskevidence impute auto table.csv --wrong runs/cells/cells.csv --out mended.csv
    """
    from maskevidence.core.support.provenance import origin
    from maskevidence.runs.folder import ResultFolder
    from maskevidence.tables.by_name import takes_words
    from maskevidence.tables.finished import ASKED, finished, hash_of
    from maskevidence.tables.row_groups import by_row_groups
    from maskevidence.tables.rows import (
        model_on,
        read_rows,
        reading_for,
        reading_like,
        selection_of,
        with_decisions,
    )
    from maskevidence.tables.wrong_cells.wrong_cells import wrong_cells

    if kind_of_model(model).name != "rows":
        raise InputError(
            f"{model!r} is not a model of rows; give one, such as kernel-gaussian, to judge a table"
        )
    folder = None
    if options.out is not None:
        folder = ResultFolder(options.out, "search for wrong cells", (TABLE, PAGE, RESULT))
        folder.refuse_unrelated()
    build, saved = model_on(model, RowDevice())
    reading, notes = RowReading(table=with_decisions(options.table)), list[str]()
    if build is None:
        reading, notes = reading_for(saved, data, reading)
    words, trusted, known, file = takes_words(model, saved), options.trusted, None, None
    if options.limit is None:
        file = by_row_groups(saved, data, selection_of(reading.table, words=words), times=_COPIES)
    if file is not None and trusted is None:
        say(f"note: without --trusted, all {file.n_rows:,} rows are read at once: more than memory may hold")
        file = None
    table = next(file.tables()) if file else read_rows(data, reading, limit=options.limit, words=words)
    if trusted is not None:
        known = replace(read_rows(trusted, reading_like(reading, table), words=words), kinds=table.kinds)
    settings = [model, data, trusted, options.rate, options.folds, options.seed]

    def asked() -> str:
        if file is not None:
            return hash_of([*settings, file.fingerprint], saved, [known])
        return hash_of(settings, saved, [table, known])

    content = finished(folder, asked, _REMEDY, overwrite=options.overwrite)
    if folder is not None and content is not None:  # the last run was killed after the last file, or ended
        page, lines = _page_of(content), folder.finished_before("finds the cells again")
        del content[SHOWN]
        return Result(page, content, lines)
    found = wrong_cells(
        model if build is not None else saved,
        file or table,
        options.rate,
        known,
        folds=options.folds,
        seed=options.seed,
    )
    found = replace(found, notes=(*table.notes, *notes, *found.notes))
    content = {"model": model, "data": data, "trusted": trusted, ASKED: asked()}
    content |= found.to_dict() | origin()
    return Result(found.page(), content, [] if folder is None else _write(found, content, folder))


def read_page(folder: Path) -> "Page":
    """Rebuild the page of a folder that `cells --out` wrote."""
    from maskevidence.runs.folder import read_sealed

    return _page_of(read_sealed(folder / RESULT, _REMEDY))


def _page_of(content: dict[str, Any]) -> "Page":
    """Rebuild the page from cells.json."""
    from maskevidence.core.show.parts import Page, Table
    from maskevidence.core.support.provenance import made_of

    try:
        shown = content[SHOWN]
        parts = [
            Table(**part | {name: {tuple(place) for place in part[name]} for name in ("bold", "marked")})
            for part in shown["parts"]
        ]
        return Page("", shown["headline"], shown["aside"], parts, shown["notes"], made_of(content))
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{RESULT} holds no page of wrong cells; {_REMEDY}") from error


def _write(found: "WrongCells", content: dict[str, Any], folder: "ResultFolder") -> list[str]:
    """Write the table and the page, then the JSON that marks the folder as complete."""
    from maskevidence.command.pages.page import write_report
    from maskevidence.core.show.parts import Table
    from maskevidence.core.support.files import csv_text, write_atomic
    from maskevidence.core.support.provenance import made_of
    from maskevidence.runs.folder import write_sealed

    columns, page = found.columns().values, found.page()
    tables = [part for part in page.parts if isinstance(part, Table)]
    parts = [asdict(part) | {"bold": sorted(part.bold), "marked": sorted(part.marked)} for part in tables]
    shown = {"headline": page.headline, "aside": page.aside, "parts": parts, "notes": list(page.notes)}
    with folder.rewritten():
        write_atomic(folder.path / TABLE, csv_text(columns, zip(*columns.values(), strict=True)))
        write_report(replace(page, made=made_of(content)), folder.path / PAGE)
        write_sealed(folder.path / RESULT, content | {SHOWN: shown})
    return folder.written()
