"""Figure 5, left: the curve of PPCA during training."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

import maskevidence as me
from paper.figures import SEEDS, Claim, PaperFigure, near_exact, points, put
from paper.known_noise import PRECISION, best_with_known_noise, initial_loadings, log_evidence, published
from paper.panels import BLACK, SCORE, legend_below, name_axes, new_figure

N_ROWS, N_FEATURES, N_COMPONENTS = 1000, 50, 2
EPOCHS, EVERY, MASKS_PER_SIZE, LEARNING_RATE = 600, 100, 20, 0.01
QUICK = {"epochs": 120, "masks_per_size": 5}


def figure_5_left(
    seeds: Sequence[int] = SEEDS[:1], *, epochs: int = EPOCHS, masks_per_size: int = MASKS_PER_SIZE
) -> PaperFigure:
    """Curves of PPCA (D=50, N=1000, K=2, β=5) at epochs 0, 100, ..., 600 of training by all sizes, P=20.

    Training starts from W = randn(D, K), with known noise, and uses Adam with learning rate 0.01 and new
    masks at every epoch. The curves use other masks. The first seed is that of the initialisation and masks.
    """
    seed = seeds[0]
    x, true_model = published(N_ROWS, N_FEATURES, N_COMPONENTS)
    moments = me.GaussianMoments.from_rows(x)
    start = initial_loadings(N_FEATURES, N_COMPONENTS, [seed])[0]
    model = put(me.models.PPCA.from_parameters(start.cpu(), 1.0 / PRECISION))
    model.mean.requires_grad_(False)
    model.log_noise_variance.requires_grad_(False)
    every = max(1, round(epochs * EVERY / EPOCHS))
    design = me.EverySize(masks_per_size).in_training()
    curves: dict[int, me.EvidenceEstimate] = {}
    exact: dict[int, float] = {}

    def look(record: Any, _model: object) -> None:
        epoch = 0 if record is None else record.epoch
        if epoch % every == 0:
            curves[epoch] = me.estimate_evidence(model, moments, design, seed=seed + 1, batch_size=4096)
            exact[epoch] = log_evidence(model, moments)

    look(None, model)
    objective = me.MaskedObjective(design, seed=seed, masks="shared")
    settings: dict[str, Any] = {"epochs": epochs, "seed": seed, "evidence_every": every, "callbacks": [look]}
    history = me.fit(model, x, objective, learning_rate=LEARNING_RATE, **settings)
    true = log_evidence(true_model, moments)
    best = log_evidence(best_with_known_noise(moments, N_COMPONENTS), moments)
    rows = [
        {"epoch": epoch, **point, "rate": point["size"] / N_FEATURES}
        for epoch, estimate in curves.items()
        for point in points(estimate.curve, "size", "rate", "score", "mask_se")
    ]
    numbers = {
        "epochs": list(curves),
        "area": [e.log_evidence for e in curves.values()],
        "mask_se": [e.mask_se for e in curves.values()],
        "exact": list(exact.values()),
        "true_model": true,
        "maximum_likelihood": best,
        "last_objective": float(history.objective[-1]),
    }
    title = "Figure 5, left: PPCA from noise to evidence"
    claims, drawing = _claims(curves, exact, true, best), partial(_draw, curves, exact)
    return PaperFigure("figure_5_left", title, claims, rows, numbers, drawing)


def _claims(
    curves: dict[int, me.EvidenceEstimate], exact: dict[int, float], true: float, best: float
) -> list[Claim]:
    first, last = min(curves), max(curves)
    start, end = curves[first], curves[last]
    se = math.nan if end.mask_se is None else end.mask_se
    flat = start.curve.score[: len(start.curve.score) * 4 // 5]
    halves = flat[: len(flat) // 2].mean(), flat[len(flat) // 2 :].mean()
    spread = float(abs(halves[0] - halves[1]) / -flat.mean())
    below = (start.curve.score < end.curve.score).mean()
    final = f"the final area is the exact log evidence of the trained model (epoch {last}, within 3 se)"
    reached = "the area ends at the true log evidence (exact, within 0.1 nats of the true model's or above)"
    at_start = "at random initialisation the curve is"
    return [
        near_exact(final, end.log_evidence, se, exact[last], digits=3),
        Claim(reached).by(
            f"{exact[last]:.3f}; true model {true:.3f}, maximum likelihood {best:.3f}",
            exact[last] >= true - 0.1,
            too_short=last < EPOCHS,
        ),
        Claim(f"{at_start} low (below the final one at every size)").by(
            f"below at {below:.0%} of the sizes; area {start.log_evidence:.0f}", below == 1
        ),
        Claim(f"{at_start} flat (halves of the range to 80 % within a tenth)").by(
            f"{halves[0]:.2f} and {halves[1]:.2f} nats per hidden token", spread < 0.1
        ),
    ]


def _draw(curves: dict[int, me.EvidenceEstimate], exact: dict[int, float]) -> Any:
    figure, (ax,) = new_figure(1, 6.4, 4.4)
    shades = np.linspace(0.7, 0.0, len(curves))
    for (epoch, estimate), shade in zip(curves.items(), shades, strict=True):
        colour = tuple(shade + (1 - shade) * c for c in (0.0, 0x72 / 255, 0xB2 / 255))
        low, high = estimate.curve.band(0.95)
        ax.fill_between(estimate.curve.size, -low, -high, color=colour, alpha=0.3, linewidth=0)
        label = f"epoch {epoch}: area {estimate.log_evidence:,.1f}, exact {exact[epoch]:,.1f}"
        ax.plot(estimate.curve.size, -estimate.curve.score, color=colour, linewidth=1.5, label=label)
    ax.set_yscale("log")
    ax.invert_yaxis()
    ax.set_yticks([0.2, 0.5, 1.0, 2.0, 5.0], ["−0.2", "−0.5", "−1", "−2", "−5"])
    ax.minorticks_off()
    name_axes(ax, "mask size M (of 50 tokens)", SCORE, limits=(1, N_FEATURES))
    ax.axvline(0.15 * N_FEATURES, color=BLACK, linewidth=0.8, linestyle="--")
    note = "bands: 95 %, drawing of the masks; dashed: 15 %"
    legend_below(figure, ax, fontsize=7.5, ncols=2, title=note, title_fontsize=7.5)
    return figure
