"""Torch devices by their names, and what threads share: torch's random state and the hooks of networks."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from maskevidence.core.errors import InputError

_BFLOAT16 = {"avx512_bf16", "amx_bf16"}  # what Linux calls units that multiply in bfloat16
_CPU = Path("/proc/cpuinfo")
_CHOICES = "cpu, cuda, cuda:N, mps or auto"
_RANDOM_STATE = RLock()
_NETWORKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


@contextmanager
def seeded(seed: int, devices: Sequence[int] = ()) -> Iterator[None]:
    """Seed torch's random state for this thread alone, and restore the state afterwards.

    Args:
        devices: the GPUs whose random state is used, too.

    Example:
        >>> with seeded(3):
        ...     first = torch.rand(1)
        >>> with seeded(3):
        ...     bool(torch.rand(1) == first)
        True
    """
    with _RANDOM_STATE, torch.random.fork_rng(devices=devices):
        set_seed = torch.manual_seed if devices else torch.default_generator.manual_seed  # 80 times as fast
        set_seed(seed)
        yield


@contextmanager
def alone_with(network: Any) -> Iterator[None]:
    """Hold a lock on a network while a call changes its hooks or configuration."""
    with _NETWORKS.setdefault(network, RLock()):
        yield


def choose_device(word: str | torch.device | None, *, float64: bool = False) -> torch.device:
    """Return the torch device of a word.

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
        maskevidence.core.errors.InputError: device 'gpu' cannot be used: there is no such device; give cpu, \
cuda, cuda:N, mps or auto (this machine has cpu...)
    """
    here = _devices(float64)
    if word is None or word == "auto":
        return torch.device(here[-1])
    reason = "there is no such device"
    try:
        chosen = torch.device(word)
        usable = chosen.type in ("cpu", "cuda", "mps")
        if chosen.type == "mps" and float64:
            usable, reason = False, "models of rows compute in float64, which it does not have"
        if usable:
            torch.empty(1, device=chosen)
            return chosen
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        if "Expected one of" not in str(error):  # torch lists every device type it ever supported
            reason = str(error).splitlines()[0]
    raise InputError(
        f"device {str(word)!r} cannot be used: {reason}; give {_CHOICES} (this machine has {', '.join(here)})"
    )


@cache
def multiplies_in_bfloat16() -> bool:
    """Whether this machine's processor has units for products in bfloat16, as far as Linux says."""
    try:
        lines = _CPU.read_text().splitlines()
    except OSError:
        return False
    return any(_BFLOAT16 & set(line.split()) for line in lines if line.startswith("flags"))


def computes_ahead(device: torch.device | None) -> bool:
    """Whether a device computes while the processor goes on."""
    return device is not None and device.type == "cuda" and bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def sent(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a tensor to a device; to a GPU from pinned memory, without waiting for what it computes."""
    if tensor.device.type != "cpu" or not computes_ahead(device):
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def fetched(tensor: Tensor) -> tuple[Tensor, Callable[[], None]]:
    """Begin to copy a tensor into the processor's memory; also return a function that waits for the end."""
    if not computes_ahead(tensor.device):
        return tensor.cpu(), lambda: None
    here = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    here.copy_(tensor, non_blocking=True)
    copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
    copied.record(torch.cuda.current_stream(tensor.device))
    return here, copied.synchronize


def _devices(float64: bool) -> list[str]:
    """The devices of this machine, fastest last."""
    mps = ["mps"] if torch.backends.mps.is_available() and not float64 else []
    return ["cpu", *mps, *(["cuda"] if torch.cuda.is_available() else [])]
