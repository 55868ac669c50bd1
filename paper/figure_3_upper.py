"""Figure 3, upper half: linear Bernoulli models trained by masked prediction and by variational inference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch

import maskevidence as me
from maskevidence.core.show import Table
from paper import image_training
from paper.figures import SEEDS, Claim, PaperFigure, plus_minus, put
from paper.panels import new_figure

N_IMAGES, N_COMPONENTS, EPOCHS, LEARNING_RATE, RATE = 2000, 2, 800, 0.01, 0.15
QUICK = {"seeds": SEEDS[:2], "epochs": 60, "n_images": 500, "n_points": 5}
TOLERANCE = 1e-3  # nats, for the log evidence of every image
SIMILAR = 0.02  # log evidences that differ by at most this share are called similar
METHODS = VARIATIONAL, MASKED = ("variational inference", "masked training")


@dataclass(frozen=True, kw_only=True)
class Run(image_training.Run):
    """One training, with the largest error that the integration reports for the log evidence of an image."""

    error: float


def binary_images(dataset: str, n_images: int) -> me.data.Table:
    """The first images of a data set, with 1 for pixels above a half and 0 for the others."""
    table = image_training.first_images(dataset, n_images)
    return replace(table, values=(table.values > 0.5).astype(float))


def train(table: me.data.Table, method: str, seed: int, epochs: int, points: Sequence[int]) -> Run:
    """Adam on all images in each step, in float32, from random loadings."""
    variational = method == VARIATIONAL
    masked = me.MaskedObjective(me.FixedRate(RATE, 1), seed=seed, masks="shared")
    settings: dict[str, Any] = {"encoder": variational, "seed": seed, "dtype": torch.float32}
    model = put(me.models.BernoulliPCA(len(table.columns), N_COMPONENTS, **settings))
    tokens = model.tokens(table.values)

    def look() -> tuple[float, float]:
        integral = model.integrate(tokens, tolerance=TOLERANCE)
        return float(integral.log_evidence.mean()), integral.error

    objective = me.Elbo(seed=seed) if variational else masked
    settings = {"learning_rate": LEARNING_RATE, "epochs": epochs, "seed": seed}
    values, looks, seconds = image_training.fit_and_look(model, tokens, objective, look, points, **settings)
    evidence, errors = (np.array(each) for each in zip(*looks.values(), strict=True))
    at, error = np.array(list(looks)), float(errors.max())
    return Run(objective=values, epochs=at, log_evidence=evidence, error=error, seconds=seconds)


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
    table, points = binary_images(dataset, n_images), image_training.when(epochs, n_points)
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
    columns = ("trained by", "log evidence", "least", "most", "s of training")
    cells = [
        (name, plus_minus(v), f"{v.min():.2f}", f"{v.max():.2f}", f"{seconds[name]:.0f}")
        for name, v in final.items()
    ]
    what = f"Log evidence after {epochs} epochs, nats per image ± standard error over {len(seeds)} seeds"
    result = Table(columns, cells, what)
    title = f"Figure 3, upper: linear Bernoulli model, K={N_COMPONENTS}, {len(table):,} images of {dataset}"
    claims, rows = _claims(runs, short=epochs < EPOCHS), image_training.rows_of(runs, seeds, first=0)
    stem, drawing = image_training.file_stem("figure_3_upper", dataset), partial(_draw, runs, title)
    return PaperFigure(stem, title, claims, rows, numbers, drawing, [result], _checks(runs, error))


def _claims(runs: dict[str, list[Run]], *, short: bool) -> list[Claim]:
    """The claims of the paper."""
    variational, masked = (np.array([run.log_evidence[-1] for run in runs[name]]) for name in METHODS)
    difference, share = masked - variational, abs((masked - variational).mean() / variational.mean())
    rises = [run.log_evidence[-1] - run.log_evidence[0] for run in runs[MASKED]]
    return [
        Claim(f"both reach a similar log evidence (means within {SIMILAR:.0%})").by(
            f"masked − variational {plus_minus(difference)} nats, paired by seed: {share:.1%}",
            share <= SIMILAR,
            too_short=short,
        ),
        Claim("the log evidence rises under masked training at 15 % (end against start, every seed)").by(
            f"by {min(rises):.1f} nats or more", min(rises) > 0
        ),
    ]


def _checks(runs: dict[str, list[Run]], error: float) -> list[Claim]:
    """What is true by construction."""
    gap = [run.log_evidence[-1] - run.objective[-1] for run in runs[VARIATIONAL]]
    return [
        Claim("the ELBO ends below the log evidence (one draw, last epoch)").by(
            f"by {plus_minus(gap)} nats", min(gap) > 0
        ),
        Claim(f"every log evidence is integrated to {TOLERANCE:g} nats").by(
            f"largest error bound of an image {error:.1e}", error <= TOLERANCE
        ),
    ]


def _draw(runs: dict[str, list[Run]], title: str) -> Any:
    figure, axes = new_figure(2, 9.0, 3.9)
    courses = [run.log_evidence for of_method in runs.values() for run in of_method]
    high, start = max(course[-1] for course in courses), min(course[0] for course in courses)
    labels = ("ELBO, one draw", f"masked objective, {RATE:.0%}: D·S(x; M)")
    for ax, name, label in zip(axes, METHODS, labels, strict=True):
        lines = image_training.draw_runs(ax, runs[name], 0, name)
        ax.set_ylim(high - 1.35 * (high - start), high + 0.12 * (high - start))
        legend = image_training.legend(len(runs[name]), 8)
        ax.legend(lines, [label, "log evidence, integrated"], loc="lower right", **legend)
    figure.suptitle(title.removeprefix("Figure 3, upper: "), fontsize=10)
    return figure
