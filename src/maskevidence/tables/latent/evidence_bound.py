"""The importance-weighted bound of a log evidence, with its errors and a test for collapsed weights."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from maskevidence.core.errors import CollapsedWeightsWarning
from maskevidence.core.support.progress import progress
from maskevidence.tables.latent.conditioning import ImportanceSampling
from maskevidence.tables.latent.latent_model import LatentModel, StandardRows

_DRAWS_AT_ONCE = 64  # per call of the networks
_MIN_SIZE = 2.0  # if the effective sample size is lower, one draw has most of the weight


def importance_log_weights(
    model: LatentModel, rows: StandardRows, samples: int, seed: int
) -> Float[Tensor, "N samples"]:
    """log p(x, z) - log q(z | x) at draws from q(z | x); the weights have mean p(x_visible)."""
    parts = []
    with torch.no_grad(), progress("importance sampling", len(rows.values)) as advance:
        for values, visible, noise in rows.batches(_DRAWS_AT_ONCE, seed):
            weights = []
            for first in range(0, samples, _DRAWS_AT_ONCE):
                rule = ImportanceSampling(min(_DRAWS_AT_ONCE, samples - first), steps=0, prior_draws=0)
                weights.append(rule.weighted_draws(model, values, visible, noise).log_weights)
            parts.append(torch.cat(weights, 1))
            advance(len(values))
    return torch.cat(parts)


def effective_sample_size(log_weights: Float[Tensor, "B S"]) -> Float[Tensor, " B"]:
    """(Σ w)² / Σ w², from 1 (one draw has all the weight) to S (equal weights); Kong (1992).

    Example:
        >>> effective_sample_size(torch.zeros(1, 5)).item()
        5.0
    """
    return torch.exp(2 * torch.logsumexp(log_weights, 1) - torch.logsumexp(2 * log_weights, 1))


@dataclass(frozen=True)
class EvidenceBound:
    """The log of the mean of S weights with expectation p(x).

    It is below log p(x) on average; the gap vanishes as S grows.

    Attributes:
        method: how the draws were made, in words.
        log_evidence: shape (N,); log (1/S) Σ_s w_s of each observation, nats.
        standard_error: shape (N,); of each log evidence, by the delta method: sd(w) / (mean(w) √S).
        effective_sample_size: shape (N,); (Σ w)² / Σ w². If it is near 1, the standard error is too small.
        samples: S.
    """

    method: str
    log_evidence: Float64[np.ndarray, " N"]
    standard_error: Float64[np.ndarray, " N"]
    effective_sample_size: Float64[np.ndarray, " N"]
    samples: int

    @classmethod
    def from_log_weights(cls, method: str, log_weights: Float[Tensor, "N S"]) -> "EvidenceBound":
        """The bound from log weights.

        Args:
            method: how the draws were made, in words.
            log_weights: shape (N, S).

        Example:
            >>> bound = EvidenceBound.from_log_weights("an example", torch.log(torch.tensor([[1.0, 3.0]])))
            >>> round(math.exp(bound.mean), 6), round(bound.standard_error.item(), 6)
            (2.0, 0.5)
        """
        log_weights = log_weights.double()
        count = log_weights.shape[1]
        size = effective_sample_size(log_weights)
        variance = (1 / size - 1 / count).clamp(min=0) * (count / max(1, count - 1))
        mean = torch.logsumexp(log_weights, 1) - math.log(count)
        values = (part.detach().cpu().numpy() for part in (mean, variance.sqrt(), size))
        log_evidence, standard_error, sizes = values
        return cls(method, log_evidence, standard_error, sizes, count)

    @property
    def mean(self) -> float:
        """Mean log evidence, nats per observation."""
        return float(self.log_evidence.mean())

    @property
    def draw_se(self) -> float:
        """Monte-Carlo standard error of the mean, given these observations."""
        return float(np.sqrt((self.standard_error**2).sum()) / len(self.standard_error))

    @property
    def data_se(self) -> float | None:
        """Sampling standard error of the mean over observations.

        None for a single observation, or if the variance of the draws exceeds the variance between
        observations.
        """
        if len(self.log_evidence) < 2:
            return None
        spread = self.log_evidence.var(ddof=1) - (self.standard_error**2).mean()
        return math.sqrt(spread / len(self.log_evidence)) if spread > 0 else None

    def warn_if_collapsed(self) -> None:
        """Warn if the weights of more than a tenth of the observations have collapsed."""
        warn_if_collapsed(
            self.effective_sample_size,
            self.samples,
            share=0.1,
            so="these log evidences are too low and their standard errors too small",
            remedy="give more samples, or use annealed_evidence",
        )


def warn_if_collapsed(
    sizes: Float64[np.ndarray, " N"], samples: int, share: float, so: str, remedy: str
) -> bool:
    """Warn if the effective sample size is below 2 for more than a share of the observations."""
    collapsed = int((sizes < _MIN_SIZE).sum())
    is_too_many = samples > _MIN_SIZE and collapsed > share * len(sizes)
    if is_too_many:
        warnings.warn(
            f"the importance weights of {collapsed:,} of {len(sizes):,} observations collapsed: effective "
            f"sample size below {_MIN_SIZE:g} of {samples:,} (median {np.median(sizes):.1f}); {so}: {remedy}",
            CollapsedWeightsWarning,
            stacklevel=3,
        )
    return is_too_many
