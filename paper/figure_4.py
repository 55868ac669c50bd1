"""Figure 4: the score by mask size of trained PPCA models."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

import maskevidence as me
from paper.figures import SEEDS, Claim, PaperFigure, near_exact, points, put, shown, standard_error
from paper.known_noise import best_with_known_noise, published
from paper.panels import BLACK, BLUE, COLOURS, SCORE, name_axes, new_figure

N_ROWS, N_FEATURES = 1000, 200
LOST, FLAT_RATE = 0.05, 0.15
QUICK = {"masks_per_size": (1, 10, 2)}
Estimates = Sequence[me.EvidenceEstimate]


@dataclass(frozen=True)
class Panel:
    """The settings of one panel: K, P, the rates between which the paper sees a fall, its words for it."""

    n_components: int
    masks_per_size: int
    drop: tuple[float, float]
    said: str

    @property
    def name(self) -> str:
        """K and P."""
        return f"K={self.n_components}, P={self.masks_per_size}"


PANELS = (
    Panel(5, 1, (0.85, 0.92), "beyond 90 % masking"),
    Panel(5, 100, (0.85, 0.92), "beyond 90 % masking"),
    Panel(50, 5, (0.42, 0.52), "from about 50 % on"),
)


def drop_rate(score: Float64[np.ndarray, " D"]) -> float:
    """The largest M/D at which S(x; M) has fallen at most 5 % of the way from its mean up to 15 % to S(x; D).

    Example:
        >>> drop_rate(np.r_[np.zeros(90), np.linspace(-0.1, -1.0, 10)])
        0.9
    """
    width = len(score)
    rate = np.arange(1, width + 1) / width
    flat = score[rate <= max(FLAT_RATE, rate[0])].mean()
    return float(rate[score >= flat - LOST * (flat - score[-1])].max())


def figure_4(seeds: Sequence[int] = SEEDS, *, masks_per_size: Sequence[int] | None = None) -> PaperFigure:
    """S(x; M), M = 1..200, of PPCA models trained on N=1000 published rows (β=5); the area is the evidence.

    The models have the maximum likelihood loadings for the known noise, where training by all sizes ends
    (Figure 2). All rows share their masks, so that the moments of the rows are enough.
    """
    panels: Sequence[Panel] = PANELS
    if masks_per_size is not None:
        panels = [replace(p, masks_per_size=n) for p, n in zip(PANELS, masks_per_size, strict=True)]
    estimates, numbers, claims, rows = [], [], list[Claim](), []
    for panel in panels:
        x, _ = published(N_ROWS, N_FEATURES, panel.n_components)
        moments = me.GaussianMoments.from_rows(x)
        model = best_with_known_noise(moments, panel.n_components)
        with torch.no_grad():
            exact = float(model.log_evidence(put(me.Tokens.from_array(x))).mean())
        design = me.EverySize(panel.masks_per_size).in_training()
        of_panel = [
            me.estimate_evidence(model, moments, design, seed=seed, batch_size=4096)
            for seed in shown(seeds, f"Figure 4, {panel.name}")
        ]
        area, drop = [estimate.log_evidence for estimate in of_panel], drop_rate(_mean_score(of_panel))
        se = _pooled_se(of_panel)
        estimates.append(of_panel)
        numbers.append({"panel": panel.name, "exact": exact, "area": area, "se": se, "drop": drop})
        claims += _claims(panel, float(np.mean(area)), se, exact, drop)
        rows += [
            {"panel": panel.name, "seed": seed, **point, "rate": point["size"] / N_FEATURES}
            for seed, estimate in zip(seeds, of_panel, strict=True)
            for point in points(estimate.curve, "size", "rate", "score")
        ]
    noise = [np.mean([_roughness(e.curve.score) for e in of_panel]) for of_panel in estimates[:2]]
    few, many = (panel.masks_per_size for panel in panels[:2])
    noisy = Claim(f"P={few} is noisy, P={many} is not (mean step from size to size, flat part, K=5)")
    claims.append(noisy.by(f"{noise[0]:.4f} nats against {noise[1]:.4f}", noise[0] > 2 * noise[1]))
    title = "Figure 4: the score by mask size of trained PPCA models, D=200"
    drawing = partial(_draw, estimates, numbers, seeds)
    return PaperFigure("figure_4", title, claims, rows, {"panels": numbers}, drawing)


def _mean_score(estimates: Estimates) -> Float64[np.ndarray, " D"]:
    """The mean curve over the mask seeds."""
    mean: Float64[np.ndarray, " D"] = np.mean([estimate.curve.score for estimate in estimates], axis=0)
    return mean


def _pooled_se(estimates: Estimates) -> float:
    """Standard error of the mean area, from the mask_se of the runs or, for P=1, from their spread."""
    known = [estimate.mask_se for estimate in estimates if estimate.mask_se is not None]
    if len(known) == len(estimates):
        return float(np.sqrt(np.square(known).sum())) / len(estimates)
    return standard_error(np.array([estimate.log_evidence for estimate in estimates]))


def _claims(panel: Panel, area: float, se: float, exact: float, drop: float) -> list[Claim]:
    """The claims on one panel."""
    area_claim = f"{panel.name}: the area is the exact log evidence (within 3 se)"
    claims = [near_exact(area_claim, area, se, exact, digits=4)]
    if panel.masks_per_size > 1:
        low, high = panel.drop
        chosen = f"between {low:.2f} and {high:.2f}, a window that was chosen after the fact"
        measured = f"5 % of the fall is lost after a rate of {drop:.3f}"
        words = f"{panel.name}: the score falls {panel.said} ({chosen})"
        claims.append(Claim(words, measured, low <= drop <= high))
    return claims


def _roughness(score: Float64[np.ndarray, " D"]) -> float:
    """The mean step of a curve from size to size, up to 80 %."""
    return float(np.abs(np.diff(score[: int(0.8 * len(score))])).mean())


def _draw(estimates: Sequence[Estimates], numbers: Sequence[dict[str, Any]], seeds: Sequence[int]) -> Any:
    figure, axes = new_figure(len(PANELS), 12.0, 3.6)
    for ax, of_panel, number in zip(axes, estimates, numbers, strict=True):
        size = of_panel[0].curve.size
        for seed, estimate, colour in zip(seeds, of_panel, COLOURS[1:] * len(seeds), strict=False):
            label = f"mask seed {seed}"
            ax.plot(size, estimate.curve.score, color=colour, linewidth=0.9, alpha=0.8, label=label)
        ax.plot(size, _mean_score(of_panel), color=BLUE, linewidth=1.8, label="mean over the mask seeds")
        for share in (0.15, 0.85):
            ax.axvline(share * N_FEATURES, color=BLACK, linewidth=0.9, linestyle="--")
        ax.axvline(number["drop"] * N_FEATURES, color=BLACK, linewidth=0.9, linestyle=":")
        title = f"{number['panel']}: area {np.mean(number['area']):.2f}, exact {number['exact']:.2f}"
        name_axes(ax, "mask size M (of 200 tokens)", title=title, limits=(0, N_FEATURES))
    axes[0].set_ylabel(SCORE)
    axes[0].legend(fontsize=7.5, frameon=False, loc="lower center")
    note = "dashed: 15 % and 85 %\ndotted: where the fall begins"
    axes[1].text(0.46, 0.1, note, fontsize=7.5, ha="center", transform=axes[1].transAxes)
    return figure
