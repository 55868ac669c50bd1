"""maskevidence select: choose the family of models and the number of components that the data support."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from maskevidence.command.options import Argument, Result
from maskevidence.tables.by_name import parse_components, takes_words
from maskevidence.tables.kind import rows
from maskevidence.tables.table_options import SelectOptions

if TYPE_CHECKING:
    from maskevidence.runs.folder import ResultFolder
    from maskevidence.tables.choosing.selection import Selection

RESULT, TABLE, PICTURE, MODEL = "selection.json", "selection.csv", "selection.png", "model"


def select_command(
    families: Annotated[
        str,
        Argument(
            "FAMILIES",
            "Families between commas: masked-net, ppca, factor-analysis, gaussian, kernel-gaussian, vae; or "
            "bernoulli-pca, bernoulli-vae. A word such as ppca:3 stands for one model.",
        ),
    ],
    data: Annotated[
        str,
        Argument("DATA", "digits, or a .csv, .tsv, .parquet, .feather or .npy table, or its address."),
    ],
    options: SelectOptions = SelectOptions(),
) -> Result:
    """Choose a family of models and its number of components by held-out evidence.

    Every row is held out once and scored by models that were fitted to the others. The choice is the model
    with the highest log evidence of these rows. The smallest model that cannot be told apart from it is
    printed, too, with what it gives up: no other model beats it, and these comparisons hold together at 95 %.
    With --out, the chosen model is fitted to all rows and saved for `score` and `impute`.

    Examples:

        maskevidence select ppca,factor-analysis table.csv --components 1-20
        maskevidence select gaussian,kernel-gaussian,factor-analysis table.csv --out runs/chosen
        maskevidence impute runs/chosen/model table.csv --out filled.csv
    """
    rows.check_words(None, data)
    from maskevidence.core.masks.design_words import as_design
    from maskevidence.core.support.provenance import origin
    from maskevidence.runs.folder import ResultFolder
    from maskevidence.tables.choosing.choosing import candidates, select
    from maskevidence.tables.rows import note_on_units, read_rows, reading_options, with_decisions
    from maskevidence.tables.rows import read_with as kept_reading

    components = parse_components(options.components)
    among = candidates(families, components)  # refuses unknown words before reading
    if options.design is not None:
        as_design(options.design).without_tokens("select")  # refused before reading
    folder = None
    if options.out is not None:
        folder = ResultFolder(options.out, "selection", (TABLE, PICTURE, MODEL, RESULT))
        folder.refuse(overwrite=options.overwrite)
    reading = replace(options.reading, table=with_decisions(options.reading.table))
    words = any(takes_words(word.family) for word in among)
    table = read_rows(data, reading, limit=options.limit, seed=options.seed, words=words)
    selection = select(
        table,
        families,
        components,
        folds=options.folds,
        design=options.design,
        seed=options.seed,
    )
    notes = [*table.notes, *selection.notes]
    if any(candidate.family == "ppca" for candidate in selection.candidates):
        notes += note_on_units(table.select(list(selection.column_names)))
    selection = replace(selection, notes=tuple(notes))
    selection.model.read_with = kept_reading(reading, table)
    read_with = reading_options(reading, limit=options.limit, words=words)
    result = {"data": data, "options": read_with, **selection.to_dict(), **origin()}
    return Result(selection.page(), result, [] if folder is None else _write(selection, result, folder))


def _write(selection: "Selection", result: dict[str, Any], folder: "ResultFolder") -> list[str]:
    """Write the table, the picture and the chosen model, then the JSON that marks the folder as complete."""
    from maskevidence.core.show.draw import draw_into
    from maskevidence.core.support.files import write_atomic
    from maskevidence.runs.folder import write_sealed

    with folder.rewritten():
        write_atomic(folder.path / TABLE, selection.to_csv())
        missing = draw_into(folder.path / PICTURE, *selection.picture())
        selection.model.save(folder.path / MODEL)
        write_sealed(folder.path / RESULT, result)
    return folder.written(missing)
