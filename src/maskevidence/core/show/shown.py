"""Mixin for results: text, HTML, picture and data frame from a result's own description."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from maskevidence.core.errors import InputError
from maskevidence.core.show.draw import plot
from maskevidence.core.show.html import page_html
from maskevidence.core.show.parts import Page, Picture


class Columns(NamedTuple):
    """The content of a data frame.

    Attributes:
        values: the values of each column by its name; None and NaN are missing.
        index: the names of the rows; by default 0, 1, ...
        name: the name of the index.
    """

    values: Mapping[Any, Any]
    index: Any = None
    name: str | None = None


class HasPage:
    """A result with a page; its `repr` is one line, and notebooks show the page."""

    @abstractmethod
    def page(self) -> Page:
        """The page of the result."""

    def __repr__(self) -> str:
        return self.page().line

    def _repr_html_(self) -> str:
        """HTML for notebooks."""
        return page_html(self.page())

    def _text(self) -> str:
        """The page as plain text, for results that print in full."""
        from maskevidence.core.show.terminal import page_text  # rich is imported only to print

        return page_text(self.page())


class Shown(HasPage):
    """A result that terminals, notebooks, pictures and data frames can show.

    A dataclass that inherits from it has `repr=False`.
    """

    def picture(self) -> tuple[Picture, str]:
        """The picture of the result and its title."""
        raise InputError(f"{type(self).__name__} has no picture; print it, or show it in a notebook")

    def columns(self) -> Columns:
        """The columns of the result's data frame."""
        raise InputError(f"{type(self).__name__} has no data frame; its fields hold the numbers")

    def plot(self, ax: Any = None) -> Any:
        """Draw the result; needs matplotlib.

        Args:
            ax: axes of matplotlib; by default the axes of a new figure.

        Returns:
            The axes.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        return plot(*self.picture(), ax)

    def to_frame(self) -> Any:
        """Convert the result to a pandas data frame."""
        return data_frame(self.columns())


def data_frame(columns: Columns) -> Any:
    """Make a pandas data frame.

    Example:
        >>> data_frame(Columns({"score": [0.5]}, ["a"], "model")).loc["a", "score"].item()
        0.5
    """
    import pandas

    frame = pandas.DataFrame(dict(columns.values), index=columns.index)
    frame.index.name = columns.name
    return frame
