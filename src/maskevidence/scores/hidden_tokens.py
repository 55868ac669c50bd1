"""The log-probability of each hidden token, recorded in addition to the mean score of its mask."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float32, Int32, Int64

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
