"""Mask designs used in the repositories of diffusion language models for their published numbers."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError
from maskevidence.core.masks.design import (
    BoolMatrix,
    Integers,
    MaskDesign,
    MaskKey,
    Masks,
    Plan,
    Positions,
    Summation,
    check_counts,
    token_numbers,
)
from maskevidence.core.masks.sizes import RandomSize, uniform_shares
from maskevidence.core.support.keyed_random import keyed_bits, scaled

_BITS = 32  # of a draw number that hold the time
_COUNTS, _FIRST = 0x434F554E, 0x46495253  # keys that tell these numbers from those of masks


@dataclass(frozen=True)
class RandomTime(RandomSize):
    """Continuous time: each token is hidden with probability (1 - noise_eps)·t, t uniform on (eps, 1).

    The weight of a mask's score is M/t over the number of draws: Σ over hidden tokens of log p, divided by t.
    With eps = noise_eps = 0 this estimates the same sum over sizes as `RandomSize`, but without eps the
    variance is infinite: a token is hidden at time t with probability t and then has the weight 1/t, whose
    square has the mean ∫ 1/t dt. No standard error is given for it. With others, the masks of size M have the
    expected weight

        w_M = (I(1 - noise_eps; M, n-M+1) - I((1 - noise_eps)·eps; M, n-M+1)) / (1 - eps)

    in place of 1, with I the regularised incomplete beta function: late and early times are cut off, and
    what is left is multiplied by 1/(1 - eps). A mask that hides nothing counts 0; a token is scored for it.

    With `blocks`, each B tokens have a time of their own, the later ones are hidden, the earlier ones visible
    (block diffusion); a draw takes a mask for each block.

    Args:
        draws: times per observation, or per block of it; stratified as the sizes of `RandomSize`.
        replicates: as for `RandomSize`.
        eps: the smallest time.
        noise_eps: the share of tokens that are visible at t = 1, on average.
        blocks: B; None for one block of all tokens.
        offset: how many tokens of the first block are context.

    Source:
        kuleshov-group/mdlm, diffusion.py and noise_schedule.py; louaaron/Score-Entropy-Discrete-Diffusion,
        losses.py and noise_lib.py; kuleshov-group/bd3lms, diffusion.py.

    Example:
        >>> RandomTime(8, blocks=4).n_draws(np.array([10])).tolist()
        [24]
        >>> edges = RandomTime(8, eps=0.001, noise_eps=0.001)
        >>> size = np.array([1, 512, 1024])
        >>> edges.weight_by_size(np.full(3, 1024), size).round(3).tolist()
        [0.36, 1.001, 0.359]
    """

    eps: float = 0.0
    noise_eps: float = 0.0
    blocks: int | None = None
    offset: int = 0
    name: ClassVar[str] = "random-time"
    purpose: ClassVar[str] = (
        "Unbiased for the sum over sizes without eps and noise_eps, as public code has it."
    )
    random_sizes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("eps", self.eps), ("noise_eps", self.noise_eps)):
            if not 0.0 <= value < 1.0:
                raise InputError(f"{name}={value:g}; give a number in [0, 1), such as 0.001")
        if self.blocks is not None:
            check_counts(self, "blocks")
        if not 0 <= self.offset < (self.blocks or 1):
            raise InputError(f"offset={self.offset}; give a number below that of the tokens of a block")

    @property
    def is_area(self) -> bool:
        return self.blocks is None

    def _blocks(self, n_tokens: Integers) -> tuple[Integers, Integers]:
        """Tokens per whole block, and blocks per observation."""
        size = n_tokens if self.blocks is None else np.full_like(n_tokens, self.blocks)
        return size, -(-(n_tokens + self.offset) // np.maximum(size, 1))

    def _within(self, n_tokens: Integers, index: Integers) -> tuple[Integers, Integers, Integers]:
        """Each mask's block, the number of tokens in it, and the number of tokens after it."""
        size, n_blocks = self._blocks(n_tokens)
        block = index % n_blocks
        end = np.minimum((block + 1) * size - self.offset, n_tokens)
        return block, end - np.maximum(block * size - self.offset, 0), n_tokens - end

    def n_draws(self, n_tokens: Integers) -> Integers:
        return self.draws * self._blocks(n_tokens)[1]

    def unknown_error(self, n_tokens: Integers, masks: Masks) -> str | None:
        if self.eps == 0.0:
            return (
                f"{self.name} without eps has weights 1/t of infinite variance; give eps=0.001, or the "
                "design random-size for the same sum over sizes"
            )
        return super().unknown_error(n_tokens, masks)

    def enough_draws(self, n_tokens: Integers, masks: Masks) -> int:
        """As for `RandomSize`, with each block counted as an observation."""
        size, n_blocks = self._blocks(n_tokens)
        return super().enough_draws(np.repeat(np.minimum(size, n_tokens), n_blocks), masks)

    def _time(self, bits: Integers) -> Float64[np.ndarray, " B"]:
        return self.eps + (1.0 - self.eps) * (bits + 0.5) / 2.0**_BITS

    def plan(
        self, key: MaskKey, ids: Integers, n_tokens: Integers, index: Integers, position: Positions = None
    ) -> Plan:
        from scipy.stats import binom

        n_blocks = self._blocks(n_tokens)[1]
        (turn, replicate), (block, n, later) = (
            np.divmod(index // n_blocks, self.n_replicates),
            self._within(n_tokens, index),
        )
        shares = uniform_shares(key, ids, replicate, turn * n_blocks + block, position)
        bits = np.maximum((shares >> np.uint64(_BITS)).astype(np.int64), 1)
        columns = key.columns(ids, index, np.full_like(index, _COUNTS))
        quantile = (keyed_bits(key.seed, *columns.T) >> np.uint64(11)) / 2.0**53
        hidden = binom.ppf(quantile, n, (1.0 - self.noise_eps) * self._time(bits)).astype(np.int64)
        hidden = np.maximum(hidden, 0)  # the quantile of 0 is -1
        return index << _BITS | np.where(hidden > 0, bits, 0), np.maximum(hidden, 1) + later

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        n_tokens = maskable.sum(1)
        block, _, later = self._within(n_tokens, draw >> _BITS)
        of_token = (token_numbers(maskable) + self.offset) // self._blocks(n_tokens)[0][:, None]
        own = maskable & (of_token == block[:, None])
        return super().masked(key, ids, draw, size - later, own) | (maskable & (of_token > block[:, None]))

    def scored(
        self, key: MaskKey, ids: Integers, draw: Integers, masked: BoolMatrix, maskable: BoolMatrix
    ) -> BoolMatrix:
        if self.blocks is None:
            return masked
        block = self._within(maskable.sum(1), draw >> _BITS)[0]
        return masked & ((token_numbers(maskable) + self.offset) // self.blocks == block[:, None])

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        index, bits = draw >> _BITS, draw & (2**_BITS - 1)
        hidden = size - self._within(n_tokens, index)[2]
        weight = np.where(bits > 0, hidden / (self._time(bits) * self.draws), 0.0)
        replicate = index // self._blocks(n_tokens)[1] % self.n_replicates
        return Summation(weight, np.zeros_like(draw), replicate)

    def own_size(self, n_tokens: Integers, draw: Integers, size: Integers) -> tuple[Integers, Integers]:
        _, n, later = self._within(n_tokens, draw >> _BITS)
        return n, size - later

    def weight_by_size(self, n_tokens: Integers, size: Integers) -> Float64[np.ndarray, " B"] | None:
        from scipy.special import betainc

        if self.covers_all_sizes(1):
            return None
        most = 1.0 - self.noise_eps
        ends = [betainc(size, n_tokens - size + 1, rate) for rate in (most * self.eps, most)]
        return (ends[1] - ends[0]) / (1.0 - self.eps)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return self.eps == 0.0 == self.noise_eps


@dataclass(frozen=True)
class LLaDA(MaskDesign):
    """The masks of LLaDA's likelihood: random subsets whose sizes are evenly spaced within a batch.

    With k uniform on 1..n, the b masks of a batch have the sizes ((round(k + i·n/b) - 1) mod n) + 1, i =
    0..b-1, rounded half to even. Where n/b times some i ends in 1/2, even sizes are drawn more often than odd
    ones; each size has the same share otherwise. Weights: n over the number of draws. Batches are
    replicates.

    Args:
        draws: masks in all batches.
        batch: b, its batch size, which divides them.

    Source:
        ML-GSAI/LLaDA, eval_llada.py and get_log_likelihood.py; Nie et al. (2025), Algorithm 3.

    Example:
        >>> from maskevidence.core.masks.design import drawn_masks
        >>> every = np.ones((1, 8), dtype=np.bool_)
        >>> sorted(drawn_masks(LLaDA(4, batch=4), MaskKey(0), np.array([1]), every).size.tolist())
        [1, 3, 5, 7]
        >>> size = np.arange(1, 5)
        >>> LLaDA(8, batch=8).weight_by_size(np.full(4, 4), size).tolist()
        [0.5, 1.5, 0.5, 1.5]
    """

    draws: int = 128
    batch: int = 32
    name: ClassVar[str] = "llada"
    purpose: ClassVar[str] = "LLaDA's estimator of the log-probability, which rounds sizes half to even."
    extended_by: ClassVar[str] = "draws"

    def __post_init__(self) -> None:
        check_counts(self, "draws", "batch")
        if self.draws % self.batch:
            raise InputError(f"draws={self.draws} is not a multiple of batch={self.batch}; give one that is")

    @property
    def n_replicates(self) -> int:
        return self.draws // self.batch

    def n_draws(self, n_tokens: Integers) -> Integers:
        return np.full_like(n_tokens, self.draws)

    def plan(
        self, key: MaskKey, ids: Integers, n_tokens: Integers, index: Integers, position: Positions = None
    ) -> Plan:
        columns = key.columns(ids, index // self.batch, np.full_like(index, _FIRST))
        first = scaled(keyed_bits(key.seed, *columns.T), n_tokens) + 1
        return index, self._sizes(first, index % self.batch, n_tokens)

    def _sizes(self, first: Integers, place: Integers, n_tokens: Integers) -> Integers:
        rounded = np.rint(first + place * n_tokens / self.batch).astype(np.int64)
        return (rounded - 1) % n_tokens + 1

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        return Summation(n_tokens / self.draws, np.zeros_like(draw), draw // self.batch)

    def weight_by_size(self, n_tokens: Integers, size: Integers) -> Float64[np.ndarray, " B"]:
        weight = np.empty(len(size))
        for n in np.unique(n_tokens):
            first, place = (grid.ravel() for grid in np.indices((n, self.batch)))
            sizes = self._sizes(first + 1, place, np.full_like(first, n))
            here = n_tokens == n
            weight[here] = np.bincount(sizes, minlength=n + 1)[size[here]] / self.batch
        return weight

    def covers_all_sizes(self, n_tokens: int) -> bool:
        size = np.arange(1, n_tokens + 1)
        return bool((self.weight_by_size(np.full_like(size, n_tokens), size) == 1).all())
