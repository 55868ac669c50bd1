"""The scores of a run on disk: Parquet files named by blocks, repeats and checksum.

Each carries the seal of its run, so that the parts of another run are recognised.
"""

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int64

from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import MASKS_AT_ONCE, compact
from maskevidence.core.scores.record import HiddenTokens, Scores, ScoreTable
from maskevidence.core.support.digest import digest
from maskevidence.core.support.files import reading, write_atomic
from maskevidence.runs.blocks import Piece
from maskevidence.runs.folder import seal

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
    """List the parts in a `scores` folder by name; [] if there is no folder."""
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
    whole = {name: pa.array(getattr(rows, name)) for name in ("id", "draw", "size", "n_tokens")}
    n_bytes = pa.nulls(len(rows), pa.int64()) if rows.n_bytes is None else pa.array(rows.n_bytes)
    columns = {**whole, "score": pa.array(rows.score), "n_bytes": n_bytes}
    if rows.log_mixture is not None:
        columns["log_mixture"] = pa.array(rows.log_mixture)
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
    content = parquet.read_table(pa.BufferReader(data))
    column = {name: content.column(name) for name in content.column_names}
    names = ("id", "draw", "size", "n_tokens", "score", "log_mixture")
    values = {name: column[name].to_numpy() for name in names if name in column}
    values |= {name: compact(values[name]) for name in names[:4]}
    n_bytes = None if column["n_bytes"].null_count else compact(column["n_bytes"].to_numpy())
    hidden = _hidden(content, values["size"]) if _PLACES in column else None
    return ScoreTable(**values, n_bytes=n_bytes, hidden=hidden), int(content.schema.metadata[_CALLS])


def scores_of(parts: Sequence[SavedPart]) -> tuple[Scores, int]:
    """Read parts one by one; return their scores and the number of model calls behind them.

    Few scores stay in memory. Parts that have observations in common, as those of a run that was extended,
    are read together.
    """
    ranges, tables = [], []
    rows: list[tuple[Any, ...]] = []
    n_masks = n_calls = 0
    for part in parts:
        table, calls = read_part(part)
        table = table.sorted()
        first = table.first
        n_masks, n_calls = n_masks + len(table), n_calls + calls
        each = table.id[first], table.n_tokens[first], None if table.n_bytes is None else table.n_bytes[first]
        rows.append(each)
        ranges.append((int(table.id[0]), int(table.id[-1]), part))
        if n_masks <= MASKS_AT_ONCE or table.hidden is not None or table.log_mixture is not None:
            tables.append(table)
    if len(tables) == len(parts):  # all tables were kept: few masks, or needed at once
        return Scores.of(ScoreTable.merged(tables)), n_calls
    ids, n_tokens = (np.concatenate(column) for column in list(zip(*rows, strict=True))[:2])
    n_bytes = None if any(each[2] is None for each in rows) else np.concatenate([each[2] for each in rows])
    del rows, tables
    first: Any = slice(None)
    if not (ids[1:] > ids[:-1]).all():  # sorting takes memory
        ids, first = np.unique(ids, return_index=True)
    n_bytes = None if n_bytes is None else n_bytes[first]
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

    return Scores(ids, n_tokens[first], n_bytes, n_masks, read), n_calls


def _lists(hidden: HiddenTokens) -> dict[str, Any]:
    """Columns with the places and scores of each mask's hidden tokens."""
    import pyarrow as pa

    ends = pa.array(np.append(hidden.start, len(hidden.column)).astype(np.int32))
    entries = {_PLACES: hidden.column, _LOG_PROBS: hidden.log_prob}
    return {name: pa.ListArray.from_arrays(ends, pa.array(values)) for name, values in entries.items()}


def _hidden(content: Any, size: Int64[np.ndarray, " n_masks"]) -> HiddenTokens:
    """Read the scores of hidden tokens from those columns."""
    column, log_prob = (content[n].combine_chunks().flatten().to_numpy() for n in (_PLACES, _LOG_PROBS))
    return HiddenTokens(np.cumsum(size) - size, column, log_prob)


def _checksum(data: bytes) -> str:
    return digest(data)[:16]
