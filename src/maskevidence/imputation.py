"""Missing values filled from what a model expects of them, with how sure it is."""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float64

from maskevidence.errors import InputError
from maskevidence.tokens import Tokens


class Imputation(NamedTuple):
    """A table with its holes filled.

    Attributes:
        values: shape (N, D); observed values as given, missing ones by their conditional mean.
        variance: shape (N, D); the conditional variance of missing values, 0 where observed.
    """

    values: Float64[np.ndarray, "N D"]
    variance: Float64[np.ndarray, "N D"]


@runtime_checkable
class HasImpute(Protocol):
    """A model that knows mean and variance of missing values given observed ones."""

    def impute(self, x: object) -> Imputation:
        """Conditional mean and variance of every missing (NaN) value of an (N, D) table."""
        ...


def impute(model: object, x: object) -> Imputation:
    """Fill the holes of a table: E[x_j | x_observed] and Var[x_j | x_observed] for every missing x_j.

    The log-probability of values that were hidden on purpose, each given the observed ones of its row, is
    `model.log_conditionals(tokens, masked)` with those values in `tokens` and `masked` where they are.

    Args:
        model: one that has an `impute` method, as all of the Gaussian family do.
        x: shape (N, D), anything that `Tokens.from_array` reads; NaN is missing.

    Raises:
        InputError: a model that cannot impute, or a table that cannot be used: not one of numbers, of another
            width than the model, with an infinite value or with a row where nothing is observed.

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
            "Gaussian, or give it such a method that returns an Imputation"
        )
    Tokens.from_array(x)  # the table's faults in one wording, whatever the model does
    return model.impute(x)
