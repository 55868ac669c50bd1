"""What a command gives: a page for people, content for JSON, and lines on what was written."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from maskevidence.show.parts import Page


class Result(ABC):
    """The result of a command."""

    @abstractmethod
    def page(self) -> Page:
        """What people read."""

    @abstractmethod
    def to_dict(self) -> Mapping[str, Any]:
        """Content for JSON."""

    @property
    def written(self) -> Sequence[str]:
        """Lines that follow the page: where files are."""
        return ()

    @property
    def code(self) -> int:
        """The exit code."""
        return 0

    @property
    def file(self) -> Path | None:
        """The file that an earlier command had written the result into; None if the result is new."""
        return None
