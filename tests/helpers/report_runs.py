"""Runs for the tests of reports, recorded by commands."""

import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from command_line import prepared_commands
from maskevidence.command.app import app
from maskevidence.core.errors import UnknownTokensWarning

BIDI = "right-to-left \u202e override \u2066isolate\u2069 and \u200fmark"
HOSTILE = [
    "the <script>document.title = 'taken over'</script> dog sleeps",
    "a cat <img src=x onerror=\"document.title='taken over'\"> and a dog",
    '"quotes" & &lt; </p></main><style>*{display:none}</style>',
    BIDI,
    "</script><script>document.title = 'taken over'</script>",
    "the rain falls on the roof",
]


def command(*words: object) -> None:
    """Run a command in this process."""
    with pytest.MonkeyPatch.context() as patch, prepared_commands(), warnings.catch_warnings():
        patch.setattr(sys, "argv", ["maskevidence", *map(str, words)])
        warnings.simplefilter("ignore", UnknownTokensWarning)
        app(sys.argv[1:], standalone_mode=False)


def text_of(html: str) -> str:
    """The visible text of an HTML page."""
    body = re.sub(r"<(style|script)\b.*?</\1>", "", html, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", body).split())


def write_table(file: Path, n_rows: int = 60, n_columns: int = 5) -> Path:
    """Write a table of numbers with two latent variables."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, n_columns))
    values = latent + 0.3 * rng.normal(size=(n_rows, n_columns))
    columns = ",".join(f"column {j}" for j in range(n_columns))
    lines = [columns, *(",".join(f"{value:.6f}" for value in row) for row in values)]
    file.write_text("\n".join(lines) + "\n")
    return file


def write_texts(file: Path, texts: list[str]) -> Path:
    """Write texts as .jsonl, one per line."""
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return file
