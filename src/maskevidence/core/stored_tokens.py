"""Observations that are read block by block, because memory does not hold all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Int64
from torch import Tensor

from maskevidence.core.tokens import Tokens


@dataclass(frozen=True)
class StoredTokens(Tokens):
    """Tokens of which only ascending ids and counts are in memory; `values` and roles have no rows.

    Attributes:
        counts: shape (B,); the number of maskable tokens of each observation.
        read: gives the tokens of the rows from a position to another, with their ids.
    """

    counts: Int64[Tensor, " B"] = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    read: Callable[[int, int], Tokens] | None = None

    @property
    def n_tokens(self) -> Int64[Tensor, " B"]:
        return self.counts

    def scored_together(self) -> "StoredTokens":
        """The same; each slice knows its positions."""
        return self

    def __getitem__(self, rows: Int64[Tensor, " b"] | slice) -> Tokens:
        """Read a slice of the rows."""
        assert isinstance(rows, slice)
        assert self.read is not None
        start, stop, _ = rows.indices(len(self))
        rank = torch.arange(start, stop)
        return replace(
            self.read(start, stop), position=torch.stack([rank, torch.full_like(rank, len(self))], 1)
        )
