"""maskevidence information: what columns of a table tell about each other, or about a target."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.command.options import Argument, Option, Result, kind_of_model
from maskevidence.core.errors import InputError
from maskevidence.tables.table_options import FoldOptions, RowDevice, RowReading

if TYPE_CHECKING:
    from maskevidence.core.show.parts import Page
    from maskevidence.runs.folder import ResultFolder
    from maskevidence.tables.information.matrix import InformationMatrix

RESULT, TABLE, PAGE, PICTURE = "information.json", "information.csv", "information.html", "information.png"
_REMEDY = "estimate it again with --overwrite"


@dataclass(frozen=True)
class InformationOptions(FoldOptions):
    """Options of `information`."""

    target: Annotated[
        str | None,
        Option("Rank the columns by what they tell about this one, alone and given all others.", "COLUMN"),
    ] = None
    rate: Annotated[float, Option("False discovery rate of the numbers called above 0.")] = 0.05
    out: Annotated[
        Path | None,
        Option("Write information.csv, .png, .html and .json here.", "DIR", writes="folder"),
    ] = None
    overwrite: Annotated[bool, Option("Replace other information in --out, and the file of --json.")] = False


def information_command(
    model: Annotated[
        str,
        Argument(
            "MODEL",
            "auto: the table decides; or masked-net, gaussian, kernel-gaussian, factor-analysis:8, fitted by "
            "folds; or a saved model's folder.",
        ),
    ],
    data: Annotated[
        str,
        Argument("TABLE", "A .csv, .tsv, .parquet, .feather or .npy table, or an address (s3://...)."),
    ],
    options: InformationOptions = InformationOptions(),
) -> Result:
    """Find what the columns of a table tell about each other: mutual information in nats, with errors.

    One model gives all pairs, from rows that its fits have seen and have not seen. Cells of the picture that
    are not above 0 are grey, at a stated false discovery rate. With --target, the columns are ranked by what
    they tell about one column, alone and given all others. gaussian sees what rises or falls, auto and
    masked-net any shape, and words. None of it says what causes what.

    Examples:

        maskevidence information auto table.csv --out runs/information
        maskevidence information gaussian table.csv --target price
    """
    from maskevidence.core.support.provenance import origin
    from maskevidence.runs.folder import ResultFolder
    from maskevidence.tables.by_name import takes_words
    from maskevidence.tables.finished import ASKED, finished, hash_of
    from maskevidence.tables.information.matrix import InformationMatrix, information_matrix
    from maskevidence.tables.rows import model_on, read_rows, reading_for, with_decisions

    if kind_of_model(model).name != "rows":
        raise InputError(f"{model!r} is not a model of rows; give one, such as masked-net")
    folder = None
    if options.out is not None:
        folder = ResultFolder(options.out, "table of information", (TABLE, PICTURE, PAGE, RESULT))
        folder.refuse_unrelated()
    build, saved = model_on(model, RowDevice())
    reading, notes = RowReading(table=with_decisions(options.table)), list[str]()
    if build is None:
        reading, notes = reading_for(saved, data, reading)
    table = read_rows(data, reading, limit=options.limit, words=takes_words(model, saved))
    asked = hash_of([data, model, options.target, options.rate, options.folds, options.seed], saved, [table])
    content = finished(folder, lambda: asked, _REMEDY, overwrite=options.overwrite)
    if folder is not None and content is not None:
        found = InformationMatrix.from_dict(content)
        return Result(found.page(), content, folder.finished_before("estimates it again"))
    found = information_matrix(
        model if build is not None else saved,
        table,
        options.target,
        rate=options.rate,
        folds=options.folds,
        seed=options.seed,
    )
    found = replace(found, notes=tuple(dict.fromkeys([*table.notes, *notes, *found.notes])))
    content = {"data": data, ASKED: asked, **found.to_dict(), **origin()}
    return Result(found.page(), content, [] if folder is None else _write(found, content, folder))


def read_information(folder: Path) -> "Page":
    """Rebuild the page of a folder that `information --out` wrote."""
    from maskevidence.runs.folder import read_sealed
    from maskevidence.tables.information.matrix import InformationMatrix

    content = read_sealed(folder / RESULT, _REMEDY)
    try:
        return _page(InformationMatrix.from_dict(content), content)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{RESULT} holds no information; {_REMEDY}") from error


def _page(found: "InformationMatrix", content: "dict[str, Any]") -> "Page":
    """The page as a separate file, with the picture."""
    from maskevidence.core.support.provenance import made_of

    page = found.page()
    return replace(page, parts=[found.picture()[0], *page.parts], made=made_of(content))


def _write(found: "InformationMatrix", content: "dict[str, Any]", folder: "ResultFolder") -> list[str]:
    """Write the table, the picture and the page, then the JSON that marks the folder as complete."""
    from maskevidence.command.pages.page import write_report
    from maskevidence.core.show.draw import draw_into
    from maskevidence.core.support.files import write_atomic
    from maskevidence.runs.folder import write_sealed

    with folder.rewritten():
        write_atomic(folder.path / TABLE, found.to_csv())
        missing = draw_into(folder.path / PICTURE, *found.picture())
        write_report(_page(found, content), folder.path / PAGE)
        write_sealed(folder.path / RESULT, content)
    return folder.written(missing)
