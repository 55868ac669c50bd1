"""A result that is a page and its content for JSON, made by the command itself."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from maskevidence.kinds.result import Result
from maskevidence.show.parts import Page


@dataclass(frozen=True)
class Reported(Result):
    """A page, its content for JSON, and lines that follow the page.

    Attributes:
        shown: the page.
        content: for JSON.
        lines: what follows the page.
    """

    shown: Page
    content: Mapping[str, Any]
    lines: Sequence[str] = ()

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
