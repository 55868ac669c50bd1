"""Whatever is wrong ends in one line: bad input with exit code 2, and an internal error with 70."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import maskevidence as me
from command_line import CommandLine, files_in
from image_models import random_images, write_images
from maskevidence.commands import app
from maskevidence.models.image.summary import image_summary


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a table of numbers."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "t.npy", rng.normal(size=(40, 4)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


class TestCatchAll:
    @pytest.fixture
    def broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A fault in the package itself."""

        def divide(*_: Any) -> None:
            raise ZeroDivisionError("division\nby zero")

        monkeypatch.setattr("maskevidence.kinds.prepare.prepare", divide)

    def test_an_internal_error_is_one_line_with_its_place(
        self, folder: Path, run: CommandLine, broken: None
    ) -> None:
        result = run("score", "ppca:1", "t.npy")
        assert result.code == 70
        (line,) = result.err.splitlines()
        assert line.startswith("internal error, please report: ZeroDivisionError in maskevidence")
        assert "score.py, line " in line
        assert line.endswith(": division by zero (--debug shows the traceback)")

    @pytest.mark.parametrize("place", [0, 1, 3])
    def test_debug_shows_the_traceback(
        self, folder: Path, run: CommandLine, broken: None, place: int
    ) -> None:
        words = ["score", "ppca:1", "t.npy"]
        result = run(*words[:place], "--debug", *words[place:])
        assert result.code == 70
        assert result.err.startswith("Traceback (most recent call last):")
        assert result.err.splitlines()[-1].startswith("internal error, please report: ZeroDivisionError")

    def test_debug_of_bad_input(self, folder: Path, run: CommandLine) -> None:
        result = run("score", "ppca", "t.npy", "--debug")
        assert result.code == 2
        assert result.err.startswith("Traceback")
        assert "error: model 'ppca' lacks its number of components" in result.err.splitlines()[-1]

    def test_help_has_debug(self, run: CommandLine) -> None:
        assert app.DEBUG in run("--help").out

    @pytest.mark.parametrize(
        "error", [MemoryError("Unable to allocate 9 PiB"), RuntimeError("CUDA out of memory. Tried")]
    )
    def test_no_memory(
        self, folder: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        def allocate(*_: Any) -> None:
            raise error

        monkeypatch.setattr("maskevidence.kinds.prepare.prepare", allocate)
        assert run("score", "ppca:1", "t.npy").error.startswith("there is not enough memory (")


class TestOptions:
    @pytest.mark.parametrize(
        "words",
        [
            ("--seed", "-1"),
            ("--seed", "9" * 24),
            ("--limit", "9" * 24),
            ("--threads", "1000000"),
            ("--design", "random-size:1000000000"),
            ("--design", "random-size:1000000000", "--out", "run"),
            ("--design", "orderings:1000000000"),
            ("--design", "every-size:" + "9" * 24),
            ("--design", "rates:0.01-0.99-0.000000001"),
            ("--out", "x" * 300),
        ],
    )
    def test_of_score(self, folder: Path, run: CommandLine, words: tuple[str, ...]) -> None:
        before = files_in(folder)
        assert run("score", "ppca:1", "t.npy", *words).error
        assert files_in(folder) == before

    @pytest.mark.parametrize(
        "words",
        [
            ("--seed", "-1"),
            ("--threads", "1000000"),
            ("--objective", "random-size:1000000000"),
            ("--objective", "iwae:1000000000"),
        ],
    )
    def test_of_train(self, folder: Path, run: CommandLine, words: tuple[str, ...]) -> None:
        assert run("train", "vae:1", "t.npy", "--out", "model", "--epochs", 1, *words).error

    @pytest.mark.parametrize("word", ["d" * 300, "m/" * 3000])
    def test_long_names(self, folder: Path, run: CommandLine, word: str) -> None:
        assert "File name too long" in run("score", "ppca:1", word).error
        assert "File name too long" in run("score", word, "t.npy").error


class TestData:
    @pytest.mark.parametrize("source", ["hub:../../x", "hub:", "hub:a/b/c/d", "hub:/etc", "hub:a/.."])
    def test_a_name_that_the_hub_cannot_have(self, folder: Path, run: CommandLine, source: str) -> None:
        assert "is not the name of a data set" in run("score", "ppca:1", source).error

    def test_a_pipe_among_images_is_refused_or_listed(self, folder: Path, run: CommandLine) -> None:
        pytest.importorskip("PIL.Image")
        write_images(folder / "images", random_images(10, 2))
        os.mkfifo(folder / "images" / "pipe.png")
        assert "pipe.png" in run("score", "ppca:1", "images", "--json", "-").error
        result = run("score", "ppca:1", "images", "--json", "-", "--skip-bad")
        assert json.loads(result.out)["n_observations"] == 2
        assert "pipe.png" in result.err


class TestSavedModels:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda weights: weights * float("nan"), "hold NaN or infinity"),
            (lambda weights: weights.half(), "torch.float16"),
            (lambda weights: weights.bfloat16(), "torch.bfloat16"),
            (lambda weights: weights.to(torch.complex64), "torch.complex64"),
            (lambda weights: weights.long(), "torch.int64"),
        ],
    )
    def test_weights(self, folder: Path, run: CommandLine, change: Any, words: str) -> None:
        me.models.PPCA(4, 2).save("model")
        weights = load_file("model/model.safetensors")
        save_file({name: change(value) for name, value in weights.items()}, "model/model.safetensors")
        assert words in run("score", "model", "t.npy").error

    @pytest.mark.parametrize(
        "change",
        [
            {"arguments": [1, 2]},
            {"arguments": None},
            {"arguments": {"n_features": "4", "n_components": 2}},
            {"arguments": {"n_features": 4.0, "n_components": 2}},
            {"arguments": {"n_features": True, "n_components": 2}},
            {"arguments": {"n_features": 10**9, "n_components": 2}},
            {"arguments": {"n_features": 4, "n_components": 10**9}},
            {"arguments": {"n_features": 4, "n_components": None}},
            {"columns": 3},
            {"columns": [1, 2, 3, 4]},
            {"columns": "abcd"},
            {"columns": ["a"]},
        ],
    )
    def test_configuration(self, folder: Path, run: CommandLine, change: dict[str, Any]) -> None:
        me.models.PPCA(4, 2).save("model")
        file = Path("model/config.json")
        file.write_text(json.dumps(json.loads(file.read_text()) | change))
        assert "config.json" in run("score", "model", "t.npy").error

    @pytest.mark.parametrize("single", ["loadings", "log_noise_variance"])
    def test_weights_of_two_dtypes(self, folder: Path, run: CommandLine, single: str) -> None:
        me.models.PPCA(4, 2).save("model")
        weights = load_file("model/model.safetensors")
        save_file(weights | {single: weights[single].float()}, "model/model.safetensors")
        assert f"{single!r} is in float32 and others are in float64" in run("score", "model", "t.npy").error

    @pytest.mark.parametrize(
        ("model", "file", "change", "message"),
        [
            ("bert", "config.json", {"hidden_size": [[]]}, "StrictDataclassFieldValidationError"),
            ("vit-mae", "config.json", {"mask_ratio": "/dev/null"}, "StrictDataclassFieldValidationError"),
            ("bert", "config.json", {"model_type": None}, "cannot be loaded"),
            ("bert", "tokenizer_config.json", {"model_max_length": "1"}, "cannot be loaded from 'bert'"),
        ],
    )
    def test_configuration_of_a_transformer(
        self,
        world: Path,
        folder: Path,
        run: CommandLine,
        model: str,
        file: str,
        change: dict[str, Any],
        message: str,
    ) -> None:
        shutil.copytree(world / "models" / model, model)
        content = json.loads(Path(model, file).read_text())
        Path(model, file).write_text(json.dumps(content | change))
        data = world / "data" / ("images" if model == "vit-mae" else "texts.jsonl")
        assert message in run("score", model, data).error

    def test_a_pipe_in_place_of_a_file(self, folder: Path, run: CommandLine) -> None:
        for file in ("config.json", "model.safetensors"):
            shutil.rmtree("model", ignore_errors=True)
            me.models.PPCA(4, 2).save("model")
            Path("model", file).unlink()
            os.mkfifo(Path("model", file))
            assert file in run("score", "model", "t.npy").error

    def test_a_transformer_of_ten_million_layers(self, folder: Path, run: CommandLine) -> None:
        pytest.importorskip("transformers")
        (folder / "bert").mkdir()
        (folder / "bert" / "config.json").write_text('{"model_type": "bert", "num_hidden_layers": 10000000}')
        (folder / "t.txt").write_text("one\ntwo\n")
        assert "num_hidden_layers=10000000" in run("score", "bert", "t.txt").error


class TestRuns:
    def test_a_pipe_in_place_of_a_file(self, folder: Path, run: CommandLine) -> None:
        """Nobody writes into it, so that reading it would wait without end."""
        assert run("score", "ppca:1", "t.npy", "--out", "table").code == 0
        scores = next(Path("table/scores").iterdir())
        for file in (Path("table/run.json"), scores):
            shutil.rmtree("run", ignore_errors=True)
            shutil.copytree("table", "run")
            pipe = Path("run") / file.relative_to("table")
            pipe.unlink()
            os.mkfifo(pipe)
            assert "is a pipe; give a file" in run("summarize", "run").error

    def test_a_folder_in_place_of_the_estimate(self, folder: Path, run: CommandLine) -> None:
        assert run("score", "ppca:1", "t.npy", "--out", "run").code == 0
        Path("run/estimate.json").unlink()
        Path("run/estimate.json").mkdir()
        before = {path: path.stat().st_mtime_ns for path in Path("run").rglob("*") if path.is_file()}
        assert "is a folder; give a file" in run("summarize", "run").error
        assert all(path.stat().st_mtime_ns == time for path, time in before.items())


@pytest.mark.parametrize("details", [{"colour": 1}, {"pixel_density": 5}])
def test_foreign_details_of_a_run_of_images(details: dict[str, Any]) -> None:
    ones = np.ones(1)
    curve = me.Curve(2, ones, ones / 2, ones, ones, ones, ones, ones.astype(np.int64))
    with pytest.raises(me.InputError, match=r"the details of the images in run\.json cannot be used"):
        image_summary(details, -1.0, curve)
