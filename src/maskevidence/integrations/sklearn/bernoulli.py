"""The linear Bernoulli model as an estimator of 0/1 tables."""

from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence import models
from maskevidence.integrations.sklearn.base import LatentDensity, seed_from
from maskevidence.models.base import TableModel


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

    def __init__(
        self,
        n_components: int | None = None,
        *,
        binarize: float | None = None,
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.binarize = binarize
        self.max_iter = max_iter
        self.random_state = random_state

    @property
    def components_(self) -> Float64[np.ndarray, "K D"]:
        """Wᵀ, shape (K, D)."""
        return self.model_.loadings.detach().cpu().double().numpy().T

    @property
    def intercept_(self) -> Float64[np.ndarray, " D"]:
        """b, shape (D,)."""
        return self.model_.bias.detach().cpu().double().numpy()

    def _table(self, X: Any, *, reset: bool) -> Float64[np.ndarray, "N D"]:
        table = super()._table(X, reset=reset)
        if self.binarize is None:
            return table
        return np.where(np.isnan(table), np.nan, table > self.binarize)

    def _fitted_model(self, table: Float64[np.ndarray, "N D"]) -> TableModel:
        self.n_components_ = self._checked_components(table.shape[1], largest=None)
        model = models.BernoulliPCA(table.shape[1], self.n_components_, seed=seed_from(self.random_state))
        return model.fit(table, max_iterations=self.max_iter)
