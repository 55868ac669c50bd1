"""A kill at any moment, a full disk and a read-only folder change nothing that was saved."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import maskevidence as me
from command_line import CommandLine, files_in
from maskevidence.runs.blocks import list_parts
from recorded_runs import read_numbers, read_rows, same_rows

pytestmark = pytest.mark.usefixtures("every_block_saved")


@pytest.mark.usefixtures("one_thread")
class TestKill:
    def test_while_the_picture_is_written(
        self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine
    ) -> None:
        """Nothing was left to score then, and the temporary file of the killed process stayed."""
        command, out = ("score", *saved, "--design", "every-size:2", "--out"), tmp_path / "out"
        assert run(*command, out).code == 0
        whole = files_in(out)
        (out / "curve.png").rename(out / ".abc.tmp")
        (out / "estimate.json").unlink()
        assert run(*command, out).code == 0
        assert files_in(out) == whole

    def test_before_the_model_is_saved(
        self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine
    ) -> None:
        command, out = ("score", "ppca:2", saved[1], "--limit", 100, "--out"), tmp_path / "a"
        assert run(*command, out).code == 0
        for name in ("estimate.json", "curve.csv", "curve.png"):
            (out / name).unlink()
        shutil.rmtree(out / "model")
        for part in list_parts(out / "scores"):
            part.path.unlink()
        assert run(*command, out).code == 0
        assert run(*command, tmp_path / "b").code == 0
        assert same_rows(out, tmp_path / "b")

    def test_a_resumed_run_is_scored_by_the_saved_model(
        self, tmp_path: Path, saved: tuple[Path, Path], run: CommandLine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        command = ("score", "ppca:2", saved[1], "--limit", 300, "--out", tmp_path / "a")
        assert run(*command).code == 0
        before = read_rows(tmp_path / "a")
        list_parts(tmp_path / "a" / "scores")[0].path.unlink()
        fit = me.models.PPCA.fit

        def another(self: me.models.PPCA, *args: Any, **options: Any) -> Any:
            """Fitting again gives another model here, as it may on another processor."""
            model = fit(self, *args, **options)
            with torch.no_grad():
                model.mean += 1.0
            return model

        monkeypatch.setattr(me.models.PPCA, "fit", another)
        assert run(*command).code == 0
        assert read_rows(tmp_path / "a").equals(before)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting a small file system needs root"
)
class TestMounts:
    def test_a_run_resumes_after_the_disk_was_full(
        self, tmp_path: Path, disk: Path, saved: tuple[Path, Path], run: CommandLine
    ) -> None:
        command = ("score", *saved, "--design", "every-size:20", "--threads", 1, "--out")
        assert run(*command, tmp_path / "whole").code == 0
        (disk / "other").write_bytes(bytes(600_000))
        for _ in range(2):  # the disk is still full the second time
            error = run(*command, disk / "a").error
            assert "no space is left for" in error
            assert "run the same command again" in error
        parts = list_parts(disk / "a" / "scores")
        assert parts
        assert not [name for name in files_in(disk) if "tmp" in name]
        (disk / "other").unlink()
        written = {part.path: part.path.stat().st_mtime_ns for part in parts}
        assert run(*command, disk / "a").code == 0
        assert {path: path.stat().st_mtime_ns for path in written} == written
        assert same_rows(disk / "a", tmp_path / "whole")
        assert read_numbers(disk / "a") == read_numbers(tmp_path / "whole")

    def test_a_read_only_folder(self, disk: Path, saved: tuple[Path, Path], run: CommandLine) -> None:
        command = ("score", *saved, "--limit", 50, "--out")
        assert run(*command, disk / "a").code == 0
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        assert "cannot be written (Read-only file system)" in run(*command, disk / "b").error
        # a finished run can still be read, but nothing can be scored
        assert "was finished before" in " ".join(run(*command, disk / "a").out.split())
        assert "cannot be written" in run(*command, disk / "a", "--overwrite").error
        summarized = run("summarize", disk / "a")
        assert summarized.code == 2
        assert "cannot be written (Read-only file system)" in summarized.err
