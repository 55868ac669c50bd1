"""Models that fail in a worker, for tests of Ray; workers import only this file."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import maskevidence as me


class Troubled(torch.nn.Module):
    """A model that calls `trouble` before it scores observation `at`."""

    conditionals = "exact"

    def __init__(self, model: Any, trouble: Callable[[], None], at: int = 50) -> None:
        super().__init__()
        self.model = model
        self.trouble = trouble
        self.at = at

    def log_conditionals(self, tokens: me.Tokens, masked: torch.Tensor) -> torch.Tensor:
        if bool((tokens.ids == self.at).any()):
            self.trouble()
        return self.model.log_conditionals(tokens, masked)


class Budgeted(Troubled):
    def batches(self, n_present: np.ndarray) -> list[np.ndarray]:
        return np.array_split(np.arange(len(n_present)), 3)


def wait_to_be_killed(marker: Path) -> None:
    """Write the first caller's process id into a file, and wait."""
    if not marker.exists():
        marker.with_suffix(".new").write_text(str(os.getpid()))
        marker.with_suffix(".new").rename(marker)
        time.sleep(60)


def kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def take_all_memory() -> None:
    torch.empty(10**14)


def be_impossible() -> None:
    raise me.NumericalError("a score of observation 50 is -inf")


def load_nothing() -> None:
    raise OSError("there is no such disk")
