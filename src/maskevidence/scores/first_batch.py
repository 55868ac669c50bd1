"""The checks that `estimate_evidence` makes before it scores: at most one pass in twenty."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Bool, Int64, Shaped
from torch import Tensor

from maskevidence.errors import InputError
from maskevidence.masks.design import MaskDesign
from maskevidence.model import MaskedModel, refuse_training_mode, to_device_of
from maskevidence.scores.score import check_tokens
from maskevidence.tokens import Tokens

_FEWEST, _FOR_TWO_ROWS = 40, 400  # masks from which one row, and two rows, are checked
# Relative tolerance for rounding, by bytes of a number: rows in one call change each other's sums slightly.
_ROUNDING = {8: 1e-7, 4: 2e-4, 2: 0.05}
_MORE = "me.check_model(model, data) tells more, and check=False leaves this check out"


def check_first_batch(model: MaskedModel, tokens: Tokens, design: MaskDesign) -> None:
    """Check on two rows that answers are 0 outside the masks and do not change with hidden values.

    Each row takes two passes of the model, in one call; with fewer than 400 masks in all, one row is checked,
    and none with fewer than 40.
    """
    check_tokens(tokens)
    refuse_training_mode(model)
    n_masks = int(design.n_draws(tokens.n_tokens.cpu().numpy()).sum())
    rows = torch.nonzero(tokens.n_tokens >= 2)[: (n_masks >= _FEWEST) + (n_masks >= _FOR_TWO_ROWS), 0]
    if len(rows) == 0:
        return
    some = tokens[rows]
    order = some.maskable.cumsum(1)
    masked = some.maskable & (order > some.n_tokens[:, None] // 2)  # the right half of each row
    probe = masked & (order == some.n_tokens[:, None])
    both = to_device_of(model, _with_changed_values(tokens, rows, masked & ~probe))
    twice, device = masked.repeat_interleave(2, 0), both.values.device
    with torch.no_grad():
        answer = model.log_conditionals(both, twice.to(device))
    if not isinstance(answer, torch.Tensor) or answer.shape != twice.shape:
        return  # `score_masks` says what is wrong with it
    if answer.is_complex() or answer.dtype == torch.bool:
        return
    room = rounding(model, answer)
    answer, name = answer.cpu().double(), type(model).__name__
    outside = ~twice.cpu() & (answer != 0)
    if bool(outside.any()):
        row, column = torch.nonzero(outside)[0].tolist()
        raise InputError(
            f"log_conditionals of {name} is {float(answer[row, column]):.4g} for token {column} of "
            f"observation {int(both.ids[row])}, which is not masked; it must be exactly 0 there; {_MORE}"
        )
    before, after = answer[0::2], answer[1::2]
    leaks = probe.cpu() & ((after - before).abs() > room * (1 + before.abs()))
    if bool(leaks.any()):
        row, column = torch.nonzero(leaks)[0].tolist()
        raise InputError(
            f"the answer of {name} for token {column} of observation {int(some.ids[row])} changes "
            f"from {float(before[row, column]):.6g} to {float(after[row, column]):.6g} nats with the values "
            f"of other hidden tokens: only visible ones may be read; {_MORE}"
        )


def _with_changed_values(tokens: Tokens, rows: Int64[Tensor, " b"], hidden: Bool[Tensor, "b D"]) -> Tokens:
    """Some rows, each followed by itself with the hidden values of the row that follows it in the data."""
    some, following = tokens[rows], (rows + 1) % len(tokens)
    others = hidden & (tokens.maskable | tokens.context)[following]
    changed = torch.where(like(others, some.values), tokens.values[following], some.values)
    values = torch.stack([some.values, changed], 1).flatten(0, 1)
    return replace(tokens[rows.repeat_interleave(2)], values=values)


def rounding(model: Any, answer: Tensor | None = None) -> float:
    """The tolerance for rounding of a model's least precise parameters, buffers or answers.

    Example:
        >>> rounding(torch.nn.Linear(2, 1)), rounding(torch.nn.Linear(2, 1).double())
        (0.0002, 1e-07)
    """
    tensors = [answer] if answer is not None else []
    for name in ("parameters", "buffers"):
        listed: Callable[[], Any] | None = getattr(model, name, None)
        tensors += list(listed()) if callable(listed) else []
    sizes = [tensor.element_size() for tensor in tensors if tensor.is_floating_point()]
    return _ROUNDING.get(min(sizes, default=8), _ROUNDING[2])


def like(places: Shaped[Tensor, "b D"], values: Tensor) -> Tensor:
    """A mask or index of places with as many trailing dimensions as the values."""
    return places.reshape(*places.shape, *[1] * (values.ndim - 2))
