"""A folder that holds another run or other files is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import CommandLine, files_in
from recorded_runs import make_model


class TestAnotherRun:
    @pytest.fixture
    def first(self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine) -> Path:
        out = tmp_path / "a"
        assert run("score", *saved, "--limit", 50, "--design", "every-size:2", "--out", out).code == 0
        return out

    @pytest.mark.parametrize(
        ("words", "difference"),
        [
            (["--design", "leave-one-out"], "design leave-one-out instead of every-size"),
            (["--design", "every-size:1"], "masks_per_size 1 instead of 2"),
            (["--seed", "5"], "seed 5 instead of 0"),
            (["--design", "every-size:2,shared"], "masks shared instead of own"),
            (["--limit", "49"], "n_observations 49 instead of 50"),
            (["--shard", "1/2"], "shard [1, 2] instead of [1, 1]"),
        ],
    )
    def test_is_refused_without_overwrite(
        self,
        first: Path,
        saved: tuple[Path, Path],
        run: CommandLine,
        monkeypatch: pytest.MonkeyPatch,
        words: list[str],
        difference: str,
    ) -> None:
        """Before rows are read, unless how many they are decides it."""

        def read(*_: Any, **__: Any) -> None:
            raise AssertionError("rows are read")

        before = {name: (first / name).read_bytes() for name in files_in(first)}
        settings = {"--limit": "50", "--design": "every-size:2"} | dict(
            zip(words[::2], words[1::2], strict=True)
        )
        command = ["score", *saved, "--out", first, *(word for pair in settings.items() for word in pair)]
        with monkeypatch.context() as patch:
            if words[0] != "--limit":
                patch.setattr("maskevidence.tables.rows.read_rows", read)
            error = run(*command).error
        assert "holds another run" in error
        assert difference in error
        assert {name: (first / name).read_bytes() for name in files_in(first)} == before
        assert run(*command, "--overwrite").code == 0
        assert run(*command).code == 0  # it is the same run now

    def test_with_other_weights_or_values(
        self, first: Path, saved: tuple[Path, Path], run: CommandLine
    ) -> None:
        command = ("score", *saved, "--limit", 50, "--design", "every-size:2", "--out", first)
        values = np.load(saved[1])
        np.save(saved[1], values + 1e-9)
        assert "holds another run (fingerprint" in run(*command).error
        np.save(saved[1], values)
        make_model(seed=9).save(saved[0])
        assert "holds another run (model_fingerprint" in run(*command).error

    @pytest.mark.parametrize("schema", [2, None])
    def test_of_another_format(
        self, first: Path, saved: tuple[Path, Path], run: CommandLine, schema: int | None
    ) -> None:
        content = json.loads((first / "run.json").read_text())
        (first / "run.json").write_text(json.dumps(content | {"schema_version": schema, "more": 1}))
        message = f"has schema {schema}, written by another version of maskevidence (this one reads 3)"
        command = ("score", *saved, "--limit", 50, "--design", "every-size:2", "--out", first)
        for words in (command, ("summarize", first), ("compare", first, first)):
            assert message in run(*words).error
        assert run(*command, "--overwrite").code == 0

    @pytest.mark.parametrize("content", ["", "[]", '{"schema_version": 3}'])
    def test_with_an_unreadable_run_json(
        self, first: Path, saved: tuple[Path, Path], run: CommandLine, content: str
    ) -> None:
        (first / "run.json").write_text(content)
        for words in (("score", *saved, "--out", first), ("summarize", first)):
            assert "is not a run.json that this version can read" in run(*words).error

    def test_a_folder_with_other_files(
        self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine
    ) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "model").write_text("precious")
        for words in ([], ["--overwrite"]):
            error = run("score", *saved, "--out", tmp_path / "mine", *words).error
            assert "holds files that belong to no run" in error
        assert files_in(tmp_path / "mine") == {"model"}
        assert "is a file" in run("score", *saved, "--out", tmp_path / "mine" / "model").error
