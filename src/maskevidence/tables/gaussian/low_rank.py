"""Gaussians of low rank plus diagonal, by K×K solves: probabilistic PCA and factor analysis."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.moments import GaussianMoments
from maskevidence.core.show.draw import plot
from maskevidence.core.show.pictures import ColourGrid
from maskevidence.core.show.shown import Columns, data_frame
from maskevidence.core.show.words import count, typeset
from maskevidence.core.support.checks import whole_number
from maskevidence.core.tokens import Tokens
from maskevidence.tables.gaussian.factor_likelihood import fit_factor_analysis
from maskevidence.tables.gaussian.family import (
    LOG_2PI,
    NOISE_BOUND,
    GaussianFamily,
    LowRankParameters,
    Matrix,
    Vector,
    check_table,
    cholesky,
    principal_axes,
    refuse_constant,
)
from maskevidence.tables.gaussian.missing_values import fit_low_rank

_MAX_ELEMENTS = 2**18  # of a chunk's (K, masks, D) intermediates: 2 MiB in float64, which fit into the cache
_MIN_MASKS = 64  # in a chunk: matrix products with fewer rows are slower per row
TOLERANCE, MAX_ITERATIONS = 1e-7, 2_000  # as in `fit`


_MOST_NAMES = 60  # rows that are named


def unique_loadings(loadings: Matrix, noise: Vector) -> Matrix:
    """The same covariance W Wᵀ by factors that are unique, the largest one first.

    W is known up to a rotation only. The factors returned are those for which Wᵀ Ψ⁻¹ W is diagonal, and
    the largest loading of each is positive.

    Example:
        >>> w = np.array([[0.0, -2.0], [0.0, -2.0], [1.0, 0.0]])
        >>> unique_loadings(w, np.ones(3)).round(6).tolist()
        [[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]]
    """
    _, _, rotation = np.linalg.svd(loadings / np.sqrt(noise)[:, None], full_matrices=False)
    turned = loadings @ rotation.T
    largest = turned[np.abs(turned).argmax(axis=0), np.arange(turned.shape[1])]
    return turned * np.where(largest < 0, -1.0, 1.0) + 0.0


class LowRankGaussian(GaussianFamily):
    """N(μ, W Wᵀ + Ψ) with loadings W of shape (D, K) and a diagonal Ψ.

    With R the visible tokens and A = I + W_Rᵀ Ψ_R⁻¹ W_R (K×K):

        var_j = ψ_j + w_jᵀ A⁻¹ w_j,    mean_j = μ_j + w_jᵀ A⁻¹ W_Rᵀ Ψ_R⁻¹ (x_R - μ_R)

    for all masks of a batch together: A is one matrix product of the masks with the D outer products
    w_j w_jᵀ/ψ_j, and the variances are one of A⁻¹ with the products w_j w_jᵀ.

    Args:
        n_features: D.
        n_components: K, from 1 to D - 1.
        seed: of the random initial loadings; μ starts at 0.
        dtype: of the computation.

    Raises:
        InputError: n_components outside 1..D-1.
    """

    def __init__(self, n_features: int, n_components: int, seed: int, dtype: torch.dtype) -> None:
        n_features = whole_number("n_features", n_features)
        if not 1 <= whole_number("n_components", n_components) < n_features:
            raise InputError(
                f"n_components={n_components} with n_features={n_features}; "
                "give at least one component and fewer than features"
            )
        super().__init__(torch.zeros(n_features))
        self.n_components = n_components
        generator = torch.Generator().manual_seed(whole_number("seed", seed))
        loadings = torch.randn(n_features, n_components, generator=generator, dtype=dtype)
        self.loadings = nn.Parameter(loadings)

    @property
    @abstractmethod
    def noise_variances(self) -> Float[Tensor, " D"]:
        """ψ, the noise variance of each feature, shape (D,)."""

    @property
    def covariance(self) -> Float[Tensor, "D D"]:
        return self.loadings @ self.loadings.T + torch.diag(self.noise_variances)

    @property
    def n_parameters(self) -> int:
        """The number of free parameters, without the K (K - 1)/2 of rotations of z."""
        return super().n_parameters - self.n_components * (self.n_components - 1) // 2

    @abstractmethod
    def take(self, fitted: LowRankParameters, table: Float64[np.ndarray, "N D"]) -> "LowRankGaussian":
        """Take the parameters of a fit to a table, in place."""

    def arguments(self) -> dict[str, Any]:
        return {"n_features": self.n_features, "n_components": self.n_components}

    def plot(self, ax: Any = None) -> Any:
        """Draw the correlation of each column with each factor; needs matplotlib.

        The factors are those of `to_frame`.

        Args:
            ax: axes of matplotlib; by default those of a new figure.

        Returns:
            The axes.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        loadings, noise, _ = self._unique_loadings()
        signal, (n_columns, n_factors) = (loadings**2).sum(axis=1), loadings.shape
        names = self.columns or [str(k) for k in range(n_columns)]
        picture = ColourGrid(
            loadings / np.sqrt(signal + noise)[:, None],
            names if n_columns <= _MOST_NAMES else (),
            [str(k) for k in range(n_factors)],
            "correlation of the column with the factor",
            "factor",
            "column",
        )
        share = typeset(100 * float((signal / (signal + noise)).mean()), 0)
        explain = f"{'explain' if n_factors > 1 else 'explains'} {share} % of a column's variance"
        return plot(picture, f"{count(n_factors, 'factor')} {explain}", ax)

    def to_frame(self) -> Any:
        """A data frame of pandas with a row for each column: mean, standard deviation of the noise, loadings.

        W is known up to a rotation of its factors. They are turned so that Wᵀ Ψ⁻¹ W is diagonal, the largest
        first, and the largest loading of each factor is positive.
        """
        loadings, noise, mean = self._unique_loadings()
        values: dict[str, Any] = {"mean": mean, "noise_sd": np.sqrt(noise)}
        values |= {f"factor_{k}": loading for k, loading in enumerate(loadings.T)}
        return data_frame(Columns(values, self.columns, "column"))

    def _unique_loadings(self) -> tuple[Matrix, Vector, Vector]:
        """Loadings by factors that are unique, noise variances and means."""
        parts = (self.loadings, self.noise_variances, self.mean)
        loadings, noise, mean = (part.detach().cpu().double().numpy() for part in parts)
        return unique_loadings(loadings, noise), noise, mean

    def _conditional_moments(
        self, centred: Float[Tensor, "B D"], visible: Bool[Tensor, "B D"]
    ) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
        factor, covariance = self._posterior(visible)
        latent = self._latent_means(centred, factor, covariance)
        quadratic = covariance.reshape(-1, self.n_components**2) @ self._outer().T  # w_jᵀ A⁻¹ w_j
        return latent @ self.loadings.T, self.noise_variances + quadratic

    def latent_means(self, tokens: Tokens) -> Float[Tensor, "B K"]:
        """E[z | the present tokens] = A⁻¹ W_Rᵀ Ψ_R⁻¹ (x_R - μ_R), R the maskable and context tokens.

        Args:
            tokens: B observations.

        Example:
            >>> import maskevidence as me
            >>> model = me.models.PPCA.from_parameters(torch.ones(2, 1), noise_variance=1.0)
            >>> model.latent_means(me.Tokens.from_array([[3.0, 3.0], [3.0, float("nan")]])).flatten()
            tensor([2.0000, 1.5000], ...)
        """
        self.check_width(tokens.width)
        present = tokens.maskable | tokens.context
        return self._latent_means(self._centred(tokens.values, present), *self._posterior(present))

    def means_given(self, latent: Float[Tensor, "B K"]) -> Float[Tensor, "B D"]:
        """E[x | z] = μ + W z, shape (B, D)."""
        return self.mean + latent @ self.loadings.T

    def _log_density(
        self, centred: Float[Tensor, "B D"], present: Bool[Tensor, "B D"]
    ) -> Float[Tensor, " B"]:
        # The distance as a sum of squares: the shorter difference |x_R - μ_R|²/ψ - mᵀ A m loses all digits
        # where a column's spread is 10⁶ times the noise.
        noise = self.noise_variances
        alike = bool((present == present[:1]).all())  # one posterior covariance for all rows
        factor, covariance = self._posterior(present[:1] if alike else present)
        latent = self._latent_means(centred, factor, covariance)
        residual = torch.where(present, centred - latent @ self.loadings.T, 0.0)
        log_determinant = 2 * torch.log(torch.diagonal(factor, dim1=1, dim2=2)).sum(1)
        log_noise = torch.where(present, LOG_2PI + torch.log(noise), 0.0).sum(1)
        distance = (residual.square() / noise).sum(1) + latent.square().sum(1)
        return -0.5 * (log_noise + log_determinant + distance)

    def score_moments(self, moments: GaussianMoments, masked: Bool[Tensor, "P D"]) -> Float[Tensor, " P"]:
        """The score of each of P shared masks, averaged over the complete rows behind the moments.

        With V = Ψ_R⁻¹ W_R and S the rows' second moments about the mean, token j has mean squared residual
        S_jj - 2 w_jᵀ A⁻¹ (VᵀS)_j + w_jᵀ A⁻¹ VᵀSV A⁻¹ w_j. Over the masked tokens M, with weights
        q_j = 1/var_j, these sum to

            Σ_M q_j S_jj - 2 tr(A⁻¹ VᵀS Q_M W_M) + tr(A⁻¹ VᵀSV A⁻¹ · W_Mᵀ Q_M W_M)

        The only large computation is VᵀS, K·D² multiplications per mask in one matrix product for many masks.
        The cost does not depend on the number of rows.

        Args:
            moments: of complete rows.
            masked: shape (P, D).

        Returns:
            Shape (P,), nats per masked token.

        Example:
            >>> import maskevidence as me
            >>> model = me.models.PPCA(n_features=4, n_components=1)
            >>> x = model.sample(10)
            >>> masked = torch.tensor([[True, True, False, False]])
            >>> rows = me.score_masks(model, me.Tokens.from_array(x), masked.expand(10, 4)).mean()
            >>> bool(torch.isclose(model.score_moments(me.GaussianMoments.from_rows(x), masked)[0], rows))
            True
        """
        self.check_width(len(moments.mean))
        noise, outer = self.noise_variances, self._outer()
        width, k = self.loadings.shape
        loadings = self.loadings.T.contiguous()[:, None, :]
        scaled = loadings / noise
        second = moments.about(self.mean).to(noise.dtype)
        scores = []
        for part in torch.split(masked, max(_MIN_MASKS, _MAX_ELEMENTS // (k * width))):
            hidden = part.to(noise.dtype)
            visible = 1 - hidden
            _, inverse = self._posterior(visible)
            variance = torch.addmm(noise, inverse.reshape(-1, k * k), outer.T)
            weight = hidden / variance
            weights = scaled * visible  # V, shape (K, masks, D), so that one product serves all masks
            projected = (weights.reshape(-1, width) @ second).reshape(k, -1, width).transpose(0, 1)
            inner = projected @ weights.permute(1, 2, 0)
            cross = projected @ (loadings * weight).permute(1, 2, 0)
            gram = (weight @ outer).reshape(-1, k, k)
            distance = weight @ torch.diagonal(second)
            distance = distance - 2 * (inverse * cross).sum((1, 2))
            distance = distance + (inverse @ inner @ inverse * gram).sum((1, 2))
            log_determinant = torch.linalg.vecdot(hidden, torch.log(variance))
            scores.append(-0.5 * (LOG_2PI + (log_determinant + distance) / hidden.sum(1)))
        return torch.cat(scores)

    def _like(self) -> Tensor:
        return self.loadings

    def _latent_means(
        self,
        centred: Float[Tensor, "B D"],
        factor: Float[Tensor, "P K K"],
        covariance: Float[Tensor, "P K K"],
    ) -> Float[Tensor, "B K"]:
        """E[z | the present tokens], from the answers of `_posterior`."""
        projected = centred @ (self.loadings / self.noise_variances[:, None])
        if len(covariance) == 1:
            return torch.cholesky_solve(projected.T, factor[0]).T
        return (covariance @ projected[:, :, None])[:, :, 0]

    def _posterior(
        self, visible: Bool[Tensor, "P D"] | Float[Tensor, "P D"]
    ) -> tuple[Float[Tensor, "P K K"], Float[Tensor, "P K K"]]:
        """Cholesky factor of the posterior precision A = I + W_Rᵀ Ψ_R⁻¹ W_R, and the covariance A⁻¹."""
        k = self.n_components
        outer = self._outer() / self.noise_variances[:, None]
        identity = torch.eye(k, dtype=outer.dtype, device=outer.device).flatten()
        factor = cholesky(torch.addmm(identity, visible.to(outer.dtype), outer).reshape(-1, k, k))
        return factor, torch.cholesky_inverse(factor)

    def _outer(self) -> Float[Tensor, "D KK"]:
        """w_j w_jᵀ of every feature, flat."""
        outer = self.loadings[:, :, None] * self.loadings[:, None, :]
        return outer.reshape(self.n_features, self.n_components**2)


class PPCA(LowRankGaussian):
    """x = W z + μ + noise, z ~ N(0, I_K), noise ~ N(0, σ² I_D).

    Args:
        n_features: D.
        n_components: K, from 1 to D - 1.
        seed: of the random initial loadings; μ starts at 0 and σ² at 1.
        dtype: of the computation.

    Raises:
        InputError: n_components outside 1..D-1.

    Example:
        >>> import maskevidence as me
        >>> x = me.models.PPCA(n_features=5, n_components=2, seed=3).sample(200)
        >>> model = me.models.PPCA(n_features=5, n_components=2).fit(x)
        >>> bool(abs(model.noise_variance.item() - 1) < 0.2)
        True
    """

    def __init__(
        self, n_features: int, n_components: int, *, seed: int = 0, dtype: torch.dtype = torch.float64
    ) -> None:
        super().__init__(n_features, n_components, seed, dtype)
        self.log_noise_variance = nn.Parameter(torch.zeros((), dtype=dtype))

    @property
    def noise_variance(self) -> Float[Tensor, ""]:
        """σ², a scalar."""
        return torch.exp(self.log_noise_variance)

    @property
    def noise_variances(self) -> Float[Tensor, " D"]:
        return self.noise_variance.expand(self.n_features)

    @classmethod
    def from_parameters(
        cls,
        loadings: Float[Tensor, "D K"],
        noise_variance: float,
        mean: Float[Tensor, " D"] | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> "PPCA":
        """A model with known parameters.

        Args:
            loadings: W, shape (D, K).
            noise_variance: σ² > 0.
            mean: μ, shape (D,); by default 0.
            dtype: of the computation.
        """
        if not noise_variance > 0:
            raise InputError(f"noise_variance={noise_variance}; give a positive variance")
        model = cls(*loadings.shape, dtype=dtype)
        with torch.no_grad():
            model.loadings.copy_(loadings)
            model.log_noise_variance.copy_(torch.log(torch.tensor(noise_variance, dtype=torch.float64)))
            if mean is not None:
                model.mean.copy_(mean)
        return model

    def fit(
        self, x: object, *, ddof: int = 0, tolerance: float = 1e-7, max_iterations: int = 2_000
    ) -> "PPCA":
        """Maximum likelihood, in place: in closed form, or by quasi-Newton steps if values are missing (NaN).

        σ² is the mean of the D - K smallest eigenvalues of the sample covariance, W its K leading
        eigenvectors scaled by √(eigenvalue - σ²).

        Args:
            x: shape (N, D).
            ddof: the covariance of complete data is divided by N - ddof; 0 is maximum likelihood, 1 agrees
                with scikit-learn's `PCA`.
            tolerance: with missing values, the fit ends when 20 iterations change the log evidence (of the
                data in standard units) by less, relative to its size.
            max_iterations: their largest number; beyond it, a `ConvergenceWarning` names the last change.

        Raises:
            InputError: a table that cannot be fitted.
            NumericalError: the components leave no noise.

        Source:
            Tipping and Bishop (1999), Probabilistic Principal Component Analysis, Eq. 7 and 8.
        """
        table = self._table(x)
        check_table(table, self.n_components, tolerance, max_iterations, self.columns)
        if np.isnan(table).any():
            fitted = fit_low_rank(table, self.n_components, tolerance, max_iterations, isotropic=True)
        else:
            fitted = principal_axes(table, ddof).of(self.n_components)
        return self.take(fitted, table)

    def take(self, fitted: LowRankParameters, table: Float64[np.ndarray, "N D"]) -> "PPCA":
        with torch.no_grad():
            self.mean.copy_(torch.from_numpy(fitted.mean))
            self.loadings.copy_(torch.from_numpy(fitted.loadings))
            self.log_noise_variance.fill_(float(np.log(fitted.noise[0])))
        self.n_iterations = fitted.n_iterations
        return self

    def units(
        self, values: Float64[np.ndarray, "N D"]
    ) -> tuple[Float64[np.ndarray, " D"], Float64[np.ndarray, " D"]]:
        """Shift and scale as for every Gaussian, but with one scale for all columns.

        PPCA has one noise variance for all columns, so that different scales would give a different model.
        """
        shift, spread = super().units(values)
        return shift, np.full_like(spread, np.sqrt((spread**2).mean()))

    def rescale(self, shift: Float64[np.ndarray, " D"], scale: Float64[np.ndarray, " D"]) -> None:
        if not (scale == scale[0]).all():
            raise InputError("PPCA has one noise variance for all columns; give one scale for all of them")
        super().rescale(shift, scale)

    def _rescale_covariance(self, scale: Float[Tensor, " D"]) -> None:
        self.loadings.mul_(scale[:, None])
        self.log_noise_variance.add_(2 * torch.log(scale[0]))


class FactorAnalysis(LowRankGaussian):
    """x = W z + μ + noise, z ~ N(0, I_K), noise ~ N(0, diag(ψ)).

    Args:
        n_features: D.
        n_components: K, from 1 to D - 1.
        seed: of the random initial loadings; μ starts at 0 and ψ at 1.
        dtype: of the computation.

    Attributes:
        bounded: after `fit`, the features whose ψ_j is at its lower bound, 10⁻⁴ of the column's variance.
            Without a bound the likelihood can grow without end; with one, a PPCA with less noise fits better.

    Raises:
        InputError: n_components outside 1..D-1.

    Example:
        >>> import maskevidence as me
        >>> x = me.models.PPCA(n_features=5, n_components=2, seed=3).sample(500)
        >>> model = me.models.FactorAnalysis(n_features=5, n_components=2).fit(x)
        >>> model.bounded, model.noise_variances.shape
        ([], torch.Size([5]))
    """

    def __init__(
        self, n_features: int, n_components: int, *, seed: int = 0, dtype: torch.dtype = torch.float64
    ) -> None:
        super().__init__(n_features, n_components, seed, dtype)
        self.log_noise_variances = nn.Parameter(torch.zeros(n_features, dtype=dtype))

    @property
    def noise_variances(self) -> Float[Tensor, " D"]:
        return torch.exp(self.log_noise_variances)

    @classmethod
    def from_parameters(
        cls,
        loadings: Float[Tensor, "D K"],
        noise_variances: Float[Tensor, " D"],
        mean: Float[Tensor, " D"] | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> "FactorAnalysis":
        """A model with known parameters.

        Args:
            loadings: W, shape (D, K).
            noise_variances: ψ > 0, shape (D,).
            mean: μ, shape (D,); by default 0.
            dtype: of the computation.
        """
        if noise_variances.shape != loadings.shape[:1] or not bool((noise_variances > 0).all()):
            raise InputError("noise_variances must be one positive number for each row of the loadings")
        model = cls(*loadings.shape, dtype=dtype)
        with torch.no_grad():
            model.loadings.copy_(loadings)
            model.log_noise_variances.copy_(torch.log(noise_variances))
            if mean is not None:
                model.mean.copy_(mean)
        return model

    def fit(self, x: object, *, tolerance: float = 1e-7, max_iterations: int = 2_000) -> "FactorAnalysis":
        """Maximum likelihood under ψ_j >= 10⁻⁴ · variance of column j, in place: by Newton steps from three
        starts, or by quasi-Newton steps if values are missing (NaN).

        Args:
            x: shape (N, D), NaN where a value is missing.
            tolerance: the fit ends when the next step promises a thousandth of it (with missing values, when
                20 iterations gained less), relative to the log evidence of the data in standard units.
            max_iterations: their largest number; beyond it, a `ConvergenceWarning` names the last change.

        Raises:
            InputError: a table that cannot be fitted.
        """
        table = self._table(x)
        check_table(table, self.n_components, tolerance, max_iterations, self.columns)
        refuse_constant(table, self.columns)
        if np.isnan(table).any():
            fitted = fit_low_rank(table, self.n_components, tolerance, max_iterations, isotropic=False)
        else:
            fitted = fit_factor_analysis(table, self.n_components, tolerance, max_iterations)
        return self.take(fitted, table)

    def take(self, fitted: LowRankParameters, table: Float64[np.ndarray, "N D"]) -> "FactorAnalysis":
        with torch.no_grad():
            self.mean.copy_(torch.from_numpy(fitted.mean))
            self.loadings.copy_(torch.from_numpy(fitted.loadings))
            self.log_noise_variances.copy_(torch.from_numpy(np.log(fitted.noise)))
        self.n_iterations = fitted.n_iterations
        variance = np.nanvar(table, axis=0)
        self.bounded = np.flatnonzero(fitted.noise <= NOISE_BOUND * variance * (1 + 1e-9)).tolist()
        return self

    def _rescale_covariance(self, scale: Float[Tensor, " D"]) -> None:
        self.loadings.mul_(scale[:, None])
        self.log_noise_variances.add_(2 * torch.log(scale))


def fit_each_rank(
    kind: type[PPCA] | type[FactorAnalysis],
    table: Float64[np.ndarray, "N D"],
    components: Iterable[int],
    names: Sequence[str] | None = None,
) -> Iterator[PPCA | FactorAnalysis]:
    """A maximum likelihood fit for each number of components, as `fit` gives it.

    PPCA of complete rows has one decomposition for all. Every other fit starts from the last one.

    Example:
        >>> x = PPCA(n_features=5, n_components=2, seed=3).sample(200)
        >>> models = list(fit_each_rank(PPCA, x, (1, 2, 4)))
        >>> [model.n_components for model in models]
        [1, 2, 4]
        >>> bool(np.allclose(models[1].score_samples(x), PPCA(5, 2).fit(x).score_samples(x)))
        True
    """
    width, complete = table.shape[1], not np.isnan(table).any()
    axes = None
    last: LowRankParameters | None = None
    for k in components:
        model = kind(width, k)
        check_table(table, k, TOLERANCE, MAX_ITERATIONS, names)
        if isinstance(model, FactorAnalysis):
            refuse_constant(table, names)
        if complete and isinstance(model, PPCA):
            axes = principal_axes(table) if axes is None else axes
            fitted = axes.of(k)
        elif complete:
            fitted = fit_factor_analysis(table, k, TOLERANCE, MAX_ITERATIONS, last)
        else:
            isotropic = isinstance(model, PPCA)
            fitted = fit_low_rank(table, k, TOLERANCE, MAX_ITERATIONS, isotropic=isotropic, like=last)
        last = fitted
        yield model.take(fitted, table)
