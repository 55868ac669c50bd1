"""The README: what it promises to be, and its lines of shell as they are typed."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import CommandLine, files_in
from text_models import save_bert

README = (Path(__file__).parents[2] / "README.md").read_text()
PART = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.M | re.S)
PARTS = dict(PART.findall(README))


def blocks(part: str, language: str) -> list[str]:
    """The blocks of code of a part in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PARTS[part], re.M | re.S)


def typed(part: str, run: CommandLine) -> str:
    """Type the lines of shell of a part, and give what the commands print, without line breaks."""
    (block,) = blocks(part, "sh")
    said = []
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for line in re.split(r"\n(?=maskevidence )", block.strip()):
        if line.startswith("maskevidence "):
            done = run(*shlex.split(line)[1:])
            assert done.code == 0, (line, done.err)
            said += done.out.split()
        else:
            subprocess.run(["sh", "-c", line], check=True, env=os.environ | {"PATH": path})
    return " ".join(said)


def test_it_is_short_and_in_its_order() -> None:
    first = README.split("\n\n")[1]
    jobs = (
        "holes of a table, typing errors, number of factors, pseudo-perplexity of a BERT, marginal likelihood"
    )
    for job in jobs.split(", "):
        assert job in first
    names = ("Install", "A table of yours", "Two BERTs", "Your own model", "Five numbers", "Next")
    assert tuple(PARTS) == names
    places = [README.index(each) for each in ("look.png", "two_berts.png", "\nmake run", "\nmake test")]
    assert places == sorted(places)
    assert len(re.findall(r"^\| (?!what|---)", PARTS["Five numbers"], re.M)) == 5
    assert len(re.findall(r"^- ", PARTS["Next"], re.M)) == 5
    (model,) = blocks("Your own model", "python")
    assert len(model.splitlines()) <= 20
    assert len(README.split()) < 700


def test_the_table_of_yours(run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    said = typed("A table of yours", run)
    (shown,) = blocks("A table of yours", "text")
    assert all(line in said for line in shown.splitlines())
    assert {"wine.csv", "wine-look/filled.csv", "wine-look/index.html"} <= files_in(tmp_path)
    lines = [Path(name).read_text().splitlines() for name in ("wine.csv", "wine-look/filled.csv")]
    assert any(",," in line for line in lines[0])
    assert len(lines[0]) == len(lines[1])
    assert not any(",," in line for line in lines[1])
    first = Path("wine-look/cells.csv").read_text().splitlines()[1].split(",")
    assert first[0] == "9"
    assert first[2] == "proline"


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::maskevidence.core.errors.UnknownTokensWarning"
)  # the small one has few words
def test_the_two_berts(run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small BERTs lie in folders with the names of those on the hub."""
    pytest.importorskip("transformers")
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    save_bert(tmp_path / "google-bert" / "bert-base-cased")
    save_bert(tmp_path / "distilbert" / "distilbert-base-cased", num_hidden_layers=1)
    typed("Two BERTs", run)
    assert {"runs/bert/estimate.json", "runs/distilbert/estimate.json", "report.html"} <= files_in(tmp_path)
