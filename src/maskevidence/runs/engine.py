"""Engines, which call the model on the blocks of a run: this process, or workers elsewhere."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple

from maskevidence.model import MaskedModel
from maskevidence.runs.blocks import Piece
from maskevidence.scores.record import ScoreTable
from maskevidence.scores.score import Scoring, score_repeats
from maskevidence.support.progress import Advance
from maskevidence.tokens import Tokens

Done = Callable[[Piece, ScoreTable, int], None]


class Work(NamedTuple):
    """A piece of a run, with its rows."""

    piece: Piece
    rows: Tokens

    def score(self, model: MaskedModel, scoring: Scoring, advance: Advance) -> tuple[ScoreTable, int]:
        """The scores of the piece, and how many times the model was called."""
        return score_repeats(model, self.rows, scoring, self.piece.repeats(), advance)


# Scores every missing piece of a run once, in any order and anywhere.
Scorer = Callable[[MaskedModel, Iterable[Work], Scoring, Advance, Done], None]
# A context that provides what scoring needs. It is entered before anything is written.
Engine = Callable[[], AbstractContextManager[Scorer]]


@contextmanager
def local_engine() -> Iterator[Scorer]:
    """The engine that scores in this process, one piece after the other."""
    yield _score_in_turn


def _score_in_turn(
    model: MaskedModel, work: Iterable[Work], scoring: Scoring, advance: Advance, done: Done, /
) -> None:
    for block in work:
        done(block.piece, *block.score(model, scoring, advance))


@contextmanager
def kept_open(engine: Engine) -> Iterator[Engine]:
    """The same engine for several runs, one after the other: entered once, by the first one that scores."""
    with ExitStack() as stack:
        entered: list[Scorer] = []

        @contextmanager
        def enter() -> Iterator[Scorer]:
            if not entered:
                entered.append(stack.enter_context(engine()))
            yield entered[0]

        yield enter
