"""The device and the precision of a model, as the options ask for them and as run.json records them."""

from typing import Any

import torch

from maskevidence.errors import InputError
from maskevidence.model import device_of
from maskevidence.models.base import TableModel
from maskevidence.support.devices import choose_device
from maskevidence.tasks.options import RowDevice


def placed(model: TableModel, options: RowDevice) -> TableModel:
    """A model of rows on the device and in the precision of the options, in place.

    Raises:
        InputError: a device that does not exist here, or that has no float64, or another precision.

    Example:
        >>> import maskevidence as me
        >>> placed(me.models.PPCA(3, 1), RowDevice(dtype="float32")).dtype
        torch.float32
    """
    check_row_dtype(options)
    device = choose_device(options.device or "cpu", float64=True)
    dtype = model.dtype if options.dtype is None else getattr(torch, options.dtype)
    return model.to(device, dtype)


def check_row_dtype(options: RowDevice) -> None:
    """Raise an InputError for a precision that models of rows do not compute in."""
    if options.dtype not in (None, "float32", "float64"):
        raise InputError(f"models of rows do not compute in {options.dtype}; give float32 or float64")


def recorded(model: Any) -> dict[str, str | None]:
    """The names of a model's precision and device; None for a model without parameters.

    Example:
        >>> import maskevidence as me
        >>> recorded(me.models.PPCA(3, 1))
        {'dtype': 'float64', 'device': 'cpu'}
    """
    device = device_of(model)
    dtype = getattr(model, "dtype", None) or next((p.dtype for p in model.parameters()), None)
    if any(getattr(module, "in_bfloat16", False) for module in model.modules()):
        dtype = torch.bfloat16
    return {
        "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
        "device": None if device is None else str(device),
    }
