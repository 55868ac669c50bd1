"""The words of the command line."""

import re
from pathlib import Path

import numpy as np
import pytest

import maskevidence as me
from command_line import CommandLine
from image_models import write_images
from maskevidence.command.failures import interrupted
from maskevidence.command.options import parse_size
from maskevidence.tables.by_name import parse_model
from maskevidence.tables.rows import read_rows
from maskevidence.tables.table_options import RowReading


def test_models(tmp_path: Path) -> None:
    assert parse_model("gaussian")[0](4).n_features == 4
    assert parse_model("ppca:3")[0](5).loadings.shape == (5, 3)
    assert parse_model("factor-analysis:2")[0](5).loadings.shape == (5, 2)
    model = me.models.PPCA(4, 2)
    model.save(tmp_path / "m")
    build, loaded = parse_model(str(tmp_path / "m"))
    assert build is None
    assert loaded.n_features == 4


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("pcca:8", "unknown model 'pcca:8'; did you mean 'ppca:K'"),
        ("gausian", "unknown model 'gausian'; did you mean 'gaussian'"),
        ("zzz", "unknown model 'zzz'. Known: auto, masked-net, gaussian"),
        ("ppca", "model 'ppca' lacks its number of components; write ppca:8"),
        ("ppca:", "lacks its number of components"),
        ("ppca:0", "lacks its number of components"),
        ("ppca:-1", "lacks its number of components"),
        ("ppca:2.5", "lacks its number of components"),
        ("ppca:²", "lacks its number of components"),
        ("./nothing", "there is no folder './nothing'"),
    ],
)
def test_bad_models(word: str, message: str) -> None:
    with pytest.raises(me.InputError, match=re.escape(message)):
        parse_model(word)


def test_a_folder_without_a_model(tmp_path: Path) -> None:
    with pytest.raises(me.InputError, match=r"holds no saved model: config\.json is missing"):
        parse_model(str(tmp_path))


def test_a_folder_around_a_model_names_it(tmp_path: Path) -> None:
    me.models.PPCA(n_features=3, n_components=1).save(tmp_path / "model")
    (tmp_path / "run.json").touch()
    for given in (tmp_path, tmp_path / "run.json", tmp_path / "model" / "config.json"):
        with pytest.raises(
            me.InputError, match=re.escape(f"its model is in {str(tmp_path / 'model')!r}: give that")
        ):
            parse_model(str(given))


@pytest.mark.parametrize(
    "name", ["digits", "mnist", "glue/qnli", "glue/cola", "tiny-shakespeare", "python-topics"]
)
@pytest.mark.parametrize("command", ["score", "select", "train", "cells", "information"])
def test_a_folder_of_results_has_no_name_of_a_data_set(
    command: str, name: str, run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(command, "ppca:1", "digits", "--out", name)
    assert found.code == 2
    assert f"--out {name} is the name of a data set" in found.error
    assert f"such as runs/{name}" in found.error


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["score", "a", "b", "--out", "runs/a"], "the same command goes on with the scores in 'runs/a'"),
        (["score", "a", "b", "--out=runs/a"], "the same command goes on with the scores in 'runs/a'"),
        (["score", "a", "b"], "no score is kept; with --out FOLDER"),
        (["select", "a", "b"], "interrupted, and nothing is kept: the same command starts again"),
        (["train", "a", "b"], "the same command goes on with what is saved"),
        (["look", "a"], "the same command goes on with what is saved"),
    ],
)
def test_an_interruption_says_how_to_go_on(words: list[str], line: str) -> None:
    assert line in interrupted(words)


def test_data(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(3))
    assert len(read_rows(str(tmp_path / "x.npy"))) == 3
    assert len(read_rows(str(tmp_path / "x.npy"), limit=2)) == 2
    assert len(read_rows("digits", limit=10)) == 10


def test_images_are_rows_of_pixels(tmp_path: Path) -> None:
    levels = np.array([0, 51], dtype=np.uint8)[:, None, None]
    table = read_rows(str(write_images(tmp_path, np.tile(levels, (1, 2, 3)))))
    assert np.array_equal(table.values, [[0.0] * 6, [0.2] * 6])
    assert len(read_rows(str(tmp_path), limit=1)) == 1
    assert len(read_rows(str(tmp_path), RowReading(resize="4x4")).columns) == 16


@pytest.mark.parametrize("word", ["", "x", "28x", "0x4", "1x2x3", "-3"])
def test_sizes_that_are_none(word: str) -> None:
    with pytest.raises(me.InputError, match="is not an image size; write 28x28"):
        parse_size(word)
