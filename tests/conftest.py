"""Fixtures for many tests: Gaussian models, and rows with missing values and context."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import jaxtyping
import numpy as np
import pytest
import torch

import maskevidence as me
from builders import BuildModel
from command_line import run as run
from command_line import saving_every_block
from maskevidence.core.tokens import Tokens
from oracles import GaussianModel
from recorded_runs import N_FEATURES, make_model

# The same examples on every machine, and no test depends on the clock.
hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, max_examples=50
)
hypothesis.settings.load_profile("repeatable")


def pytest_configure() -> None:
    """Thousands of temporary files are written: in memory, where there is much, none waits for the disk."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 * 1024**3:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whose tests wait for other processes come first: at the end they would leave a worker idle."""
    waiting = ("test_ray.py", "test_tutorials.py", "test_kill.py", "test_surroundings.py")
    items.sort(key=lambda item: item.path.name not in waiting)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small tables, texts, images and models in the folders `data` and `models`, to be read alone."""
    pytest.importorskip("transformers", reason="the extra hf is not installed")
    from small_world import write_world

    return write_world(tmp_path_factory.mktemp("world"))


def _gaussian(n_features: int, rng: np.random.Generator) -> me.models.Gaussian:
    root = rng.normal(size=(n_features, n_features)) / np.sqrt(n_features)
    covariance = torch.from_numpy(root @ root.T + 0.3 * np.eye(n_features))
    return me.models.Gaussian(torch.from_numpy(rng.normal(size=n_features)), covariance)


def _ppca(n_features: int, rng: np.random.Generator) -> me.models.PPCA:
    loadings = torch.from_numpy(rng.normal(size=(n_features, min(3, n_features - 1))))
    return me.models.PPCA.from_parameters(loadings, 0.4, torch.from_numpy(rng.normal(size=n_features)))


def _factor_analysis(n_features: int, rng: np.random.Generator) -> me.models.FactorAnalysis:
    loadings = torch.from_numpy(rng.normal(size=(n_features, min(3, n_features - 1))))
    noise = torch.from_numpy(rng.uniform(0.2, 2.0, size=n_features))
    mean = torch.from_numpy(rng.normal(size=n_features))
    return me.models.FactorAnalysis.from_parameters(loadings, noise, mean)


_BUILDERS = {"Gaussian": _gaussian, "PPCA": _ppca, "FactorAnalysis": _factor_analysis}


@pytest.fixture(params=sorted(_BUILDERS))
def build(request: pytest.FixtureRequest) -> BuildModel:
    """A model of each class with random parameters, by number of features and seed."""

    def of(n_features: int = 8, seed: int = 0) -> GaussianModel:
        return _BUILDERS[request.param](n_features, np.random.default_rng(seed))

    return of


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks of tables are fitted in few steps, for tests that ask nothing of how well they learn."""
    monkeypatch.setattr("maskevidence.tables.network.masked_network._STEPS", 60)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread, as the processes that are killed have: sums may round differently with more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def every_block_saved() -> Iterator[None]:
    """The runs of all tests of a file save each block as soon as it is scored."""
    with saving_every_block():
        yield


@pytest.fixture
def saved(tmp_path: Path) -> tuple[Path, Path]:
    """A saved model and a table of 600 rows, for run directories."""
    make_model().save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", np.random.default_rng(2).normal(size=(600, N_FEATURES)))
    return tmp_path / "model", tmp_path / "rows.npy"


@pytest.fixture
def four_columns(tmp_path: Path) -> str:
    """A CSV file of 60 rows, with the columns a, b, c and a constant one."""
    values = np.column_stack([np.random.default_rng(0).normal(size=(60, 3)), np.ones(60)])
    np.savetxt(tmp_path / "t.csv", values, delimiter=",", header="a,b,c,same", comments="")
    return str(tmp_path / "t.csv")


@pytest.fixture
def unchecked() -> Iterator[None]:
    """No run-time type checks.

    For simulations, which repeat one call a thousand times, and for arguments of a wrong type, which the
    package's own errors have to catch for a user.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def build_gaussian() -> BuildModel:
    """A Gaussian with random parameters, by number of features and seed."""
    return lambda n_features=8, seed=0: _gaussian(n_features, np.random.default_rng(seed))


@pytest.fixture
def build_ppca() -> BuildModel:
    """A PPCA with random parameters, by number of features and seed."""
    return lambda n_features=8, seed=0: _ppca(n_features, np.random.default_rng(seed))


@pytest.fixture
def mixed_tokens() -> Callable[..., Tokens]:
    """Rows whose tokens are absent, context or maskable, in every mixture; absent values are NaN."""

    def of(n_rows: int = 12, n_features: int = 8, seed: int = 0) -> Tokens:
        rng = np.random.default_rng(seed)
        role = rng.choice(["maskable", "context", "absent"], size=(n_rows, n_features), p=[0.6, 0.2, 0.2])
        role[0], role[1], role[2] = "maskable", "absent", "context"  # complete; one token alone; all but one
        role[1:3, 0] = "maskable"
        role[:, -1] = "maskable"
        values = np.where(role == "absent", np.nan, rng.normal(size=role.shape))
        return Tokens(
            values=torch.from_numpy(values),
            maskable=torch.from_numpy(role == "maskable"),
            context=torch.from_numpy(role == "context"),
            ids=torch.arange(n_rows) * 7 + 3,
        )

    return of
