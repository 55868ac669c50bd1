"""Places that nothing can be written to are refused before any work, by every command."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import CommandLine, files_in

WORK = {  # each command would stop at its input, or at the mock, if it began to work
    "score": ("score", "ppca:1", "missing.csv"),
    "train": ("train", "ppca:1", "missing.csv", "--out", "model"),
    "compare": ("compare", "missing-a", "missing-b"),
    "summarize": ("summarize", "missing-a"),
}
FOLDERS = [name for name in WORK if name != "compare"]
LONG = "x" * 300


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a file and a folder of unrelated files."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "t.npy", np.random.default_rng(0).normal(size=(40, 4)))
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("Once upon a time")
    return tmp_path


def without_out(words: tuple[str, ...]) -> tuple[str, ...]:
    return words[: words.index("--out")] if "--out" in words else words


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("thesis", "'thesis' is a folder; give a file"),
        ("t.npy/a.json", "t.npy' is a file; give another place"),
        ("new/t/../../t.npy/b/a.json", "t.npy' is a file; give another place"),
        (LONG, "cannot be written (File name too long)"),
    ],
)
@pytest.mark.parametrize("command", WORK)
def test_json(folder: Path, run: CommandLine, command: str, target: str, message: str) -> None:
    before = files_in(folder)
    assert message in run(*WORK[command], "--json", target).error
    assert files_in(folder) == before


@pytest.mark.parametrize("command", FOLDERS)
def test_json_in_place_of_out(folder: Path, run: CommandLine, command: str) -> None:
    words = without_out(WORK[command])
    for target in ("a/b", "a", "a/../a/b"):
        error = run(*words, "--out", "a/b", "--json", target).error
        assert f"--json {target!r} is the place of --out 'a/b'; give another file" in error
    assert not (folder / "a").exists()


def test_loops_of_links(folder: Path, run: CommandLine) -> None:
    (folder / "loop").symlink_to("loop")
    words = without_out(WORK["score"])
    assert "Too many levels of symbolic links" in run(*words, "--out", "loop/x", "--json", "a.json").error
    assert "there is no run in 'loop'" in run("report", "loop").error


@pytest.mark.parametrize("target", ["t.npy", "t.npy/run", LONG])
@pytest.mark.parametrize("command", FOLDERS)
def test_out(folder: Path, run: CommandLine, command: str, target: str) -> None:
    before = files_in(folder)
    error = run(*without_out(WORK[command]), "--out", target).error
    assert "missing" not in error
    assert target in error
    assert files_in(folder) == before


@pytest.mark.parametrize("target", ["t.npy/report.html", f"{LONG}.html", "thesis", "thesis/chapter.tex"])
def test_out_of_a_report(folder: Path, run: CommandLine, target: str) -> None:
    assert target in run("report", "missing-a", "--out", target).error


@pytest.mark.parametrize("command", ["score", "train", "summarize"])
@pytest.mark.parametrize("overwrite", [(), ("--overwrite",)])
def test_unrelated_files(folder: Path, run: CommandLine, command: str, overwrite: tuple[str, ...]) -> None:
    before = files_in(folder)
    error = run(*without_out(WORK[command]), "--out", "thesis", *overwrite).error
    assert "'thesis' holds files that belong to no" in error
    assert "('chapter.tex'); give a new folder" in error
    assert files_in(folder) == before


def test_standard_output_and_devices_are_places(folder: Path, run: CommandLine) -> None:
    for target in ("-", "/dev/null", "new/folder/a.json"):
        result = run("score", "gaussian", "t.npy", "--json", target, "--limit", 12, "--threads", 1)
        assert result.code == 0, result.err
    assert (folder / "new" / "folder" / "a.json").exists()


class TestScore:
    """What would make another run of --out is refused before a model is fitted."""

    @pytest.mark.parametrize(
        ("words", "message"),
        [
            (("--seed", "2"), "seed 2 instead of 0"),
            (("--design", "orderings"), "design orderings instead of every-size"),
            (("--design", "every-size:2,shared"), "masks shared instead of own"),
            (("--design", "every-size:1"), "masks_per_size 1 instead of 2"),
            (("--shard", "1/2"), "shard [1, 2] instead of [1, 1]"),
        ],
    )
    def test_another_run(
        self, run: CommandLine, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], message: str
    ) -> None:
        command = ("score", "gaussian", "t.npy", "--design", "every-size:2", "--out", "a", "--threads", 1)
        assert run(*command).code == 0
        before = files_in(Path())

        def read(*_: Any, **__: Any) -> None:
            raise AssertionError("rows are read")

        monkeypatch.setattr("maskevidence.kinds.rows.read", read)
        if words[0] == "--design":
            command = tuple(word for word in command if word not in ("--design", "every-size:2"))
        assert message in run(*command, *words).error
        assert files_in(Path()) == before

    def test_shards(self, run: CommandLine) -> None:
        for word in ("3/2", "half"):
            assert word in run("score", "ppca:1", "missing.csv", "--out", "a", "--shard", word).error
        assert "--shard needs --out" in run("score", "ppca:1", "missing.csv", "--shard", "1/2").error
