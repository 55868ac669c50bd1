"""Fixtures for run directories: one thread, and a saved model with its rows."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch

from recorded_runs import N_FEATURES, make_model


@pytest.fixture
def one_thread() -> Iterable[None]:
    """One thread, as the processes that are killed have: sums may round differently with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Path]:
    """A saved model and a table of 600 rows."""
    make_model().save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", np.random.default_rng(2).normal(size=(600, N_FEATURES)))
    return tmp_path / "model", tmp_path / "rows.npy"
