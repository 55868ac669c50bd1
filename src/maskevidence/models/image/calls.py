"""Calls of a network that sees visible patches only: all images of a call hide the same number of patches."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from torch import Tensor

from maskevidence.tokens import Tokens


class Call(NamedTuple):
    """One call of the network, for images with the same number of hidden patches.

    Attributes:
        rows: (b,), positions of the images in the batch.
        scored: (b, D), the hidden patches to score.
        hidden: (b, D), all patches that the network does not see.
        levels: (b, D, K), the patches.
        outputs: (b, D, K), the network's predictions, in its own units.
    """

    rows: Int64[Tensor, " b"]
    scored: Bool[Tensor, "b D"]
    hidden: Bool[Tensor, "b D"]
    levels: Shaped[Tensor, "b D K"]
    outputs: Float[Tensor, "b D K"]


def calls_by_size(
    predict: Callable[[Tensor, Tensor], Tensor],
    tokens: Tokens,
    masked: Bool[Tensor, "B D"],
    images_at_once: int,
    device: torch.device,
) -> Iterator[Call]:
    """The network's answers, one call after the other; images without a masked patch are left out.

    Args:
        predict: from patches (b, D, K) and hidden ones (b, D) to predictions (b, D, K).
        tokens: the images' patches. Those that are neither visible nor masked are hidden, too.
        masked: the patches to score.
        images_at_once: images in one call.
        device: device of the network.
    """
    hidden = ~tokens.visible(masked)
    n_hidden = hidden.sum(1)
    order = torch.argsort(n_hidden, stable=True)
    order = order[masked[order].any(1)]
    _, counts = torch.unique_consecutive(n_hidden[order], return_counts=True)
    for of_one_size in torch.split(order, counts.tolist()):
        for rows in torch.split(of_one_size, images_at_once):
            levels, unseen = tokens.values[rows].to(device), hidden[rows].to(device)
            yield Call(rows, masked[rows].to(device), unseen, levels, predict(levels, unseen))


def put_in_place(
    calls: Iterable[Call], values_of: Callable[[Call], Float[Tensor, " n"]], like: Bool[Tensor, "B D"]
) -> Float64[Tensor, "B D"]:
    """The numbers of the scored patches of each call, row by row, put into zeros of the shape of `like`."""
    result = torch.zeros(like.shape, dtype=torch.float64, device=like.device)
    numbers, row, column = [], [], []
    for call in calls:
        numbers.append(values_of(call))
        at, to = torch.nonzero(call.scored, as_tuple=True)
        row.append(call.rows.to(at.device)[at])
        column.append(to)
    if not numbers:
        return result
    place = (torch.cat(row).to(like.device), torch.cat(column).to(like.device))
    return result.index_put(place, torch.cat(numbers).to(like.device))
