"""Weights: the expected loss of an objective, or of a collator's batches, is the sum over all masks.

Both are tried on short rows of different lengths with a made-up model whose answers differ strongly between
mask sizes and tokens, so that a wrong size, weight or mean shows after 200 draws.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor

from maskevidence.core.check.findings import Finding, critical, failed, passed, skipped
from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.masks.sizes import Exhaustive
from maskevidence.core.scores.score import score_observations
from maskevidence.core.tokens import Tokens

_LENGTHS = (1, 2, 3, 4, 5, 5, 3, 2)
_N_STEPS = 200
_NOT_SCORED = -100
_TOLERANCE = 1e-4  # relative: losses are computed in single precision
_WEIGHT = "mask_weight"
_LOSSES = f"The mean of {_N_STEPS} losses on short rows was compared with the sum over all their masks."
_BATCHES = f"{_N_STEPS} batches of short texts were compared with the sum over all their masks."
_INPUTS = f"The inputs and labels of {_N_STEPS} batches were compared with the texts."


class _MadeUp:
    """A model with log p = -(1 + M² / 4 + column / 3) at each token of a mask of size M."""

    conditionals = "learned"
    base_measure = "none: a made-up number for the check of weights"

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float64[Tensor, "B D"]:
        size = masked.sum(1, keepdim=True).double()
        column = (tokens.maskable.cumsum(1) - 1).double()
        return torch.where(masked, -(1 + size**2 / 4 + column / 3), 0.0)


def weights(objective: Any, seed: int = 0) -> list[Finding]:
    """Check an objective or a collator."""
    torch.manual_seed(seed)
    tokenizer = getattr(objective, "tokenizer", None)
    if tokenizer is None:
        return [replace(_of_objective(objective), check="weights", did=_LOSSES)]
    features, special = _features(tokenizer)
    batches = [objective([dict(feature) for feature in features]) for _ in range(_N_STEPS)]
    inputs = _inputs(batches, features, special, tokenizer.mask_token_id)
    losses = _of_batches(objective, batches, features, special)
    return [
        replace(inputs, check="mask tokens", did=_INPUTS),
        replace(losses, check="weights", did=_BATCHES),
    ]


def _of_objective(objective: Any) -> Finding:
    """Compare the mean loss with the sum over all masks."""
    tokens, model = _short_rows(), _MadeUp()
    if (reason := _not_the_evidence(objective)) is not None:
        return skipped(reason)
    try:
        losses = np.array([float(objective(model, tokens, step=step)) for step in range(_N_STEPS)])
    except InputError as error:
        return skipped(f"it is not computed from masks ({error})")
    return _compare(losses, -_evidence(model, tokens))


def _of_batches(
    collator: Any, batches: list[Any], features: list[Any], special: Bool[Tensor, "B L"]
) -> Finding:
    """Compare the mean weighted loss of the collator's batches with the sum over all masks."""
    if (reason := _not_the_evidence(collator)) is not None:
        return skipped(reason)
    if _WEIGHT not in batches[0]:
        return failed(
            "the batches have no weights: the model's own loss averages over the hidden tokens of a "
            "batch, which weights a text by the size of its mask",
            look_at=f"a weight of each text, {_WEIGHT!r}",
        )
    model, losses = _MadeUp(), []
    lengths = torch.tensor([len(feature["input_ids"]) for feature in features])
    maskable = ~special & (torch.arange(special.shape[1]) < lengths[:, None])
    tokens = _rows(maskable)
    for batch in batches:
        hidden = batch["labels"] != _NOT_SCORED
        masked = torch.zeros_like(maskable)
        masked[:, : hidden.shape[1]] = hidden[:, : masked.shape[1]]
        score = model.log_conditionals(tokens, masked).sum(1) / masked.sum(1).clamp(min=1)
        losses.append(float(-(batch[_WEIGHT].double() * score).mean()))
    return _compare(np.array(losses), -_evidence(model, tokens))


def _inputs(batches: list[Any], features: list[Any], special: Bool[Tensor, "B L"], mask_id: int) -> Finding:
    """Check that hidden tokens, and no others, are mask tokens in the input and targets in the labels."""
    n_hidden = n_shown = n_wrong = n_special = 0
    for batch in batches:
        for row, feature in enumerate(features):
            ids = torch.tensor(feature["input_ids"])
            n = len(ids)
            label, input_id = batch["labels"][row, :n], batch["input_ids"][row, :n]
            hidden = label != _NOT_SCORED
            n_hidden += int(hidden.sum())
            n_shown += int((hidden & (input_id != mask_id)).sum())
            n_wrong += int((hidden & (label != ids)).sum()) + int((~hidden & (input_id != ids)).sum())
            n_special += int((hidden & special[row, :n]).sum())
    numbers: dict[str, Any] = {"n_rows": len(features), "n_masks": len(batches) * len(features)}
    if n_wrong or n_special:
        message = (
            f"{n_special} special tokens are predicted; {n_wrong} labels or visible tokens are not the text's"
        )
    elif n_shown:
        message = (
            f"{n_shown / max(1, n_hidden):.0%} of the tokens to predict are not replaced by the mask token: "
            "a model that sees them, or another token there, does not learn their conditional"
        )
    else:
        return passed("all hidden tokens, and no others, are mask tokens", **numbers)
    return failed(message, look_at="how the collator replaces the tokens that it chooses", **numbers)


def _compare(losses: Float64[np.ndarray, " n"], expected: float) -> Finding:
    """Compare the mean of the losses with its expectation."""
    mean, error = float(losses.mean()), float(losses.std(ddof=1)) / math.sqrt(len(losses))
    allowed = critical(len(losses) - 1) * error + _TOLERANCE * abs(expected)
    numbers: dict[str, Any] = {
        "n_rows": len(_LENGTHS),
        "n_masks": len(losses) * len(_LENGTHS),
        "largest": abs(mean - expected),
        "allowed": allowed,
        "z": (mean - expected) / error if error > 1e-12 * abs(mean) else None,
    }
    message = f"the mean loss is {mean:.4f} ± {error:.4f} nats per row, all masks give {expected:.4f}"
    if abs(mean - expected) <= allowed:
        return passed(message, **numbers)
    look_at = "the sizes that are drawn (uniform on 1..D), the weight D/M of a mask, and the mean over rows"
    return failed(message, look_at=look_at, **numbers)


def _not_the_evidence(objective: Any) -> str | None:
    """Why the expected loss is not the log evidence; None if it is."""
    design = getattr(objective, "design", None)
    covers: Callable[[int], bool] | None = getattr(design, "covers_all_sizes", None)
    if covers is not None and not all(covers(length) for length in set(_LENGTHS)):
        return f"{type(design).__name__} does not cover all mask sizes, so its sum is not the log evidence"
    return None


def _evidence(model: Any, tokens: Tokens) -> float:
    """Mean over rows of Σ over sizes of the mean score of all masks of the size (Eq. 2)."""
    design = Exhaustive()
    table, _ = score_observations(model, tokens, design, MaskKey())
    weight = design.summation(table.n_tokens, table.draw, table.size).weight
    return float((weight * table.score).sum()) / len(tokens)


def _short_rows() -> Tokens:
    """Make rows of different lengths between two absent tokens."""
    n = torch.tensor(_LENGTHS)[:, None]
    column = torch.arange(max(_LENGTHS) + 2)
    return _rows((column >= 1) & (column <= n))


def _rows(maskable: Bool[Tensor, "B D"]) -> Tokens:
    """Make rows of zeros; tokens that cannot be hidden are absent."""
    values = torch.zeros(maskable.shape, dtype=torch.float64)
    return Tokens(values, maskable, torch.zeros_like(maskable), torch.arange(len(maskable)))


def _features(tokenizer: Any) -> tuple[list[dict[str, Any]], Bool[Tensor, "B L"]]:
    """Make short token sequences between two special tokens, with the positions of special tokens."""
    special_ids = set(tokenizer.all_special_ids)
    ordinary = [i for i in range(len(tokenizer)) if i not in special_ids][: max(_LENGTHS)]
    edge = next(i for i in sorted(special_ids) if i not in (tokenizer.mask_token_id, tokenizer.pad_token_id))
    width = max(_LENGTHS) + 2
    features, special = [], torch.zeros(len(_LENGTHS), width, dtype=torch.bool)
    for row, length in enumerate(_LENGTHS):
        ids = [edge, *ordinary[:length], edge]
        flags = [1, *[0] * length, 1]
        features.append({"input_ids": ids, "attention_mask": [1] * len(ids), "special_tokens_mask": flags})
        special[row, : len(flags)] = torch.tensor(flags, dtype=torch.bool)
    return features, special
