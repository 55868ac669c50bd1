"""Fixtures for run directories: a saved model with its rows."""

from pathlib import Path

import numpy as np
import pytest

from recorded_runs import N_FEATURES, make_model


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Path]:
    """A saved model and a table of 600 rows."""
    make_model().save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", np.random.default_rng(2).normal(size=(600, N_FEATURES)))
    return tmp_path / "model", tmp_path / "rows.npy"
