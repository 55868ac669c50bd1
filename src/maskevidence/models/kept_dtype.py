"""Tensors of a module that keep their dtype when the module is converted, and follow it to its device."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from maskevidence.errors import InputError


def keeping_dtype(convert: Callable[[Tensor], Tensor], kept: Sequence[Tensor]) -> Callable[[Tensor], Tensor]:
    """A conversion for `nn.Module._apply` that changes the device of some tensors, but not their dtype.

    Where the data lie and how far they spread is kept in float64 in a model of any dtype: rows are centred
    before they are cast. In float32, values near 10⁸ differ by 8 at least.

    Args:
        convert: what the module does to its tensors, such as a change of dtype.
        kept: the tensors that keep their dtype.

    Raises:
        InputError: a device without float64.

    Example:
        >>> mean = torch.zeros(2, dtype=torch.float64)
        >>> keeping_dtype(torch.Tensor.float, [mean])(mean).dtype
        torch.float64
    """

    def converted(tensor: Tensor) -> Tensor:
        if not any(tensor is other for other in kept):
            return convert(tensor)
        device = convert(torch.zeros((), dtype=torch.float32, device=tensor.device)).device
        if device.type == "mps":
            raise InputError("models of rows compute in float64, which mps does not have; use cpu or cuda")
        return tensor.to(device)

    return converted
