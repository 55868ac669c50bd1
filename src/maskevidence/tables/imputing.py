"""Fill the missing values of a table by a model, or by the model of a MODEL word."""

from typing import Any

from maskevidence.core.errors import InputError
from maskevidence.core.model import as_tokens
from maskevidence.core.table import as_table
from maskevidence.core.tokens import column_names
from maskevidence.tables.choosing.auto import fitted_to
from maskevidence.tables.imputation import Imputation
from maskevidence.tables.table_files import dated_table


def impute(model: Any, x: object) -> Imputation:
    """Fill the missing values of a table: E[x_j | x_observed] and Var[x_j | x_observed] of every missing x_j.

    To get the log-probability of values that were hidden on purpose, each given the observed values of its
    row, call `model.log_conditionals(tokens, masked)` with these values in `tokens` and their places in
    `masked`.

    Args:
        model: a model with an `impute` method, such as every model of the Gaussian family; or a MODEL word
            such as "auto" or "kernel-gaussian", which is fitted to the table first.
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
    if isinstance(model, str):
        x = x if column_names(x) is not None else as_table(x)
        model = fitted_to(model, dated_table(x))
    if not hasattr(model, "impute"):
        raise InputError(
            f"{type(model).__name__} cannot impute: it has no method impute(x); use PPCA, FactorAnalysis or "
            "Gaussian, or add a method impute(x) that returns an Imputation"
        )
    as_tokens(model, x)  # the same errors for every model
    return model.impute(x)
