"""The evidence of a data set whose rows are its tokens, with its learning curve."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from maskevidence.core.evidence.curve import curve_lines
from maskevidence.core.evidence.result import EvidenceEstimate
from maskevidence.core.show.pictures import Line, Lines


@dataclass(frozen=True, repr=False)
class EvidenceOfRows(EvidenceEstimate):
    """The log evidence of a whole data set, nats; `per_token` is per row.

    Its picture is the learning curve: the score of a hidden row against the number of visible rows.
    """

    noun: ClassVar[str] = "data set"
    token: ClassVar[str] = "row"

    def _lines(self, label: str) -> Lines:
        """The learning curve."""
        return learning_curves({label: self})


def learning_curves(estimates: Mapping[str, EvidenceOfRows]) -> Lines:
    """Draw learning curves.

    Example:
        >>> import maskevidence as me
        >>> result = me.evidence_of_rows(me.models.DirichletMultinomial([1, 1]), None, [1, 0, 1, 1])
        >>> learning_curves({"coin": result}).lines[0].x.tolist()
        [0.0, 1.0, 2.0, 3.0]
    """
    drawn = curve_lines({name: each.curve for name, each in estimates.items()})
    n_rows = [each.n_tokens for each in estimates.values()]
    lines = [_reversed(line, n) for line, n in zip(drawn.lines, n_rows, strict=True)]
    return Lines(lines, "visible rows", "score of a hidden row  (nats)")


def _reversed(line: Line, n_rows: int) -> Line:
    """Turn a line over hidden rows into a line over visible rows."""
    bands = [replace(band, low=band.low[::-1], high=band.high[::-1]) for band in line.bands]
    return replace(line, x=n_rows - line.x[::-1], y=line.y[::-1], bands=bands)
