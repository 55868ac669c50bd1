"""Call a function, such as a kill, before this process's n-th file operation."""

import itertools
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from forked import exit_code, fork

CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.chmod", "tempfile.mkstemp")
_watchers: list[Callable[[], None]] = []  # only the last is called, before each file operation
_hooks: list[object] = []


def _hook(event: str, args: tuple[object, ...]) -> None:
    of_descriptor = event == "open" and isinstance(args[0], int)  # opens a temporary file before writing
    if _watchers and (event in CHANGES or of_descriptor):
        _watchers[-1]()


@contextmanager
def at_step(n: int, act: Callable[[], None]) -> Iterator[list[int]]:
    """Call `act` before the n-th file operation; yields a list with one entry per operation."""
    if not _hooks:  # an audit hook sees each file operation and cannot be removed
        sys.addaudithook(_hook)
        _hooks.append(_hook)
    passed: list[int] = []

    def watch() -> None:
        passed.append(len(passed))
        if len(passed) == n + 1:
            act()

    _watchers.append(watch)
    try:
        yield passed
    finally:
        _watchers.pop()


def killed_at(n: int, act: Callable[[Path], object], out: Path) -> None:
    """Run `act` on a folder, and kill this process before the n-th file operation."""
    with at_step(n, lambda: os.kill(os.getpid(), signal.SIGKILL)):
        act(out)


def prepared(before: Path, out: Path) -> Path:
    """A folder as it is before a command, which may not exist."""
    return Path(shutil.copytree(before, out)) if before.exists() else out


def killed_at_each_step(before: Path, act: Callable[[Path], object], within: Path) -> Iterator[Path]:
    """The folders that a command leaves if it is killed before its first file operation, its second ..."""
    for n in itertools.count():
        out = prepared(before, within / str(n))
        code = exit_code(fork(partial(killed_at, n, act, out)))
        if code == 0:  # it has no more steps
            return
        assert code == -signal.SIGKILL
        yield out
