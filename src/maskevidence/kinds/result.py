"""What a command gives: a page for people, content for JSON, and lines on what was written."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Reported(Result):
    """A page, its content for JSON, and lines that follow the page."""

    shown: Page  # the page
    content: Mapping[str, Any]  # for JSON
    lines: Sequence[str] = ()  # what follows the page

    def page(self) -> Page:
        """What people read."""
        return self.shown

    def to_dict(self) -> Mapping[str, Any]:
        """Content for JSON."""
        return self.content

    @property
    def written(self) -> Sequence[str]:
        """Lines that follow the page: where files are."""
        return self.lines
