"""Runs for the tests of the report, made by the commands that a user would give."""

import json
import sys
from pathlib import Path

import jaxtyping
import numpy as np

from maskevidence.cli.app import app
from text_models import small_bert, small_tokenizer

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
    """Run a command in this process, as `sys.argv` would have it."""
    before = sys.argv
    sys.argv = ["maskevidence", *map(str, words)]
    jaxtyping.config.update("jaxtyping_disable", True)  # typer's context is not of the type it asks for
    try:
        app(sys.argv[1:], standalone_mode=False)
    finally:
        sys.argv = before
        jaxtyping.config.update("jaxtyping_disable", False)


def write_table(file: Path, n_rows: int = 60, n_columns: int = 5) -> Path:
    """A table of numbers that PPCA can be fitted to."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, n_columns))
    values = latent + 0.3 * rng.normal(size=(n_rows, n_columns))
    columns = ",".join(f"column {j}" for j in range(n_columns))
    lines = [columns, *(",".join(f"{value:.6f}" for value in row) for row in values)]
    file.write_text("\n".join(lines) + "\n")
    return file


def write_texts(file: Path, texts: list[str]) -> Path:
    """Texts, one a line, as .jsonl."""
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return file


def save_bert(folder: Path) -> Path:
    """A small masked language model as transformers saves it."""
    tokenizer = small_tokenizer()
    small_bert(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
