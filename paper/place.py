"""Where the models of a figure compute, and in which precision."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

from maskevidence.support.devices import choose_device as choose_device

_Module = TypeVar("_Module", bound=nn.Module)


@dataclass(frozen=True)
class Place:
    """Where models compute, and in which precision.

    Attributes:
        device: None leaves it to each model.
        dtype: None leaves it to each model.
    """

    device: torch.device | None = None
    dtype: torch.dtype | None = None

    def put(self, model: _Module) -> _Module:
        """A model on the device and in the precision, in place.

        Example:
            >>> import maskevidence as me
            >>> Place(dtype=torch.float32).put(me.models.PPCA(3, 1)).dtype
            torch.float32
        """
        if self.device is not None:
            model = model.to(device=self.device)
        return model if self.dtype is None else model.to(dtype=self.dtype)

    def move(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor on the device, in its own precision."""
        return tensor if self.device is None else tensor.to(self.device)


_PLACE: ContextVar[Place | None] = ContextVar("place", default=None)


def current_place() -> Place:
    """The place of the innermost `computing_at`; by default one that leaves everything to each model."""
    return _PLACE.get() or Place()


@contextmanager
def computing_at(where: Place) -> Iterator[None]:
    """Let the models that are built inside compute at a place. Random numbers are drawn as before.

    Example:
        >>> with computing_at(Place(torch.device("cpu"))):
        ...     current_place().device
        device(type='cpu')
    """
    before = _PLACE.set(where)
    try:
        yield
    finally:
        _PLACE.reset(before)
