"""Missing values of a table, filled by a model's conditional means, with their variances."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import InputError
from maskevidence.model import as_tokens
from maskevidence.show.parts import Page, Table
from maskevidence.show.pictures import Strip, Strips
from maskevidence.show.shown import Columns, Shown, data_frame
from maskevidence.show.words import MINUS, count, typeset

_ROWS, _COLUMNS = 6, 6  # of the page
_MOST_STRIPS, _MOST_POINTS = 24, 80


@dataclass(frozen=True, repr=False)
class Imputation(Shown):
    """A table whose missing values are filled.

    Attributes:
        values: shape (N, D); observed values as given, missing ones by their conditional mean.
        variance: shape (N, D); the conditional variance of missing values, 0 where observed.
        names: of the D columns; None if they have none.
    """

    values: Float64[np.ndarray, "N D"]
    variance: Float64[np.ndarray, "N D"]
    names: tuple[str, ...] | None = None

    def page(self) -> Page:
        """How many values were filled, and the first rows among them, with the filled values in bold."""
        missing = self.variance > 0
        n_rows, n_columns = missing.shape
        n, share = int(missing.sum()), 100 * float(missing.mean())
        filled = count(n, "value")
        line = f"Imputation({n_rows:,} x {n_columns:,} table, {filled} filled, with standard deviations)"
        headline = f"{filled} of {n_rows:,} × {n_columns:,} filled ({typeset(share, 1)} %)"
        if not n:
            return Page(line, headline)
        columns = np.sort(np.argsort(-missing.sum(axis=0), kind="stable")[:_COLUMNS])
        shown = np.flatnonzero(missing[:, columns].any(axis=1))[:_ROWS]
        cells, bold = [], set()
        for k, row in enumerate(shown):
            cells.append([f"{row}"])
            for column in columns:
                value = f"{self.values[row, column]:.4g}".replace("-", MINUS)
                if missing[row, column]:
                    value += f" ± {np.sqrt(self.variance[row, column]):.2g}"
                    bold.add((k, len(cells[-1])))
                cells[-1].append(value)
        words = "Filled values are bold, with one standard deviation of the conditional distribution."
        if len(shown) < int(missing.any(axis=1).sum()) or len(columns) < n_columns:
            words += f" The first {count(len(shown), 'filled row')} and {count(len(columns), 'column')}."
        headings = ["row", *(f"column {k}" if self.names is None else self.names[k] for k in columns)]
        return Page(line, headline, parts=[Table(headings, cells, bold=bold), words])

    def picture(self) -> tuple[Strips, str]:
        """The filled values of each column with their errors, and the spread of the observed values."""
        missing = self.variance > 0
        order = np.argsort(-missing.sum(axis=0), kind="stable")[:_MOST_STRIPS]
        columns = np.sort(order[missing[:, order].any(axis=0)])
        several = "" if len(columns) == int(missing.any(axis=0).sum()) else f", {len(columns)} columns shown"
        picture = Strips(
            [self._strip(int(column)) for column in columns],
            "column",
            "standard deviations from the column's mean",
            "filled values ± one standard deviation",
            "5 to 95 % of the observed values",
        )
        return picture, f"{count(int(missing.sum()), 'value')} filled of {missing.size:,}{several}"

    def _strip(self, column: int) -> Strip:
        """Some filled values of a column, in standard deviations of the observed ones."""
        values, hidden = self.values[:, column], self.variance[:, column] > 0
        observed = values[~hidden]
        centre = float(observed.mean()) if len(observed) else 0.0
        scale = (float(observed.std()) if len(observed) else 0.0) or 1.0
        low, high = (np.quantile(observed, (0.05, 0.95)) - centre) / scale if len(observed) else (0.0, 0.0)
        rows = np.flatnonzero(hidden)
        rows = rows[
            np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_POINTS)).round().astype(int))
        ]
        error = np.sqrt(self.variance[rows, column]) / scale
        name = str(column) if self.names is None else self.names[column]
        return Strip(name, (values[rows] - centre) / scale, error, float(low), float(high))

    def to_frame(self, like: Any = None, *, errors: bool = False) -> Any:
        """The filled table as a data frame of pandas.

        Args:
            like: the data frame that was filled, whose columns and index it gets; or names of columns. By
                default those that are known.
            errors: whether a column NAME_sd with the standard deviations follows each column.

        Raises:
            InputError: `like` has another number of columns or rows.
        """
        n_rows, n_columns = self.values.shape
        own_names = range(n_columns) if self.names is None else self.names
        listed = own_names if like is None else getattr(like, "columns", like)
        if isinstance(listed, str) or not isinstance(listed, Iterable):
            raise InputError(
                f"like={like!r}; give the data frame that was filled, or the names of its columns"
            )
        names: list[Any] = list(listed)
        index = getattr(like, "index", None) if hasattr(like, "columns") else None
        if len(names) != n_columns or (index is not None and len(index) != n_rows):
            shape = f"{len(names)} columns" + ("" if index is None else f" and {len(index)} rows")
            raise InputError(
                f"like has {shape}, the filled table {n_columns} columns and {n_rows} rows; give the table "
                "that was filled"
            )
        deviations = np.sqrt(self.variance)
        columns: dict[Any, Any] = {}
        for k, name in enumerate(names):
            columns[name] = self.values[:, k]
            if errors:
                columns[f"{name}_sd"] = deviations[:, k]
        return data_frame(Columns(columns, index, getattr(index, "name", None)))


@runtime_checkable
class HasImpute(Protocol):
    """A model that gives the mean and variance of missing values given the observed values."""

    def impute(self, x: object) -> Imputation:
        """Conditional mean and variance of every missing (NaN) value of an (N, D) table."""
        ...


def impute(model: object, x: object) -> Imputation:
    """Fill the missing values of a table: E[x_j | x_observed] and Var[x_j | x_observed] of every missing x_j.

    To get the log-probability of values that were hidden on purpose, each given the observed values of its
    row, call `model.log_conditionals(tokens, masked)` with these values in `tokens` and their places in
    `masked`.

    Args:
        model: a model with an `impute` method, such as every model of the Gaussian family.
        x: shape (N, D), anything that `Tokens.from_array` reads; NaN marks a missing value. A model that was
            fitted to columns with names takes these from a data frame or a `Table`.

    Raises:
        InputError: a model that cannot impute; or a table that is not numeric, has another width than the
            model, an infinite value, or a row without an observed value.

    Example:
        >>> import maskevidence as me, torch
        >>> model = me.models.Gaussian(torch.zeros(2), torch.tensor([[1.0, 0.6], [0.6, 1.0]]))
        >>> filled = me.impute(model, [[2.0, float("nan")]])
        >>> filled.values.round(6).tolist(), filled.variance.round(6).tolist()
        ([[2.0, 1.2]], [[0.0, 0.64]])
    """
    if not isinstance(model, HasImpute):
        raise InputError(
            f"{type(model).__name__} cannot impute: it has no method impute(x); use PPCA, FactorAnalysis or "
            "Gaussian, or add a method impute(x) that returns an Imputation"
        )
    as_tokens(model, x)  # reports errors of the table in the same words for every model
    return model.impute(x)


@runtime_checkable
class HasDrawMissing(Protocol):
    """A model that draws missing values from their joint distribution given the observed ones."""

    def draw_missing(self, x: object, draws: int = 1, seed: int = 0) -> Float64[np.ndarray, "n N D"]:
        """Tables whose missing values are drawn, shape (draws, N, D)."""
        ...


def draw_missing(model: object, x: object, draws: int = 5, *, seed: int = 0) -> Float64[np.ndarray, "n N D"]:
    """Fill the missing values of a table several times by draws, for multiple imputation.

    The missing values of a row are drawn jointly from p(x_missing | x_observed), so that they vary together
    as they do under the model; draws from each value's own distribution would be uncorrelated. An analysis is
    made on each of the tables, and its results are pooled by Rubin's rules. The parameters of the model are
    taken as known.

    Args:
        model: a model with a method `draw_missing`, such as every model of rows of this package.
        x: shape (N, D), anything that `Tokens.from_array` reads; NaN marks a missing value.
        draws: the number of tables.
        seed: of the draws. The first tables do not change if more are drawn.

    Returns:
        Shape (draws, N, D); observed values are as they were in each table.

    Raises:
        InputError: a model that cannot draw, a number of draws below 1, or a table as `impute` refuses it.

    Source:
        Rubin (1987), Multiple Imputation for Nonresponse in Surveys.

    Example:
        >>> import maskevidence as me, torch
        >>> model = me.models.Gaussian(torch.zeros(2), torch.tensor([[1.0, 0.6], [0.6, 1.0]]))
        >>> tables = me.draw_missing(model, [[2.0, float("nan")]] * 1000, draws=3)
        >>> tables.shape, tables[:, :, 1].mean().round(1), tables[:, :, 1].std().round(1)
        ((3, 1000, 2), np.float64(1.2), np.float64(0.8))
    """
    if not isinstance(model, HasDrawMissing):
        raise InputError(
            f"{type(model).__name__} cannot draw missing values: it has no method draw_missing(x, draws, "
            "seed); use a model of rows of this package, or add the method"
        )
    as_tokens(model, x)  # reports errors of the table in the same words for every model
    return model.draw_missing(x, draws, seed)
