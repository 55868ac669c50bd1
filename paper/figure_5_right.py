"""Figure 5, right: the curve of BERT with random and with trained weights."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import maskevidence as me
from maskevidence.integrations.huggingface import Recipe
from paper import bert_curves
from paper.bert_curves import Curves, RateCurve, published_curves, rate_curve
from paper.berts import base_curves, small_text
from paper.figures import Claim, PaperFigure
from paper.panels import BLACK, BLUE, ORANGE, new_figure

BERT_STEPS = 1000
QUICK = {"steps": 100, "block_size": 64, "limit": 32}
# Blocks differ more than rates do. The small BERT is scored on the same blocks at every rate.
_RATES_PER_BLOCK = len(bert_curves.RATES)


def figure_5_right(
    seeds: Sequence[int] = (1,),
    *,
    steps: int = BERT_STEPS,
    n_blocks: int = 25,
    block_size: int = 512,
    model: str | None = None,
    limit: int | None = None,
) -> PaperFigure:
    """Curves of BERT-base beside the published ones, and of a small BERT before and after training.

    Without text or vocabulary for BERT-base, the left panel shows the published curves alone. The small BERT
    is trained by random mask sizes on the text that comes with Python.

    Args:
        seeds: the seeds of the random weights; the first one is also the seed of the small BERT.
        steps: the number of training steps of the small BERT.
        n_blocks: the number of blocks for BERT-base, each scored at four rates.
        block_size: the number of tokens of these blocks.
        model: BERT with pre-trained weights, as for `table_2`.
        limit: the number of held-out blocks that the small BERT is scored on; by default all.

    Raises:
        InputError: a given `model` that cannot be scored.
    """
    note = None
    try:
        base = base_curves(seeds, model, n_blocks, 4, block_size)
    except me.InputError as error:
        if model is not None:
            raise
        base, note = {}, str(error)
    text = small_text()
    held_out = text.held_out[:limit]
    recipe = Recipe(steps=steps, warmup=min(50, steps // 2), seed=seeds[0])
    small = {
        "random": rate_curve(text.new_model(seeds[0]), held_out, _RATES_PER_BLOCK),
        "trained": rate_curve(text.trained(me.RandomSize(1, 1), recipe), held_out, _RATES_PER_BLOCK),
    }
    unigram = text.unigram_score()
    ours = {(f"BERT-base, {name}", weights): curve for (name, weights), curve in base.items()}
    ours |= {("small BERT", weights): curve for weights, curve in small.items()}
    numbers = {
        "steps": steps,
        "unigram": unigram,
        "areas": {f"{name}, {weights}": [c.area, c.area_se] for (name, weights), c in ours.items()},
    }
    claims, drawing = _claims(base, small, numbers, note), partial(_draw, base, small, unigram)
    title = "Figure 5, right: the curve of BERT, from random to trained"
    rows = bert_curves.curve_rows(ours, "model")
    return PaperFigure("figure_5_right", title, claims, rows, numbers, drawing)


def _claims(
    base: Curves, small: dict[str, RateCurve], numbers: Mapping[str, Any], note: str | None
) -> list[Claim]:
    """The claims on the published curves, on BERT-base and on the small BERT."""
    claims = []
    for name in bert_curves.SETS:
        first, *_, last = published_curves()[name, "pretrained"].score.tolist()
        claim = f"published, {name}, pre-trained: the score falls from 1 % to 99 %"
        claims.append(Claim(claim, f"{first:.2f} to {last:.2f} nats", first > last))
    for (name, weights), curve in base.items():
        mean, untrained = curve.score.mean(), weights.startswith("random")
        claim = f"BERT-base, {name}, {weights}: " + ("near -log(30522) = -10.33" if untrained else "the area")
        measured = f"mean score {mean:.2f} nats, area {curve.area_in_words}"
        claims.append(Claim(claim, measured, abs(mean + 10.33) < 0.3 if untrained else None))
    before, after = small["random"], small["trained"]
    few, many, unigram = float(after.score[:10].mean()), float(after.score[-1]), numbers["unigram"]
    shaped = few - many >= 0.5 and few > unigram
    flat = Claim("small BERT, random weights: flat (scores of the 99 rates within 0.3 nats)")
    claims.append(flat.by(f"{before.spread:.2f} nats; area {before.area_in_words}", before.spread < 0.3))
    claim = "small BERT, trained: shaped (score up to 10 % half a nat above that at 99 %, and the unigram's)"
    measured = f"{few:.2f} and {many:.2f} nats, word frequencies {unigram:.2f}; area {after.area_in_words}"
    short = numbers["steps"] < BERT_STEPS
    claims.append(Claim(claim, measured, shaped, too_short=short))
    return claims if note is None else [*claims, Claim("BERT-base was not scored", note)]


def _draw(base: Curves, small: dict[str, RateCurve], unigram: float) -> Any:
    figure, (left, right) = new_figure(2, 10.5, 4.4)
    bert_curves.draw_base(left, base, "BERT-base, GLUE")
    for name, colour in (("random", ORANGE), ("trained", BLUE)):
        bert_curves.draw_curve(right, small[name], colour, f"{name} here")
    right.axhline(unigram, color=BLACK, linewidth=0.8, linestyle="--", label="word frequencies")
    bert_curves.name_rates(right, "small BERT, text that comes with Python, held out")
    for ax in (left, right):
        ax.legend(fontsize=7.5, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)
    return figure
