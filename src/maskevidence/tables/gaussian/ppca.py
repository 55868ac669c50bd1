"""Probabilistic PCA (Tipping and Bishop 1999)."""

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.tables.gaussian.low_rank import LowRankGaussian
from maskevidence.tables.gaussian.maximum_likelihood import LowRankParameters, check_table, principal_axes
from maskevidence.tables.gaussian.missing_values import fit_low_rank


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
