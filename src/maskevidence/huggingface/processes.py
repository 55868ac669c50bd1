"""Processes started by `torchrun`: their ranks, their order, and a clean end."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from maskevidence.core.errors import InputError, import_extra
from maskevidence.core.support.devices import choose_device


def n_processes() -> int:
    """The number of processes that train together; 1 without `torchrun`."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """This process's rank among the processes that train together; 0 if it is alone.

    Example:
        >>> rank()
        0
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return int(os.environ.get("RANK", "0"))  # also in a DataLoader's worker, which is in no group


def is_main_process() -> bool:
    """Whether this is the process that prints and writes.

    Example:
        >>> is_main_process()
        True
    """
    return rank() == 0


@contextmanager
def main_process_first(device: torch.device | None = None) -> Iterator[None]:
    """Run the block in the main process first; the other processes then find its files."""
    if n_processes() == 1:
        yield
        return
    state = import_extra("accelerate", "hf", "training in several processes").PartialState(cpu=on_cpu(device))
    with state.main_process_first():
        yield


def training_device(word: str | torch.device | None) -> torch.device | None:
    """The device to train on; None lets the Trainer use all GPUs, or one per process.

    Example:
        >>> training_device("cpu"), training_device("auto")
        (device(type='cpu'), None)
    """
    device = choose_device(word)
    if word is None or word == "auto":
        return None
    if device.index is not None and n_processes() > 1:
        raise InputError(
            f"device {str(word)!r} is one GPU, but torchrun started {n_processes()} processes, which take "
            "one each; give cuda, or choose GPUs with CUDA_VISIBLE_DEVICES"
        )
    return device


def on_cpu(device: torch.device | None = None) -> bool:
    """Whether training runs on the CPU, by request or for lack of an accelerator."""
    if device is not None:
        return device.type == "cpu"
    return not torch.cuda.is_available() and not torch.backends.mps.is_available()


def join_processes(arguments: Any) -> None:
    """Make several processes train together even without an accelerator.

    Otherwise each process would train alone, unless TrainingArguments has use_cpu=True.
    """
    if n_processes() == 1 or arguments.world_size > 1:
        return
    if on_cpu():
        arguments.use_cpu = True
        arguments.__dict__.pop("_setup_devices", None)  # a cached property that joins the group
    if arguments.device is None or arguments.world_size == 1:
        raise InputError(
            f"{n_processes()} processes were started, but on this device each would train alone; start one"
        )


def end_processes() -> None:
    """Leave the process group of a finished training.

    The model's wrapper is freed first, and all processes wait for each other: a process aborts if it ends
    while another still communicates with it.
    """
    gc.collect()
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()
        state = import_extra("accelerate.state", "hf", "training in several processes")
        state.AcceleratorState._reset_state(reset_partial_state=True)
