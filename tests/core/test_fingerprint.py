"""Fingerprints: everything that decides a model's numbers."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import maskevidence as me
from command_line import CommandLine
from maskevidence.core.model import fingerprint, weights_fingerprint

D = 3


def vae(draws: int = 4, seed: int = 7) -> me.models.VAE:
    rule = me.models.ImportanceSampling(draws, 2, prior_draws=1)
    return me.models.VAE(n_features=D, n_components=1, hidden=(2,), conditioning=rule, seed=seed)


MODELS: dict[str, Callable[[], nn.Module]] = {
    "ppca": lambda: me.models.PPCA(D, 1),
    "bernoulli": lambda: me.models.BernoulliPCA(D, 1),
    "vae": vae,
}
OTHERS: dict[str, Callable[[], nn.Module]] = {
    "another class": lambda: me.models.FactorAnalysis(D, 1),
    "a finer grid": lambda: me.models.BernoulliPCA(D, 1, integration=me.models.Grid(40)),
    "more draws": lambda: vae(draws=8),
    "another seed of the draws": lambda: vae(seed=8),
    "another dtype": lambda: me.models.PPCA(D, 1, dtype=torch.float32),
}


def with_halves(model: nn.Module) -> nn.Module:
    """The model with every parameter ½, so that only class and settings tell two of them apart."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    return model


@pytest.mark.parametrize("name", OTHERS)
def test_what_decides_the_numbers_tells_models_apart(name: str) -> None:
    prints = [fingerprint(with_halves(build())) for build in (*MODELS.values(), OTHERS[name])]
    assert len(set(prints)) == len(prints)


def test_equal_models_have_equal_fingerprints(tmp_path: Path) -> None:
    for name, build in MODELS.items():
        model = build()
        model.save(tmp_path / name)
        assert fingerprint(me.models.load(tmp_path / name)) == fingerprint(model)


def test_modules_without_settings_and_other_objects() -> None:
    module = nn.Linear(2, 1)
    assert fingerprint(module) == weights_fingerprint(module)
    assert fingerprint(object()) is None


def test_a_run_of_another_model_is_refused(run: CommandLine, tmp_path: Path) -> None:
    model, rows = tmp_path / "model", tmp_path / "rows.npy"
    vae().save(model)
    np.save(rows, np.random.default_rng(2).normal(size=(40, D)))
    words = ("score", model, rows, "--design", "every-size:1", "--out", tmp_path / "a")
    assert run(*words).code == 0
    config = json.loads((model / "config.json").read_text())
    config["arguments"]["conditioning"]["draws"] = 5
    (model / "config.json").write_text(json.dumps(config))
    assert "holds another run (model_fingerprint" in run(*words).error
