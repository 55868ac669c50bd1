"""The help page of `score` for one model of each kind, as it is read in a terminal of 100 columns."""

import os
from pathlib import Path

import pytest

from command_line import CommandLine

PAGES = Path(__file__).parent / "help"


@pytest.mark.parametrize("file", sorted(PAGES.iterdir()), ids=lambda file: file.stem)
def test_the_page_is_as_it_was(file: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """`REWRITE_HELP=1 python -m pytest tests/command/test_help.py` writes the pages anew."""
    command, _, model = file.stem.replace("a-lab-a-", "a-lab/a-").replace("ppca-8", "ppca:8").partition("_")
    for name, value in {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 100)
    result = run(command, *model.split(), "--help")
    assert (result.code, result.err) == (0, "")
    page = "".join(f"{line.rstrip()}\n" for line in result.out.strip("\n").splitlines())
    if os.environ.get("REWRITE_HELP"):
        file.write_text(page)
    assert page == file.read_text()
