"""Read rows, fit or load a model of rows, and reopen a run's rows."""

import shlex
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from maskevidence.command.options import flag, own_file, parse_words
from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.kind import Kind, kinds
from maskevidence.core.model import as_tokens, to_device_of
from maskevidence.core.show.words import MINUS, count, figures
from maskevidence.core.support.checks import join_words, plain_number, some_of
from maskevidence.core.support.devices import choose_device
from maskevidence.core.support.files import read_json
from maskevidence.core.support.keyed_random import keyed_bits
from maskevidence.core.support.sources import is_remote
from maskevidence.core.table import (
    Table,
    are_pixels,
    place_of,
    spreads,
    with_levels_of,
)
from maskevidence.runs import DataSource
from maskevidence.runs.prepared import Prepared
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import AUTO, fit_table, parse_model, takes_words
from maskevidence.tables.category_columns import of_categories, with_columns_of
from maskevidence.tables.cell_mass import CellMass, check_cell_mass
from maskevidence.tables.choosing.auto import auto_word, to_fill
from maskevidence.tables.limits import with_limits
from maskevidence.tables.network.network_columns import columns_of, declared_columns
from maskevidence.tables.own_model import fingerprint_of_code, own_model
from maskevidence.tables.reading.columns import FileOptions
from maskevidence.tables.reading.description import TableDescription
from maskevidence.tables.row_groups import by_row_groups
from maskevidence.tables.table_files import (
    SUFFIXES,
    RawTable,
    converted,
    days_0_of,
    described_file,
    digits,
    join_days,
    kind_of_file,
    raw_of,
    read_file,
    said,
)
from maskevidence.tables.table_options import RowDevice, RowOptions, RowReading, TableOptions

TEST_FRACTION = 0.2
_BINARISE = ("threshold:0.5", "stochastic")
_UNLIKE = 10.0  # PPCA gets a note if the columns' largest spread is this many times the smallest
_FEW = 5  # with fewer known values, a column of two values gets no note
# options that only files of tables take
_OF_FILES = tuple(option.name for option in fields(TableOptions) if option.name not in ("columns", "drop"))
_OF_ONE_FILE = ("delimiter", "header", "comment", "skip_rows", "encoding")  # and of no other with its columns
DATA_SETS: dict[str, Callable[[], Table]] = {"digits": digits}


def prepare_rows(
    model: str,
    data: str,
    options: RowOptions = RowOptions(),
) -> Prepared:
    """Read the rows, and fit a model to a training part of them or load a saved model.

    Args:
        model: a word such as "ppca:8", the folder of a saved model, or "model.py:make" for a function.
        data: a file, a data set or images, as `read_rows` takes them.
        options: which rows are used, how they are read, and where the model computes.

    Raises:
        InputError: a model, a device or data that cannot be used.

    Example:
        >>> ready = prepare_rows("gaussian", "digits", RowOptions(limit=100))
        >>> len(ready.tokens), ready.notes[0]
        (20, 'fitted to 80 rows, scored on the 20 others')
    """
    reading, notes = replace(options.reading, table=with_decisions(options.reading.table)), list[str]()
    code = own_file(model) is not None and not Path(model).is_dir()
    build, saved = (None, own_model(model, options.device)) if code else model_on(model, options.device)
    words = takes_words(model, saved)
    cells = options.cells and not getattr(saved, "takes_words", False)  # these score the mass of cells anyway
    if isinstance(saved, TableModel):
        reading, notes = reading_for(saved, data, reading)
    plain = (options.limit, options.test_fraction, reading.binarise, *vars(options.device).values())
    if saved is not None and not cells and not code and all(value is None for value in plain):
        stored = by_row_groups(saved, data, selection_of(reading.table, words=words))
        if stored is not None:
            return stored.prepared().read_with(data, reading_options(reading, limit=None, words=words))
    table = read_rows(data, reading, limit=options.limit, seed=options.seed, words=words)
    table = replace(table, notes=(*table.notes, *notes))
    if build is None:
        if cells:
            check_cell_mass(saved)
        ready, train = use_saved(saved, table, options.test_fraction, options.seed), table
    else:
        test_fraction = TEST_FRACTION if options.test_fraction is None else options.test_fraction
        if model == AUTO:
            train, _ = table.split(test_fraction, options.seed)
            build, of_auto = decided(model, build, train, options.device, options.seed)
            table = replace(table, notes=(*table.notes, *of_auto))
        cells = options.cells and not build(len(table.columns)).for_table(table).takes_words
        ready = fit_held_out(build, table, test_fraction, options.seed, cells=cells)
        ready.model.read_with = read_with(reading, table)
        train, _ = table.split(test_fraction, options.seed)
    if code:
        load = partial(own_model, f"{own_file(model)}:{model.rpartition(':')[2]}", options.device)
        ready = replace(ready, code=fingerprint_of_code(model), load=load)
    if cells:
        ready = by_cells(ready, table, train)
    if table.limits:
        ready = by_limits(ready, table)
    return ready.read_with(data, reading_options(reading, limit=options.limit, words=words))


def by_cells(ready: Prepared, table: Table, train: Table) -> Prepared:
    """Score by the mass of cells, with steps taken from the training rows."""
    of_all, of_fit = (with_columns_of(rows, ready.source.columns) for rows in (table, train))
    columns, load = columns_of(of_fit.values, declared_columns(of_all, of_all.values)), ready.load
    again = None if load is None else lambda: CellMass(load(), columns)
    return replace(ready, model=CellMass(ready.model, columns), load=again)


def by_limits(ready: Prepared, table: Table) -> Prepared:
    """Score limits such as <0.5 by the probability of their interval, where the model has one."""
    model, notes = with_limits(ready.model, table, ready.source.columns)
    if model is not ready.model:
        tokens, load = model.tokens(ready.tokens), ready.load
        again = None if load is None else lambda: with_limits(load(), table, ready.source.columns)[0]
        ready, notes = replace(ready, model=model, tokens=tokens, load=again), model.notes_on(tokens)[-1:]
    for note in notes:
        ready = ready.with_note(note)
    return ready


def reading_for(saved: TableModel, data: str, reading: RowReading) -> tuple[RowReading, list[str]]:
    """Options to read a file for a saved model: its columns, and by default the options of its own table.

    Columns that the model lacks are not read, unless the model has one-hot columns.

    Returns:
        The options, and a note on those taken from the model.
    """
    if saved.columns is None or not is_table_file(data):
        return reading, []
    if means_images(data, reading.table) and (are_pixels(saved.columns) or not Path(data).is_file()):
        return reading, []
    given = vars(reading.table)
    known: dict[str, Any] = {
        name: word for name, word in saved.read_with.items() if name in given and not given[name]
    }
    table = replace(reading.table, **known)
    categories = [name for name in saved.columns if name in saved.levels]
    numbers = [name for name in saved.columns if name not in categories]
    if saved.takes_words:
        for option, names, has in (("categories", categories, "numbers"), ("numbers", numbers, "words")):
            for name in parse_words(option, getattr(reading.table, option)):
                if name in saved.columns and name not in names:
                    raise InputError(f"--{option} {name}: the model was fitted to {has} there; leave it out")
        table = replace(table, categories=join_words(categories) or None)
    if table.one_hot is None:
        known = {
            name: known[name] for name in ("missing", "id_column", "day_0", "fold_words") if name in known
        }
        columns = reading.table.columns or join_words(saved.columns)
        table = replace(table, columns=columns, drop=reading.table.drop, numbers=join_words(numbers) or None)
    flags = " ".join(
        flag(name) if word == str(True) else f"{flag(name)} {shlex.quote(str(word))}"
        for name, word in known.items()
    )
    note = [f"read as the table that the model was fitted to: {flags}"] if known else []
    return replace(reading, table=table), note


def reading_like(reading: RowReading, table: Table) -> RowReading:
    """Options to read other rows as a table was read: its columns, of its kinds."""
    if reading.table.one_hot is not None:
        return reading
    of_words = [name for name in table.columns if name in table.levels]
    numbers = [name for name in table.columns if name not in of_words]
    kinds: dict[str, Any] = {
        "categories": join_words(of_words) or None,
        "numbers": join_words(numbers) or None,
    }
    columns = join_words(table.columns)
    days = join_days(days_0_of(table)) or None
    return replace(reading, table=replace(reading.table, columns=columns, drop=None, day_0=days, **kinds))


def read_with(reading: RowReading, table: Table) -> dict[str, str]:
    """The options of a table that a model saves for `reading_for`."""
    options = vars(reading.table) | {"day_0": join_days(days_0_of(table))}
    return {name: str(word) for name, word in options.items() if word and name not in _OF_ONE_FILE}


def reading_options(reading: RowReading, *, limit: int | None, words: bool) -> dict[str, Any]:
    """The options given for reading, by name, plus `limit` and `words`, as `reread` takes them."""
    options = {"limit": limit, "words": words} | vars(reading) | vars(reading.table)
    return {name: value for name, value in options.items() if value and name != "table"}


def reading_from(options: Mapping[str, Any]) -> RowReading:
    """Build a `RowReading` from the result of `reading_options`; other options are ignored.

    Example:
        >>> reading_from({"limit": 3, "drop": "a", "binarise": "threshold"}).table.drop
        'a'
    """

    def known(group: type) -> dict[str, Any]:
        names = {option.name for option in fields(group)} - {"table"}
        return {name: value for name, value in options.items() if name in names}

    return RowReading(**known(RowReading), table=TableOptions(**known(TableOptions)))


def model_on(word: str, device: RowDevice) -> tuple[Callable[[int], TableModel] | None, Any]:
    """Build or load the model of a MODEL word, on a device and in a dtype."""
    if device.device is not None:
        choose_device(device.device, float64=True)  # refused before any data are read
    _check_dtype(device)
    if own_file(word) is not None and not Path(word).is_dir():
        raise InputError(f"{word!r} is code of yours, which check and score run; give another model")
    build, saved = parse_model(word)
    if build is None:
        return None, placed(saved, device)
    return lambda n_features: placed(build(n_features), device), None


def decided(
    word: str,
    build: Callable[[int], TableModel],
    table: Table,
    device: RowDevice,
    seed: int,
    fills: bool = False,
) -> tuple[Callable[[int], TableModel], tuple[str, ...]]:
    """The builder of a MODEL word, and notes; the rows of the fit decide `auto`, for evidence or to fill."""
    if word != AUTO:
        return build, ()
    chosen, notes = auto_word(table, fills=fills, seed=seed)
    made, _ = model_on(chosen, device)
    assert made is not None
    return to_fill(made, table) if fills else made, notes


def placed(model: TableModel, options: RowDevice) -> TableModel:
    """Move a model of rows to the device and dtype of the options, in place.

    Example:
        >>> import maskevidence as me
        >>> placed(me.models.PPCA(3, 1), RowDevice(dtype="float32")).dtype
        torch.float32
    """
    _check_dtype(options)
    device = None if options.device is None else choose_device(options.device, float64=True)
    dtype = model.dtype if options.dtype is None else getattr(torch, options.dtype)
    return model.to(device or "cpu", dtype)


def _check_dtype(options: RowDevice) -> None:
    """Refuse a dtype other than float32 and float64."""
    if options.dtype not in (None, "float32", "float64"):
        raise InputError(f"models of rows do not compute in {options.dtype}; give float32 or float64")


def read_rows(
    data: str,
    reading: RowReading = RowReading(),
    *,
    limit: int | None = None,
    seed: int = 0,
    words: bool = False,
) -> Table:
    """Read a table, or images as rows of pixels in [0, 1]."""
    table = _read(data, reading, limit, words)
    if reading.binarise is None:
        return table
    if table.levels:
        raise InputError(f"--binarise takes numbers, {next(iter(table.levels))!r} holds words; drop it")
    return binarise(table, reading.binarise, seed)


def binarise(table: Table, how: str, seed: int = 0) -> Table:
    """Turn values in [0, 1] into zeros and ones; missing values stay missing.

    Args:
        how: "threshold" or "threshold:T" for 1 where a value exceeds T (by default 0.5); "stochastic" for 1
            with the value as its probability, drawn once from the seed, the row's id and the column.

    Source:
        The threshold is that of Moreno-Muñoz et al. (2023), Figure 3; stochastic binarisation is that of
        Salakhutdinov and Murray (2008), On the quantitative analysis of deep belief networks.

    Example:
        >>> table = Table("grey", np.array([[0.2, 0.7], [np.nan, 1.0]]), ("a", "b"), np.arange(2))
        >>> binarise(table, "threshold").values.tolist()
        [[0.0, 1.0], [nan, 1.0]]
    """
    name, _, argument = how.partition(":")
    if name not in ("threshold", "stochastic") or (name == "stochastic" and argument):
        raise unknown_name("way to binarise", how, _BINARISE)
    outside = np.argwhere((table.values < 0) | (table.values > 1))
    if len(outside):
        row, column = outside[0]
        raise InputError(
            f"{table.name} has {table.values[row, column]:g} in column {table.columns[column]!r}, "
            f"{table.place(row)}; values to binarise must lie in [0, 1]"
        )
    if name == "threshold":
        limit = _threshold(how, argument)
        ones = table.values > limit
        note = f"binarised: 1 above {limit:g}"
    else:
        bits = keyed_bits(seed, table.ids[:, None], np.arange(len(table.columns))[None, :])
        ones = (bits >> np.uint64(11)) * 2.0**-53 < table.values
        note = "binarised at random, 1 with the value as its probability"
    values = np.where(np.isnan(table.values), np.nan, ones.astype(np.float64))
    return replace(table, values=values, notes=(*table.notes, note))


def _threshold(how: str, argument: str) -> float:
    """Parse the threshold after the colon; 0.5 without one."""
    try:
        limit = plain_number(argument or "0.5")
    except ValueError:
        limit = np.nan
    if not 0.0 <= limit < 1.0:
        raise InputError(f"{how!r} has no threshold in [0, 1); write threshold:0.5, for example")
    return limit


def reread(data: str, options: Mapping[str, Any], seed: int) -> Table:
    """Read data again with the result of `reading_options`; runs written from Python have no options."""
    limit, words = options.get("limit"), bool(options.get("words"))
    return read_rows(data, reading_from(options), limit=limit, seed=seed, words=words)


def _read(data: str, reading: RowReading, limit: int | None, words: bool) -> Table:
    bundled = data in DATA_SETS and not Path(data).exists()
    if not bundled and means_images(data, reading.table):
        for name, value in vars(reading.table).items():
            if value:
                raise InputError(f"{flag(name)} belongs to tables; leave it out for the images {data!r}")
        kind = _kind_with_rows(data)
        assert kind is not None
        return kind.read_table(data, reading, limit)
    for name in ("column", "resize", "skip_bad"):
        if getattr(reading, name):
            raise InputError(f"{flag(name)} belongs to images; leave it out for {data!r}")
    if bundled:
        table = _chosen(DATA_SETS[data](), reading.table)
    elif is_table_file(data):
        table = read_file(data, selection_of(reading.table, words=words))
    else:
        sources = [
            *(
                name
                for kind in kinds()
                for name in kind.data_sets
                if name in DATA_SETS or kind.gives_rows(name)
            ),
            *(f"a {suffix} file" for suffix in SUFFIXES),
            "a folder of images",
        ]
        raise unknown_name("data", data, sources)
    return table if limit is None else table.head(limit)


def reopen_rows(source: DataSource, seed: int, ids: Int64[np.ndarray, " n"]) -> tuple[Table, Table]:
    """Read a run's rows again, with the name and options in run.json.

    Args:
        ids: the rows that the run has scored. They are taken if the options leave another number of rows, as
            in a run that Python wrote, which records no options.

    Returns:
        The rows that are scored, with the columns of the model; and all rows that were read.
    """
    everything = reread(source.name, source.options, seed)
    scored = everything if source.test_fraction is None else everything.split(source.test_fraction, seed)[1]
    if len(scored) != source.n_observations == len(ids) and ids.max() < len(everything):
        scored = everything.take(np.sort(ids))
    return with_columns_of(scored, source.columns), everything


def means_images(data: str, options: TableOptions) -> bool:
    """Whether DATA means images; a Parquet file read with options of tables does not."""
    as_table = Path(data).is_file() and any(vars(options).values())
    return _kind_with_rows(data) is not None and not as_table


def _kind_with_rows(data: str) -> Kind | None:
    """The kind that turns DATA into rows, such as images; None if there is none."""
    if Path(data).is_file() and kind_of_file(data) in set(SUFFIXES) - {".parquet"}:
        return None  # without asking the others, which load their modules
    return next((kind for kind in kinds() if kind.gives_rows(data)), None)


def is_table_file(data: str) -> bool:
    """Whether DATA, known not to mean images, is a table's path or address."""
    return is_remote(data) or Path(data).exists() or kind_of_file(data) in SUFFIXES or "/" in data


def selection_of(options: TableOptions, *, words: bool = False) -> FileOptions:
    """The options of the command line as those of a reader, their words split into lists."""
    given = {name: value for name, value in vars(options).items() if value}
    lists = ("columns", "drop", "one_hot", "missing", "categories", "numbers", "day_0")
    given |= {name: parse_words(name, given[name]) for name in lists if name in given}
    days = (part.rpartition("=") for part in given.pop("day_0", []))
    if given.get("delimiter") in ("tab", "\\t"):
        given["delimiter"] = "\t"
    return said(**given, day_0={name: day for name, _, day in days}, words=words)


def with_decisions(options: TableOptions) -> TableOptions:
    """The options, completed by those of a table.json of `look` if --columns names one."""
    if options.columns is None or not (options.columns.endswith(".json") and Path(options.columns).is_file()):
        return options
    remedy = "give names of columns, or the table.json that `maskevidence look` wrote"
    content = read_json(options.columns, remedy)
    known = content.get("options") if isinstance(content, dict) else None
    names = {field.name for field in fields(TableOptions)}
    if not isinstance(known, dict) or not {*known} <= names:
        raise InputError(
            f"--columns {options.columns}: the file is no table.json of `maskevidence look`; {remedy}"
        )
    given = {name: value for name, value in vars(options).items() if value is not None and name != "columns"}
    return TableOptions(**known | given)


def read_described(
    data: Any, options: TableOptions = TableOptions(), *, words: bool = True
) -> tuple[RawTable, Table, TableDescription]:
    """Read a file or a data frame once: its cells, the table with all rows, and its description."""
    selection = selection_of(options, words=words)
    raw = raw_of(data, selection)
    table, read = converted(raw, selection, empty_rows=True)
    return raw, table, described_file(raw, selection, read)


def _chosen(table: Table, options: TableOptions) -> Table:
    """Select columns of a bundled data set."""
    for name in _OF_FILES:
        if getattr(options, name):
            raise InputError(f"{flag(name)} belongs to files of tables; leave it out for {table.name!r}")
    selection = selection_of(options)
    table = table if selection.columns is None else table.select(list(selection.columns))
    table.select(list(selection.drop))  # to refuse unknown columns
    kept = [column for column in table.columns if column not in selection.drop]
    if not kept:
        raise InputError(f"no column of {table.name!r} is left; name one or more that are data")
    return table.select(kept)


def note_on_units(rows: Table) -> list[str]:
    """A note for PPCA if the columns' spreads differ much; at most one sentence."""
    spread = spreads(rows.values)
    if spread.max() < _UNLIKE * spread.min():
        return []
    return [
        "PPCA has one noise variance for all columns, whose standard deviations range from "
        f"{figures(spread.min(), 2)} to {figures(spread.max(), 2)}: bring them to one scale, or use "
        "factor-analysis, which does not depend on units"
    ]


def note_on_pairs(rows: Table, filled: Float64[np.ndarray, "N D"] | None = None) -> list[str]:
    """A note on columns of two values whose holes are filled with other numbers; at most one sentence.

    Args:
        filled: the rows with their holes filled, of whose numbers the note gives the range.

    Example:
        >>> x = np.array([[1.0, 2.0, 1.0, 2.0, 2.0, np.nan]]).T
        >>> note_on_pairs(Table("t", x, ("sex",), np.arange(6)), np.nan_to_num(x, nan=1.3))[0][:78]
        'holes of columns with two values are filled with other numbers: sex (1 or 2, f'
    """
    of_words, named = of_categories(rows), []
    for j, name in enumerate(rows.columns):
        hole = np.isnan(rows.values[:, j])
        known = rows.values[~hole, j]
        pair = np.unique(known)
        if not hole.any() or len(known) < _FEW or len(pair) != 2 or name in {*rows.levels, *of_words}:
            continue
        by = ""
        if filled is not None:
            new = filled[hole, j]
            if np.isin(new, pair).all():
                continue
            by = f", filled with {new.min():.3g} to {new.max():.3g}".replace("-", MINUS)
        named.append(f"{name} ({pair[0]:g} or {pair[1]:g}{by})")
    if not named:
        return []
    return [
        f"holes of columns with two values are filled with other numbers: {', '.join(named)}; masked-net "
        "fills in the more probable of the two"
    ]


def fit_held_out(
    build: Callable[[int], TableModel],
    table: Table,
    test_fraction: float = TEST_FRACTION,
    seed: int = 0,
    *,
    cells: bool = False,
) -> Prepared:
    """Fit a model to a training part of the rows; the held-out rows are scored.

    Columns that are constant in the training part are dropped and listed, unless the model `keeps_units`.
    With `cells`, a model without a mass of cells is refused before the fit.
    """
    train, test = table.split(test_fraction, seed)
    if cells:
        check_cell_mass(build(len(table.columns)))
    model, dropped = fit_table(build, table, train)
    columns = model.columns or []
    test = test.select(columns)
    notes = [*table.notes, f"fitted to {len(train):,} rows, scored on the {len(test):,} others"]
    if dropped:
        constant = count(len(dropped), "constant column")
        notes.append(f"dropped {constant} of the training part: {some_of(dropped)}")
    if model.bounded:
        names = ", ".join(columns[j] for j in model.bounded)
        notes.append(f"noise variance at its lower bound (10⁻⁴ of the column's variance): {names}")
    prepared = _prepared(model, test, test_fraction, [*notes, *model.fit_notes])
    source = prepared.source.model_copy(update={"source_fingerprint": table.fingerprint()})
    return replace(prepared, source=source, fitted=True)


def use_saved(model: Any, table: Table, test_fraction: float | None = None, seed: int = 0) -> Prepared:
    """Score a saved model on all rows of a table or a held-out part.

    Args:
        model: a loaded model, or any other; if it knows its columns, these are taken from the table.
        test_fraction: the share of the rows to hold out and score; None for all rows.
    """
    if test_fraction is not None:
        _, table = table.split(test_fraction, seed)
        table = replace(table, notes=(*table.notes, f"scored on the {len(table):,} rows held out"))
    if isinstance(model, TableModel):
        if model.columns is not None:
            table = with_columns_of(table, model.columns)
        model.check_width(len(table.columns))
    return _prepared(model, table, test_fraction, list(table.notes))


def _prepared(model: Any, table: Table, test_fraction: float | None, notes: list[str]) -> Prepared:
    """Check the rows to score, refine the model's numerical integrals for them, and collect the notes."""
    if isinstance(model, TableModel):
        tokens = with_levels_of(table, model.levels).tokens()
        model.refuse_strange_cells(tokens, place=partial(place_of, lines=table.lines))
    else:
        tokens = as_tokens(model, table)
    if hasattr(model, "notes_on"):
        notes = [*notes, *model.notes_on(tokens, table)]
    if hasattr(model, "refine"):
        notes = [*notes, model.refine(to_device_of(model, tokens))]
    source = DataSource(
        name=table.name,
        fingerprint=table.fingerprint(),
        n_observations=len(table),
        columns=list(table.columns),
        test_fraction=test_fraction,
        notes=notes,
        kind="rows",
        noun="image" if are_pixels(table.columns) else "row",
    )
    return Prepared(model, tokens, source, labels=table.labels)
