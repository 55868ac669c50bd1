"""Saved models: bit-equal after the round trip, and a one-line error if a folder holds none."""

import json
import re
import shutil
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import maskevidence as me
from refusals import one_line


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A saved PPCA."""
    me.models.PPCA(4, 2, seed=3).save(tmp_path)
    return tmp_path


def test_a_loaded_model_is_bit_equal(build, tmp_path: Path) -> None:
    model = build(6)
    model.columns = ["a", "b", "c", "d", "e", "ü"]
    model.save(tmp_path / "new" / "folder")
    loaded = me.models.load(tmp_path / "new" / "folder")
    assert type(loaded) is type(model)
    assert loaded.columns == model.columns
    state = loaded.state_dict()
    assert list(state) == list(model.state_dict())
    for name, value in model.state_dict().items():
        assert state[name].dtype == value.dtype
        assert torch.equal(state[name], value)
    x = model.sample(5)
    np.testing.assert_array_equal(loaded.sample(5), x)
    np.testing.assert_array_equal(loaded.score_samples(x), model.score_samples(x))


def test_saving_again_replaces_the_model(folder: Path) -> None:
    me.models.Gaussian(n_features=2).save(folder)
    assert type(me.models.load(folder)) is me.models.Gaussian


Change = Callable[[Path], object]


def edited(**changes: object) -> Change:
    """Change entries of the configuration."""

    def edit(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def written(name: str, change: Callable[[bytes], bytes]) -> Change:
    return lambda folder: (folder / name).write_bytes(change((folder / name).read_bytes()))


def network(**sizes: Any) -> Change:
    """A network beyond its weights: its memory is not asked for."""

    def save(folder: Path) -> None:
        me.models.MaskedNetwork(3, 8, 1).save(folder)
        arguments = json.loads((folder / "config.json").read_text())["arguments"]
        edited(arguments=arguments | sizes)(folder)

    return save


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (shutil.rmtree, "there is no folder"),
        (lambda folder: (folder / "config.json").unlink(), "holds no saved model: config.json"),
        (lambda folder: (folder / "model.safetensors").unlink(), "holds no saved model: model.safetensors"),
        (written("config.json", lambda data: data[: len(data) // 2]), "cannot be read"),
        (written("config.json", lambda data: b"\xff\xfe" + data), "cannot be read"),
        (written("model.safetensors", lambda data: data[: len(data) // 2]), "cannot be read"),
        (written("model.safetensors", lambda data: b""), "cannot be read"),
        (written("config.json", lambda _: b"[1, 2]"), "describes class None"),
        (written("config.json", lambda _: b'{"format": 1, "class": "PPCA"}'), "do not fit"),
        (edited(**{"class": "Transformer"}), "describes class 'Transformer'"),
        (edited(**{"class": ["PPCA"]}), "describes class"),
        (edited(format=99), "in format 99; this version reads format 1"),
        (edited(**{"class": "FactorAnalysis"}), "do not fit"),
        (edited(arguments={"n_features": 4, "n_components": 1}), r"shape \(4, 2\), where PPCA has \(4, 1\)"),
        (edited(arguments={"n_features": 5, "n_components": 2}), "do not fit"),
        (edited(arguments=[4, 2]), "do not fit"),
        (edited(arguments={"n_features": 4, "n_components": 9}), "n_components=9"),
        (edited(fitted_rows="xyz"), "fitted_rows are no hashes in hexadecimal; save the model"),
        (edited(fitted_rows=3), "fitted_rows are no hashes in hexadecimal; save the model"),
        (network(width=10**9), "width=1000000000"),
        (
            network(columns=[{"kind": "category", "values": [0.0, 1.0], "unseen": 0.0}] * 4),
            "cannot be a column",
        ),
        (network(layers=10**9), "layers=1000000000"),
    ],
)
def test_a_folder_of_something_else_is_one_line(change: Change, message: str, folder: Path) -> None:
    change(folder)
    one_line(lambda: me.models.load(folder), match=message)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "model",
    [
        me.models.PPCA(4, 2),
        me.models.FactorAnalysis(4, 2),
        me.models.Gaussian(n_features=4),
        me.models.BernoulliPCA(4, 1),
        me.models.VAE(n_features=4, n_components=1, hidden=(2,)),
        me.models.VAE(n_features=4, n_components=1, likelihood="bernoulli"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_models_of_both_dtypes_are_read_as_they_were(
    model: torch.nn.Module, dtype: torch.dtype, tmp_path: Path
) -> None:
    """Some weights are kept in float64 whatever the dtype of the others."""
    model = deepcopy(model).to(dtype)
    model.save(tmp_path)
    loaded = me.models.load(tmp_path).state_dict()
    for name, value in model.state_dict().items():
        assert loaded[name].dtype == value.dtype
        assert torch.equal(loaded[name], value)


class TestRowsThatAModelWasFittedTo:
    """A saved model remembers them, and a score of them says so."""

    NOTE = "the model was fitted to {} that are scored; new rows have a lower log evidence"

    def rows(self, n: int = 100, seed: int = 0) -> np.ndarray:
        return np.random.default_rng(seed).normal(size=(n, 3))

    def saved(self, x: np.ndarray, folder: Path) -> torch.nn.Module:
        me.models.PPCA(3, 1).fit(x).save(folder)
        return me.models.load(folder)

    def test_are_noted_after_the_model_was_saved(self, tmp_path: Path) -> None:
        x = self.rows()
        model = self.saved(x, tmp_path)
        assert me.estimate_evidence(model, x[::-1]).notes == (self.NOTE.format("the rows"),)
        both = np.vstack([self.rows(100, seed=1), x[:60]])
        assert me.estimate_evidence(model, both).notes == (self.NOTE.format("38% of the rows"),)
        assert me.estimate_evidence(model, self.rows(100, seed=1)).notes == ()

    def test_with_holes_and_in_float32_are_known_again(self, tmp_path: Path) -> None:
        x = self.rows()
        x[::3, 1] = np.nan
        model = self.saved(x, tmp_path)
        for scored in (x, x.astype(np.float32)):
            assert model.notes_on(model.tokens(scored)) == (self.NOTE.format("the rows"),)

    def test_of_a_large_table_are_known_by_a_sample(self, tmp_path: Path) -> None:
        x = self.rows(20_000)
        model = self.saved(x, tmp_path)
        half = model.tokens(np.vstack([self.rows(20_000, seed=1), x]))
        share = int(re.search(r"fitted to (\d+)%", model.notes_on(half)[0])[1])
        assert 45 <= share <= 55  # the standard error of 2,000 rows is 1 %

    def test_are_unknown_where_many_rows_are_equal(self) -> None:
        x = np.random.default_rng(0).integers(0, 2, size=(100, 3)).astype(float)
        model = me.models.BernoulliPCA(3, 1).fit(x, max_iterations=2)
        assert model.notes_on(model.tokens(x)) == ()
