"""Observations that are read block by block, because memory does not hold all of them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Int64
from torch import Tensor

from maskevidence.core.tokens import Tokens


@dataclass(frozen=True)
class StoredTokens(Tokens):
    """Tokens of which only ids, counts and positions are in memory; `values` and roles have no rows.

    Attributes:
        counts: shape (B,); the number of maskable tokens of each observation.
        read: gives the tokens of the rows from a position to another, with their ids.
    """

    counts: Int64[Tensor, " B"] = field(default_factory=lambda: torch.empty(0, dtype=torch.int64))
    read: Callable[[int, int], Tokens] | None = None

    @property
    def n_tokens(self) -> Int64[Tensor, " B"]:
        return self.counts

    def __getitem__(self, rows: Int64[Tensor, " b"] | slice) -> Tokens:
        """Read a slice of the rows."""
        assert isinstance(rows, slice)
        assert self.read is not None
        start, stop, _ = rows.indices(len(self))
        position = None if self.position is None else self.position[start:stop]
        return replace(self.read(start, stop), position=position)
