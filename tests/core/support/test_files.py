"""The JSON and CSV text of all files of this package, and the errors for damaged files."""

import csv
import io
import json
import math
import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from command_line import CommandLine
from maskevidence.core.errors import InputError
from maskevidence.core.support.files import (
    check_place,
    csv_lines,
    csv_text,
    json_text,
    read_json,
    replacing_files,
    write_atomic,
    write_json,
)
from refusals import one_line


def test_json_is_read_as_it_was_written(tmp_path: Path) -> None:
    content = {"seed": 0, "scores": [0.1, None], "name": "é"}
    write_json(tmp_path / "a.json", content)
    assert (tmp_path / "a.json").read_text() == json_text(content)
    assert read_json(tmp_path / "a.json") == content


def test_lines_by_columns_are_those_by_cells() -> None:
    words = ["", "a", "a,b", 'a "b"', "a\nb", "a\r", " é ", '"', "'", "None", "nan"]
    numbers = [None, -0.0, 1e-300, 1e16, 1.5, math.inf, 3.0, 1e5, 123456789.123, None, 0.1]
    columns = [list(range(11)), words, numbers, [None] * 11]
    assert "a,b\n" + csv_lines(columns[:2]) == csv_text("ab", zip(*columns[:2], strict=True))
    assert "a,b,c,d\n" + csv_lines(columns) == csv_text("abcd", zip(*columns, strict=True))
    assert csv_lines([[], []]) == ""


def test_json_refuses_nan() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text({"score": math.nan})


@pytest.mark.parametrize("content", [None, b"", b'{"a": 1', "\ud800".encode("utf-8", "surrogatepass")])
def test_a_missing_or_damaged_json_file_is_one_line(tmp_path: Path, content: bytes | None) -> None:
    file, message = tmp_path / "a.json", r"a\.json' cannot be read as JSON \(.*\); write it again$"
    if content is None:
        message = r"a\.json' cannot be read \(No such file or directory\); check the path"
    else:
        file.write_bytes(content)
    one_line(lambda: read_json(file, "write it again"), match=message)


def test_csv_cells() -> None:
    row = [1, np.int64(2), 0.1, np.float64(0.1), np.float32(0.1), math.nan, None, True, 'a,"b"']
    text = csv_text([f"c{place}" for place in range(len(row))], [row])
    assert text.splitlines()[1] == '1,2,0.1,0.1,0.10000000149011612,,,True,"a,""b"""'
    assert text.endswith("\n")
    assert "\r" not in text


def test_csv_cells_with_line_ends_are_read_again() -> None:
    words = ["a\nb", "a\rb", "a\r\nb", "a\r\n", "\r", 'a"b', "a,b", "=1"]
    text = csv_text(["w", "k"], [(word, k) for k, word in enumerate(words)])
    assert [row[0] for row in csv.reader(io.StringIO(text, newline=""))] == ["w", *words]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    target, other = tmp_path / "filled.csv", tmp_path / "other.csv"

    def killed() -> Iterator[str]:
        yield "a"
        os._exit(9)

    if (child := os.fork()) == 0:
        write_atomic(target, killed())
    os.waitpid(child, 0)
    (left,) = tmp_path.iterdir()
    (tmp_path / ".notes.tmp").write_text("mine")
    check_place(other)
    assert left.exists()  # of another target

    def beside() -> Iterator[str]:
        assert left.exists()
        check_place(target)
        assert not left.exists()
        yield "a"

    write_atomic(target, beside())  # whose own file is in use
    assert {path.name for path in tmp_path.iterdir()} == {".notes.tmp", "filled.csv"}


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> Iterator[str]:
        yield "a"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(tmp_path / "a.csv", interrupted())
    assert not list(tmp_path.iterdir())


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    secret, new = tmp_path / "secret.json", tmp_path / "new.json"
    secret.write_text("")
    secret.chmod(0o600)
    mask = os.umask(0o027)
    try:
        for file in (secret, new):
            write_json(file, {})
        with replacing_files(tmp_path) as folder:
            (folder / "secret.json").write_text("1")
            (folder / "other.json").write_text("1")
    finally:
        os.umask(mask)
    modes = [stat.S_IMODE((tmp_path / f"{name}.json").stat().st_mode) for name in ("secret", "new", "other")]
    assert modes == [0o600, 0o640, 0o640]
    assert secret.read_text() == "1"


class TestPlacesThatAreNoFiles:
    """Pipes and devices are written to, and the target of a link is replaced."""

    def test_a_pipe(self, tmp_path: Path) -> None:
        pipe, content = tmp_path / "pipe", {"scores": list(range(50_000))}  # more than a pipe holds at once
        os.mkfifo(pipe)
        received: list[str] = []
        reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
        reader.start()
        write_json(pipe, content)
        reader.join(timeout=60)
        assert received == [json_text(content)]
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert os.listdir(tmp_path) == ["pipe"]

    def test_a_pipe_whose_reader_leaves_is_one_line(self, tmp_path: Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        reader = threading.Thread(target=lambda: pipe.open("rb").close(), daemon=True)
        reader.start()
        with pytest.raises(InputError, match=r"pipe' cannot be written \(Broken pipe\)"):
            write_atomic(pipe, bytes(1_000_000))
        reader.join(timeout=60)
        assert stat.S_ISFIFO(pipe.stat().st_mode)

    def test_an_open_pipe_of_the_shell(self, tmp_path: Path) -> None:
        """`--json >(jq .)` gives a name such as /dev/fd/63."""
        reading, writing = os.pipe()
        write_json(f"/dev/fd/{writing}", {"seed": 0})
        os.close(writing)
        with os.fdopen(reading) as file:
            assert file.read() == json_text({"seed": 0})

    @pytest.mark.parametrize(("name", "minor"), [("null", 3), ("full", 7)])
    def test_a_device(self, tmp_path: Path, name: str, minor: int) -> None:
        device = tmp_path / name
        try:
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, minor))
            device.open("rb").close()
        except OSError:
            pytest.skip("this user cannot make devices")
        if name == "null":
            write_json(device, {"seed": 0})
        else:
            with pytest.raises(InputError, match="no space is left for"):
                write_json(device, {"seed": 0})
        assert stat.S_ISCHR(device.stat().st_mode)
        assert os.listdir(tmp_path) == [name]

    def test_a_socket_is_one_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)  # the name of a socket is at most 107 bytes long
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("socket")
            with pytest.raises(InputError, match=r"'socket' cannot be written \(No such device or address\)"):
                write_json("socket", {})
        assert stat.S_ISSOCK(os.stat("socket").st_mode)

    @pytest.mark.parametrize("relative", [True, False])
    def test_a_symbolic_link(self, tmp_path: Path, relative: bool) -> None:
        (tmp_path / "target").mkdir()
        target, link, second = tmp_path / "target" / "a.json", tmp_path / "a.json", tmp_path / "b.json"
        target.write_text("old")
        link.symlink_to("target/a.json" if relative else target)
        second.symlink_to(link)
        before = target.stat().st_ino
        write_json(second, {"seed": 0})
        assert link.is_symlink()
        assert second.is_symlink()
        assert read_json(target) == {"seed": 0}
        assert target.stat().st_ino != before  # replaced as a whole, so that a reader never sees half of it
        assert os.listdir(tmp_path / "target") == ["a.json"]

    def test_a_symbolic_link_to_a_new_file(self, tmp_path: Path) -> None:
        link = tmp_path / "a.json"
        link.symlink_to("new/b.json")
        write_json(link, {"seed": 0})
        assert link.is_symlink()
        assert read_json(tmp_path / "new" / "b.json") == {"seed": 0}

    def test_a_link_to_itself_and_a_folder_are_one_line(self, tmp_path: Path) -> None:
        link, folder = tmp_path / "a.json", tmp_path / "folder"
        link.symlink_to(link)
        folder.mkdir()
        for place, reason in ((link, "Too many levels of symbolic links"), (folder, "Is a directory")):
            with pytest.raises(InputError, match=rf"cannot be written \({reason}\)"):
                write_json(place, {})
        assert link.is_symlink()
        assert sorted(os.listdir(tmp_path)) == ["a.json", "folder"]


def test_the_command_line_writes_into_a_pipe_and_through_a_link(tmp_path: Path, run: CommandLine) -> None:
    rows, pipe, link = tmp_path / "rows.csv", tmp_path / "pipe", tmp_path / "link.json"
    rows.write_text("a,b\n" + "\n".join(f"{k},{k * k % 7}" for k in range(20)))
    os.mkfifo(pipe)
    link.symlink_to("target.json")
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    command = ("score", "gaussian", rows, "--json")
    assert run(*command, pipe).code == 0
    assert run(*command, link).code == 0
    reader.join(timeout=60)
    assert json.loads(received[0])["log_evidence"] == read_json(tmp_path / "target.json")["log_evidence"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert link.is_symlink()
