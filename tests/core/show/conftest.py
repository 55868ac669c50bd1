"""Small results of every kind, as a notebook would show them."""

from typing import Any

import numpy as np
import pytest

import maskevidence as me

Shown = dict[str, Any]


@pytest.fixture(scope="session")
def shown() -> Shown:
    """One result of each kind by name; each table has missing values."""
    truth = me.models.PPCA(n_features=6, n_components=2, seed=3)
    x = truth.sample(150, seed=1)
    x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
    fits = {f"ppca:{k}": me.models.PPCA(6, k).fit(x) for k in (1, 2, 3)}
    estimates = {name: me.estimate_evidence(fit, x) for name, fit in fits.items()}
    comparison = me.compare(estimates)
    complete = truth.sample(60, seed=2)
    trained = me.models.PPCA(6, 2, seed=1)
    history = me.fit(trained, complete[:40], me.EverySize(1), epochs=5, held_out=complete[40:])
    return {
        "estimate": estimates["ppca:2"],
        "curve": estimates["ppca:2"].curve,
        "comparison": comparison,
        "difference": comparison.behind[0],
        "imputation": me.impute(fits["ppca:2"], x),
        "history": history,
        "model": fits["ppca:2"],
        "report": me.CheckReport(
            "PPCA", (me.Finding("leak", "passed", "no answer changed", n_rows=8),), 8, 0
        ),
    }
