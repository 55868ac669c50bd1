"""Bias and variance of a single mask rate, for models with the conditionals of a joint density."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch import Tensor

from maskevidence.errors import InputError
from maskevidence.evidence.estimate import estimate_evidence
from maskevidence.masks.design import MaskKey, Masks
from maskevidence.masks.sizes import FixedRate, size_of_rate
from maskevidence.model import HasLogEvidence, as_tokens, to_device_of
from maskevidence.show.parts import Page, Part, Table
from maskevidence.show.pictures import Band, Line, Lines
from maskevidence.show.shown import Columns, Shown
from maskevidence.show.words import MINUS, Write, digits_for, number, standard_error, typeset
from maskevidence.support.keyed_random import keyed_ranks
from maskevidence.tokens import Tokens

_Z = 1.96


@dataclass(frozen=True, repr=False)
class RateBias(Shown):
    """D·S(x; M) compared with log p(x) at one rate; nats per observation.

    Attributes:
        rate: the mask rate.
        size: M, averaged over the observations if their lengths differ.
        bias: mean over the observations of D·S(x; M) - log p(x).
        mask_se: Monte-Carlo standard error of the bias, from the masks.
        data_se: sampling standard error of the bias, from the observations; None for a single observation,
            and if mask_se is too large to resolve it.
        mask_variance: variance of D times the score of a single random mask about D·S(x; M), nats². With own
            masks, it is the mean over the observations; with shared masks, the variance of their mean.
        rmse: √(bias² + mask_variance), the root mean square error of a single mask.
        seconds_per_mask: seconds per mask and observation, measured on this machine.
        variance_seconds: mask_variance · seconds_per_mask, nats² s: the cost of precision at this rate.
        block_bias: mean of log p(x_masked | x_visible) - log p(x), the bias of the *joint* block, unscaled.
        visible_evidence: mean of log p(x_visible) on the same masks.
        identity_error: largest |block_bias + visible_evidence| of a single mask; 0 up to rounding, since
            the block follows from the conditionals by the chain rule, and log p from the closed form.
    """

    rate: float
    size: float
    bias: float
    mask_se: float | None
    data_se: float | None
    mask_variance: float | None
    rmse: float | None
    seconds_per_mask: float
    variance_seconds: float | None
    block_bias: float
    visible_evidence: float
    identity_error: float

    def page(self) -> Page:
        """The bias with its errors."""
        digits = digits_for(self.mask_se, self.data_se)
        errors = ", ".join(
            f"{name} {'not known' if error is None else number(error, digits)}"
            for name, error in (("mask_se", self.mask_se), ("data_se", self.data_se))
        )
        bias = f"bias {number(self.bias, digits)} nats per observation"
        line = f"RateBias({self.rate:.0%} masked, {bias}, {errors})"
        return replace(RateBiases([self]).page(), line=line)


class RateBiases(Shown, list[RateBias]):
    """The bias at each of several rates, a list."""

    def page(self) -> Page:
        """The most accurate rate, bias and error of a single mask at each rate, and what a mask costs."""
        if not self:
            return Page("RateBiases(no rates)", "No rates")
        digits = digits_for(*(each.mask_se for each in self))
        accuracy = [
            [
                f"{100 * each.rate:g} %",
                f"{each.size:.0f}",
                typeset(each.bias, digits),
                standard_error(each.mask_se, digits, typeset),
                standard_error(each.data_se, digits, typeset),
                _known(each.mask_variance and math.sqrt(each.mask_variance), digits),
                _known(each.rmse, digits),
            ]
            for each in self
        ]
        columns = ["hidden", "M", "bias", "mask_se", "data_se", "sd of one mask", "RMSE of one mask"]
        cost = [
            [
                f"{100 * each.rate:g} %",
                "not known" if each.variance_seconds is None else f"{each.variance_seconds:.2e}",
                typeset(each.block_bias),
                typeset(-each.visible_evidence),
            ]
            for each in self
        ]
        headings = ["hidden", "variance · seconds", "joint block's bias", f"{MINUS}E log p(visible)"]
        parts: list[Part] = [
            Table(columns, accuracy, "D·S(x; M) minus log p(x) by mask rate, nats per observation"),
            Table(headings, cost, "Cost of a mask, and the bias of the unscaled joint block"),
            f"The joint block's bias plus E log p(visible) is at most "
            f"{max(each.identity_error for each in self):.1e}.",
        ]
        if len(self) > 1:
            parts.insert(1, self.picture()[0])
        rates = ", ".join(f"{each.rate:.0%}" for each in self)
        return Page(f"RateBiases({rates}: {self._headline(number)})", self._headline(typeset), parts=parts)

    def picture(self) -> tuple[Lines, str]:
        """The bias and the root mean square error of a single mask, by rate."""
        ascending = sorted(self, key=lambda each: each.rate)
        rate = np.array([100 * each.rate for each in ascending])
        bias = np.array([each.bias for each in ascending])
        half = _Z * np.array([math.hypot(each.mask_se or 0.0, each.data_se or 0.0) for each in ascending])
        rmse = np.array([math.nan if each.rmse is None else each.rmse for each in ascending])
        band = Band("both", bias - half, bias + half, "95 % interval, masks and data")
        lines = [
            Line("bias", rate, bias, [band]),
            Line("root mean square error of one mask", rate, rmse, number=1),
        ]
        x_label, y_label = (
            "mask rate (% of tokens hidden)",
            "D·S(x; M) minus log p(x)  (nats per observation)",
        )
        return Lines(lines, x_label, y_label, zero=True), self._headline(typeset) if self else ""

    def columns(self) -> Columns:
        """A row for each rate, and a column for each number."""
        names = [each.name for each in fields(RateBias)]
        return Columns({name: [_or_nan(getattr(each, name)) for each in self] for name in names})

    def _headline(self, write: Write) -> str:
        """The rates whose single mask is the most accurate, and the cheapest."""
        random = [each for each in self if each.rmse is not None]
        if len(self) == 1 or not random:
            digits = digits_for(self[0].mask_se, self[0].data_se)
            bias = write(self[0].bias, digits)
            return f"Bias {bias} nats per observation at {100 * self[0].rate:g} % hidden"
        best = min(random, key=lambda each: each.rmse or 0.0)
        error = write(best.rmse or 0.0, digits_for(best.mask_se))
        priced = [each for each in random if each.variance_seconds]
        cheapest = min(priced, key=lambda each: each.variance_seconds or 0.0, default=None)
        cheap = (
            f"; a given error takes the least time at {100 * cheapest.rate:g} %"
            if cheapest is not None
            else ""
        )
        rate = f"{100 * best.rate:g} %"
        return f"One mask is the most accurate at {rate} hidden: RMSE {error} nats per observation{cheap}"


def _known(value: float | None, digits: int) -> str:
    return "not known" if value is None else typeset(value, digits)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def bias(
    model: Any,
    rate: float | Sequence[float],
    data: object = None,
    *,
    masks_per_row: int = 16,
    n_rows: int = 500,
    seed: int = 0,
    masks: Masks = "own",
    block_rows: int = 8,
) -> RateBiases:
    """Bias, variance and cost of estimating log p(x) by D·S(x; M) at one mask rate or at each of several.

    D·S(x; M) is a composite conditional likelihood, whose bias depends on the parameters. The joint block has
    a different bias, E log p(x_masked | x_visible) - log p(x) = -E log p(x_visible): minus the expected log
    evidence of the visible tokens. This identity is checked mask by mask.

    Args:
        model: a model with `conditionals` "exact" and a `log_evidence`.
        rate: one or several rates in (0, 1].
        data: `Tokens`, or what the model's `tokens` reads, such as an (N, D) table with NaN for missing
            values; by default `n_rows` rows drawn from the model.
        masks_per_row: masks per observation and rate.
        n_rows: number of rows to draw.
        seed: seed of the masks and of the drawn rows.
        masks: "own" for each observation, or "shared" by all.
        block_rows: number of rows on which the joint block is computed.

    Returns:
        A list with one entry per rate, in the given order.

    Raises:
        InputError: a model without exact conditionals or closed form, or a rate outside (0, 1].

    Source:
        Moreno-Muñoz, Recasens, Hauberg (2023), On Masked Pre-training and the Marginal Likelihood, which
        prints the bias of the block without its sign.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> low, all_hidden = me.bias(model, (0.2, 1.0), n_rows=100)
        >>> low.bias > 0 > all_hidden.bias, low.identity_error < 1e-9
        (True, True)
    """
    if masks_per_row < 1 or n_rows < 1 or block_rows < 1:
        raise InputError(
            f"masks_per_row={masks_per_row}, n_rows={n_rows}, block_rows={block_rows}; "
            "give whole numbers of 1 or more"
        )
    array = np.atleast_1d(np.asarray(rate))
    rates = array.tolist() if array.ndim == 1 else []
    if not rates or not all(isinstance(value, int | float) for value in rates):
        raise InputError(
            f"rate is {type(rate).__name__}; give a rate such as 0.15 or several, and then the data: "
            "bias(model, rate, data)"
        )
    designs = [FixedRate(float(value), masks_per_row) for value in rates]
    if getattr(model, "conditionals", None) != "exact" or not isinstance(model, HasLogEvidence):
        raise InputError(
            f"the bias of {type(model).__name__} cannot be known: it needs exact conditionals and a "
            "log_evidence in closed form, as ppca, factor-analysis and gaussian have"
        )
    tokens = _tokens(model, data, n_rows, seed)
    with torch.no_grad():
        log_evidence = model.log_evidence(tokens).cpu().double().numpy()
    exact = log_evidence[np.argsort(tokens.ids.cpu().numpy())]
    key = MaskKey(seed, masks)
    return RateBiases(_of_rate(model, tokens, exact, design, key, block_rows) for design in designs)


def _tokens(model: Any, data: object, n_rows: int, seed: int) -> Tokens:
    if data is None:
        if not callable(getattr(model, "sample", None)):
            raise InputError(f"{type(model).__name__} has no sample method; give data")
        data = model.sample(n_rows, seed=seed)
    return to_device_of(model, as_tokens(model, data))


def _of_rate(
    model: Any,
    tokens: Tokens,
    exact: Float64[np.ndarray, " N"],
    design: FixedRate,
    key: MaskKey,
    block_rows: int,
) -> RateBias:
    """The bias of one design; `exact` is the log evidence of the observations in the order of their ids."""
    start = time.perf_counter()
    estimate = estimate_evidence(model, tokens, design, seed=key.seed, masks=key.masks)
    seconds = (time.perf_counter() - start) / estimate.n_masks
    difference = estimate.per_observation - exact
    n, mask_se = len(difference), estimate.mask_se
    variance = None
    if mask_se is not None:
        variance = mask_se**2 * design.masks_per_size * (n if key.masks == "own" else 1)
    data_variance = 0.0 if n == 1 else float(difference.var(ddof=1)) / n
    if mask_se is not None and key.masks == "own":
        data_variance -= mask_se**2
    mean = float(difference.mean())
    block, visible = block_identity(model, tokens[slice(0, block_rows)], design.rate, key.seed)
    return RateBias(
        rate=design.rate,
        size=float(size_of_rate(design.rate, tokens.n_tokens.cpu().numpy()).mean()),
        bias=mean,
        mask_se=mask_se,
        data_se=math.sqrt(data_variance) if data_variance > 0 else None,
        mask_variance=variance,
        rmse=None if variance is None else math.sqrt(mean**2 + variance),
        seconds_per_mask=seconds,
        variance_seconds=None if variance is None else variance * seconds,
        block_bias=float(block.mean()),
        visible_evidence=float(visible.mean()),
        identity_error=float(np.abs(block + visible).max()),
    )


def block_identity(
    model: Any, tokens: Tokens, rate: float, seed: int = 0
) -> tuple[Float64[np.ndarray, " B"], Float64[np.ndarray, " B"]]:
    """log p(x_masked | x_visible) - log p(x), and log p(x_visible), for one random mask of each observation.

    The block follows from the conditionals alone by the chain rule within the mask: it is the sum of M of
    them, one for each masked token given the visible tokens and the masked ones before it.

    Returns:
        Two arrays of shape (B,), nats; for a joint density, the first is minus the second.
    """
    tokens = to_device_of(model, tokens)
    maskable = tokens.maskable.cpu().numpy()
    n_tokens = tokens.n_tokens.cpu().numpy()
    ranks = torch.from_numpy(keyed_ranks(seed, tokens.ids.cpu().numpy()[:, None], maskable))
    ranks = ranks.to(tokens.values.device)
    size = torch.from_numpy(size_of_rate(rate, n_tokens)).to(ranks.device)
    masked = (ranks < size[:, None]) & tokens.maskable
    with torch.no_grad():
        block = _chain_rule(model, tokens, masked, ranks)
        log_evidence = model.log_evidence(tokens)
        rest = replace(tokens, maskable=tokens.maskable & ~masked)
        visible = torch.zeros_like(block)
        some = rest.n_tokens > 0  # without visible tokens, their log evidence is 0
        if bool(some.any()):
            visible[some] = model.log_evidence(rest[torch.nonzero(some).flatten()]).to(block.dtype)
    return (block - log_evidence).cpu().double().numpy(), visible.cpu().double().numpy()


def _chain_rule(
    model: Any, tokens: Tokens, masked: Bool[Tensor, "B D"], ranks: Int64[Tensor, "B D"]
) -> Float64[Tensor, " B"]:
    """Σ over the masked tokens, by descending rank, of log p(x_j | visible and earlier masked tokens)."""
    total = torch.zeros(len(tokens), dtype=torch.float64, device=masked.device)
    for row in range(len(tokens)):
        rank = torch.arange(int(masked[row].sum()), device=masked.device)[:, None]
        same = torch.full((len(rank),), row, device=masked.device)
        log_conditionals = model.log_conditionals(tokens[same], masked[row] & (ranks[row] <= rank))
        total[row] = torch.where(masked[row] & (ranks[row] == rank), log_conditionals, 0.0).sum()
    return total
