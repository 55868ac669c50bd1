"""Call a function, such as a kill, before this process's n-th file operation."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

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
