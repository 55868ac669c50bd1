"""The processes that `torchrun` starts: which one this is, which one goes first, and a clean end."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from maskevidence.errors import import_extra


def n_processes() -> int:
    """How many processes train together; 1 if `torchrun` did not start this one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """The number of this process among those that train together; 0 if it is alone.

    Example:
        >>> rank()
        0
    """
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return int(os.environ.get("RANK", "0"))  # also in a worker of a DataLoader, which is in no group


def is_main_process() -> bool:
    """Whether this process is the one that prints and writes.

    Example:
        >>> is_main_process()
        True
    """
    return rank() == 0


@contextmanager
def main_process_first() -> Iterator[None]:
    """Run the block in the main process first, so that the other processes find what it wrote."""
    if n_processes() == 1:
        yield
        return
    state = import_extra("accelerate", "hf", "training in several processes").PartialState(cpu=on_cpu())
    with state.main_process_first():
        yield


def on_cpu() -> bool:
    """Whether training runs on the CPU, because there is no accelerator."""
    return not torch.cuda.is_available() and not torch.backends.mps.is_available()


def end_processes() -> None:
    """Leave the group of processes that training joined, once nothing uses it any more.

    The wrapper of the model is freed first, and all processes wait for each other: a process aborts if it
    ends while another one still talks to it.
    """
    gc.collect()
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()
        distributed.destroy_process_group()
        state = import_extra("accelerate.state", "hf", "training in several processes")
        state.AcceleratorState._reset_state(reset_partial_state=True)
