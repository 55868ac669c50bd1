"""The record of a run: the score of every observation and mask, and where asked for of each hidden token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Float64, Int32, Int64

from maskevidence.support.checks import check_memory

BYTES_PER_TOKEN = 24  # while it is scored and summarised: its column, its score, and copies of them


@dataclass(frozen=True)
class HiddenTokens:
    """The scores of the hidden tokens of several masks; each mask has as many entries as its size."""

    start: Int64[np.ndarray, " n_masks"]  # where the entries of each mask begin
    column: Int32[np.ndarray, " n_entries"]  # the column of the token in its observation
    log_prob: Float32[np.ndarray, " n_entries"]  # its log-probability, nats, in single precision

    def entries(self, size: Int64[np.ndarray, " n_masks"]) -> Int64[np.ndarray, " n_of_masks"]:
        """Where the entries of these masks are in `column` and `log_prob`, mask by mask.

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
        """The scores of some masks."""
        return replace(self, start=self.start[masks])

    def packed(self, size: Int64[np.ndarray, " n_masks"]) -> "HiddenTokens":
        """The same scores, stored in the order of the masks without gaps."""
        entries = self.entries(size)
        return HiddenTokens(np.cumsum(size) - size, self.column[entries], self.log_prob[entries])

    @staticmethod
    def empty(size: Int64[np.ndarray, " n_masks"]) -> "HiddenTokens":
        """A record of zeros for masks of these sizes."""
        n_entries = int(size.sum())
        what = f"the scores of {n_entries:,} hidden tokens"
        check_memory(n_entries * BYTES_PER_TOKEN, what, "leave per_token out, or use fewer masks or rows")
        return HiddenTokens(
            np.cumsum(size) - size, np.zeros(n_entries, np.int32), np.zeros(n_entries, np.float32)
        )

    def write(
        self,
        size: Int64[np.ndarray, " n_masks"],
        masked: Bool[np.ndarray, "n_masks D"],
        log_probs: Float[np.ndarray, "n_masks D"],
    ) -> None:
        """Fill in the scores of all masks, as `hidden[part].write(...)` does for a part of them."""
        entries = self.entries(size)
        self.column[entries] = np.nonzero(masked)[1]
        self.log_prob[entries] = log_probs[masked]

    @staticmethod
    def join(parts: Sequence["HiddenTokens"]) -> "HiddenTokens":
        """The scores of several records, one after the other."""
        before = np.cumsum([0, *(len(part.column) for part in parts)])
        return HiddenTokens(
            np.concatenate([part.start + shift for part, shift in zip(parts, before[:-1], strict=True)]),
            np.concatenate([part.column for part in parts]),
            np.concatenate([part.log_prob for part in parts]),
        )


@dataclass(frozen=True)
class ScoreTable:
    """The record of a run: one row per observation and mask, from which every estimate is computed.

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

    id: Int64[np.ndarray, " n_masks"]
    draw: Int64[np.ndarray, " n_masks"]
    size: Int64[np.ndarray, " n_masks"]
    n_tokens: Int64[np.ndarray, " n_masks"]
    score: Float64[np.ndarray, " n_masks"]
    n_bytes: Int64[np.ndarray, " n_masks"] | None = None
    log_mixture: Float64[np.ndarray, " n_masks"] | None = None
    hidden: HiddenTokens | None = None

    @classmethod
    def join(cls, tables: Sequence["ScoreTable"]) -> "ScoreTable":
        """The rows of one or more tables, one table after the other; with `n_bytes` only if all have it.

        Example:
            >>> zero = np.arange(1)
            >>> table = ScoreTable(zero, zero, zero + 1, zero + 1, np.array([-0.5]))
            >>> ScoreTable.join([table, table]).score.tolist()
            [-0.5, -0.5]
        """
        columns: dict[str, Any] = {}
        for name in vars(tables[0]):
            parts = [getattr(table, name) for table in tables]
            join = HiddenTokens.join if name == "hidden" else np.concatenate
            columns[name] = None if any(part is None for part in parts) else join(parts)
        return cls(**columns)

    def select(self, rows: Int64[np.ndarray, " n"] | Bool[np.ndarray, " n_masks"]) -> "ScoreTable":
        """The rows at these positions, or the rows whose entry is True."""
        columns: dict[str, Any] = {name: x if x is None else x[rows] for name, x in vars(self).items()}
        return ScoreTable(**columns)

    def sorted(self) -> "ScoreTable":
        """The same rows in the order of (id, draw, size)."""
        return self.select(np.lexsort((self.size, self.draw, self.id)))

    def __len__(self) -> int:
        return len(self.id)
