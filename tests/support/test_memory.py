"""The memory that work may take is what is free, below the limit of a container."""

from pathlib import Path

import pytest

from maskevidence.support import checks


def test_free_memory_and_the_limit_of_a_container_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"info": "MemTotal: 9 kB\nMemAvailable:   4096 kB\n", "max": "3000000\n", "current": "1000000\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(checks, "_MEMORY_INFO", str(tmp_path / "info"))
    monkeypatch.setattr(checks, "_CONTAINER", ((str(tmp_path / "max"), str(tmp_path / "current")),))
    assert checks.machine_memory() == 2_000_000
    (tmp_path / "max").write_text("max\n")
    assert checks.machine_memory() == 4096 * 1024
