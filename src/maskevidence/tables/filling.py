"""Fill the missing values of a table by a model, and write it otherwise unchanged."""

import contextlib
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.command.options import kind_of_model
from maskevidence.core.errors import InputError
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import MISSING, plain_number, word_of
from maskevidence.core.support.files import check_place, write_atomic
from maskevidence.core.support.provenance import origin
from maskevidence.core.support.sources import check_distinct
from maskevidence.core.table import (
    Table,
    place_of,
    spreads,
    with_levels_of,
    with_values,
)
from maskevidence.core.tokens import Tokens
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import fit_table, takes_words
from maskevidence.tables.category_columns import column_of, decoded, of_categories, with_columns_of
from maskevidence.tables.gaussian.low_rank import PPCA
from maskevidence.tables.gaussian.mixed_kernels import MixedKernelGaussian
from maskevidence.tables.network.masked_network import MaskedNetwork
from maskevidence.tables.possible_values import (
    FEWEST_KNOWN,
    Moments,
    as_the_column,
    cut_off,
    drawn_within,
    has_zeros,
    logged,
    never_below_0,
    note_on_bounds,
    on_log_scale,
    unlogged,
    within,
)
from maskevidence.tables.reading.columns import FALSE, TRUE
from maskevidence.tables.reading.contents import SHEETS
from maskevidence.tables.reading.dates import DateForm
from maskevidence.tables.reading.numbers import NumberForm, cell_of, decimals_of, decimals_written
from maskevidence.tables.rows import (
    decided,
    is_table_file,
    model_on,
    note_on_pairs,
    note_on_units,
    read_rows,
    reading_for,
    selection_of,
    with_decisions,
)
from maskevidence.tables.table_files import (
    RawTable,
    check_ending,
    converted,
    is_text,
    names_of,
    read_raw,
    with_new_types,
    write_table,
)
from maskevidence.tables.table_options import ImputeOptions, RowReading
from maskevidence.tables.wrong_cells.found_cells import value_of

DRAW = "draw"
_SUGGESTED = ("suggested", "probability")  # columns of a cells.csv


class Filling(NamedTuple):
    """The filled values of a table, with their uncertainty."""

    values: Float64[np.ndarray, "n N D"]  # one filled table, or n draws
    # shape (N, D): standard deviations, 0 where observed; for `likeliest` columns, the probability of the
    # filled value, 1 where observed; None for draws
    deviation: Float64[np.ndarray, "N D"] | None
    notes: tuple[str, ...] = ()  # about the draws
    likeliest: tuple[str, ...] = ()  # discrete columns, filled by their most probable value
    constant: tuple[str, ...] = ()  # columns that do not vary, filled by their one value
    # of draws, means and standard deviations of the cells, where a range has to be kept
    expected: tuple[Float64[np.ndarray, "N D"], Float64[np.ndarray, "N D"]] | None = None
    means: Float64[np.ndarray, "N D"] | None = (
        None  # of one table, before they were made values of the column
    )
    logs: tuple[str, ...] = ()  # columns on a log scale
    existing: tuple[str, ...] = ()  # columns filled with values that exist


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
    options = replace(options, table=with_decisions(options.table))
    if options.mend == "suggested" and options.wrong is None:
        raise InputError("--mend suggested needs the cells.csv of cells --out; give it by --wrong")
    as_sheet = options.out.suffix.lower() in SHEETS and Path(data).suffix.lower() in SHEETS
    if not as_sheet or options.draws is not None:
        check_ending(options.out)
    check_place(options.out, replaces=options.overwrite)
    build, saved = model_on(model, options.device)
    words, reading = takes_words(model, saved), RowReading(table=options.table)
    if build is None:
        reading, from_model = reading_for(saved, data, reading)
    raw, table = _read(data, reading, options, words)
    as_text = raw.first_line > 0 and (as_sheet or is_text(options.out))
    notes, holes = list(table.notes), holes_to_fill(raw, table, odd=options.fill_odd)
    if build is not None:
        known = with_values(table.values)
        some, filled = (table.take(np.flatnonzero(rows)) for rows in (known, known | holes.any(axis=1)))
        build, of_auto = decided(model, build, filled, options.device, options.seed, fills=True)
        notes += of_auto
        fitted, dropped = fit_table(build, some, some, empty_rows=True)
        filling = fill_holes(fitted, table, options, tuple(dropped))
        notes.append(f"fitted to the {len(table):,} rows of the table")
        filling = _on_log_scale(build, some, table, filling, options)
        if isinstance(fitted, PPCA):
            notes += note_on_units(table.select(fitted.columns or []))
    else:
        table = table if saved.columns is None else with_columns_of(table, saved.columns)
        saved.check_width(len(table.columns))
        given, table = table, with_levels_of(table, saved.levels)
        tokens = Tokens.from_array(table.values, empty_rows=True)
        saved.refuse_strange_cells(tokens, place=partial(place_of, lines=table.lines))
        fitted, filling, notes = saved, fill_holes(saved, table, options), [*table.notes, *from_model]
        if isinstance(saved, MaskedNetwork | MixedKernelGaussian):
            notes += saved.notes_on_unseen(tokens, given)
        holes = holes_to_fill(raw, table, odd=options.fill_odd)
    filling = possible_filling(table, filling, holes, options.seed)
    if options.mend == "suggested" and options.wrong is not None:
        filling = _as_suggested(filling, table, options.wrong, model)
    notes += filling.notes
    notes += note_on_pairs(table, filling.values[0])
    if filling.constant:
        notes.append(f"filled by the one value that they have: {', '.join(filling.constant)}")
    if not holes.any():
        notes.append("no value is missing: the table is written as it is")
    bare = replace(raw, head=(), foot=()) if as_sheet else raw  # the sheet has its units and totals
    written = _written(as_text, bare, table, filling, holes)
    if as_sheet:
        write_sheet(options.out, raw, written, (table, filling.values[0], holes))
    else:
        above = raw.above if as_text and options.draws is None else ""
        encoding, line_end = (raw.encoding, raw.line_end) if as_text else ("utf-8", "\n")
        write_table(written, options.out, raw.delimiter, above=above, encoding=encoding, line_end=line_end)
    return {"model": model, "data": data} | _result(table, filling, holes, notes, options)


def holes_to_fill(raw: RawTable, table: Table, *, odd: bool = False) -> Bool[np.ndarray, "N D"]:
    """Which cells of a table are filled: its holes, but none of rows without any value.

    Args:
        odd: whether cells that are not numbers among numbers are filled, too.
    """
    holes = np.isnan(table.values) if odd else table.holes()
    if raw.columns.num_columns > 1:
        for row in np.flatnonzero(np.isnan(table.values).all(axis=1)).tolist():
            cells = [column[int(table.ids[row])].as_py() for column in raw.columns.columns]
            if all(cell is None or (isinstance(cell, str) and cell.strip() in MISSING) for cell in cells):
                holes[row] = False
    return holes


def _read(data: str, reading: RowReading, options: ImputeOptions, words: bool) -> tuple[RawTable, Table]:
    """Read the file's columns unconverted, and the selected columns as numbers; both have the same rows."""
    if is_table_file(data):
        selection = selection_of(reading.table, words=words)
        raw = read_raw(data, selection)
        table, _ = converted(raw, selection, empty_rows=True)
    else:
        import pyarrow as pa

        table = read_rows(data, reading)
        raw = RawTable(data, pa.table(dict(zip(table.columns, table.values.T.copy(), strict=True))))
    if options.limit is not None:
        table, raw = (
            table.head(options.limit),
            replace(raw, columns=raw.columns.slice(0, options.limit), foot=()),
        )
    return raw, (table if options.wrong is None else _without_wrong(table, options.wrong))


def _without_wrong(table: Table, file: Path) -> Table:
    """Make holes of the cells that a cells.csv calls wrong."""
    values, place = table.values.copy(), {str(key): k for k, key in enumerate(table.ids.tolist())}
    called, others = _called_in(file), list[str]()
    for row, column, text, number, *_ in called:
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


def _as_suggested(filling: Filling, table: Table, file: Path, model: str) -> Filling:
    """The same with the words that a cells.csv suggests, where it does."""
    values, place = filling.values.copy(), {str(key): k for k, key in enumerate(table.ids.tolist())}
    deviation = None if filling.deviation is None else filling.deviation.copy()
    called, n = _called_in(file), 0
    for row, column, *_, word, probability in called:
        words = table.levels.get(column, ())
        if row in place and word in words:
            cell = place[row], table.columns.index(column)
            values[:, *cell], n = words.index(word), n + 1
            if deviation is not None:
                deviation[cell] = probability
    rest = f", the other {len(called) - n:,} filled by {model}" if n < len(called) else ""
    notes = (*filling.notes, f"{count(n, 'wrong cell')} of {len(called):,} mended as suggested{rest}")
    return filling._replace(values=values, deviation=deviation, notes=notes)


def _called_in(file: Path) -> list[tuple[str, str, str, float, str, float]]:
    """Row, column, word, number, suggested word and its probability of each cell that is called wrong."""
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
            number = _number(text if "." in text else text.replace(",", "."))
            word, p = (word_of(cells[name][k]) if name in cells else "" for name in _SUGGESTED)
            place = word_of(cells["row"][k]), cells["column"][k]
            found.append((*place, text, number, word, _number(p)))
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


def fill_holes(
    model: TableModel, table: Table, options: ImputeOptions, constant: tuple[str, ...] = ()
) -> Filling:
    """Fill the table; columns that the model lacks stay in their places."""
    kept = [column for column in table.columns if column not in constant]
    places = [table.columns.index(column) for column in kept]
    holed = table.select(kept).values
    n = 1 if options.draws is None else options.draws
    values = np.broadcast_to(table.values, (n, *table.values.shape)).copy()
    for name in constant:
        column = values[:, :, table.columns.index(name)]
        column[np.isnan(column)] = np.nanmax(column)
    few, categories = {}, of_categories(table)  # the values of discrete columns
    listed: Any = getattr(model, "values_of", None)
    if listed is not None:
        few = {k: listed(k) for k in range(len(kept)) if kept[k] not in categories}
    likeliest = tuple(kept[k] for k in few if few[k] is not None)
    if options.draws is not None:
        drawn, note = _draws(model, holed, options.draws, options.seed)
        values[:, :, places] = drawn
        means, spread = table.values.copy(), np.zeros_like(table.values)
        if table.limits or (drawn < 0).any():  # for draws that are kept within a range
            expected = model.impute(holed)
            means[:, places], spread[:, places] = expected.values, np.sqrt(expected.variance)
        return Filling(values, None, (note,), likeliest, constant, (means, spread))
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
    return Filling(values, deviation, (), likeliest, constant)


def _numbers_of(table: Table, filling: Filling) -> list[str]:
    """The columns of numbers that are filled by their means or draws."""
    others = {*table.levels, *filling.likeliest, *filling.constant, *of_categories(table)}
    return [name for name in table.columns if name not in others]


def _on_log_scale(
    build: Callable[[int], TableModel], some: Table, table: Table, filling: Filling, options: ImputeOptions
) -> Filling:
    """Fill again with some columns on a log scale, where that has the better held-out evidence."""
    names = never_below_0(
        table, filling.values.min(axis=0), np.isnan(table.values), _numbers_of(table, filling)
    )
    names = on_log_scale(build, some, names, options.seed) if names else []
    if not names:
        return filling
    bent, some = logged(table, names), logged(some, names)
    fitted, dropped = fit_table(build, some, some, empty_rows=True)
    again = fill_holes(fitted, bent, options, tuple(dropped))
    for name in names:
        j = table.columns.index(name)
        hole = np.isnan(table.values[:, j])
        if again.deviation is None:
            again.values[:, :, j] = np.exp(again.values[:, :, j])
        else:
            moments = unlogged(Moments(again.values[0][hole, j], again.deviation[hole, j]))
            again.values[0][hole, j], again.deviation[hole, j] = moments
            again.values[0][~hole, j] = table.values[~hole, j]
    return again._replace(logs=tuple(names))


def possible_filling(table: Table, filling: Filling, holes: Bool[np.ndarray, "N D"], seed: int) -> Filling:
    """Keep filled numbers within the range of their column, within limits, and in its decimals."""
    values, existing, means = filling.values.copy(), list[str](), None
    deviation = None if filling.deviation is None else filling.deviation.copy()
    filling = filling._replace(values=values, deviation=deviation)
    numbers = _numbers_of(table, filling)
    below = never_below_0(table, values.min(axis=0), holes, numbers)
    cut = [name for name in below if has_zeros(table, name)]
    bounded = [name for name in below if name not in cut]
    for name in numbers:
        _keep_range(table, filling, holes, name, (name in bounded, name in cut), seed)
    if deviation is not None:
        means = values[0].copy()
    for name in numbers:
        j = table.columns.index(name)
        rows, known = holes[:, j], table.values[~np.isnan(table.values[:, j]), j]
        exist, unit = False, 1
        if isinstance(table.forms.get(name), DateForm):  # whole days, hours, minutes or seconds
            unit = next((n for n in (1, 24, 24 * 60, 86400) if decimals_of(np.round(known * n, 6)) == 0), 1)
            known = np.round(known * unit, 6)
        low, high = _ends(table, name)[:, rows]
        for each in values:
            exact = each[rows, j]
            new, exist = as_the_column(known, exact * unit)
            each[rows, j] = np.where((low < new / unit) & (new / unit < high), new / unit, exact)
        existing += [name] if exist and rows.any() else []
    notes = (*filling.notes, *note_on_bounds(bounded, cut, filling.logs))
    if existing and deviation is not None:
        note = "filled with the nearest value that the column has, its mean in a column NAME_mean"
        notes = (*notes, f"{note}: {', '.join(existing)}")
    return filling._replace(notes=notes, existing=tuple(existing), means=means)


def _ends(table: Table, name: str, low: float = -np.inf) -> Float64[np.ndarray, "2 N"]:
    """The bounds that limits such as <0.5 set on cells of a column; `low` and infinity for others."""
    place = {int(key): k for k, key in enumerate(table.ids)}
    ends = np.full((2, len(table)), [[low], [np.inf]])
    for row, both in table.limits.get(name, {}).items():
        if row in place:
            ends[:, place[row]] = both
    return ends


def _keep_range(
    table: Table,
    filling: Filling,
    holes: Bool[np.ndarray, "N D"],
    name: str,
    from_0: tuple[bool, bool],
    seed: int,
) -> None:
    """Keep a column's filled values above 0 or cut off there, and limits within their ends, in place."""
    j, ends = table.columns.index(name), _ends(table, name, 0.0 if from_0[0] else -np.inf)
    rows = np.flatnonzero(holes[:, j])
    inside = rows[np.isfinite(ends[:, rows]).any(axis=0)]
    free = np.setdiff1d(rows, inside) if from_0[1] else rows[:0]
    values, low, high = filling.values[:, :, j], *ends[:, inside]
    if filling.deviation is not None:
        sd = filling.deviation[:, j]
        values[0, inside], sd[inside] = within(values[0, inside], sd[inside], low, high)
        values[0, free], sd[free] = cut_off(values[0, free], sd[free])
        return
    values[:, free] = np.maximum(values[:, free], 0)
    if filling.expected is None:
        return
    mean, sd = (each[inside, j] for each in filling.expected)
    for k, each in enumerate(values):
        outside = (each[inside] < low) | (each[inside] > high)
        again = drawn_within(mean, sd, low, high, seed + 1000 * k + j)
        each[inside] = np.where(outside, again, each[inside])


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


def _written(
    as_text: bool, raw: RawTable, table: Table, filling: Filling, holes: Bool[np.ndarray, "N D"]
) -> Any:
    """The file's columns with filled holes, plus the columns of errors or the number of the draw."""
    import pyarrow as pa

    decimal = _decimal(table)

    def added(name: str, values: np.ndarray) -> tuple[str, Any]:
        if name in raw.columns.column_names:
            raise InputError(f"the table already has a column {name!r}, which impute would add; rename it")
        return name, pa.array(_numbers(values, decimal) if as_text else values)

    as_others = (*filling.likeliest, *filling.constant)
    tables = [filled_cells(raw, table, values, holes, as_text, as_others) for values in filling.values]
    if filling.deviation is not None:
        (whole,) = tables
        for j, name in enumerate(table.columns):
            deviation = np.where(np.isnan(table.values[:, j]) & ~holes[:, j], 0.0, filling.deviation[:, j])
            if name in filling.likeliest and holes[:, j].any():
                whole = whole.append_column(*added(f"{name}_p", deviation))
            elif name not in filling.likeliest and deviation.any() and name not in of_categories(table):
                whole = whole.append_column(*added(f"{name}_sd", deviation))
            if name in filling.existing and filling.means is not None:
                mean = np.where(holes[:, j], filling.means[:, j], table.values[:, j])
                whole = whole.append_column(*added(f"{name}_mean", mean))
        return with_rows_apart(whole, raw) if as_text else whole
    numbers = np.repeat(np.arange(1, len(tables) + 1), len(table))
    below = pa.concat_tables([one.replace_schema_metadata(None) for one in tables])
    return below.add_column(0, *added(DRAW, numbers))


def write_sheet(
    target: Path,
    raw: RawTable,
    whole: Any,
    cells: tuple[Table, Float64[np.ndarray, "N D"], Bool[np.ndarray, "N D"]] | None,
) -> None:
    """Write the given spreadsheet with the holes of its first sheet filled and everything else unchanged.

    Args:
        raw: the spreadsheet.
        whole: its columns, filled, as text; further ones are written behind them.
        cells: the table, its filled values, and which cells are filled; None for none.
    """
    import openpyxl  # type: ignore[import-untyped]

    assert raw.lines is not None
    book, content = openpyxl.load_workbook(raw.name, keep_vba=target.suffix == ".xlsm"), io.BytesIO()
    sheet, names, texts = book.worksheets[0], names_of(raw), [each.to_pylist() for each in whole.columns]
    for j, name in enumerate(() if cells is None else cells[0].columns):
        assert cells is not None
        table, values, holes = cells
        for i in np.flatnonzero(holes[:, j]).tolist():
            row, place, value = int(table.ids[i]), names.index(name), float(values[i, j])
            cell: Any = texts[place][row]
            with contextlib.suppress(ValueError):  # dates and numbers as the sheet has them
                if isinstance(table.forms.get(name), DateForm):
                    cell = datetime.fromisoformat(cell)
                elif name not in table.levels:  # words of digits stay words
                    float(cell)
                    cell = value
            sheet.cell(raw.lines[row], place + 1).value = cell
    header = min([raw.first_line, *(line for line, _ in raw.head)]) - 1
    for place in range(len(names), len(texts)):
        sheet.cell(header, place + 1).value = whole.column_names[place]
        for line, cell in zip(raw.lines, texts[place], strict=False):
            sheet.cell(line, place + 1).value = float(cell.replace(",", "."))
    book.save(content)
    write_atomic(target, content.getvalue())


def with_rows_apart(whole: Any, raw: RawTable) -> Any:
    """The table with its rows of units, totals and footnotes unchanged."""
    import pyarrow as pa

    def rows(found: Sequence[tuple[int, tuple[str, ...]]]) -> Any:
        wide = [[*cells, *[""] * (whole.num_columns - len(cells))] for _, cells in found]
        columns = [
            pa.array([row[j] for row in wide], whole.schema.field(j).type) for j in range(whole.num_columns)
        ]
        return pa.table(columns, schema=whole.schema)

    if not (raw.head or raw.foot):
        return whole
    return pa.concat_tables([rows(raw.head), whole, rows(raw.foot)])


def filled_cells(
    raw: RawTable,
    table: Table,
    values: Float64[np.ndarray, "N D"],
    holes: Bool[np.ndarray, "N D"],
    as_text: bool = True,
    as_others: Sequence[str] = (),
) -> Any:
    """The file's columns, a `pyarrow.Table`, with holes filled as each column writes its cells.

    Args:
        raw: the file.
        table: some or all of its rows, by their ids, and some of its columns.
        values: the filled values; positions among the words of a column of words.
        holes: which cells are filled.
        as_text: whether the cells of a text file stay text.
        as_others: columns whose filled cells copy the style of others.
    """
    import pyarrow as pa

    whole, decimal = raw.columns, _decimal(table)
    for number, name in enumerate(names_of(raw)):
        of_numbers, column, form = name in table.columns, raw.columns.column(number), table.forms.get(name)
        if of_numbers:
            j = table.columns.index(name)
        elif name in table.categories and column_of(name, table.categories[name][-1]) in table.columns:
            j = table.columns.index(column_of(name, table.categories[name][-1]))
        else:
            continue
        hole, in_words = holes[:, j], name in table.levels
        rows, new = table.ids[hole], values[hole, j]
        plain = not {name} & {*table.odd, *table.codes, *table.limits} and not isinstance(form, DateForm)
        if name in as_others and not in_words and hole.any() and (as_text or not raw.first_line):
            known = column.take(pa.array(table.ids))
            cells = _cells_of(known, table.values[:, j], values[:, j], decimal)
            column = _filled(column, rows, [cells[k] for k in np.flatnonzero(hole)])
        elif isinstance(form, DateForm) and not raw.first_line:
            column = _filled_dates(column, rows, new, form.origin)
        elif of_numbers and not in_words and not as_text and plain and (hole.any() or raw.first_line > 0):
            every = np.full(len(column), np.nan)
            every[table.ids] = np.where(hole, values[:, j], table.values[:, j])
            column = _as_type(pa.array(every, from_pandas=True), column.type)
        elif hole.any():
            if in_words:
                cells = [table.levels[name][int(code)] for code in new]
            elif of_numbers:
                dated = isinstance(form, DateForm)
                if as_text and not dated and (places := decimals_written_in(table, j, column)) is not None:
                    form = replace(form or NumberForm(decimal), decimals=places)
                cells = _numbers(new, decimal) if form is None else [form.write(x) for x in new.tolist()]
            else:
                every_one = decoded(table, values, name)
                cells = [every_one[k] for k in np.flatnonzero(hole)]
            column = _filled(column, rows, cells)
        else:
            continue
        whole = whole.set_column(number, raw.columns.column_names[number], column)
    return with_new_types(whole, raw.columns)


def _filled_dates(
    column: Any, rows: Int64[np.ndarray, " n"], new: Float64[np.ndarray, " n"], origin: str
) -> Any:
    """Fill a column of the type of dates."""
    import pyarrow as pa

    cells = column.cast(pa.timestamp("us")).to_pylist()
    for row, value in zip(rows.tolist(), new.tolist(), strict=True):
        cells[row] = np.datetime64(origin, "us") + np.timedelta64(round(value * 86_400e6), "us")
    return pa.array(cells, pa.timestamp("us")).cast(column.type, safe=False)


def _decimal(table: Table) -> str:
    """The decimal sign of a table's numbers."""
    signs = {getattr(form, "decimal", ".") for form in table.forms.values()}
    return "," if signs == {","} else "."


def _as_type(numbers: Any, kind: Any) -> Any:
    """Cast filled numbers to the column's type; an integer column becomes float64 if some are not whole."""
    import pyarrow as pa

    if pa.types.is_floating(kind):
        return numbers.cast(kind, safe=False)  # rounds the filled values
    try:
        whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
        return numbers.cast(pa.int64()).cast(kind) if whole else numbers
    except pa.ArrowInvalid:
        return numbers


def _filled(column: Any, rows: Int64[np.ndarray, " n"], new: Sequence[Any]) -> Any:
    """Fill a column's holes in its own type, or as text if the type cannot hold a new category."""
    import pyarrow as pa

    cells = column.to_pylist()
    cell_of_text = {word_of(cell): cell for cell in cells} | {str(cell): cell for cell in cells}
    for row, cell in zip(rows.tolist(), new, strict=True):
        cells[row] = cell_of_text.get(cell, cell)
    try:
        return pa.array(cells, column.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array(list(map(str, cells)))


def _cells_of(
    column: Any, known: Float64[np.ndarray, " N"], values: Float64[np.ndarray, " N"], decimal: str
) -> list[Any]:
    """Write values as the column's other cells are written; 0 and 1 complete the column's pair of words."""
    cells = column.to_pylist()
    cell_of = dict(zip(known.tolist(), cells, strict=True))
    if any(isinstance(cell, str) for cell in cells):
        words = {str(cell).strip() for cell in cells}
        pair = next((pair for pair in zip(FALSE, TRUE, strict=True) if words & {*pair}), ("0", "1"))
        others = dict(zip(values.tolist(), _numbers(values, decimal), strict=True)) | dict(enumerate(pair))
    else:
        others = {0.0: False, 1.0: True} if any(isinstance(cell, bool) for cell in cells) else {}
    return [cell_of.get(value, others.get(value, value)) for value in values.tolist()]


def _numbers(values: np.ndarray, decimal: str) -> list[str]:
    """Format numbers as cells of the CSV file."""
    return [repr(value).removesuffix(".0").replace(".", decimal) for value in values.tolist()]


def decimals_written_in(table: Table, j: int, column: Any) -> int | None:
    """The number of digits behind the decimal sign if all numbers of a text column have as many, above 0."""
    texts = column.take(table.ids[~np.isnan(table.values[:, j])]).to_pylist()
    sign = getattr(table.forms.get(table.columns[j]), "decimal", None) or _decimal(table)
    cells = filter(None, (cell_of(str(text).strip()) for text in dict.fromkeys(texts)))
    return decimals_written(cells, sign) if len(texts) >= FEWEST_KNOWN else None


def _result(
    table: Table,
    filling: Filling,
    holes: Bool[np.ndarray, "N D"],
    notes: list[str],
    options: ImputeOptions,
) -> dict[str, Any]:
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
        "out": str(options.out),
        "draws": options.draws,
        "seed": options.seed,
        "n_rows": len(table),
        "n_filled": int(holes.sum()),
        "columns": columns,
        "notes": notes,
        **origin(),
    }
