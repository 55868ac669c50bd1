"""Saved models: bit-equal after the round trip, and a one-line error if a folder holds none."""

import json
import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

import maskevidence as me


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


@pytest.mark.parametrize(
    "model",
    [
        me.models.Gaussian(n_features=3, dtype=torch.float32),
        me.models.PPCA(3, 1, dtype=torch.float32),
        me.models.FactorAnalysis(3, 2, dtype=torch.float32),
    ],
    ids=lambda model: type(model).__name__,
)
def test_the_dtype_is_kept(model: torch.nn.Module, tmp_path: Path) -> None:
    model.save(tmp_path)
    loaded = me.models.load(tmp_path)
    for name, value in loaded.state_dict().items():
        assert value.dtype == (torch.float64 if name == "mean" else torch.float32)
        assert torch.equal(value, model.state_dict()[name])


def test_a_mean_in_float32_as_version_0_1_0_saved_it_is_read(tmp_path: Path) -> None:
    model = me.models.PPCA(3, 1, dtype=torch.float32, seed=4)
    model.mean = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))
    model.save(tmp_path)
    loaded = me.models.load(tmp_path)
    assert {value.dtype for value in loaded.state_dict().values()} == {torch.float32}
    assert loaded.mean.requires_grad
    x = model.sample(5)
    np.testing.assert_array_equal(loaded.score_samples(x), model.score_samples(x))


def test_saving_again_replaces_the_model(folder: Path) -> None:
    me.models.Gaussian(n_features=2).save(folder)
    assert type(me.models.load(folder)) is me.models.Gaussian


def test_the_folder_holds_a_config_and_weights(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]
    config = json.loads((folder / "config.json").read_text())
    assert config["class"] == "PPCA"
    assert config["arguments"] == {"n_features": 4, "n_components": 2}


def refused(folder: Path) -> str:
    """The one-line error of loading a folder."""
    with pytest.raises(me.InputError) as caught:
        me.models.load(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_a_missing_folder(tmp_path: Path) -> None:
    assert "there is no folder" in refused(tmp_path / "nothing")


def test_a_file_instead_of_a_folder(folder: Path) -> None:
    assert "there is no folder" in refused(folder / "config.json")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    message = refused(folder)
    assert "holds no saved model" in message
    assert name in message


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"\xff\xfe" + data]
)
def test_a_damaged_file(folder: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    path = folder / name
    path.write_bytes(damage(path.read_bytes()))
    assert "cannot be read" in refused(folder)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"class": "Transformer"}, "describes class 'Transformer'"),
        ({"class": ["PPCA"]}, "describes class"),
        ({"class": None}, "describes class None"),
        ({"format": 99}, "in format 99; this version reads format 1"),
        ({"class": "FactorAnalysis"}, "do not fit"),
        ({"class": "Gaussian"}, "do not fit"),
        ({"arguments": {"n_features": 5, "n_components": 2}}, "do not fit"),
        ({"arguments": {"n_features": 4}}, "do not fit"),
        ({"arguments": [4, 2]}, "do not fit"),
        ({"arguments": {"n_features": 4, "n_components": 9}}, "n_components=9"),
    ],
)
def test_a_config_of_something_else(folder: Path, changes: dict, message: str) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert message in refused(folder)


@pytest.mark.parametrize("size", ["width", "layers"])
def test_a_network_beyond_its_weights_is_not_allocated(tmp_path: Path, size: str) -> None:
    me.models.MaskedNetwork(3, 8, 1).save(tmp_path)
    path = tmp_path / "config.json"
    config = json.loads(path.read_text())
    config["arguments"][size] = 10**9
    path.write_text(json.dumps(config))
    assert f"{size}=1000000000" in refused(tmp_path)


def test_a_config_that_is_not_an_object_or_lacks_its_arguments(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text("[1, 2]")
    assert "describes class None" in refused(folder)
    path.write_text('{"format": 1, "class": "PPCA"}')
    assert "do not fit" in refused(folder)


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

    @pytest.mark.parametrize("wrong", [3, "xyz"])
    def test_that_are_damaged_are_refused(self, wrong: object, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"fitted_rows": wrong}))
        with pytest.raises(me.InputError, match="fitted_rows are no hashes in hexadecimal; save the model"):
            me.models.load(folder)
