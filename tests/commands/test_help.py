"""The help page of every command and kind of model, as it is read in a terminal of 100 columns."""

import os
from pathlib import Path

import pytest

from command_line import CommandLine

PAGES = Path(__file__).parent / "help"
KINDS = {
    "score": ("ppca:8", "a-lab/a-bert", "a-lab/a-vit-mae"),
    "check": ("ppca:8", "a-lab/a-bert", "a-lab/a-vit-mae"),
    "train": ("ppca:8", "masked-lm", "vit-mae"),
}
OTHERS = ("summarize", "compare", "report", "select", "impute", "variants", "lm-eval")
COMMANDS = [
    "",
    *KINDS,
    *(f"{command} {model}" for command, models in KINDS.items() for model in models),
    *OTHERS,
]


@pytest.mark.parametrize("words", COMMANDS)
def test_the_page_is_as_it_was(words: str, run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """`REWRITE_HELP=1 python -m pytest tests/commands/test_help.py` writes the pages anew."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name, value in {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    result = run(*words.split(), "--help")
    assert (result.code, result.err) == (0, "")
    page = "".join(f"{line.rstrip()}\n" for line in result.out.strip("\n").splitlines())
    file = PAGES / f"{(words or 'maskevidence').replace('/', '-').replace(':', '-').replace(' ', '_')}.txt"
    if os.environ.get("REWRITE_HELP"):
        file.write_text(page)
    assert page == file.read_text()


def test_no_page_is_left_of_another_command() -> None:
    assert len(list(PAGES.iterdir())) == len(COMMANDS)


@pytest.mark.parametrize("command", KINDS)
def test_a_kind_has_the_options_of_all_kinds_and_its_own(command: str) -> None:
    def options(*models: str) -> set[str]:
        page = (PAGES / f"{'_'.join([command, *models])}.txt").read_text()
        return {
            line.split()[1] for line in page.splitlines() if line.startswith("│ ") and "--" in line.split()[1]
        }

    shared = options()
    of_kinds = [options(model.replace("/", "-").replace(":", "-")) for model in KINDS[command]]
    assert all(shared < each for each in of_kinds)
    assert set.intersection(*of_kinds) == shared
