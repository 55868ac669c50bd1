"""What scores the blocks of a run: this process, or workers elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple, Protocol, runtime_checkable

from maskevidence.model import MaskedModel
from maskevidence.runs.blocks import Piece
from maskevidence.score import Scoring, score_repeats
from maskevidence.score_table import ScoreTable
from maskevidence.support.progress import Advance
from maskevidence.tokens import Tokens

Done = Callable[[Piece, ScoreTable, int], None]


class Work(NamedTuple):
    """A piece of a run, and its rows."""

    piece: Piece
    rows: Tokens

    @property
    def repeats(self) -> range:
        """The repeats of the design's masks."""
        return range(self.piece.first_repeat, self.piece.last_repeat)


@runtime_checkable
class Scorer(Protocol):
    """Scores all of a run's missing pieces, in any order and anywhere."""

    def __call__(
        self, model: MaskedModel, work: Sequence[Work], scoring: Scoring, advance: Advance, done: Done, /
    ) -> None:
        """Score every piece once.

        Args:
            model: that scores.
            work: what is missing.
            scoring: how it is scored.
            advance: told how many masks were scored just now.
            done: takes each piece with its scores and number of calls, in this process, one at a time.
        """
        ...


# What is needed for scoring is there inside the context; it is entered before anything is written.
Engine = Callable[[], AbstractContextManager[Scorer]]


@contextmanager
def here() -> Iterator[Scorer]:
    """The engine that is this process: one piece after the other."""
    yield _in_turn


def _in_turn(
    model: MaskedModel, work: Sequence[Work], scoring: Scoring, advance: Advance, done: Done, /
) -> None:
    for one in work:
        done(one.piece, *score_repeats(model, one.rows, scoring, one.repeats, advance))
