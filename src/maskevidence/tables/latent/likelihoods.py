"""Likelihoods p(x_j | z) of a VAE: a Gaussian with one noise variance, or Bernoulli."""

import math
from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from maskevidence.core.errors import InputError
from maskevidence.tables.base import keeping_dtype
from maskevidence.tables.gaussian.family import LOG_2PI, normal_log_cell
from maskevidence.tables.noise import Noise

_STRETCH = 10.0  # Adam moves all parameters at one pace; log σ² itself would take thousands of steps


class GaussianTokens(nn.Module):
    """x_j = shift_j + scale · (decoder_j(z) + noise), noise ~ N(0, σ²).

    The networks see standard units, (x - shift) / scale; densities are in the data's units. All tokens share
    one scale, so that the noise has one variance. Shift and scale are float64 whatever the dtype of the
    networks, and rows are standardised before they are cast.

    Attributes:
        blank: the value that replaces a token that is not visible: the mean, in standard units.
        domain: the values that the likelihood takes, and advice for others.
    """

    blank = 0.0
    domain = "a Gaussian likelihood takes finite numbers: mend it, or make it NaN where it is missing"
    shift: Tensor
    scale: Tensor

    def __init__(self, n_features: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.noise = nn.Parameter(torch.zeros((), dtype=dtype))
        self.register_buffer("shift", torch.zeros(n_features, dtype=torch.float64))
        self.register_buffer("scale", torch.ones((), dtype=torch.float64))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "GaussianTokens":
        return super()._apply(keeping_dtype(fn, (self.shift, self.scale)), recurse)  # type: ignore[no-untyped-call]

    @property
    def log_variance(self) -> Float[Tensor, ""]:
        """log σ², in standard units."""
        return _STRETCH * self.noise

    @property
    def log_unit(self) -> Float[Tensor, ""]:
        """The log density in standard units minus the log density in the data's units, nats per token."""
        return torch.log(self.scale)

    def set_noise_variance(self, variance: float) -> None:
        """Set σ², in standard units."""
        if not 0 < variance < math.inf:
            raise InputError(f"a noise variance of {variance}; give a finite number above 0")
        with torch.no_grad():
            self.noise.fill_(math.log(variance) / _STRETCH)

    def set_units(self, table: Float64[np.ndarray, "N D"]) -> None:
        """Set shift and scale from rows with NaN where a value is missing, in place."""
        shift = np.nanmean(table, axis=0)
        scale = math.sqrt(float(np.nanmean((table - shift) ** 2)))
        if not scale > 0:
            raise InputError("every column is constant; there is nothing to fit")
        with torch.no_grad():
            self.shift.copy_(torch.from_numpy(shift))
            self.scale.fill_(scale)

    def standard(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Rows in standard units, in the networks' dtype."""
        return ((x - self.shift) / self.scale).to(self.noise.dtype)

    def in_data_units(self, standard: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Turn standard units back into the data's units."""
        return self.shift + self.scale * standard.to(self.shift.dtype)

    def log_density(
        self, x: Float[Tensor, "*rows_x D"], decoded: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows D"]:
        """log p of standard values given the decoder's output, nats, in standard units."""
        log_variance = self.log_variance
        return -0.5 * ((x - decoded).square() * torch.exp(-log_variance) + (LOG_2PI + log_variance))

    def log_cell(
        self, x: Float[Tensor, "B 1 D"], decoded: Float[Tensor, "B n D"], step: Float[Tensor, " D"]
    ) -> Float[Tensor, "B n D"]:
        """The log mass of the data's cell around each value, over its width in standard units; in float64:
        networks' float32 would move the end of a half-line.
        """
        residual = (x - self.shift) / self.scale - decoded
        return normal_log_cell(residual, torch.exp(self.log_variance).expand_as(residual), step / self.scale)

    def draw(self, decoded: Float[Tensor, "B n D"], noise: Noise) -> Float[Tensor, "B n D"]:
        """Draw x ~ p(x | z), in standard units."""
        return decoded + torch.exp(0.5 * self.log_variance) * noise.normal(*decoded.shape[1:])

    def moments(self, decoded: Float[Tensor, "*rows D"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of x given z, in standard units."""
        return decoded, torch.exp(self.log_variance).expand_as(decoded)

    def wrong(self, x: Float[Tensor, "B D"]) -> Bool[Tensor, "B D"]:
        """Which values the likelihood cannot take."""
        return ~torch.isfinite(x)


class BernoulliTokens(nn.Module):
    """x_j ~ Bernoulli(sigmoid(decoder_j(z))); standard units are 0 and 1 themselves.

    Attributes:
        blank: the value that replaces a token that is not visible.
        domain: the values that the likelihood takes, and advice for others.
    """

    blank = 0.5
    domain = (
        "a Bernoulli likelihood takes 0 and 1: binarise (--binarise threshold or stochastic), or use "
        "likelihood='gaussian'"
    )

    scale = 1.0

    def __init__(self, n_features: int, dtype: torch.dtype) -> None:
        super().__init__()

    @property
    def log_unit(self) -> float:
        return 0.0

    def standard(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """The rows, unchanged."""
        return x

    def in_data_units(self, standard: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """The rows, unchanged."""
        return standard

    def log_density(
        self, x: Float[Tensor, "*rows_x D"], decoded: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows D"]:
        """log p of 0 or 1 given the logit, nats."""
        return logsigmoid((2 * x - 1) * decoded)

    def draw(self, decoded: Float[Tensor, "B n D"], noise: Noise) -> Float[Tensor, "B n D"]:
        """Draw x ~ p(x | z)."""
        return (noise.uniform(*decoded.shape[1:]) <= torch.sigmoid(decoded)).to(decoded.dtype)

    def moments(self, decoded: Float[Tensor, "*rows D"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of x given z."""
        mean = torch.sigmoid(decoded)
        return mean, mean * (1 - mean)

    def wrong(self, x: Float[Tensor, "B D"]) -> Bool[Tensor, "B D"]:
        """Which values the likelihood cannot take."""
        return (x != 0) & (x != 1)


DENSITIES = {"gaussian": GaussianTokens, "bernoulli": BernoulliTokens}
