"""How a run is divided: into blocks of rows that are scored together, and shards of whole blocks.

The model is always called in the same way for a block. So a run that was killed and resumed, or scored in
shards, has the same scores to the last bit.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from maskevidence.errors import InputError
from maskevidence.masks.design import MaskDesign, MaskKey
from maskevidence.model import HasBatches, MaskedModel
from maskevidence.scores.score import calls_per_observation
from maskevidence.support.files import read_json, reading, write_json
from maskevidence.tokens import Tokens

MIN_BLOCKS = 32
_MASKS_PER_BLOCK = 8192
_MASKS_PER_SLOW_BLOCK = 1024  # of a model that makes its own batches
_MIN_SHARED_ROWS = 256


class Piece(NamedTuple):
    """Scores that are saved together: blocks first..last-1, repeats of the design first..last-1."""

    first_block: int
    last_block: int
    first_repeat: int
    last_repeat: int

    def blocks(self) -> range:
        """The blocks of the piece."""
        return range(self.first_block, self.last_block)

    def repeats(self) -> range:
        """The repeats of the mask design that the piece has."""
        return range(self.first_repeat, self.last_repeat)


def rows_per_block(model: MaskedModel, tokens: Tokens, design: MaskDesign, key: MaskKey) -> int:
    """Choose the number of rows of a block: few, because a kill loses a block, but enough to be fast.

    A block has about 8192 masks, or 1024 if the model makes its own batches, which is slow. Rows with shared
    masks also share work, so that at least 256 of them make a block. A small data set is divided into 32
    blocks that shards can share.

    Args:
        model: the model to be scored.
        tokens: all rows, over all shards.
        design: how masks are drawn.
        key: whether masks are shared.
    """
    n_masks = _MASKS_PER_SLOW_BLOCK if isinstance(model, HasBatches) else _MASKS_PER_BLOCK
    rows = math.ceil(n_masks / calls_per_observation(model, tokens, design))
    if key.masks == "shared":
        rows = max(rows, _MIN_SHARED_ROWS)
    return min(rows, math.ceil(len(tokens) / MIN_BLOCKS))


def parse_shard(text: str) -> tuple[int, int]:
    """Read a shard: the k-th of n shares of the rows.

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
    """The blocks of a shard; every block is in exactly one shard.

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


def missing_pieces(done: Iterable[Piece], blocks: range, n_repeats: int) -> Iterator[Piece]:
    """The pieces that are left to score, one block at a time.

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


def seal(content: Any) -> str:
    """The SHA-256 of a JSON value, which does not depend on spaces and on the order of keys.

    Example:
        >>> seal({"seed": 0, "masks": "own"}) == seal({"masks": "own", "seed": 0})
        True
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def write_sealed(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file with its own seal."""
    write_json(path, content | {"seal": seal(content)})


def read_sealed(path: Path, remedy: str) -> dict[str, Any]:
    """The content of a JSON file without its seal; a file that was changed is refused with the remedy."""
    content = read_json(path, remedy)
    if not isinstance(content, dict) or content.pop("seal", None) != seal(content):
        raise InputError(f"{str(path)!r} was changed after it was written; {remedy}")
    return content


def seal_of_piece(identity: str, piece: Piece) -> str:
    """The seal in a part, by which it is recognised in another run and under another name."""
    return seal([identity, *piece])


def seal_of_files(folder: Path) -> str:
    """The SHA-256 of the names and contents of all files below a folder, except for hidden ones."""
    with reading(folder):
        files = [path.relative_to(folder) for path in folder.rglob("[!.]*") if path.is_file()]
        contents = {path.as_posix(): (folder / path).read_bytes() for path in files}
    return seal({name: hashlib.sha256(content).hexdigest() for name, content in contents.items()})
