"""The record of a run: the score of every observation and mask."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.scores.hidden_tokens import HiddenTokens


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
            ones, nats, or log p of their best or worst order; None unless one of these was computed.
        first: shape (n_masks,); the number of the token that the best or worst order shows first; None
            without such an order.
        hidden: the log-probability of each hidden token; None where it was not recorded.
    """

    id: Int64[np.ndarray, " n_masks"]
    draw: Int64[np.ndarray, " n_masks"]
    size: Int64[np.ndarray, " n_masks"]
    n_tokens: Int64[np.ndarray, " n_masks"]
    score: Float64[np.ndarray, " n_masks"]
    n_bytes: Int64[np.ndarray, " n_masks"] | None = None
    log_mixture: Float64[np.ndarray, " n_masks"] | None = None
    first: Int64[np.ndarray, " n_masks"] | None = None
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
