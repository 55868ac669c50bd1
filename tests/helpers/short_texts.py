"""Token ids of short texts, and a model of them that makes its own batches."""

from typing import Any

import numpy as np
import torch

from maskevidence.core.tokens import Tokens


def some_tokens(n: int, seed: int = 0) -> Tokens:
    """Texts of 1 to 9 tokens between two special ones."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 10, (n,), generator=generator) + 2
    width = torch.arange(int(lengths.max()))
    values = torch.randint(4, 90, (n, len(width)), generator=generator)
    present = width < lengths[:, None]
    context = (width == 0) | (width == lengths[:, None] - 1)
    values = values.masked_fill(~present, 3)
    hashes = torch.randint(-(2**60), 2**60, (n,), generator=generator)
    return Tokens(values, present & ~context, context, torch.arange(n), lengths * 3, hashes)


class Softmax:
    """Scores tokens by the visible sum, and makes its own batches."""

    conditionals = "learned"

    def log_conditionals(self, tokens: Tokens, masked: torch.Tensor) -> torch.Tensor:
        seen = (tokens.values * tokens.visible(masked)).sum(1, keepdim=True).float().cos()
        return torch.where(masked, -2.0 - seen * tokens.values.float().sin(), 0.0)

    def batches(self, n_present: np.ndarray) -> Any:
        order = np.argsort(-n_present, kind="stable")
        return (order[start : start + 7] for start in range(0, len(order), 7))
