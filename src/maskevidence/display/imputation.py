"""Filled values of a table in a notebook."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from maskevidence.display import html, svg
from maskevidence.display.curve_picture import axes_for, set_title
from maskevidence.display.frames import data_frame
from maskevidence.errors import InputError
from maskevidence.imputation import Imputation
from maskevidence.wording import count, typeset

_ROWS, _COLUMNS = 6, 6
_MAX_DRAWN, _MAX_POINTS = 24, 80


def imputation_line(filled: Imputation) -> str:
    """The filled table in one line."""
    rows, columns = filled.values.shape
    n = int((filled.variance > 0).sum())
    return f"Imputation({rows:,} x {columns:,} table, {count(n, 'value')} filled, with standard deviations)"


def imputation_html(filled: Imputation) -> str:
    """How many values were filled, and the first rows among them, with the filled values in bold."""
    missing = filled.variance > 0
    n_rows, n_columns = missing.shape
    n, share = int(missing.sum()), 100 * float(missing.mean())
    told = f"{count(n, 'value')} of {n_rows:,} × {n_columns:,} filled ({typeset(share, 1)} %)"
    if not n:
        return html.block(html.headline(told))
    columns = np.sort(np.argsort(-missing.sum(axis=0), kind="stable")[:_COLUMNS])
    shown = np.flatnonzero(missing[:, columns].any(axis=1))[:_ROWS]
    cells, bold = [], set()
    for place, row in enumerate(shown):
        cells.append([f"{row}"])
        for column in columns:
            value = f"{filled.values[row, column]:.4g}".replace("-", "\N{MINUS SIGN}")
            if missing[row, column]:
                value += f" ± {np.sqrt(filled.variance[row, column]):.2g}"
                bold.add((place, len(cells[-1])))
            cells[-1].append(value)
    explained = "Filled values are bold, with one standard deviation of the conditional distribution."
    if len(shown) < int(missing.any(axis=1).sum()) or len(columns) < n_columns:
        explained += f" The first {count(len(shown), 'row')} with one, and {count(len(columns), 'column')}."
    return html.block(
        html.headline(told),
        html.table(["row", *(_name(filled, int(column)) for column in columns)], cells, bold=bold),
        html.paragraph(explained),
    )


def imputation_plot(filled: Imputation, ax: Any) -> Any:
    """The filled values of each column with their errors, beside the spread of the observed ones."""
    missing = filled.variance > 0
    order = np.argsort(-missing.sum(axis=0), kind="stable")[:_MAX_DRAWN]
    columns = np.sort(order[missing[:, order].any(axis=0)])
    axes = axes_for(ax, (max(6.4, 1.6 + 0.45 * len(columns)), 4.2))
    for place, column in enumerate(columns):
        values, hidden = filled.values[:, column], missing[:, column]
        observed = values[~hidden]
        centre = float(observed.mean()) if len(observed) else 0.0
        scale = (float(observed.std()) if len(observed) else 0.0) or 1.0
        low, high = (np.quantile(observed, (0.05, 0.95)) - centre) / scale if len(observed) else (0.0, 0.0)
        band = {"color": "0.6", "alpha": 0.4, "linewidth": 0, "zorder": 0}
        name = "5 to 95 % of the observed values" if not place else None
        axes.bar(place, high - low, 0.8, low, label=name, **band)
        rows = np.flatnonzero(hidden)
        rows = rows[np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MAX_POINTS)).round().astype(int))]
        at = place + (np.arange(len(rows)) + 0.5) / len(rows) * 0.7 - 0.35
        axes.errorbar(
            at,
            (values[rows] - centre) / scale,
            np.sqrt(filled.variance[rows, column]) / scale,
            color=svg.COLOURS[0],
            fmt="o",
            markersize=2.5,
            elinewidth=0.8,
            label="filled values ± one standard deviation" if not place else None,
        )
    names = [str(column) if filled.columns is None else filled.columns[column] for column in columns]
    axes.set_xticks(range(len(columns)), names, rotation=90 if max(map(len, names), default=0) > 4 else 0)
    axes.set_xlabel("column")
    axes.set_ylabel("standard deviations from the column's mean")
    axes.grid(axis="y", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if len(columns):
        bottom, top = axes.get_ylim()
        axes.set_ylim(bottom, top + 0.2 * (top - bottom))  # room for the legend
        axes.legend(fontsize=8, frameon=False, loc="upper left")
    several = "" if len(columns) == int(missing.any(axis=0).sum()) else f", {len(columns)} columns shown"
    set_title(axes, f"{count(int(missing.sum()), 'value')} filled of {missing.size:,}{several}")
    return axes


def imputation_frame(filled: Imputation, like: Any, errors: bool) -> Any:
    """The filled table as a data frame with the columns and rows of another one.

    Args:
        filled: the table.
        like: a data frame, or the names of the columns; None for 0, 1, ...
        errors: whether a column of standard deviations follows each column.

    Raises:
        InputError: another number of columns or rows.
    """
    n_rows, n_columns = filled.values.shape
    known = range(n_columns) if filled.columns is None else filled.columns
    listed = known if like is None else getattr(like, "columns", like)
    if isinstance(listed, str) or not isinstance(listed, Iterable):
        raise InputError(f"like={like!r}; give the data frame that was filled, or the names of its columns")
    names: list[Any] = list(listed)
    index = getattr(like, "index", None) if hasattr(like, "columns") else None
    if len(names) != n_columns or (index is not None and len(index) != n_rows):
        given = f"{len(names)} columns" + ("" if index is None else f" and {len(index)} rows")
        raise InputError(
            f"like has {given}, the filled table {n_columns} columns and {n_rows} rows; give the table that "
            "was filled"
        )
    deviations = np.sqrt(filled.variance)
    columns: dict[Any, Any] = {}
    for place, name in enumerate(names):
        columns[name] = filled.values[:, place]
        if errors:
            columns[f"{name}_sd"] = deviations[:, place]
    return data_frame(columns, index, getattr(index, "name", None))


def _name(filled: Imputation, column: int) -> str:
    return f"column {column}" if filled.columns is None else filled.columns[column]
