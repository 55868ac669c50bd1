"""How much one column tells about another, from held-out rows."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float64, Int64

from maskevidence.core.model import MaskedModel
from maskevidence.core.scores.ask import Asker, MaskedRows
from maskevidence.core.tokens import Tokens

_MOST_ROWS = 120  # of each fold


def links_of(
    models: Sequence[MaskedModel],
    values: Float64[np.ndarray, "N D"],
    folds: Sequence[Int64[np.ndarray, " _"]],
) -> Float64[np.ndarray, "D D"]:
    """The strength of the link of each pair of columns, in [0, 1].

    With the mean gain g = E[log p(x_j | x_k) - log p(x_j)] in nats, of rows that the model has not seen, and
    the larger one of both directions, it is √(1 - exp(-2 g)): of two normal columns their correlation.

    Args:
        models: one for each fold, which has not seen it.
        values: shape (N, D), NaN for holes.
        folds: the positions of the rows of each fold.

    Source:
        Linfoot (1957), An informational measure of correlation.
    """
    width = values.shape[1]
    total, n = np.zeros((width, width)), np.zeros((width, width))
    for model, fold in zip(models, folds, strict=True):
        rows = values[fold[:_MOST_ROWS]]
        alone = _answers(model, rows, None)
        for k in range(width):
            gain = _answers(model, rows, k) - alone
            known = ~np.isnan(gain)
            total[k] += np.where(known, gain, 0.0).sum(0)
            n[k] += known.sum(0)
    with np.errstate(invalid="ignore"):
        gain = np.maximum(total / n, 0.0)
    strength = np.sqrt(-np.expm1(-2 * np.fmax(gain, gain.T)))
    np.fill_diagonal(strength, np.nan)
    return strength


def _answers(model: MaskedModel, rows: Float64[np.ndarray, "n D"], visible: int | None) -> np.ndarray:
    """log p of every cell given one other cell of its row, or none; NaN where either is missing."""
    seen = ~np.isnan(rows)
    masks = seen.copy()
    if visible is not None:
        masks[:, visible] = False
        masks[~seen[:, visible]] = False
    index, answers = np.flatnonzero(masks.any(1)), np.full(rows.shape, np.nan)
    if not len(index):
        return answers
    tokens = Tokens.from_array(rows, empty_rows=True)
    contexts = MaskedRows(
        tokens, index, masks.sum(1)[index], lambda part: torch.from_numpy(masks[index[part]])
    )
    for answer in Asker(model, None).conditionals(contexts):
        answers[index[answer.part]] = answer.log_probs.double().cpu().numpy()
    return np.where(masks, answers, np.nan)
