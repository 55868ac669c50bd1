"""Missing values of a table, filled by a model's conditional means, with their variances."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import InputError
from maskevidence.model import as_tokens


class Imputation(NamedTuple):
    """A table whose missing values are filled.

    Attributes:
        values: shape (N, D); observed values as given, missing ones by their conditional mean.
        variance: shape (N, D); the conditional variance of missing values, 0 where observed.
        columns: D names; None if the columns have none.
    """

    values: Float64[np.ndarray, "N D"]
    variance: Float64[np.ndarray, "N D"]
    columns: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        from maskevidence.display.imputation import imputation_line

        return imputation_line(self)

    def _repr_html_(self) -> str:
        """How many values were filled, and the first of them with their errors, for a notebook."""
        from maskevidence.display.imputation import imputation_html

        return imputation_html(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the filled values of each column with their errors; needs matplotlib.

        Args:
            ax: axes of matplotlib; by default those of a new figure.

        Returns:
            The axes.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        from maskevidence.display.imputation import imputation_plot

        return imputation_plot(self, ax)

    def to_frame(self, like: Any = None, *, errors: bool = False) -> Any:
        """The filled table as a data frame of pandas.

        Args:
            like: the data frame that was filled, whose columns and index it gets; or names of columns. By
                default those that are known.
            errors: whether a column NAME_sd with the standard deviations follows each column.

        Raises:
            InputError: `like` has another number of columns or rows.
            MissingExtraError: pandas is not installed.
        """
        from maskevidence.display.imputation import imputation_frame

        return imputation_frame(self, like, errors)


@runtime_checkable
class HasImpute(Protocol):
    """A model that knows the mean and variance of missing values given the observed ones."""

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
