"""Training settings, data order and results."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch.utils.data import Dataset

from maskevidence import Tokens
from maskevidence.core.errors import InputError
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.files import csv_text
from maskevidence.core.support.keyed_random import keyed_ranks

ID = "id"
_COLUMNS = ("step", "loss", "grad_norm", "learning_rate")


@dataclass(frozen=True)
class Recipe:
    """Training settings: AdamW with a linear warm-up of the learning rate and a linear decay to 0.

    Attributes:
        steps: number of optimizer steps.
        batch_size: observations in one step, over all processes.
        learning_rate: the highest learning rate.
        warmup: number of warm-up steps.
        weight_decay: weight decay of AdamW.
        clip: the largest norm of the gradient of the loss, in nats per token for texts.
        seed: seed of the order of the observations, the masks and dropout.
    """

    steps: int = 1000
    batch_size: int = 32
    learning_rate: float = 2e-3
    warmup: int = 50
    weight_decay: float = 0.0
    clip: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size"):
            whole_number(name, getattr(self, name), 1)
        for name in ("learning_rate", "clip"):
            if not 0 < getattr(self, name) < math.inf:
                raise InputError(f"{name}={getattr(self, name):g}; give a number above 0")
        whole_number("warmup", self.warmup, 0)
        if not 0 <= self.weight_decay < math.inf:
            raise InputError(f"weight_decay={self.weight_decay:g}; give a number of 0 or more")
        whole_number("seed", self.seed, 0, 2**32 - 1)


class TrainingOrder(Dataset[dict[str, Any]]):
    """The observations in training order: one random permutation after another, numbered by position.

    Example:
        >>> order = TrainingOrder(Tokens.from_array([[1.0], [2.0]]), length=5, seed=0)
        >>> len(order), sorted(int(order[k]["input_ids"][0]) for k in range(2)), order[4]["id"]
        (5, [1, 2], 4)
    """

    def __init__(self, tokens: Tokens, length: int, seed: int) -> None:
        n = len(tokens)
        rounds = np.arange(-(-length // n))[:, None]
        ranks = keyed_ranks(seed, rounds, np.ones((len(rounds), n), dtype=np.bool_))
        self.order = np.argsort(ranks, axis=1).ravel()[:length]
        self.values = tokens.values.cpu().numpy()
        self.present = (tokens.maskable | tokens.context).cpu().numpy()
        self.context = tokens.context.cpu().numpy()

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> dict[str, Any]:
        row = self.order[index]
        present = self.present[row]
        context = self.context[row][present]
        return {"input_ids": self.values[row][present], "special_tokens_mask": context, ID: int(index)}


@dataclass(frozen=True)
class Trained:
    """The result of a training.

    Attributes:
        history: the loss (mean over the steps since the previous entry; nats per text for texts), the norm
            of the gradient and the learning rate, by step; includes the entries of a checkpoint.
        resumed_from: the step of the checkpoint from which training resumed; None for a fresh start.
        devices: where the main process trained, each device once.
    """

    history: tuple[dict[str, float], ...]
    resumed_from: int | None
    devices: tuple[str, ...] = ()

    def to_csv(self) -> str:
        """The history as CSV, with the columns step,loss,grad_norm,learning_rate."""
        return csv_text(_COLUMNS, ([entry.get(name) for name in _COLUMNS] for entry in self.history))
