"""Which masking rate: small BERTs trained at several rates and by random sizes, all else equal."""

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import stdtrit

import maskevidence as me
from maskevidence.integrations.huggingface import Recipe
from maskevidence.show import Table
from paper.berts import SmallText, small_text
from paper.figures import Claim, PaperFigure, points, shown, standard_error
from paper.panels import BLACK, COLOURS, legend_below, name_axes, new_figure

SEEDS = (1, 2, 3)
STEPS, WARMUP = 700, 50
QUICK = {"steps": 80, "limit": 64}
RANDOM, USUAL = "random sizes", "15 %"
DESIGNS: dict[str, me.MaskDesign] = {
    USUAL: me.FixedRate(0.15, 1),
    "25 %": me.FixedRate(0.25, 1),
    "40 %": me.FixedRate(0.40, 1),
    "75 %": me.FixedRate(0.75, 1),
    RANDOM: me.RandomSize(1, 1),
}
_BINS = 12
Summary = Mapping[str, Mapping[str, float]]
Estimates = Sequence[me.EvidenceEstimate]


class SizesById(me.RandomSize):
    """Random sizes that follow the ids of the blocks, as in training."""

    def plan(self, key: me.MaskKey, ids: Any, n_tokens: Any, index: Any, position: Any = None) -> Any:
        return super().plan(key, ids, n_tokens, index)


SIZES = SizesById(16, 4)  # of the masks of each held-out block


class Difference(NamedTuple):
    """How much better one way to train is than another, in nats per block, with its 95 % interval.

    Runs with the same seed are paired. `seed_se` is the error over the seeds, `data_se` that of the blocks.
    """

    mean: float
    seed_se: float
    low: float
    high: float
    data_se: float


def masking_rates(
    seeds: Sequence[int] = SEEDS, *, steps: int = STEPS, limit: int | None = None
) -> PaperFigure:
    """Held-out evidence of BERTs (2 layers of 128) trained at 15, 25, 40, 75 % and by random sizes.

    All trainings share the text (which comes with Python), the steps of 32 blocks of 64 tokens, the learning
    rates and, for each seed, the initial weights and the order of the text. All models are scored on the same
    masks of the same held-out blocks, `limit` of them if given. The trainings run in as many processes as
    torch has threads, with one thread each.
    """
    text = small_text(limit)
    width = int(text.held_out.n_tokens[0])
    by_design = _trained_and_scored(text, seeds, steps)
    summary = {name: _summary(estimates) for name, estimates in by_design.items()}
    differences = {name: difference(by_design[name], by_design[USUAL]) for name in DESIGNS if name != USUAL}
    numbers = {
        "steps": steps,
        "seeds": list(seeds),
        "n_blocks": len(text.held_out),
        "tokens_per_block": width,
        "unigram": text.unigram_score() * width,
        "log_evidence": {name: [e.log_evidence for e in estimates] for name, estimates in by_design.items()},
        "summary": summary,
        "minus_15_percent": {name: d._asdict() for name, d in differences.items()},
    }
    rows = [
        {"trained_at": name, "seed": seed, **point}
        for name, estimates in by_design.items()
        for seed, estimate in zip(seeds, estimates, strict=True)
        for point in points(estimate.curve, "size", "rate", "score", "n_masks")
    ]
    title = f"Which masking rate: held-out log evidence after {steps} steps, nats per block of {width} tokens"
    claims, tables = _claims(differences, summary, numbers), [_table(summary, differences)]
    drawing = partial(_draw, by_design, numbers)
    return PaperFigure("masking_rates", title, claims, rows, numbers, drawing, tables)


def _trained_and_scored(text: SmallText, seeds: Sequence[int], steps: int) -> dict[str, Estimates]:
    """The estimates of every design, in the order of the seeds."""
    import joblib

    jobs = [(name, seed) for seed in seeds for name in DESIGNS]
    recipes = {seed: Recipe(steps=steps, warmup=min(WARMUP, steps // 2), seed=seed) for seed in seeds}
    n_jobs = min(torch.get_num_threads(), len(jobs))
    with joblib.parallel_config("loky", n_jobs=n_jobs, inner_max_num_threads=1), warnings.catch_warnings():
        # joblib replaces a process whose memory has grown before its next training, which is harmless.
        warnings.filterwarnings("ignore", "A worker stopped", UserWarning)
        one = joblib.delayed(_one)
        waiting = (one(text, DESIGNS[name], recipes[seed]) for name, seed in jobs)
        estimates = shown(joblib.Parallel(return_as="generator")(waiting), "masking rates", len(jobs))
        by_job = dict(zip(jobs, estimates, strict=True))
    return {name: [by_job[name, seed] for seed in seeds] for name in DESIGNS}


def _one(text: SmallText, design: me.MaskDesign, recipe: Recipe) -> me.EvidenceEstimate:
    """One training and its estimate."""
    return me.estimate_evidence(text.trained(design, recipe), text.held_out, SIZES, seed=0)


def difference(better: Estimates, other: Estimates) -> Difference:
    """The paired difference of the held-out evidence of two ways to train, seed by seed."""
    pairs = list(zip(better, other, strict=True))
    by_seed = np.array([a.log_evidence - b.log_evidence for a, b in pairs])
    by_block = np.mean([a.per_observation - b.per_observation for a, b in pairs], axis=0)
    mean, n = float(by_seed.mean()), len(by_seed)
    se = standard_error(by_seed)
    half = float(stdtrit(n - 1, 0.975)) * se if n > 1 else math.inf
    return Difference(mean, se, mean - half, mean + half, standard_error(by_block))


def _summary(estimates: Estimates) -> dict[str, float]:
    values = np.array([estimate.log_evidence for estimate in estimates])
    blocks = np.mean([estimate.per_observation for estimate in estimates], axis=0)
    mask = [estimate.mask_se for estimate in estimates if estimate.mask_se is not None]
    mask_se = float(np.sqrt(np.mean(np.square(mask)))) if mask else math.nan
    errors = {"seed_se": standard_error(values), "mask_se": mask_se, "data_se": standard_error(blocks)}
    return {"mean": float(values.mean())} | errors


def _table(summary: Summary, differences: Mapping[str, Difference]) -> Table:
    """The log evidence of every design, and its difference from 15 %."""
    columns = ["trained at", "log evidence", "masks", "blocks", "minus 15 %", "blocks"]
    rows = []
    for name, s in summary.items():
        row = [name, f"{s['mean']:.2f} ± {s['seed_se']:.2f}", f"{s['mask_se']:.2f}", f"{s['data_se']:.2f}"]
        d = differences.get(name)
        row += ["", ""] if d is None else [f"{d.mean:+.2f} ± {d.seed_se:.2f}", f"{d.data_se:.2f}"]
        rows.append(row)
    title = "log evidence of a held-out block, nats: mean ± se over seeds; se of masks and of blocks"
    return Table(columns, rows, title)


def _claims(
    differences: Mapping[str, Difference], summary: Summary, numbers: Mapping[str, Any]
) -> list[Claim]:
    d = differences[RANDOM]
    known = d.low > 0 or d.high < 0
    best = max(summary, key=lambda name: summary[name]["mean"])
    least = min(s["mean"] for s in summary.values())
    above, short = least > numbers["unigram"], numbers["steps"] < STEPS
    interval = f"{d.mean:+.2f} nats per block, {d.low:+.2f} to {d.high:+.2f}; blocks' error {d.data_se:.2f}"
    return [
        Claim("random sizes give a higher held-out evidence than 15 % (95 % interval over seeds)").by(
            interval + ("" if known else ": the two cannot be told apart"),
            d.low > 0 if known else None,
            too_short=short,
        ),
        Claim("the best of the five", f"{best}, {summary[best]['mean']:.2f} nats per block"),
        Claim("all are above word frequencies alone").by(
            f"least {least:.2f}, frequencies {numbers['unigram']:.2f}", above, too_short=short
        ),
    ]


def _binned(estimates: Estimates) -> tuple[np.ndarray, np.ndarray]:
    """Mean rate and score in bins of equal width over the masks of all seeds; rate 1 has its own bin."""
    rate = np.concatenate([e.scores.size / e.scores.n_tokens for e in estimates])
    score = np.concatenate([e.scores.score for e in estimates])
    place = np.where(rate == 1.0, _BINS, np.minimum(_BINS - 1, (rate * _BINS).astype(np.int64)))
    _, place, counts = np.unique(place, return_inverse=True, return_counts=True)
    return np.bincount(place, weights=rate) / counts, np.bincount(place, weights=score) / counts


def _draw(by_design: Mapping[str, Estimates], numbers: Mapping[str, Any]) -> Any:
    figure, (left, right) = new_figure(2, 10.5, 4.2)
    markers = ("o", "s", "^", "v", "D")
    for place, (name, estimates) in enumerate(by_design.items()):
        colour, marker = COLOURS[place], markers[place]
        rate, score = _binned(estimates)
        left.plot(100 * rate, score, color=colour, marker=marker, markersize=3.5, linewidth=1.3, label=name)
        values = [e.log_evidence for e in estimates]
        right.plot([place] * len(values), values, marker, color=colour, markersize=4, alpha=0.45)
        mean, se = (numbers["summary"][name][key] for key in ("mean", "seed_se"))
        bar = {"marker": "_", "markersize": 18, "capsize": 5, "linewidth": 1.5}
        right.errorbar(place, mean, yerr=se, color=colour, **bar)
    per_token = numbers["unigram"] / numbers["tokens_per_block"]
    left.axhline(per_token, color=BLACK, linewidth=0.8, linestyle="--", label="word frequencies")
    x, y = "share of the tokens hidden when scored (%)", "held-out score S(x; M)  (nats per hidden token)"
    name_axes(left, x, y, f"curves, mean of {len(numbers['seeds'])} seeds", limits=(0, 102))
    right.set_xticks(range(len(by_design)), list(by_design), fontsize=8)
    y, title = "held-out log evidence  (nats per block)", "area: each seed; mean ± standard error"
    name_axes(right, "masks in training", y, title, limits=(-0.6, len(by_design) - 0.4))
    legend_below(figure, left, fontsize=8, ncols=6, title="trained with masks of", title_fontsize=8)
    return figure
