"""What the command line loads before it has anything to do."""

import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "numpy", "pyarrow", "transformers", "maskevidence.runs", "maskevidence.models")
PROGRAM = f"""
import sys
from maskevidence.cli import main
try:
    main()
finally:
    print("loaded:", *(module for module in {HEAVY} if module in sys.modules), file=sys.stderr)
"""


COMMANDS = ["score", "check", "summarize", "compare", "report", "train", "bias", "demo", "paper", "show"]


@pytest.mark.parametrize(
    "words",
    [
        *("--version", "--help", "-h", "score --help", "train --help", "paper table-1 -h"),
        *(f"{command} -h" for command in COMMANDS),
    ],
)
def test_help_and_version_load_no_torch(words: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words.split()], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stderr == "loaded:\n"
    assert "Usage" in done.stdout or words == "--version"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("main()\n", "sys.argv[0] = 'maskevidence'; main()\n", 1)],
        env=os.environ
        | {
            "_MASKEVIDENCE_COMPLETE": f"complete_{shell}",
            "COMP_WORDS": "maskevidence sc",
            "COMP_CWORD": "1",
            "_TYPER_COMPLETE_ARGS": "maskevidence sc",
            "_TYPER_COMPLETE_FISH_ACTION": "get-args",
        },
        capture_output=True,
        text=True,
    )
    assert "score" in done.stdout
    assert done.stderr == "loaded:\n"
