"""Log-conditionals to the score of each mask."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

from maskevidence.errors import InputError, NumericalError
from maskevidence.model import MaskedModel
from maskevidence.tokens import Tokens


def score_masks(model: MaskedModel, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, " B"]:
    """The score of one mask per observation: the mean log-probability of its masked tokens.

    The inner part of Eq. 1: (1/M) Σ_{j masked} log p(x_j | x_visible), differentiable in the model's
    parameters.

    Args:
        model: any `MaskedModel`.
        tokens: B observations.
        masked: shape (B, D); a subset of `tokens.maskable` with at least one True in each row.

    Returns:
        Shape (B,), nats per masked token.

    Raises:
        InputError: a mask that is empty or hides a token that is absent or context.
        NumericalError: a masked token whose log-probability is not finite.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.Gaussian(torch.zeros(2), torch.eye(2))
        >>> tokens = me.Tokens.from_array([[0.0, 0.0]])
        >>> round(score_masks(model, tokens, torch.tensor([[True, False]])).item(), 4)
        -0.9189
    """
    size = masked.sum(1)
    if bool((masked & ~tokens.maskable).any()) or bool((size == 0).any()):
        raise InputError("a mask is empty or hides a token that is not maskable; mask 1..D maskable tokens")
    log_conditionals = torch.where(masked, model.log_conditionals(tokens, masked), 0.0)
    if not bool(torch.isfinite(log_conditionals).all()):
        row, column = torch.nonzero(~torch.isfinite(log_conditionals))[0].tolist()
        raise NumericalError(
            f"the log-probability of token {column} of observation {int(tokens.ids[row])} is "
            f"{log_conditionals[row, column].item()}; a model must give every token a probability above 0"
        )
    return log_conditionals.sum(1) / size


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
