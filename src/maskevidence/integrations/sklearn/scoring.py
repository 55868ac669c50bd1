"""Ranking masked models by their log evidence in scikit-learn's model selection."""

from collections.abc import Callable
from functools import partial
from typing import Any

from maskevidence import MaskDesign, estimate_evidence
from maskevidence.errors import import_extra
from maskevidence.integrations.sklearn.base import PURPOSE

_pipeline = import_extra("sklearn.pipeline", "sklearn", PURPOSE)


def evidence_scorer(design: MaskDesign | None = None, *, seed: int = 0) -> Callable[..., float]:
    """A scorer for `GridSearchCV`, `cross_val_score` and others: the estimated log evidence, nats per row.

    It ranks any masked model, also those without a closed form, such as `MaskedRegressorDensity`. All
    candidates are scored on the same masks. In a `Pipeline`, the rows that reach the last step are scored, in
    the units that they have there: search over the parameters of the last step alone.

    Args:
        design: how masks are drawn; by default `EverySize(masks_per_size=4)`.
        seed: seed of the masks.

    Example:
        >>> import numpy as np
        >>> from sklearn.model_selection import cross_val_score
        >>> from maskevidence.integrations.sklearn import GaussianDensity
        >>> x = np.random.default_rng(0).normal(size=(90, 3))
        >>> scores = cross_val_score(GaussianDensity(), x, scoring=evidence_scorer(), cv=3)
        >>> closed_form = cross_val_score(GaussianDensity(), x, cv=3)
        >>> bool(abs(scores - closed_form).max() < 0.1)
        True
    """
    return partial(_log_evidence, design=design, seed=seed)


def _log_evidence(estimator: Any, X: Any, y: Any = None, *, design: MaskDesign | None, seed: int) -> float:
    """The estimated log evidence of rows, after the transformers of a pipeline."""
    if isinstance(estimator, _pipeline.Pipeline):
        X = estimator[:-1].transform(X) if len(estimator) > 1 else X
        estimator = estimator[-1]
    if hasattr(estimator, "evidence"):
        return float(estimator.evidence(X, design, seed=seed).log_evidence)
    return estimate_evidence(estimator, X, design, seed=seed).log_evidence
