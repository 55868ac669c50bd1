"""Curves of BERT over the paper's 99 rates: published, or measured on blocks of text."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64, Int64

import maskevidence as me
from paper.figures import shown
from paper.panels import BLUE, GREEN, ORANGE, SCORE, name_axes

RATES = np.arange(1, 100) / 100
WIDTH = 512  # the paper's D
SETS = ("AX", "CoLA", "QNLI", "MRPC")
_DEGREE = 4  # of the polynomial that the scores are compared with
_STRIDE = 25  # between the rates of two masks of one block; it has no factor in common with 99
_PUBLISHED = Path(__file__).with_name("bert_curves.csv")


@dataclass(frozen=True)
class RateCurve:
    """The score at each of the 99 rates, and the masks behind it. A published curve has no masks.

    Attributes:
        score: the mean log-probability of a hidden token at each rate, in nats.
        block: the block of each mask.
        rate: the index into `RATES` of each mask.
        deviation: the score of each mask minus a polynomial in the rate that is fitted to all scores. A
            single rate has too few masks to show how their scores scatter.
    """

    score: Float64[np.ndarray, " 99"]
    block: Int64[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rate: Int64[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    deviation: Float64[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0))

    @property
    def n_masks(self) -> Int64[np.ndarray, " 99"]:
        """The number of masks of each rate."""
        return np.bincount(self.rate, minlength=len(RATES))

    @property
    def area(self) -> float:
        """The area as the paper defines it: 512 · 0.01 · Σ of the scores over the 99 rates, in nats."""
        return WIDTH * 0.01 * float(self.score.sum())

    @property
    def area_se(self) -> float:
        """The standard error of the area due to the sampled blocks and masks, in nats.

        Masks of one block are not independent, so their deviations are summed before they are squared.
        """
        n_blocks = len(set(self.block.tolist()))
        if n_blocks < 2:
            return math.nan
        parts = np.bincount(self.block, weights=self.deviation / self.n_masks[self.rate])
        variance = n_blocks / (n_blocks - 1) * self._correction * float((parts**2).sum())
        return WIDTH * 0.01 * math.sqrt(variance)

    @property
    def score_se(self) -> float:
        """The standard error of the score at one rate, in nats, as the root mean square over the rates."""
        variance = self._correction * float((self.deviation**2).mean())
        return math.sqrt(variance * float((1 / self.n_masks).mean()))

    @property
    def _correction(self) -> float:
        """The factor that corrects a variance for the fitted coefficients."""
        return len(self.rate) / (len(self.rate) - _DEGREE - 1)

    @property
    def mean_times_width(self) -> float:
        """512 times the mean score, in nats. Its weights add up to 1, and those of `area` to 0.99."""
        return WIDTH * float(self.score.mean())

    @property
    def spread(self) -> float:
        """The highest minus the lowest score over the rates, in nats."""
        return float(np.ptp(self.score))

    @property
    def area_in_words(self) -> str:
        """The area and its standard error."""
        return f"{self.area:.0f} ± {self.area_se:.0f}"


Curves = dict[tuple[str, str], RateCurve]  # by text or model, and weights


def published_curves() -> Curves:
    """The paper's eight curves, by data set and weights ("random" or "pretrained").

    Source:
        Moreno-Muñoz, Recasens, Hauberg (2023), the results in their public repository, pmorenoz/MPT-LML.

    Example:
        >>> curves = published_curves()
        >>> round(curves["AX", "random"].area, 1), round(curves["QNLI", "pretrained"].area, 1)
        (-5245.3, -1770.3)
    """
    lines = [line for line in _PUBLISHED.read_text().splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    return {
        (name, weights): RateCurve(np.array([float(row[f"{name.lower()}_{weights}"]) for row in rows]))
        for name in SETS
        for weights in ("random", "pretrained")
    }


def rate_curve(
    model: me.models.MaskedLM, tokens: me.Tokens, rates_per_block: int, *, seed: int = 0, what: str = "BERT"
) -> RateCurve:
    """Score blocks at a few rates each, so that together they cover the 99 rates evenly.

    Raises:
        InputError: too few blocks to cover the rates.
    """
    n_pairs = len(tokens) * rates_per_block
    if n_pairs < len(RATES):
        few = f"{len(tokens)} blocks at {rates_per_block} rates each do not cover {len(RATES)} rates"
        raise me.InputError(f"{few}; give more text")
    block = np.repeat(np.arange(len(tokens)), rates_per_block)
    rate = np.arange(n_pairs) * _STRIDE % len(RATES)
    key, ids = me.MaskKey(seed), tokens.ids.numpy()[block]
    design = me.Rates(tuple(RATES.tolist()))
    _, sizes = design.plan(key, ids, tokens.n_tokens.numpy()[block], rate)
    masked = design.masked(key, ids, rate, sizes, tokens.maskable.numpy()[block])
    present = (tokens.maskable | tokens.context).sum(1).numpy()[block]
    score = np.empty(n_pairs)
    with torch.no_grad():
        for part in shown(list(model.batches(present)), what):
            of_part = tokens[torch.from_numpy(block[part])]
            scores = me.score_masks(model, of_part, torch.from_numpy(masked[part]))
            score[part] = scores.double().cpu().numpy()
    return curve_of(block, rate, score)


def curve_of(
    block: Int64[np.ndarray, " n"], rate: Int64[np.ndarray, " n"], score: Float64[np.ndarray, " n"]
) -> RateCurve:
    """The curve of scored masks."""
    counts = np.bincount(rate, minlength=len(RATES))
    mean = np.bincount(rate, weights=score, minlength=len(RATES)) / counts
    smooth = np.polynomial.Polynomial.fit(RATES[rate], score, _DEGREE)(RATES[rate])
    return RateCurve(mean, block, rate, score - smooth)


def mean_curve(curves: Sequence[RateCurve]) -> RateCurve:
    """The mean of several curves with the same masks, whose error they share."""
    score = np.mean([curve.score for curve in curves], axis=0)
    deviation = np.mean([curve.deviation for curve in curves], axis=0)
    return RateCurve(score, curves[0].block, curves[0].rate, deviation)


def curve_rows(curves: Curves, first: str) -> list[dict[str, Any]]:
    """The curves in long form, one row per rate."""
    return [
        {first: name, "weights": weights, "rate": float(rate), "score": float(score), "n_masks": int(n)}
        for (name, weights), curve in curves.items()
        for rate, score, n in zip(RATES, curve.score, curve.n_masks, strict=True)
    ]


def draw_base(ax: Any, curves: Curves, title: str, label: str = "here, {}") -> None:
    """Draw the paper's eight curves, and those of BERT-base measured here."""
    for (_, weights), curve in published_curves().items():
        style = "-" if weights == "pretrained" else "--"
        ax.plot(100 * RATES, curve.score, color=GREEN, linestyle=style, linewidth=0.7, alpha=0.7)
    ax.plot([], [], color=GREEN, linewidth=1, label="published, pre-trained (4 sets)")
    ax.plot([], [], color=GREEN, linewidth=1, linestyle="--", label="published, random (4 sets)")
    for weights, colour in (("pretrained", BLUE), ("random", ORANGE)):
        measured = [curve for (_, name), curve in curves.items() if name.startswith(weights)]
        for place, curve in enumerate(measured):
            draw_curve(ax, curve, colour, label.format(weights) if place == 0 else None)
    name_rates(ax, title)


def draw_curve(ax: Any, curve: RateCurve, colour: str, label: str | None) -> None:
    """Draw one measured curve."""
    ax.plot(100 * RATES, curve.score, ".-", color=colour, markersize=3, linewidth=0.8, label=label)


def name_rates(ax: Any, title: str) -> None:
    """Name the axes of a panel with rates and scores."""
    name_axes(ax, "mask rate (% of tokens hidden)", SCORE, title, limits=(0, 100))
