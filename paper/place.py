"""Where the models of a figure compute, and in which precision."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

import maskevidence as me
from maskevidence.support.devices import choose_device as choose_device

_Module = TypeVar("_Module", bound=nn.Module)
_Data = TypeVar("_Data", torch.Tensor, me.Tokens, me.GaussianMoments)


@dataclass(frozen=True)
class Place:
    """Where models compute, and in which precision; None leaves it to each model."""

    device: torch.device | None = None
    dtype: torch.dtype | None = None


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


def put(model: _Module) -> _Module:
    """A model on the current device and in the current precision, in place.

    Example:
        >>> import maskevidence as me
        >>> with computing_at(Place(dtype=torch.float32)):
        ...     put(me.models.PPCA(3, 1)).dtype
        torch.float32
    """
    place = current_place()
    if place.device is not None:
        model = model.to(device=place.device)
    return model if place.dtype is None else model.to(dtype=place.dtype)


def move(data: _Data) -> _Data:
    """A tensor, tokens or moments on the current device, in their own precision."""
    device = current_place().device
    return data if device is None else data.to(device)
