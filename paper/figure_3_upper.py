"""Figure 3, upper half: linear Bernoulli models trained by masked prediction and by variational inference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

import maskevidence as me
from maskevidence.show import Table
from paper import image_training
from paper.figures import SEEDS, Claim, PaperFigure, plus_minus, put
from paper.image_training import (
    draw_runs,
    file_stem,
    first_images,
    fit_and_look,
    initialisations,
    rows_of,
    when,
)
from paper.panels import new_figure

N_IMAGES, N_COMPONENTS, EPOCHS, LEARNING_RATE, RATE = 2000, 2, 800, 0.01, 0.15
QUICK = {"seeds": SEEDS[:2], "epochs": 60, "n_images": 500, "n_points": 5}
TOLERANCE = 1e-3  # nats, for the log evidence of every image
SIMILAR = 0.02  # log evidences that differ by at most this share are called similar
METHODS = VARIATIONAL, MASKED = ("variational inference", "masked training")


@dataclass(frozen=True, kw_only=True)
class Run(image_training.Run):
    """One training, whose log evidence is integrated to the tolerance.

    Attributes:
        error: the largest reported error of the log evidence of an image.
    """

    error: float


def binary_images(dataset: str, n_images: int) -> me.data.Table:
    """The first images of a data set, with 1 for pixels above a half and 0 for the others."""
    table = first_images(dataset, n_images)
    return replace(table, values=(table.values > 0.5).astype(float))


def train(table: me.data.Table, method: str, seed: int, epochs: int, points: Sequence[int]) -> Run:
    """Adam on all images in each step, in float32, from random loadings."""
    variational = method == VARIATIONAL
    masked = me.MaskedObjective(me.FixedRate(RATE, 1), seed=seed, masks="shared")
    model = put(
        me.models.BernoulliPCA(
            len(table.columns), N_COMPONENTS, encoder=variational, seed=seed, dtype=torch.float32
        )
    )
    tokens = model.tokens(table.values)

    def look() -> tuple[float, float]:
        integral = model.integrate(tokens, tolerance=TOLERANCE)
        return float(integral.log_evidence.mean()), integral.error

    objective = me.Elbo(seed=seed) if variational else masked
    settings = {"learning_rate": LEARNING_RATE, "epochs": epochs, "seed": seed}
    values, looks, seconds = fit_and_look(model, tokens, objective, look, points, **settings)
    evidence, errors = (np.array(each) for each in zip(*looks.values(), strict=True))
    return Run(
        objective=values,
        epochs=np.array(list(looks)),
        log_evidence=evidence,
        error=float(errors.max()),
        seconds=seconds,
    )


def figure_3_upper(
    seeds: Sequence[int] = SEEDS,
    *,
    dataset: str = "mnist",
    epochs: int = EPOCHS,
    n_images: int = N_IMAGES,
    n_points: int = 9,
) -> PaperFigure:
    """Linear Bernoulli models with K=2 on binarised images, trained by the ELBO and by masks of 15 %.

    Both start from the same loadings and use Adam with learning rate 0.01. The log evidence of both is
    integrated numerically.
    """
    table, points = binary_images(dataset, n_images), when(epochs, n_points)
    runs = {name: [train(table, name, seed, epochs, points) for seed in seeds] for name in METHODS}
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
    result = Table(
        ("trained by", "log evidence", "least", "most", "s of training"),
        [
            (name, plus_minus(v), f"{v.min():.2f}", f"{v.max():.2f}", f"{seconds[name]:.0f}")
            for name, v in final.items()
        ],
        f"Log evidence after {epochs} epochs, nats per image ± standard error over {len(seeds)} seeds",
    )
    title = f"Figure 3, upper: linear Bernoulli model, K={N_COMPONENTS}, {len(table):,} images of {dataset}"
    claims, rows = _claims(runs, final, short=epochs < EPOCHS), rows_of(runs, seeds, first=0)
    stem, drawing = file_stem("figure_3_upper", dataset), partial(_draw, runs, title)
    return PaperFigure(stem, title, claims, rows, numbers, drawing, [result], _checks(runs, error))


def _claims(
    runs: dict[str, list[Run]], final: dict[str, Float64[np.ndarray, " n"]], *, short: bool
) -> list[Claim]:
    """The claims of the paper."""
    difference = final[MASKED] - final[VARIATIONAL]
    share = abs(difference.mean() / final[VARIATIONAL].mean())
    rises = [run.log_evidence[-1] - run.log_evidence[0] for run in runs[MASKED]]
    return [
        Claim(
            f"both reach a similar log evidence (means within {SIMILAR:.0%})",
            f"masked − variational {plus_minus(difference)} nats, paired by seed: {share:.1%}",
            bool(share <= SIMILAR),
            too_short=short,
        ),
        Claim(
            "the log evidence rises under masked training at 15 % (end against start, every seed)",
            f"by {min(rises):.1f} nats or more",
            bool(min(rises) > 0),
        ),
    ]


def _checks(runs: dict[str, list[Run]], error: float) -> list[Claim]:
    """What is true by construction."""
    gap = [run.log_evidence[-1] - run.objective[-1] for run in runs[VARIATIONAL]]
    return [
        Claim(
            "the ELBO ends below the log evidence (one draw, last epoch)",
            f"by {plus_minus(gap)} nats",
            bool(min(gap) > 0),
        ),
        Claim(
            f"every log evidence is integrated to {TOLERANCE:g} nats",
            f"largest error bound of an image {error:.1e}",
            error <= TOLERANCE,
        ),
    ]


def _draw(runs: dict[str, list[Run]], title: str) -> Any:
    figure, axes = new_figure(2, 9.0, 3.9)
    courses = [run.log_evidence for of_method in runs.values() for run in of_method]
    high, start = max(course[-1] for course in courses), min(course[0] for course in courses)
    labels = ("ELBO, one draw", f"masked objective, {RATE:.0%}: D·S(x; M)")
    for ax, name, label in zip(axes, METHODS, labels, strict=True):
        lines = draw_runs(ax, runs[name], 0, name)
        ax.set_ylim(high - 1.35 * (high - start), high + 0.12 * (high - start))
        legend = {"title": initialisations(len(runs[name])), "title_fontsize": 8, "fontsize": 8}
        ax.legend(lines, [label, "log evidence, integrated"], frameon=False, loc="lower right", **legend)
    figure.suptitle(title.removeprefix("Figure 3, upper: "), fontsize=10)
    return figure
