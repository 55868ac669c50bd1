"""Curves of BERT over the paper's 99 rates: measured on blocks of text, and the published ones."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64, Int64

from maskevidence.data.sources import HubSet
from maskevidence.data.text import read_texts
from maskevidence.errors import InputError
from maskevidence.masks import MaskKey, Rates, size_of_rate
from maskevidence.models.text.masked_lm import MaskedLM
from maskevidence.score import score_masks
from maskevidence.support.hub import hub_reachable
from maskevidence.support.progress import Advance
from maskevidence.tokens import Tokens

RATES = np.arange(1, 100) / 100
WIDTH = 512  # the paper's D
SETS = {
    "AX": "glue/ax:test",
    "CoLA": "glue/cola:train",
    "QNLI": "glue/qnli:validation",
    "MRPC": "glue/mrpc:test",
}
_COLUMNS = {"CoLA": ["sentence"], "QNLI": ["question", "sentence"]}
_PAIR = ["sentence1", "sentence2"]
_AX = ["premise", "hypothesis"]
_DEGREE = 4  # of the polynomial that scores are held against
_STRIDE = 25  # from one mask of a block to its next: far apart, and without a factor in common with 99
_PUBLISHED = Path(__file__).with_name("bert_curves.csv")


@dataclass(frozen=True)
class RateCurve:
    """The score at each of the 99 rates, and the masks that it is the mean of; none for a published curve.

    Attributes:
        score: shape (99,); mean log-probability of a hidden token, nats.
        block: of each mask.
        rate: of each mask, its place in RATES.
        deviation: of each mask, its score minus a polynomial in the rate that is fitted to all scores: a rate
            has too few masks for a mean of its own to show how they scatter.
    """

    score: Float64[np.ndarray, " 99"]
    block: Int64[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rate: Int64[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    deviation: Float64[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0))

    @property
    def n_masks(self) -> Int64[np.ndarray, " 99"]:
        """How many masks each rate has."""
        return np.bincount(self.rate, minlength=len(RATES))

    @property
    def area(self) -> float:
        """The paper's area: 512 · 0.01 · Σ over the 99 rates, nats."""
        return WIDTH * 0.01 * float(self.score.sum())

    @property
    def area_se(self) -> float:
        """Its standard error from the blocks and masks that were drawn, nats.

        Masks of one block are not independent: their deviations are added up before they are squared.
        """
        n_blocks = len(set(self.block.tolist()))
        if n_blocks < 2:
            return math.nan
        parts = np.bincount(self.block, weights=self.deviation / self.n_masks[self.rate])
        variance = n_blocks / (n_blocks - 1) * self._correction * float((parts**2).sum())
        return WIDTH * 0.01 * math.sqrt(variance)

    @property
    def score_se(self) -> float:
        """Standard error of the score at one rate, nats: root mean square over the rates."""
        variance = self._correction * float((self.deviation**2).mean())
        return math.sqrt(variance * float((1 / self.n_masks).mean()))

    @property
    def _correction(self) -> float:
        """For the coefficients that were fitted."""
        return len(self.rate) / (len(self.rate) - _DEGREE - 1)

    @property
    def mean_times_width(self) -> float:
        """512 times the mean score over the rates, nats: weights that add up to 1, not to 0.99."""
        return WIDTH * float(self.score.mean())

    @property
    def spread(self) -> float:
        """Highest minus lowest score over the rates, nats."""
        return float(np.ptp(self.score))


def published_curves() -> dict[tuple[str, str], RateCurve]:
    """The paper's eight curves, by data set and by "random" or "pretrained".

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
    model: MaskedLM, tokens: Tokens, rates_per_block: int, *, seed: int = 0, advance: Advance | None = None
) -> RateCurve:
    """Score blocks at a few rates each, so that all together cover the 99 rates evenly.

    Args:
        model: the model.
        tokens: blocks of text.
        rates_per_block: masks of each block, all of different rates.
        seed: of the masks.
        advance: told how many masks were scored.

    Raises:
        InputError: too few blocks to cover the rates.
    """
    n_pairs = len(tokens) * rates_per_block
    if n_pairs < len(RATES):
        raise InputError(
            f"{len(tokens)} blocks at {rates_per_block} rates each do not cover {len(RATES)} rates; give "
            "more text"
        )
    block = np.repeat(np.arange(len(tokens)), rates_per_block)
    rate = np.arange(n_pairs) * _STRIDE % len(RATES)
    ids, n_tokens = tokens.ids.numpy()[block], tokens.n_tokens.numpy()[block]
    sizes = size_of_rate(RATES[rate], n_tokens)
    design = Rates(tuple(RATES.tolist()))
    masked = design.masked(MaskKey(seed), ids, rate, sizes, tokens.maskable.numpy()[block])
    present = (tokens.maskable | tokens.context).sum(1).numpy()[block]
    score = np.empty(n_pairs)
    with torch.no_grad():
        for part in model.batches(present):
            rows = torch.from_numpy(block[part])
            found = score_masks(model, tokens[rows], torch.from_numpy(masked[part]))
            score[part] = found.double().cpu().numpy()
            if advance is not None:
                advance(len(part))
    return curve_of(block, rate, score)


def curve_of(
    block: Int64[np.ndarray, " n"], rate: Int64[np.ndarray, " n"], score: Float64[np.ndarray, " n"]
) -> RateCurve:
    """The curve of scored masks: of which block each is, at which place in RATES, and its score."""
    counts = np.bincount(rate, minlength=len(RATES))
    mean = np.bincount(rate, weights=score, minlength=len(RATES)) / counts
    smooth = np.polynomial.Polynomial.fit(RATES[rate], score, _DEGREE)(RATES[rate])
    return RateCurve(mean, block, rate, score - smooth)


def mean_curve(curves: Sequence[RateCurve]) -> RateCurve:
    """The mean of several curves of the same masks; the error that they share stays in its own."""
    score, deviation = (
        np.mean([getattr(c, name) for c in curves], axis=0) for name in ("score", "deviation")
    )
    return RateCurve(score, curves[0].block, curves[0].rate, deviation)


def texts_at_hand() -> dict[str, list[str]]:
    """The texts of the paper's GLUE sets that can be had, all columns of a row one after the other.

    Raises:
        InputError: there is none: no hub, and no MASKEVIDENCE_DATA folder with them.
    """
    found = {}
    for name, word in SETS.items():
        local = HubSet(word.partition(":")[0], None).local()
        if local is None and not hub_reachable():
            continue
        read = read_texts(word, _COLUMNS.get(name, _AX if name == "AX" else _PAIR))
        found[name] = [text for row in zip(*read.fields, strict=True) for text in row]
    if not found:
        raise InputError(
            "there is no GLUE text: the hub does not answer, and MASKEVIDENCE_DATA names no folder with "
            "glue/; set that variable, or HF_HOME to a cache that holds it"
        )
    return found


def blocks_of(model: MaskedLM, texts: Mapping[str, Sequence[str]], n_blocks: int, block_size: int) -> Tokens:
    """So many blocks in all, an equal share from the start of each set, with numbers of their own."""
    share = -(-n_blocks // len(texts))
    parts = []
    for name, lines in texts.items():
        tokens = model.tokens(list(lines), block_size=block_size)
        if len(tokens) < share:
            raise InputError(
                f"{name} has {len(tokens)} blocks of {block_size} tokens, {share} are needed; give more"
            )
        parts.append(tokens[:share])
    values, maskable, context = (
        torch.cat([getattr(part, field) for part in parts]) for field in ("values", "maskable", "context")
    )
    return Tokens(values, maskable, context, torch.arange(len(values)))[:n_blocks]
