"""Table 2: the area under the curve of BERT-base with random and with pre-trained weights, on GLUE text."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from maskevidence.show import Table
from paper.bert_curves import WIDTH, Curves, RateCurve, curve_rows, draw_base, mean_curve, published_curves
from paper.berts import ALL, base_curves
from paper.figures import Claim, PaperFigure, below
from paper.panels import legend_below, new_figure

SEEDS = (1, 2, 3)
_FLAT, _SPREAD_OF_NOISE = 0.3, 7  # nats; standard errors that the range of 99 normal numbers seldom exceeds
QUICK = {"seeds": SEEDS[:1], "n_blocks": 27, "block_size": 64}


def table_2(
    seeds: Sequence[int] = SEEDS,
    *,
    model: str | None = None,
    n_blocks: int = 64,
    rates_per_block: int = 4,
    block_size: int = 512,
) -> PaperFigure:
    """Areas of BERT-base over the 99 rates, with random weights and, if available, pre-trained ones.

    Every block is scored at a few rates, so that all blocks together cover all 99 rates. The error of an area
    is that of blocks and masks, not of weights. Hidden tokens become [MASK], and blocks are full of text.

    Args:
        seeds: the seeds of the random weights.
        model: BERT with pre-trained weights, a folder or OWNER/NAME. By default bert-base-uncased if the hub
            answers; if not, there are random weights alone, with the vocabulary in MASKEVIDENCE_DATA.
        n_blocks: the number of blocks of each text, or of all texts together without pre-trained weights.
        rates_per_block: the number of masks of each block.
        block_size: the number of tokens of a block, special tokens included.

    Raises:
        InputError: no text, no vocabulary, or too few blocks.
    """
    curves = base_curves(seeds, model, n_blocks, rates_per_block, block_size)
    mean = mean_curve([curve for (_, weights), curve in curves.items() if weights.startswith("random")])
    published = published_curves()
    printed = float(np.mean([c.area for (_, weights), c in published.items() if weights == "random"]))
    numbers = {
        "printed_random_mean": printed,
        "areas": {
            f"{text}, {weights}": {"area": c.area, "area_se": c.area_se}
            | {"mean_times_512": c.mean_times_width, "spread": c.spread}
            for (text, weights), c in {**curves, (ALL, "mean of random"): mean}.items()
        },
        "n_blocks": n_blocks,
        "rates_per_block": rates_per_block,
        "block_size": block_size,
    }
    lines = []
    for (text, weights), curve in curves.items():
        theirs = published.get((text, weights.partition(",")[0]))
        lines.append((f"{text}, {weights}", curve, "" if theirs is None else f"{theirs.area:.2f}"))
    lines.append(("mean of random weights", mean, f"{printed:.2f}"))
    cells = [
        (name, f"{c.area:.1f}", f"{c.area_se:.1f}", f"{c.mean_times_width:.1f}", f"{c.spread:.2f}", theirs)
        for name, c, theirs in lines
    ]
    columns = ("text, weights", "512·0.01·Σ", "±", "512·mean", "spread", "printed")
    table = Table(columns, cells, "areas, nats; the spread is that of the scores over rates")
    title = "Table 2: area under the curve of BERT-base, nats per block of 512"
    claims, rows = _claims(curves, mean, printed, published), curve_rows(curves, "text")
    return PaperFigure("table_2", title, claims, rows, numbers, partial(_draw, curves), [table])


def _claims(curves: Curves, mean: RateCurve, printed: float, published: Curves) -> list[Claim]:
    """The claims on random weights, and on pre-trained ones if there are any."""
    off, off_se = mean.area / printed - 1, mean.area_se / abs(printed)
    flat = "random weights: the curve is flat (highest minus lowest score over the rates below 0.3 nats)"
    claims = [
        below(
            f"random weights: the mean area is within 2 % of the paper's mean of four ({printed:.0f})",
            f"{mean.area_in_words} ({off:+.2%})",
            abs(off),
            0.02,
            room=3 * off_se,
        ),
        _flat(flat, mean),
        Claim("the two areas: 512 · 0.01 · Σ over the 99 rates, and 512 times the mean score").by(
            f"{mean.area:.1f} and {mean.mean_times_width:.1f}: the paper's weights add up to 0.99"
        ),
    ]
    for (text, weights), curve in curves.items():
        if weights == "pretrained":
            theirs = published[text, "pretrained"].area
            near = f"{text}, pre-trained: the area is the published one (within 5 %)"
            measured, room = f"{curve.area_in_words}, published {theirs:.0f}", 3 * curve.area_se / abs(theirs)
            claims.append(below(near, measured, abs(curve.area / theirs - 1), 0.05, room))
    return claims


def _flat(claim: str, curve: RateCurve) -> Claim:
    """The claim that a curve is flat; noise alone spreads the 99 scores by up to 7 standard errors."""
    measured = f"{curve.spread:.3f} nats; error of a score {curve.score_se:.3f}"
    room = 0.0 if curve.spread < _FLAT else _SPREAD_OF_NOISE * curve.score_se
    return below(claim, measured, curve.spread, _FLAT, room)


def _draw(curves: Curves) -> Any:
    figure, (ax,) = new_figure(1, 6.4, 4.6)
    draw_base(ax, curves, "", f"here, {{}}, {WIDTH} tokens")
    legend_below(figure, ax, fontsize=8, ncols=2)
    return figure
