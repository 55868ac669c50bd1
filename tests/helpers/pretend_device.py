"""A fake GPU on the CPU that refuses what a GPU refuses: tensors of two devices in one call.

Its tensors lie in the processor's memory: a subclass of `Tensor` reports the device "cuda:0", and results
inherit it. Calls that a GPU refuses raise `MixedDevices`: an operation on tensors of both devices, numpy's
view of a tensor on the device, and draws by a generator of another device.

It sees the calls made by Python, not the kernels: missing CUDA kernels, memory, speed, rounding and a second
GPU are not simulated. The build of torch does not matter: a real accelerator stays unused, with and without a
driver. Calls that torch accepts pass: tensors of no dimension, indices on the processor, and `copy_`. Some
operations of torch, such as `stack`, refuse tensors of no dimension; this is not detected.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

DEVICE = torch.device("cuda", 0)
_DEVICE_OF, _IS_CUDA = Tensor.device.__get__, Tensor.is_cuda.__get__  # type: ignore[attr-defined]
_TO_NUMPY = {Tensor.numpy, Tensor.__array__}
_ANY_DEVICE = {Tensor.copy_, Tensor.requires_grad_}
_INDEXING = {Tensor.__getitem__, Tensor.__setitem__}


class MixedDevices(AssertionError):
    """A call that a GPU would refuse."""


class Pretended(torch.Tensor):
    """A tensor on the fake device."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


class PretendedGenerator(torch.Generator):
    """A generator that knows its device."""

    on_device: bool

    def __new__(cls, device: Any = "cpu") -> "PretendedGenerator":
        made = super().__new__(cls, device="cpu")
        made.on_device = _pretended(device)
        return made


class _Mode(TorchFunctionMode):
    """Intercepts calls without a tensor of the device: factories, and conversions to it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _call(func, args, kwargs or {})


def _pretended(device: Any) -> bool:
    if isinstance(device, Tensor):
        return isinstance(device, Pretended)
    return device is not None and torch.device(device).type == DEVICE.type


def _tensors(part: Any) -> Iterator[Tensor]:
    if isinstance(part, Tensor):
        yield part
    elif isinstance(part, list | tuple):
        for one in part:
            yield from _tensors(one)
    elif isinstance(part, dict):
        yield from _tensors(list(part.values()))


def _marked(answer: Any, on_device: bool, inputs: tuple[Tensor, ...]) -> Any:
    """Mark results as tensors of the device or the processor; inputs are returned unchanged."""
    if isinstance(answer, Tensor):
        if any(answer is one for one in inputs) or isinstance(answer, Pretended) == on_device:
            return answer
        return answer.as_subclass(Pretended if on_device else Tensor)
    if isinstance(answer, torch.Size) or not isinstance(answer, list | tuple):
        return answer
    parts = [_marked(one, on_device, inputs) for one in answer]
    if hasattr(answer, "_fields"):
        return type(answer)(*parts)
    return type(answer)(parts)


def _target(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, tuple[Any, ...]]:
    """The device that a call requests, or None; and the arguments with the processor in its place."""
    if func in (Tensor.cuda, Tensor.cpu):
        return (DEVICE if func is Tensor.cuda else "cpu"), args[:1]
    if func is not Tensor.to:
        return kwargs.get("device"), args
    wanted, rest = kwargs.get("device"), [args[0]]
    for one in args[1:]:
        if isinstance(one, Tensor):  # to(other): dtype and device of the other
            wanted = DEVICE if isinstance(one, Pretended) else torch.device("cpu")
            rest.append(one.dtype)
        elif isinstance(one, str | torch.device):
            wanted = one
        elif isinstance(one, torch.dtype):
            rest.append(one)
    return wanted, tuple(rest)


def _refuse_mixing(func: Any, tensors: tuple[Tensor, ...], args: Any) -> None:
    if func in _TO_NUMPY:
        raise MixedDevices("numpy cannot read a tensor on the device; .cpu() comes first")
    if func in _INDEXING and isinstance(args[0], Pretended):
        tensors = (args[0], *_tensors(args[2:]))  # indices may be on the processor
    shapes = [tuple(one.shape) for one in tensors if not isinstance(one, Pretended) and one.ndim > 0]
    if func not in _ANY_DEVICE and shapes and any(isinstance(one, Pretended) for one in tensors):
        name = getattr(func, "__name__", str(func))
        raise MixedDevices(f"{name} of tensors on both devices; on the processor are those of shape {shapes}")


def _call(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    inputs = tuple(_tensors([args, kwargs]))
    present = any(isinstance(one, Pretended) for one in inputs)
    if func is Tensor.__iter__:
        return iter(args[0].unbind(0))
    with torch._C.DisableTorchFunctionSubclass():
        if func == _DEVICE_OF:
            return DEVICE if present else func(*args)
        if func == _IS_CUDA:
            return present
        if func is torch._has_compatible_shallow_copy_type:  # asked by a module before it moves a parameter
            return present == all(isinstance(one, Pretended) for one in inputs)
        if func is torch._C._nn._parse_to:  # parses the arguments of `Module.to`; keeps the requested device
            return func(*args, **kwargs)
        if func is Tensor.__deepcopy__:
            return _copied(args[0], args[1])
        wanted, rest = _target(func, args, kwargs)
        on_device = present if wanted is None else _pretended(wanted)
        if func not in (Tensor.to, Tensor.cuda, Tensor.cpu):
            if present:
                _refuse_mixing(func, inputs, args)
            generator = kwargs.get("generator")
            if generator is not None and getattr(generator, "on_device", False) != on_device:
                raise MixedDevices(f"{func.__name__} with a generator of another device")
        options = {name: value for name, value in kwargs.items() if name != "device"}
        if func in (Tensor.cuda, Tensor.cpu):
            func, rest = Tensor.clone, rest[:1]
        if "device" in kwargs and func is not Tensor.to:
            options["device"] = "cpu"
        if func is Tensor.to and len(rest) == 1 and not options:
            return _marked(rest[0], on_device, ())
        answer = func(*rest, **options)
        return _marked(answer, on_device, () if func is Tensor.to else inputs)


def _copied(tensor: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(tensor) not in memo:
        copy = tensor.as_subclass(Tensor).detach().clone()
        if isinstance(tensor, Pretended):
            copy = copy.as_subclass(Pretended)
            copy._is_param = isinstance(tensor, torch.nn.Parameter)  # type: ignore[attr-defined]
        elif isinstance(tensor, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy)
        copy.requires_grad_(tensor.requires_grad)
        memo[id(tensor)] = copy
    return memo[id(tensor)]


def _no_cuda() -> None:
    """Fail when torch initialises a real GPU, which would succeed only on machines with a driver."""
    raise AssertionError("the pretended device asked for a real one")


@contextmanager
def pretended_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[torch.device]:
    """Provide the fake device "cuda" within the context."""
    fork = torch.random.fork_rng

    def without_devices(devices: Any = None, **options: Any) -> Any:
        return fork(devices=[], **options)

    before = torch.__future__.get_overwrite_module_params_on_conversion()
    with monkeypatch.context() as patched, _Mode():
        patched.setattr(torch, "Generator", PretendedGenerator)
        patched.setattr(torch.random, "fork_rng", without_devices)
        patched.setattr(torch.cuda, "is_available", lambda: True)
        patched.setattr(torch.cuda, "_lazy_init", _no_cuda)
        patched.setattr(torch.cuda, "_initialized", False)  # even if an earlier test used a GPU
        patched.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)  # Adam before torch 2.13
        patched.setattr(torch.accelerator, "current_accelerator", lambda check_available=False: None)
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        try:
            yield DEVICE
        finally:
            torch.__future__.set_overwrite_module_params_on_conversion(before)
