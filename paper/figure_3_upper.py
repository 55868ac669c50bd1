"""Figure 3, upper half: linear Bernoulli models trained by masked prediction and by variational inference."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

import maskevidence as me
from paper.figures import SEEDS, Claim, PaperFigure, ResultTable, long_form, plus_minus
from paper.image_training import course, file_stem, first_images, fit_and_look, initialisations, when
from paper.pictures import BLUE, ORANGE, new_figure
from paper.place import put

N_IMAGES, N_COMPONENTS, EPOCHS, LEARNING_RATE, RATE = 2000, 2, 800, 0.01, 0.15
QUICK = {"seeds": SEEDS[:2], "epochs": 60, "n_images": 500, "n_points": 5}
TOLERANCE = 1e-3  # nats, for the log evidence of every image
SIMILAR = 0.02  # log evidences that differ by at most this share are called similar
METHODS = VARIATIONAL, MASKED = ("variational inference", "masked training")


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        objective: minus the loss before each step, in nats per image, shape (E,).
        epochs: the epochs at which the log evidence is known, shape (n,); 0 is before the first step.
        log_evidence: the mean over the images, integrated to the tolerance, shape (n,).
        error: the largest reported error of the log evidence of an image.
        seconds: the time of training alone.
    """

    objective: Float64[np.ndarray, " E"]
    epochs: Int64[np.ndarray, " n"]
    log_evidence: Float64[np.ndarray, " n"]
    error: float
    seconds: float


def binary_images(dataset: str, n_images: int) -> me.data.Table:
    """The first images of a data set, with 1 for pixels above a half and 0 for the others.

    Raises:
        InputError: an unknown data set, or one that cannot be read.
    """
    table = first_images(dataset, n_images)
    return replace(table, values=(table.values > 0.5).astype(float))


def train(
    table: me.data.Table,
    method: str,
    seed: int,
    epochs: int,
    points: Sequence[int],
    n_components: int = N_COMPONENTS,
) -> Run:
    """Adam on all images in each step, in float32, from random loadings."""
    variational = method == VARIATIONAL
    objective: me.Elbo | me.MaskedObjective = (
        me.Elbo(seed=seed)
        if variational
        else me.MaskedObjective(me.FixedRate(RATE, 1), seed=seed, masks="shared")
    )
    model = me.models.BernoulliPCA(
        len(table.columns), n_components, encoder=variational, seed=seed, dtype=torch.float32
    )
    model = put(model)
    tokens = model.tokens(table.values)

    def look() -> tuple[float, float]:
        integral = model.integrate(tokens, tolerance=TOLERANCE)
        return float(integral.log_evidence.mean()), integral.error

    settings = {"learning_rate": LEARNING_RATE, "epochs": epochs, "seed": seed}
    values, looks, seconds = fit_and_look(model, tokens, objective, look, points, **settings)
    evidence, errors = zip(*looks.values(), strict=True)
    return Run(values, np.array(list(looks)), np.array(evidence), max(errors), seconds)


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
    table = binary_images(dataset, n_images)
    points = when(epochs, n_points)
    runs = {name: [train(table, name, seed, epochs, points) for seed in seeds] for name in METHODS}
    rows = [
        row
        for name in METHODS
        for seed, run in zip(seeds, runs[name], strict=True)
        for row in course(
            name,
            seed,
            dict(enumerate(run.objective.tolist())),
            dict(zip(run.epochs.tolist(), run.log_evidence.tolist(), strict=True)),
        )
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
    claims, drawing = _claims(runs, final, short=epochs < EPOCHS), partial(_draw, runs, title)
    stem, checks = file_stem("figure_3_upper", dataset), _checks(runs, error)
    return PaperFigure(stem, title, claims, long_form(rows), numbers, drawing, [result], checks)


def _claims(
    runs: dict[str, list[Run]], final: dict[str, Float64[np.ndarray, " n"]], *, short: bool
) -> list[Claim]:
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
    gap = np.array([run.log_evidence[-1] - run.objective[-1] for run in runs[VARIATIONAL]])
    return [
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


def _draw(runs: dict[str, list[Run]], title: str) -> Any:
    figure, axes = new_figure(2, 9.0, 3.9)
    last = [run.log_evidence[-1] for name in METHODS for run in runs[name]]
    start = min(float(run.log_evidence[0]) for name in METHODS for run in runs[name])
    labels = ("ELBO, one draw", f"masked objective, {RATE:.0%}: D·S(x; M)")
    for ax, name, label in zip(axes, METHODS, labels, strict=True):
        for run in runs[name]:
            (objective,) = ax.plot(run.objective, color=ORANGE, linewidth=0.5, alpha=0.4)
        for run in runs[name]:
            (evidence,) = ax.plot(
                run.epochs, run.log_evidence, color=BLUE, linewidth=1.2, marker=".", markersize=4
            )
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("epoch")
        ax.set_ylim(max(last) - 1.35 * (max(last) - start), max(last) + 0.12 * (max(last) - start))
        ax.set_ylabel("nats per image")
        ax.legend(
            [objective, evidence],
            [label, "log evidence, integrated"],
            fontsize=8,
            frameon=False,
            loc="lower right",
            title=initialisations(len(runs[name])),
            title_fontsize=8,
        )
    figure.suptitle(title.removeprefix("Figure 3, upper: "), fontsize=10)
    return figure
