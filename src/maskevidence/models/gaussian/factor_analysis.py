"""Factor analysis: a Gaussian with low-rank covariance and a noise variance for each feature."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from maskevidence.errors import InputError
from maskevidence.models.gaussian.factor_likelihood import fit_factor_analysis
from maskevidence.models.gaussian.low_rank import LowRankGaussian
from maskevidence.models.gaussian.maximum_likelihood import (
    NOISE_BOUND,
    LowRankParameters,
    check_table,
    principal_axes,
    refuse_constant,
)
from maskevidence.models.gaussian.missing_values import fit_low_rank
from maskevidence.models.gaussian.ppca import PPCA


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


TOLERANCE, MAX_ITERATIONS = 1e-7, 2_000  # as in `fit`


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
