"""A kill at any moment, a full disk and a read-only folder change nothing that was saved."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import maskevidence as me
from command_line import CommandLine
from maskevidence.runs.blocks import list_parts
from recorded_runs import read_rows

pytestmark = pytest.mark.usefixtures("every_block_saved")


@pytest.mark.usefixtures("one_thread")
class TestKill:
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
