"""A kill or a failure at any file operation of a run leaves a folder that the same command completes."""

import errno
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import maskevidence as me
from command_line import files_in
from file_steps import at_step, killed_at_each_step, prepared
from maskevidence.command.pages.reported_runs import read_runs
from maskevidence.core.masks.design import MaskDesign
from maskevidence.runs import Recording, RunDirectory, read_run, record_run
from recorded_runs import bytes_of, make_manifest, make_model, make_tokens, read_rows

pytestmark = [
    pytest.mark.slow,  # one command, hundreds of times
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
]
BEGINNINGS = ("in a new folder", "over another run", "with more masks")


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill of the process, unlike a power cut, loses nothing that is not on the disk yet."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def command(folder: Path, design: MaskDesign, seed: int = 0, *, overwrite: bool = False) -> None:
    """Score 12 rows by a model that was fitted for the run; each block is a part."""
    model, tokens = make_model(seed), make_tokens(12)
    versions = {"maskevidence": me.__version__}  # to ask for all of them takes longer than to score
    manifest = make_manifest(model, tokens, design, seed=seed, rows_per_block=6, versions=versions)
    recording = Recording(save_every=0.0, overwrite=overwrite)
    record_run(RunDirectory(folder), manifest, model, tokens, recording, fitted=True)


def refusal_of(use: Callable[[Path], object], out: Path) -> str:
    """The error of a use of a folder; empty if there is none."""
    try:
        use(out)
    except me.InputError as error:
        return str(error)
    return ""


@pytest.fixture(params=BEGINNINGS)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Callable[[Path], None]]:
    """A folder as it is before a command, which may not exist, and the command."""
    before, few, many = tmp_path / "before", me.EverySize(1), me.EverySize(2)
    if request.param == "in a new folder":
        return before, lambda out: command(out, few)
    if request.param == "over another run":
        command(before, few, seed=1)
        return before, lambda out: command(out, few, overwrite=True)
    command(before, few)
    return before, lambda out: command(out, many)


@pytest.fixture
def again(case: tuple[Path, Callable[[Path], None]], tmp_path: Path) -> Callable[[Path], None]:
    """Read what a broken command left, give the command again, and compare the run with an unbroken one."""
    before, act = case
    if before.exists():
        shutil.copytree(before, tmp_path / "whole")
    act(tmp_path / "whole")
    whole, rows = read_run(tmp_path / "whole"), bytes_of(read_rows(tmp_path / "whole"))

    def check(out: Path) -> None:
        for read in (read_run, lambda path: read_runs([path])):
            assert re.fullmatch("|there is no run in .*|.* is not finished, .*", refusal_of(read, out))
        act(out)
        assert bytes_of(read_rows(out)) == rows
        found = read_run(out)
        assert found.estimate.log_evidence == whole.estimate.log_evidence
        assert found.manifest.identity() == whole.manifest.identity()
        assert not [name for name in files_in(out) if "tmp" in name]
        assert not (out / ".model.tmp").exists()

    return check


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_command_completes_what_a_kill_at_each_step_left(
    case: tuple[Path, Callable[[Path], None]], again: Callable[[Path], None], tmp_path: Path
) -> None:
    for n, out in enumerate(killed_at_each_step(*case, tmp_path), start=1):  # noqa: B007
        again(out)
    assert n > 20


def test_a_command_completes_what_a_full_disk_at_each_step_left(
    case: tuple[Path, Callable[[Path], None]], again: Callable[[Path], None], tmp_path: Path
) -> None:
    before, act = case
    with at_step(-1, lambda: None) as passed:
        act(prepared(before, tmp_path / "counted"))
    n_refused = 0
    for n in range(len(passed)):
        out = prepared(before, tmp_path / str(n))
        with at_step(n, full):
            refusal = refusal_of(act, out)
        assert re.fullmatch("|no space is left for .*", refusal)
        n_refused += refusal != ""
        again(out)
    assert n_refused > 10
