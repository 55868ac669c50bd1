"""What one mask rate estimates, for Figure 1: the bias of D·S(x; M) and of the joint block of tokens."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor

import maskevidence as me


@dataclass(frozen=True)
class RateBias:
    """One mask rate against log p(x), for a model with exact conditionals and a closed form; nats per row."""

    bias: float  # mean over the rows of D·S(x; M) - log p(x)
    mask_se: float  # its standard error from the masks
    block_bias: float  # mean over some rows of log p(x_hidden | x_visible) - log p(x)
    visible_evidence: float  # mean of log p(x_visible) on the same rows and masks
    identity_error: float  # the largest |block_bias + visible_evidence| of a row; 0 up to rounding


def bias_of_rate(
    model: Any, rate: float, tokens: me.Tokens, masks_per_row: int, seed: int, block_rows: int = 2
) -> RateBias:
    """Score random masks of one rate, which all rows share, and the joint block of one mask of some rows.

    D·S(x; M) is a composite conditional likelihood. The joint block has another bias,
    E log p(x_hidden | x_visible) - log p(x) = -E log p(x_visible).
    """
    design = me.FixedRate(rate, masks_per_row)
    estimate = me.estimate_evidence(model, tokens, design, seed=seed, masks="shared")
    width = tokens.values.shape[1]
    key = me.MaskKey(seed, "shared")
    masks, _ = me.shared_masks(me.FixedRate(rate, block_rows), key, width)
    with torch.no_grad():
        log_p = float(model.log_evidence(tokens).mean())
        some = [block_and_visible(model, tokens[torch.tensor([k])], masks[k]) for k in range(block_rows)]
    block, visible = torch.tensor(some, dtype=torch.float64).unbind(1)
    return RateBias(
        bias=float(estimate.per_observation.mean()) - log_p,
        mask_se=estimate.mask_se or 0.0,
        block_bias=float(block.mean()),
        visible_evidence=float(visible.mean()),
        identity_error=float((block + visible).abs().max()),
    )


def block_and_visible(model: Any, row: me.Tokens, hidden: Bool[Tensor, " D"]) -> tuple[float, float]:
    """log p(x_hidden | x_visible) - log p(x), and log p(x_visible), of a row.

    The block follows from the conditionals alone by the chain rule: the first hidden token given the visible
    ones, the second one given these and the first one, and so on.
    """
    hidden = hidden.to(row.values.device)
    column = torch.nonzero(hidden)[:, 0]
    step = torch.arange(len(column), device=column.device)
    still_hidden = hidden.repeat(len(column), 1)
    still_hidden[:, column] = step[None, :] >= step[:, None]
    conditionals = model.log_conditionals(row[torch.zeros_like(step)], still_hidden)
    block = conditionals[step, column].double().sum()
    visible = model.log_evidence(replace(row, maskable=row.maskable & ~hidden)).double()
    return float(block - model.log_evidence(row).double()), float(visible)
