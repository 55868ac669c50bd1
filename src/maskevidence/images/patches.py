"""Cut images into patches, a masked image model's tokens, and put patches back together."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from torch import Tensor

from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import MaskKey
from maskevidence.core.masks.sizes import EverySize
from maskevidence.core.tokens import Tokens


class PatchCall(NamedTuple):
    """One call of the network, on images with equally many hidden patches."""

    rows: Int64[Tensor, " b"]  # (b,), positions of the images in the batch
    scored: Bool[Tensor, "b D"]  # (b, D), the hidden patches to score
    hidden: Bool[Tensor, "b D"]  # (b, D), all patches that the network does not see
    levels: Shaped[Tensor, "b D K"]  # (b, D, K), the patches
    outputs: Float[Tensor, "b D K"]  # (b, D, K), the network's predictions, in its own units


def calls_by_size(
    predict: Callable[[Tensor, Tensor], Tensor],
    tokens: Tokens,
    masked: Bool[Tensor, "B D"],
    images_at_once: int,
    device: torch.device,
) -> Iterator[PatchCall]:
    """Call the network on images grouped by the number of hidden patches; skip images without masked patches.

    Args:
        predict: from patches (b, D, K) and hidden ones (b, D) to predictions (b, D, K).
        tokens: the images' patches. Those that are neither visible nor masked are hidden, too.
    """
    hidden = ~tokens.visible(masked)
    n_hidden = hidden.sum(1)
    order = torch.argsort(n_hidden, stable=True)
    order = order[masked[order].any(1)]
    _, counts = torch.unique_consecutive(n_hidden[order], return_counts=True)
    for of_one_size in torch.split(order, counts.tolist()):
        for rows in torch.split(of_one_size, images_at_once):
            levels, unseen = tokens.values[rows].to(device), hidden[rows].to(device)
            yield PatchCall(rows, masked[rows].to(device), unseen, levels, predict(levels, unseen))


def put_in_place(
    calls: Iterable[PatchCall],
    values_of: Callable[[PatchCall], Float[Tensor, " n"]],
    like: Bool[Tensor, "B D"],
) -> Float64[Tensor, "B D"]:
    """Compute numbers for each call's scored patches and place them into zeros of the shape of `like`."""
    result = torch.zeros(like.shape, dtype=torch.float64, device=like.device)
    numbers, row, column = [], [], []
    for call in calls:
        numbers.append(values_of(call))
        at, to = torch.nonzero(call.scored, as_tuple=True)
        row.append(call.rows.to(at.device)[at])
        column.append(to)
    if not numbers:
        return result
    cells = (torch.cat(row).to(like.device), torch.cat(column).to(like.device))
    return result.index_put(cells, torch.cat(numbers).to(like.device))


def patchify(pixels: Shaped[Tensor, "N H W C"], patch_size: int) -> Shaped[Tensor, "N D K"]:
    """Cut images into square patches.

    Patches go row by row from the top left; the K = P·P·C entries of a patch go over its rows, then its
    columns, then the channels. This is the order of transformers' `ViTMAEForPreTraining.patchify`.

    Returns:
        Shape (N, D, K) with D = (H / P)·(W / P), of the same dtype.

    Example:
        >>> import torch
        >>> image = torch.arange(16).reshape(1, 4, 4, 1)
        >>> patchify(image, 2)[0].tolist()
        [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]
    """
    n, height, width, channels = pixels.shape
    check_patch_size(height, width, patch_size)
    rows, columns = height // patch_size, width // patch_size
    cut = pixels.reshape(n, rows, patch_size, columns, patch_size, channels)
    return cut.permute(0, 1, 3, 2, 4, 5).reshape(n, rows * columns, patch_size * patch_size * channels)


def check_patch_size(height: int, width: int, patch_size: int) -> None:
    """Check that patches of this size fill images of this height and width."""
    if patch_size < 1 or height % patch_size or width % patch_size:
        raise InputError(
            f"images of {size_in_words((height, width))} pixels cannot be cut into patches of "
            f"{patch_size}×{patch_size}; give a patch size that divides both sides"
        )


def unpatchify(
    patches: Shaped[Tensor, "N D K"], height: int, width: int, channels: int
) -> Shaped[Tensor, "N H W C"]:
    """Put patches back together into images, the inverse of `patchify`.

    Example:
        >>> import torch
        >>> image = torch.randn(2, 6, 4, 3)
        >>> bool((unpatchify(patchify(image, 2), 6, 4, 3) == image).all())
        True
    """
    n, d, k = patches.shape
    side = round((k / channels) ** 0.5)
    if side * side * channels != k or height % side or width % side or height * width * channels != d * k:
        raise InputError(
            f"{d} patches of {k} values do not form an image of {size_in_words((height, width))} with "
            f"{channels} channels; give the size that they were cut from"
        )
    grid = patches.reshape(n, height // side, width // side, side, side, channels)
    return grid.permute(0, 1, 3, 2, 4, 5).reshape(n, height, width, channels)


def random_masks(tokens: Tokens, size: int, seed: int) -> Bool[Tensor, "B D"]:
    """A random mask of the given size for each observation, keyed by seed and id as in `EverySize`.

    Example:
        >>> tokens = Tokens.from_array(np.ones((3, 5)))
        >>> random_masks(tokens, 2, seed=0).sum(1).tolist()
        [2, 2, 2]
    """
    ids, maskable = tokens.ids.cpu().numpy(), tokens.maskable.cpu().numpy()
    sizes = np.minimum(size, maskable.sum(1))
    masked = EverySize(1).masked(MaskKey(seed), ids, np.zeros_like(ids), sizes, maskable)
    return torch.from_numpy(masked).to(tokens.maskable.device)


def check_images(pixels: np.ndarray, image_size: int, channels: int) -> None:
    """Check that a model of this size and number of channels can read the images.

    Example:
        >>> check_images(np.zeros((5, 32, 32, 3), dtype=np.uint8), 28, 3)
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: the images have 32×32 pixels, the model reads 28×28; \
resize them (--resize 28), or give a model of their size
    """
    if pixels.ndim != 4 or pixels.dtype != np.uint8 or not len(pixels):
        raise InputError(
            f"the images have shape {pixels.shape} and dtype {pixels.dtype}; give uint8 of (N, H, W, C)"
        )
    expected = (image_size, image_size)
    if pixels.shape[1:3] != expected:
        raise InputError(
            f"the images have {size_in_words(pixels.shape[1:3])} pixels, the model reads "
            f"{size_in_words(expected)}; resize them (--resize {image_size}), or give a model of their size"
        )
    if pixels.shape[3] != channels:
        raise InputError(
            f"the images are {_colour(pixels.shape[3])}, the model reads {_colour(channels)}; convert the "
            "images, or give a model of their kind"
        )


def size_in_words(size: tuple[int, ...]) -> str:
    """Height and width, joined by a multiplication sign.

    Example:
        >>> size_in_words((28, 32))
        '28×32'
    """
    return "×".join(map(str, size))


def _colour(channels: int) -> str:
    return {1: "grey (1 channel)", 3: "in colour (3 channels)"}.get(channels, f"of {channels} channels")
