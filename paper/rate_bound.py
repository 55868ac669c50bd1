"""An open question of the slides, a bound dependent on the masked ratio: D·S(x; M) against log p."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

import maskevidence as me
from paper.figures import SEEDS, Claim, PaperFigure, shown
from paper.panels import BLACK, COLOURS, name_axes, new_figure

N_FEATURES, NOISE, COMPONENTS = 20, 0.3, (2, 5, 10)
RATES = (0.15, 0.25)
QUICK = {"orders": 100}
Biases = Float64[np.ndarray, "seeds D"]


def rate_bound(seeds: Sequence[int] = SEEDS, *, orders: int = 1000) -> PaperFigure:
    """D·E S(x; M) − E log p(x), M = 1..20, of PPCA models on their own distribution, one for each seed.

    E S(x; M) is minus the mean entropy of a hidden token given D − M others, which falls in M, and its mean
    over M is E log p(x) / D. So D·S(x; M) is above the log evidence up to one crossing, and below after it.
    """
    biases = {
        k: np.stack([bias_by_size(k, seed, orders) for seed in shown(seeds, f"PPCA, K={k}")])
        for k in COMPONENTS
    }
    claims = [claim for k in COMPONENTS for claim in _claims(k, biases[k], short=orders < 1000)]
    crossings = {k: crossing(biases[k].mean(0)) for k in COMPONENTS}
    same = "one rate is the last upper bound of all three models"
    sizes = ", ".join(f"{crossings[k] / N_FEATURES:.0%} (K={k})" for k in COMPONENTS)
    claims.append(Claim(same, sizes, len(set(crossings.values())) == 1, too_short=orders < 1000))
    rows = [
        {"n_components": k, "seed": seed, "size": size, "rate": size / N_FEATURES, "bias": float(bias)}
        for k in COMPONENTS
        for seed, of_seed in zip(seeds, biases[k], strict=True)
        for size, bias in enumerate(of_seed, 1)
    ]
    title = "A bound that depends on the rate: D·S(x; M) − log p(x) of PPCA on its own data, D=20"
    numbers = {"crossings": {f"K={k}": size for k, size in crossings.items()}}
    return PaperFigure("rate_bound", title, claims, rows, numbers, partial(_draw, biases))


def bias_by_size(n_components: int, seed: int, orders: int) -> Float64[np.ndarray, " D"]:
    """D·S(M) − E log p by M, nats, over masks from random orders that all sizes share."""
    generator = torch.Generator().manual_seed(seed)
    loadings = torch.randn(N_FEATURES, n_components, dtype=torch.float64, generator=generator)
    model = me.models.PPCA.from_parameters(loadings, NOISE)
    covariance = model.covariance.detach()
    moments = me.GaussianMoments(1, torch.zeros(N_FEATURES, dtype=torch.float64), covariance)
    estimate = me.estimate_evidence(model, moments, me.Orderings(orders), seed=seed, masks="shared")
    entropy = 0.5 * torch.logdet(2 * torch.pi * torch.e * covariance)
    bias: Float64[np.ndarray, " D"] = N_FEATURES * estimate.curve.score + float(entropy)
    return bias


def crossing(bias: Float64[np.ndarray, " D"]) -> int:
    """The last size whose D·S(x; M) is above the log evidence; 0 if there is none.

    Example:
        >>> crossing(np.array([2.0, 1.0, -1.0, -3.0]))
        2
    """
    above = np.flatnonzero(bias > 0)
    return int(above[-1]) + 1 if len(above) else 0


def _claims(k: int, biases: Biases, short: bool) -> list[Claim]:
    """The claims about the models with K components."""
    mean, se = biases.mean(0), biases.std(0, ddof=1) / len(biases) ** 0.5
    last = crossing(mean)
    steps = np.diff(biases, axis=1).mean(0)
    falls = Claim(f"K={k}: D·S(x; M) falls in M").by(
        f"steps of {steps.min():.3f} to {steps.max():.3f} nats", bool((steps < 0).all()), too_short=short
    )
    signs = bool((mean[:last] > 0).all() and (mean[last:] < 0).all() and 0 < last < N_FEATURES)
    ends = f"above log p up to {last} of {N_FEATURES} hidden tokens, M=1 {mean[0]:+.2f}, M=20 {mean[-1]:+.2f}"
    crosses = Claim(f"K={k}: an upper bound up to one crossing, a lower bound after it")
    first, second = (round(rate * N_FEATURES) - 1 for rate in RATES)
    closer = f"{mean[first]:+.2f} ± {se[first]:.2f} and {mean[second]:+.2f} ± {se[second]:.2f} nats"
    tighter = bool((np.abs(biases[:, second]) < np.abs(biases[:, first])).all())
    return [
        falls,
        crosses.by(ends, signs, too_short=short),
        Claim(f"K={k}: 25 % is tighter than 15 %, for every seed").by(closer, tighter, too_short=short),
    ]


def _draw(biases: dict[int, Biases]) -> Any:
    figure, (ax,) = new_figure(1, 6.4, 4.0)
    size = np.arange(1, N_FEATURES + 1)
    for k, colour in zip(biases, COLOURS, strict=False):
        for bias in biases[k]:
            ax.plot(size, bias, color=colour, linewidth=0.6, alpha=0.4)
        ax.plot(size, biases[k].mean(0), color=colour, linewidth=1.8, label=f"K={k}")
    ax.axhline(0, color=BLACK, linewidth=0.9)
    for rate in RATES:
        ax.axvline(rate * N_FEATURES, color=BLACK, linewidth=0.9, linestyle="--")
    limits = (1, N_FEATURES)
    title = "An upper bound up to one size, a lower bound after it (dashed: 15 %, 25 %)"
    name_axes(ax, "hidden tokens M of 20", "D·S(x; M) − log p(x), nats", title, limits)
    ax.set_xticks([1, 5, 10, 15, 20])
    ax.legend(frameon=False)
    return figure
