"""New models of the columns of a table, fitted to some of its rows."""

from collections.abc import Callable, Sequence
from functools import partial

from maskevidence.core.errors import InputError
from maskevidence.core.table import Table, place_of, with_values
from maskevidence.tables.base import TableModel
from maskevidence.tables.table_files import refuse_empty_columns


def fit_table(
    build: Callable[[int], TableModel], table: Table, rows: Table, *, empty_rows: bool = False
) -> tuple[TableModel, list[str]]:
    """Fit a new model to some rows of a table.

    Args:
        build: makes a model for this number of columns.
        table: all rows, which decide the kinds of the columns.
        rows: the rows of the fit.
        empty_rows: whether rows without any value in the model's columns are left out, or refused.

    Returns:
        The model, and the columns that were dropped; see `new_model`.
    """
    model, dropped = new_model(build, rows, table)
    values = rows.select(model.columns or []).values
    return model.fit(values[with_values(values)] if empty_rows else values), dropped


def new_model(
    build: Callable[[int], TableModel], rows: Table, table: Table, purpose: str = "fit"
) -> tuple[TableModel, list[str]]:
    """Build a model for the rows' columns, without constant ones unless the model `keeps_units`.

    Returns:
        The model, which names its columns, and the columns that were dropped.
    """
    refuse_empty_columns(table)
    model = build(len(rows.columns)).for_table(table)
    dropped = [] if model.keeps_units else rows.constant_columns()
    kept = [column for column in rows.columns if column not in dropped]
    if not kept:
        raise InputError(f"every column of {rows.name} is constant; there is nothing to {purpose}")
    chosen = table.select(kept)
    model = declared(build(len(kept)) if dropped else model, chosen, kept)
    model.refuse_strange_cells(model.tokens(chosen), place=partial(place_of, lines=chosen.lines))
    return model, dropped


def declared(model: TableModel, table: Table, names: Sequence[str] | None) -> TableModel:
    """A new model that knows the kinds of the columns of a table, and their names if they have some."""
    model = model.for_table(table)
    model.declare(table)
    model.columns = None if names is None else list(names)
    return model
