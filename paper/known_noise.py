"""PPCA with mean 0 and known noise: the published data, its optimum, and many loadings scored at once."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

import maskevidence as me
from paper.figures import put

PRECISION = 5.0
DATA_SEED = 1991


def published_ppca_data(
    n_rows: int, n_features: int, n_components: int, precision: float = PRECISION, seed: int = DATA_SEED
) -> tuple[Float[Tensor, "N D"], me.models.PPCA]:
    """Draw the data of the paper's Table 1 and figures exactly as its public code does, and their model.

    x = z Wᵀ + e with one noise draw e = randn/β that all features of a row share, shape (N, D), float32. The
    model is N(0, W Wᵀ + I/β): its own noise is randn/√β for each feature. The model's `sample` draws from it.

    Example:
        >>> x, model = published_ppca_data(n_rows=3, n_features=4, n_components=2)
        >>> x.shape, round(model.noise_variance.item(), 6)
        (torch.Size([3, 4]), 0.2)
    """
    generator = torch.Generator().manual_seed(seed)
    loadings = torch.randn(n_features, n_components, generator=generator)
    latent = torch.randn(n_rows, n_components, generator=generator)
    noise = torch.randn(n_rows, 1, generator=generator) / precision
    return latent @ loadings.T + noise, me.models.PPCA.from_parameters(loadings, 1.0 / precision)


def published(
    n_rows: int, n_features: int, n_components: int, seed: int = DATA_SEED
) -> tuple[Tensor, me.models.PPCA]:
    """The rows of the published generator in float64, and the model with its parameters."""
    x, model = published_ppca_data(n_rows, n_features, n_components, PRECISION, seed)
    return x.double(), put(model)


def best_with_known_noise(moments: me.GaussianMoments, n_components: int) -> me.models.PPCA:
    """PPCA with the maximum likelihood loadings for the known noise variance 1/β and mean 0.

    W = U_K (Λ_K - σ²)^½, eigenvectors of the second moments about 0 (Tipping and Bishop 1999, Eq. 7).
    """
    noise = 1.0 / PRECISION
    values, vectors = torch.linalg.eigh(second_moments(moments))
    scale = (values[-n_components:] - noise).clamp(min=0.0).sqrt()
    return put(me.models.PPCA.from_parameters(vectors[:, -n_components:] * scale, noise))


def initial_loadings(n_features: int, n_components: int, seeds: Sequence[int]) -> Float[Tensor, "R D K"]:
    """W = randn(D, K) for each seed."""
    draws = [
        torch.randn(n_features, n_components, generator=torch.Generator().manual_seed(seed)) for seed in seeds
    ]
    return put(torch.stack(draws).double())


def moment_scores(
    loadings: Float[Tensor, "R D K"], second: Float[Tensor, "D D"], masked: Bool[Tensor, "R P D"]
) -> Float[Tensor, "R P"]:
    """Scores of R loadings at once, each under its own P masks, averaged over the rows, in nats.

    This is `PPCA.score_moments` for mean 0 and known noise with one more leading dimension, so that small
    problems do not pay for every operation R times.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA.from_parameters(torch.randn(3, 1), 1 / PRECISION)
        >>> moments = me.GaussianMoments.from_rows(model.sample(9))
        >>> masked = torch.tensor([[True, False, False], [True, True, True]])
        >>> with torch.no_grad():
        ...     scores = moment_scores(model.loadings[None], second_moments(moments), masked[None])
        ...     bool(torch.allclose(scores[0], model.score_moments(moments, masked)))
        True
    """
    noise, k = 1.0 / PRECISION, loadings.shape[2]
    hidden = masked.to(loadings.dtype)
    outer = (loadings[:, :, :, None] * loadings[:, :, None, :]).flatten(2)
    identity = torch.eye(k, dtype=loadings.dtype, device=loadings.device).flatten()
    precision = torch.add(identity, (1.0 - hidden) @ outer, alpha=PRECISION)
    # The eigenvalues of the matrix are 1 or more, so that the unchecked inverse is safe.
    inverse = torch.linalg.inv_ex(precision.reshape(*precision.shape[:2], k, k)).inverse
    variance = noise + inverse.flatten(2) @ outer.mT
    weight = hidden / variance
    seen = loadings[:, None] * ((1.0 - hidden) * PRECISION)[..., None]  # V, shape (R, P, D, K)
    projected = seen.mT @ second
    inner = inverse @ (projected @ seen) @ inverse
    cross = inverse @ projected  # row j of its transpose times w_j is the explained part of x_j
    linear = (cross.mT * loadings[:, None]).sum(3)
    quadratic = inner.flatten(2) @ outer.mT
    residual = torch.diagonal(second) - 2 * linear + quadratic
    total = (weight * residual + hidden * torch.log(variance)).sum(2)
    return -0.5 * (math.log(2 * math.pi) + total / hidden.sum(2))


def second_moments(moments: me.GaussianMoments) -> Float[Tensor, "D D"]:
    """The second moments of the rows about 0."""
    return moments.about(torch.zeros_like(moments.mean))


def log_evidences(loadings: Float[Tensor, "R D K"], moments: me.GaussianMoments) -> Float[Tensor, " R"]:
    """Exact log evidence of each loadings, in nats per observation, averaged over the rows.

    -½ (D log 2π + log|C| + tr C⁻¹ S), C = W Wᵀ + I/β, S the second moments about 0.
    """
    width = loadings.shape[1]
    noise = torch.eye(width, dtype=loadings.dtype, device=loadings.device) / PRECISION
    factor = torch.linalg.cholesky(loadings @ loadings.mT + noise)
    second = second_moments(moments).to(loadings.device)
    distance = torch.cholesky_solve(second.expand_as(factor), factor).diagonal(dim1=1, dim2=2).sum(1)
    log_determinant = 2 * torch.log(factor.diagonal(dim1=1, dim2=2)).sum(1)
    return -0.5 * (width * math.log(2 * math.pi) + log_determinant + distance)


def log_evidence(model: me.models.PPCA, moments: me.GaussianMoments) -> float:
    """Exact log evidence of a model with mean 0 and the known noise, averaged over the rows."""
    return float(log_evidences(model.loadings.detach().double()[None], moments))
