"""Conditional moments of a Gaussian, by the smaller of the hidden and the visible block of each mask."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64, Shaped
from torch import Tensor

from maskevidence.tables.normal import cholesky

_MOST_HIDDEN = 0.58  # share of the tokens beyond which the visible block is faster
_CLOSE = 0.08  # relative difference of the sizes that one batch pads to the largest


class Given(NamedTuple):
    """What the visible tokens R of some rows say of the hidden ones."""

    mean: Float[Tensor, "B D"]  # about μ; as it comes for visible tokens
    variance: Float[Tensor, "B D"]  # likewise
    log_determinant: Float[Tensor, " B"]  # of Σ_RR


class _Tiles(NamedTuple):
    """Rows with the same visible tokens, up to t in a tile, and the tiles with nearly equally many."""

    rows: Int64[Tensor, "T t"]
    kept: Bool[Tensor, "T t"]  # False where a tile has fewer rows
    columns: Int64[Tensor, "T n"]  # of the block, padded by others
    real: Bool[Tensor, "T n"]  # False where padded
    by_hidden: bool


def given_visible(
    factor: Float[Tensor, "D D"], centred: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"], elements: int
) -> Given:
    """Conditional mean and variance of the hidden tokens H, given rows about μ that are 0 there.

    With K = Σ⁻¹, the hidden block gives mean_H = -K_HH⁻¹ K_HR x_R, var_H = diag K_HH⁻¹ and
    log|Σ_RR| = log|Σ| + log|K_HH|; where it is much the larger one, the visible block gives
    mean_j = Σ_jR Σ_RR⁻¹ x_R and var_j = Σ_jj - Σ_jR Σ_RR⁻¹ Σ_Rj.

    Args:
        factor: the Cholesky factor of Σ.
        elements: of the matrices that are factorised together.

    Example:
        >>> factor = torch.linalg.cholesky(torch.tensor([[1.0, 0.5], [0.5, 1.0]]))
        >>> given = given_visible(factor, torch.tensor([[1.0, 0.0]]), torch.tensor([[True, False]]), 100)
        >>> given.mean[0, 1].item(), round(given.variance[0, 1].item(), 6)
        (0.5, 0.75)
    """
    n_rows, width = centred.shape
    of_all = 2 * torch.log(torch.diagonal(factor)).sum()
    if bool(visible.all()):
        return Given(torch.zeros_like(centred), torch.zeros_like(centred), of_all.expand(n_rows))
    covariance, precision = factor @ factor.T, torch.cholesky_inverse(factor)
    pulls, every = centred @ precision, torch.arange(width, device=factor.device)
    cells, means, variances, rows, determinants = [], [], [], [], []
    for tiles in _tiles(visible, elements):
        if tiles.by_hidden:
            mean, variance, log_determinant = _by_hidden(precision, pulls, tiles)
            log_determinant = log_determinant + of_all
        else:
            mean, variance, log_determinant = _by_visible(covariance, centred, tiles)
        columns = tiles.columns if tiles.by_hidden else every.expand(len(mean), width)
        places = torch.where(tiles.kept, tiles.rows, n_rows)  # a last row, which is cut off, takes the others
        cells.append((places[:, :, None] * width + columns[:, None, :]).flatten())
        means.append(mean.flatten())
        variances.append(variance[:, None, :].expand_as(mean).flatten())
        rows.append(places.flatten())
        determinants.append(log_determinant[:, None].expand_as(places).flatten())
    zeros, cell = centred.new_zeros((n_rows + 1) * width), (torch.cat(cells),)
    return Given(
        zeros.index_put(cell, torch.cat(means))[:-width].view_as(centred),
        zeros.index_put(cell, torch.cat(variances))[:-width].view_as(centred),
        of_all.expand(n_rows + 1).index_put((torch.cat(rows),), torch.cat(determinants))[:-1],
    )


_Solved = tuple[Float[Tensor, "T t n"], Float[Tensor, "T n"], Float[Tensor, " T"]]


def _by_hidden(precision: Float[Tensor, "D D"], pulls: Float[Tensor, "B D"], tiles: _Tiles) -> _Solved:
    """Mean and variance of the columns of the hidden blocks, and log|K_HH|."""
    root = cholesky(_padded(precision, tiles))
    one = torch.eye(root.shape[1], dtype=root.dtype, device=root.device)
    inverse = torch.linalg.solve_triangular(root, one.expand_as(root), upper=False)
    pull = _gathered(pulls, tiles)
    return -(pull @ inverse.mT) @ inverse, inverse.square().sum(1), _log_determinant(root)


def _by_visible(covariance: Float[Tensor, "D D"], centred: Float[Tensor, "B D"], tiles: _Tiles) -> _Solved:
    """Mean and variance of all columns, and log|Σ_RR|."""
    root = cholesky(_padded(covariance, tiles))
    across = torch.where(tiles.real[:, :, None], covariance[tiles.columns], 0.0)
    both = torch.cat([across, _gathered(centred, tiles).mT], 2)
    white = torch.linalg.solve_triangular(root, both, upper=False)
    across, values = white[:, :, : len(covariance)], white[:, :, len(covariance) :]
    variance = torch.diagonal(covariance) - across.square().sum(1)
    return values.mT @ across, variance, _log_determinant(root)


def _padded(matrix: Float[Tensor, "D D"], tiles: _Tiles) -> Float[Tensor, "T n n"]:
    """The blocks of a matrix, with the identity for the padding."""
    block = matrix[tiles.columns[:, :, None], tiles.columns[:, None, :]]
    both = tiles.real[:, :, None] & tiles.real[:, None, :]
    return torch.where(both, block, torch.eye(block.shape[1], dtype=block.dtype, device=block.device))


def _gathered(values: Float[Tensor, "B D"], tiles: _Tiles) -> Float[Tensor, "T t n"]:
    """The values of the rows in the columns of the blocks, 0 for the padding."""
    own = values[tiles.rows[:, :, None], tiles.columns[:, None, :]]
    return torch.where(tiles.real[:, None, :], own, 0.0)


def _log_determinant(root: Float[Tensor, "T n n"]) -> Float[Tensor, " T"]:
    return 2 * torch.log(torch.diagonal(root, dim1=1, dim2=2)).sum(1)


def _tiles(visible: Bool[Tensor, "B D"], elements: int) -> Iterator[_Tiles]:
    """The rows with hidden tokens in tiles, by the number of these, so that little is padded.

    Equal masks share tiles of as many rows as a mask has on average: there are at most twice as many tiles
    as masks, and at most three times as many places in them as rows.
    """
    device, width = visible.device, visible.shape[1]
    holed = torch.nonzero(~visible.all(1)).flatten()
    patterns, of = unique_rows(visible[holed])
    counts = torch.bincount(of)
    height = -(-len(holed) // len(patterns))
    per_pattern = -(-counts // height)
    order = torch.argsort(of, stable=True)
    of = of[order]
    place = torch.arange(len(of), device=device) - (counts.cumsum(0) - counts)[of]
    tile = (per_pattern.cumsum(0) - per_pattern)[of] + place // height
    rows = torch.full((int(per_pattern.sum()), height), -1, device=device)
    rows[tile, place % height] = holed[order]
    hidden = ~patterns.repeat_interleave(per_pattern, 0)
    n_hidden = hidden.sum(1)
    by_size = torch.argsort(n_hidden, stable=True)
    sizes = n_hidden[by_size].tolist()
    start = 0
    while start < len(sizes):
        by_hidden = sizes[start] <= _MOST_HIDDEN * width
        end = start + _length(sizes[start:], width, height, elements, by_hidden)
        chosen = by_size[start:end]
        n_real = n_hidden[chosen] if by_hidden else width - n_hidden[chosen]
        wanted = hidden[chosen] if by_hidden else ~hidden[chosen]
        most = max(1, int(n_real.max()))
        columns = torch.argsort(wanted.to(torch.uint8), dim=1, descending=True, stable=True)[:, :most]
        real = torch.arange(most, device=device) < n_real[:, None]
        of_tiles = rows[chosen]
        yield _Tiles(of_tiles.clamp(min=0), of_tiles >= 0, columns, real, by_hidden)
        start = end


def _length(sizes: list[int], width: int, height: int, elements: int, by_hidden: bool) -> int:
    """How many of the first tiles have blocks of close sizes, and room in one batch."""
    least = sizes[0]
    block = least if by_hidden else width - least
    last = least + max(2, int(_CLOSE * block))
    n = 0
    for size in sizes:
        other = size <= _MOST_HIDDEN * width
        at_once = max(size, 1) * (size + height) if by_hidden else max(1, block) * (width + height)
        if size > last or other != by_hidden or (n and (n + 1) * at_once > elements):
            break
        n += 1
    return n


def unique_rows(rows: Shaped[Tensor, "B D"]) -> tuple[Shaped[Tensor, "P D"], Int64[Tensor, " B"]]:
    """The distinct rows of a matrix, and for each row its index among them.

    Example:
        >>> unique_rows(torch.tensor([[True], [False], [True]]))[1].tolist()
        [1, 0, 1]
    """
    array = rows.cpu().numpy()
    packed = np.ascontiguousarray(np.packbits(array, axis=1) if array.dtype == np.bool_ else array)
    as_bytes = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    _, first, which = np.unique(as_bytes, return_index=True, return_inverse=True)
    return rows[torch.from_numpy(first).to(rows.device)], torch.from_numpy(which).to(rows.device)
