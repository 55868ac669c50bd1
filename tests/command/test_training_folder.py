"""The folder of a training: what it may hold, one process at a time, and a kill at any file operation."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import maskevidence as me
from command_line import files_in
from file_steps import killed_at_each_step, prepared
from maskevidence.command.train import train
from maskevidence.huggingface.training_options import TextTraining
from maskevidence.runs.folder import HOLDER, LOCK, locked
from maskevidence.tables.table_options import RowTraining
from text_models import SENTENCES

CHANGING = ("versions", "command", "seal", "resumed_from", "checkpoint.safetensors", LOCK)


@pytest.fixture
def table(tmp_path: Path) -> str:
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(60, 3)))
    return str(tmp_path / "t.npy")


@pytest.fixture
def texts(tmp_path: Path) -> str:
    pytest.importorskip("transformers")
    (tmp_path / "text.txt").write_text("".join(f"{SENTENCES[i % 4]}\n" for i in range(60)))
    return str(tmp_path / "text.txt")


def train_rows(
    table: str, out: Path, word: str = "ppca:1", *, overwrite: bool = False, epochs: int = 2
) -> None:
    train(word, table, RowTraining(out, checkpoint_every=1, overwrite=overwrite, epochs=epochs))


def train_texts(texts: str, out: Path, block_size: int = 16, *, overwrite: bool = False) -> Any:
    options = TextTraining(
        out, batch_size=2, overwrite=overwrite, steps=2, block_size=block_size, vocabulary_size=60
    )
    return train("masked-lm", texts, options)


def content(out: Path) -> dict[str, Any]:
    """What a training left, without what differs between two equal trainings."""
    files = {name: (out / name).read_bytes() for name in files_in(out) if name not in CHANGING}
    result = json.loads(files.pop("train.json"))
    return files | {name: value for name, value in result.items() if name not in CHANGING}


class TestOneAtATime:
    def test_rows(self, table: str, tmp_path: Path) -> None:
        with locked(tmp_path / "m"), pytest.raises(me.InputError, match=f"process {os.getpid()} is writing"):
            train_rows(table, tmp_path / "m")

    def test_an_error_leaves_no_new_folder(self, tmp_path: Path) -> None:
        with pytest.raises(ZeroDivisionError), locked(tmp_path / "m"):
            1 / 0  # noqa: B018
        assert not (tmp_path / "m").exists()
        (tmp_path / "m").mkdir()
        with pytest.raises(ZeroDivisionError), locked(tmp_path / "m"):
            1 / 0  # noqa: B018
        assert files_in(tmp_path / "m") <= {LOCK}


class TestAnotherFolder:
    def test_of_a_model(self, table: str, tmp_path: Path) -> None:
        me.models.PPCA(3, 1).save(tmp_path / "m")
        with pytest.raises(me.InputError, match=r"holds another model \(config.json\); give another folder"):
            train_rows(table, tmp_path / "m")
        train_rows(table, tmp_path / "m", overwrite=True)
        assert (tmp_path / "m" / "train.json").exists()

    def test_of_another_kind_of_training(self, table: str, texts: str, tmp_path: Path) -> None:
        train_rows(table, tmp_path / "rows")
        train_texts(texts, tmp_path / "texts")
        for act in (
            lambda overwrite: train_texts(texts, tmp_path / "rows", overwrite=overwrite),
            lambda overwrite: train_rows(table, tmp_path / "texts", overwrite=overwrite),
        ):
            with pytest.raises(me.InputError, match="holds another model"):
                act(False)
            act(True)
        assert "tokenizer.json" in files_in(tmp_path / "rows")
        assert not {"tokenizer.json", "training.json"} & files_in(tmp_path / "texts")
        train_rows(table, tmp_path / "texts")


class TestTexts:
    @pytest.mark.parametrize("block_size", [2, 100_000])
    def test_block_sizes_that_do_not_fit_leave_nothing(
        self, texts: str, tmp_path: Path, block_size: int
    ) -> None:
        with pytest.raises(me.InputError, match="block"):
            train_texts(texts, tmp_path / "m", block_size)
        assert not (tmp_path / "m").exists()

    def test_a_tokenizer_is_written_as_a_whole(
        self, texts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from transformers import PreTrainedTokenizerFast as Fast

        save = Fast.save_pretrained

        def half(self: Any, folder: Any, **_: Any) -> None:
            (Path(folder) / "tokenizer.json").write_text('{"version":')
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Fast, "save_pretrained", half)
        with pytest.raises(me.InputError, match="no space is left"):
            train_texts(texts, tmp_path / "m")
        assert files_in(tmp_path / "m") - {HOLDER} == {LOCK, "training.json"}
        monkeypatch.setattr(Fast, "save_pretrained", save)
        train_texts(texts, tmp_path / "m")
        train_texts(texts, tmp_path / "whole")
        assert content(tmp_path / "m") == content(tmp_path / "whole")

    def test_one_that_another_version_finished_is_read(
        self, texts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        train_texts(texts, tmp_path / "m")
        monkeypatch.setattr("maskevidence.huggingface.masked_lm_training.__version__", "99")
        assert "was finished before" in train_texts(texts, tmp_path / "m").lines[0]
        (tmp_path / "m" / "train.json").unlink()
        with pytest.raises(me.InputError, match=r"belongs to another training \(version"):
            train_texts(texts, tmp_path / "m")


@pytest.mark.usefixtures("one_thread", "unchecked")  # one command, hundreds of times
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
class TestAtEachStep:
    @pytest.fixture(
        params=[
            "in a new folder",
            pytest.param("with more epochs", marks=pytest.mark.slow),
            pytest.param("over another training", marks=pytest.mark.slow),
        ]
    )
    def case(
        self, request: pytest.FixtureRequest, table: str, tmp_path: Path
    ) -> tuple[Path, Callable[[Path], None]]:
        """A folder as it is before a command, which may not exist, and the command."""
        before = tmp_path / "before"
        if request.param == "in a new folder":
            return before, lambda out: train_rows(table, out)
        if request.param == "with more epochs":
            train_rows(table, before, epochs=1)
            return before, lambda out: train_rows(table, out)
        train_rows(table, before, "ppca:2")
        return before, lambda out: train_rows(table, out, overwrite=True)

    @pytest.mark.slow
    def test_of_a_kill(
        self, case: tuple[Path, Callable[[Path], None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The same command completes the training; until then, no finished training lacks its model."""
        monkeypatch.setattr(os, "fsync", lambda _: None)
        before, act = case
        whole = prepared(before, tmp_path / "whole")
        act(whole)
        expected = content(whole)
        for n, out in enumerate(killed_at_each_step(before, act, tmp_path), start=1):  # noqa: B007
            if (out / "train.json").exists():
                me.models.load(out)
            act(out)
            assert content(out) == expected
            assert not list(out.glob(".*.tmp"))
        assert n > 10
