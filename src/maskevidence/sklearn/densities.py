"""Densities of rows as estimators: PPCA, factor analysis, Gaussians, Bernoulli PCA."""

import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

import maskevidence as me
from maskevidence.sklearn.density_base import (
    LatentDensity,
    TableDensity,
    fitted_array,
    seed_from,
)
from maskevidence.sklearn.residuals import HeldOutResiduals
from maskevidence.tables.base import TableModel
from maskevidence.tables.gaussian.family import NOISE_BOUND
from maskevidence.tables.gaussian.kernel_choice import choose_kernels


@dataclass(eq=False, repr=False)
class _LowRank(LatentDensity):
    """x = W z + μ + noise."""

    _min_features = 2
    _largest_below_width = True
    mean_ = fitted_array("mean", "μ, shape (D,).")

    n_components: int | None = None
    _: KW_ONLY
    tol: float = 1e-7
    max_iter: int = 2_000
    random_state: Any = None

    def get_covariance(self) -> Float64[np.ndarray, "D D"]:
        """W Wᵀ + Ψ, shape (D, D)."""
        return self.model_.covariance.detach().cpu().double().numpy()

    def get_precision(self) -> Float64[np.ndarray, "D D"]:
        """(W Wᵀ + Ψ)⁻¹, shape (D, D)."""
        factor = torch.linalg.cholesky(self.model_.covariance.detach().double())
        return torch.cholesky_inverse(factor).cpu().numpy()


class PPCA(_LowRank):
    """Probabilistic PCA of tables with missing values: x = W z + μ + noise, noise ~ N(0, σ² I).

    Args:
        n_components: K, from 1 to D - 1; by default min(2, D - 1).
        tol: where the fit iterates, it ends at this tolerance of the log evidence.
        max_iter: the largest number of iterations.
        random_state: of `sample`.

    Attributes:
        n_components_: K.
        components_: Wᵀ, shape (K, D); its rows do not have length 1, unlike in scikit-learn's `PCA`.
        mean_: μ, shape (D,).
        noise_variance_: σ².
        explained_variance_: the K largest eigenvalues of the covariance, shape (K,); scikit-learn's `PCA`
            divides by N - 1, not N.
        model_: the fitted `maskevidence.models.PPCA`.

    Source:
        Tipping and Bishop (1999), Probabilistic Principal Component Analysis.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(200, 1)) @ np.ones((1, 4)) + 0.1 * rng.normal(size=(200, 4))
        >>> x[::3, 1] = np.nan
        >>> density = PPCA(n_components=1).fit(x)
        >>> density.transform(x).shape, round(density.noise_variance_, 2)
        ((200, 1), 0.01)
    """

    _model_class = me.models.PPCA

    @property
    def noise_variance_(self) -> float:
        """σ²."""
        return float(self.model_.noise_variance.detach())

    @property
    def explained_variance_(self) -> Float64[np.ndarray, " K"]:
        """The K largest eigenvalues of W Wᵀ + σ² I, shape (K,)."""
        return np.linalg.svd(self.components_, compute_uv=False) ** 2 + self.noise_variance_


class FactorAnalysis(_LowRank):
    """Factor analysis of tables with missing values: x = W z + μ + noise, noise ~ N(0, diag(ψ)).

    Each ψ_j is at least 10⁻⁴ of the variance of column j; a warning names the columns where this bound binds.

    Args:
        n_components: K, from 1 to D - 1; by default min(2, D - 1).
        tol: where the fit iterates, it ends at this tolerance of the log evidence.
        max_iter: the largest number of iterations.
        random_state: of `sample`.

    Attributes:
        n_components_: K.
        components_: Wᵀ, shape (K, D), as in scikit-learn's `FactorAnalysis`.
        mean_: μ, shape (D,).
        noise_variance_: ψ, shape (D,).
        explained_variance_: the sum over columns of each component's squared loadings, shape (K,).
        model_: the fitted `maskevidence.models.FactorAnalysis`.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.normal(size=(300, 1)) @ np.ones((1, 4)) + 0.1 * rng.normal(size=(300, 4))
        >>> x[:, 3] *= 10
        >>> FactorAnalysis(n_components=1).fit(x).noise_variance_.round(2).tolist()
        [0.01, 0.01, 0.01, 0.96]
    """

    _model_class = me.models.FactorAnalysis
    noise_variance_ = fitted_array("noise_variances", "ψ, shape (D,).")

    @property
    def explained_variance_(self) -> Float64[np.ndarray, " K"]:
        """Σ_j w_jk² of each component k, shape (K,)."""
        return (self.components_**2).sum(1)

    def _fitted_model(self, table: Float64[np.ndarray, "N D"]) -> TableModel:
        model = super()._fitted_model(table)
        if model.bounded:
            names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(table.shape[1])])
            at_bound = ", ".join(names[j] for j in model.bounded)
            warnings.warn(
                f"the noise variance of {len(model.bounded)} of {table.shape[1]} columns is at its lower "
                f"bound, {NOISE_BOUND:g} of the column's variance: {at_bound}; use fewer components, give "
                "more rows, or leave out columns that others determine",
                UserWarning,
                stacklevel=3,
            )
        return model


@dataclass(eq=False, repr=False)
class GaussianDensity(TableDensity):
    """A Gaussian with a full covariance, for tables with missing values.

    It has no latent variables, hence no `transform`.

    Args:
        tol: where the fit iterates, it ends at this tolerance of the log evidence.
        max_iter: the largest number of iterations.
        random_state: of `sample`.

    Attributes:
        mean_: μ, shape (D,).
        covariance_: Σ, shape (D, D).
        model_: the fitted `maskevidence.models.Gaussian`.

    Example:
        >>> GaussianDensity().fit([[0, 1], [2, 1], [1, 4], [1, -2]]).covariance_.round(3).tolist()
        [[0.5, 0.0], [0.0, 4.5]]
    """

    _model_class = me.models.Gaussian
    mean_ = fitted_array("mean", "μ, shape (D,).")
    covariance_ = fitted_array("covariance", "Σ, shape (D, D).")

    _: KW_ONLY
    tol: float = 1e-7
    max_iter: int = 2_000
    random_state: Any = None


@dataclass(eq=False, repr=False)
class KernelGaussianDensity(TableDensity):
    """A Gaussian with a kernel around each training row, for tables with missing values.

    It interpolates between a Gaussian with shrunk correlations and the rows themselves; `MaskedImputer` uses
    it by default.

    Args:
        shrinkage: λ in (0, 1], by which the correlations are shrunk; None chooses it by cross-validation.
        bandwidth: h in (0, 1), near 1 for a Gaussian and near 0 for the rows alone; None chooses it likewise.
        max_iter: the largest number of EM iterations.
        random_state: of the folds, of the choice of at most 1,000 kernels, and of `sample`.

    Attributes:
        shrinkage_: λ.
        bandwidth_: h.
        held_out_: the residuals of the values that cross-validation predicted; None without it.
        model_: the fitted `maskevidence.models.KernelGaussian`.

    Example:
        >>> x = np.random.default_rng(0).normal(size=(150, 1)) + [[0.0, 0.0]]
        >>> x[:, 1] **= 2
        >>> density = KernelGaussianDensity(random_state=0).fit(x)
        >>> density.bandwidth_ < 0.9, density.sample(2).shape
        (True, (2, 2))
    """

    _model_class = me.models.KernelGaussian

    shrinkage: float | None = None
    bandwidth: float | None = None
    _: KW_ONLY
    max_iter: int = 1000
    random_state: Any = None

    def _new_model(self, n_features: int) -> TableModel:
        return me.models.KernelGaussian(n_features)

    def _fit_options(self, table: Float64[np.ndarray, "N D"]) -> dict[str, Any]:
        seed = seed_from(self.random_state)
        self.shrinkage_, self.bandwidth_, self.held_out_ = self.shrinkage, self.bandwidth, None
        if self.shrinkage is None or self.bandwidth is None:
            choice = choose_kernels(table, shrinkage=self.shrinkage, bandwidth=self.bandwidth, seed=seed)
            self.shrinkage_, self.bandwidth_ = choice.shrinkage, choice.bandwidth
            self.held_out_ = HeldOutResiduals(choice.columns, choice.residuals)
        chosen = {"shrinkage": self.shrinkage_, "bandwidth": self.bandwidth_}
        return {"max_iterations": self.max_iter, "seed": seed, **chosen}


@dataclass(eq=False, repr=False)
class BernoulliPCA(LatentDensity):
    """Principal components of 0/1 tables with missing values: x_j | z ~ Bernoulli(sigmoid(w_j·z + b_j)).

    Args:
        n_components: K, 1 or more; by default min(2, D - 1), but at least 1.
        binarize: threshold above which a value becomes 1, and otherwise 0, as in scikit-learn's
            `BernoulliNB`; None if the values are 0 and 1 already, and others are an error.
        max_iter: the largest number of iterations of L-BFGS.
        random_state: of the initial loadings and of `sample`.

    Attributes:
        n_components_: K.
        components_: Wᵀ, shape (K, D).
        intercept_: b, shape (D,).
        model_: the fitted `maskevidence.models.BernoulliPCA`.

    Example:
        >>> z = np.random.default_rng(0).normal(size=(100, 1))
        >>> x = (z + [0.0, 0.5, -0.5] > 0).astype(float)
        >>> x[::5, 1] = np.nan
        >>> density = BernoulliPCA(n_components=1, random_state=0).fit(x)
        >>> density.inverse_transform(density.transform(x)).shape
        (100, 3)
    """

    _model_class = me.models.BernoulliPCA
    intercept_ = fitted_array("bias", "b, shape (D,).")

    n_components: int | None = None
    _: KW_ONLY
    binarize: float | None = None
    max_iter: int = 200
    random_state: Any = None

    def _table(self, X: Any, *, reset: bool) -> Float64[np.ndarray, "N D"]:
        table = super()._table(X, reset=reset)
        if self.binarize is None:
            return table
        return np.where(np.isnan(table), np.nan, table > self.binarize)

    def _new_model(self, n_features: int, **settings: Any) -> TableModel:
        return super()._new_model(n_features, seed=seed_from(self.random_state), **settings)

    def _fit_options(self, table: Float64[np.ndarray, "N D"]) -> dict[str, Any]:
        return {"max_iterations": self.max_iter}
