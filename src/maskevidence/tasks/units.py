"""Training in units where the data have spread 1, and the model back in those of the data."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float64

from maskevidence.errors import InputError
from maskevidence.models import PPCA, FactorAnalysis, Gaussian


@dataclass(frozen=True)
class Units:
    """u = (x - shift) / scale.

    Attributes:
        shift: shape (D,); the columns' means.
        scale: shape (D,); their standard deviations, or for PPCA one number for all: its noise has one
            variance, so that other units would be another model.
    """

    shift: Float64[np.ndarray, " D"]
    scale: Float64[np.ndarray, " D"]

    def standard(self, values: Float64[np.ndarray, "N D"]) -> Float64[np.ndarray, "N D"]:
        """Rows in standard units."""
        return (values - self.shift) / self.scale


def units_of(model: object, values: Float64[np.ndarray, "N D"]) -> Units:
    """The units that a model of this class can be trained in, from rows with NaN where a value is missing.

    Raises:
        InputError: a column that does not vary.

    Example:
        >>> units_of(Gaussian(n_features=1), np.array([[1.0], [3.0]]))
        Units(shift=array([2.]), scale=array([1.]))
    """
    spread = np.nanstd(values, axis=0)
    if not spread.all():
        raise InputError(f"column {int(np.argmin(spread))} does not vary; leave it out")
    if isinstance(model, PPCA):
        spread = np.full_like(spread, np.sqrt((spread**2).mean()))
    return Units(np.nanmean(values, axis=0), spread)


def to_data_units(model: PPCA | FactorAnalysis | Gaussian, units: Units) -> None:
    """Turn a model of standard units into the same density in the data's units, in place.

    Example:
        >>> model = Gaussian(torch.zeros(1), torch.eye(1))
        >>> to_data_units(model, Units(np.array([5.0]), np.array([2.0])))
        >>> model.mean.item(), round(model.covariance.item(), 12)
        (5.0, 4.0)
    """
    dtype = model.mean.dtype
    shift, scale = torch.from_numpy(units.shift).to(dtype), torch.from_numpy(units.scale).to(dtype)
    with torch.no_grad():
        model.mean.mul_(scale).add_(shift)
        if isinstance(model, Gaussian):
            model.lower.mul_(scale[:, None])
            model.log_diagonal.add_(torch.log(scale))
            return
        model.loadings.mul_(scale[:, None])
        if isinstance(model, PPCA):
            model.log_noise_variance.add_(2 * torch.log(scale[0]))
        else:
            model.log_noise_variances.add_(2 * torch.log(scale))
