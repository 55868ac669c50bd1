"""The record of a run: a score for every observation and mask."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64


@dataclass(frozen=True)
class ScoreTable:
    """The record of a run: one row per observation and mask; every estimate is computed from it.

    Rows are in the order of (id, draw, size), so that nothing depends on how the work was split.

    Attributes:
        id: shape (n_masks,); the observation.
        draw: shape (n_masks,); the draw within the observation.
        size: shape (n_masks,); how many tokens were hidden.
        n_tokens: shape (n_masks,); how many could be.
        score: shape (n_masks,); mean log-probability of a hidden token, nats.
        n_bytes: shape (n_masks,); the observation's bytes of text; None where it is no text.
    """

    id: Int64[np.ndarray, " n_masks"]
    draw: Int64[np.ndarray, " n_masks"]
    size: Int64[np.ndarray, " n_masks"]
    n_tokens: Int64[np.ndarray, " n_masks"]
    score: Float64[np.ndarray, " n_masks"]
    n_bytes: Int64[np.ndarray, " n_masks"] | None = None

    def sorted(self) -> "ScoreTable":
        """The same rows in the order of (id, draw, size)."""
        order = np.lexsort((self.size, self.draw, self.id))
        n_bytes = None if self.n_bytes is None else self.n_bytes[order]
        return ScoreTable(
            self.id[order],
            self.draw[order],
            self.size[order],
            self.n_tokens[order],
            self.score[order],
            n_bytes,
        )

    def __len__(self) -> int:
        return len(self.id)
