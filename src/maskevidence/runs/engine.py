"""What scores the blocks of a run: this process, or workers elsewhere."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from maskevidence.masks import MaskDesign, MaskKey
from maskevidence.model import MaskedModel
from maskevidence.runs.blocks import Piece
from maskevidence.score import n_masks, score_repeats
from maskevidence.score_table import ScoreTable
from maskevidence.support.progress import Advance
from maskevidence.tokens import Tokens

Done = Callable[[Piece, ScoreTable, int], None]


class Work(NamedTuple):
    """A piece of a run, and its rows."""

    piece: Piece
    rows: Tokens


@dataclass(frozen=True)
class Scoring:
    """What the scores of a run depend on, besides the model and the rows.

    Attributes:
        design: how masks are drawn.
        key: their seed, and whether they are shared.
        batch_size: how many masks go into one call, within a block.
    """

    design: MaskDesign
    key: MaskKey
    batch_size: int = 1024

    def of(self, model: MaskedModel, work: Work, advance: Advance) -> tuple[ScoreTable, int]:
        """Score one piece: its rows, and how many calls of the model they took."""
        return score_repeats(
            model, work.rows, self.design, self.key, _repeats(work.piece), self.batch_size, advance
        )

    def n_masks(self, work: Work) -> int:
        """How many masks a piece has."""
        return n_masks(work.rows, self.design, _repeats(work.piece))


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
        done(one.piece, *scoring.of(model, one, advance))


def _repeats(piece: Piece) -> range:
    return range(piece.first_repeat, piece.last_repeat)
