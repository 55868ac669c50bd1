"""What both halves of Figure 3 share: the images, trainings that are looked at on the way, rows, panels."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

import maskevidence as me
from paper.panels import BLUE, ORANGE, name_axes

DATA_SETS = {"mnist": "mnist:train", "fashion-mnist": "fashion-mnist"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """One training.

    Attributes:
        objective: minus the mean loss of each epoch, in nats per image, shape (E,).
        epochs: the epochs at which the log evidence is known, shape (n,); 0 is before the first step.
        log_evidence: the log evidence or a bound on it at these epochs, the mean over images, shape (n,).
        seconds: the time of training alone.
    """

    objective: Float64[np.ndarray, " E"]
    epochs: Int64[np.ndarray, " n"]
    log_evidence: Float64[np.ndarray, " n"]
    seconds: float


def first_images(dataset: str, n_images: int) -> me.data.Table:
    """The first images of a data set as rows of pixels in [0, 1].

    Raises:
        InputError: an unknown data set, or one that cannot be read.
    """
    if dataset not in DATA_SETS:
        raise me.InputError(f"unknown data set {dataset!r}; give {' or '.join(DATA_SETS)}")
    return me.data.read_images(DATA_SETS[dataset], limit=n_images).table()


def when(epochs: int, n_points: int) -> list[int]:
    """Epochs to look at a training, denser at the start, where the log evidence moves.

    Example:
        >>> when(800, 9)
        [0, 12, 50, 112, 200, 312, 450, 612, 800]
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

    Returns minus the mean loss of each epoch, the measurements by epoch, and the seconds of training alone.
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


def rows_of(runs: Mapping[str, Sequence[Run]], seeds: Sequence[int], first: int) -> list[dict[str, Any]]:
    """The rows of the CSV file; `first` is the epoch that the first entry of the objective belongs to."""
    rows = []
    for method, of_method in runs.items():
        for seed, run in zip(seeds, of_method, strict=True):
            objective = dict(enumerate(run.objective.tolist(), start=first))
            evidence = dict(zip(run.epochs.tolist(), run.log_evidence.tolist(), strict=True))
            for epoch in range(len(objective) + 1):
                row = {"method": method, "seed": seed, "epoch": epoch, "objective": objective.get(epoch)}
                rows.append(row | {"log_evidence": evidence.get(epoch)})
    return rows


def draw_runs(ax: Any, runs: Sequence[Run], first: int, title: str) -> list[Any]:
    """Draw the objective and the log evidence of all initialisations; a line of each for the legend."""
    for run in runs:
        epoch = np.arange(first, first + len(run.objective))
        (objective,) = ax.plot(epoch, run.objective, color=ORANGE, linewidth=0.6, alpha=0.6)
    for run in runs:
        (evidence,) = ax.plot(run.epochs, run.log_evidence, ".-", color=BLUE, linewidth=1.2, markersize=4)
    name_axes(ax, "epoch", "nats per image", title)
    return [objective, evidence]


def file_stem(name: str, dataset: str) -> str:
    """The stem of a figure's files, which names every data set but MNIST.

    Example:
        >>> file_stem("figure_3_upper", "fashion-mnist")
        'figure_3_upper_fashion_mnist'
    """
    return name if dataset == "mnist" else f"{name}_{dataset.replace('-', '_')}"


def legend(n_seeds: int, size: float) -> dict[str, Any]:
    """The settings of a legend, whose title is the number of initialisations."""
    title = f"{n_seeds} initialisation{'s' if n_seeds > 1 else ''}"
    return {"title": title, "title_fontsize": size, "fontsize": size, "frameon": False}
