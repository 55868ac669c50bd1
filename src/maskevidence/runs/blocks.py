"""Divide a run into blocks of rows and shards of blocks; engines that score blocks.

The model is always called in the same way for a block. So a run that was killed and resumed, or scored in
shards, has the same scores to the last bit. An engine is this process, or workers elsewhere.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import NamedTuple

import numpy as np
import torch

from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import MaskDesign, MaskKey
from maskevidence.core.model import HasBatches, MaskedModel, device_of
from maskevidence.core.packed_tokens import Observations
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.scores.score import Scoring, calls_per_observation, score_repeats
from maskevidence.core.support.progress import Advance
from maskevidence.core.tokens import Tokens

MIN_BLOCKS = 32
_MASKS_PER_BLOCK = 8192
_MASKS_PER_SLOW_BLOCK = 1024  # for a model that makes its own batches
_CALLS_PER_BLOCK = 8  # of such a model on a GPU, whose calls are large
_SAMPLE, _MASKS_OF_SAMPLE = 256, 2**16
_MIN_SHARED_ROWS = 256


class Piece(NamedTuple):
    """Scores saved together: blocks first..last-1, repeats of the design first..last-1."""

    first_block: int
    last_block: int
    first_repeat: int
    last_repeat: int

    def blocks(self) -> range:
        """The blocks of the piece."""
        return range(self.first_block, self.last_block)

    def repeats(self) -> range:
        """The repeats of the mask design in the piece."""
        return range(self.first_repeat, self.last_repeat)


def rows_per_block(model: MaskedModel, tokens: Observations, design: MaskDesign, key: MaskKey) -> int:
    """Choose the number of rows per block: few, since a kill loses a block, but enough to be fast.

    A block has about 8192 masks, or 1024 if the model makes its own batches, which is slow, and about eight
    calls of such a model on a GPU. Rows with shared masks also share work, so that at least 256 of them make
    a block. A small data set is divided into 32 blocks that shards can share.

    Args:
        model: the model to be scored.
        tokens: all rows, over all shards.
        design: how masks are drawn.
        key: whether masks are shared.
    """
    n_masks = _MASKS_PER_BLOCK
    if isinstance(model, HasBatches):
        device = device_of(model)
        on_cpu = device is None or device.type == "cpu"
        n_masks = (
            _MASKS_PER_SLOW_BLOCK if on_cpu else max(_MASKS_PER_SLOW_BLOCK, _n_masks_of_calls(model, tokens))
        )
    rows = math.ceil(n_masks / calls_per_observation(model, tokens, design))
    if key.masks == "shared":
        rows = max(rows, _MIN_SHARED_ROWS)
    return min(rows, math.ceil(len(tokens) / MIN_BLOCKS))


def _n_masks_of_calls(model: HasBatches, tokens: Observations) -> int:
    """The number of masks of eight calls, from a sample of the rows, evenly spaced."""
    rows = torch.linspace(0, len(tokens) - 1, min(len(tokens), _SAMPLE)).long()
    sample = tokens[rows.to(tokens.ids.device)]
    n_present = np.resize((sample.maskable | sample.context).sum(1).cpu().numpy(), _MASKS_OF_SAMPLE)
    return _CALLS_PER_BLOCK * _MASKS_OF_SAMPLE // sum(1 for _ in model.batches(n_present))


def parse_shard(text: str) -> tuple[int, int]:
    """Parse a shard "k/n", the k-th of n parts of the rows.

    Example:
        >>> parse_shard("3/8")
        (3, 8)
    """
    parts = text.split("/")
    if len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts):
        k, n = int(parts[0]), int(parts[1])
        if 1 <= k <= n:
            return k, n
    raise InputError(f"shard {text!r}; write which of how many, from 1/8 to 8/8")


def shard_blocks(n_rows: int, rows_of_block: int, shard: tuple[int, int]) -> range:
    """The blocks of a shard; each block belongs to exactly one shard.

    Example:
        >>> [shard_blocks(100, 10, (k, 3)) for k in (1, 2, 3)]
        [range(0, 3), range(3, 6), range(6, 10)]
    """
    n_blocks = math.ceil(n_rows / rows_of_block)
    k, n = shard
    if n > n_blocks:
        raise InputError(
            f"{n} shards of {n_rows:,} rows in {n_blocks} blocks; make at most {n_blocks} shards"
        )
    return range((k - 1) * n_blocks // n, k * n_blocks // n)


def block_rows(block: int, rows_of_block: int, n_rows: int) -> slice:
    """The positions of a block's rows among all scored rows."""
    return slice(block * rows_of_block, min((block + 1) * rows_of_block, n_rows))


def missing_pieces(done: Iterable[Piece], blocks: range, n_repeats: int) -> Iterator[Piece]:
    """Yield the pieces still to be scored, one block at a time.

    Example:
        >>> [tuple(piece) for piece in missing_pieces([Piece(0, 2, 0, 8)], range(3), 16)]
        [(0, 1, 8, 16), (1, 2, 8, 16), (2, 3, 0, 16)]
    """
    scored: dict[int, list[tuple[int, int]]] = {}
    for piece in done:
        for block in piece.blocks():
            scored.setdefault(block, []).append((piece.first_repeat, piece.last_repeat))
    for block in blocks:
        start = 0
        for first, last in sorted(scored.get(block, [])):
            if start < first:
                yield Piece(block, block + 1, start, first)
            start = max(start, last)
        if start < n_repeats:
            yield Piece(block, block + 1, start, n_repeats)


Done = Callable[[Piece, ScoreTable, int], None]


class Work(NamedTuple):
    """A piece of a run with its rows."""

    piece: Piece
    rows: Tokens

    def score(self, model: MaskedModel, scoring: Scoring, advance: Advance) -> tuple[ScoreTable, int]:
        """Score the piece; return the scores and the number of model calls."""
        return score_repeats(model, self.rows, scoring, self.piece.repeats(), advance)


# Scores each missing piece of a run once, in any order, in any process.
Scorer = Callable[[MaskedModel, Iterable[Work], Scoring, Advance, Done], None]
# A context that sets up scoring, entered before anything is written.
Engine = Callable[[], AbstractContextManager[Scorer]]


@contextmanager
def local_engine() -> Iterator[Scorer]:
    """The engine that scores piece by piece in this process."""
    yield _score_in_turn


def _score_in_turn(
    model: MaskedModel, work: Iterable[Work], scoring: Scoring, advance: Advance, done: Done, /
) -> None:
    for block in work:
        done(block.piece, *block.score(model, scoring, advance))


@contextmanager
def kept_open(engine: Engine) -> Iterator[Engine]:
    """Share an engine among several runs: the first run that scores enters it."""
    with ExitStack() as stack:
        entered: list[Scorer] = []

        @contextmanager
        def enter() -> Iterator[Scorer]:
            if not entered:
                entered.append(stack.enter_context(engine()))
            yield entered[0]

        yield enter
