"""The page on the probability of a sentence: its commands run, and print the names in its table."""

import re
import shlex
from pathlib import Path

import pytest

from command_line import CommandLine
from text_models import SENTENCES, save_bert

PAGE = (Path(__file__).parents[2] / "docs" / "sentence_score.md").read_text()
NAMES = ("pseudo-perplexity", "perplexity bound", "sentence_good is more probable than sentence_bad")


@pytest.mark.slow
def test_its_commands(run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_bert(tmp_path / "google-bert" / "bert-base-uncased")
    Path("sentences.txt").write_text("\n".join(SENTENCES))
    Path("pairs.csv").write_text("sentence_good,sentence_bad\nthe cat sleeps,the cat sleep\n")
    (block,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.M | re.S)
    for line, name in zip(block.splitlines(), NAMES, strict=True):
        done = run(*shlex.split(line)[1:])
        assert done.code == 0, (line, done.err)
        assert name in " ".join(done.out.split())
    assert Path("runs/pll/observations.csv").exists()
    assert len(PAGE.split()) <= 350
