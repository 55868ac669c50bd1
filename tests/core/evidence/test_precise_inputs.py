"""Targets for data that are hard to score: in Python, and by `score` on the command line."""

from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me
from command_line import CommandLine

KINDS = ("rows", "one row", "one column", "one number", "equal rows", "very different lengths")


def model_of(n_features: int) -> me.models.Gaussian:
    shared = torch.full((n_features, n_features), 0.5).double()
    return me.models.Gaussian(torch.zeros(n_features).double(), shared + torch.eye(n_features).double())


def table_of(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "equal rows":
        return np.ones((40, 4))
    if kind == "very different lengths":
        table = rng.normal(size=(40, 20))
        table[::2, 1:] = np.nan
        return table
    shapes = {"rows": (40, 6), "one row": (1, 6), "one column": (40, 1), "one number": (1, 1)}
    return rng.normal(size=shapes[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_a_target_is_reached(kind: str) -> None:
    table = table_of(kind)
    model = model_of(table.shape[1])
    reached = me.estimate_evidence(model, table, me.Precise(target_se=0.1), seed=5)
    if table.shape[1] == 1:
        assert (reached.mask_se, reached.n_masks) == (0, 8 * len(table))
        assert reached.log_evidence == pytest.approx(float(model.score_samples(table).mean()))
        return
    assert (reached.mask_se or 0.0) <= max(0.1, 0.1 * (reached.data_se or 0.0))
    truth = float(model.score_samples(table).mean())
    assert abs(reached.log_evidence - truth) < 4 * reached.mask_se


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    for kind in KINDS:
        np.save(folder / f"{kind}.npy", table_of(kind))
        model_of(table_of(kind).shape[1]).save(folder / kind)
    return folder


@pytest.mark.parametrize(
    ("kind", "target", "wanted"),
    [
        ("rows", "1e-12", "no longer matters beside it (the target of 1e-12 nats takes about"),
        ("one row", "1e-12", "memory does not hold the masks that the target takes"),
        ("one row", "1", "the target of 1 nats is reached"),
        ("one column", "0.05", "there is nothing to draw"),
        ("one number", "0.05", "there is nothing to draw"),
        ("equal rows", "0.3", "0.3 nats is reached"),
        ("very different lengths", "0.3", "0.3 nats is reached"),
    ],
)
def test_the_command_says_why_the_draws_ended(
    folder: Path, run: CommandLine, kind: str, target: str, wanted: str
) -> None:
    found = run("score", folder / kind, folder / f"{kind}.npy", "--target-se", target)
    assert wanted in " ".join(found.out.split())


def test_no_variance_at_all(folder: Path, run: CommandLine, tmp_path: Path) -> None:
    torch_model = me.models.Gaussian(torch.zeros(4).double(), torch.eye(4).double())
    torch_model.save(tmp_path / "model")
    table = folder / "equal rows.npy"
    found = run("score", tmp_path / "model", table, "--target-se", "0.05")
    assert (found.code, "more of them would not tell their error" in " ".join(found.out.split())) == (0, True)
