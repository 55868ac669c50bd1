"""Forecast from a pilot how many draws of random sizes reach a target for the mask error.

The pilot is the first stage of `Precise` on a random sample of n of the N observations. With its `mask_se` s
and ν degrees of freedom, as many draws for each of the N observations have an error of about s·√(n/N) with
ν·N/n degrees of freedom, and `Precise` says how many draws follow from that. With 64 observations or fewer,
the pilot is the first stage of the run itself.

s² has a relative error from the masks of the pilot, √(2/ν), and another from its choice of observations. With
the masks' variance of each observation's estimate, whose mean is v̄ and whose standard deviation is t,
t/(v̄ √n) has both. The number of draws is therefore known to

    √( (n/N) · 2/ν + (1 - n/N) · max(2/ν, t² / (n v̄²)) ),

or less well where scores have heavy tails. A long run fits its control variates to more masks than the pilot
does, so that the forecast errs on the high side, above all with `per_token`; `benchmarks/forecast.py`
compares it with the passes that `Precise` takes.
"""

import math
import time
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int64

from maskevidence.errors import InputError
from maskevidence.evidence.precise import Precise
from maskevidence.evidence.result import EvidenceEstimate, summarize_scores
from maskevidence.evidence.score_means import mean_of_scores
from maskevidence.masks.by_name import DesignWord
from maskevidence.masks.design import MaskKey
from maskevidence.masks.drawing import BYTES_PER_MASK
from maskevidence.masks.sizes import MAX_TOKENS_EXHAUSTIVE, Exhaustive, RandomSize
from maskevidence.model import MaskedModel, as_tokens, check_conditionals
from maskevidence.scores.record import BYTES_PER_TOKEN, ScoreTable
from maskevidence.scores.score import Scoring, check_tokens, score_in_memory
from maskevidence.tokens import Tokens

PILOT_ROWS = 64  # at most
MOST_DRAWS = 2**20


@dataclass(frozen=True)
class PassPlan:
    """How many masks of random sizes reach a target for the mask error.

    Attributes:
        design: the word of the design, such as "random-size:36".
        draws: masks of each observation.
        passes: masks of all observations.
        minutes: how long they take on this machine, as the pilot did.
        memory: bytes of the record of scores, which an estimate in memory holds.
        mask_se: the error of the masks with these draws, nats per observation.
        enough: the error at which `Precise` ends the draws, nats per observation: the target, or a share of
            the data error if that is larger.
        log_evidence: by the pilot, nats per observation.
        data_se: the error of all observations, by the pilot; None if it is not resolved.
        pilot_passes: masks of the pilot.
        uncertainty: the relative standard error of `passes`, from the pilot's masks and observations.
        notes: one sentence each.
    """

    design: str
    draws: int
    passes: int
    minutes: float
    memory: int
    mask_se: float
    enough: float
    log_evidence: float
    data_se: float | None
    pilot_passes: int
    uncertainty: float
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Content for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        digits = ".0f" if self.minutes >= 10 else ".2g"
        minutes = f"{self.minutes:,{digits}}" if self.minutes >= 0.01 else "less than 0.01"
        return (
            f"{self.design} reaches a mask error of {self.enough:.3g} nats: {self.passes:,} passes, "
            f"{minutes} minutes, {self.memory / 2**20:,.1f} MiB of scores"
        )


def plan(
    model: MaskedModel, data: object, precise: Precise, *, seed: int = 0, per_token: bool = False
) -> PassPlan:
    """Forecast how many masks of random sizes reach a target, from a pilot of at most a few hundred passes.

    `estimate_evidence` with the same `Precise` stops by itself. A fixed number of draws is for runs that do
    not see the scores of all observations, such as shards.

    Args:
        model: any `MaskedModel`.
        data: what `estimate_evidence` takes, but for moments.
        precise: the target, without `max_passes`.
        seed: of the pilot's observations and masks.
        per_token: whether the run will record the scores of hidden tokens.

    Raises:
        InputError: `max_passes`, data that cannot be used, or a target that takes more than a million masks
            of each observation.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> forecast = me.plan(model, model.sample(500, seed=1), me.Precise(target_se=0.02))
        >>> forecast.design, forecast.passes, forecast.mask_se <= 0.02
        ('random-size:28', 14000, True)
    """
    if precise.max_passes is not None:
        raise InputError("max_passes belongs to a run; plan says how many passes a target takes")
    check_conditionals(model)
    tokens = as_tokens(model, data)
    check_tokens(tokens)
    lengths, n = tokens.n_tokens.cpu().numpy(), len(tokens)
    pilot = _pilot(model, tokens, precise, seed, per_token=per_token)
    estimate = pilot.estimate
    enough = precise.enough(estimate)
    if enough == 0.0:
        raise InputError("the pilot's log evidence is 0, and so is any share of it; give target_se")
    needed = max(precise.needed(pilot.draws, estimate), precise.first(lengths).draws)
    if needed > MOST_DRAWS:
        raise InputError(
            f"a mask error of {enough:.3g} nats takes about {needed * n:.2g} passes; give a larger target, "
            f"such as {enough * math.sqrt(needed / 100):.2g}, which takes 100 passes for each observation"
        )
    draws = math.ceil(needed)
    while RandomSize(draws).n_replicates < RandomSize.min_replicates:
        draws += 1
    memory = n * draws * BYTES_PER_MASK
    if per_token:  # a mask hides half of the tokens on average
        memory += int((lengths + 1).sum() / 2) * draws * BYTES_PER_TOKEN
    return PassPlan(
        design=str(DesignWord(RandomSize(draws), per_token=per_token)),
        draws=draws,
        passes=n * draws,
        minutes=n * draws * pilot.seconds / 60,
        memory=memory,
        mask_se=(estimate.mask_se or 0.0) * math.sqrt(pilot.draws / draws),
        enough=enough,
        log_evidence=estimate.log_evidence,
        data_se=estimate.data_se,
        pilot_passes=pilot.passes,
        uncertainty=pilot.uncertainty,
        notes=tuple(_notes(precise, pilot, lengths)),
    )


def _notes(precise: Precise, pilot: "_Pilot", lengths: Int64[np.ndarray, " N"]) -> list[str]:
    """Notes on the target, on the forecast's uncertainty, and on the cost of all masks of short rows."""
    enough, target = precise.enough(pilot.estimate), precise.target(pilot.estimate.log_evidence)
    notes, n = [], len(lengths)
    if enough > target:
        notes.append(
            f"a mask error of {enough:.3g} nats is {precise.negligible:.0%} of the data error, and less no "
            f"longer matters beside that; the target is {target:.3g}"
        )
    if pilot.uncertainty > 0:
        unseen = max(0, n - PILOT_ROWS)
        alike = (
            f", if the {unseen:,} of {n:,} rows that the pilot left out are like its own" if unseen else ""
        )
        notes.append(
            f"the number of passes is forecast from a pilot of {pilot.passes:,}, to about "
            f"{pilot.uncertainty:.0%}, or less well if scores have heavy tails{alike}; Precise (--target-se) "
            "measures as it goes"
        )
    if lengths.max() <= MAX_TOKENS_EXHAUSTIVE:
        every_mask = int(Exhaustive().n_draws(lengths).sum())
        notes.append(f"exhaustive scores every mask, {every_mask:,} passes without an error of the masks")
    return notes


class _Pilot(NamedTuple):
    """The first stage of `Precise` on some observations."""

    estimate: EvidenceEstimate  # with the errors that as many draws for all observations would have
    draws: int  # masks of each of its observations
    passes: int  # its masks
    seconds: float  # of one pass
    uncertainty: float  # the relative standard error of mask_se²


def _pilot(model: MaskedModel, tokens: Tokens, precise: Precise, seed: int, *, per_token: bool) -> _Pilot:
    """Score the first stage on a random sample of the observations."""
    rows = np.sort(np.random.default_rng(seed).permutation(len(tokens))[:PILOT_ROWS])
    some = tokens[torch.from_numpy(rows).to(tokens.values.device)]
    design, key = precise.first(some.n_tokens.cpu().numpy()), MaskKey(seed)
    scoring = Scoring(design, key, per_token=per_token)
    begun, _ = score_in_memory(model, some, scoring, range(1))  # what happens once takes its time here
    start = time.perf_counter()
    others, n_calls = score_in_memory(model, some, scoring, range(1, design.draws))
    seconds = (time.perf_counter() - start) / len(others)
    table = ScoreTable.join([begun, others]).sorted()
    estimate = summarize_scores(table, design, key, model.conditionals, n_calls)
    share = len(rows) / len(tokens)
    masks = chosen = 2 / estimate.mask_df if estimate.mask_df else 0.0
    each = mean_of_scores(table, design, key).by_row
    if each is not None and len(each) > 1:
        chosen = max(masks, float(each.var(ddof=1) / (len(each) * each.mean() ** 2)))
    estimate = replace(
        estimate,
        mask_se=None if estimate.mask_se is None else estimate.mask_se * math.sqrt(share),
        mask_df=None if estimate.mask_df is None else estimate.mask_df / share,
        data_se=None if estimate.data_se is None else estimate.data_se * math.sqrt(share),
    )
    uncertainty = math.sqrt(share * masks + (1 - share) * chosen)
    return _Pilot(estimate, design.draws, len(table), seconds, uncertainty)
