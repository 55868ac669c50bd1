"""Outputs that cannot write every character, and words that a terminal would take for commands."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from command_line import PROGRAM, CommandLine
from maskevidence.core.show import Page, Table
from maskevidence.core.show.parts import Value, ValueRows
from maskevidence.core.show.terminal import page_text

ESCAPE = "\x1b]0;title\x07"


@pytest.fixture(autouse=True)
def buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python buffers output, as it does by default; many containers set PYTHONUNBUFFERED."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table, one of whose columns is named with an escape sequence."""
    place = tmp_path_factory.mktemp("outputs")
    x = np.random.default_rng(0).normal(size=(40, 3))
    for name, columns in (("table", "a,b,c"), ("escape", f"a{ESCAPE},b,c")):
        np.savetxt(place / f"{name}.csv", x, delimiter=",", header=columns, comments="")
    return place


@pytest.mark.parametrize(
    "encoding", ["ascii", *(pytest.param(name, marks=pytest.mark.slow) for name in ("latin-1", "cp1252"))]
)
def test_every_encoding_gets_the_result(folder: Path, encoding: str) -> None:
    words = [*PROGRAM, "select", "ppca:1,gaussian", "table.csv", "--folds", "2"]
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "chosen" in done.stdout.decode(encoding)
    assert b" -" in done.stdout
    assert b"\\u2212" not in done.stdout


@pytest.mark.parametrize("words", [["score", "ppca:1", "table.csv"], ["--help"]])
def test_a_full_output_is_one_line(folder: Path, words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, *words], cwd=folder, stdout=full, stderr=subprocess.PIPE, check=False, text=True
        )
    expected = "error: the output cannot be written (No space left on device); send it to another place\n"
    assert (done.returncode, done.stderr) == (2, expected)


@pytest.mark.parametrize(
    ("data", "code", "unbuffered"),
    [
        pytest.param("table.csv", 0, "", marks=pytest.mark.slow),
        pytest.param("table.csv", 0, "1", marks=pytest.mark.slow),
        pytest.param("none.csv", 2, "", marks=pytest.mark.slow),
        ("none.csv", 2, "1"),
    ],
)
def test_a_full_error_output_changes_no_exit_code(
    folder: Path, data: str, code: int, unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "w") as full:
        words = [*PROGRAM, "score", "ppca:1", data]
        done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, stderr=full, check=False, text=True)
    assert (done.returncode, "Log evidence" in done.stdout) == (code, code == 0)


@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        pytest.param(["score", "gaussian", "table.csv"], "", marks=pytest.mark.slow),
        pytest.param(["score", "gaussian", "table.csv"], "1", marks=pytest.mark.slow),
        (["--help"], ""),
        (["--help"], "1"),
    ],
)
def test_a_reader_that_has_closed_its_pipe_is_no_error(
    folder: Path, words: list[str], unbuffered: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [*PROGRAM, *words], cwd=folder, stdout=writer, stderr=subprocess.PIPE, check=False, text=True
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_what_a_model_writes_past_python_is_not_the_result(folder: Path) -> None:
    (folder / "own.py").write_text(
        """import ctypes, os, subprocess
import maskevidence as me

class Own(me.models.PPCA):
    def log_conditionals(self, tokens, masked):
        os.write(1, b"by the system")
        ctypes.CDLL(None).printf(b"held back")
        subprocess.run(["echo", "another program"])
        return super().log_conditionals(tokens, masked)

def make():
    return Own(3, 1)
"""
    )
    words = [*PROGRAM, "score", "own.py:make", "table.csv", "--limit", "3", "--json", "-"]
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False, text=True)
    assert json.loads(done.stdout)["n_observations"] == 3, done.stderr
    for words in ("by the system", "held back", "another program"):
        assert words in done.stderr


def test_names_that_are_not_text_are_one_line(run: CommandLine, folder: Path) -> None:
    for words in (("ppca:1", "\udcff.csv"), ("ppca:1", folder / "table.csv", "--out", folder / "\udcff")):
        assert "is not UTF-8; rename the file or folder" in run("score", *words).error


def test_no_escape_sequence_reaches_the_terminal(run: CommandLine, folder: Path) -> None:
    table = Table((f"model{ESCAPE}", "nats"), [(f"ppca{ESCAPE}", "-1")], title=ESCAPE)
    value = ValueRows([Value(f"a{ESCAPE}", 1.0)], "nats")
    text = page_text(Page("line", f"Head{ESCAPE}", parts=[table, value, ESCAPE], notes=[ESCAPE]))
    assert "\x1b" not in text
    assert text.count("U+001B]0;title") == 7
    for words in (("ppca:1", folder / "escape.csv", "--drop", "x"), (ESCAPE, folder / "escape.csv")):
        refused = run("score", *words)
        assert refused.code == 2
        assert "\x1b" not in refused.err
