"""Columns of 0 and 1 for the categories of a column: their names, and those of a model from a table's."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError
from maskevidence.core.table import Table


def column_of(name: str, category: str) -> str:
    """The name of a category's column.

    Example:
        >>> column_of("colour", "red")
        'colour=red'
    """
    return f"{name}={category}"


def of_categories(table: Table) -> set[str]:
    """The names of all columns that stand for a category.

    Example:
        >>> table = Table("t", np.zeros((1, 1)), ("c=b",), np.arange(1), categories={"c": ("a", "b")})
        >>> sorted(of_categories(table))
        ['c=a', 'c=b']
    """
    return {column_of(name, category) for name, all_of in table.categories.items() for category in all_of}


def decoded(table: Table, values: Float64[np.ndarray, "N D"], name: str) -> list[str]:
    """The most probable category of each row; the first category has 1 minus the sum of the others.

    Args:
        table: whose columns the values have.
        values: shape (N, D); without missing values.
        name: the column of categories.

    Returns:
        N categories.

    Example:
        >>> table = Table("t", np.array([[0.9], [0.2]]), ("c=b",), np.arange(2), categories={"c": ("a", "b")})
        >>> decoded(table, table.values, "c")
        ['b', 'a']
    """
    categories = table.categories[name]
    shares = values[:, [table.columns.index(column_of(name, category)) for category in categories[1:]]]
    first = 1.0 - shares.sum(axis=1)
    return [categories[number] for number in np.column_stack([first, shares]).argmax(axis=1)]


def with_columns_of(table: Table, columns: Sequence[str]) -> Table:
    """Select a model's columns in its order, with categories encoded as for the model.

    A model does not know the name of the category without a column. It is the one category of the table that
    the model has no column for; if there are several, they were not all there when the model was fitted.

    Example:
        >>> table = Table("t", np.array([[1.0], [0.0]]), ("c=b",), np.arange(2), categories={"c": ("a", "b")})
        >>> with_columns_of(table, ["c=a"]).values.tolist()
        [[0.0], [1.0]]
    """
    parts: dict[str, Float64[np.ndarray, " N"]] = {}
    notes = list(table.notes)
    categories = dict(table.categories)
    for name, all_of_them in table.categories.items():
        of_model = [column.removeprefix(f"{name}=") for column in columns if column.startswith(f"{name}=")]
        if of_model:
            first = _check_categories(table, name, of_model)
            parts |= _encoded_again(table, name, of_model)
            categories[name] = (first, *of_model)
            if first != all_of_them[0]:
                notes.append(
                    f"{first!r} in column {name!r} is taken for the category without a column of its own"
                )
    if not parts:
        return table.select(list(columns))
    kept = [column for column in table.columns if column not in parts]
    values = np.column_stack([table.select(kept).values, *parts.values()])
    whole = replace(table, values=values, columns=(*kept, *parts), categories=categories, notes=tuple(notes))
    return whole.select(list(columns))


def _check_categories(table: Table, name: str, of_model: Sequence[str]) -> str:
    """Return the category without a column; "" if no row has it."""
    others = [category for category in table.categories[name] if category not in of_model]
    if len(others) > 1:
        raise InputError(
            f"column {name!r} of {table.name!r} has the categories {', '.join(others)}; the model has "
            f"columns for {', '.join(of_model)} and knew one other, so leave rows with new categories out"
        )
    return others[0] if others else ""


def _encoded_again(
    table: Table, name: str, of_model: Sequence[str]
) -> Mapping[str, Float64[np.ndarray, " N"]]:
    """Compute the columns of the model's categories from the table's columns."""
    first, *others = (column_of(name, category) for category in table.categories[name])
    column_of_name = dict(zip(others, table.select(others).values.T, strict=True))
    column_of_name[first] = 1.0 - np.sum(list(column_of_name.values()), axis=0)
    absent = np.where(np.isnan(column_of_name[first]), np.nan, 0.0)
    columns = [column_of(name, category) for category in of_model]
    return {column: column_of_name.get(column, absent) for column in columns}
