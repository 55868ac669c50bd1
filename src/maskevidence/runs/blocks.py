"""Divide a run into blocks of rows and shards of blocks; engines that score blocks.

The model is always called in the same way for a block. So a run that was killed and resumed, or scored in
shards, has the same scores to the last bit. An engine is this process, or workers elsewhere.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int64

from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import MASKS_AT_ONCE, MaskDesign, MaskKey, compact
from maskevidence.core.model import MaskedModel, device_of
from maskevidence.core.packed_tokens import Observations
from maskevidence.core.scores.record import HiddenTokens, Scores, ScoreTable
from maskevidence.core.scores.score_masks import Scoring, calls_per_observation, score_repeats
from maskevidence.core.support.files import reading, write_atomic
from maskevidence.core.support.progress import Advance
from maskevidence.core.support.provenance import digest
from maskevidence.core.tokens import Tokens
from maskevidence.runs.folder import seal
from maskevidence.runs.observation_files import from_arrow, to_arrow

MIN_BLOCKS = 32
_MASKS_PER_BLOCK = 8192
_MASKS_PER_SLOW_BLOCK = 1024  # for a model that makes its own batches
_CALLS_PER_BLOCK = 8  # of such a model on a GPU, whose calls are large
_SAMPLE, _MASKS_OF_SAMPLE = 256, 2**16
_MIN_SHARED_ROWS = 256
_CELLS_PER_BLOCK = 2**20  # which bounds the memory of wide rows


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
    a block. A small data set is divided into 32 blocks that shards can share, and a block of wide rows has a
    million cells.

    Args:
        model: the model to be scored.
        tokens: all rows, over all shards.
        design: how masks are drawn.
        key: whether masks are shared.
    """
    n_masks = _MASKS_PER_BLOCK
    if hasattr(model, "batches"):
        device = device_of(model)
        on_cpu = device is None or device.type == "cpu"
        n_masks = (
            _MASKS_PER_SLOW_BLOCK if on_cpu else max(_MASKS_PER_SLOW_BLOCK, _n_masks_of_calls(model, tokens))
        )
    rows = math.ceil(n_masks / calls_per_observation(model, tokens, design))
    if isinstance(tokens, Tokens) and not hasattr(model, "batches"):
        rows = min(rows, max(1, _CELLS_PER_BLOCK // max(1, tokens.width)))
    if key.masks == "shared":
        rows = max(rows, _MIN_SHARED_ROWS)
    return min(rows, math.ceil(len(tokens) / MIN_BLOCKS))


def _n_masks_of_calls(model: Any, tokens: Observations) -> int:
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


SCORES = "scores"
_NAME = re.compile(r"blocks-(\d+)-(\d+)_repeats-(\d+)-(\d+)_([0-9a-f]{16})\.parquet")
_CALLS, _SEAL = b"n_model_calls", b"seal"
_PLACES, _LOG_PROBS = "hidden_places", "hidden_log_probs"


class SavedPart(NamedTuple):
    """One file of scores."""

    path: Path
    piece: Piece
    checksum: str


def list_parts(folder: Path) -> list[SavedPart]:
    """List the parts in a `scores` folder by name; a missing folder has none."""
    if not folder.is_dir():
        return []
    with reading(folder):
        names = sorted(path.name for path in folder.iterdir())
    parts = []
    for name in names:
        if match := _NAME.fullmatch(name):
            *numbers, checksum = match.groups()
            parts.append(SavedPart(folder / name, Piece(*map(int, numbers)), checksum))
    return parts


def is_whole(part: SavedPart) -> bool:
    """Whether a part's content matches the checksum in its name."""
    with reading(part.path):
        return _checksum(part.path.read_bytes()) == part.checksum


def is_of(part: SavedPart, identity: str) -> bool:
    """Whether a run wrote the part under its present name; True if that cannot be read."""
    from pyarrow import ArrowException, parquet

    if not part.path.is_file():  # reading it reports the error
        return True
    try:
        with part.path.open("rb") as file:
            written = (parquet.read_metadata(file).metadata or {}).get(_SEAL)
    except (OSError, ArrowException):  # the file is damaged; its checksum shows that
        return True
    return bool(written == seal([identity, *part.piece]).encode())


def write_part(folder: Path, piece: Piece, table: ScoreTable, n_model_calls: int, identity: str) -> SavedPart:
    """Write the scores of a piece."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = table.sorted()
    whole = {name: to_arrow(getattr(rows, name)) for name in ("id", "draw", "size", "n_tokens")}
    n_bytes = pa.nulls(len(rows), pa.int64()) if rows.n_bytes is None else to_arrow(rows.n_bytes)
    columns = {**whole, "score": to_arrow(rows.score), "n_bytes": n_bytes}
    if rows.log_mixture is not None:
        columns["log_mixture"] = to_arrow(rows.log_mixture)
    if rows.hidden is not None:
        columns |= _lists(rows.hidden.packed(rows.size))
    content = pa.table(columns)
    own = seal([identity, *piece])
    content = content.replace_schema_metadata({_CALLS: str(n_model_calls), _SEAL: own})
    sink = pa.BufferOutputStream()
    parquet.write_table(content, sink, compression="zstd", use_dictionary=[*whole, "n_bytes"])
    data = sink.getvalue().to_pybytes()
    checksum = _checksum(data)
    name = (
        f"blocks-{piece.first_block:06d}-{piece.last_block:06d}"
        f"_repeats-{piece.first_repeat:04d}-{piece.last_repeat:04d}_{checksum}.parquet"
    )
    write_atomic(folder / name, data)
    return SavedPart(folder / name, piece, checksum)


def read_part(part: SavedPart) -> tuple[ScoreTable, int]:
    """Read a part; return its scores and the number of model calls behind them."""
    import pyarrow as pa
    from pyarrow import parquet

    with reading(part.path):
        data = part.path.read_bytes()
    if _checksum(data) != part.checksum:
        raise InputError(
            f"{str(part.path)!r} is damaged; run the command in run.json again, which scores only this part "
            "again"
        )
    file = parquet.ParquetFile(pa.BufferReader(data))
    content = file.read(use_threads=False)  # each thread takes 70 MB of addresses
    column = {name: content.column(name) for name in content.column_names}
    names = ("id", "draw", "size", "n_tokens", "score", "log_mixture")
    values = {name: from_arrow(column[name]) for name in names if name in column}
    values |= {name: compact(values[name]) for name in names[:4]}
    n_bytes = None if column["n_bytes"].null_count else compact(from_arrow(column["n_bytes"]))
    hidden = _hidden(content, values["size"]) if _PLACES in column else None
    return ScoreTable(**values, n_bytes=n_bytes, hidden=hidden), int(content.schema.metadata[_CALLS])


def scores_of(parts: Sequence[SavedPart]) -> tuple[Scores, int]:
    """Read parts one by one; return their scores and the number of model calls behind them.

    Few scores stay in memory. Parts that have observations in common, as those of a run that was extended,
    are read together.
    """
    ranges, tables = [], []
    id_parts, length_parts, byte_parts = list[Any](), list[Any](), list[Any]()
    n_masks = n_calls = 0
    for part in parts:
        table, calls = read_part(part)
        table = table.sorted()
        first = table.first
        n_masks, n_calls = n_masks + len(table), n_calls + calls
        id_parts.append(table.id[first])
        length_parts.append(table.n_tokens[first])
        byte_parts.append(None if table.n_bytes is None else table.n_bytes[first])
        ranges.append((int(table.id[0]), int(table.id[-1]), part))
        if n_masks <= MASKS_AT_ONCE or table.hidden is not None or table.log_mixture is not None:
            tables.append(table)
    if len(tables) == len(parts):  # all tables were kept: few masks, or needed at once
        return Scores.of(ScoreTable.merged(tables)), n_calls
    tables.clear()
    ids = np.concatenate(id_parts)
    id_parts.clear()  # each before the next is joined
    n_tokens = np.concatenate(length_parts)
    length_parts.clear()
    n_bytes = None if any(each is None for each in byte_parts) else np.concatenate(byte_parts)
    kept: Any = slice(None)
    if not (ids[1:] > ids[:-1]).all():  # sorting takes memory
        ids, kept = np.unique(ids, return_index=True)
    n_bytes = None if n_bytes is None else n_bytes[kept]
    groups: list[list[SavedPart]] = []
    end = -math.inf
    for low, high, part in sorted(ranges, key=lambda each: each[:2]):
        if low > end:
            groups.append([])
        groups[-1].append(part)
        end = max(end, high)

    def read() -> Iterator[ScoreTable]:
        for group in groups:
            yield ScoreTable.merged([read_part(part)[0] for part in group])

    return Scores(ids, n_tokens[kept], n_bytes, n_masks, read), n_calls


def _lists(hidden: HiddenTokens) -> dict[str, Any]:
    """Columns with the places and scores of each mask's hidden tokens."""
    import pyarrow as pa

    ends = to_arrow(np.append(hidden.start, len(hidden.column)).astype(np.int32))
    entries = {_PLACES: hidden.column, _LOG_PROBS: hidden.log_prob}
    return {name: pa.ListArray.from_arrays(ends, to_arrow(values)) for name, values in entries.items()}


def _hidden(content: Any, size: Int64[np.ndarray, " n_masks"]) -> HiddenTokens:
    """Read the scores of hidden tokens from those columns."""
    column, log_prob = (from_arrow(content[n].combine_chunks().flatten()) for n in (_PLACES, _LOG_PROBS))
    return HiddenTokens(np.cumsum(size) - size, column, log_prob)


def _checksum(data: bytes) -> str:
    return digest(data)[:16]
