"""A density of numbers fitted to columns after a Yeo-Johnson transform."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from maskevidence.core.model import DENSITY
from maskevidence.core.table import spreads
from maskevidence.core.tokens import Tokens
from maskevidence.tables.base import TableModel

_POWERS = np.linspace(0, 2, 41)


class Reshaped(nn.Module):
    """A model of Yeo-Johnson transforms of standardised columns, as a density of the columns themselves.

    With u = (x - centre) / scale, z = ((1 + u)^λ - 1) / λ for u >= 0 and -((1 - u)^(2 - λ) - 1) / (2 - λ)
    below, and log p(x) = log p(z) + (λ - 1) sign(u) log(1 + |u|) - log scale. Each λ in [0, 2] has the
    highest likelihood of a normal distribution.

    Args:
        model: a new density of numbers, which is fitted.
        rows: shape (N, D), NaN where a value is missing.

    Source:
        Yeo and Johnson (2000), A New Family of Power Transformations to Improve Normality or Symmetry.

    Example:
        >>> import maskevidence as me
        >>> x = np.exp(np.random.default_rng(0).normal(size=(300, 2)))
        >>> model = Reshaped(me.models.Gaussian(n_features=2), x)
        >>> bool((model.draw_missing(np.full((50, 2), np.nan)) > -1).all())
        True
    """

    base_measure = DENSITY

    def __init__(self, model: TableModel, rows: Float64[np.ndarray, "N D"]) -> None:
        super().__init__()
        self.centre, self.scale = np.nanmean(rows, axis=0), spreads(rows)
        u = (rows - self.centre) / self.scale
        slopes = np.nanmean(np.sign(u) * np.log1p(np.abs(u)), axis=0)
        fits = [(power - 1) * slopes - np.log(np.nanstd(_bent(u, power), axis=0)) for power in _POWERS]
        self.power = _POWERS[np.argmax(fits, axis=0)]
        self.model, self.conditionals = model.fit(_bent(u, self.power)), model.conditionals
        self.columns, self.levels = model.columns, model.levels
        if hasattr(model, "log_leave_one_out"):
            self.log_leave_one_out = self._log_leave_one_out

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible) in nats, shape (B, D); exactly 0 where `masked` is False."""
        bent, log_slope = self._bent(tokens)
        return self.model.log_conditionals(bent, masked) + masked * log_slope

    def _log_leave_one_out(self, tokens: Tokens, visible: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p of each visible token given the other visible ones, nats, shape (B, D); 0 elsewhere."""
        bent, log_slope = self._bent(tokens)
        of_model: Any = self.model
        return of_model.log_leave_one_out(bent, visible) + visible * log_slope

    def _bent(self, tokens: Tokens) -> tuple[Tokens, Float[Tensor, "B D"]]:
        """The transformed values, and the log slopes of the transforms."""
        u = (tokens.values.double().cpu().numpy() - self.centre) / self.scale
        log_slope = (self.power - 1) * np.sign(u) * np.log1p(np.abs(u)) - np.log(self.scale)
        return replace(tokens, values=torch.from_numpy(_bent(u, self.power))), torch.from_numpy(log_slope)

    def draw_missing(self, x: object, draws: int = 1, seed: int = 0) -> Float64[np.ndarray, "n N D"]:
        """Draw the missing values `draws` times, shape (draws, N, D)."""
        rows = np.asarray(x, dtype=np.float64)
        drawn = self.model.draw_missing(_bent((rows - self.centre) / self.scale, self.power), draws, seed)
        of_rest = np.where(drawn < 0, 2 - self.power, self.power)
        size = np.abs(drawn)
        with np.errstate(divide="ignore", over="ignore"):
            far = np.where(of_rest > 0, (1 + of_rest * size) ** (1 / of_rest), np.exp(size)) - 1
        return np.where(np.isnan(rows), self.centre + self.scale * np.sign(drawn) * far, rows)


def _bent(
    u: Float64[np.ndarray, "N D"], power: Float64[np.ndarray, " D"] | float
) -> Float64[np.ndarray, "N D"]:
    """The Yeo-Johnson transforms of standardised values."""
    exponent, size = np.where(u < 0, 2 - power, power), np.abs(u)
    with np.errstate(divide="ignore", invalid="ignore"):
        bent = np.where(exponent > 0, ((1 + size) ** exponent - 1) / exponent, np.log1p(size))
    return np.sign(u) * bent
