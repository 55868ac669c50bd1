"""Fingerprints: everything that decides a model's numbers, and the runs of version 0.1.0 are recognised."""

# ruff: noqa: F811 (a fixture is imported, and asked for by its name)

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import maskevidence as me
from command_line import CommandLine, files_in, run  # noqa: F401
from maskevidence.models.fingerprints import fingerprint, same_fingerprint, weights_fingerprint
from recorded_runs import without_seals

D = 3


def vae(chains: int = 4, seed: int = 7) -> me.models.VAE:
    rule = me.models.EncodingDecoding(chains, 2)
    return me.models.VAE(n_features=D, n_components=1, hidden=(2,), conditioning=rule, seed=seed)


# Of models whose parameters are all ½, as version 0.1.0 computed them.
OLD = {
    "ppca": "3898c3536bdfbb9afc07c6ebb921c036b93de191f958b357b4aa0c52d077ce45",
    "bernoulli": "91b903fd44f8c1a8ea92dcc69a7d3ae6c1396a8a1412a010dd83eb5931a9f3f7",
    "vae": "20ab2a090b471a71a71ad87b0591eec6651878aff7efd63055f8fdc286929405",
}
MODELS: dict[str, Callable[[], nn.Module]] = {
    "ppca": lambda: me.models.PPCA(D, 1),
    "bernoulli": lambda: me.models.BernoulliPCA(D, 1),
    "vae": vae,
}
OTHERS: dict[str, Callable[[], nn.Module]] = {
    "another class": lambda: me.models.FactorAnalysis(D, 1),
    "a finer grid": lambda: me.models.BernoulliPCA(D, 1, integration=me.models.Grid(40)),
    "more chains": lambda: vae(chains=8),
    "another seed of the draws": lambda: vae(seed=8),
    "another dtype": lambda: me.models.PPCA(D, 1, dtype=torch.float32),
}


def with_float32_units(model: me.models.VAE) -> me.models.VAE:
    """The model as a file of version 0.1.0 gives it: shift and scale were in the dtype of the networks."""
    density = model.tokens_given_latent
    density.shift, density.scale = density.shift.float(), density.scale.float()
    return model


def with_halves(model: nn.Module) -> nn.Module:
    """The model with every parameter ½, so that only class and settings tell two of them apart."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(0.5)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_an_old_fingerprint_is_recognised(name: str) -> None:
    model = with_halves(MODELS[name]())
    if isinstance(model, me.models.VAE):
        model = with_float32_units(model)
    assert weights_fingerprint(model) == OLD[name]
    assert fingerprint(model) != OLD[name]
    assert same_fingerprint(fingerprint(model), OLD[name])
    assert same_fingerprint(OLD[name], fingerprint(model))
    assert not same_fingerprint(OLD[name], fingerprint(MODELS[name]()))


@pytest.mark.parametrize("name", OTHERS)
def test_what_decides_the_numbers_tells_models_apart(name: str) -> None:
    prints = [fingerprint(with_halves(build())) for build in (*MODELS.values(), OTHERS[name])]
    assert len(set(prints)) == len(prints)
    assert not any(same_fingerprint(one, prints[-1]) for one in prints[:-1])


def test_equal_models_have_equal_fingerprints(tmp_path: Path) -> None:
    for name, build in MODELS.items():
        model = build()
        model.save(tmp_path / name)
        assert fingerprint(me.models.load(tmp_path / name)) == fingerprint(model)


def test_a_module_without_settings_has_its_class_and_weights() -> None:
    module = nn.Linear(2, 1)
    assert fingerprint(module) == weights_fingerprint(module)
    assert len(weights_fingerprint(module)) == 64


def test_a_model_that_is_not_a_module_has_none() -> None:
    assert fingerprint(object()) is None
    assert same_fingerprint(None, None)
    assert not same_fingerprint(None, OLD["vae"])


@pytest.fixture
def words(tmp_path: Path) -> list[object]:
    """A finished run of a saved VAE, by the command that made it."""
    with_float32_units(vae()).save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", np.random.default_rng(2).normal(size=(40, D)))
    return [
        "score",
        tmp_path / "model",
        tmp_path / "rows.npy",
        "--masks-per-size",
        1,
        "--out",
        tmp_path / "a",
    ]


def as_version_0_1_0_left_it(folder: Path) -> None:
    """The run without seals, with the fingerprint that version 0.1.0 gave the model."""
    manifest = without_seals(folder)
    manifest["model_fingerprint"] = manifest["model_fingerprint"][:64]
    (folder / "run.json").write_text(json.dumps(manifest))


def test_a_run_of_version_0_1_0_is_known(run: CommandLine, tmp_path: Path, words: list[object]) -> None:
    assert run(*words).code == 0
    folder = tmp_path / "a"
    as_version_0_1_0_left_it(folder)
    scores = {name: (folder / name).read_bytes() for name in files_in(folder) if "scores" in str(name)}
    result = run(*words)
    assert result.code == 0, result.err
    assert "was finished before" in " ".join(result.out.split())
    for name in scores:
        (folder / name).unlink()
    assert run(*words).code == 0  # without scores, it begins again
    assert run("summarize", folder).code == 0


def test_a_run_of_another_model_is_refused(run: CommandLine, tmp_path: Path, words: list[object]) -> None:
    assert run(*words).code == 0
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["arguments"]["conditioning"]["chains"] = 5
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    assert "holds another run (model_fingerprint" in run(*words).error
    as_version_0_1_0_left_it(tmp_path / "a")  # its fingerprint held a VAE's conditioning, too
    assert "holds another run (model_fingerprint" in run(*words).error
