"""Table 2: the area under BERT-base's curve with random and with pre-trained weights, on GLUE text."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from maskevidence.errors import InputError, import_extra
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.models.text.new_bert import load_tokenizer, new_bert
from maskevidence.paper._bert_curves import (
    RATES,
    WIDTH,
    RateCurve,
    blocks_of,
    mean_curve,
    published_curves,
    rate_curve,
    texts_at_hand,
)
from maskevidence.paper._figures import (
    BLUE,
    GREEN,
    ORANGE,
    Claim,
    PaperFigure,
    ResultTable,
    long_form,
    new_figure,
)
from maskevidence.support.hub import hub_reachable
from maskevidence.support.progress import progress

SEEDS = (1, 2, 3)
PRETRAINED = "google-bert/bert-base-uncased"
VOCABULARY = "bert-base-uncased-vocab/vocab.txt"  # below MASKEVIDENCE_DATA
ALL = "all"
Curves = dict[tuple[str, str], RateCurve]


def table_2(
    seeds: Sequence[int] = SEEDS,
    *,
    model: str | None = None,
    n_blocks: int = 64,
    rates_per_block: int = 4,
    block_size: int = 512,
) -> PaperFigure:
    """Areas of BERT-base over the 99 rates: random weights here, and pre-trained ones where they can be had.

    Every block is scored at a few rates, so that all blocks together cover all 99 rates: the area's error
    is that of the blocks and masks, not of the weights. Hidden tokens are [MASK], all of them, and blocks
    are full of text.

    Args:
        seeds: of the random weights.
        model: BERT with its pre-trained weights, a folder or OWNER/NAME; by default bert-base-uncased where
            the hub answers, and none else: then BERT-base with the vocabulary in MASKEVIDENCE_DATA.
        n_blocks: of text, for each of the sets with pre-trained weights, over all of them without.
        rates_per_block: masks of each block.
        block_size: tokens of a block, special tokens included.

    Raises:
        InputError: no text, no vocabulary, or too few blocks.
    """
    curves = base_curves(seeds, model, n_blocks, rates_per_block, block_size)
    random = [curve for (_, weights), curve in curves.items() if weights.startswith("random")]
    mean = mean_curve(random)
    published = published_curves()
    printed = float(np.mean([c.area for (_, weights), c in published.items() if weights == "random"]))
    off = mean.area / printed - 1
    claims = [
        Claim(
            f"random weights: the mean area is within 2 % of the paper's mean of four ({printed:.0f})",
            f"{mean.area:.0f} ± {mean.area_se:.0f} ({off:+.2%})",
            abs(off) < 0.02,
        ),
        Claim(
            "random weights: the curve is flat (highest minus lowest score over the rates below 0.3 nats)",
            f"{mean.spread:.3f} nats; error of a score {mean.score_se:.3f}",
            mean.spread < 0.3,
        ),
        Claim(
            "the two areas: 512 · 0.01 · Σ over the 99 rates, and 512 times the mean score",
            f"{mean.area:.1f} and {mean.mean_times_width:.1f}: the paper's weights add up to 0.99",
            None,
        ),
        *_pretrained_claims(curves, published),
    ]
    rows = [
        {
            "text": text,
            "weights": weights,
            "rate": float(rate),
            "score": float(score),
            "n_masks": int(n),
        }
        for (text, weights), curve in curves.items()
        for rate, score, n in zip(RATES, curve.score, curve.n_masks, strict=True)
    ]
    numbers = {
        "printed_random_mean": printed,
        "areas": {
            f"{text}, {weights}": {
                "area": c.area,
                "area_se": c.area_se,
                "mean_times_512": c.mean_times_width,
                "spread": c.spread,
            }
            for (text, weights), c in {**curves, (ALL, "mean of random"): mean}.items()
        },
        "n_blocks": n_blocks,
        "rates_per_block": rates_per_block,
        "block_size": block_size,
    }
    drawn, missing = _draw(curves)
    title = "Table 2: area under the curve of BERT-base, nats per block of 512"
    return PaperFigure(
        "table_2", title, claims, long_form(rows), numbers, drawn, missing, [_table(curves, mean, published)]
    )


def base_curves(
    seeds: Sequence[int], model: str | None, n_blocks: int, rates_per_block: int, block_size: int
) -> Curves:
    """Curves by text and weights ("random, seed 1", "pretrained"); see `table_2`."""
    texts = texts_at_hand()
    if model is None and hub_reachable():
        model = PRETRAINED
    given = None if model is None else MaskedLM.from_pretrained(model)
    if given is None:
        parts = {ALL if len(texts) > 1 else next(iter(texts)): texts}
    else:
        parts = {name: {name: lines} for name, lines in texts.items()}
    tokenizer = _vocabulary() if given is None else given.tokenizer
    curves: Curves = {}
    n_models = len(seeds) + (given is not None)
    with progress("BERT-base", len(parts) * n_models * n_blocks * rates_per_block) as advance:
        for weights in (*seeds, *(() if given is None else ("pretrained",))):
            if isinstance(weights, str):
                assert given is not None
                chosen, name = given, weights
            else:
                chosen, name = _random_weights(tokenizer, given, weights), f"random, seed {weights}"
            for text, lines in parts.items():
                tokens = blocks_of(chosen, lines, n_blocks, block_size)
                curves[text, name] = rate_curve(chosen, tokens, rates_per_block, advance=advance)
    return curves


def _vocabulary() -> object:
    root = os.environ.get("MASKEVIDENCE_DATA")
    file = None if root is None else Path(root) / VOCABULARY
    if file is None or not file.is_file():
        raise InputError(
            f"there is no vocabulary of BERT-base: the hub does not answer, and MASKEVIDENCE_DATA has no "
            f"{VOCABULARY}; set it to a folder that has, or give --model FOLDER"
        )
    return load_tokenizer(file)


def _random_weights(tokenizer: Any, given: MaskedLM | None, seed: int) -> MaskedLM:
    """BERT-base, or the shape of the model that was given, with weights as they are before training."""
    if given is None:
        return new_bert(tokenizer, "base", seed=seed)
    transformers = import_extra("transformers", "hf", "a masked language model")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = transformers.AutoModelForMaskedLM.from_config(given.network.config)
    return MaskedLM(network.to(given.device).eval(), tokenizer)


def _pretrained_claims(curves: Curves, published: Curves) -> list[Claim]:
    return [
        Claim(
            f"{text}, pre-trained: the area is the published one (within 5 %)",
            f"{curve.area:.0f} ± {curve.area_se:.0f}, published {published[text, 'pretrained'].area:.0f}",
            abs(curve.area / published[text, "pretrained"].area - 1) < 0.05,
        )
        for (text, weights), curve in curves.items()
        if weights == "pretrained"
    ]


def _table(curves: Curves, mean: RateCurve, published: Curves) -> ResultTable:
    columns = ["text, weights", "512·0.01·Σ", "±", "512·mean", "spread", "printed"]
    rows = []
    for (text, weights), c in curves.items():
        theirs = published.get((text, weights.partition(",")[0]))
        rows.append(
            [
                f"{text}, {weights}",
                f"{c.area:.1f}",
                f"{c.area_se:.1f}",
                f"{c.mean_times_width:.1f}",
                f"{c.spread:.2f}",
                "" if theirs is None else f"{theirs.area:.2f}",
            ]
        )
    printed = np.mean([c.area for (_, weights), c in published.items() if weights == "random"])
    rows.append(
        [
            "mean of random weights",
            f"{mean.area:.1f}",
            f"{mean.area_se:.1f}",
            f"{mean.mean_times_width:.1f}",
            f"{mean.spread:.2f}",
            f"{printed:.2f}",
        ]
    )
    return ResultTable("areas, nats; the spread is that of the scores over rates", columns, rows)


def draw_published(ax: Any) -> None:
    """The paper's eight curves, thin."""
    for (_, weights), curve in published_curves().items():
        style = "-" if weights == "pretrained" else "--"
        ax.plot(100 * RATES, curve.score, color=GREEN, linestyle=style, linewidth=0.7, alpha=0.7)
    ax.plot([], [], color=GREEN, linewidth=1, label="published, pre-trained (4 sets)")
    ax.plot([], [], color=GREEN, linewidth=1, linestyle="--", label="published, random (4 sets)")


def label_axes(ax: Any) -> None:
    """Rates below, nats beside."""
    ax.set_xlabel("mask rate (% of tokens hidden)", fontsize=9)
    ax.set_ylabel("score S(x; M)  (nats per hidden token)", fontsize=9)
    ax.set_xlim(0, 100)


def _draw(curves: Curves) -> tuple[Any, str | None]:
    figure, axes, missing = new_figure(1, 6.4, 4.6)
    if figure is None:
        return figure, missing
    ax = axes[0]
    draw_published(ax)
    for weights, colour in (("pretrained", BLUE), ("random", ORANGE)):
        chosen = [curve for (_, name), curve in curves.items() if name.startswith(weights)]
        for place, curve in enumerate(chosen):
            label = f"here, {weights}, {WIDTH} tokens" if place == 0 else None
            ax.plot(
                100 * RATES, curve.score, color=colour, marker=".", markersize=3, linewidth=0.8, label=label
            )
    label_axes(ax)
    figure.legend(
        *ax.get_legend_handles_labels(), fontsize=8, frameon=False, loc="outside lower center", ncols=2
    )
    return figure, missing
