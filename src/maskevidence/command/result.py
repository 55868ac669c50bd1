"""The result of a command: a page to print, content for JSON, and lines on written files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maskevidence.core.show.parts import Page


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    page: Page  # printed for people
    content: Mapping[str, Any]  # written as JSON
    lines: Sequence[str] = ()  # printed after the page, such as where files are
    code: int = 0  # exit code
