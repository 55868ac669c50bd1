"""Figure 3, upper half: linear Bernoulli models trained by masked prediction and by variational inference."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

from maskevidence.data.binarise import binarise
from maskevidence.data.images import read_images
from maskevidence.data.tabular import Table
from maskevidence.errors import unknown_name
from maskevidence.masks import FixedRate
from maskevidence.models import BernoulliPCA
from maskevidence.paper._figures import (
    BLUE,
    ORANGE,
    SEEDS,
    Claim,
    PaperFigure,
    ResultTable,
    long_form,
    new_figure,
)
from maskevidence.training.fit import EpochRecord, fit
from maskevidence.training.objectives import Elbo, MaskedObjective, Objective

N_IMAGES, N_COMPONENTS, EPOCHS, LEARNING_RATE, RATE = 2000, 2, 800, 0.01, 0.15
DATA_SETS = {"mnist": "mnist:train", "fashion-mnist": "fashion-mnist"}
TOLERANCE = 1e-3  # nats, of every log evidence of an image
SIMILAR = 0.02  # two log evidences are called similar where they differ by no more than this share
METHODS = ("variational inference", "masked training")


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        objective: shape (E,); minus the loss before each step, nats per image.
        epochs: shape (n,); when the log evidence was computed, 0 for before the first step.
        log_evidence: shape (n,); mean over the images, by an integral refined to the tolerance.
        error: the largest error that was reported of one image's log evidence.
        seconds: of training alone.
    """

    objective: Float64[np.ndarray, " E"]
    epochs: Int64[np.ndarray, " n"]
    log_evidence: Float64[np.ndarray, " n"]
    error: float
    seconds: float


def binary_images(dataset: str, n_images: int) -> Table:
    """The first images of a data set, 1 where a pixel is above a half.

    Raises:
        InputError: another data set, or one that cannot be read.
    """
    if dataset not in DATA_SETS:
        raise unknown_name("data set", dataset, DATA_SETS)
    return binarise(read_images(DATA_SETS[dataset], limit=n_images).table(), "threshold")


def when(epochs: int, n_points: int = 12) -> list[int]:
    """Epochs at which the log evidence is computed: denser at the start, where it moves.

    Example:
        >>> when(800)
        [0, 7, 26, 60, 106, 165, 238, 324, 423, 536, 661, 800]
    """
    return sorted({round(epochs * (i / (n_points - 1)) ** 2) for i in range(n_points)})


def train(
    table: Table, method: str, seed: int, epochs: int, points: Sequence[int], n_components: int = N_COMPONENTS
) -> Run:
    """Adam on all images in each step, in float32, from random loadings.

    Args:
        table: 0 and 1.
        method: one of `METHODS`: the ELBO with a linear encoder and one draw, or a new mask of 15 % that all
            images share at each epoch.
        seed: of the initial parameters, and of masks or draws.
        epochs: steps.
        points: epochs at which the log evidence is computed.
        n_components: K.
    """
    variational = method == METHODS[0]
    objective: Objective = (
        Elbo(seed=seed) if variational else MaskedObjective(FixedRate(RATE, 1), seed=seed, masks="shared")
    )
    model = BernoulliPCA(
        len(table.columns), n_components, encoder=variational, seed=seed, dtype=torch.float32
    )
    tokens = model.tokens(table.values)
    done: list[int] = []
    evidence: list[float] = []
    errors: list[float] = []
    seconds = 0.0

    def look(epoch: int) -> None:
        nonlocal seconds
        start = time.perf_counter()
        integral = model.integrate(tokens, tolerance=TOLERANCE)
        done.append(epoch)
        evidence.append(float(integral.log_evidence.mean()))
        errors.append(integral.error)
        seconds -= time.perf_counter() - start

    def callback(record: EpochRecord, _model: Any) -> None:
        if record.epoch in points:
            look(record.epoch)

    if 0 in points:
        look(0)
    seconds = -time.perf_counter()
    history = fit(
        model,
        tokens,
        objective,
        learning_rate=LEARNING_RATE,
        epochs=epochs,
        seed=seed,
        evidence_every=0,
        callbacks=[callback],
    )
    seconds += time.perf_counter()
    return Run(history.objective, np.array(done), np.array(evidence), max(errors), seconds)


def figure_3_upper(
    seeds: Sequence[int] = SEEDS,
    *,
    dataset: str = "mnist",
    epochs: int = EPOCHS,
    n_images: int = N_IMAGES,
    n_points: int = 9,
) -> PaperFigure:
    """Linear Bernoulli models with K=2 on binarised images: the ELBO against masked training at 15 %.

    Both with Adam 0.01 and the same initial loadings; the log evidence of both by numerical integration.

    Args:
        seeds: of the initialisations.
        dataset: "mnist" or "fashion-mnist".
        epochs: steps on all images; the paper has 800.
        n_images: the first so many; the paper has 2000.
        n_points: how often the log evidence is computed.
    """
    table = binary_images(dataset, n_images)
    points = when(epochs, n_points)
    runs = {name: [train(table, name, seed, epochs, points) for seed in seeds] for name in METHODS}
    rows = [
        {
            "method": name,
            "seed": seed,
            "epoch": epoch,
            "objective": float(run.objective[epoch]) if epoch < epochs else None,
            "log_evidence": dict(zip(run.epochs.tolist(), run.log_evidence, strict=True)).get(epoch),
        }
        for name in METHODS
        for seed, run in zip(seeds, runs[name], strict=True)
        for epoch in range(epochs + 1)
    ]
    final = {name: np.array([run.log_evidence[-1] for run in runs[name]]) for name in METHODS}
    seconds = {name: float(np.median([run.seconds for run in runs[name]])) for name in METHODS}
    error = max(run.error for name in METHODS for run in runs[name])
    numbers = {
        "dataset": dataset,
        "n_images": len(table),
        "epochs": epochs,
        "seeds": list(seeds),
        "log_evidence": {name: final[name].tolist() for name in METHODS},
        "log_evidence_at_start": {name: [float(r.log_evidence[0]) for r in runs[name]] for name in METHODS},
        "largest_integration_error": error,
        "seconds_of_training": seconds,
    }
    result = ResultTable(
        f"Log evidence after {epochs} epochs, nats per image ± standard error over {len(seeds)} seeds",
        ("trained by", "log evidence", "least", "most", "s of training"),
        [
            [name, plus_minus(v), f"{v.min():.2f}", f"{v.max():.2f}", f"{seconds[name]:.0f}"]
            for name, v in final.items()
        ],
    )
    title = f"Figure 3, upper: linear Bernoulli model, K={N_COMPONENTS}, {len(table):,} images of {dataset}"
    claims = _claims(runs, final, error)
    figure, missing = _draw(runs, title)
    name = "figure_3_upper" + ("" if dataset == "mnist" else "_" + dataset.replace("-", "_"))
    return PaperFigure(name, title, claims, long_form(rows), numbers, figure, missing, [result])


def plus_minus(values: Float64[np.ndarray, " n"]) -> str:
    """Mean ± standard error over the seeds.

    Example:
        >>> plus_minus(np.array([1.0, 2.0, 3.0]))
        '2.00 ± 0.58'
    """
    if len(values) < 2:
        return f"{values.mean():.2f}"
    return f"{values.mean():.2f} ± {values.std(ddof=1) / math.sqrt(len(values)):.2f}"


def _claims(
    runs: dict[str, list[Run]], final: dict[str, Float64[np.ndarray, " n"]], error: float
) -> list[Claim]:
    bound, masked = (final[name] for name in METHODS)
    difference = masked - bound
    share = abs(difference.mean() / bound.mean())
    rises = [
        np.ptp(run.log_evidence) > 0 and run.log_evidence[-1] > run.log_evidence[0]
        for run in runs[METHODS[1]]
    ]
    gap = np.array([run.log_evidence[-1] - run.objective[-1] for run in runs[METHODS[0]]])
    return [
        Claim(
            f"both reach a similar log evidence (means within {SIMILAR:.0%})",
            f"masked − variational {plus_minus(difference)} nats, paired by seed: {share:.1%}",
            bool(share <= SIMILAR),
        ),
        Claim(
            "the log evidence rises under masked training at 15 % (end against start, every seed)",
            f"by {min(r.log_evidence[-1] - r.log_evidence[0] for r in runs[METHODS[1]]):.1f} nats or more",
            all(rises),
        ),
        Claim(
            "the ELBO ends below the log evidence (one draw, last epoch)",
            f"by {plus_minus(gap)} nats",
            bool((gap > 0).all()),
        ),
        Claim(
            f"every log evidence is integrated to {TOLERANCE:g} nats",
            f"largest error bound of an image {error:.1e}",
            error <= TOLERANCE,
        ),
    ]


def _draw(runs: dict[str, list[Run]], title: str) -> tuple[Any, str | None]:
    figure, axes, missing = new_figure(2, 9.0, 3.9)
    if figure is None:
        return figure, missing
    last = [run.log_evidence[-1] for name in METHODS for run in runs[name]]
    start = min(float(run.log_evidence[0]) for name in METHODS for run in runs[name])
    labels = ("ELBO, one draw", f"masked objective, {RATE:.0%}: D·S(x; M)")
    for ax, name, label in zip(axes, METHODS, labels, strict=True):
        for i, run in enumerate(runs[name]):
            first = i == 0
            ax.plot(
                np.arange(len(run.objective)),
                run.objective,
                color=ORANGE,
                linewidth=0.5,
                alpha=0.4,
                label=label if first else None,
            )
        for i, run in enumerate(runs[name]):
            ax.plot(
                run.epochs,
                run.log_evidence,
                color=BLUE,
                linewidth=1.2,
                marker=".",
                markersize=4,
                label="log evidence, integrated" if i == 0 else None,
            )
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("epoch", fontsize=9)
        ax.set_ylim(max(last) - 1.35 * (max(last) - start), max(last) + 0.12 * (max(last) - start))
        ax.set_ylabel("nats per image", fontsize=9)
        n_seeds = len(runs[name])
        ax.legend(
            fontsize=8,
            frameon=False,
            loc="lower right",
            title=f"{n_seeds} initialisation{'s' if n_seeds > 1 else ''}",
            title_fontsize=8,
        )
    figure.suptitle(title.removeprefix("Figure 3, upper: "), fontsize=10)
    return figure, missing
