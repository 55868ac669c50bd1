"""The log evidence of a model, estimated by the area under its curve."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Float64, Int64

from maskevidence.curve import Curve, curve_from_scores
from maskevidence.errors import InputError
from maskevidence.masks import EverySize, MaskDesign, MaskKey, Masks, Orderings
from maskevidence.model import Conditionals, HasScoreMoments, HasScoreOrderings, MaskedModel
from maskevidence.moments import GaussianMoments
from maskevidence.progress import progress
from maskevidence.provenance import command, versions
from maskevidence.score import ScoreTable, score_masks
from maskevidence.standard_errors import mean_with_errors, t_half_width
from maskevidence.tokens import Tokens

Kind = Literal["exact", "unbiased", "approximate", "lower_bound", "pseudo"]


@dataclass(frozen=True)
class EvidenceEstimate:
    """An estimate of the log evidence with its errors; nats per observation unless a name says otherwise.

    Attributes:
        log_evidence: Σ over sizes of the score, averaged over observations (Eq. 2).
        mask_se: Monte-Carlo standard error of the masks, given these observations; None where the design
            has too few replicates to know it, 0 where every mask was enumerated.
        mask_df: degrees of freedom of mask_se; None where it is unknown or infinite.
        data_se: sampling standard error of the observations, for the mean over their population; None for
            a single observation.
        kind: what the number is: "exact", "unbiased", "approximate", "lower_bound" or "pseudo".
        n_observations: how many observations were scored.
        n_tokens: how many tokens they have in total.
        n_masks: how many masks were scored, over all observations.
        n_model_calls: how many times the model was called.
        design: name and parameters of the mask design.
        masks: "own" or "shared".
        seed: of the masks.
        ids: shape (n_observations,); the observations, ascending.
        per_observation: shape (n_observations,); each one's own estimate of its log evidence, nats.
        curve: the score by mask size.
        scores: the record, a row per observation and mask.
        notes: what a reader should know beside the numbers, one sentence each.
    """

    log_evidence: float
    mask_se: float | None
    mask_df: float | None
    data_se: float | None
    kind: Kind
    n_observations: int
    n_tokens: int
    n_masks: int
    n_model_calls: int
    design: dict[str, Any]
    masks: Masks
    seed: int
    ids: Int64[np.ndarray, " n_observations"] = field(repr=False)
    per_observation: Float64[np.ndarray, " n_observations"] = field(repr=False)
    curve: Curve = field(repr=False)
    scores: ScoreTable = field(repr=False)
    notes: tuple[str, ...] = ()

    @property
    def per_token(self) -> float:
        """Log evidence per token: the total over observations by the total number of tokens, nats."""
        return self.log_evidence * self.n_observations / self.n_tokens

    @property
    def bits_per_token(self) -> float:
        """Code length: minus the log evidence per token, in bits."""
        return -self.per_token / math.log(2)

    @property
    def perplexity_bound(self) -> float:
        """exp(-per_token): the perplexity of a joint density, an upper bound on it for a lower bound."""
        return math.exp(-self.per_token)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Student's t interval for the log evidence of these observations: the masks' error alone.

        Args:
            level: the share of runs whose interval shall hold the truth, in (0, 1).

        Raises:
            InputError: mask_se is not known, or a level outside (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise InputError(f"level={level}; give a share in (0, 1), such as 0.95")
        if self.mask_se is None:
            raise InputError(f"there is no interval: {self.notes[0]}")
        half = t_half_width(self.mask_se, math.inf if self.mask_df is None else self.mask_df, level)
        return self.log_evidence - half, self.log_evidence + half

    def to_dict(self) -> dict[str, Any]:
        """What `estimate.json` holds: the numbers, and seed, versions and command that made them."""
        names = (
            "log_evidence mask_se mask_df data_se kind n_observations n_tokens n_masks n_model_calls "
            "per_token bits_per_token design masks seed"
        )
        values = {name: getattr(self, name) for name in names.split()}
        values["interval_95"] = None if self.mask_se is None else list(self.interval(0.95))
        return values | {"notes": list(self.notes), "versions": versions(), "command": command()}


def estimate_evidence(
    model: MaskedModel,
    data: object,
    design: MaskDesign | None = None,
    *,
    seed: int = 0,
    masks: Masks = "own",
    batch_size: int = 1024,
) -> EvidenceEstimate:
    """Estimate the log evidence of a model on data: the area under its curve (Eq. 2).

    log p(x) = Σ_{M=1}^{D} S(x; M), S(x; M) = E_masks of size M [(1/M) Σ_{j masked} log p(x_j | x_visible)].

    The result depends on (seed, observation ids, design) alone: not on the batch size, the order of the rows
    or any global random state.

    Args:
        model: any `MaskedModel`.
        data: `Tokens`, or an (N, D) table with NaN where a value is missing; or `GaussianMoments` for
            models that score them (masks are then shared by all rows, and data_se is not known).
        design: how masks are drawn; by default `EverySize(masks_per_size=4)`.
        seed: of the masks.
        masks: "own" for each observation, or "shared" by all.
        batch_size: how many masks go into one call of the model.

    Raises:
        InputError: data, design or options that cannot be used.
        NumericalError: a log-probability that is not finite.

    Source:
        Moreno-Muñoz, Recasens, Hauberg (2023), On Masked Pre-training and the Marginal Likelihood, Prop. 1.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> x = model.sample(50, seed=1)
        >>> estimate = me.estimate_evidence(model, x, design=me.EverySize(masks_per_size=8), seed=0)
        >>> low, high = estimate.interval(0.999)
        >>> low < float(model.score_samples(x).mean()) < high
        True
    """
    design = EverySize() if design is None else design
    if batch_size < 1:
        raise InputError(f"batch_size={batch_size}; give a whole number of 1 or more")
    if isinstance(data, GaussianMoments):
        key = MaskKey(seed, "shared")
        table, n_calls = _score_moments(model, data, design, key, batch_size)
        estimate = summarize_scores(table, design, key, model.conditionals, n_calls)
        return replace(
            estimate, n_observations=data.n_rows, n_tokens=data.n_rows * estimate.n_tokens, data_se=None
        )
    key = MaskKey(seed, masks)
    tokens = data if isinstance(data, Tokens) else Tokens.from_array(data)
    _check_tokens(tokens)
    if isinstance(design, Orderings) and isinstance(model, HasScoreOrderings):
        table, n_calls = _score_orderings(model, tokens, design, key, batch_size)
    else:
        table, n_calls = _score_pairs(model, tokens, design, key, batch_size)
    return summarize_scores(table, design, key, model.conditionals, n_calls)


def summarize_scores(
    scores: ScoreTable, design: MaskDesign, key: MaskKey, conditionals: Conditionals, n_model_calls: int
) -> EvidenceEstimate:
    """The estimate that a record of scores stands for.

    Args:
        scores: a row per observation and mask, in any order.
        design: the design that drew the masks.
        key: their seed, and whether they were shared.
        conditionals: the model's.
        n_model_calls: how many times the model was called.
    """
    table = scores.sorted()
    ids, first, observation = np.unique(table.id, return_index=True, return_inverse=True)
    lengths = table.n_tokens[first]
    summation = design.summation(table.n_tokens, table.draw, table.size)
    contribution = summation.weight * table.score
    mean = mean_with_errors(
        contribution,
        observation,
        summation.stratum,
        summation.replicate,
        design.n_replicates,
        joint=design.pooled or key.masks == "shared",
        deterministic=design.deterministic,
        least_replicates=design.least_replicates,
    )
    notes = []
    if mean.mask_se is None:
        notes.append(
            f"mask_se is not known: {design.name} with {design.n_replicates} independent masks needs "
            f"{design.least_replicates}; data_se holds the masks' error too"
        )
    return EvidenceEstimate(
        log_evidence=mean.mean,
        mask_se=mean.mask_se,
        mask_df=mean.mask_df if mean.mask_df is not None and math.isfinite(mean.mask_df) else None,
        data_se=mean.data_se,
        kind=_kind(design, conditionals, lengths),
        n_observations=len(ids),
        n_tokens=int(lengths.sum()),
        n_masks=len(table),
        n_model_calls=n_model_calls,
        design=design.settings(),
        masks=key.masks,
        seed=key.seed,
        ids=ids,
        per_observation=np.bincount(observation, weights=contribution),
        curve=curve_from_scores(table, design, key.masks),
        scores=table,
        notes=tuple(notes),
    )


def _kind(design: MaskDesign, conditionals: Conditionals, lengths: Int64[np.ndarray, " n"]) -> Kind:
    if not all(design.covers_all_sizes(int(length)) for length in np.unique(lengths)):
        return "pseudo"
    if conditionals == "exact":
        return "exact" if design.deterministic else "unbiased"
    return "approximate" if conditionals == "approximate" else "lower_bound"


def _check_tokens(tokens: Tokens) -> None:
    empty = torch.nonzero(tokens.n_tokens == 0).flatten()
    if len(tokens) == 0 or len(empty):
        which = f"observation {int(tokens.ids[empty[0]])} has" if len(empty) else "the data have"
        raise InputError(f"{which} no token to hide; leave such observations out")
    if len(torch.unique(tokens.ids)) < len(tokens):
        raise InputError("two observations have the same id; ids must differ, since masks are keyed by them")


def _score_pairs(
    model: MaskedModel, tokens: Tokens, design: MaskDesign, key: MaskKey, batch_size: int
) -> tuple[ScoreTable, int]:
    """Score every (observation, mask) pair, `batch_size` of them a call."""
    device = tokens.values.device
    ids, n_tokens = tokens.ids.cpu().numpy(), tokens.n_tokens.cpu().numpy()
    maskable = tokens.maskable.cpu().numpy()
    counts = design.n_draws(n_tokens)
    row = np.repeat(np.arange(len(ids)), counts)
    index = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    if key.masks == "shared":  # equal masks side by side, so that a model can share their work
        order = np.argsort(index, kind="stable")
        row, index = row[order], index[order]
    draw, size = design.plan(key, ids[row], n_tokens[row], index)
    score = np.empty(len(row))
    with torch.no_grad(), progress("scoring masks", len(row)) as advance:
        for part in _slices(len(row), batch_size):
            masked = design.masked(key, ids[row[part]], draw[part], size[part], maskable[row[part]])
            batch = tokens[torch.from_numpy(row[part]).to(device)]
            score[part] = score_masks(model, batch, torch.from_numpy(masked).to(device)).cpu().numpy()
            advance(len(masked))
    return ScoreTable(ids[row], draw, size, n_tokens[row], score), math.ceil(len(row) / batch_size)


def _score_orderings(
    model: MaskedModel, tokens: Tokens, design: Orderings, key: MaskKey, batch_size: int
) -> tuple[ScoreTable, int]:
    """Score whole orders: all sizes of one at once."""
    assert isinstance(model, HasScoreOrderings)
    device = tokens.values.device
    ids, n_tokens = tokens.ids.cpu().numpy(), tokens.n_tokens.cpu().numpy()
    maskable = tokens.maskable.cpu().numpy()
    order, row = (grid.ravel() for grid in np.indices((design.orders, len(ids))))
    score = np.empty((len(row), tokens.width))
    with torch.no_grad(), progress("scoring orders", len(row)) as advance:
        for part in _slices(len(row), batch_size):
            ranks = design.ranks(key, ids[row[part]], order[part], maskable[row[part]])
            batch = tokens[torch.from_numpy(row[part]).to(device)]
            score[part] = model.score_orderings(batch, torch.from_numpy(ranks).to(device)).cpu().numpy()
            advance(len(ranks))
    size = np.broadcast_to(np.arange(1, tokens.width + 1), score.shape)
    real = size <= n_tokens[row][:, None]
    id_, draw, n = (
        np.broadcast_to(values[:, None], score.shape)[real] for values in (ids[row], order, n_tokens[row])
    )
    return ScoreTable(id_, draw, size[real], n, score[real]), math.ceil(len(row) / batch_size)


def _score_moments(
    model: MaskedModel, moments: GaussianMoments, design: MaskDesign, key: MaskKey, batch_size: int
) -> tuple[ScoreTable, int]:
    """Score shared masks on the moments of complete rows, as if those were one observation."""
    if not isinstance(model, HasScoreMoments):
        raise InputError(f"{type(model).__name__} cannot score moments; give the rows themselves")
    width = len(moments.mean)
    total = int(design.n_draws(np.array([width]))[0])
    ids, n_tokens = np.zeros(total, dtype=np.int64), np.full(total, width)
    draw, size = design.plan(key, ids, n_tokens, np.arange(total))
    score = np.empty(total)
    with torch.no_grad(), progress("scoring masks", total) as advance:
        for part in _slices(total, batch_size):
            maskable = np.ones((len(ids[part]), width), dtype=np.bool_)
            masked = design.masked(key, ids[part], draw[part], size[part], maskable)
            score[part] = model.score_moments(moments, torch.from_numpy(masked)).cpu().numpy()
            advance(len(masked))
    return ScoreTable(ids, draw, size, n_tokens, score), math.ceil(total / batch_size)


def _slices(total: int, batch_size: int) -> Iterator[slice]:
    return (slice(start, start + batch_size) for start in range(0, total, batch_size))
