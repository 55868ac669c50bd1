"""Cholesky factors, with an error that names what may be wrong with a model."""

import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence.errors import NumericalError


def cholesky(matrices: Float[Tensor, "*B K K"]) -> Float[Tensor, "*B K K"]:
    """The lower Cholesky factors of positive definite matrices.

    Raises:
        NumericalError: a matrix is not positive definite, or not finite.

    Example:
        >>> cholesky(torch.tensor([[4.0]])).tolist()
        [[2.0]]
    """
    factors, failed = torch.linalg.cholesky_ex(matrices)
    if bool(failed.any()):
        raise NumericalError(
            "a covariance of the model is not positive definite in floating-point numbers; look for "
            "extremely large or small parameters, or rescale the data and fit the model again"
        )
    return factors
