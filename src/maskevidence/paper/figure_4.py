"""Figure 4: the score by mask size of a trained PPCA model."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64

from maskevidence.curve import Curve
from maskevidence.evidence import EvidenceEstimate, estimate_evidence
from maskevidence.gaussian_moments import GaussianMoments
from maskevidence.masks import EverySize
from maskevidence.paper._figures import (
    BLACK,
    BLUE,
    COLOURS,
    SEEDS,
    Claim,
    PaperFigure,
    best_with_known_noise,
    long_form,
    new_figure,
    published,
)
from maskevidence.support.progress import progress
from maskevidence.tokens import Tokens

N_ROWS, N_FEATURES = 1000, 200
LOST, FLAT_RATE = 0.05, 0.15


class Panel(NamedTuple):
    """One panel: K, P, and where the paper sees the drop."""

    n_components: int
    masks_per_size: int
    drop: tuple[float, float]
    said: str


PANELS = (
    Panel(5, 1, (0.85, 0.92), "beyond 90 % masking"),
    Panel(5, 100, (0.85, 0.92), "beyond 90 % masking"),
    Panel(50, 5, (0.42, 0.52), "from about 50 % on"),
)


def drop_rate(score: Float64[np.ndarray, " D"]) -> float:
    """Where a curve starts to fall: the largest rate at which little of the whole fall has happened yet.

    The largest M/D at which S has lost at most 5 % of the way from its mean over rates up to 15 % down to
    S(D).

    Args:
        score: shape (D,); S(x; M) for M = 1..D.

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
    (Figure 2). Masks are shared by the rows, so that their moments are enough.

    Args:
        seeds: of the masks.
        masks_per_size: P of each of the three panels; by default the paper's 1, 100 and 5.
    """
    counts = [panel.masks_per_size for panel in PANELS] if masks_per_size is None else list(masks_per_size)
    estimates: list[list[EvidenceEstimate]] = []
    exact = []
    with progress("Figure 4", len(PANELS) * len(seeds)) as advance:
        for panel, count in zip(PANELS, counts, strict=True):
            x, _ = published(N_ROWS, N_FEATURES, panel.n_components)
            moments = GaussianMoments.from_rows(x)
            model = best_with_known_noise(moments, panel.n_components)
            with torch.no_grad():
                exact.append(float(model.log_evidence(Tokens.from_array(x)).mean()))
            of_panel = []
            for seed in seeds:
                of_panel.append(
                    estimate_evidence(model, moments, EverySize(count), seed=seed, batch_size=4096)
                )
                advance(1)
            estimates.append(of_panel)
    claims, numbers = [], []
    for panel, count, of_panel, truth in zip(PANELS, counts, estimates, exact, strict=True):
        curve = np.mean([e.curve.score for e in of_panel], axis=0)
        areas = np.array([e.log_evidence for e in of_panel])
        se = _pooled_se(of_panel, areas)
        drop = drop_rate(curve)
        name = f"K={panel.n_components}, P={count}"
        off = abs(areas.mean() - truth) / se
        claims.append(
            Claim(
                f"{name}: the area is the exact log evidence (within 3 se)",
                f"{areas.mean():.4f} ± {se:.4f}, exact {truth:.4f} ({off:.1f} se apart)",
                bool(off <= 3),
            )
        )
        if count > 1:
            low, high = panel.drop
            claims.append(
                Claim(
                    f"{name}: the score falls {panel.said} (here between {low:.2f} and {high:.2f})",
                    f"5 % of the fall is lost after a rate of {drop:.3f}",
                    low <= drop <= high,
                )
            )
        numbers.append({"panel": name, "exact": truth, "area": areas.tolist(), "se": se, "drop": drop})
    noise = [float(np.mean([_roughness(e.curve) for e in of_panel])) for of_panel in estimates]
    claims.append(
        Claim(
            f"P={counts[0]} is noisy, P={counts[1]} is not (mean step from size to size, flat part, K=5)",
            f"{noise[0]:.4f} nats against {noise[1]:.4f}",
            noise[0] > 2 * noise[1],
        )
    )
    rows = [
        {
            "panel": number["panel"],
            "seed": seed,
            "size": int(size),
            "rate": size / N_FEATURES,
            "score": float(s),
        }
        for number, of_panel in zip(numbers, estimates, strict=True)
        for seed, e in zip(seeds, of_panel, strict=True)
        for size, s in zip(e.curve.size, e.curve.score, strict=True)
    ]
    drawn, missing = _draw(estimates, counts, numbers, seeds)
    title = "Figure 4: the score by mask size of trained PPCA models, D=200"
    return PaperFigure("figure_4", title, claims, long_form(rows), {"panels": numbers}, drawn, missing)


def _pooled_se(estimates: Sequence[EvidenceEstimate], areas: Float64[np.ndarray, " R"]) -> float:
    """Standard error of the mean area: from each run's own mask_se, or from the spread of the runs (P=1)."""
    known = [e.mask_se for e in estimates if e.mask_se is not None]
    if len(known) == len(estimates):
        return float(np.sqrt(np.square(known).sum())) / len(estimates)
    return float(areas.std(ddof=1) / np.sqrt(len(areas))) if len(areas) > 1 else float("nan")


def _roughness(curve: Curve) -> float:
    return float(np.abs(np.diff(curve.score[: int(0.8 * len(curve.score))])).mean())


def _draw(
    estimates: Sequence[Sequence[EvidenceEstimate]],
    counts: Sequence[int],
    numbers: Sequence[dict[str, Any]],
    seeds: Sequence[int],
) -> tuple[Any, str | None]:
    figure, axes, missing = new_figure(len(PANELS), 12.0, 3.6)
    for ax, panel, count, of_panel, number in zip(axes, PANELS, counts, estimates, numbers, strict=False):
        size = of_panel[0].curve.size
        for seed, estimate, colour in zip(seeds, of_panel, COLOURS[1:] * len(seeds), strict=False):
            ax.plot(size, estimate.curve.score, color=colour, linewidth=0.9, alpha=0.8, label=f"masks {seed}")
        mean = np.mean([e.curve.score for e in of_panel], axis=0)
        ax.plot(size, mean, color=BLUE, linewidth=1.8, label="their mean")
        for share in (0.15, 0.85):
            ax.axvline(share * N_FEATURES, color=BLACK, linewidth=0.9, linestyle="--")
        ax.axvline(number["drop"] * N_FEATURES, color=BLACK, linewidth=0.9, linestyle=":")
        ax.set_title(
            f"K={panel.n_components}, P={count}: area {np.mean(number['area']):.2f}, "
            f"exact {number['exact']:.2f}",
            fontsize=9.5,
        )
        ax.set_xlabel("mask size M (of 200 tokens)", fontsize=9)
        ax.set_xlim(0, N_FEATURES)
    if figure is not None:
        axes[0].set_ylabel("score S(x; M)  (nats per hidden token)", fontsize=9)
        axes[0].legend(fontsize=7.5, frameon=False, loc="lower center")
        axes[1].text(
            0.46,
            0.1,
            "dashed: 15 % and 85 %\ndotted: where the fall begins",
            fontsize=7.5,
            ha="center",
            transform=axes[1].transAxes,
        )
    return figure, missing
