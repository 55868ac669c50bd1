"""Missing values of a table, filled by a model's conditional means, with their variances."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import InputError
from maskevidence.evidence.standard_errors import t_half_width
from maskevidence.model import as_tokens
from maskevidence.show.parts import Page, Table
from maskevidence.show.pictures import Strip, Strips
from maskevidence.show.shown import Columns, Shown, data_frame
from maskevidence.show.words import MINUS, count, typeset
from maskevidence.support.spread import spreads

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
        scale = (float(spreads(observed[:, None])[0]) if len(observed) else 0.0) or 1.0
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


@runtime_checkable
class HasRefit(Protocol):
    """A model that can be fitted again to a bootstrap sample for each table that it draws."""

    def draw_missing(
        self, x: object, draws: int = 1, seed: int = 0, *, refit: bool = False
    ) -> Float64[np.ndarray, "n N D"]:
        """As `HasDrawMissing` has it; with `refit`, each table by a copy fitted to a bootstrap sample."""
        ...

    def refits_to(self, x: object) -> bool:
        """Whether a fit takes little time, and the model was fitted to these rows, or most of them were."""
        ...


def draw_missing(
    model: object, x: object, draws: int = 5, *, seed: int = 0, refit: bool = True
) -> Float64[np.ndarray, "n N D"]:
    """Fill the missing values of a table several times by draws, for multiple imputation.

    The missing values of a row are drawn jointly from p(x_missing | x_observed), so that they vary together
    as they do under the model; draws from each value's own distribution would be uncorrelated. An analysis is
    made on each of the tables, and `me.pool` combines the results.

    A Gaussian, PPCA, FactorAnalysis or KernelGaussian that was fitted to most of these rows is fitted again
    to a bootstrap sample of them for each table, so that the tables vary as the parameters do; a sample that
    cannot be fitted is drawn again. The Gaussian adds the weight of one row of uncorrelated columns, without
    which few rows with many holes may determine no covariance. Other models,
    and those that were fitted to other rows, take their parameters as known: with few rows, intervals are
    then too narrow.

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
    if not isinstance(model, HasDrawMissing):
        raise InputError(
            f"{type(model).__name__} cannot draw missing values: it has no method draw_missing(x, draws, "
            "seed); use a model of rows of this package, or add the method"
        )
    as_tokens(model, x)  # reports errors of the table in the same words for every model
    if refit and isinstance(model, HasRefit) and model.refits_to(x):
        return model.draw_missing(x, draws, seed, refit=True)
    return model.draw_missing(x, draws, seed)


@dataclass(frozen=True)
class Pooled:
    """Results of an analysis of several filled tables, combined.

    Attributes:
        estimate: shape (), or that of one result; the mean over the tables.
        standard_error: likewise; within and between the tables.
        df: likewise; degrees of freedom of Student's t.
    """

    estimate: Float64[np.ndarray, "*results"] | float
    standard_error: Float64[np.ndarray, "*results"] | float
    df: Float64[np.ndarray, "*results"] | float

    def interval(
        self, level: float = 0.95
    ) -> tuple[Float64[np.ndarray, "*results"] | float, Float64[np.ndarray, "*results"] | float]:
        """The ends of the two-sided interval by Student's t."""
        if not 0 < level < 1:
            raise InputError(f"level={level}; give a share in (0, 1), such as 0.95")
        half = np.vectorize(t_half_width)(self.standard_error, self.df, level)
        return self.estimate - half, self.estimate + half


def pool(estimates: object, standard_errors: object, *, df: float = math.inf) -> Pooled:
    """Combine the results of one analysis of several filled tables, by Rubin's rules.

    With m tables, estimates Q and their squared standard errors U, the estimate is the mean of Q, and its
    variance is T = mean(U) + (1 + 1/m) var(Q). With λ = (1 + 1/m) var(Q)/T, the share that is due to the
    missing values, and ν degrees of freedom of the analysis of a table without holes, t has 1/(1/ν₁ + 1/ν₂)
    degrees of freedom, ν₁ = (m - 1)/λ², ν₂ = (ν + 1)/(ν + 3) ν (1 - λ).

    Args:
        estimates: shape (m,) for one number of each table, such as a coefficient, or (m, ...) for several.
        standard_errors: the same shape.
        df: ν, such as the number of rows minus that of the coefficients; without it the table is large.

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
    q, error = np.asarray(estimates, dtype=np.float64), np.asarray(standard_errors, dtype=np.float64)
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
