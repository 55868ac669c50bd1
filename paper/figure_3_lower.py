"""Figure 3, lower half: a deep VAE trained by masked prediction and by the ELBO, on grey images."""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor
from torch.autograd.functional import hessian

import maskevidence as me
from maskevidence.core.show import Table
from paper import image_training
from paper.encoding_decoding import EncodingDecoding
from paper.figures import SEEDS, Claim, PaperFigure, plus_minus, put
from paper.panels import GREEN, PINK, SKY, new_figure

N_IMAGES, N_COMPONENTS, EPOCHS, BATCH, LEARNING_RATE, RATE = 2000, 20, 30, 100, 1e-3, 0.33
N_JUDGED = 40  # images whose log evidence is bounded
QUICK = {"seeds": SEEDS[:1], "epochs": 40, "n_images": 500, "n_points": 5, "n_judged": 12}
DURING = me.models.Annealing(6, 30, 4)
AT_END = (me.models.Annealing(8, 100, 5), me.models.Annealing(8, 40, 5, "encoder"))
WEIGHTED_DRAWS = 1024
JOINT, PRIOR = "draws of q(z | x), unweighted", "draws of the prior"
PIXELS = f"{JOINT}, averaged pixel by pixel"
SIMPLE, SIMPLE_DRAWS = (PIXELS, JOINT, PRIOR), 100
KNOWING_THE_PRIOR = me.models.ImportanceSampling(8, steps=0, prior_draws=1)
METHODS: dict[str, tuple[me.Elbo | me.FixedRate, Any]] = {
    "masked, chains": (me.FixedRate(RATE, 1), EncodingDecoding(8, 2)),
    "masked, weighted": (me.FixedRate(RATE, 1), KNOWING_THE_PRIOR),
    "ELBO": (me.Elbo(), KNOWING_THE_PRIOR),
}
CHAINS, WEIGHTED, BOUND = METHODS
IN_WORDS = {
    CHAINS: f"masked {RATE:.0%}, encoding-decoding chains",
    WEIGHTED: f"masked {RATE:.0%}, importance-weighted draws",
    BOUND: "ELBO",
}


@dataclass(frozen=True, kw_only=True)
class Run(image_training.Run):
    """One training, whose log evidence is the tightest bound, averaged over the judged images.

    Attributes:
        simple: simple Monte-Carlo estimates at these epochs, not to be trusted, by name, each of shape (n,).
        bounds: the bounds after the last epoch; the other two are of that time, too.
        laplace: Laplace's approximation, averaged over the judged images; not a bound.
        code_size: the mean square of draws of q(z | x) per dimension; 1 under the prior.
    """

    simple: dict[str, Float64[np.ndarray, " n"]]
    bounds: list[me.models.EvidenceBound]
    laplace: float
    code_size: float

    def change(self, name: str = "") -> tuple[float, float]:
        """How far the log evidence, or a simple estimate, ends from its start, and from its highest value."""
        values = self.simple[name] if name else self.log_evidence
        return values[-1] - values[0], values[-1] - values.max()


def grey_images(dataset: str, n_images: int) -> Float64[np.ndarray, "N D"]:
    """The first images of a data set, with pixels in [0, 1]."""
    return image_training.first_images(dataset, n_images).values


def bounds_of(
    model: me.models.VAE, x: Float64[np.ndarray, "N D"], annealings: Sequence[me.models.Annealing]
) -> list[me.models.EvidenceBound]:
    """The importance-weighted bound and an annealed bound for each annealing.

    Weights may collapse, which makes a bound loose; it remains a lower bound.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", me.CollapsedWeightsWarning)
        weighted = model.importance_evidence(x, samples=WEIGHTED_DRAWS)
        return [weighted, *(model.annealed_evidence(x, annealing=annealing) for annealing in annealings)]


def tightest(bounds: Sequence[me.models.EvidenceBound]) -> float:
    """The highest of several lower bounds."""
    return max(bound.mean for bound in bounds)


def train(
    x: Float64[np.ndarray, "N D"], method: str, seed: int, epochs: int, points: Sequence[int], n_judged: int
) -> Run:
    """Adam in batches from random networks."""
    how, conditioning = METHODS[method]
    objective = me.MaskedObjective(how, seed=seed) if isinstance(how, me.FixedRate) else me.Elbo(seed=seed)
    shape = {"n_features": x.shape[1], "n_components": N_COMPONENTS}
    model = put(me.models.VAE(**shape, conditioning=conditioning, seed=seed))
    model.set_units(x)
    judged = x[:n_judged]

    def look() -> tuple[float, dict[str, float]]:
        return tightest(bounds_of(model, judged, [DURING])), simple_estimates(model, judged)

    settings = {"learning_rate": LEARNING_RATE, "epochs": epochs, "batch_size": BATCH, "seed": seed}
    early = [point for point in points if point < epochs]
    values, looks, seconds = image_training.fit_and_look(model, x, objective, look, early, **settings)
    bounds = bounds_of(model, judged, AT_END)
    looks[epochs] = (tightest(bounds), simple_estimates(model, judged))
    return Run(
        objective=values,
        epochs=np.array(list(looks)),
        log_evidence=np.array([evidence for evidence, _ in looks.values()]),
        simple={name: np.array([simple[name] for _, simple in looks.values()]) for name in SIMPLE},
        bounds=bounds,
        laplace=laplace(model, judged),
        code_size=code_size(model, x),
        seconds=seconds,
    )


def in_float64(model: me.models.VAE, x: Float64[np.ndarray, "N D"]) -> tuple[me.models.VAE, Tensor, Tensor]:
    """A copy in float64, the rows in its units, and the log of the volume of these units for a row."""
    exact = copy.deepcopy(model).double().eval().requires_grad_(False)
    rows = exact.tokens_given_latent.standard(exact.tokens(x).values)
    return exact, rows, rows.shape[1] * exact.tokens_given_latent.log_unit


def simple_estimates(
    model: me.models.VAE, x: Float64[np.ndarray, "N D"], draws: int = SIMPLE_DRAWS, seed: int = 0
) -> dict[str, float]:
    """Simple Monte-Carlo estimates that one might take for the evidence; means over the rows, nats.

    - log (1/S) Σ_s p(x | z_s) with z_s from q(z | x) leaves out the weights p(z)/q(z | x), and with them the
      prior.
    - The same with z_s from the prior is unbiased for p(x), but a few draws miss almost all of the posterior.
    - Σ_j log (1/S) Σ_s p(x_j | z_s) with z_s from q(z | x) averages each pixel by itself: a product of
      averages, not the average of the products that an image's probability is. It is what a masked
      objective sees.
    """
    exact, rows, in_units = in_float64(model, x)
    generator, shape = torch.Generator().manual_seed(seed), (draws, len(rows), N_COMPONENTS)
    noise = torch.randn(shape, generator=generator, dtype=rows.dtype).to(rows.device)
    mean, log_scale = exact.encode(rows)

    def pixels(codes: Tensor) -> Tensor:
        return torch.stack([exact.log_likelihood(rows, exact.decode(z)) for z in codes])

    of_encoder, of_prior = pixels(mean + noise * torch.exp(log_scale)), pixels(noise)
    totals = {
        PIXELS: torch.logsumexp(of_encoder, 0).sum(-1) - rows.shape[1] * np.log(draws),
        JOINT: torch.logsumexp(of_encoder.sum(-1), 0) - np.log(draws),
        PRIOR: torch.logsumexp(of_prior.sum(-1), 0) - np.log(draws),
    }
    return {name: float((total - in_units).mean()) for name, total in totals.items()}


def laplace(model: me.models.VAE, x: Float64[np.ndarray, "N D"], steps: int = 400) -> float:
    """Laplace's approximation of the log evidence, averaged over the rows.

    log p(x, z*) + ½ K log 2π - ½ log|H|, with H the curvature at the mode z* of the posterior. Adam climbs to
    the mode from the encoder's mean, in float64. The approximation shows whether a low bound is loose or the
    evidence itself is low.
    """
    exact, rows, in_units = in_float64(model, x)

    def negative(z: Tensor, row: Tensor) -> Tensor:
        """-log p(x, z) without the constant of the prior."""
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


def code_size(model: me.models.VAE, x: Float64[np.ndarray, "N D"]) -> float:
    """The mean square of draws of q(z | x) per dimension, which is 1 for codes drawn from the prior."""
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

    Masked training uses the conditionals of the paper (recursive encoding-decoding) and conditionals that
    know the prior (importance sampling). All trainings start from the same networks and take the same number
    of Adam steps.
    """
    x = grey_images(dataset, n_images)
    points = image_training.when(epochs, n_points)
    runs = {name: [train(x, name, seed, epochs, points, n_judged) for seed in seeds] for name in METHODS}
    judged, steps = min(n_judged, len(x)), epochs * -(-len(x) // BATCH)

    def each(value: Callable[[Run], Any]) -> dict[str, list[Any]]:
        return {name: [value(run) for run in of_method] for name, of_method in runs.items()}

    numbers = {
        "dataset": dataset,
        "n_images": len(x),
        "n_judged": judged,
        "epochs": epochs,
        "steps": steps,
        "seeds": list(seeds),
        "log_evidence": each(lambda run: float(run.log_evidence[-1])),
        "bounds": each(lambda run: {b.method: {"mean": b.mean, "draw_se": b.draw_se} for b in run.bounds}),
        "epochs_of_evidence": {name: runs[name][0].epochs.tolist() for name in METHODS},
        "simple_estimates": {
            name: {simple: [run.simple[simple].tolist() for run in of_method] for simple in SIMPLE}
            for name, of_method in runs.items()
        },
        "laplace": each(lambda run: run.laplace),
        "code_size": each(lambda run: run.code_size),
        "seconds_of_training": each(lambda run: run.seconds),
    }
    title = f"Figure 3, lower: VAE with Gaussian likelihood, K={N_COMPONENTS}, {len(x):,} images of {dataset}"
    drawing = partial(_draw, runs, f"{title.removeprefix('Figure 3, lower: ')}, log evidence of {judged}")
    claims = _claims(runs, short=steps < EPOCHS * (N_IMAGES // BATCH))
    rows = image_training.rows_of(runs, seeds, first=1)
    stem, tables = image_training.file_stem("figure_3_lower", dataset), [_table(runs, judged, steps)]
    return PaperFigure(stem, title, claims, rows, numbers, drawing, tables, _checks(runs))


def _table(runs: dict[str, list[Run]], judged: int, steps: int) -> Table:
    """The objective and the bounds after training, averaged over the seeds."""
    rows = [
        (
            name,
            plus_minus(run.objective[-1] for run in of_method),
            plus_minus(run.bounds[0].mean for run in of_method),
            plus_minus(tightest(run.bounds[1:]) for run in of_method),
            f"{np.median([run.seconds for run in of_method]):.0f}",
        )
        for name, of_method in runs.items()
    ]
    what = f"objective (all images) and lower bounds of the log evidence ({judged} images), nats per image"
    error = f"standard error over {len(runs[BOUND])} seeds; seconds of training"
    title = f"After {steps:,} steps: {what} ± {error}"
    return Table(("trained by", "objective", "importance", "annealed", "s"), rows, title)


def _claims(runs: dict[str, list[Run]], *, short: bool) -> list[Claim]:
    """The claims; where nothing falls in a short training, it may yet fall."""
    claims, never = [], "no fall from its highest, every seed"
    for name in (CHAINS, WEIGHTED):
        gain = plus_minus(run.objective[-1] - run.objective[0] for run in runs[name])
        changes, rises = _changes(runs[name])
        words = f"{IN_WORDS[name]}: the log evidence rises as the masked objective does ({never})"
        measured = f"objective {gain} from the first epoch on; evidence {changes}"
        claims.append(Claim(words, measured, rises, too_short=short and rises))
    for simple in SIMPLE:
        changes, rises = _changes(runs[CHAINS], simple)
        words = f"{IN_WORDS[CHAINS]}: by {simple}, the evidence seems to rise ({never})"
        claims.append(Claim(words, changes, rises, too_short=short and rises))
    last = {name: [run.log_evidence[-1] for run in of_method] for name, of_method in runs.items()}
    by_method = runs.items()
    sizes = ", ".join(f"{name} {plus_minus(run.code_size for run in runs_)}" for name, runs_ in by_method)
    modes = {name: plus_minus(run.laplace for run in of_method) for name, of_method in runs.items()}
    beside = ", ".join(f"{name} {mode} ({plus_minus(last[name])})" for name, mode in modes.items())
    difference = plus_minus(a - b for a, b in zip(last[WEIGHTED], last[BOUND], strict=True))
    return [
        *claims,
        Claim("Laplace's approximation, which is no bound (in brackets the tightest bound)", beside),
        Claim("mean square of the encoder's codes per dimension (1 under the prior)", sizes),
        Claim("masked, weighted − ELBO, equal steps", f"{difference} nats"),
    ]


def _changes(runs: Sequence[Run], simple: str = "") -> tuple[str, bool]:
    """The changes of several runs in words, and whether the evidence of every run rises and never falls."""
    rise, fall = zip(*(run.change(simple) for run in runs), strict=True)
    words = f"{plus_minus(rise)} from start to end, {plus_minus(fall)} from its highest"
    return words, bool(min(rise) > 0 and min(fall) >= 0)


def _checks(runs: dict[str, list[Run]]) -> list[Claim]:
    """What is true by construction."""
    below = [tightest(run.bounds[1:]) - run.bounds[0].mean for each in runs.values() for run in each]
    ordered = Claim("the importance-weighted bound lies below the annealed one (every model)")
    return [ordered.by(f"by {min(below):.1f} to {max(below):.1f} nats", min(below) > 0)]


def _draw(runs: dict[str, list[Run]], title: str) -> Any:
    figure, axes = new_figure(3, 12.0, 4.1)
    styles = list(zip(SIMPLE, (PINK, GREEN, SKY), (":", "-.", (0, (5, 1))), strict=True))
    for ax, (name, of_method) in zip(axes, runs.items(), strict=True):
        lines = image_training.draw_runs(ax, of_method, 1, IN_WORDS[name])
        for simple, colour, style in styles:
            for run in of_method:
                values = run.simple[simple]
                (line,) = ax.plot(run.epochs, values, color=colour, linewidth=1.0, linestyle=style)
            lines.append(line)
    weighted_and_bound = runs[WEIGHTED] + runs[BOUND]
    low = min(float(run.log_evidence.min()) for run in weighted_and_bound)
    high = max(float(max(run.log_evidence.max(), run.objective.max())) for run in weighted_and_bound)
    for ax in axes[1:]:
        ax.set_ylim(low - 0.05 * (high - low), high + 0.08 * (high - low))
    words = ["objective: D·S(x; M), or the ELBO", "log evidence, the tightest of its lower bounds"]
    words += [f"{SIMPLE_DRAWS} {name}" for name in SIMPLE]
    legend = image_training.legend(len(runs[BOUND]), 8.5)
    figure.legend(lines, words, loc="outside lower center", ncols=2, **legend)
    figure.suptitle(title, fontsize=10)
    return figure
