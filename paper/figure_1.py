"""Figure 1: the difference between log evidence and estimate, by the number of masks."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

import maskevidence as me
from paper.figures import SEEDS, Claim, PaperFigure, put, shown
from paper.known_noise import published
from paper.one_rate import RateBias, bias_of_rate
from paper.panels import BLACK, COLOURS, name_axes, new_figure

N_ROWS, N_COMPONENTS, MAX_MASKS, RATE = 100, 2, 200, 0.15
WIDTHS = (5, 50)  # D of the panels with all sizes
RATE_WIDTH = 512  # D of the panel with a fixed rate
QUICK = {"max_masks": 20}


def figure_1(seeds: Sequence[int] = SEEDS, *, max_masks: int = MAX_MASKS) -> PaperFigure:
    """True log evidence minus its estimate for P = 1..200 masks, D = 5 and 50 (all sizes) and 512 (15 %).

    N=100, K=2, β=5. Every seed draws its own parameters, data and masks, which all rows share. An estimate
    from P masks uses the first P of one sequence, so that a single run gives the estimates for every P.
    """
    lines: dict[int, list[Float64[np.ndarray, " P"]]] = {width: [] for width in (*WIDTHS, RATE_WIDTH)}
    errors: dict[int, list[float]] = {width: [] for width in lines}
    truths: dict[int, list[float]] = {width: [] for width in lines}
    biases: list[RateBias] = []
    for width in lines:
        all_sizes = me.EverySize(max_masks).in_training()
        design: me.MaskDesign = all_sizes if width in WIDTHS else me.FixedRate(RATE, max_masks)
        for seed in shown(seeds, f"Figure 1, D = {width}"):
            x, model = published(N_ROWS, width, N_COMPONENTS, seed)
            tokens = put(me.Tokens.from_array(x))
            with torch.no_grad():
                true = float(model.log_evidence(tokens).mean())
            estimate = me.estimate_evidence(model, me.GaussianMoments.from_rows(x), design, seed=seed)
            truths[width].append(true)
            lines[width].append(true - _by_number_of_masks(estimate.scores, width, max_masks))
            errors[width].append(math.nan if estimate.mask_se is None else estimate.mask_se)
            if width == RATE_WIDTH:  # by other masks
                biases.append(bias_of_rate(model, RATE, tokens, min(40, max_masks), seed + 1))
    mean = {width: float(np.mean([line[-1] for line in lines[width]])) for width in lines}
    pooled = {width: math.sqrt(sum(e**2 for e in errors[width])) / len(seeds) for width in lines}
    expected = -float(np.mean([b.bias for b in biases]))
    expected_se = math.sqrt(sum(b.mask_se**2 for b in biases)) / len(seeds)
    rows = [
        {"panel": f"D={width}", "seed": seed, "masks": p + 1, "true_minus_estimate": float(value)}
        | {"relative_to_true": float(value) / true}
        for width in lines
        for seed, line, true in zip(seeds, lines[width], truths[width], strict=True)
        for p, value in enumerate(line)
    ]
    level = {width: float(np.mean(np.abs(truths[width]))) for width in lines}
    numbers: dict[str, Any] = {"mean_difference": mean, "pooled_mask_se": pooled, "mean_magnitude": level}
    numbers |= {"bias_of_rate": -expected, "bias_of_rate_se": expected_se}
    title = "Figure 1: true log evidence minus its estimate, by number of masks"
    claims, drawing = _claims(mean, pooled, max_masks), partial(_draw, lines, level, seeds, expected)
    apart = abs(mean[RATE_WIDTH] - expected) / math.hypot(pooled[RATE_WIDTH], expected_se)
    checks = _checks(apart, f"{expected:+.3f} ± {expected_se:.3f}", biases)
    return PaperFigure("figure_1", title, claims, rows, numbers, drawing, checks=checks)


def _by_number_of_masks(scores: Any, width: int, max_masks: int) -> Float64[np.ndarray, " P"]:
    """The estimates from the first P masks of each size, P = 1, 2, ..., as running means over the draws."""
    weight = width / len(np.unique(scores.size))
    totals = np.bincount(scores.draw, weights=scores.score, minlength=max_masks) * weight
    return np.cumsum(totals) / np.arange(1, max_masks + 1)


def _claims(mean: dict[int, float], pooled: dict[int, float], max_masks: int) -> list[Claim]:
    off, claims = {width: abs(mean[width]) / pooled[width] for width in mean}, []
    for width in WIDTHS:
        words = f"D={width}, all sizes: the difference goes to 0 (mean at P={max_masks} within 3 se)"
        measured = f"{mean[width]:+.4f} ± {pooled[width]:.4f} ({off[width]:.1f} se)"
        claims.append(Claim(words, measured, None if math.isnan(off[width]) else off[width] <= 3))
    last = RATE_WIDTH
    measured = f"{mean[last]:+.3f} ± {pooled[last]:.3f} nats ({off[last]:.0f} se)"
    words = f"D={last}, 15 %: the difference settles on a bias, not on 0"
    return [*claims, Claim(words, measured, off[last] > 3, too_short=not off[last] > 3)]


def _checks(apart: float, expected: str, biases: Sequence[RateBias]) -> list[Claim]:
    block = float(np.mean([b.block_bias for b in biases]))
    visible = float(np.mean([b.visible_evidence for b in biases]))
    error = max(b.identity_error for b in biases)
    same = f"D={RATE_WIDTH}, 15 %: the bias is the same with other masks (within 3 se)"
    what = "the bias is the expected log evidence of the visible tokens"
    summed = f"joint block {block:+.2f}, visible tokens {visible:+.2f}, their sum at most {error:.1e}"
    return [
        Claim(same, f"{expected} nats ({apart:.1f} se apart)", apart <= 3),
        Claim(f"{what}: true of the joint block, with a minus", summed, error < 1e-6),
    ]


def _draw(
    lines: dict[int, list[Float64[np.ndarray, " P"]]],
    level: dict[int, float],
    seeds: Sequence[int],
    expected: float,
) -> Any:
    """The differences in nats on the left of each panel, relative to the mean log evidence on its right."""
    figure, axes = new_figure(len(lines), 11.0, 3.4)
    for ax, (width, of_width) in zip(axes, lines.items(), strict=True):
        for seed, line, colour in zip(seeds, of_width, COLOURS * len(seeds), strict=False):
            ax.plot(np.arange(1, len(line) + 1), line, color=colour, linewidth=1.1, label=f"mask seed {seed}")
        ax.axhline(0.0, color=BLACK, linewidth=1.0, linestyle="--")
        what = "every size" if width in WIDTHS else "15 % of the tokens, 76, at a time"
        x = "P (masks per size)" if width in WIDTHS else "P (masks)"
        name_axes(ax, x, title=f"D = {width}: {what}", limits=(0, len(line)))
        scale = level[width] / 100
        right = ax.secondary_yaxis("right", functions=(lambda v, s=scale: v / s, lambda v, s=scale: v * s))
        right.tick_params(labelsize=8)
    axes[0].set_ylabel("true log evidence − estimate\n(nats per observation)")
    right.set_ylabel("the same in % of the log evidence")
    axes[0].legend(fontsize=7, frameon=False, loc="upper right", ncols=2)
    last = axes[-1]
    last.axhline(expected, color=BLACK, linewidth=1.0, linestyle=":")
    note = "dashed: 0; dotted: mean bias by other masks"
    last.text(0.98, 0.03, note, fontsize=7, ha="right", transform=last.transAxes)
    return figure
