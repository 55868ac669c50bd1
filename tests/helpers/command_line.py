"""Run the command line as a user would, in this process or a separate one."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import jaxtyping
import pytest
import typer.main

from maskevidence.command.app import main
from maskevidence.core.errors import MissingExtraError, import_extra
from maskevidence.core.show.draw import draw_into, image, svg
from maskevidence.core.show.words import plain

_MAIN = "from maskevidence.command.app import main; main()"
PROGRAM = (sys.executable, "-c", _MAIN)
# Ctrl-C interrupts as in a terminal; a shell's background job would ignore it.
_IN_A_TERMINAL = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {_MAIN}"


class Result(NamedTuple):
    """A command's exit code and outputs."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The single error line; fails if anything else was printed."""
        assert self.code == 2, self
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("error: ")
        assert self.out == ""
        return lines[0].removeprefix("error: ")


_PICTURES: list[bytes] = []
_command_of = cache(typer.main.get_command)  # building all commands takes longer than refusing bad input


def _draw_once(file: Path, *picture: Any) -> str | None:
    """Draw curve.png only once per process, because drawing takes longer than most runs."""
    try:
        import_extra("matplotlib.figure", "plots", "a picture")
    except MissingExtraError:
        return draw_into(file, *picture)
    if not _PICTURES:
        _PICTURES.append(image(*picture))
    file.write_bytes(_PICTURES[0])
    return None


@cache
def _svg_of(kind: type) -> list[str]:
    """The picture that a page of this process drew first, of this kind."""
    return []


def _svg_once(picture: Any, summary: str, key: str) -> str:
    """Draw each kind of picture of pages only once per process."""
    first = _svg_of(type(picture))
    if not first:
        first.append(svg(picture, "(summary)", key))
    return first[0].replace("(summary)", escape(plain(summary)))


@contextmanager
def saving_every_block() -> Iterator[None]:
    """Make runs save each block as soon as it is scored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MASKEVIDENCE_SAVE_EVERY", "0")
        yield


@contextmanager
def prepared_commands(*, draws: bool = False) -> Iterator[None]:
    """Prepare commands for calls in this process: build them once, and draw curve.png only once.

    Args:
        draws: whether each run draws its own curve.png.
    """
    jaxtyping.config.update("jaxtyping_disable", True)  # typer's context has another type than annotated
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("typer.main.get_command", _command_of)
            if not draws:
                patch.setattr("maskevidence.runs.summary.draw_into", _draw_once)
                patch.setattr("maskevidence.command.pages.page_layout.svg", _svg_once)
            yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)


class CommandLine:
    """Run commands in this process through the program's entry point.

    Attributes:
        draws: whether each run draws its own curve.png, and does not get the first one that was drawn.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch = monkeypatch
        self.capsys = capsys
        self.draws = False

    def __call__(self, *words: object) -> Result:
        self.monkeypatch.setattr(sys, "argv", ["maskevidence", *map(str, words)])
        self.capsys.readouterr()
        with prepared_commands(draws=self.draws), pytest.raises(SystemExit) as exit_:
            main()
        out, err = self.capsys.readouterr()
        return Result(int(exit_.value.code or 0), out, err)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """`run("score", "ppca:2", "table.csv")` returns exit code and outputs."""
    return CommandLine(monkeypatch, capsys)


def start(*words: object) -> subprocess.Popen[str]:
    """Start a command in a separate process that Ctrl-C interrupts."""
    return subprocess.Popen(
        [sys.executable, "-c", _IN_A_TERMINAL, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def files_in(folder: Path) -> set[str]:
    """All files in a folder and its subfolders."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
