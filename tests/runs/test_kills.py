"""Each command that writes a folder is killed once at a random moment, and given again.

benchmarks/kills.py does so 40 times, and tests/runs/test_kill_at_each_step.py at each file operation.
"""

import os
from pathlib import Path

import pytest

from killed_commands import CASES, kill, prepare, uninterrupted

pytest.importorskip("transformers", reason="the extra hf is not installed")

QUICK = ("score, texts", "train ppca, likelihood, patience")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working directory with data and models."""
    made = tmp_path_factory.mktemp("kills")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made)
        prepare()
    return made


@pytest.mark.usefixtures("one_thread")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "case", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_a_killed_command_ends_where_an_uninterrupted_one_does(
    case: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    killed = uninterrupted(case, warm=False)
    kill(case, 0, killed)
    assert killed.different == [[]]
