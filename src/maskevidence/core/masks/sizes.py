"""Designs that draw masks of every size, of random sizes or at rates, and designs that enumerate masks."""

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import ClassVar

import numpy as np
from jaxtyping import Bool, Float64, Int64, UInt64

from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import (
    FEWEST_LEFT_OUT,
    MAX_LISTED,
    BoolMatrix,
    Integers,
    LearnedKind,
    MaskDesign,
    MaskKey,
    Masks,
    Plan,
    Positions,
    Summation,
    check_counts,
    constant,
    token_numbers,
    too_few,
)
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.keyed_random import keyed_bits, kronecker, scaled, stratified
from maskevidence.core.support.subsets import listed_subsets, mask_of, n_subsets, subset_of

MAX_TOKENS_EXHAUSTIVE = 20
MAX_REPLICATES = 8
# Fewest masks of random sizes for an error: in all, per size, and a number that suffices for any sizes.
FEWEST_FOR_ERROR: dict[Masks, int] = {"own": 40, "shared": 16}
FEWEST_PER_SIZE, ENOUGH_MASKS = 4, 128


def size_of_rate(rate: float | Float64[np.ndarray, " B"], n_tokens: Integers) -> Integers:
    """The mask size of a rate: max(1, floor(rate·n + 1e-9)), so 15 % of 512 tokens is 76.

    Example:
        >>> size_of_rate(0.15, np.array([512, 3])).tolist()
        [76, 1]
    """
    return np.maximum(1, np.floor(rate * n_tokens + 1e-9).astype(np.int64))


@dataclass(frozen=True)
class EverySize(MaskDesign):
    """`masks_per_size` random masks of every size 1..D (the paper's P).

    A size with C <= 32 masks has them drawn without replacement: no mask is scored twice, and if C <= P, each
    is scored once, without Monte-Carlo error. Training draws all masks independently. Weights: 1/P, or 1/C if
    C < P. The strata are the sizes; the variance of a stratum that is drawn without replacement has the
    factor 1 - P/C. Since a single size can hold all of the variance, the standard error needs 3 degrees of
    freedom for each: N·(P - 1) with own masks of N observations, P - 1 with shared masks. Where the masks of
    all sizes are listed, at least 10 of them have to be left out, or none.

    Args:
        masks_per_size: P.

    Attributes:
        max_listed: the largest C of a size whose masks are drawn without replacement.

    Source:
        Cochran (1977), Sampling Techniques, Section 2.6, on the factor 1 - P/C.

    Example:
        >>> EverySize(masks_per_size=4).n_draws(np.array([61])).tolist()
        [244]
        >>> maskable = np.ones((1, 3), dtype=np.bool_)
        >>> from maskevidence.core.masks.design import drawn_masks
        >>> drawn_masks(EverySize(4), MaskKey(0), np.array([0]), maskable).size.tolist()
        [1, 2, 3, 1, 2, 1, 2]
    """

    masks_per_size: int = 4
    max_listed: ClassVar[int] = MAX_LISTED
    name: ClassVar[str] = "every-size"
    purpose: ClassVar[str] = "Unbiased for the sum over sizes: every size has its own random masks."
    extended_by: ClassVar[str] = "masks_per_size"

    def __post_init__(self) -> None:
        check_counts(self, "masks_per_size")

    def in_training(self) -> MaskDesign:
        return IndependentMasks(self.masks_per_size) if type(self) is EverySize else self

    def n_draws(self, n_tokens: Integers) -> Integers:
        return self.masks_per_size * n_tokens

    def sizes(self, n_tokens: Integers, index: Integers) -> Plan:
        return index // n_tokens, index % n_tokens + 1

    def is_scored(self, n_tokens: Integers, index: Integers) -> Bool[np.ndarray, " B"]:
        n_listed = n_subsets(n_tokens, index % n_tokens + 1, self.max_listed)
        return (n_listed == 0) | (index // n_tokens < n_listed)

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        n_listed = n_subsets(maskable.sum(1), size, self.max_listed)
        later = np.flatnonzero((draw > 0) & (n_listed > 1))
        draw_or_first = draw.copy()
        draw_or_first[later] = 0
        masked = super().masked(key, ids, draw_or_first, size, maskable)
        if len(later):
            those = maskable[later]
            left = _in_random_order(key, ids[later], size[later], those, masked[later], self.max_listed)
            chosen = left[np.arange(len(later)), draw[later] % n_listed[later]]
            masked[later] = mask_of(chosen, those)
        return masked

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        n_listed = n_subsets(n_tokens, size, self.max_listed)
        listed = n_listed > 0
        n_drawn = np.where(listed, np.minimum(n_listed, self.masks_per_size), self.masks_per_size)
        weight = np.where(listed & (draw >= n_drawn), 0.0, 1.0 / n_drawn)
        unseen = np.where(listed, 1.0 - n_drawn / np.maximum(n_listed, 1), size < n_tokens)
        # Sizes drawn without replacement have a stratum per number of tokens.
        stratum = size + np.where(listed, (n_tokens + 1) * np.int64(2**24), 0)
        return Summation(weight, stratum=stratum, replicate=draw, unseen=unseen)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True

    def unknown_error(self, n_tokens: Integers, masks: Masks) -> str | None:
        lengths, group = np.unique(n_tokens, return_inverse=True)
        sizes = [np.arange(1, n + 1) for n in lengths]
        listed = [n_subsets(np.full_like(m, len(m)), m, self.max_listed) for m in sizes]
        random = np.array([bool(((c == 0) | (c > self.masks_per_size)).any()) for c in listed])
        scored = self.masks_per_size
        left_out = np.array([math.inf if 0 in c else np.maximum(c - scored, 0).sum() for c in listed])
        n_left_out = left_out[group].sum() if masks == "own" else left_out.max()
        if 0 < n_left_out < FEWEST_LEFT_OUT:
            return (
                f"{self.name} with {self.masks_per_size} masks per size leaves out only {n_left_out:.0f} of "
                f"all masks; give {max(int(c.max()) for c in listed)} or more, which scores them all"
            )
        return too_few(self, self.masks_per_size, int(random[group].sum()), masks)


class IndependentMasks(EverySize):
    """`EverySize` for training: all masks are independent, even of sizes with few masks."""

    max_listed: ClassVar[int] = 0


def _in_random_order(
    key: MaskKey, ids: Integers, size: Integers, maskable: BoolMatrix, first: BoolMatrix, limit: int
) -> Int64[np.ndarray, "B limit"]:
    """List all subsets of a size in random order, with the subset `first` in front."""
    n_tokens = maskable.sum(1)
    listed = listed_subsets(n_tokens, size, limit)
    columns = key.columns(ids, size, n_subsets(n_tokens, size, limit))
    bits = keyed_bits(key.seed, *columns.T[:, :, None], np.arange(limit))
    bits[listed == 0] = np.iinfo(np.uint64).max
    bits[listed == subset_of(first, maskable)[:, None]] = 0
    return np.take_along_axis(listed, np.argsort(bits, axis=1, kind="stable"), axis=1)


@dataclass(frozen=True)
class RandomSize(MaskDesign):
    """`draws` masks per observation, of uniformly random sizes, stratified over the whole data set.

    The size of draw k = r + R·c of the i-th of N observations that are scored together, ordered by id, is
    M = floor(u·D) + 1 with the u of `stratified` for row i in turn c of replicate r, which is independent of
    the R - 1 other `replicates`. Every single u is uniform, so that any prefix and any added draws stay
    unbiased. In each turn of a replicate, n <= 256 neighbours have one u in each of n equal intervals,
    assigned at random; the u of an observation are even over the turns. Whatever the scores are, the
    variance of the estimate is at most n/(n - 1) times that for independent sizes. Weights: D over the number
    of draws. In training, where a step has only some of the observations, i is the id, and u comes from the
    sequence of `kronecker`.

    The standard error comes from the spread of the replicates. It needs R >= 4 and enough masks to meet each
    size: N·draws >= max(40, min(4·D, 128)) with own masks, draws >= max(16, 4·D) with shared masks.

    Args:
        draws: masks per observation.
        replicates: R, which must divide `draws`, or be larger: each draw is then a replicate of its own. By
            default the largest number up to 8 that divides them.

    Example:
        >>> RandomSize(8), RandomSize(8).n_draws(np.array([61])).tolist()
        (RandomSize(draws=8, replicates=8), [8])
    """

    draws: int = 8
    replicates: int | None = None
    name: ClassVar[str] = "random-size"
    purpose: ClassVar[str] = "Unbiased for the sum over sizes: each mask's size is uniform on 1..D."
    extended_by: ClassVar[str] = "draws"
    pooled: ClassVar[bool] = True
    random_sizes: ClassVar[bool] = True
    min_replicates: ClassVar[int] = 4

    def __post_init__(self) -> None:
        check_counts(self, "draws")
        if self.replicates is None:
            best = max(r for r in range(1, MAX_REPLICATES + 1) if self.draws % r == 0)
            object.__setattr__(self, "replicates", best)
        assert self.replicates is not None
        check_counts(self, "replicates")
        if self.draws % self.n_replicates:
            raise InputError(
                f"draws={self.draws} is not a multiple of replicates={self.replicates}; give "
                f"draws={self.possible_draws(self.draws)}, or replicates=1 (and no standard error)"
            )

    @property
    def n_replicates(self) -> int:
        assert self.replicates is not None
        return min(self.replicates, self.draws)

    def possible_draws(self, at_least: float) -> int:
        """The smallest possible number of draws >= `at_least` with these replicates.

        Example:
            >>> RandomSize(8, 4).possible_draws(13), RandomSize(8, 100).possible_draws(13)
            (16, 13)
        """
        assert self.replicates is not None
        whole = max(self.draws, math.ceil(at_least))
        return whole if whole <= self.replicates else self.replicates * math.ceil(whole / self.replicates)

    def n_draws(self, n_tokens: Integers) -> Integers:
        return np.full_like(n_tokens, self.draws)

    def continuing(self, other: MaskDesign, asked: Collection[str]) -> MaskDesign:
        """This design with the draws and replicates of a run, except options that the user `asked` for.

        Example:
            >>> RandomSize(16).continuing(RandomSize(4, 4), asked=["draws"])
            RandomSize(draws=16, replicates=4)
        """
        kept = {name: getattr(other, name) for name in ("draws", "replicates") if name not in asked}
        return replace(self, **kept)

    def plan(
        self, key: MaskKey, ids: Integers, n_tokens: Integers, index: Integers, position: Positions = None
    ) -> Plan:
        replicate, turn = index % self.n_replicates, index // self.n_replicates
        return index, scaled(uniform_shares(key, ids, replicate, turn, position), n_tokens) + 1

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        weight = n_tokens / self.draws
        unseen = (n_tokens > 1).astype(np.float64)
        return Summation(weight, np.zeros_like(draw), draw % self.n_replicates, unseen=unseen)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True

    def unknown_error(self, n_tokens: Integers, masks: Masks) -> str | None:
        if int(n_tokens.max()) == 1:
            return None
        if self.n_replicates < self.min_replicates:
            return super().unknown_error(n_tokens, masks)
        enough = self.enough_draws(n_tokens, masks)
        if self.draws >= enough:
            return None
        return (
            f"{self.name} with {self.draws} {masks} draw{'s' * (self.draws > 1)} needs {enough} or more for "
            f"{len(n_tokens)} observation{'s' * (len(n_tokens) > 1)} of up to {n_tokens.max()} tokens"
        )

    def enough_draws(self, n_tokens: Integers, masks: Masks) -> int:
        """The fewest draws with which the error is known for these numbers of tokens.

        Args:
            n_tokens: shape (N,).
            masks: "own" or "shared".

        Returns:
            The draws of this design, or a number to which they can be extended.

        Example:
            >>> [RandomSize(8).enough_draws(np.full(n, 30), "own") for n in (1, 5, 20)]
            [120, 24, 8]
            >>> RandomSize(8).enough_draws(np.ones(1, dtype=np.int64), "own")
            8
        """
        if int(n_tokens.max()) == 1:  # nothing is random
            return self.possible_draws(1)
        per_size = FEWEST_PER_SIZE * int(n_tokens.max())
        n_random = 1
        if masks == "own":
            n_random, per_size = max(1, int((n_tokens > 1).sum())), min(per_size, ENOUGH_MASKS)
        return self.possible_draws(max(FEWEST_FOR_ERROR[masks], per_size) / n_random)


def uniform_shares(
    key: MaskKey, ids: Integers, replicate: Integers, turn: Integers, position: Positions
) -> UInt64[np.ndarray, " B"]:
    """The uniform numbers u behind random sizes or times, as fractions of 2^64; see `RandomSize`."""
    if position is None:
        row = np.zeros_like(ids) if key.masks == "shared" else ids
        return kronecker(keyed_bits(key.seed, replicate), row, turn)
    row, n_rows = position[:, 0], int(position[:, 1].max(initial=1))
    if key.masks == "shared":
        row, n_rows = np.zeros_like(row), 1
    return stratified(key.seed, replicate, turn, row, n_rows)


@dataclass(frozen=True)
class Rates(MaskDesign):
    """`masks_per_size` masks at each of several mask rates, as in the paper's sweep of 1 %..99 %.

    Weights: D over the number of masks, so that the estimate is D times the mean score over the rates. Strata
    are the rates. With several rates the standard error needs as many masks as `EverySize` does.

    Example:
        >>> Rates((0.15, 0.5, 0.85)).plan(MaskKey(), *[np.array([20])] * 2, np.array([1]))[1].tolist()
        [10]
    """

    rates: tuple[float, ...]
    masks_per_size: int = 1
    name: ClassVar[str] = "rates"
    purpose: ClassVar[str] = "Unbiased for D times the mean score over the given rates."
    extended_by: ClassVar[str] = "masks_per_size"

    def __post_init__(self) -> None:
        check_counts(self, "masks_per_size")
        whole_number("rates", len(self.rates), 1)
        for rate in self.rates:
            if not 0.0 < rate <= 1.0:
                raise InputError(f"mask rate {rate:g}; give a share of the tokens in (0, 1], such as 0.15")

    def n_draws(self, n_tokens: Integers) -> Integers:
        return np.full_like(n_tokens, len(self.rates) * self.masks_per_size)

    def sizes(self, n_tokens: Integers, index: Integers) -> Plan:
        rate = np.asarray(self.rates)[index % len(self.rates)]
        return index, size_of_rate(rate, n_tokens)

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        weight = n_tokens / (len(self.rates) * self.masks_per_size)
        stratum, replicate = draw % len(self.rates), draw // len(self.rates)
        return Summation(weight, stratum, replicate, unseen=(size < n_tokens).astype(np.float64))

    def covers_all_sizes(self, n_tokens: int) -> bool:
        sizes = size_of_rate(np.asarray(self.rates), np.full(len(self.rates), n_tokens))
        counts = np.bincount(sizes, minlength=n_tokens + 1)[1:]
        return bool((counts == counts[0]).all())

    def unknown_error(self, n_tokens: Integers, masks: Masks) -> str | None:
        if len(self.rates) == 1:
            return super().unknown_error(n_tokens, masks)
        n_random = int((size_of_rate(min(self.rates), n_tokens) < n_tokens).sum())
        return too_few(self, self.masks_per_size, n_random, masks)


class FixedRate(Rates):
    """`Rates` with one rate: D·S(x; M) at one size, a composite likelihood rather than the evidence.

    Weights: D/P each.

    Example:
        >>> FixedRate(0.15), FixedRate(0.15).covers_all_sizes(512)
        (FixedRate(rate=0.15, masks_per_size=4), False)
    """

    name: ClassVar[str] = "fixed-rate"
    purpose: ClassVar[str] = "Unbiased for D·S(x; M) at one size M, which is not the log evidence."

    def __init__(self, rate: float, masks_per_size: int = 4) -> None:
        super().__init__((rate,), masks_per_size)

    @property
    def rate(self) -> float:
        """The mask rate, in (0, 1]."""
        return self.rates[0]

    def __repr__(self) -> str:
        return f"FixedRate(rate={self.rate!r}, masks_per_size={self.masks_per_size!r})"

    def settings(self) -> dict[str, object]:
        """The design's name, rate and masks per size."""
        return {"name": self.name, "rate": self.rate, "masks_per_size": self.masks_per_size}


@dataclass(frozen=True)
class LeaveOneOut(MaskDesign):
    """Each token hidden alone: D·S(x; 1) = Σ_j log p(x_j | all others), the pseudo-log-likelihood.

    Example:
        >>> LeaveOneOut().n_draws(np.array([61])).tolist()
        [61]
    """

    name: ClassVar[str] = "leave-one-out"
    purpose: ClassVar[str] = "Equal to the pseudo-log-likelihood D·S(x; 1), which is not the log evidence."
    deterministic: ClassVar[bool] = True

    def n_draws(self, n_tokens: Integers) -> Integers:
        return n_tokens

    def sizes(self, n_tokens: Integers, index: Integers) -> Plan:
        return index, np.ones_like(index)

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        return maskable & (token_numbers(maskable) == draw[:, None])

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        zero = np.zeros_like(draw)
        return Summation(constant(1.0, draw), stratum=zero, replicate=zero)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return n_tokens == 1


@dataclass(frozen=True)
class Exhaustive(MaskDesign):
    """All 2^D - 1 masks, for D <= 20: the sum over sizes without Monte-Carlo error.

    Weights: one over the number of masks of the size.

    With order_mixture=True the estimate is log E_σ p_σ(x), the evidence of the mixture over all orders,
    exactly and from the same masks (`mixture.order_mixture`); the area is still the sum of the curve.

    With `blocks`, each B tokens of an observation are a block, and the orders are those that go from block to
    block: the masks are the subsets of each block, with all later blocks hidden and all earlier ones
    visible. A block takes 2^B - 1 passes, for any number of blocks.

    Args:
        order_mixture: whether the estimate is the order mixture in place of the area.
        blocks: B, from 1 to 20; None for one block of all tokens.

    Example:
        >>> Exhaustive().n_draws(np.array([8])).tolist()
        [255]
        >>> Exhaustive(order_mixture=True, blocks=4).n_draws(np.array([8, 10])).tolist()
        [30, 33]
    """

    order_mixture: bool = False
    blocks: int | None = None
    name: ClassVar[str] = "exhaustive"
    purpose: ClassVar[str] = "Equal to the sum over sizes: every mask of every size is scored."
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.blocks is None:
            return
        if self.is_area:
            raise InputError(
                "blocks belong to the order mixture; add order_mixture=True (exhaustive:order-mixture)"
            )
        check_counts(self, "blocks")
        if self.blocks > MAX_TOKENS_EXHAUSTIVE:
            raise InputError(
                f"blocks of {self.blocks} tokens have too many masks to enumerate; give blocks of up to "
                f"{MAX_TOKENS_EXHAUSTIVE} tokens"
            )

    @property
    def is_area(self) -> bool:
        return not self.order_mixture

    @property
    def learned_kind(self) -> LearnedKind:
        return "mixture" if self.order_mixture else "lower_bound"

    def block_size(self, n_tokens: Integers) -> Integers:
        """Number of tokens of all blocks but the last of each observation, shape (B,)."""
        return n_tokens if self.blocks is None else np.full_like(n_tokens, self.blocks)

    def n_draws(self, n_tokens: Integers) -> Integers:
        most = int(n_tokens.max(initial=0))
        if self.blocks is None and most > MAX_TOKENS_EXHAUSTIVE:
            raise InputError(
                f"an observation of {most} tokens has 2^{most} - 1 = {Decimal(2**most - 1):.4g} masks, "
                f"too many to enumerate (up to {MAX_TOKENS_EXHAUSTIVE} tokens); "
                "use every-size or random-size, or enumerate in blocks"
            )
        size = self.block_size(n_tokens)
        whole, rest = n_tokens // np.maximum(size, 1), n_tokens % np.maximum(size, 1)
        return whole * (2**size - 1) + 2**rest - 1

    def sizes(self, n_tokens: Integers, index: Integers) -> Plan:
        size = self.block_size(n_tokens)
        block, subset = index // (2**size - 1), index % (2**size - 1) + 1
        later = np.maximum(n_tokens - (block + 1) * size, 0)
        return (block << size) | subset, np.bitwise_count(subset) + later

    def subset(self, n_tokens: Integers, draw: Integers) -> tuple[Integers, Integers, Integers]:
        """The block of each mask, its hidden subset as a bit set, and the block's number of tokens."""
        size = self.block_size(n_tokens)
        block = draw >> size
        return block, draw & (2**size - 1), np.minimum(size, n_tokens - block * size)

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        if self.blocks is None:  # the draw is the bit set
            return maskable & ((draw[:, None] >> token_numbers(maskable)) & 1 == 1)
        after, hidden = self._hidden(draw, maskable)
        return maskable & (hidden | (after > 0))

    def scored(
        self, key: MaskKey, ids: Integers, draw: Integers, masked: BoolMatrix, maskable: BoolMatrix
    ) -> BoolMatrix:
        return masked if self.blocks is None else masked & self._hidden(draw, maskable)[1]

    def _hidden(self, draw: Integers, maskable: BoolMatrix) -> tuple[Int64[np.ndarray, "B D"], BoolMatrix]:
        """How many blocks each token comes after the mask's block, and whether the subset hides it."""
        n_tokens = maskable.sum(1)
        size = self.block_size(n_tokens)[:, None]
        block, subset, _ = self.subset(n_tokens, draw)
        number = token_numbers(maskable)
        after = number // size - block[:, None]
        return after, (after == 0) & ((subset[:, None] >> number % size) & 1 == 1)

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        span = range(MAX_TOKENS_EXHAUSTIVE + 1)
        masks_of_size = np.array([[math.comb(n, m) for m in span] for n in span], dtype=np.float64)
        _, subset, of_block = self.subset(n_tokens, draw)
        zero = np.zeros_like(draw)
        weight = 1.0 / masks_of_size[of_block, np.bitwise_count(subset)]
        return Summation(weight, stratum=zero, replicate=zero)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True
