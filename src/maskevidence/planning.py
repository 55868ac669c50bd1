"""Before a run: how many passes an error of the masks takes with each design, from a small pilot.

The pilot scores a random sample of the observations with pairs of masks that have the same random
size. Let e be what a mask alone says of an observation's log evidence (control_variates.py), and e₁, e₂ those
of a pair. With the means over the pilot's observations of

    B = the variance of (e₁ + e₂)/2 between the pairs of an observation,   W = the mean of (e₁ - e₂)²/2,

a mask of a random size has the variance V = B + W/2, and K draws for each of N observations have the error
mask_se² = V / (N·K), or less where the sizes of an observation are even. With P masks of every size, what
differs between the sizes of an observation leaves the error. The scores S₁, S₂ of a pair tell the variance at
its size M, and D times its mean over random sizes is the sum over sizes:

    mask_se² = (1/N) · mean over pairs of [ D · (S₁ - S₂)²/2 · (1 - p/C)/p · C/(C - 1) ],   p = min(P, C),

for sizes of which C <= 32 masks are drawn without replacement, and with 1/P in place of the last two factors
for all others.

V has a relative error from the masks of the pilot, √(2/df), and another from its choice of n among N
observations: with the variance s² of V between them, s / (V √n) has both. The pilot therefore knows V to

    √( (n/N) · 2/df + (1 - n/N) · max(2/df, s² / (n V²)) ).

V errs on the high side, because a long run fits its control variates to more masks than the pilot does.
"""

import math
import time
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float64, Int64

from maskevidence.errors import InputError
from maskevidence.evidence import kind_of, mean_of_scores
from maskevidence.hidden_tokens import BYTES_PER_TOKEN
from maskevidence.masks import (
    BYTES_PER_MASK,
    MAX_TOKENS_EXHAUSTIVE,
    EverySize,
    Exhaustive,
    LeaveOneOut,
    MaskDesign,
    MaskKey,
    Plan,
    Positions,
    RandomSize,
    Summation,
)
from maskevidence.model import MaskedModel, as_tokens, check_conditionals
from maskevidence.precise import FEWEST, Precise
from maskevidence.score import Scoring, check_tokens, score_in_memory
from maskevidence.score_table import ScoreTable
from maskevidence.standard_errors import MeanWithErrors
from maskevidence.support.subsets import n_subsets
from maskevidence.tokens import Tokens

PILOT_ROWS, PILOT_PAIRS = 64, 64  # the most rows, and how many pairs of masks they have together at least
FEWEST_PAIRS = 4  # of each row
MULTIPLE = 4  # of draws, so that there are replicates
MOST_PER_SIZE = MAX_DRAWS = 2**20
Integers = Int64[np.ndarray, " N"]


@dataclass(frozen=True)
class _Twice(RandomSize):
    """Random sizes, each of which has two masks in a row; a pair is a replicate."""

    @property
    def n_replicates(self) -> int:
        return self.draws // 2

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        return index, super().plan(key, ids, n_tokens, index // 2, position)[1]

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        return super().summation(n_tokens, draw, size)._replace(replicate=draw // 2)


@dataclass(frozen=True)
class DesignPlan:
    """What a design takes.

    Attributes:
        design: its word on the command line.
        options: how many masks it needs, as options of the command line.
        kind: the kind of its estimate, such as "unbiased", or "pseudo" if it is not a log evidence.
        passes: masks over all observations.
        minutes: how long they take on this machine, as the pilot did.
        memory: bytes of the record of scores, which an estimate in memory holds.
        mask_se: the error of the masks with these passes; 0 without any.
    """

    design: str
    options: str
    kind: str
    passes: int
    minutes: float
    memory: int
    mask_se: float


@dataclass(frozen=True)
class PassPlan:
    """How many passes an error of the masks takes with each design.

    Attributes:
        wanted: the error, nats per observation: the target, or the share of the data error that is enough.
        log_evidence: by the pilot, nats per observation.
        data_se: the error of all observations, as the pilot tells it; None if it is not resolved.
        designs: the designs that can reach the error.
        pilot_passes: how many passes the pilot has taken.
        uncertainty: the relative standard error of the passes of random-size and every-size, from the pilot's
            masks and its choice of observations.
        notes: one sentence each.
    """

    wanted: float
    log_evidence: float
    data_se: float | None
    designs: tuple[DesignPlan, ...]
    pilot_passes: int
    uncertainty: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Content for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        """One line for each design."""
        lines = (
            f"{one.design} {one.options}".rstrip() + f": {one.passes:,} passes, {one.minutes:.2g} minutes, "
            f"mask error {one.mask_se:.3g}, {one.kind}"
            for one in self.designs
        )
        return "\n".join([f"for a mask error of {self.wanted:.3g} nats", *lines])


class _Pilot(NamedTuple):
    """What a pilot has found.

    Attributes:
        mean: the log evidence of its rows, with its errors.
        random: V, the variance of a mask of a random size.
        size: shape (n_pairs,); sizes.
        n_tokens: shape (n_pairs,); D.
        at_size: shape (n_pairs,); D · (S₁ - S₂)²/2.
        seconds: of one pass.
        passes: how many it has taken.
        uncertainty: the relative standard error of `random`.
    """

    mean: MeanWithErrors
    random: float
    size: Integers
    n_tokens: Integers
    at_size: Float64[np.ndarray, " n_pairs"]
    seconds: float
    passes: int
    uncertainty: float


def plan(
    model: MaskedModel,
    data: object,
    *,
    target_se: float | None = None,
    target_relative: float | None = None,
    seed: int = 0,
    per_token: bool = False,
) -> PassPlan:
    """How many passes an error of the masks takes with each design, before they are made.

    A pilot of at most a few hundred passes tells the variance of the masks, as `planning.py` explains, and
    the time of a pass. `Precise` with the same target stops by itself; a fixed number of draws is for runs
    that do not see the scores of all observations, as shards.

    Args:
        model: any `MaskedModel`.
        data: what `estimate_evidence` takes, but for moments.
        target_se: the standard error of the masks that is wanted, nats per observation.
        target_relative: the same as a share of the log evidence, in place of `target_se`.
        seed: of the pilot's rows and masks.
        per_token: whether the scores of hidden tokens are to be recorded, too, for random-size.

    Raises:
        InputError: a target or data that cannot be used, or a target that takes more than a million masks of
            each observation.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> found = me.plan(model, model.sample(500, seed=1), target_se=0.02)
        >>> [one.design for one in found.designs]
        ['random-size', 'every-size', 'leave-one-out', 'exhaustive']
        >>> found.designs[0].options, found.designs[0].mask_se <= 0.02
        ('--draws 36', True)
    """
    precise = Precise(target_se, target_relative)
    check_conditionals(model)
    tokens = as_tokens(model, data)
    check_tokens(tokens)
    pilot = _pilot(model, tokens, seed, per_token=per_token)
    n = len(tokens)
    data_se = None if pilot.mean.data_se is None else pilot.mean.data_se * math.sqrt(_n_rows(n) / n)
    target = precise.target(pilot.mean.mean)
    wanted = max(target, precise.negligible * (data_se or 0.0))
    notes = []
    if wanted > target:
        notes.append(
            f"a mask error of {wanted:.3g} nats is {precise.negligible:.0%} of the data error, and less no "
            f"longer matters beside that; the target is {target:.3g}"
        )
    if wanted == 0.0:
        raise InputError("the pilot's log evidence is 0, and so is any share of it; give target_se")
    lengths = tokens.n_tokens.cpu().numpy()
    designs = [
        _planned(design, mask_se, model, lengths, pilot, per_token=per_token)
        for design, mask_se in _designs(lengths, pilot, wanted, precise.first(lengths).draws)
    ]
    if pilot.uncertainty > 0:
        unseen = n - _n_rows(n)
        alike = f", if the {unseen:,} of {n:,} rows that it has not scored are like its own" if unseen else ""
        notes.append(
            "the pilot knows the passes of random-size and every-size to about "
            f"{pilot.uncertainty:.0%}{alike}; Precise (--target-se) measures as it goes"
        )
    return PassPlan(
        wanted, pilot.mean.mean, data_se, tuple(designs), pilot.passes, pilot.uncertainty, tuple(notes)
    )


def _n_rows(n: int) -> int:
    return min(n, PILOT_ROWS)


def _pilot(model: MaskedModel, tokens: Tokens, seed: int, *, per_token: bool) -> _Pilot:
    """Score pairs of masks of some rows."""
    n_rows = _n_rows(len(tokens))
    rows = torch.from_numpy(np.sort(np.random.default_rng(seed).permutation(len(tokens))[:n_rows]))
    draws = 2 * max(FEWEST_PAIRS, math.ceil(PILOT_PAIRS / n_rows))
    design, key = _Twice(draws, FEWEST.replicates), MaskKey(seed)
    some = tokens[rows.to(tokens.values.device)]
    scoring = Scoring(design, key, per_token=per_token)
    first, _ = score_in_memory(model, some, scoring, range(2))  # what happens once takes its time here
    start = time.perf_counter()
    others, _ = score_in_memory(model, some, scoring, range(2, draws))
    seconds = (time.perf_counter() - start) / len(others)
    table = ScoreTable.join([first, others]).sorted()
    _, contribution, mean, _ = mean_of_scores(table, design, key)
    alone = (contribution * draws).reshape(n_rows, draws // 2, 2)
    each = alone.mean(2).var(1, ddof=1) + (np.diff(alone, axis=2) ** 2).mean((1, 2)) / 4  # V of each row
    random = float(each.mean())
    score = table.score.reshape(-1, 2)
    size, n_tokens = table.size[::2], table.n_tokens[::2]
    at_size = n_tokens * (score[:, 0] - score[:, 1]) ** 2 / 2
    masks = 2 / mean.mask_df if mean.mask_df else 0.0
    chosen = max(masks, float(each.var(ddof=1)) / (n_rows * random**2)) if n_rows > 1 and random else masks
    share = n_rows / len(tokens)
    uncertainty = math.sqrt(share * masks + (1 - share) * chosen)
    return _Pilot(mean, random, size, n_tokens, at_size, seconds, len(table), uncertainty)


def _designs(lengths: Integers, pilot: _Pilot, wanted: float, fewest: int) -> list[tuple[MaskDesign, float]]:
    """The designs that reach an error, and the error that they reach, with `fewest` random sizes or more."""
    n = len(lengths)
    draws = max(pilot.random / (n * wanted * wanted), fewest)
    if draws > MAX_DRAWS:
        raise InputError(
            f"a mask error of {wanted:.3g} nats takes about {draws * n:.2g} passes; give a larger target, "
            f"such as {math.sqrt(pilot.random / n) / 10:.2g}, which takes 100 passes for each observation"
        )
    draws = MULTIPLE * math.ceil(draws / MULTIPLE)
    found: list[tuple[MaskDesign, float]] = [(RandomSize(draws), math.sqrt(pilot.random / (n * draws)))]
    every = _every_size(lengths, pilot, wanted)
    if every is not None:
        found.append((every, math.sqrt(_variance_every(every, pilot) / n)))
    found.append((LeaveOneOut(), 0.0))
    if lengths.max() <= MAX_TOKENS_EXHAUSTIVE:
        found.append((Exhaustive(), 0.0))
    return found


def _every_size(lengths: Integers, pilot: _Pilot, wanted: float) -> EverySize | None:
    """The fewest masks of every size that reach an error; None if these are too many."""
    enough, too_few = 1, 0
    while enough <= MOST_PER_SIZE and not _reaches(EverySize(enough), lengths, pilot, wanted):
        too_few, enough = enough, 2 * enough
    if enough > MOST_PER_SIZE:
        return None
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        if _reaches(EverySize(middle), lengths, pilot, wanted):
            enough = middle
        else:
            too_few = middle
    return EverySize(enough)


def _reaches(design: EverySize, lengths: Integers, pilot: _Pilot, wanted: float) -> bool:
    known = design.unknown_error(lengths, "own") is None
    return known and _variance_every(design, pilot) <= len(lengths) * wanted * wanted


def _variance_every(design: EverySize, pilot: _Pilot) -> float:
    """The variance of an observation's estimate by equal numbers of masks of every size."""
    summation = design.summation(pilot.n_tokens, np.zeros_like(pilot.size), pilot.size)
    n_listed = n_subsets(pilot.n_tokens, pilot.size, design.max_listed)
    correction = np.where(n_listed > 0, n_listed / np.maximum(n_listed - 1, 1), 1.0)
    assert summation.unseen is not None
    return float((pilot.at_size * summation.weight * summation.unseen * correction).mean())


def _planned(
    design: MaskDesign,
    mask_se: float,
    model: MaskedModel,
    lengths: Integers,
    pilot: _Pilot,
    *,
    per_token: bool,
) -> DesignPlan:
    passes = _passes(design, lengths)
    memory = passes * BYTES_PER_MASK
    if per_token and design.random_sizes:  # a mask hides half of the tokens on average
        memory += int((lengths + 1).sum() / 2 * passes / len(lengths)) * BYTES_PER_TOKEN
    options = "" if design.extended_by is None else f"{_flag(design.extended_by)} {design.n_repeats}"
    kind = kind_of(design, model.conditionals, lengths)
    return DesignPlan(design.name, options, kind, passes, passes * pilot.seconds / 60, memory, mask_se)


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


def _passes(design: MaskDesign, lengths: Integers) -> int:
    """How many masks a design has on observations of these lengths, without listing them."""
    if not isinstance(design, EverySize):
        return int(design.n_draws(lengths).sum())
    total = 0
    for length, times in zip(*np.unique(lengths, return_counts=True), strict=True):
        n_listed = n_subsets(np.full(length, length), np.arange(1, length + 1), design.max_listed)
        most = np.where(n_listed > 0, np.minimum(n_listed, design.masks_per_size), design.masks_per_size)
        total += int(most.sum()) * int(times)
    return total
