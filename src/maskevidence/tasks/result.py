"""What a command gives: a page for people, content for JSON, and lines on what was written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maskevidence.show.parts import Page


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    page: Page  # what people read
    content: Mapping[str, Any]  # for JSON
    lines: Sequence[str] = ()  # what follows the page: where files are
    code: int = 0  # the exit code


def written(folder: Path | None, files: Sequence[str], missing: str | None = None) -> list[str]:
    """The files in a folder in a line, after one on what could not be drawn; nothing without a folder."""
    lines = [] if missing is None else [missing]
    return lines if folder is None else [*lines, f"Written to {folder}: {', '.join(files)}"]


def finished_before(what: str, folder: Path, again: str) -> list[str]:
    """The line on a folder that holds the finished result already."""
    return [f"This {what} in {folder} was finished before; --overwrite {again}."]
