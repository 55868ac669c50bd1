"""The README: what it promises to be, and its lines of shell as they are typed."""

import re
import shlex
from pathlib import Path

import pytest

from command_line import CommandLine, files_in

README = (Path(__file__).parents[2] / "README.md").read_text()


def block(language: str) -> list[str]:
    """The lines of the only block of code in a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", README, re.M | re.S)
    return [line for line in found.splitlines() if line.strip()]


def test_it_is_short_and_in_its_order() -> None:
    parts = ("log p(data)", "digits_curve.png", "pip install", "\nmake run", "```python", "```sh")
    places = [README.index(part) for part in parts]
    assert places == sorted(places)
    assert sum(line.startswith((">>> ", "... ")) for line in block("python")) <= 10
    assert len(block("sh")) == 5
    numbers = README[README.index("## Five numbers") :].split("\n## ")[0]
    assert len(re.findall(r"^\| (?!what|---)", numbers, re.M)) == 5
    assert len(README.split()) < 1300


def test_the_lines_of_shell(run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    for line in block("sh"):
        done = run(*shlex.split(line, comments=True)[1:])
        assert done.code == 0, (line, done.err)
    assert {"runs/a/estimate.json", "runs/b/estimate.json", "report.html"} <= files_in(tmp_path)
