"""p(x_j | z) of a VAE: a Gaussian with one noise variance, or 0/1."""

import math

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from maskevidence.errors import InputError
from maskevidence.models.vae.latent_model import LOG_2PI
from maskevidence.models.vae.noise import Noise

_STRETCH = 10.0  # Adam moves every parameter at one pace, at which log σ² would take thousands of steps


class GaussianTokens(nn.Module):
    """x_j = shift_j + scale · (decoder_j(z) + noise), noise ~ N(0, σ²).

    Networks see standard units, (x - shift) / scale; densities are those of the data's units. One scale for
    all tokens, so that the noise has one variance.

    Args:
        n_features: D.
        dtype: of the parameters; shift starts at 0, scale and σ² at 1.
    """

    name = "gaussian"
    blank = 0.0  # the mean, in standard units
    shift: Tensor
    scale: Tensor

    def __init__(self, n_features: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.noise = nn.Parameter(torch.zeros((), dtype=dtype))
        self.register_buffer("shift", torch.zeros(n_features, dtype=dtype))
        self.register_buffer("scale", torch.ones((), dtype=dtype))

    @property
    def log_variance(self) -> Float[Tensor, ""]:
        """log σ², in standard units."""
        return _STRETCH * self.noise

    @property
    def log_unit(self) -> Float[Tensor, ""]:
        """What a token's log density loses from standard units to the data's."""
        return torch.log(self.scale)

    def set_noise_variance(self, variance: float) -> None:
        """σ², in standard units; in place."""
        if not 0 < variance < math.inf:
            raise InputError(f"a noise variance of {variance}; give a finite number above 0")
        with torch.no_grad():
            self.noise.fill_(math.log(variance) / _STRETCH)

    def set_units(self, table: Float64[np.ndarray, "N D"]) -> None:
        """Shift and scale from rows with NaN where a value is missing; in place."""
        shift = np.nanmean(table, axis=0)
        scale = math.sqrt(float(np.nanmean((table - shift) ** 2)))
        if not scale > 0:
            raise InputError("every column is constant; there is nothing to fit")
        with torch.no_grad():
            self.shift.copy_(torch.from_numpy(shift))
            self.scale.fill_(scale)

    def standard(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Rows as the networks see them."""
        return (x - self.shift) / self.scale

    def log_density(
        self, x: Float[Tensor, "*rows_x D"], decoded: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows D"]:
        """log p of standard values given the decoder's answer, nats, in standard units."""
        log_variance = self.log_variance
        return -0.5 * ((x - decoded).square() * torch.exp(-log_variance) + (LOG_2PI + log_variance))

    def draw(self, decoded: Float[Tensor, "B n D"], noise: Noise) -> Float[Tensor, "B n D"]:
        """x ~ p(x | z), in standard units."""
        return decoded + torch.exp(0.5 * self.log_variance) * noise.normal(*decoded.shape[1:])

    def moments(self, decoded: Float[Tensor, "*rows D"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of x given z, in the data's units."""
        mean = self.shift + self.scale * decoded
        return mean, self.scale.square() * torch.exp(self.log_variance).expand_as(mean)

    def wrong(self, x: Float[Tensor, "B D"]) -> Bool[Tensor, "B D"]:
        """Where a value cannot be one of the model's."""
        return ~torch.isfinite(x)


class BernoulliTokens(nn.Module):
    """x_j ~ Bernoulli(sigmoid(decoder_j(z)))."""

    name = "bernoulli"
    blank = 0.5

    def __init__(self, n_features: int, dtype: torch.dtype) -> None:
        super().__init__()

    @property
    def log_unit(self) -> float:
        return 0.0

    def standard(self, x: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Rows as the networks see them: as they are."""
        return x

    def log_density(
        self, x: Float[Tensor, "*rows_x D"], decoded: Float[Tensor, "*rows D"]
    ) -> Float[Tensor, "*rows D"]:
        """log p of 0 or 1 given the logit, nats."""
        return logsigmoid((2 * x - 1) * decoded)

    def draw(self, decoded: Float[Tensor, "B n D"], noise: Noise) -> Float[Tensor, "B n D"]:
        """x ~ p(x | z); the gradient is that of the probabilities."""
        probability = torch.sigmoid(decoded)
        drawn = (noise.uniform(*decoded.shape[1:]) <= probability).to(decoded.dtype)
        return drawn + probability - probability.detach() if probability.requires_grad else drawn

    def moments(self, decoded: Float[Tensor, "*rows D"]) -> tuple[Tensor, Tensor]:
        """Mean and variance of x given z."""
        mean = torch.sigmoid(decoded)
        return mean, mean * (1 - mean)

    def wrong(self, x: Float[Tensor, "B D"]) -> Bool[Tensor, "B D"]:
        """Where a value cannot be one of the model's."""
        return (x != 0) & (x != 1)


DENSITIES = {"gaussian": GaussianTokens, "bernoulli": BernoulliTokens}
