"""The Gaussian with kernels as an estimator, with shrinkage and bandwidth by cross-validation."""

from typing import Any

import numpy as np
from jaxtyping import Float64

from maskevidence import models
from maskevidence.integrations.sklearn.base import TableDensity, seed_from
from maskevidence.integrations.sklearn.residuals import HeldOutResiduals
from maskevidence.models.base import TableModel
from maskevidence.models.gaussian.kernel_choice import choose_kernels


class KernelGaussianDensity(TableDensity):
    """A Gaussian with a kernel around each training row, for tables with missing values.

    It lies between a Gaussian whose correlations are shrunk and the rows themselves; `MaskedImputer` uses it
    by default.

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

    def __init__(
        self,
        shrinkage: float | None = None,
        bandwidth: float | None = None,
        *,
        max_iter: int = 1000,
        random_state: Any = None,
    ) -> None:
        self.shrinkage = shrinkage
        self.bandwidth = bandwidth
        self.max_iter = max_iter
        self.random_state = random_state

    def _fitted_model(self, table: Float64[np.ndarray, "N D"]) -> TableModel:
        seed = seed_from(self.random_state)
        self.shrinkage_, self.bandwidth_, self.held_out_ = self.shrinkage, self.bandwidth, None
        if self.shrinkage is None or self.bandwidth is None:
            choice = choose_kernels(table, shrinkage=self.shrinkage, bandwidth=self.bandwidth, seed=seed)
            self.shrinkage_, self.bandwidth_ = choice.shrinkage, choice.bandwidth
            self.held_out_ = HeldOutResiduals(choice.columns, choice.residuals)
        settings: dict[str, Any] = {"shrinkage": self.shrinkage_, "bandwidth": self.bandwidth_, "seed": seed}
        model = models.KernelGaussian(table.shape[1], n_centres=1)
        return model.fit(table, max_iterations=self.max_iter, **settings)
