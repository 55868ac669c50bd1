"""The word for a device as a device of torch, and the place where the models of a figure compute."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn

from maskevidence.errors import InputError

_Module = TypeVar("_Module", bound=nn.Module)
_CHOICES = "cpu, cuda, cuda:N, mps or auto"


def choose_device(word: str | torch.device | None, *, float64: bool = False) -> torch.device:
    """The device that a word stands for.

    Args:
        word: "cpu", "cuda", "cuda:1" and so on, "mps", or "auto" for the first one that this machine has of
            "cuda", "mps" and "cpu"; None stands for "auto".
        float64: whether the device has to compute in float64, which mps does not.

    Raises:
        InputError: another word, or a device that this machine does not have.

    Example:
        >>> choose_device("cpu")
        device(type='cpu')
        >>> choose_device("gpu")
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: device 'gpu' cannot be used: there is no such device; give cpu, \
cuda, cuda:N, mps or auto (this machine has cpu...)
    """
    here = _devices(float64)
    if word is None or word == "auto":
        return torch.device(here[-1])
    reason = "there is no such device"
    try:
        chosen = torch.device(word)
        known = chosen.type in ("cpu", "cuda", "mps")
        if chosen.type == "mps" and float64:
            known, reason = False, "models of rows compute in float64, which it does not have"
        if known:
            torch.empty(1, device=chosen)
            return chosen
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        if "Expected one of" not in str(error):  # torch lists the names of all devices that it ever had
            reason = str(error).splitlines()[0]
    raise InputError(
        f"device {str(word)!r} cannot be used: {reason}; give {_CHOICES} (this machine has {', '.join(here)})"
    )


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


def _devices(float64: bool) -> list[str]:
    """What this machine has, the fastest last."""
    mps = ["mps"] if torch.backends.mps.is_available() and not float64 else []
    return ["cpu", *mps, *(["cuda"] if torch.cuda.is_available() else [])]
