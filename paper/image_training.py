"""What both halves of Figure 3 share: the images, and a training that is looked at on the way."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float64

import maskevidence as me

DATA_SETS = {"mnist": "mnist:train", "fashion-mnist": "fashion-mnist"}


def first_images(dataset: str, n_images: int) -> me.data.Table:
    """The first images of a data set as rows of pixels in [0, 1].

    Raises:
        InputError: an unknown data set, or one that cannot be read.
    """
    if dataset not in DATA_SETS:
        raise me.InputError(f"unknown data set {dataset!r}; give {' or '.join(DATA_SETS)}")
    return me.data.read_images(DATA_SETS[dataset], limit=n_images).table()


def when(epochs: int, n_points: int = 12) -> list[int]:
    """Epochs to look at a training, denser at the start, where the log evidence moves.

    Example:
        >>> when(800)
        [0, 7, 26, 60, 106, 165, 238, 324, 423, 536, 661, 800]
    """
    return sorted({round(epochs * (i / (n_points - 1)) ** 2) for i in range(n_points)})


def fit_and_look(
    model: Any,
    x: object,
    objective: me.MaskedObjective | me.Elbo,
    look: Callable[[], Any],
    points: Sequence[int],
    **settings: Any,
) -> tuple[Float64[np.ndarray, " E"], dict[int, Any], float]:
    """Train a model with `fit`, and measure it before and between epochs.

    Returns:
        Minus the mean loss of each epoch, in nats per image; the measurements by epoch; and the seconds of
        training alone.
    """
    looks = {0: look()} if 0 in points else {}
    spent = 0.0

    def callback(record: Any, _model: Any) -> None:
        nonlocal spent
        if record.epoch in points:
            start = time.perf_counter()
            looks[record.epoch] = look()
            spent += time.perf_counter() - start

    start = time.perf_counter()
    history = me.fit(model, x, objective, evidence_every=0, callbacks=[callback], **settings)
    return history.objective, looks, time.perf_counter() - start - spent


def course(
    method: str, seed: int, objective: Mapping[int, float], log_evidence: Mapping[int, float]
) -> list[dict[str, Any]]:
    """The rows of one training in the figure's CSV."""
    return [
        {
            "method": method,
            "seed": seed,
            "epoch": epoch,
            "objective": objective.get(epoch),
            "log_evidence": log_evidence.get(epoch),
        }
        for epoch in range(len(objective) + 1)
    ]


def file_stem(name: str, dataset: str) -> str:
    """The stem of a figure's files, which names every data set but MNIST.

    Example:
        >>> file_stem("figure_3_upper", "fashion-mnist")
        'figure_3_upper_fashion_mnist'
    """
    return name if dataset == "mnist" else f"{name}_{dataset.replace('-', '_')}"


def initialisations(n_seeds: int) -> str:
    """The title of the legends."""
    return f"{n_seeds} initialisation{'s' if n_seeds > 1 else ''}"
