"""Figure 5, right: the curve of BERT with random and with trained weights."""

from collections.abc import Sequence
from typing import Any

from maskevidence.errors import InputError
from maskevidence.integrations.huggingface.recipe import Recipe
from maskevidence.masks import RandomSize
from maskevidence.paper._bert_curves import RATES, RateCurve, published_curves, rate_curve
from maskevidence.paper._figures import BLACK, BLUE, ORANGE, Claim, PaperFigure, long_form, new_figure
from maskevidence.paper.table_2 import Curves, base_curves, draw_published, label_axes
from maskevidence.support.progress import progress
from maskevidence.tasks.embedded_text import embedded_text

BERT_STEPS = 1000
_RATES_PER_BLOCK = len(RATES)  # of the small BERT: blocks differ more than rates do, and are the same at each


def figure_5_right(
    seeds: Sequence[int] = (1,),
    *,
    steps: int = BERT_STEPS,
    n_blocks: int = 25,
    block_size: int = 512,
    model: str | None = None,
    limit: int | None = None,
) -> PaperFigure:
    """Curves of BERT-base beside the published ones, and of a small BERT before and after training here.

    Args:
        seeds: of the random weights; the first is also that of the small BERT.
        steps: of the small BERT's training by random mask sizes, on the text that comes with Python.
        n_blocks: for BERT-base, each scored at four rates.
        block_size: tokens of them.
        model: BERT with pre-trained weights, as for `table_2`; the left panel has the published curves alone
            where no text or vocabulary is to be had.
        limit: score the first so many held-out blocks of the small BERT only.
    """
    try:
        base: Curves = base_curves(seeds, model, n_blocks, 4, block_size)
        note = None
    except InputError as error:
        if model is not None:
            raise
        base, note = {}, str(error)
    text = embedded_text()
    held_out = text.held_out[:limit]
    recipe = Recipe(steps=steps, warmup=min(50, steps // 2), seed=seeds[0])
    with progress("small BERT", 2 * _RATES_PER_BLOCK * len(held_out)) as advance:
        small = {
            "random": rate_curve(text.new_model(seeds[0]), held_out, _RATES_PER_BLOCK, advance=advance),
            "trained": rate_curve(
                text.trained(RandomSize(1, 1), recipe), held_out, _RATES_PER_BLOCK, advance=advance
            ),
        }
    unigram = text.unigram_score()
    ours = {**{(f"BERT-base, {name}", weights): c for (name, weights), c in base.items()}}
    ours |= {("small BERT", weights): curve for weights, curve in small.items()}
    rows = [
        {"model": name, "weights": weights, "rate": float(rate), "score": float(score), "n_masks": int(n)}
        for (name, weights), c in ours.items()
        for rate, score, n in zip(RATES, c.score, c.n_masks, strict=True)
    ]
    numbers = {
        "steps": steps,
        "unigram": unigram,
        "areas": {f"{name}, {weights}": [c.area, c.area_se] for (name, weights), c in ours.items()},
    }
    drawn, missing = _draw_bert(base, small, unigram)
    return PaperFigure(
        "figure_5_right",
        "Figure 5, right: the curve of BERT, from random to trained",
        _bert_claims(base, small, unigram, note),
        long_form(rows),
        numbers,
        drawn,
        missing,
    )


def _bert_claims(base: Curves, small: dict[str, RateCurve], unigram: float, note: str | None) -> list[Claim]:
    claims = []
    for name in ("AX", "CoLA", "QNLI", "MRPC"):
        curve = published_curves()[name, "pretrained"]
        claims.append(
            Claim(
                f"published, {name}, pre-trained: the score falls from 1 % to 99 %",
                f"{curve.score[0]:.2f} to {curve.score[-1]:.2f} nats",
                bool(curve.score[0] > curve.score[-1]),
            )
        )
    for (name, weights), curve in base.items():
        flat = weights.startswith("random")
        claims.append(
            Claim(
                f"BERT-base, {name}, {weights}: " + ("near -log(30522) = -10.33" if flat else "the area"),
                f"mean score {curve.score.mean():.2f} nats, area {curve.area:.0f} ± {curve.area_se:.0f}",
                bool(abs(curve.score.mean() + 10.33) < 0.3) if flat else None,
            )
        )
    before, after = small["random"], small["trained"]
    few, many = float(after.score[:10].mean()), float(after.score[-1])
    claims += [
        Claim(
            "small BERT, random weights: flat (scores of the 99 rates within 0.3 nats)",
            f"{before.spread:.2f} nats; area {before.area:.0f} ± {before.area_se:.0f}",
            before.spread < 0.3,
        ),
        Claim(
            "small BERT, trained: shaped (score up to 10 % half a nat above that at 99 %, and the unigram's)",
            f"{few:.2f} and {many:.2f} nats, word frequencies {unigram:.2f}; area {after.area:.0f} ± "
            f"{after.area_se:.0f}",
            few - many >= 0.5 and few > unigram,
        ),
    ]
    if note is not None:
        claims.append(Claim("BERT-base was not scored", note, None))
    return claims


def _draw_bert(base: Curves, small: dict[str, RateCurve], unigram: float) -> tuple[Any, str | None]:
    figure, axes, missing = new_figure(2, 10.5, 4.4)
    if figure is None:
        return figure, missing
    left, right = axes
    draw_published(left)
    for weights, colour in (("pretrained", BLUE), ("random", ORANGE)):
        chosen = [curve for (_, name), curve in base.items() if name.startswith(weights)]
        for place, curve in enumerate(chosen):
            label = f"here, {weights}" if place == 0 else None
            left.plot(100 * RATES, curve.score, ".-", color=colour, markersize=3, linewidth=0.8, label=label)
    left.set_title("BERT-base, GLUE", fontsize=10)
    for name, colour in (("random", ORANGE), ("trained", BLUE)):
        right.plot(
            100 * RATES,
            small[name].score,
            ".-",
            color=colour,
            markersize=3,
            linewidth=0.8,
            label=f"{name} here",
        )
    right.axhline(unigram, color=BLACK, linewidth=0.8, linestyle="--", label="word frequencies")
    right.set_title("small BERT, text that comes with Python, held out", fontsize=10)
    for ax in axes:
        label_axes(ax)
        ax.legend(fontsize=7.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    return figure, missing
