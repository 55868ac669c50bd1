"""The result of a command: a page for people, content for JSON, and lines that name the written files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maskevidence.core.show.parts import Page


@dataclass(frozen=True)
class Result:
    """The result of a command."""

    page: Page  # what people read
    content: Mapping[str, Any]  # for JSON
    lines: Sequence[str] = ()  # what follows the page: where files are
    code: int = 0  # the exit code
