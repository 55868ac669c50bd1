"""Figure 3, lower half: a deep VAE trained by masked prediction and by the ELBO, on grey images."""

import copy
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64
from torch import Tensor
from torch.autograd.functional import hessian

from maskevidence.data.images import read_images
from maskevidence.errors import CollapsedWeightsWarning, unknown_name
from maskevidence.masks import FixedRate
from maskevidence.models import VAE, Annealing, EncodingDecoding, EvidenceBound, ImportanceSampling
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
from maskevidence.paper.figure_3 import DATA_SETS, plus_minus
from maskevidence.training.fit import EpochRecord, fit
from maskevidence.training.objectives import Elbo, MaskedObjective, Objective

N_IMAGES, N_COMPONENTS, EPOCHS, BATCH, LEARNING_RATE, RATE = 2000, 20, 30, 100, 1e-3, 0.33
N_JUDGED = 40  # images whose log evidence is bounded
DURING, AT_END = Annealing(6, 30, 4), (Annealing(8, 100, 5), Annealing(8, 40, 5, "encoder"))
WEIGHTED_DRAWS = 1024
METHODS: dict[str, tuple[Objective | FixedRate, EncodingDecoding | ImportanceSampling]] = {
    "masked, chains": (FixedRate(RATE, 1), EncodingDecoding(8, 2)),
    "masked, weighted": (FixedRate(RATE, 1), ImportanceSampling(8, steps=0, prior_draws=1)),
    "ELBO": (Elbo(), ImportanceSampling(8, steps=0, prior_draws=1)),
}
CHAINS, WEIGHTED, BOUND = METHODS
IN_WORDS = {
    CHAINS: f"masked {RATE:.0%}, encoding-decoding chains",
    WEIGHTED: f"masked {RATE:.0%}, importance-weighted draws",
    BOUND: "ELBO",
}


@dataclass(frozen=True)
class Run:
    """One training.

    Attributes:
        objective: shape (E,); minus the mean loss of each epoch, nats per image.
        epochs: shape (n,); when the log evidence was bounded, 0 for before the first step.
        evidence: shape (n,); the tightest of the bounds then, mean over the judged images.
        bounds: those after the last epoch.
        laplace: Laplace's approximation then, mean over the judged images; no bound.
        code_size: mean square of draws of q(z | x) per dimension then; under the prior it is 1.
        seconds: of training alone.
    """

    objective: Float64[np.ndarray, " E"]
    epochs: Int64[np.ndarray, " n"]
    evidence: Float64[np.ndarray, " n"]
    bounds: list[EvidenceBound]
    laplace: float
    code_size: float
    seconds: float


def grey_images(dataset: str, n_images: int) -> Float64[np.ndarray, "N D"]:
    """The first images of a data set, in [0, 1].

    Raises:
        InputError: another data set, or one that cannot be read.
    """
    if dataset not in DATA_SETS:
        raise unknown_name("data set", dataset, DATA_SETS)
    return read_images(DATA_SETS[dataset], limit=n_images).table().values


def bounds_of(
    model: VAE, x: Float64[np.ndarray, "N D"], annealings: Sequence[Annealing]
) -> list[EvidenceBound]:
    """The importance-weighted bound and annealed ones, whose weights may collapse: each is a lower bound."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CollapsedWeightsWarning)
        weighted = model.importance_evidence(x, samples=WEIGHTED_DRAWS)
        return [weighted, *(model.annealed_evidence(x, annealing=one) for one in annealings)]


def tightest(bounds: Sequence[EvidenceBound]) -> EvidenceBound:
    """The highest of several lower bounds."""
    return max(bounds, key=lambda bound: bound.mean)


def train(
    x: Float64[np.ndarray, "N D"], method: str, seed: int, epochs: int, points: Sequence[int], n_judged: int
) -> Run:
    """Adam in batches from random networks.

    Args:
        x: images in [0, 1].
        method: one of `METHODS`.
        seed: of networks, masks, draws and batches.
        epochs: passes over the images.
        points: epochs at which the log evidence is bounded; the last is bounded by more draws.
        n_judged: the first so many images have their log evidence bounded.
    """
    how, conditioning = METHODS[method]
    objective: Objective = MaskedObjective(how, seed=seed) if isinstance(how, FixedRate) else Elbo(seed=seed)
    model = VAE(n_features=x.shape[1], n_components=N_COMPONENTS, conditioning=conditioning, seed=seed)
    model.set_units(x)
    judged = x[:n_judged]
    done: list[int] = []
    evidence: list[float] = []
    spent = 0.0

    def look(epoch: int) -> None:
        nonlocal spent
        start = time.perf_counter()
        done.append(epoch)
        evidence.append(tightest(bounds_of(model, judged, [DURING])).mean)
        spent += time.perf_counter() - start

    def callback(record: EpochRecord, _model: Any) -> None:
        if record.epoch in points and record.epoch < epochs:
            look(record.epoch)

    if 0 in points:
        look(0)
    spent, start = 0.0, time.perf_counter()
    history = fit(
        model,
        x,
        objective,
        learning_rate=LEARNING_RATE,
        epochs=epochs,
        batch_size=BATCH,
        seed=seed,
        evidence_every=0,
        callbacks=[callback],
    )
    seconds = time.perf_counter() - start - spent
    bounds = bounds_of(model, judged, AT_END)
    done.append(epochs)
    evidence.append(tightest(bounds).mean)
    after = (bounds, laplace(model, judged), code_size(model, x))
    return Run(history.objective, np.array(done), np.array(evidence), *after, seconds)


def laplace(model: VAE, x: Float64[np.ndarray, "N D"], steps: int = 400) -> float:
    """Mean over rows of log p(x, z*) + ½ K log 2π - ½ log|H|, H the curvature at the posterior's mode z*.

    The mode is climbed to by Adam from the encoder's mean, in float64. It tells a bound that has come loose
    from evidence that has fallen.
    """
    exact = copy.deepcopy(model).double().eval().requires_grad_(False)
    rows = exact.tokens_given_latent.standard(exact.tokens(x).values)
    in_units = rows.shape[1] * exact.tokens_given_latent.log_unit

    def negative(z: Tensor, row: Tensor) -> Tensor:
        """-log p(x, z) but for the prior's constant."""
        each = exact.log_likelihood(row, exact.decode(z))
        return 0.5 * z.square().sum(-1) - each.sum(-1) + in_units

    z = exact.encode(rows)[0].requires_grad_()
    optimizer = torch.optim.Adam([z], lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        negative(z, rows).sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    values = []
    for place, row in zip(z.detach(), rows, strict=True):
        curvature = hessian(partial(negative, row=row), place)  # type: ignore[no-untyped-call]
        log_determinant = torch.linalg.slogdet(curvature).logabsdet
        values.append(float(-negative(place, row) - 0.5 * log_determinant))  # (2π)^K/2 cancels the prior's
    return float(np.mean(values))


def code_size(model: VAE, x: Float64[np.ndarray, "N D"]) -> float:
    """Mean square of draws of q(z | x) per dimension, which is 1 where the codes are those of the prior."""
    with torch.no_grad():
        mean, log_scale = model.encode(model.tokens_given_latent.standard(model.tokens(x).values))
        return float((mean.square() + torch.exp(2 * log_scale)).mean())


def figure_3_lower(
    seeds: Sequence[int] = SEEDS[:3],
    *,
    dataset: str = "mnist",
    epochs: int = EPOCHS,
    n_images: int = N_IMAGES,
    n_points: int = 6,
    n_judged: int = N_JUDGED,
) -> PaperFigure:
    """A VAE with Gaussian likelihood, K=20, trained by masks of 33 % and by the ELBO, and its log evidence.

    Masked training with the paper's conditionals (recursive encoding-decoding) and with those that know the
    prior (importance sampling). All from the same initial networks, with the same steps of Adam.

    Args:
        seeds: of the initialisations.
        dataset: "mnist" or "fashion-mnist".
        epochs: passes over the images.
        n_images: the first so many.
        n_points: how often the log evidence is bounded.
        n_judged: for how many of the images.
    """
    x = grey_images(dataset, n_images)
    points = sorted({round(epochs * (i / (n_points - 1)) ** 2) for i in range(n_points)})
    runs = {name: [train(x, name, seed, epochs, points, n_judged) for seed in seeds] for name in METHODS}
    rows = [
        {
            "method": name,
            "seed": seed,
            "epoch": epoch,
            "objective": float(run.objective[epoch - 1]) if epoch else None,
            "log_evidence": dict(zip(run.epochs.tolist(), run.evidence.tolist(), strict=True)).get(epoch),
        }
        for name in METHODS
        for seed, run in zip(seeds, runs[name], strict=True)
        for epoch in range(epochs + 1)
    ]
    final = {name: np.array([run.evidence[-1] for run in runs[name]]) for name in METHODS}
    judged, steps = min(n_judged, len(x)), epochs * -(-len(x) // BATCH)
    numbers = {
        "dataset": dataset,
        "n_images": len(x),
        "n_judged": judged,
        "epochs": epochs,
        "steps": steps,
        "seeds": list(seeds),
        "log_evidence": {name: final[name].tolist() for name in METHODS},
        "bounds": {
            name: [
                {b.method: {"mean": b.mean, "draw_se": b.draw_se} for b in run.bounds} for run in runs[name]
            ]
            for name in METHODS
        },
        "laplace": {name: [run.laplace for run in runs[name]] for name in METHODS},
        "code_size": {name: [run.code_size for run in runs[name]] for name in METHODS},
        "seconds_of_training": {name: [run.seconds for run in runs[name]] for name in METHODS},
    }
    title = f"Figure 3, lower: VAE with Gaussian likelihood, K={N_COMPONENTS}, {len(x):,} images of {dataset}"
    figure, missing = _draw(runs, f"{title.removeprefix('Figure 3, lower: ')}, log evidence of {judged}")
    name = "figure_3_lower" + ("" if dataset == "mnist" else "_" + dataset.replace("-", "_"))
    return PaperFigure(
        name,
        title,
        _claims(runs),
        long_form(rows),
        numbers,
        figure,
        missing,
        [_table(runs, judged, steps)],
    )


def _table(runs: dict[str, list[Run]], judged: int, steps: int) -> ResultTable:
    """The objective and every bound after training, means over the seeds."""
    rows = []
    for name, of_method in runs.items():
        cells = (
            [run.objective[-1] for run in of_method],
            [run.bounds[0].mean for run in of_method],
            [max(bound.mean for bound in run.bounds[1:]) for run in of_method],
        )
        seconds = float(np.median([run.seconds for run in of_method]))
        rows.append([name, *(plus_minus(np.array(cell)) for cell in cells), f"{seconds:.0f}"])
    columns = ("trained by", "objective", "importance", "annealed", "s")
    title = (
        f"After {steps:,} steps: objective (all images) and lower bounds of the log evidence "
        f"({judged} images), nats per image ± standard error over "
        f"{len(next(iter(runs.values())))} seeds; seconds of training"
    )
    return ResultTable(title, columns, rows)


def _claims(runs: dict[str, list[Run]]) -> list[Claim]:
    claims = []
    for name in (CHAINS, WEIGHTED):
        rise = np.array([run.evidence[-1] - run.evidence[0] for run in runs[name]])
        fall = np.array([run.evidence[-1] - run.evidence.max() for run in runs[name]])
        gain = np.array([run.objective[-1] - run.objective[0] for run in runs[name]])
        claims.append(
            Claim(
                f"{IN_WORDS[name]}: the log evidence rises as the masked objective does (no fall from its "
                "highest, every seed)",
                f"objective {plus_minus(gain)} from the first epoch on; evidence {plus_minus(rise)} from "
                f"start to end, {plus_minus(fall)} from its highest",
                bool((rise > 0).all() and (fall >= 0).all()),
            )
        )
    difference = np.array(
        [a.evidence[-1] - b.evidence[-1] for a, b in zip(runs[WEIGHTED], runs[BOUND], strict=True)]
    )
    below = [
        max(b.mean for b in run.bounds[1:]) - run.bounds[0].mean
        for of_method in runs.values()
        for run in of_method
    ]
    beside = ", ".join(
        f"{name} {plus_minus(np.array([run.laplace for run in of_method]))} "
        f"({plus_minus(np.array([run.evidence[-1] for run in of_method]))})"
        for name, of_method in runs.items()
    )
    sizes = ", ".join(
        f"{name} {plus_minus(np.array([run.code_size for run in of_method]))}"
        for name, of_method in runs.items()
    )
    claims += [
        Claim("Laplace's approximation, which is no bound (in brackets the tightest bound)", beside, None),
        Claim("mean square of the encoder's codes per dimension (1 under the prior)", sizes, None),
        Claim("masked, weighted − ELBO, equal steps", f"{plus_minus(difference)} nats", None),
        Claim(
            "the importance-weighted bound lies below the annealed one (every model)",
            f"by {min(below):.1f} to {max(below):.1f} nats",
            min(below) > 0,
        ),
    ]
    return claims


def _draw(runs: dict[str, list[Run]], title: str) -> tuple[Any, str | None]:
    figure, axes, missing = new_figure(3, 12.0, 4.1)
    if figure is None:
        return figure, missing
    for ax, (name, of_method) in zip(axes, runs.items(), strict=True):
        for run in of_method:
            (objective,) = ax.plot(
                np.arange(1, len(run.objective) + 1),
                run.objective,
                color=ORANGE,
                linewidth=1.0,
                linestyle="--",
            )
            (evidence,) = ax.plot(
                run.epochs, run.evidence, color=BLUE, linewidth=1.2, marker=".", markersize=5
            )
        ax.set_title(IN_WORDS[name], fontsize=10)
        ax.set_xlabel("epoch", fontsize=9)
        ax.set_ylabel("nats per image", fontsize=9)
    weighted_and_bound = runs[WEIGHTED] + runs[BOUND]
    low = min(float(run.evidence.min()) for run in weighted_and_bound)
    high = max(float(max(run.evidence.max(), run.objective.max())) for run in weighted_and_bound)
    for ax in axes[1:]:
        ax.set_ylim(low - 0.05 * (high - low), high + 0.08 * (high - low))
    n_seeds = len(runs[BOUND])
    figure.legend(
        [objective, evidence],
        ["objective: D·S(x; M), or the ELBO", "log evidence, the tightest of its lower bounds"],
        loc="outside lower center",
        ncols=2,
        fontsize=8.5,
        frameon=False,
        title=f"{n_seeds} initialisation{'s' if n_seeds > 1 else ''}",
        title_fontsize=8.5,
    )
    figure.suptitle(title, fontsize=10)
    return figure, missing
