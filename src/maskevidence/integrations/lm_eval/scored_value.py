"""The value of a continuation with its Monte-Carlo error."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64


class ScoredValue(float):
    """A log-probability in nats, with its Monte-Carlo error.

    For the harness, its caches and JSON it is a float.

    Args:
        value: the estimate, nats.
        deviations: shape (n_draws,); the centred contribution of each draw. Σ z_k · deviations_k, with
            standard normal z_k, has the distribution of the estimate's error. The values of a
            question share the draws.
        n_passes: the number of masked texts that went through the model.
        draws_key: values with the same key share their draws.
        ties: the metrics for which the race ended in a tie of this choice and others.

    Example:
        >>> value = ScoredValue(-3.0, np.array([0.3, -0.1, -0.2, 0.0]), n_passes=4)
        >>> value + 1, round(value.mask_se, 4), value.n_draws
        (-2.0, 0.432, 4)
        >>> ScoredValue(-3.0).mask_se      # without Monte-Carlo error
        0.0
    """

    deviations: Float64[np.ndarray, " n_draws"]
    n_passes: int
    draws_key: int
    ties: tuple[str, ...]

    def __new__(
        cls,
        value: float,
        deviations: Float64[np.ndarray, " n_draws"] | None = None,
        n_passes: int = 0,
        draws_key: int = 0,
        ties: tuple[str, ...] = (),
    ) -> "ScoredValue":
        number = super().__new__(cls, value)
        number.deviations = np.zeros(0) if deviations is None else deviations
        number.n_passes = n_passes
        number.draws_key = draws_key
        number.ties = ties
        return number

    def __reduce__(self) -> tuple[Any, ...]:
        return ScoredValue, (float(self), self.deviations, self.n_passes, self.draws_key, self.ties)

    @property
    def n_draws(self) -> int:
        """The number of independent draws of masks; 0 without Monte-Carlo error."""
        return len(self.deviations)

    @property
    def mask_se(self) -> float | None:
        """The Monte-Carlo standard error, nats: 0 if there is none, None for a single draw."""
        if not self.n_draws:
            return 0.0
        if self.n_draws == 1:
            return None
        return float(np.sqrt((self.deviations**2).sum() * self.n_draws / (self.n_draws - 1)))

    def errors(self) -> dict[str, Any]:
        """The error, its degrees of freedom and the cost, as content for JSON."""
        df = max(0, self.n_draws - 1) or None
        tied = {"tied": list(self.ties)} if self.ties else {}
        return {"mask_se": self.mask_se, "mask_df": df, "passes": self.n_passes, **tied}


def summed(values: Sequence[ScoredValue]) -> ScoredValue:
    """The sum of values with independent masks.

    Example:
        >>> a, b = ScoredValue(-3.0, np.array([0.3, -0.3])), ScoredValue(-2.0, np.array([0.4, -0.4]))
        >>> total = summed([a, b])
        >>> float(total), round(total.mask_se, 4) == round((a.mask_se**2 + b.mask_se**2) ** 0.5, 4)
        (-5.0, True)
    """
    estimated = [value for value in values if value.n_draws > 1]
    n = sum(value.n_draws for value in estimated)
    parts = [
        value.deviations * math.sqrt(value.n_draws / (value.n_draws - 1) * (n - 1) / n) for value in estimated
    ]
    deviations = np.concatenate(parts) if parts else None
    key = estimated[0].draws_key if estimated else 0
    return ScoredValue(sum(values), deviations, sum(value.n_passes for value in values), key)
