"""Conditional moments by the smaller block against one Cholesky factor of the visible block for each row."""

from functools import partial

import numpy as np
import pytest
import torch

from maskevidence.tables.gaussian.full_covariance import given_visible


def given_row_by_row(
    factor: torch.Tensor, centred: torch.Tensor, visible: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Means and variances of the hidden tokens, 0 for visible ones, and log|Σ_RR| of each row."""
    covariance, means, variances, determinants = factor @ factor.T, [], [], []
    for x, seen in zip(centred, visible, strict=True):
        between = covariance[seen]
        weights = torch.linalg.solve(between[:, seen], between)
        means.append(torch.where(seen, 0.0, x[seen] @ weights))
        variances.append(torch.where(seen, 0.0, torch.diagonal(covariance) - (weights * between).sum(0)))
        determinants.append(torch.linalg.slogdet(between[:, seen])[1])
    return torch.stack(means), torch.stack(variances), torch.stack(determinants)


def masks_of(kind: str, n_rows: int, width: int, rng: np.random.Generator) -> np.ndarray:
    """Visible tokens; shared masks have uneven numbers of rows."""
    size = rng.integers(0, width + 1, n_rows)  # nothing hidden, and everything, too
    own = rng.permuted(np.tile(np.arange(width), (n_rows, 1)), axis=1) >= size[:, None]
    if kind == "own":
        return own
    if kind == "shared":
        return own[(rng.random(n_rows) ** 3 * 5).astype(int)]
    return np.ones_like(own) if kind == "none" else np.zeros_like(own)


@pytest.mark.parametrize("elements", [1, 50, 2**19])
@pytest.mark.parametrize("kind", ["own", "shared", "none", "all"])
@pytest.mark.parametrize("width", [1, 2, 7, 40])
def test_values_and_gradients_are_those_of_the_visible_block(width: int, kind: str, elements: int) -> None:
    rng = np.random.default_rng(width)
    square = rng.normal(size=(width, width + 2))
    raw = torch.linalg.cholesky(torch.from_numpy(square @ square.T)).requires_grad_()
    visible = torch.from_numpy(masks_of(kind, 40, width, rng))
    x = torch.from_numpy(rng.normal(size=(40, width))).requires_grad_()
    weights = [torch.from_numpy(rng.normal(size=shape)) for shape in ((40, width), (40, width), (40,))]
    found, expected = (
        given(torch.tril(raw), x * visible, visible)
        for given in (partial(given_visible, elements=elements), given_row_by_row)
    )
    found = (*(torch.where(visible, 0.0, part) for part in found[:2]), found[2])
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    slopes = [
        torch.autograd.grad(
            sum((part * weight).sum() for part, weight in zip(parts, weights, strict=True)),
            (raw, x),
            materialize_grads=True,  # of x where nothing is hidden
        )
        for parts in (found, expected)
    ]
    torch.testing.assert_close(*slopes, rtol=1e-7, atol=1e-7)


def test_nearly_dependent_columns_keep_their_conditionals() -> None:
    """Two columns that differ by 10⁻⁵ of their spread: the variance of one given the other is 10⁻¹⁰."""
    covariance = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 1e-10]], dtype=torch.float64)
    factor = torch.linalg.cholesky(covariance)
    visible = torch.tensor([[False, True], [True, False]])
    centred = torch.tensor([[0.0, 2.0], [2.0, 0.0]], dtype=torch.float64)
    given = given_visible(factor, centred, visible, 2**19)
    expected = given_row_by_row(factor, centred, visible)
    for one, other in zip(given[:2], expected[:2], strict=True):
        torch.testing.assert_close(torch.where(visible, 0.0, one), other, rtol=1e-4, atol=1e-9)
