"""A small campaign of bad input: generated cases of every kind end in one line and leave nothing behind."""

import os
import random
import shlex
import shutil
import stat
from importlib import import_module
from itertools import islice
from pathlib import Path

import jaxtyping
import pytest

from bad_commands import Case, build_world, cases, commands, copy_world
from bad_files import mutate
from forked import Outcome, run_forked

SLOW_TO_IMPORT = ("bert", "vit-mae", "masked-lm", "images", "text", "tokens", "train-")
N_CASES = 16


def is_cheap(case: Case) -> bool:
    """Whether no transformer is loaded, which takes seconds in every fork."""
    return not any(part in word for word in case.words for part in SLOW_TO_IMPORT)


@pytest.fixture(autouse=True)
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caches of libraries are no part of what a command leaves behind."""
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path / "matplotlib"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def valid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad-input") / "valid"
    folder.mkdir()
    build_world(folder)
    import_module("matplotlib.pyplot")  # once, and not in every fork
    return folder


def outcome_of(case: Case, valid: Path, world: Path) -> Outcome:
    copy_world(valid, world)
    case.prepare(world)
    jaxtyping.config.update("jaxtyping_disable", True)  # the user's types are checked by the program itself
    try:
        return run_forked(case.words, world)
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


CASES = list(islice(filter(is_cheap, cases(seed=7)), N_CASES))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("case", CASES, ids=range(N_CASES))
def test_success_or_one_line(case: Case, valid: Path, tmp_path: Path) -> None:
    outcome = outcome_of(case, valid, tmp_path / "world")
    fault = outcome.fault(case.may_write(tmp_path / "world"))
    assert fault is None, f"{shlex.join(case.words)}\n{outcome}"
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_cases_are_of_every_kind_and_repeatable() -> None:
    some = list(islice(cases(seed=0), 1500))
    again = list(islice(cases(seed=0), 1500))
    assert [case.words for case in some] == [case.words for case in again]
    assert {"data", "model", "run", "path", "option", "options", "word", "long command"} == {
        c.kind for c in some
    }
    asked = {case.words[:2] if case.words[:1] == ("show",) else case.words[:1] for case in some}
    assert {path if path[0] == "show" else path[:1] for path in commands()} <= asked


@pytest.mark.parametrize("name", ["table.csv", "table.npy", "table.parquet", "texts.jsonl", "running.txt"])
def test_mutations_change_a_file(name: str, valid: Path, tmp_path: Path) -> None:
    before = (valid / "data" / name).read_bytes()
    changed = 0
    for seed in range(20):
        shutil.copy(valid / "data" / name, tmp_path / name)
        assert mutate(tmp_path / name, random.Random(seed))
        changed += (tmp_path / name).read_bytes() != before
    assert changed >= 15


class TestWatchdog:
    """The campaign itself sees what it looks for."""

    @pytest.mark.parametrize(
        ("code", "err", "out", "changed", "fault"),
        [
            (0, "", "table", ("out/x",), None),
            (0, "note: something\n", "", ("out", "out/x"), None),
            (2, "error: no\n", "", (), None),
            (2, "error: no\nerror: no\n", "", (), "not one line"),
            (2, "error: no\n", "table", (), "output before a refusal"),
            (2, "error: no\n", "", ("out",), "leaves something behind"),
            (0, "", "", ("data/table.csv",), "changes something outside"),
            (70, "internal error, please report: x\n", "", (), "internal error"),
            (1, "Traceback (most recent call last):\n", "", (), "internal error"),
            (-11, "", "", (), "exit code -11"),
            (None, "", "", (), "hangs"),
            (0, "x.py:3: RuntimeWarning: overflow\n", "", (), "a bare warning"),
        ],
    )
    def test_faults(self, code: int | None, err: str, out: str, changed: tuple, fault: str | None) -> None:
        assert Outcome(code, out, err, 1.0, changed, alive=False).fault(("out",)) == fault

    def test_a_process_that_stays(self) -> None:
        assert Outcome(0, "", "", 1.0, (), alive=True).fault(()) == "leaves a process behind"
