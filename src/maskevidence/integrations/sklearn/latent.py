"""Densities with latent variables, whose `transform` gives the posterior mean of z."""

from numbers import Integral
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from maskevidence.errors import import_extra
from maskevidence.integrations.sklearn.base import PURPOSE, TableDensity, with_values

_base = import_extra("sklearn.base", "sklearn", PURPOSE)
_utils = import_extra("sklearn.utils", "sklearn", PURPOSE)
_validation = import_extra("sklearn.utils.validation", "sklearn", PURPOSE)


class LatentDensity(
    _base.ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc, name-defined]
    _base.TransformerMixin,  # type: ignore[misc, name-defined]
    TableDensity,
):
    """A density with latent variables z, as a density estimator and a transformer of scikit-learn.

    A row without any observed value gets the prior's answer: its posterior mean is 0.
    """

    def transform(self, X: Any) -> Float64[np.ndarray, "N K"]:
        """E[z | the observed values] of each row, shape (N, K).

        Args:
            X: shape (N, D), NaN where a value is missing.
        """
        table = self._fitted_table(X)
        seen = with_values(table)
        latent = np.zeros((len(table), self.n_components_))
        if seen.any():
            with torch.no_grad():
                means = self.model_.latent_means(self.model_.tokens(table[seen]))
            latent[seen] = means.cpu().double().numpy()
        return latent

    def inverse_transform(self, X: Any) -> Float64[np.ndarray, "N D"]:
        """E[x | z] of each row of latent variables, shape (N, D), in the units of the data.

        Args:
            X: shape (N, K), as `transform` gives it.
        """
        _validation.check_is_fitted(self)
        latent = _utils.check_array(X, dtype=np.float64)
        if latent.shape[1] != self.n_components_:
            raise ValueError(
                f"X has {latent.shape[1]} features, but {type(self).__name__} has {self.n_components_} "
                "components as output of transform."
            )
        with torch.no_grad():
            means = self.model_.means_given(torch.tensor(latent).to(self.model_.loadings))
        return means.cpu().double().numpy()

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def _checked_components(self, n_features: int, largest: int | None) -> int:
        """K: the argument, or min(2, D - 1) if it is None, but at least 1.

        Raises:
            ValueError: more components than the model can have.
        """
        if self.n_components is None:
            return max(1, min(2, n_features - 1))
        given = _utils.check_scalar(self.n_components, "n_components", Integral, min_val=1, max_val=largest)
        return int(given)
