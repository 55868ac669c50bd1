"""One model of a table: fitted to a fraction of the rows, with its criteria and what they are to predict."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

import maskevidence as me
from _table_sets import Split, Values, n_rows, split
from maskevidence.sklearn import (
    PPCA,
    FactorAnalysis,
    GaussianDensity,
    KernelGaussianDensity,
)

MOST_ROWS = 200  # for the criteria
CRITERIA: Mapping[str, me.MaskDesign] = {
    "area": me.RandomSize(8),
    "pll": me.LeaveOneOut(),
    "fixed_rate": me.FixedRate(0.15, 4),
}
MODELS = ("ppca 1", "ppca 2", "ppca 3", "factors 1", "factors 2", "factors 3", "gaussian", "kernels")


def new_density(model: str, n_columns: int) -> Any:
    """An estimator with one of three numbers of components: 1, and about a sixth and a third of the columns.

    Example:
        >>> new_density("ppca 3", 30).n_components
        10
    """
    family, _, level = model.partition(" ")
    if family == "gaussian":
        return GaussianDensity()
    if family == "kernels":
        return KernelGaussianDensity(random_state=0)
    n_components = {"1": 1, "2": max(2, n_columns // 6), "3": max(3, n_columns // 3)}[level]
    return {"ppca": PPCA, "factors": FactorAnalysis}[family](n_components)


def table_model(data_set: str, seed: int, model: str, fraction: float) -> dict[str, Any]:
    """Fit a model and measure it.

    Args:
        data_set: one of `SETS`.
        seed: of the split.
        model: one of `MODELS`.
        fraction: of the training rows.

    Returns:
        The criteria and targets of claims.toml; or the entry `failed`, why the model could not be fitted.
    """
    parts = split(data_set, seed)
    rows = parts.train[: n_rows(len(parts.train), fraction)]
    shape = {"n_rows": len(rows), "n_columns": rows.shape[1]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: 40 models of every table are fitted as they come
        try:
            density = new_density(model, rows.shape[1]).fit(rows)
            found = _criteria(density, rows, "", seed) | _criteria(density, parts.held_out, "_held_out", seed)
            return {**shape, **found, **_targets(density, parts), "failed": None}
        except (ValueError, ArithmeticError, me.MaskEvidenceError) as error:
            return {**shape, "failed": str(error)}


def _criteria(density: Any, rows: Values, suffix: str, seed: int) -> dict[str, float | None]:
    """The exact evidence and its estimates on at most 200 rows, nats per row."""
    rows = rows[:MOST_ROWS]
    found: dict[str, float | None] = {f"evidence{suffix}": float(density.score(rows))}
    for name, design in CRITERIA.items():
        estimate = me.estimate_evidence(density.model_, rows, design, seed=seed, check=False)
        found[name + suffix] = estimate.log_evidence
        if name == "area":
            found[f"area_se{suffix}"] = estimate.mask_se
    return found


def _targets(density: Any, parts: Split) -> dict[str, float | None]:
    hidden = np.isnan(parts.holes) & ~np.isnan(parts.test)
    filled = density.impute(parts.holes).values
    error = (filled - parts.test)[hidden]
    accuracy = None
    if hasattr(density, "transform"):
        classes = LogisticRegression(max_iter=1000).fit(density.transform(parts.train), parts.train_labels)
        accuracy = float(classes.score(density.transform(parts.test), parts.test_labels))
    return {
        "log_density": float(density.score(parts.test)) / parts.test.shape[1],
        "imputation": -float(np.sqrt(np.mean(error**2))),
        "accuracy": accuracy,
    }
