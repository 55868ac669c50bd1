"""Maximum likelihood of the Gaussian family from rows with missing values."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.errors import NumericalError
from maskevidence.core.support.progress import progress
from maskevidence.core.table import spreads
from maskevidence.core.tokens import called
from maskevidence.tables.gaussian.family import (
    NOISE_BOUND,
    DataRows,
    LowRankParameters,
    Matrix,
    Vector,
    no_noise_left,
    principal_axes,
    smallest_correlation_eigenvalue,
)
from maskevidence.tables.gaussian.quasi_newton import Evaluation, Point, maximise


class MissingRows(NamedTuple):
    """The parts of rows with missing values that a Gaussian likelihood needs.

    The rows of a pattern enter it only through the Gram matrix of [1, x]. If they are more than D + 1,
    the triangular factor of a QR decomposition, which has the same Gram matrix, stands for them.
    """

    shift: Vector  # shape (D,); the mean of the observed values of each column
    scale: Vector  # shape (D,); their standard deviation, 1 for a constant column
    seen: Float64[np.ndarray, "P D"]  # 1 where a value is observed, for each pattern
    n_rows: Float64[np.ndarray, " P"]  # the rows of each pattern
    pattern_of: Int64[np.ndarray, " R"]  # the pattern of each of the kept rows, in ascending order
    weight: Float64[np.ndarray, " R"]  # what stands for 1 in the kept rows
    values: Float64[np.ndarray, "R D"]  # the kept rows of (x - shift) / scale, 0 where missing

    @property
    def total(self) -> float:
        """The number of rows."""
        return float(self.n_rows.sum())

    @property
    def n_seen(self) -> Vector:
        """The number of observed values in each column, shape (D,)."""
        return self.n_rows @ self.seen

    def centred(self, mean: Vector) -> Float64[np.ndarray, "R D"]:
        """The kept rows minus a mean, 0 where missing."""
        return (self.values - self.weight[:, None] * mean) * self.seen[self.pattern_of]


def gather_rows(table: DataRows) -> MissingRows:
    """Bring a table into standard units, and its rows into patterns.

    Example:
        >>> rows = gather_rows(np.array([[1.0, 2.0], [3.0, np.nan], [5.0, np.nan], [3.0, 4.0]]))
        >>> rows.seen.tolist(), rows.n_rows.tolist(), rows.shift.tolist()
        ([[1.0, 0.0], [1.0, 1.0]], [2.0, 2.0], [3.0, 3.0])
    """
    observed = ~np.isnan(table)
    shift, scale = np.nanmean(table, axis=0), spreads(table)
    scale = np.where(scale > 0, scale, 1.0)
    values = np.where(observed, (table - shift) / scale, 0.0)
    patterns, which, counts = np.unique(observed, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(which.ravel(), kind="stable")
    with_one = np.column_stack([np.ones(len(table)), values])[order]
    groups = np.split(with_one, np.cumsum(counts)[:-1])
    kept = [np.linalg.qr(group, mode="r") if len(group) > group.shape[1] else group for group in groups]
    rows = np.concatenate(kept)
    pattern_of = np.repeat(np.arange(len(kept)), [len(group) for group in kept])
    n_rows = counts.astype(np.float64)
    return MissingRows(shift, scale, patterns.astype(np.float64), n_rows, pattern_of, rows[:, 0], rows[:, 1:])


_LOG_2PI = math.log(2 * math.pi)
_MAX_LOG_NOISE = 500.0  # far beyond the squares of what a table may hold, and short of an overflow
_NOT_ALLOWED = Evaluation(-math.inf, np.zeros(0), lambda gradient: gradient)


class LowRankLikelihood:
    """The mean log evidence per row of N(μ, W Wᵀ + Ψ), standard units, as a function of (W, μ, log noise).

    For a row with observed tokens R, z | x_R ~ N(m, A⁻¹) with A = I + W_Rᵀ Ψ_R⁻¹ W_R and
    m = A⁻¹ W_Rᵀ Ψ_R⁻¹ (x_R - μ_R). With the residual r = x_R - μ_R - W_R m,

        log p(x_R) = -½ (|R| log 2π + log|Ψ_R| + log|A| + rᵀ Ψ_R⁻¹ r + mᵀ m)
        ∂/∂w_j = (r_j m - A⁻¹ w_j)/ψ_j,   ∂/∂μ_j = r_j/ψ_j,   ∂/∂log ψ_j = ½ ((r_j² + w_jᵀ A⁻¹ w_j)/ψ_j - 1)

    for every observed j. EM regresses x_j on (z, 1) over the rows where j is observed: its step is the
    gradient of (w_j, μ_j) times ψ_j (Σ E (z, 1)(z, 1)ᵀ)⁻¹, and that of log ψ_j times 2/n_j.

    Args:
        isotropic: True for PPCA, whose noise is one number, in the units of the data; False for factor
            analysis.

    Source:
        Ilin and Raiko (2010), Practical Approaches to Principal Component Analysis in the Presence of Missing
        Values, section 4; Little and Rubin (2002), chapter 8.
    """

    def __init__(self, rows: MissingRows, n_components: int, *, isotropic: bool) -> None:
        self.rows = rows
        self.n_components = n_components
        self.isotropic = isotropic
        self._shape = (len(rows.shift), n_components)
        self._n_seen = rows.n_seen
        self._seen = rows.seen[rows.pattern_of]

    def parts(self, point: Point) -> tuple[Matrix, Vector, Vector]:
        """Loadings, mean and noise variances in standard units, of shapes (D, K), (D,) and (D,)."""
        width, k = self._shape
        noise = np.exp(point[width * (k + 1) :])
        if self.isotropic:
            noise = noise / self.rows.scale**2
        return point[: width * k].reshape(width, k), point[width * k : width * (k + 1)], noise

    def __call__(self, point: Point) -> Evaluation:
        """The value, its gradient and the metric of EM."""
        rows, k = self.rows, self.n_components
        if np.abs(point[self._shape[0] * (k + 1) :]).max() > _MAX_LOG_NOISE:
            return _NOT_ALLOWED
        loadings, mean, noise = self.parts(point)
        scaled = loadings / noise[:, None]
        outer = (scaled[:, :, None] * loadings[:, None, :]).reshape(-1, k * k)
        precision = np.eye(k) + (rows.seen @ outer).reshape(-1, k, k)
        sign, log_determinant = np.linalg.slogdet(precision)
        if not (np.isfinite(log_determinant).all() and (sign > 0).all()):
            return _NOT_ALLOWED
        covariance = np.linalg.inv(precision)
        centred = rows.centred(mean)
        projected = centred @ scaled
        latent = np.einsum("rkl,rl->rk", covariance[rows.pattern_of], projected)
        residual = (centred - latent @ loadings.T) * self._seen
        constant = rows.n_rows @ log_determinant + self._n_seen @ (_LOG_2PI + np.log(noise))
        distance = (residual**2 / noise).sum() + (latent**2).sum()
        spread = (rows.seen.T @ (rows.n_rows[:, None] * covariance.reshape(-1, k * k))).reshape(-1, k, k)
        of_loadings = (residual.T @ latent - np.einsum("dkl,dl->dk", spread, loadings)) / noise[:, None]
        error = (residual**2).sum(0) + np.einsum("dk,dkl,dl->d", loadings, spread, loadings)
        of_noise = 0.5 * (error / noise - self._n_seen)
        gradient = [of_loadings.ravel(), residual.T @ rows.weight / noise]
        gradient.append(of_noise.sum(keepdims=True) if self.isotropic else of_noise)
        inverse = self._inverse_gram(latent, spread)
        return Evaluation(
            float(-0.5 * (constant + distance) / rows.total),
            np.concatenate(gradient) / rows.total,
            lambda vector: self._step_of_em(vector, inverse, noise),
        )

    def _inverse_gram(
        self, latent: Float64[np.ndarray, "R K"], spread: Float64[np.ndarray, "D K K"]
    ) -> Float64[np.ndarray, "D L L"]:
        """The inverse of Σ E (z, 1)(z, 1)ᵀ over the rows where a feature is observed, for each, L = K + 1."""
        width, k = self._shape
        design = np.column_stack([latent, self.rows.weight])
        second = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
        gram = (self._seen.T @ second).reshape(width, k + 1, k + 1)
        gram[:, :k, :k] += spread
        return np.linalg.inv(gram)

    def _step_of_em(self, gradient: Point, inverse: Float64[np.ndarray, "D L L"], noise: Vector) -> Point:
        width, k = self._shape
        of_loadings = gradient[: width * k].reshape(width, k)
        of_design = np.column_stack([of_loadings, gradient[width * k : width * (k + 1)]]) * noise[:, None]
        step = np.einsum("dkl,dl->dk", inverse, of_design)
        n_noise = self._n_seen.sum() if self.isotropic else self._n_seen
        of_noise = 2.0 * gradient[width * (k + 1) :] / n_noise
        return np.concatenate([step[:, :k].ravel(), step[:, k], of_noise]) * self.rows.total


class _Holes(NamedTuple):
    """The patterns with equally many missing values, and their rows."""

    columns: Int64[np.ndarray, "p h"]  # the missing columns of each pattern
    cells: Int64[np.ndarray, "p h h"]  # the positions of all pairs of them in a flat D×D matrix
    n_rows: Float64[np.ndarray, " p"]  # the rows of each pattern
    rows: Int64[np.ndarray, " r"]  # the positions of the kept rows
    pattern_of: Int64[np.ndarray, " r"]  # the pattern of each


def _holes_by_size(rows: MissingRows) -> list[_Holes]:
    """The patterns with missing values, by the number of these."""
    n_missing = (rows.seen == 0).sum(1)
    groups = []
    for size in np.unique(n_missing[n_missing > 0]):
        patterns = np.flatnonzero(n_missing == size)
        columns = np.nonzero(rows.seen[patterns] == 0)[1].reshape(len(patterns), size)
        kept = np.flatnonzero(np.isin(rows.pattern_of, patterns))
        of_pattern = np.searchsorted(patterns, rows.pattern_of[kept])
        cells = columns[:, :, None] * len(rows.shift) + columns[:, None, :]
        groups.append(_Holes(columns, cells, rows.n_rows[patterns], kept, of_pattern))
    return groups


class FullLikelihood:
    """The mean log evidence per row of N(μ, L Lᵀ), standard units, as a function of (μ, the triangle L).

    With b = Σ_RR⁻¹ (x_R - μ_R) for the observed tokens R of a row, 0 elsewhere:

        log p(x_R) = -½ (|R| log 2π + log|Σ_RR| + (x_R - μ_R)ᵀ b)
        ∂/∂μ = b,   ∂/∂Σ = G = ½ (b bᵀ - Σ_RR⁻¹)

    and ∂/∂L is the triangle of 2 G L. EM moves μ by Σ·∂/∂μ and Σ by 2 Σ G Σ, that is, L by L·Φ(Lᵀ ∂/∂L),
    where Φ takes the triangle and halves its diagonal.

    With K = Σ⁻¹, only blocks of the size of the hole, M, are inverted for each pattern:

        log|Σ_RR| = log|Σ| + log|K_MM|,   Σ_RR⁻¹ = K_RR - K_RM K_MM⁻¹ K_MR

    Source:
        Little and Rubin (2002), Statistical Analysis with Missing Data, section 11.2.
    """

    def __init__(self, rows: MissingRows) -> None:
        self.rows = rows
        self._width = len(rows.shift)
        self._triangle = np.tril_indices(self._width)
        self._holes = _holes_by_size(rows)
        self._seen = rows.seen[rows.pattern_of]

    def point(self, mean: Vector, factor: Matrix) -> Point:
        """The arguments of a mean and a triangular factor."""
        return np.concatenate([mean, factor[self._triangle]])

    def parts(self, point: Point) -> tuple[Vector, Matrix]:
        """Mean and triangular factor in standard units, of shapes (D,) and (D, D)."""
        factor = np.zeros((self._width, self._width))
        factor[self._triangle] = point[self._width :]
        return point[: self._width], factor

    def __call__(self, point: Point) -> Evaluation:
        """The value, its gradient and the metric of EM."""
        rows, width = self.rows, self._width
        mean, factor = self.parts(point)
        diagonal = np.diagonal(factor)
        if not diagonal.all():
            return _NOT_ALLOWED
        inverse = np.linalg.inv(factor)
        precision = inverse.T @ inverse
        centred = rows.centred(mean)
        try:
            filled, of_holes, log_determinant = self._expected(centred, precision)
        except np.linalg.LinAlgError:
            return _NOT_ALLOWED
        log_determinant += 2 * rows.total * np.log(np.abs(diagonal)).sum()
        weighted = (filled @ precision) * self._seen
        inverses = precision @ (rows.total * np.eye(width) - of_holes @ precision)
        constant = log_determinant + rows.n_seen.sum() * _LOG_2PI
        of_covariance = weighted.T @ weighted - inverses
        gradient = self.point(weighted.T @ rows.weight, of_covariance @ factor)
        return Evaluation(
            float(-0.5 * (constant + (centred * weighted).sum()) / rows.total),
            gradient / rows.total,
            lambda vector: self._step_of_em(vector, factor),
        )

    def em(self, mean: Vector, covariance: Matrix) -> tuple[Vector, Matrix]:
        """Mean and covariance after a step of EM: the moments of the rows with what they expect in holes."""
        rows = self.rows
        filled, of_holes, _ = self._expected(rows.centred(mean), np.linalg.inv(covariance))
        shift = rows.weight @ filled / rows.total
        return mean + shift, (filled.T @ filled + of_holes) / rows.total - np.outer(shift, shift)

    def _expected(
        self, centred: Float64[np.ndarray, "R D"], precision: Matrix
    ) -> tuple[Float64[np.ndarray, "R D"], Matrix, float]:
        """The kept rows with conditional means in holes, the sum of K_MM⁻¹, and that of log|K_MM|."""
        width, log_determinant = self._width, 0.0
        centred_by_precision = centred @ precision
        filled, of_holes = centred.copy(), np.zeros(width * width)
        for holes in self._holes:
            block = precision.ravel()[holes.cells]
            lower = np.linalg.cholesky(block)
            log_determinant += 2 * holes.n_rows @ np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(1)
            covariance = np.linalg.inv(block)
            columns = holes.columns[holes.pattern_of]
            right = np.take_along_axis(centred_by_precision[holes.rows], columns, axis=1)
            expected = -np.einsum("rhk,rk->rh", covariance[holes.pattern_of], right)
            filled[holes.rows[:, None], columns] = expected
            weights = holes.n_rows[:, None, None] * covariance
            of_holes += np.bincount(holes.cells.ravel(), weights.ravel(), minlength=width * width)
        return filled, of_holes.reshape(width, width), log_determinant

    def _step_of_em(self, gradient: Point, factor: Matrix) -> Point:
        of_mean, of_factor = self.parts(gradient)
        inner = np.tril(factor.T @ of_factor)
        inner[np.diag_indices(self._width)] /= 2
        return self.point(factor @ (factor.T @ of_mean), factor @ inner)


_NO_NOISE = 1e-12  # share of the variance of every column; below it PPCA's likelihood grows without end
_EM_STEPS = 40  # of EM, before the ascent that is faster where EM is slow
_TRIED = 8  # steps of EM that tell whether it ends within these
_STANDS = 3e-3  # of the root of the tolerance: the change of a covariance that is as good as none
_SINGULAR = float(np.sqrt(np.finfo(np.float64).eps))  # differences below are rounding


def fit_low_rank(
    table: DataRows,
    n_components: int,
    tolerance: float,
    max_iterations: int,
    *,
    isotropic: bool,
    like: LowRankParameters | None = None,
) -> LowRankParameters:
    """Maximum likelihood of a low-rank Gaussian from rows with missing values.

    The ascent works in standard units and starts from the closed form of PPCA for the table with every hole
    filled by the mean of its column; or, `like` a fit with fewer components, by what that fit expects there.

    Args:
        tolerance: the ascent ends when 20 iterations raise the log evidence in standard units by less,
            relative to its size.
    """
    rows = gather_rows(table)
    objective = LowRankLikelihood(rows, n_components, isotropic=isotropic)
    filled = np.where(np.isnan(table), rows.shift if like is None else _expected_values(table, like), table)
    start, lower = _starting_point(rows, filled, objective)

    def check(point: Point) -> None:
        if isotropic and (objective.parts(point)[2] < _NO_NOISE).all():
            raise no_noise_left(n_components)

    point, n_iterations = maximise(objective, start, lower, tolerance, max_iterations, check)
    loadings, mean, noise = objective.parts(point)
    return LowRankParameters(
        mean * rows.scale + rows.shift, loadings * rows.scale[:, None], noise * rows.scale**2, n_iterations
    )


def _starting_point(rows: MissingRows, table: DataRows, objective: LowRankLikelihood) -> tuple[Point, Point]:
    """Where the ascent starts for a table with its holes filled, and the lower bounds of the coordinates."""
    isotropic = objective.isotropic
    unit = rows.scale if isotropic else np.ones_like(rows.scale)
    standard = (table - rows.shift) / rows.scale * unit
    closed_form = principal_axes(standard).of(objective.n_components)
    loadings, noise = closed_form.loadings, closed_form.noise
    log_noise = np.log(noise[:1]) if isotropic else np.log(np.maximum(noise, NOISE_BOUND))
    start = np.concatenate([(loadings / unit[:, None]).ravel(), np.zeros(len(unit)), log_noise])
    lower = np.full(len(start), -np.inf)
    if not isotropic:
        lower[-len(unit) :] = np.log(NOISE_BOUND)
    return start, lower


def _expected_values(table: DataRows, fitted: LowRankParameters) -> DataRows:
    """The mean of every value given the observed ones of its row, shape (N, D)."""
    seen, noise = ~np.isnan(table), fitted.noise
    centred = np.where(seen, table - fitted.mean, 0.0)
    scaled = fitted.loadings / noise[:, None]
    k = fitted.loadings.shape[1]
    outer = (scaled[:, :, None] * fitted.loadings[:, None, :]).reshape(-1, k * k)
    precision = np.eye(k) + (seen.astype(np.float64) @ outer).reshape(-1, k, k)
    latent = np.linalg.solve(precision, (centred @ scaled)[:, :, None])[:, :, 0]
    return fitted.mean + latent @ fitted.loadings.T


def fit_full(
    table: DataRows, tolerance: float, max_iterations: int, names: Sequence[str] | None = None
) -> tuple[Vector, Matrix, int]:
    """Maximum likelihood mean and covariance from rows with missing values.

    Returns:
        Mean, shape (D,), covariance, shape (D, D), in the units of the table, and the number of iterations.
    """
    rows = gather_rows(table)
    objective = FullLikelihood(rows)

    def check(point: Point) -> None:
        factor = objective.parts(point)[1]
        _refuse_singular(factor @ factor.T, names)

    start = np.zeros(len(rows.shift)), np.diag(np.nanvar((table - rows.shift) / rows.scale, axis=0))
    check(objective.point(start[0], np.sqrt(start[1])))
    by_em = _climb_by_em(objective, *start, tolerance, max_iterations, names)
    if by_em is None:
        point = objective.point(start[0], np.sqrt(start[1]))
        lower = np.full(len(point), -np.inf)
        point, n_iterations = maximise(objective, point, lower, tolerance, max_iterations, check)
        mean, factor = objective.parts(point)
        covariance = factor @ factor.T
    else:
        mean, covariance, n_iterations = by_em
    return mean * rows.scale + rows.shift, covariance * np.outer(rows.scale, rows.scale), n_iterations


def _climb_by_em(
    objective: FullLikelihood,
    mean: Vector,
    covariance: Matrix,
    tolerance: float,
    max_iterations: int,
    names: Sequence[str] | None,
) -> tuple[Vector, Matrix, int] | None:
    """Mean, covariance and the number of steps of EM, if it ends in 40 of them; None as soon as it will not.

    EM ends where the changes that are still to come, a geometric series, sum to less than 0.003 √tolerance in
    standard units: the log evidence, flat at its maximum, then lacks about the square of it. Where EM is
    slow, the ascent from its point took as many iterations as from the start.
    """
    aim, last = _STANDS * math.sqrt(tolerance), np.inf
    most = min(_EM_STEPS, max_iterations)
    with progress("fit", most) as advance:
        for step in range(1, most + 1):
            mean, new = objective.em(mean, covariance)
            before, covariance = covariance, new
            change = float(np.abs(new - before).max())
            _refuse_singular(covariance, names)
            rate, last = min(change / last, 1.0) if last else 0.0, change
            left = change * rate / (1.0 - rate) if rate < 1.0 else np.inf
            if step > 1 and left <= aim:
                # A determinant that still falls has no end: the ascent follows it, and refuses it.
                smallest = [smallest_correlation_eigenvalue(each) for each in (before, covariance)]
                return (mean, covariance, step) if smallest[1] > 0.999 * smallest[0] else None
            if step >= _TRIED and left * rate ** (most - step) > aim:
                return None
            advance(1)
    return None


def _refuse_singular(covariance: Matrix, names: Sequence[str] | None) -> None:
    """Stop where the likelihood grows without end, because columns determine each other."""
    smallest = smallest_correlation_eigenvalue(covariance)
    if smallest > _SINGULAR:
        return
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(np.float64).tiny))
    weights = np.linalg.eigh(covariance / scale[:, None] / scale)[1][:, 0]
    raise NumericalError(
        "the fit runs into a covariance that is not positive definite: scaled to a unit diagonal, its "
        f"smallest eigenvalue is {smallest:.1g}; leave out column {called(names, np.abs(weights).argmax())}, "
        "all but determined by the others, give more rows, or use ppca or factor-analysis"
    )
