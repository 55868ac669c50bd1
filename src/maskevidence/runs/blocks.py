"""How a run is cut: into blocks of rows that are scored together, and shards of whole blocks.

The calls of the model for a block are always the same, whatever was done before or by whom. That is why a run
that was killed and resumed, or made in shards, has the same scores to the last bit.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from maskevidence.errors import InputError
from maskevidence.masks import MaskDesign, MaskKey
from maskevidence.model import HasBatches, MaskedModel
from maskevidence.score import calls_per_observation
from maskevidence.tokens import Tokens

LEAST_BLOCKS = 32


class Piece(NamedTuple):
    """What is scored and saved together: blocks first..last-1, repeats (of the design's masks) from..to-1."""

    first_block: int
    last_block: int
    first_repeat: int
    last_repeat: int

    def blocks(self) -> range:
        return range(self.first_block, self.last_block)


def rows_per_block(model: MaskedModel, tokens: Tokens, design: MaskDesign, key: MaskKey) -> int:
    """How many rows make a block: few, as what is done of a block is lost in a kill, but enough to be fast.

    A model that makes its own batches is slow, and gets 1024 masks a block, others 8192. Rows that share
    their masks share work, and come 256 at a time at least. Few rows make 32 blocks, for shards to share.

    Args:
        model: that will be called.
        tokens: all rows, over all shards.
        design: of the masks.
        key: whether masks are shared.
    """
    aim = 1024 if isinstance(model, HasBatches) else 8192
    rows = math.ceil(aim / calls_per_observation(model, tokens, design))
    if key.masks == "shared":
        rows = max(rows, 256)
    return min(rows, math.ceil(len(tokens) / LEAST_BLOCKS))


def parse_shard(text: str) -> tuple[int, int]:
    """The k-th of n shares of the rows.

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
    """The blocks of a shard: each block is in one of them.

    Raises:
        InputError: more shards than blocks.

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
    """The rows of a block, by position among all rows that are scored."""
    return slice(block * rows_of_block, min((block + 1) * rows_of_block, n_rows))


def missing(done: Iterable[Piece], blocks: range, n_repeats: int) -> Iterator[Piece]:
    """What is left to do, a block at a time.

    Args:
        done: the pieces that are there.
        blocks: that are wanted.
        n_repeats: how many repeats of each.

    Example:
        >>> [tuple(piece) for piece in missing([Piece(0, 2, 0, 8)], range(3), 16)]
        [(0, 1, 8, 16), (1, 2, 8, 16), (2, 3, 0, 16)]
    """
    there: dict[int, list[tuple[int, int]]] = {}
    for piece in done:
        for block in piece.blocks():
            there.setdefault(block, []).append((piece.first_repeat, piece.last_repeat))
    for block in blocks:
        start = 0
        for first, last in sorted(there.get(block, [])):
            if start < first:
                yield Piece(block, block + 1, start, first)
            start = max(start, last)
        if start < n_repeats:
            yield Piece(block, block + 1, start, n_repeats)


def overlapping(pieces: Iterable[Piece]) -> bool:
    """Whether any block and repeat is there twice."""
    seen: set[tuple[int, int]] = set()
    for piece in pieces:
        cells = {(b, r) for b in piece.blocks() for r in range(piece.first_repeat, piece.last_repeat)}
        if seen & cells:
            return True
        seen |= cells
    return False
