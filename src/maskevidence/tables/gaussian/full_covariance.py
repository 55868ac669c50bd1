"""A Gaussian with any covariance, by the smaller of the hidden and the visible block of each mask."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from torch import Tensor, nn

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.table import spreads
from maskevidence.core.tokens import Tokens
from maskevidence.tables.gaussian.family import (
    LOG_2PI,
    GaussianFamily,
    check_table,
    cholesky,
    expected_score,
    smallest_correlation_eigenvalue,
)
from maskevidence.tables.gaussian.missing_values import fit_full
from maskevidence.tables.gaussian.orderings import scores_of_one_order, scores_of_own_orders
from maskevidence.tables.gaussian.shrunk_covariance import fit_shrunk

_Solved = tuple[Float[Tensor, "T t n"], Float[Tensor, "T n"], Float[Tensor, " T"]]
_MAX_ELEMENTS = 2**17  # of one batch of D×D matrices: 1 MiB in float64, which fits into the cache
_MAX_ELEMENTS_CUDA = 2**24  # 128 MiB: a GPU needs many matrices at once
_MIN_ROWS_PER_PATTERN = 4  # from which a loop over patterns is faster than one batch


_MOST_HIDDEN = 0.58  # share of the tokens beyond which the visible block is faster
_CLOSE = 0.08  # relative difference of the sizes that one batch pads to the largest


class _Tiles(NamedTuple):
    """Rows with the same visible tokens, up to t in a tile, and the tiles with nearly equally many."""

    rows: Int64[Tensor, "T t"]
    kept: Bool[Tensor, "T t"]  # False where a tile has fewer rows
    columns: Int64[Tensor, "T n"]  # of the block, padded by others
    real: Bool[Tensor, "T n"]  # False where padded
    by_hidden: bool


def given_visible(
    factor: Float[Tensor, "D D"], centred: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"], elements: int
) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"], Float[Tensor, " B"]]:
    """Conditional mean and variance of the hidden tokens H, given rows about μ that are 0 there; log|Σ_RR|.

    With K = Σ⁻¹, the hidden block gives mean_H = -K_HH⁻¹ K_HR x_R, var_H = diag K_HH⁻¹ and
    log|Σ_RR| = log|Σ| + log|K_HH|; where it is much the larger one, the visible block gives
    mean_j = Σ_jR Σ_RR⁻¹ x_R and var_j = Σ_jj - Σ_jR Σ_RR⁻¹ Σ_Rj.

    Args:
        factor: the Cholesky factor of Σ.
        elements: of the matrices that are factorised together.

    Example:
        >>> factor = torch.linalg.cholesky(torch.tensor([[1.0, 0.5], [0.5, 1.0]]))
        >>> visible = torch.tensor([[True, False]])
        >>> mean, variance, _ = given_visible(factor, torch.tensor([[1.0, 0.0]]), visible, 100)
        >>> mean[0, 1].item(), round(variance[0, 1].item(), 6)
        (0.5, 0.75)
    """
    n_rows, width = centred.shape
    of_all = 2 * torch.log(torch.diagonal(factor)).sum()
    if bool(visible.all()):
        return torch.zeros_like(centred), torch.zeros_like(centred), of_all.expand(n_rows)
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
    return (
        zeros.index_put(cell, torch.cat(means))[:-width].view_as(centred),
        zeros.index_put(cell, torch.cat(variances))[:-width].view_as(centred),
        of_all.expand(n_rows + 1).index_put((torch.cat(rows),), torch.cat(determinants))[:-1],
    )


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
    """The number of leading tiles with blocks of similar sizes that fit into one batch."""
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


class Gaussian(GaussianFamily):
    """N(mean, covariance) over D features.

    The parameters are the entries of the covariance's Cholesky factor, with the logs of its diagonal, so that
    all their values give a covariance.

    Args:
        mean: μ, shape (D,); by default 0.
        covariance: shape (D, D), symmetric and positive definite; by default the identity.
        n_features: D, if no mean is given.
        dtype: of the computation.

    Raises:
        InputError: shapes that do not fit, or a covariance that is not symmetric.
        NumericalError: a covariance that is not positive definite (names its smallest eigenvalue).

    Example:
        >>> import maskevidence as me
        >>> model = me.models.Gaussian(torch.zeros(2), torch.tensor([[1.0, 0.5], [0.5, 1.0]]))
        >>> model.impute([[1.0, float("nan")]]).values.tolist()
        [[1.0, 0.5]]
    """

    def __init__(
        self,
        mean: Float[Tensor, " D"] | None = None,
        covariance: Float[Tensor, "D D"] | None = None,
        *,
        n_features: int | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        if mean is None:
            if n_features is None or n_features < 1:
                raise InputError("a Gaussian needs a mean, or n_features of 1 or more")
            mean = torch.zeros(n_features, dtype=dtype)
        if not isinstance(mean, Tensor) or mean.ndim != 1:
            raise InputError(
                f"a Gaussian's mean is a tensor of shape (D,), not {mean!r}; n_features= gives D"
            )
        width = len(mean)
        if covariance is not None and covariance.shape != (width, width):
            raise InputError(
                f"the mean has {width} entries, the covariance shape {tuple(covariance.shape)}; "
                f"give shape ({width}, {width})"
            )
        super().__init__(mean)
        self.lower = nn.Parameter(torch.zeros(width, width, dtype=dtype))
        self.log_diagonal = nn.Parameter(torch.zeros(width, dtype=dtype))
        if covariance is not None:
            self._set_covariance(covariance)

    @property
    def factor(self) -> Float[Tensor, "D D"]:
        """The lower Cholesky factor of the covariance, shape (D, D)."""
        return torch.tril(self.lower, -1) + torch.diag(torch.exp(self.log_diagonal))

    @property
    def covariance(self) -> Float[Tensor, "D D"]:
        return self.factor @ self.factor.T

    @property
    def n_parameters(self) -> int:
        """Free parameters: D means and D (D + 1)/2 entries of the covariance."""
        return self.n_features * (self.n_features + 3) // 2

    def arguments(self) -> dict[str, Any]:
        return {"n_features": self.n_features}

    def fit(
        self, x: object, *, ddof: int = 0, tolerance: float = 1e-7, max_iterations: int = 2_000
    ) -> "Gaussian":
        """Maximum likelihood, in place: sample moments; if values are missing (NaN), EM, or quasi-Newton
        steps where EM would take more than 40.

        Args:
            x: shape (N, D).
            ddof: the covariance of complete data is divided by N - ddof.
            tolerance: with missing values, the quasi-Newton fit ends when 20 iterations change the log
                evidence (of the data in standard units) by less, relative to its size; EM when no entry of
                the covariance is to change by 0.003 of its root.
            max_iterations: their largest number; beyond it, a `ConvergenceWarning` names the last change.

        Raises:
            InputError: a table that cannot be fitted.
            NumericalError: a singular covariance, as of no more rows than columns.
        """
        table, self.n_iterations = self._table(x), 0
        check_table(table, 0, tolerance, max_iterations, self.columns)
        if max(2, ddof + 1) <= len(table) <= self.n_features:
            raise NumericalError(
                f"{len(table)} rows do not determine the covariance of {self.n_features} columns; give "
                f"more than {self.n_features}, or use factor-analysis:K, or kernel-gaussian, which shrinks "
                "correlations"
            )
        if np.isnan(table).any():
            mean, covariance, self.n_iterations = fit_full(table, tolerance, max_iterations, self.columns)
        else:
            if len(table) <= ddof:
                raise InputError(f"{len(table)} rows are too few for ddof={ddof}; give more rows")
            mean = table.mean(0)
            centred = np.where(spreads(table) > 0, table - mean, 0.0)  # no rounding error in equal numbers
            covariance = centred.T @ centred / (len(table) - ddof)
        with torch.no_grad():
            self.mean.copy_(torch.from_numpy(mean))
            self._set_covariance(torch.from_numpy(covariance), n_rows=len(table))
        return self

    def _fit_again(self, table: Float64[np.ndarray, "N D"], seed: int) -> None:
        """With a prior that counts as one row of uncorrelated columns, since few rows may be singular."""
        fitted = fit_shrunk(table, 1 / (1 + len(table)), tolerance=1e-4)
        with torch.no_grad():
            self.mean.copy_(torch.from_numpy(fitted.mean))
            self._set_covariance(torch.from_numpy(fitted.covariance), n_rows=len(table))

    def _conditional_moments(
        self, centred: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        return self._given(centred, visible)[:2]

    def _log_density(
        self, centred: Float[Tensor, "B D"], present: Bool[Tensor, "B D"]
    ) -> Float[Tensor, " B"]:
        """-½ (|R| log 2π + log|Σ_RR| + |L⁻¹ z|²), z the row with conditional means for hidden tokens."""
        mean, _, log_determinant = self._given(centred, present)
        filled = torch.where(present, centred, mean)
        white = torch.linalg.solve_triangular(self.factor, filled.T, upper=False)
        constant = LOG_2PI * present.sum(1).to(centred.dtype) + log_determinant
        return -0.5 * (constant + white.square().sum(0))

    def _given(
        self, centred: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"], Float[Tensor, " B"]]:
        return given_visible(self.factor, centred, visible, 4 * _elements_at_once(centred.device))

    def score_orderings(self, tokens: Tokens, ranks: Int64[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """Scores of all nested masks of an order, from one Cholesky factor; see `orderings.py`.

        Given the first r tokens of an order with factor L, token t >= r has residual Σ_{s=r}^{t} L_ts z_s and
        variance Σ_{s=r}^{t} L_ts², z = L⁻¹(x - μ).

        Args:
            tokens: B observations.
            ranks: shape (B, D); at size M the maskable tokens of rank below M are hidden.

        Returns:
            Shape (B, D), nats; column M - 1 is the score at size M, 0 beyond an observation's tokens.
        """
        self.check_width(tokens.width)
        n, n_context = tokens.n_tokens, tokens.context.sum(1)
        position = torch.where(tokens.maskable, n[:, None] - 1 - ranks, self.n_features)
        order = torch.argsort(torch.where(tokens.context, -1, position), dim=1, stable=True)
        present = tokens.maskable | tokens.context
        covariance, centred = self.covariance, self._centred(tokens.values, present)
        arrangements, which = unique_rows(torch.cat([order, n[:, None], n_context[:, None]], dim=1))
        if len(arrangements) * _MIN_ROWS_PER_PATTERN <= len(order):
            score = torch.zeros_like(centred)
            for p, arrangement in enumerate(arrangements):
                rows, first = torch.nonzero(which == p).flatten(), int(arrangement[-1])
                tokens_of = arrangement[: first + int(arrangement[-2])]
                factor = cholesky(covariance[tokens_of][:, tokens_of])
                part = scores_of_one_order(factor, centred[rows][:, tokens_of], first)
                score = score.index_put((rows,), nn.functional.pad(part, (0, tokens.width - part.shape[1])))
            return score
        parts = []
        step = _matrices_at_once(self.n_features, order.device)
        for rows in torch.split(torch.arange(len(order), device=order.device), step):
            arranged = order[rows]
            factor = cholesky(covariance[arranged[:, :, None], arranged[:, None, :]])
            parts.append(
                scores_of_own_orders(factor, centred[rows].gather(1, arranged), n_context[rows], n[rows])
            )
        return torch.cat(parts)

    def score_moments(self, moments: GaussianMoments, masked: Bool[Tensor, "P D"]) -> Float[Tensor, " P"]:
        """The score of each of P shared masks, averaged over the complete rows behind the moments.

        With B_j = Σ_RR⁻¹ Σ_Rj and S the rows' second moments about the mean, the mean squared residual of
        token j is S_jj - 2 B_jᵀ S_Rj + B_jᵀ S_RR B_j, at a cost that does not depend on the number of rows.

        Args:
            moments: of complete rows.
            masked: shape (P, D).

        Returns:
            Shape (P,), nats per masked token.
        """
        self.check_width(len(moments.mean))
        covariance = self.covariance
        second = moments.about(self.mean).to(covariance.dtype)
        step = min(64, _matrices_at_once(self.n_features, masked.device))
        scores = []
        for part in torch.split(masked, step):
            visible = ~part
            factor = _visible_factor(covariance, visible)
            between = torch.where(visible[:, :, None], covariance, 0.0)
            white = torch.linalg.solve_triangular(factor, between, upper=False)
            variance = torch.diagonal(covariance) - white.square().sum(1)
            weights = torch.linalg.solve_triangular(factor.mT, white, upper=True)
            explained = second @ weights
            residual = torch.diagonal(second) + (weights * (explained - 2 * second)).sum(1)
            scores.append(expected_score(residual, variance, part))
        return torch.cat(scores)

    def _rescale_covariance(self, scale: Float[Tensor, " D"]) -> None:
        self.lower.mul_(scale[:, None])
        self.log_diagonal.add_(torch.log(scale))

    def _like(self) -> Tensor:
        return self.lower

    def _set_covariance(self, covariance: Float[Tensor, "D D"], n_rows: int | None = None) -> None:
        covariance = covariance.detach().to(self.lower.dtype)
        scale = torch.diagonal(covariance).abs().sqrt()
        if not bool(((covariance - covariance.T).abs() <= 1e-6 * torch.outer(scale, scale)).all()):
            raise InputError("the covariance is not symmetric; give (C + Cᵀ)/2 if the difference is rounding")
        factor, failed = torch.linalg.cholesky_ex(covariance)
        least, smallest = self.n_features * torch.finfo(covariance.dtype).eps, -np.inf
        if not int(failed):  # 1 / trace of the inverse is below all eigenvalues, at a fifth of their cost
            smallest = 1 / (torch.diagonal(torch.cholesky_inverse(factor)) * scale.square()).sum().item()
        if not smallest > 10 * least:
            smallest = smallest_correlation_eigenvalue(covariance.cpu().double().numpy())
        if int(failed) or smallest <= least:
            of = "" if n_rows is None else f" of {n_rows} rows and {self.n_features} columns"
            raise NumericalError(
                f"the covariance{of} is not positive definite: scaled to a unit diagonal, its smallest "
                f"eigenvalue is {smallest:.3g}; leave out columns that depend on others, or use ppca or "
                "factor-analysis"
            )
        with torch.no_grad():
            self.lower.copy_(torch.tril(factor, -1))
            self.log_diagonal.copy_(torch.log(torch.diagonal(factor)))


def _matrices_at_once(n_features: int, device: torch.device) -> int:
    return max(1, _elements_at_once(device) // n_features**2)


def _elements_at_once(device: torch.device) -> int:
    return _MAX_ELEMENTS_CUDA if device.type == "cuda" else _MAX_ELEMENTS


def _visible_factor(covariance: Float[Tensor, "D D"], visible: Bool[Tensor, "P D"]) -> Float[Tensor, "P D D"]:
    """Cholesky factors of the visible blocks, with the identity for the other tokens."""
    both = visible[:, :, None] & visible[:, None, :]
    return cholesky(torch.where(both, covariance, torch.eye(*covariance.shape).to(covariance)))
