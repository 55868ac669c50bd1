"""Tables filled by a model: conditional means and variances, draws, and Rubin's rules."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from maskevidence.core.errors import InputError
from maskevidence.core.evidence.standard_errors import t_half_widths
from maskevidence.core.model import as_tokens
from maskevidence.core.show.parts import Page, Table
from maskevidence.core.show.pictures import Strip, Strips
from maskevidence.core.show.shown import Shown
from maskevidence.core.show.words import cell_text, count, figures, typeset
from maskevidence.core.support.checks import word_of
from maskevidence.core.table import cell_value, spreads
from maskevidence.core.tokens import columns_among

_ROWS, _COLUMNS = 6, 6  # shown on the page
_MOST_STRIPS, _MOST_POINTS = 24, 80


@dataclass(frozen=True, repr=False)
class Imputation(Shown):
    """A table with its missing values filled.

    Attributes:
        values: shape (N, D); observed values as given, missing ones by their conditional mean.
        variance: shape (N, D); the conditional variance of missing values, 0 where observed.
        names: of the D columns; None if they have none.
        levels: for columns of words, the words in order; the values are positions among them, and the
            variance of a filled one is 1 minus its probability.
        given: the data frame or `Table` that was filled; None for arrays.
        day_0: the day from which columns of dates count, by name.
    """

    values: Float64[np.ndarray, "N D"]
    variance: Float64[np.ndarray, "N D"]
    names: tuple[str, ...] | None = None
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    given: Any = None
    day_0: Mapping[str, str] = field(default_factory=dict)

    def page(self) -> Page:
        """A page with the number of filled values and the first filled rows, filled values in bold."""
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
                code, words = self.values[row, column], self._words(column)
                value = cell_text(cell_value(code, words), 4)
                if missing[row, column]:
                    value += "" if words else f" ± {figures(np.sqrt(self.variance[row, column]), 2)}"
                    bold.add((k, len(cells[-1])))
                cells[-1].append(value)
        words = "Filled values are bold, with one standard deviation of the conditional distribution."
        if len(shown) < int(missing.any(axis=1).sum()) or len(columns) < n_columns:
            words += f" The first {count(len(shown), 'filled row')} and {count(len(columns), 'column')}."
        headings = ["row", *(f"column {k}" if self.names is None else self.names[k] for k in columns)]
        return Page(line, headline, parts=[Table(headings, cells, bold=bold), words])

    def picture(self) -> tuple[Strips, str]:
        """Each column's filled values with errors, against the spread of its observed values."""
        missing = self.variance > 0
        missing[:, [k for k in range(missing.shape[1]) if self._words(k)]] = False
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

    def _words(self, column: int) -> Sequence[str] | None:
        """The words of a column of the filled table; None for numbers and for arrays."""
        return None if self.given is None or self.names is None else self.levels.get(self.names[column])

    def _strip(self, column: int) -> Strip:
        """A sample of a column's filled values, in standard deviations of the observed values."""
        values, hidden = self.values[:, column], self.variance[:, column] > 0
        observed = values[~hidden]
        centre = float(observed.mean()) if len(observed) else 0.0
        scale = (float(spreads(observed[:, None])[0]) if len(observed) else 0.0) or 1.0
        low, high = (np.quantile(observed, (0.05, 0.95)) - centre) / scale if len(observed) else (0.0, 0.0)
        rows = np.flatnonzero(hidden)
        rows = rows[
            np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_POINTS)).round().astype(int))
        ]
        error = np.sqrt(self.variance[rows, column]) / scale
        name = str(column) if self.names is None else self.names[column]
        return Strip(name, (values[rows] - centre) / scale, error, float(low), float(high))

    def to_frame(self, *, errors: bool = False) -> Any:
        """The filled table as a pandas data frame.

        A filled data frame keeps its order, names, index, dtypes, observed cells, and any columns that the
        model lacks. Whole numbers become floats where filled values are not whole.

        Args:
            errors: whether a column NAME_sd with the standard deviations follows each column, or NAME_p with
                the probabilities of filled words.
        """
        from pandas import DataFrame, concat

        frame = DataFrame(self.values, columns=self.names) if self.given is None else self.given
        frame = frame if hasattr(frame, "iloc") else frame.to_frame()
        places = columns_among(self.names, self.values.shape[1], frame) or range(self.values.shape[1])
        column_at = {place: k for k, place in enumerate(places)}
        parts = []
        for place, label in enumerate(frame.columns):
            k, column = column_at.get(place), frame.iloc[:, place]
            if k is None:
                parts.append(column)
                continue
            words, holes = self._words(k), column.isna().to_numpy() | (self.variance[:, k] > 0)
            parts.append(
                filled_column(column, self.values[:, k], holes, words, self.day_0.get(str(label))).rename(
                    label
                )
            )
            if errors:
                error = np.sqrt(self.variance[:, k]) if words is None else 1 - self.variance[:, k]
                added = DataFrame({f"{label}_{'sd' if words is None else 'p'}": error}, index=frame.index)
                parts.append(added.iloc[:, 0])
        return concat(parts, axis=1)


def filled_column(
    column: Any,
    values: Float64[np.ndarray, " N"],
    holes: Bool[np.ndarray, " N"],
    words: Sequence[str] | None,
    day_0: str | None = None,
) -> Any:
    """Fill the holes of a data frame's column, in its own dtype if that can hold the values.

    Args:
        words: whose positions the values are; None for numbers.
        day_0: from which the values count, if the column holds dates.

    Example:
        >>> import pandas as pd
        >>> column, holes = pd.Series([1, None], dtype="Int64"), np.array([False, True])
        >>> [str(filled_column(column, np.array([1.0, new]), holes, None).dtype) for new in (2.0, 2.5)]
        ['Int64', 'Float64']
    """
    from pandas import Series, Timestamp, to_timedelta

    if not holes.any():
        return column
    filled, new, kind = column.copy(), values[holes], getattr(column.dtype, "kind", "O")
    if day_0 is not None and kind not in "iufb":
        times = Timestamp(day_0, tz="UTC") + to_timedelta(new, "D").round("s")
        cells = times.tz_convert(getattr(column.dtype, "tz", None)) if kind == "M" else times.date
    elif words is None:
        cells = new.astype(
            getattr(column.dtype, "numpy_dtype", column.dtype if kind in "iufb" else np.float64)
        )
        if kind not in "iufb" or (kind != "f" and (cells != new).any()):
            numbers = np.where(holes, values, column.to_numpy(np.float64, na_value=np.nan))
            return Series(numbers, column.index, "Float64" if kind in "iub" else np.float64)
    else:
        cell_of = {word_of(cell): cell for cell in column[~holes]}
        cells = [cell_of.get(word, word) for word in (words[int(code)] for code in new)]
        if hasattr(filled, "cat"):
            others = [cell for cell in dict.fromkeys(cells) if cell not in filled.cat.categories]
            filled = filled.cat.add_categories(others)
        elif kind in "iufb" and any(isinstance(cell, str) for cell in cells):
            filled = filled.astype(object)
    filled.iloc[np.flatnonzero(holes)] = cells
    return filled


def draw_missing(
    model: Any, x: object, draws: int = 5, *, seed: int = 0, refit: bool = True
) -> Float64[np.ndarray, "n N D"]:
    """Fill the missing values of a table several times by draws, for multiple imputation.

    The missing values of a row are drawn jointly from p(x_missing | x_observed), so that they are correlated
    as under the model; draws from each value's own distribution would be uncorrelated. Analyse each of the
    tables, then combine the results by `me.pool`.

    For each table, a Gaussian, PPCA, FactorAnalysis or KernelGaussian that was fitted to most of these rows
    is refitted to a bootstrap sample of them, so that the tables also vary with the uncertainty of the
    parameters; a sample that cannot be fitted is drawn again. The Gaussian adds the weight of one row of
    uncorrelated columns, without which few rows with many holes may determine no covariance. Other models,
    and models fitted to other rows, take their parameters as known: with few rows, intervals are then too
    narrow.

    Args:
        model: a model with a method `draw_missing`, such as every model of rows of this package.
        x: shape (N, D), anything that `Tokens.from_array` reads; NaN marks a missing value.
        draws: the number of tables.
        seed: of the draws. The first tables do not change if more are drawn.
        refit: False to take the parameters as known in any case.

    Returns:
        Shape (draws, N, D); observed values are as they were in each table.

    Raises:
        InputError: a model that cannot draw or be fitted to 20 bootstrap samples, a number of draws below 1,
            or a table as `impute` refuses it.

    Source:
        Rubin (1987), Multiple Imputation for Nonresponse in Surveys; Honaker and King (2010), What to Do
        about Missing Values in Time-Series Cross-Section Data (a fit to a bootstrap sample for each table).

    Example:
        >>> import maskevidence as me, torch
        >>> model = me.models.Gaussian(torch.zeros(2), torch.tensor([[1.0, 0.6], [0.6, 1.0]]))
        >>> tables = me.draw_missing(model, [[2.0, float("nan")]] * 1000, draws=3)
        >>> tables.shape, tables[:, :, 1].mean().round(1), tables[:, :, 1].std().round(1)
        ((3, 1000, 2), np.float64(1.2), np.float64(0.8))
    """
    if not hasattr(model, "draw_missing"):
        raise InputError(
            f"{type(model).__name__} cannot draw missing values: it has no method draw_missing(x, draws, "
            "seed); use a model of rows of this package, or add the method"
        )
    as_tokens(model, x)  # the same errors for every model
    if refit and hasattr(model, "refits_to") and model.refits_to(x):
        return model.draw_missing(x, draws, seed, refit=True)
    return model.draw_missing(x, draws, seed)


@dataclass(frozen=True)
class Pooled:
    """The pooled results of one analysis of several filled tables.

    Attributes:
        estimate: shape () or the shape of one result; the mean over the tables.
        standard_error: same shape; combines the variances within and between tables.
        df: same shape; degrees of freedom of Student's t.
    """

    estimate: Float64[np.ndarray, "*results"] | float
    standard_error: Float64[np.ndarray, "*results"] | float
    df: Float64[np.ndarray, "*results"] | float

    def interval(
        self, level: float = 0.95
    ) -> tuple[Float64[np.ndarray, "*results"] | float, Float64[np.ndarray, "*results"] | float]:
        """The ends of the two-sided interval from Student's t."""
        if not 0 < level < 1:
            raise InputError(f"level={level}; give a share in (0, 1), such as 0.95")
        half = t_half_widths(np.asarray(self.standard_error), np.asarray(self.df), level)
        return self.estimate - half, self.estimate + half


def pool(estimates: object, standard_errors: object, *, df: float = math.inf) -> Pooled:
    """Combine the results of one analysis of several filled tables by Rubin's rules.

    With m tables, estimates Q and their squared standard errors U, the estimate is the mean of Q, and its
    variance is T = mean(U) + (1 + 1/m) var(Q). With λ = (1 + 1/m) var(Q)/T, the share that is due to the
    missing values, and ν degrees of freedom of the analysis of a table without holes, t has 1/(1/ν₁ + 1/ν₂)
    degrees of freedom, ν₁ = (m - 1)/λ², ν₂ = (ν + 1)/(ν + 3) ν (1 - λ).

    Args:
        estimates: shape (m,) for one number of each table, such as a coefficient, or (m, ...) for several.
        standard_errors: the same shape.
        df: ν, such as the number of rows minus the number of coefficients; infinite by default.

    Raises:
        InputError: fewer than two tables, other shapes, numbers that are not finite, or errors of 0 or less.

    Source:
        Rubin (1987), Multiple Imputation for Nonresponse in Surveys, Eq. 3.1.2 to 3.1.5; Barnard and Rubin
        (1999), Small-Sample Degrees of Freedom with Multiple Imputation, Eq. 3.

    Example:
        >>> pooled = pool([2.0, 2.5, 1.5], [0.5, 0.5, 0.5], df=57)
        >>> float(pooled.estimate), round(float(pooled.standard_error), 3), round(float(pooled.df), 1)
        (2.0, 0.764, 4.9)
        >>> low, high = pooled.interval()
        >>> round(float(low), 2), round(float(high), 2)
        (0.02, 3.98)
    """
    try:
        q, error = np.asarray(estimates, dtype=np.float64), np.asarray(standard_errors, dtype=np.float64)
    except (TypeError, ValueError) as wrong:
        raise InputError(f"estimates and standard_errors are numbers; {wrong}") from wrong
    if q.ndim < 1 or len(q) < 2 or q.shape != error.shape:
        raise InputError(
            f"estimates of shape {q.shape}, standard errors of shape {error.shape}; give equal shapes, one "
            "entry for each of two or more tables"
        )
    if not (np.isfinite(q).all() and np.isfinite(error).all() and (error > 0).all() and df > 0):
        raise InputError("give finite estimates, and standard errors and degrees of freedom above 0")
    within, between = (error**2).mean(0), (1 + 1 / len(q)) * q.var(0, ddof=1)
    share = between / (within + between)
    of_table = (1.0 if math.isinf(df) else (df + 1) / (df + 3)) * df * (1 - share)
    df_of_t = 1 / (share**2 / (len(q) - 1) + 1 / of_table)
    return Pooled(q.mean(0), np.sqrt(within + between), df_of_t)
