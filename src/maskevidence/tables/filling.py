"""Fill the missing values of a table by a model, and write it otherwise unchanged."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.command.command_words import kind_of_model
from maskevidence.core.errors import InputError
from maskevidence.core.model import HasValuesOf
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import plain_number, word_of
from maskevidence.core.support.files import check_place
from maskevidence.core.support.provenance import origin
from maskevidence.core.support.sources import check_distinct
from maskevidence.core.support.spread import spreads, with_values
from maskevidence.core.table import Table, column_of, decoded, place_of, with_columns_of, with_levels_of
from maskevidence.core.tokens import Tokens
from maskevidence.tables.base import TableModel
from maskevidence.tables.fitting import fit_table
from maskevidence.tables.gaussian.mixed_kernels import MixedKernelGaussian
from maskevidence.tables.gaussian.ppca import PPCA
from maskevidence.tables.network.masked_network import MaskedNetwork
from maskevidence.tables.options import ImputeOptions, RowReading
from maskevidence.tables.rows import (
    decided,
    is_table_file,
    model_on,
    note_on_pairs,
    note_on_units,
    raw_table,
    read,
    reading_for,
    selection_of,
    takes_words,
)
from maskevidence.tables.table_files import (
    FALSE,
    TRUE,
    RawTable,
    check_ending,
    is_text,
    names_of,
    read_raw,
    to_table,
    with_new_types,
    write_table,
)
from maskevidence.tables.wrong_cells.found_cells import value_of

DRAW = "draw"


class _Filling(NamedTuple):
    """The filled values of a table, with their uncertainty."""

    values: Float64[np.ndarray, "n N D"]  # one filled table, or n draws
    # shape (N, D): standard deviations, 0 where observed; for `likeliest` columns, the probability of the
    # filled value, 1 where observed; None for draws
    deviation: Float64[np.ndarray, "N D"] | None
    notes: tuple[str, ...] = ()  # about the draws
    likeliest: tuple[str, ...] = ()  # discrete columns, filled by their most probable value
    constant: tuple[str, ...] = ()  # columns that do not vary, filled by their one value


def fill_table(model: str, data: str, options: ImputeOptions) -> dict[str, Any]:
    """Fill the missing values of a table by a model, and write it with its columns and rows in order.

    The file has all columns of the data, also unused ones. After them comes a column NAME_sd of standard
    deviations for every column with holes, or NAME_p of probabilities where a network fills words and yes/no
    columns by the most probable value. With draws, the filled tables follow each other, and a first column
    numbers them. Cells of a CSV file that are not filled are copied as text, byte for byte.

    Args:
        model: the folder of a saved model, or a word such as "factor-analysis:3" for one that is fitted to
            all rows of the table first.

    Returns:
        Which values were filled, and how surely.
    """
    if kind_of_model(model).name != "rows":
        raise InputError(f"{model!r} is no model of rows; impute fills tables, by ppca:8 for example")
    check_ending(options.out)
    check_place(options.out, replaces=options.overwrite)
    build, saved = model_on(model, options.device)
    words, reading = takes_words(model, saved), RowReading(table=options.table)
    if build is None:
        reading, from_model = reading_for(saved, data, reading)
    raw, table = _read(data, reading, options, words)
    as_text = raw.first_line > 0 and is_text(options.out)
    source = raw.columns.slice(0, options.limit)
    notes = list(table.notes)
    if build is not None:
        some = table.take(np.flatnonzero(with_values(table.values)))
        build, of_auto = decided(model, build, some, options.device, options.seed)
        notes += of_auto
        fitted, dropped = fit_table(build, some, some, empty_rows=True)
        filling = _fill(fitted, table, options, tuple(dropped))
        notes.append(f"fitted to the {len(table):,} rows of the table")
        if isinstance(fitted, PPCA):
            notes += note_on_units(table.select(fitted.columns or []))
    else:
        table = table if saved.columns is None else with_columns_of(table, saved.columns)
        saved.check_width(len(table.columns))
        given, table = table, with_levels_of(table, saved.levels)
        tokens = Tokens.from_array(table.values, empty_rows=True)
        saved.refuse_strange_cells(tokens, place=partial(place_of, lines=table.lines))
        fitted, filling, notes = saved, _fill(saved, table, options), [*table.notes, *from_model]
        if isinstance(saved, MaskedNetwork | MixedKernelGaussian):
            notes += saved.notes_on_unseen(tokens, given)
    notes += filling.notes
    notes += note_on_pairs(table, filling.values[0])
    if filling.constant:
        notes.append(f"filled by the one value that they have: {', '.join(filling.constant)}")
    if not np.isnan(table.values).any():
        notes.append("no value is missing: the table is written as it is")
    write_table(_written(source, as_text, raw, table, filling), options.out, raw.delimiter)
    return _result(model, data, table, filling, notes, options)


def _read(data: str, reading: RowReading, options: ImputeOptions, words: bool) -> tuple[RawTable, Table]:
    """Read the file's columns unconverted, and the selected columns as numbers; both have the same rows."""
    if is_table_file(data):
        raw = raw_table(data, reading.table)
        selection = selection_of(reading.table, words=words)
        table = to_table(raw, selection, empty_rows=True)
    else:
        import pyarrow as pa

        table = read(data, reading)
        raw = RawTable(data, pa.table(dict(zip(table.columns, table.values.T.copy(), strict=True))))
    table = table if options.limit is None else table.head(options.limit)
    return raw, (table if options.wrong is None else _without_wrong(table, options.wrong))


def _without_wrong(table: Table, file: Path) -> Table:
    """Make holes of the cells that a cells.csv calls wrong."""
    values, place = table.values.copy(), {str(key): k for k, key in enumerate(table.ids.tolist())}
    called, others = _called_in(file), list[str]()
    for row, column, text, number in called:
        if row in place and column in table.columns:
            i, j = place[row], table.columns.index(column)
            value = value_of(table, j, table.values[i, j])
            if text == value or (isinstance(value, float) and number == value):
                values[i, j] = np.nan
                continue
        others.append(f"{column} = {text} of row {row} (from 0)")
    if others:
        raise InputError(
            f"{len(others):,} of the {count(len(called), 'wrong cell')} of {str(file)!r} "
            f"{'is' if len(others) == 1 else 'are'} not in this table, such as {others[0]}; give the table "
            "of that run, or write False for them in the column called"
        )
    return replace(table, values=values)


def _called_in(file: Path) -> list[tuple[str, str, str, float]]:
    """Row, column, word and number of each cell that a cells.csv calls wrong."""
    raw = read_raw(file)
    names = names_of(raw)
    check_distinct(file, names)
    if not {"row", "column", "value", "called"} <= {*names}:
        raise InputError(
            f"{str(file)!r} is not a cells.csv that `maskevidence cells --out` wrote; give that file"
        )
    cells = dict(zip(names, (column.to_pylist() for column in raw.columns.columns), strict=True))
    found = []
    for k, said in enumerate(map(word_of, cells["called"])):
        if said in TRUE:
            text = word_of(cells["value"][k])
            number = _number(text.replace(raw.decimal, "."))
            found.append((word_of(cells["row"][k]), cells["column"][k], text, number))
        elif said not in FALSE:
            raise InputError(
                f"{str(file)!r} has {said!r} in column 'called', {place_of(k, raw.lines)}; write True or "
                "False"
            )
    return found


def _number(text: str) -> float:
    """Parse a number; NaN for other text."""
    try:
        return plain_number(text)
    except ValueError:
        return math.nan


def _fill(
    model: TableModel, table: Table, options: ImputeOptions, constant: tuple[str, ...] = ()
) -> _Filling:
    """Fill the table; columns that the model lacks stay in their places."""
    kept = [column for column in table.columns if column not in constant]
    places = [table.columns.index(column) for column in kept]
    holed = table.select(kept).values
    n = 1 if options.draws is None else options.draws
    values = np.broadcast_to(table.values, (n, *table.values.shape)).copy()
    for name in constant:
        column = values[:, :, table.columns.index(name)]
        column[np.isnan(column)] = np.nanmax(column)
    few = {}  # the values of discrete columns
    if isinstance(model, HasValuesOf):
        few = {k: model.values_of(k) for k in range(len(kept)) if not _of_category(table, kept[k])}
    likeliest = tuple(kept[k] for k in few if few[k] is not None)
    if options.draws is not None:
        drawn, note = _draws(model, holed, options.draws, options.seed)
        values[:, :, places] = drawn
        return _Filling(values, None, (note,), likeliest, constant)
    filled = model.impute(holed)
    values[0][:, places] = filled.values
    deviation = np.zeros_like(table.values)
    deviation[:, places] = np.sqrt(filled.variance)
    for k, levels in few.items():
        if levels is not None:
            place = places[k]
            hole, mean = np.isnan(holed[:, k]), filled.values[:, k]
            deviation[:, place] = 1 - filled.variance[:, k]
            if kept[k] not in table.levels:  # yes/no, whose mean is no + (yes - no) p
                no, yes = levels.tolist()
                p = (mean - no) / (yes - no)
                values[0][hole, place] = np.where(p < 0.5, no, yes)[hole]
                deviation[hole, place] = np.maximum(p, 1 - p)[hole]
    return _Filling(values, deviation, (), likeliest, constant)


def _draws(
    model: TableModel, holed: Float64[np.ndarray, "N D"], draws: int, seed: int
) -> tuple[Float64[np.ndarray, "n N D"], str]:
    """Draw the missing values several times; the note says whether the model was refitted for each draw."""
    why = "the model was fitted to other rows" if model.refits else "a fit takes long"
    if model.refits_to(holed):
        try:
            drawn = model.draw_missing(holed, draws, seed, refit=True)
            return drawn, "each table is drawn by a model fitted again to a bootstrap sample of the rows"
        except InputError as error:
            why = str(error).partition("; with refit=False")[0]
    note = f"all tables are drawn with the same parameters, since {why}: with few rows, pooled intervals are"
    return model.draw_missing(holed, draws, seed), f"{note} too narrow"


def _written(source: Any, as_text: bool, raw: RawTable, table: Table, filling: _Filling) -> Any:
    """The file's columns with filled holes, plus the columns of errors or the number of the draw."""
    import pyarrow as pa

    def added(name: str, values: np.ndarray) -> tuple[str, Any]:
        if name in raw.columns.column_names:
            raise InputError(f"the table already has a column {name!r}, which impute would add; rename it")
        return name, pa.array(_numbers(values, raw) if as_text else values)

    as_others = (*filling.likeliest, *filling.constant)
    tables = [_one(source, as_text, raw, table, values, as_others) for values in filling.values]
    if filling.deviation is not None:
        (whole,) = tables
        for name, cells, deviation in zip(table.columns, table.values.T, filling.deviation.T, strict=True):
            if name in filling.likeliest and np.isnan(cells).any():
                whole = whole.append_column(*added(f"{name}_p", deviation))
            elif name not in filling.likeliest and deviation.any() and not _of_category(table, name):
                whole = whole.append_column(*added(f"{name}_sd", deviation))
        return whole
    numbers = np.repeat(np.arange(1, len(tables) + 1), len(table))
    below = pa.concat_tables([one.replace_schema_metadata(None) for one in tables])
    return below.add_column(0, *added(DRAW, numbers))


def _one(
    source: Any,
    as_text: bool,
    raw: RawTable,
    table: Table,
    values: Float64[np.ndarray, "N D"],
    as_others: Sequence[str],
) -> Any:
    """The file's columns with holes filled by `values`; columns in `as_others` copy the style of other
    cells.
    """
    import pyarrow as pa

    whole = source
    for number, name in enumerate(names_of(raw)):
        of_numbers = name in table.columns
        if of_numbers:
            of_column = table.columns.index(name)
        elif name in table.categories and column_of(name, table.categories[name][-1]) in table.columns:
            of_column = table.columns.index(column_of(name, table.categories[name][-1]))
        else:
            continue
        holes = np.isnan(table.values[:, of_column])
        in_words = name in table.levels
        if name in as_others and not in_words and holes.any() and (as_text or not raw.first_line):
            new = _cells_of(source.column(number), table.values[:, of_column], values[:, of_column], raw)
            column = _filled(source.column(number), holes, new)
        elif of_numbers and not in_words and not as_text and (holes.any() or raw.first_line > 0):
            column = _as_type(
                pa.array(np.ascontiguousarray(values[:, of_column])), source.column(number).type
            )
        elif holes.any():
            if in_words:
                new = [
                    table.levels[name][int(code)] if hole else ""
                    for code, hole in zip(values[:, of_column], holes, strict=True)
                ]
            else:
                new = _numbers(values[:, of_column], raw) if of_numbers else decoded(table, values, name)
            column = _filled(source.column(number), holes, new)
        else:
            continue
        whole = whole.set_column(number, source.column_names[number], column)
    return with_new_types(whole, source)


def _as_type(numbers: Any, kind: Any) -> Any:
    """Cast filled numbers to the column's type; an integer column becomes float64 if some are not whole."""
    import pyarrow as pa

    if pa.types.is_floating(kind):
        return numbers.cast(kind, safe=False)  # rounds the filled values
    try:
        return numbers.cast(kind) if pa.types.is_integer(kind) else numbers
    except pa.ArrowInvalid:
        return numbers


def _filled(column: Any, holes: Bool[np.ndarray, " N"], new: Sequence[Any]) -> Any:
    """Fill a column's holes in its own type, or as text if the type cannot hold a new category."""
    import pyarrow as pa

    cells = column.to_pylist()
    cell_of_text = {word_of(cell): cell for cell in cells} | {str(cell): cell for cell in cells}
    for row in np.flatnonzero(holes).tolist():
        cells[row] = cell_of_text.get(new[row], new[row])
    try:
        return pa.array(cells, column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array(list(map(str, cells)))


def _cells_of(
    column: Any, known: Float64[np.ndarray, " N"], values: Float64[np.ndarray, " N"], raw: RawTable
) -> list[Any]:
    """Write values as the column's other cells are written; 0 and 1 complete the column's pair of words."""
    cells = column.to_pylist()
    cell_of = dict(zip(known.tolist(), cells, strict=True))
    if any(isinstance(cell, str) for cell in cells):
        words = {str(cell).strip() for cell in cells}
        pair = next((pair for pair in zip(FALSE, TRUE, strict=True) if words & {*pair}), ("0", "1"))
        others = dict(zip(values.tolist(), _numbers(values, raw), strict=True)) | dict(enumerate(pair))
    else:
        others = {0.0: False, 1.0: True} if any(isinstance(cell, bool) for cell in cells) else {}
    return [cell_of.get(value, others.get(value, value)) for value in values.tolist()]


def _numbers(values: np.ndarray, raw: RawTable) -> list[str]:
    """Format numbers as cells of the CSV file."""
    return [repr(value).removesuffix(".0").replace(".", raw.decimal) for value in values.tolist()]


def _of_category(table: Table, name: str) -> bool:
    """Whether a column is the indicator of one category."""
    return any(
        name == column_of(column, category)
        for column, all_of_them in table.categories.items()
        for category in all_of_them
    )


def _result(
    model: str, data: str, table: Table, filling: _Filling, notes: list[str], options: ImputeOptions
) -> dict[str, Any]:
    holes = np.isnan(table.values)
    columns = []
    for j in np.flatnonzero(holes.any(axis=0)):
        sd = probability = spread = None
        in_words = table.columns[j] in table.levels
        if table.columns[j] in filling.likeliest and filling.deviation is not None:
            probability = float(filling.deviation[holes[:, j], j].mean())
        elif filling.deviation is not None and not in_words:
            sd = float(np.sqrt((filling.deviation[holes[:, j], j] ** 2).mean()))
        if probability is None and not in_words and not holes[:, j].all():
            spread = float(spreads(table.values[:, [j]])[0])
        filled = {
            "name": table.columns[j],
            "n_filled": int(holes[:, j].sum()),
            "sd": sd,
            "sd_of_column": spread,
        }
        if probability is not None:
            filled["probability"] = probability
        columns.append(filled)
    return {
        "model": model,
        "data": data,
        "out": str(options.out),
        "draws": options.draws,
        "seed": options.seed,
        "n_rows": len(table),
        "n_filled": int(holes.sum()),
        "columns": columns,
        "notes": notes,
        **origin(),
    }
