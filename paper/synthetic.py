"""The data that the public code of the paper draws."""

import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence.models import PPCA


def published_ppca_data(
    n_rows: int, n_features: int, n_components: int, precision: float = 5.0, seed: int = 1991
) -> tuple[Float[Tensor, "N D"], PPCA]:
    """Draw the data of the paper's Table 1 and figures exactly as published, with the model scored on them.

    x = z Wᵀ + e with one noise draw e = randn/β that all features of a row share. The model's own noise is
    randn/√β for each feature. Use this function to reproduce printed numbers, and the model's `sample` to
    draw from the model. The global random state does not change.

    Args:
        n_rows: N.
        n_features: D.
        n_components: K.
        precision: β; the model's noise variance is 1/β.
        seed: the argument of `torch.manual_seed`.

    Returns:
        x, shape (N, D), float32, and the PPCA model N(0, W Wᵀ + I/β).

    Source:
        The paper's public repository; settings in its section 3.

    Example:
        >>> x, model = published_ppca_data(n_rows=3, n_features=4, n_components=2)
        >>> x.shape, round(model.noise_variance.item(), 6)
        (torch.Size([3, 4]), 0.2)
    """
    generator = torch.Generator().manual_seed(seed)
    loadings = torch.randn(n_features, n_components, generator=generator)
    latent = torch.randn(n_rows, n_components, generator=generator)
    noise = torch.randn(n_rows, 1, generator=generator) / precision
    return latent @ loadings.T + noise, PPCA.from_parameters(loadings, 1.0 / precision)
