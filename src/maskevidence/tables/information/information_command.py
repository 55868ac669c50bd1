"""maskevidence information: what columns of a table tell about each other, or about a target."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.command.command_words import Argument, Option, kind_of_model
from maskevidence.command.options import Limit, Result
from maskevidence.core.errors import InputError, MissingExtraError
from maskevidence.tables.table_options import RowDevice, RowReading, TableOptions

if TYPE_CHECKING:
    from maskevidence.runs.folder import ResultFolder
    from maskevidence.tables.information.matrix import InformationMatrix

RESULT, TABLE, PAGE, PICTURE = "information.json", "information.csv", "information.html", "information.png"


@dataclass(frozen=True)
class InformationOptions:
    """Options of `information`."""

    target: Annotated[
        str | None,
        Option("Rank the columns by what they tell about this one, alone and given all others.", "COLUMN"),
    ] = None
    rate: Annotated[float, Option("False discovery rate of the numbers called above 0.")] = 0.05
    folds: Annotated[
        int, Option("Parts of the rows, each asked of a fit to the others.", min=3, max=10_000)
    ] = 5
    seed: Annotated[int, Option("Random seed of the folds and fits.", min=0, max=2**63 - 1)] = 0
    limit: Limit = None
    out: Annotated[
        Path | None,
        Option("Write information.csv, .png, .html and .json here.", "DIR", writes="folder"),
    ] = None
    overwrite: Annotated[bool, Option("Replace other information in --out, and the file of --json.")] = False
    table: TableOptions = field(default_factory=TableOptions)


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

    One model gives all pairs, each row asked of a fit that has not seen it. Cells of the picture that are not
    above 0 are white, at a stated false discovery rate. With --target, the columns are ranked by what they
    tell about one column, alone and given all others. A Gaussian sees straight lines only; masked-net any
    dependence, of words, counts and yes/no, too. None of it says what causes what.

    Examples:

        maskevidence information masked-net table.csv --out runs/information
        maskevidence information gaussian table.csv --target price
    """
    from maskevidence.core.support.provenance import origin
    from maskevidence.runs.folder import ResultFolder
    from maskevidence.tables.by_name import takes_words
    from maskevidence.tables.information.matrix import information_matrix
    from maskevidence.tables.rows import model_on, read_rows, reading_for

    if kind_of_model(model).name != "rows":
        raise InputError(f"{model!r} is not a model of rows; give one, such as masked-net")
    folder = None
    if options.out is not None:
        folder = ResultFolder(options.out, "information", (TABLE, PICTURE, PAGE, RESULT))
        folder.refuse(overwrite=options.overwrite)
    build, saved = model_on(model, RowDevice())
    reading, notes = RowReading(table=options.table), list[str]()
    if build is None:
        reading, notes = reading_for(saved, data, reading)
    table = read_rows(data, reading, limit=options.limit, words=takes_words(model, saved))
    found = information_matrix(
        model if build is not None else saved,
        table,
        options.target,
        rate=options.rate,
        folds=options.folds,
        seed=options.seed,
    )
    found = replace(found, notes=tuple(dict.fromkeys([*table.notes, *notes, *found.notes])))
    content = {"data": data, **found.to_dict(), **origin()}
    return Result(found.page(), content, [] if folder is None else _write(found, content, folder))


def _write(found: "InformationMatrix", content: "dict[str, Any]", folder: "ResultFolder") -> list[str]:
    """Write the table, the picture and the page, then the JSON that marks the folder as complete."""
    from maskevidence.command.pages.page import write_report
    from maskevidence.core.show.draw import image
    from maskevidence.core.support.files import write_atomic
    from maskevidence.core.support.provenance import made_of
    from maskevidence.runs.folder import write_sealed

    page, missing = replace(found.page(), made=made_of(content)), None
    with folder.rewritten():
        write_atomic(folder.path / TABLE, found.to_csv())
        try:
            write_atomic(folder.path / PICTURE, image(*found.picture()))
            page = replace(page, parts=[found.picture()[0], *page.parts])
        except MissingExtraError as error:
            missing = f"{PICTURE} was not drawn: {error}"
        write_report(page, folder.path / PAGE)
        write_sealed(folder.path / RESULT, content)
    return folder.written(missing)
