"""The record of a run: the score of every observation and mask and, on request, of each hidden token.

A `ScoreTable` holds scores in memory. `Scores` gives the scores of whole observations, some at a time, from
memory or from files: what is computed of them reads chunk after chunk and keeps sums of each observation. The
chunks follow from the ids and numbers of masks alone, so that the sums are the same for any files.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int32, Int64, Integer

from maskevidence.core.masks.design import MASKS_AT_ONCE
from maskevidence.core.support.checks import check_memory

_MASKS_OF_CHUNK = 2**16
BYTES_PER_TOKEN = 24  # memory of a token's column and score, with copies


@dataclass(frozen=True)
class HiddenTokens:
    """The scores of hidden tokens, grouped by mask; each mask has as many entries as its size."""

    start: Int64[np.ndarray, " n_masks"]  # position of each mask's first entry
    column: Int32[np.ndarray, " n_entries"]  # column of the token in its observation
    log_prob: Float32[np.ndarray, " n_entries"]  # log-probability of the token, nats, in single precision

    def entries(self, size: Integer[np.ndarray, " n_masks"]) -> Int64[np.ndarray, " n_of_masks"]:
        """The positions of the masks' entries in `column` and `log_prob`, mask by mask.

        Example:
            >>> hidden = HiddenTokens(np.array([2, 0]), np.arange(3, dtype=np.int32), np.zeros(3, np.float32))
            >>> hidden.entries(np.array([1, 2])).tolist()
            [2, 0, 1]
        """
        before = np.cumsum(size) - size
        return np.repeat(self.start - before, size) + np.arange(int(size.sum()))

    def __getitem__(
        self, masks: slice | Int64[np.ndarray, " n"] | Bool[np.ndarray, " n_masks"]
    ) -> "HiddenTokens":
        """Select masks."""
        return replace(self, start=self.start[masks])

    def packed(self, size: Integer[np.ndarray, " n_masks"]) -> "HiddenTokens":
        """A copy stored in the order of the masks, without gaps."""
        entries = self.entries(size)
        return HiddenTokens(np.cumsum(size) - size, self.column[entries], self.log_prob[entries])

    @staticmethod
    def empty(size: Integer[np.ndarray, " n_masks"]) -> "HiddenTokens":
        """A record of zeros for masks of given sizes."""
        n_entries = int(size.sum())
        what = f"the scores of {n_entries:,} hidden tokens"
        check_memory(n_entries * BYTES_PER_TOKEN, what, "leave per_token out, or use fewer masks or rows")
        return HiddenTokens(
            np.cumsum(size) - size, np.zeros(n_entries, np.int32), np.zeros(n_entries, np.float32)
        )

    def write(
        self,
        size: Integer[np.ndarray, " n_masks"],
        masked: Bool[np.ndarray, "n_masks D"],
        log_probs: Float[np.ndarray, "n_masks D"],
    ) -> None:
        """Store the scores of all masks; `hidden[part].write(...)` stores those of a part."""
        entries = self.entries(size)
        self.column[entries] = np.nonzero(masked)[1]
        self.log_prob[entries] = log_probs[masked]

    @staticmethod
    def join(parts: Sequence["HiddenTokens"]) -> "HiddenTokens":
        """Concatenate records."""
        before = np.cumsum([0, *(len(part.column) for part in parts)])
        return HiddenTokens(
            np.concatenate([part.start + shift for part, shift in zip(parts, before[:-1], strict=True)]),
            np.concatenate([part.column for part in parts]),
            np.concatenate([part.log_prob for part in parts]),
        )


@dataclass(frozen=True)
class ScoreTable:
    """The record of a run, one row per observation and mask; every estimate is computed from it.

    Sorted by (id, draw, size), it does not depend on how the work was split.

    Attributes:
        id: shape (n_masks,); the observation.
        draw: shape (n_masks,); the draw within the observation.
        size: shape (n_masks,); how many tokens were hidden.
        n_tokens: shape (n_masks,); how many tokens could be hidden.
        score: shape (n_masks,); mean log-probability of a hidden token, nats.
        n_bytes: shape (n_masks,); the observation's bytes of text; None without text.
        log_mixture: shape (n_masks,); log E_σ p_σ of the hidden tokens that are scored given the visible
            ones, nats; None unless it was computed.
        hidden: the log-probability of each hidden token; None where it was not recorded.
    """

    id: Integer[np.ndarray, " n_masks"]
    draw: Integer[np.ndarray, " n_masks"]
    size: Integer[np.ndarray, " n_masks"]
    n_tokens: Integer[np.ndarray, " n_masks"]
    score: Float64[np.ndarray, " n_masks"]
    n_bytes: Integer[np.ndarray, " n_masks"] | None = None
    log_mixture: Float64[np.ndarray, " n_masks"] | None = None
    hidden: HiddenTokens | None = None

    @classmethod
    def join(cls, tables: Sequence["ScoreTable"]) -> "ScoreTable":
        """Concatenate tables; `n_bytes` is kept only if all have it.

        Example:
            >>> zero = np.arange(1)
            >>> table = ScoreTable(zero, zero, zero + 1, zero + 1, np.array([-0.5]))
            >>> ScoreTable.join([table, table]).score.tolist()
            [-0.5, -0.5]
        """
        return tables[0] if len(tables) == 1 else cls._joined(tables)

    @classmethod
    def merged(cls, tables: Sequence["ScoreTable"]) -> "ScoreTable":
        """Merge tables in the order of (id, draw, size)."""
        if len(tables) == 1:
            return tables[0].sorted()
        keys = ([getattr(table, name) for table in tables] for name in ("size", "draw", "id"))
        return cls._joined(tables, np.lexsort([np.concatenate(key) for key in keys]))

    @classmethod
    def _joined(
        cls, tables: Sequence["ScoreTable"], order: Int64[np.ndarray, " n_masks"] | slice = slice(None)
    ) -> "ScoreTable":
        """Concatenate tables column by column and sort the rows."""
        columns: dict[str, Any] = {}
        for field in fields(cls):
            parts = [getattr(table, field.name) for table in tables]
            join = HiddenTokens.join if field.name == "hidden" else np.concatenate
            columns[field.name] = None if any(part is None for part in parts) else join(parts)[order]
        return cls(**columns)

    def select(self, rows: Int64[np.ndarray, " n"] | Bool[np.ndarray, " n_masks"] | slice) -> "ScoreTable":
        """Select rows by position or by a boolean array."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        chosen: dict[str, Any] = {name: x if x is None else x[rows] for name, x in columns.items()}
        return ScoreTable(**chosen)

    def sorted(self) -> "ScoreTable":
        """The rows in the order of (id, draw, size); the table itself if they already are."""
        after = np.zeros(max(0, len(self) - 1), dtype=np.bool_)
        for column in (self.size, self.draw, self.id):
            after = (column[1:] > column[:-1]) | ((column[1:] == column[:-1]) & after)
        return self if after.all() else self.select(np.lexsort((self.size, self.draw, self.id)))

    @property
    def first(self) -> Int64[np.ndarray, " n_observations"]:
        """The first row of each observation in a sorted table."""
        starts = self.id[1:] != self.id[:-1]
        return np.flatnonzero(np.concatenate([np.ones(min(1, len(self)), dtype=np.bool_), starts]))

    @property
    def observation(self) -> Int64[np.ndarray, " n_masks"]:
        """Number each mask's observation 0, 1, ... in a sorted table."""
        first = self.first
        return np.repeat(np.arange(len(first)), np.diff(np.append(first, len(self))))

    def __len__(self) -> int:
        return len(self.id)


@dataclass(frozen=True)
class Scores:
    """The scores of whole observations, read chunk by chunk in the order of their ids.

    Attributes:
        ids: shape (N,); the observations, in ascending order.
        n_tokens: shape (N,); how many tokens of each could be hidden.
        n_bytes: shape (N,); the bytes of text of each; None without text.
        n_masks: the number of scores.
        read: gives sorted tables, which follow each other in the order of the ids; each observation is in
            one of them.
        at_once: about how many masks are in a chunk.
    """

    ids: Integer[np.ndarray, " N"]
    n_tokens: Integer[np.ndarray, " N"]
    n_bytes: Integer[np.ndarray, " N"] | None
    n_masks: int
    read: Callable[[], Iterator[ScoreTable]]
    at_once: int = _MASKS_OF_CHUNK

    @classmethod
    def of(cls, table: "ScoreTable | Scores") -> "Scores":
        """Wrap a table in memory; a table with token scores or mixtures is a single chunk.

        Example:
            >>> row, draw = (grid.ravel() for grid in np.indices((3, 2)))
            >>> scores = Scores.of(ScoreTable(row, draw, draw + 1, draw * 0 + 2, -1.0 * row))
            >>> [(rows.stop, len(table)) for rows, table in replace(scores, at_once=4)]
            [(2, 4), (3, 2)]
        """
        if isinstance(table, Scores):
            return table
        rows = table.sorted()
        first = rows.first
        n_bytes = None if rows.n_bytes is None else rows.n_bytes[first]
        whole = rows.hidden is not None or rows.log_mixture is not None
        at_once = len(rows) if whole else _MASKS_OF_CHUNK
        return cls(rows.id[first], rows.n_tokens[first], n_bytes, len(rows), lambda: iter([rows]), at_once)

    def __iter__(self) -> Iterator[tuple[slice, ScoreTable]]:
        """Yield positions and scores of some observations, equally many in each chunk."""
        n_rows = max(1, self.at_once * len(self.ids) // max(1, self.n_masks))
        begin = 0
        left: list[ScoreTable] = []
        for table in self.read():
            whole = ScoreTable.join([*left, table])
            first = np.append(whole.first, len(whole))
            n_here = len(first) - 1
            stop = n_here if begin + n_here == len(self.ids) else n_here - n_here % n_rows
            for row in range(0, stop, n_rows):
                last = min(row + n_rows, stop)
                yield slice(begin + row, begin + last), whole.select(slice(first[row], first[last]))
            begin += stop
            left = [whole.select(slice(first[stop], None))] if stop < n_here else []

    def table(self) -> ScoreTable:
        """Read all scores into memory."""
        return ScoreTable.join([table for _, table in self])

    def sample(self, most: int = MASKS_AT_ONCE) -> ScoreTable:
        """The scores of every k-th observation, about `most` in all; every score if there are no more."""
        every = math.ceil(self.n_masks / most)
        if every == 1:
            return self.table()
        kept = (table.select((table.observation + rows.start) % every == 0) for rows, table in self)
        return ScoreTable.join(list(kept))

    def changed(self, change: Callable[[ScoreTable], ScoreTable]) -> "Scores":
        """Apply a function to each table; each observation must keep at least one mask."""
        read = self.read
        n_masks = sum(len(change(table)) for table in read())
        return replace(self, n_masks=n_masks, read=lambda: map(change, read()))
