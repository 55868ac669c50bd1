"""Maximum likelihood for the Gaussian family: in closed form, or by iteration where there is none."""

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from maskevidence.errors import InputError, NumericalError
from maskevidence.support.progress import progress
from maskevidence.tokens import Tokens

State = TypeVar("State")
Vector = Float64[np.ndarray, " D"]
Matrix = Float64[np.ndarray, "D K"]
Table = Float64[np.ndarray, "N D"]
_STEPS_AT_ONCE = 20  # of L-BFGS, between two looks at what they gained
_AT_BOUND = 1.05  # a noise variance closer to its bound than this is put on it
NOISE_BOUND = 1e-3  # of the column's variance: below it a factor model's likelihood can grow without end


class LowRankParameters(NamedTuple):
    """Parameters of N(mean, loadings loadingsᵀ + diag(noise)).

    Attributes:
        mean: shape (D,).
        loadings: shape (D, K).
        noise: shape (D,); variances.
    """

    mean: Float64[np.ndarray, " D"]
    loadings: Float64[np.ndarray, "D K"]
    noise: Float64[np.ndarray, " D"]


def checked_table(
    x: object, n_features: int, n_components: int, tolerance: float, max_iterations: int
) -> Table:
    """The table as float64 with NaN where missing, if a model can be fitted to it.

    Raises:
        InputError: not a table, wrong width, fewer rows than needed, a column that is observed nowhere, or
            no column that varies.
    """
    tokens = Tokens.from_array(x)
    table = np.where(tokens.maskable.numpy(), tokens.values.numpy(), np.nan)
    if table.shape[1] != n_features:
        raise InputError(
            f"the data have {table.shape[1]} columns, the model n_features={n_features}; make them equal"
        )
    unseen = np.flatnonzero(np.isnan(table).all(axis=0))
    if len(unseen):
        raise InputError(f"column {unseen[0]} is observed nowhere; leave it out")
    if len(table) < max(2, n_components + 1):
        what = f" for {n_components} components" if n_components else ""
        raise InputError(f"{len(table)} rows are too few{what}; give at least {max(2, n_components + 1)}")
    if not tolerance > 0 or max_iterations < 2:
        raise InputError(
            f"tolerance={tolerance:g}, max_iterations={max_iterations}; "
            "the first must be above 0 and the second 2 or more, since what an iteration gains is judged"
        )
    if (np.nanmax(table, axis=0) == np.nanmin(table, axis=0)).all():
        raise InputError("every column is constant; there is nothing to fit")
    return table


def principal_components(table: Table, n_components: int, ddof: int) -> LowRankParameters:
    """Maximum likelihood PPCA of complete data (Tipping and Bishop 1999, Eq. 7 and 8)."""
    n_rows, n_features = table.shape
    if n_rows <= ddof:
        raise InputError(f"{n_rows} rows are too few for ddof={ddof}; give more rows")
    mean = table.mean(0)
    _, singular, axes = np.linalg.svd(table - mean, full_matrices=False)
    eigenvalues = np.zeros(n_features)
    eigenvalues[: len(singular)] = singular**2 / (n_rows - ddof)
    noise = float(eigenvalues[n_components:].mean())
    if noise <= eigenvalues[0] * np.finfo(np.float64).eps * n_features:
        raise NumericalError(
            f"the data lie in a space of {n_components} dimensions or fewer, so that no noise variance is "
            "left; use fewer components"
        )
    scale = np.sqrt(np.maximum(eigenvalues[:n_components] - noise, 0.0))  # equal ones differ by rounding
    return LowRankParameters(mean, axes[:n_components].T * scale, np.full(n_features, noise))


def fit_factor_analysis(
    table: Table, n_components: int, tolerance: float, max_iterations: int
) -> LowRankParameters:
    """Maximum likelihood factor analysis of complete data.

    For given noise the best loadings come from the leading eigenvectors of Ψ^-½ S Ψ^-½; what remains is a
    function of ψ alone with ∂/∂ψ_j = ½ (S_jj - |w_j|² - ψ_j)/ψ_j², nats per observation, climbed by L-BFGS in
    θ with ψ_j = S_jj (b + (1 - b)·sigmoid(θ_j)), b = `NOISE_BOUND`. (Alternating between loadings and noise
    creeps where a ψ_j tends to 0, and stops short.)

    Source:
        Jöreskog (1967), Some Contributions to Maximum Likelihood Factor Analysis.
    """
    mean = table.mean(0)
    scale = table.std(0)
    correlation = (table - mean).T @ (table - mean) / len(table) / np.outer(scale, scale)
    constant = -0.5 * len(scale) * math.log(2 * math.pi) - np.log(scale).sum()

    def best_loadings(noise: Vector) -> tuple[Matrix, float]:
        root = np.sqrt(noise)
        eigenvalues, vectors = np.linalg.eigh(correlation / np.outer(root, root))
        leading = np.maximum(eigenvalues[-n_components:], 1.0)
        loadings = root[:, None] * vectors[:, -n_components:] * np.sqrt(leading - 1.0)
        explained = (eigenvalues[-n_components:] * (1.0 - 1.0 / leading)).sum()
        log_determinant = np.log(noise).sum() + np.log(leading).sum()
        return loadings, float(constant - 0.5 * (log_determinant + eigenvalues.sum() - explained))

    def climbed(start: Vector) -> Vector:
        share = np.clip((start - NOISE_BOUND) / (1.0 - NOISE_BOUND), 0.01, 0.99)
        theta = torch.from_numpy(np.log(share / (1.0 - share)))
        optimizer = torch.optim.LBFGS(
            [theta],
            max_iter=_STEPS_AT_ONCE,
            history_size=_STEPS_AT_ONCE,
            tolerance_grad=0.0,
            tolerance_change=0.0,
            line_search_fn="strong_wolfe",
        )

        def noise_and_share() -> tuple[Vector, Vector]:
            share = torch.sigmoid(theta).numpy()
            return NOISE_BOUND + (1.0 - NOISE_BOUND) * share, share

        def closure() -> float:
            noise, share = noise_and_share()
            loadings, log_evidence = best_loadings(noise)
            slope = 0.5 * (1.0 - (loadings**2).sum(1) - noise) / noise**2
            theta.grad = torch.from_numpy(-slope * (1.0 - NOISE_BOUND) * share * (1.0 - share))
            return -log_evidence

        def step(state: Tensor) -> tuple[Tensor, float]:
            return state, -float(optimizer.step(closure))  # type: ignore[no-untyped-call]

        with torch.no_grad():
            _climb(step, theta, "factor analysis", tolerance, max_iterations)
        noise, _ = noise_and_share()
        return np.where(noise < _AT_BOUND * NOISE_BOUND, NOISE_BOUND, noise)

    # the likelihood can have several maxima: climb from where EM starts, from half of each variance, and from
    # what the other columns leave of each
    principal = principal_components((table - mean) / scale, n_components, ddof=0)
    unexplained = 1.0 / np.diagonal(np.linalg.pinv(correlation, hermitian=True))
    starts = (principal.noise, np.full(len(scale), 0.5), unexplained)
    noise = max((climbed(start) for start in starts), key=lambda noise: best_loadings(noise)[1])
    loadings, _ = best_loadings(noise)
    return LowRankParameters(mean, loadings * scale[:, None], noise * scale**2)


def fit_low_rank_em(
    table: Table,
    start: LowRankParameters,
    tolerance: float,
    max_iterations: int,
    *,
    isotropic: bool,
) -> LowRankParameters:
    """Maximum likelihood of a low-rank Gaussian where values are missing, by EM.

    E-step, for every row i with observed tokens R: z | x_R ~ N(m_i, A_i⁻¹). M-step, for every feature j: the
    regression of x_ij on (z, 1) over the rows where j is observed gives w_j and μ_j, its mean squared
    residual ψ_j (one σ² for all where `isotropic`).

    Source:
        Ilin and Raiko (2010), Practical Approaches to Principal Component Analysis in the Presence of Missing
        Values, section 4; Little and Rubin (2002), chapter 8.
    """
    observed = ~np.isnan(table)
    shift = np.nanmean(table, axis=0)  # rows near 0, for accuracy
    x = np.where(observed, table - shift, 0.0)
    seen = observed.astype(np.float64)
    n_seen = seen.sum(0)
    k = start.loadings.shape[1]
    variance = np.nanvar(table, axis=0)

    def step(old: LowRankParameters) -> tuple[LowRankParameters, float]:
        scaled = old.loadings / old.noise[:, None]
        outer = (scaled[:, :, None] * old.loadings[:, None, :]).reshape(-1, k * k)
        precision = np.eye(k) + (seen @ outer).reshape(-1, k, k)
        covariance = np.linalg.inv(precision)
        centred = np.where(observed, x - old.mean, 0.0)
        projected = centred @ scaled
        latent = (covariance @ projected[:, :, None])[:, :, 0]
        distance = (centred**2 / old.noise).sum() - (projected * latent).sum()
        constant = (seen @ np.log(2 * np.pi * old.noise)).sum() + np.linalg.slogdet(precision)[1].sum()
        log_evidence = -0.5 * (constant + distance) / len(x)

        design = np.concatenate([latent, np.ones((len(x), 1))], axis=1)
        second = design[:, :, None] * design[:, None, :]
        second[:, :k, :k] += covariance
        gram = (seen.T @ second.reshape(len(x), -1)).reshape(-1, k + 1, k + 1)
        target = x.T @ design
        solution = np.linalg.solve(gram, target[:, :, None])[:, :, 0]
        residual = (x**2).sum(0) - (target * solution).sum(1)
        if isotropic:
            noise = np.full_like(residual, residual.sum() / n_seen.sum())
        else:
            noise = np.maximum(residual / n_seen, NOISE_BOUND * variance)
        return LowRankParameters(solution[:, k], solution[:, :k], noise), float(log_evidence)

    first = LowRankParameters(start.mean - shift, start.loadings, start.noise)
    last = _climb(step, first, "EM", tolerance, max_iterations)
    return LowRankParameters(last.mean + shift, last.loadings, last.noise)


def fit_full_em(table: Table, tolerance: float, max_iterations: int) -> tuple[Vector, Matrix]:
    """Maximum likelihood mean and covariance where values are missing, by EM.

    The E-step fills each row by its conditional mean and adds the conditional covariance of what was missing,
    once per pattern of observed columns.

    Source:
        Little and Rubin (2002), Statistical Analysis with Missing Data, section 11.2.
    """
    observed = ~np.isnan(table)
    shift = np.nanmean(table, axis=0)
    x = np.where(observed, table - shift, 0.0)
    patterns, pattern_of, n_rows = np.unique(observed, axis=0, return_inverse=True, return_counts=True)
    pattern_of = pattern_of.ravel()
    width = table.shape[1]
    both = patterns[:, :, None] & patterns[:, None, :]
    rest = np.where(patterns, 0.0, 1.0)[:, :, None] * np.eye(width)

    def step(old: tuple[Vector, Matrix]) -> tuple[tuple[Vector, Matrix], float]:
        mean, covariance = old
        smallest = smallest_correlation_eigenvalue(covariance)
        if smallest <= math.sqrt(np.finfo(np.float64).eps):  # there differences of covariances are rounding
            raise NumericalError(
                "EM runs into a covariance that is not positive definite: scaled to a unit diagonal, its "
                f"smallest eigenvalue is {smallest:.1g}; leave out column {_most_dependent(covariance)}, all "
                "but determined by the others, give more rows, or use ppca or factor-analysis"
            )
        block = np.where(both, covariance, 0.0) + rest
        factor = torch.linalg.cholesky(torch.from_numpy(block))  # half the time of numpy's inv
        inverse = torch.cholesky_inverse(factor).numpy() - rest
        log_determinant = 2 * torch.log(torch.diagonal(factor, dim1=1, dim2=2)).sum(1).numpy()
        weights = inverse @ covariance  # (P, D, D): column j regresses token j on the observed ones
        centred = np.where(observed, x - mean, 0.0)
        distance = np.einsum("nd,nde,ne->", centred, inverse[pattern_of], centred)
        constant = observed.sum() * np.log(2 * np.pi) + log_determinant[pattern_of].sum()
        filled = mean + np.where(observed, centred, (centred[:, None, :] @ weights[pattern_of])[:, 0])
        missing = covariance - covariance @ weights
        new_mean = filled.mean(0)
        new = (filled - new_mean).T @ (filled - new_mean) + np.einsum("p,pde->de", n_rows * 1.0, missing)
        return (new_mean, (new + new.T) / (2 * len(x))), float(-0.5 * (constant + distance) / len(x))

    mean, covariance = _climb(
        step, (np.zeros(width), np.diag(np.nanvar(table, axis=0))), "EM", tolerance, max_iterations
    )
    return mean + shift, covariance


def _climb(
    step: Callable[[State], tuple[State, float]],
    state: State,
    name: str,
    tolerance: float,
    max_iterations: int,
) -> State:
    """Repeat `step`, which returns the next state and the log evidence per row of the one it was given."""
    previous = rise = -math.inf
    with progress(name, max_iterations) as advance:
        for _ in range(max_iterations):
            following, log_evidence = step(state)
            rise = log_evidence - previous
            if not math.isfinite(log_evidence):
                raise NumericalError(
                    f"{name} reached a log evidence of {log_evidence}; check the data's scale"
                )
            if rise < tolerance:
                return state
            state, previous = following, log_evidence
            advance(1)
    raise NumericalError(
        f"{name} did not converge in {max_iterations} iterations: the last one still raised the log evidence "
        f"by {rise:.3g} nats per observation (tolerance {tolerance:g}); raise max_iterations or the tolerance"
    )


def smallest_correlation_eigenvalue(covariance: Float64[np.ndarray, "D D"]) -> float:
    """The smallest eigenvalue of a covariance scaled to a unit diagonal, so that units do not matter.

    Example:
        >>> round(smallest_correlation_eigenvalue(np.array([[4e12, 1.0], [1.0, 1e-12]])), 9)
        0.5
    """
    scale = np.sqrt(np.abs(np.diagonal(covariance)))
    scale = np.where(scale > 0, scale, 1.0)
    return float(np.linalg.eigvalsh(covariance / scale[:, None] / scale)[0])


def _most_dependent(covariance: Float64[np.ndarray, "D D"]) -> int:
    """The column with the largest weight in the most nearly vanishing combination of scaled columns."""
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(np.float64).tiny))
    return int(np.abs(np.linalg.eigh(covariance / scale[:, None] / scale)[1][:, 0]).argmax())


def filled_by_mean(table: Table) -> Table:
    """The table with each hole filled by its column's mean: where EM starts from."""
    return np.where(np.isnan(table), np.nanmean(table, axis=0), table)
