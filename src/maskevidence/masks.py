"""Mask designs: how mask sizes and masks are drawn, and the weights of their scores in the estimate.

A design lists the masks of an observation: one of n tokens gets `n_draws(n)` masks, each with a draw number
and a size. The estimate of the log evidence is Σ weight · score, nats per observation (Eq. 2). A mask is a
function of (seed, observation id, draw, size), without the id if all rows share their masks.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.errors import InputError, unknown_name
from maskevidence.support.checks import check_memory, whole_number
from maskevidence.support.keyed_random import (
    keyed_bits,
    keyed_ranks,
    keyed_subset,
    kronecker,
    scaled,
    stratified,
)
from maskevidence.support.subsets import listed_subsets, mask_of, n_subsets, subset_of
from maskevidence.tokens import positions

Masks = Literal["own", "shared"]
Bound = Literal["area", "importance"]
LearnedKind = Literal["lower_bound", "mixture", "policy"]
Integers = Int64[np.ndarray, " B"]
BoolMatrix = Bool[np.ndarray, "B D"]
Positions = Int64[np.ndarray, "B 2"]
Plan = tuple[Integers, Integers]  # the draw number and the size of each mask

MAX_TOKENS_EXHAUSTIVE = 20
_MAX_COUNT = 2**31 - 1
BYTES_PER_MASK = 64  # while it is scored: row, index, draw, size, score, and copies of some
MAX_REPLICATES = 8
MAX_LISTED = 32
MIN_DF = 3
FEWEST_ORDERS = 4  # from which the jackknife of the importance bound is used
FEWEST_LEFT_OUT = 10  # masks that are not scored, from which an error is worth knowing
# Of random sizes: the fewest masks in all, and for each size, and the number that is enough for any sizes.
FEWEST_MASKS: dict[Masks, int] = {"own": 40, "shared": 16}
FEWEST_PER_SIZE, ENOUGH_MASKS = 4, 128


@dataclass(frozen=True)
class MaskKey:
    """What the masks of a run depend on, apart from the observation and the draw.

    Attributes:
        seed: any whole number.
        masks: "own" draws separate masks for each observation, "shared" the same masks for all.

    Raises:
        InputError: a seed that is not a whole number, or another word for the masks.

    Example:
        >>> import maskevidence as me
        >>> masks = [me.shared_masks(EverySize(1), MaskKey(seed, "shared"), 6)[0] for seed in (3, 3, 4)]
        >>> bool((masks[0] == masks[1]).all()), bool((masks[0] == masks[2]).all())
        (True, False)
    """

    seed: int = 0
    masks: Masks = "own"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole_number("seed", self.seed))
        if self.masks not in ("own", "shared"):
            raise InputError(f"masks={self.masks!r}; give 'own' or 'shared'")

    def columns(self, ids: Integers, *draw: Integers) -> Int64[np.ndarray, "B n_keys"]:
        """The keys of each mask, shape (B, n_keys): its draw, after the observation's id unless shared."""
        return np.stack(draw if self.masks == "shared" else (ids, *draw), axis=1)


class Summation(NamedTuple):
    """How the scores of a design's masks add up, one entry per mask, each of shape (B,).

    Attributes:
        weight: Σ weight · score over an observation's masks estimates its log evidence.
        stratum: strata are independent of each other, and their contributions add up.
        replicate: 0..R-1; the replicates of one stratum are independent and equally distributed.
        unseen: 1 - k/C where k of the C masks of a size were drawn without replacement, the finite-population
            correction of the variance (0 where all were drawn); None for 1 everywhere.
    """

    weight: Float64[np.ndarray, " B"]
    stratum: Integers
    replicate: Integers
    unseen: Float64[np.ndarray, " B"] | None = None


class MaskDesign(ABC):
    """How mask sizes and masks are drawn, and the weights that make their scores an estimate.

    Attributes:
        name: of the design, with which its words begin (design_words.py).
        purpose: one sentence on what the weighted sum of scores is unbiased for.
        extended_by: the option that says how often the design repeats its masks; None if nothing repeats.
            A larger value adds masks to those of a smaller one, so that a run can be extended.
        nested: True if one random order gives the masks of all sizes of a draw.
        deterministic: True if the masks are enumerated, so that there is no Monte-Carlo error.
        pooled: True if the sizes of different observations are drawn together, so that only whole
            replicates of the data set are independent.
        random_sizes: True if each replicate's sizes are random and its weights make up for their density, so
            that a prediction by size is a control variate (control_variates.py).
        min_replicates: how many replicates a standard error needs.
    """

    name: ClassVar[str]
    purpose: ClassVar[str]
    extended_by: ClassVar[str | None] = None
    nested: ClassVar[bool] = False
    deterministic: ClassVar[bool] = False
    pooled: ClassVar[bool] = False
    random_sizes: ClassVar[bool] = False
    min_replicates: ClassVar[int] = 2

    @property
    def n_repeats(self) -> int:
        """How often the design repeats its masks: the value of the option `extended_by`, 1 without one.

        Raises:
            InputError: a design whose `extended_by` does not name such an option.

        Example:
            >>> EverySize(masks_per_size=4).n_repeats, LeaveOneOut().n_repeats
            (4, 1)
        """
        n_repeats = 1 if self.extended_by is None else getattr(self, self.extended_by, None)
        if not isinstance(n_repeats, int) or n_repeats < 1:
            raise InputError(
                f"{type(self).__name__} is extended by {self.extended_by!r}, which is {n_repeats!r}; name an "
                "attribute that holds a whole number of 1 or more, or None"
            )
        return n_repeats

    @property
    def n_replicates(self) -> int:
        """R, the number of independent replicates of each stratum; by default each repeat is one."""
        return self.n_repeats

    @abstractmethod
    def n_draws(self, n_tokens: Integers) -> Integers:
        """How many masks an observation of n tokens gets, over all repeats."""

    @abstractmethod
    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        """Draw number and mask size of the index-th mask (0..n_draws-1) of each observation.

        Equal shares of consecutive indices belong to the repeats, in their order. A `pooled` design is given
        the positions of the observations among all that are scored together (`positions`), so that ids with
        gaps do not make its sizes uneven. A step of training has some of the observations only, and gives no
        positions; sizes then follow the ids.
        """

    def wanted(self, n_tokens: Integers, index: Integers) -> Bool[np.ndarray, " B"]:
        """Whether each mask is scored; False if it would repeat another mask of the same observation."""
        return np.ones(index.shape, dtype=np.bool_)

    def unknown_error(self, n_tokens: Integers, masks: Masks) -> str | None:
        """Why the masks' error on observations with these numbers of tokens is unknown; None if it is known.

        An interval from too few independent masks covers less than its nominal share, so that none is given
        (measured in benchmarks/coverage.py).
        """
        if self.n_replicates >= self.min_replicates:
            return None
        return f"{self.name} has {self.n_replicates} independent masks and needs {self.min_replicates}"

    @abstractmethod
    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        """How the scores of these masks add up to the estimate."""

    @abstractmethod
    def covers_all_sizes(self, n_tokens: int) -> bool:
        """Whether every size 1..n has the weight of Eq. 2, so that the sum estimates the log evidence."""

    @property
    def learned_kind(self) -> LearnedKind:
        """The kind of an estimate from learned conditionals: by default the area, a lower bound."""
        return "lower_bound"

    @property
    def is_area(self) -> bool:
        """Whether the estimate is the weighted sum of mean scores, of masks that the design alone draws."""
        return True

    def scored(
        self, key: MaskKey, ids: Integers, draw: Integers, masked: BoolMatrix, maskable: BoolMatrix
    ) -> BoolMatrix:
        """Which of the hidden tokens count for the score of each mask, shape (B, D); by default all."""
        return masked

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        """The masks, shape (B, D); row b hides size_b of the maskable tokens of observation b.

        By default a uniformly random subset of each size: the tokens of the lowest ranks in a random order.
        """
        keys = key.columns(ids, draw) if self.nested else key.columns(ids, draw, size)
        return keyed_subset(key.seed, keys, maskable, size)

    def draws_per_repeat(self, n_tokens: Integers) -> Integers:
        """How many masks an observation of n tokens gets in one repeat.

        Raises:
            InputError: a design whose masks are not a multiple of its repeats.
        """
        n_draws, n_repeats = self.n_draws(n_tokens), self.n_repeats
        uneven = n_draws[n_draws % n_repeats != 0]
        if len(uneven):
            raise InputError(
                f"{type(self).__name__} has {uneven[0]} masks for an observation, which is not a multiple of "
                f"{self.extended_by}={n_repeats}; make n_draws a multiple of it, or extended_by None"
            )
        return n_draws // n_repeats

    def in_training(self) -> "MaskDesign":
        """The design as training uses it: by default as it is.

        Raises:
            InputError: a design whose estimate is not the area under the curve.

        Example:
            >>> RandomSize(1).in_training()
            RandomSize(draws=1, replicates=1)
        """
        if not self.is_area:
            raise InputError(f"{self} is for scoring only; train with random-size, RandomSize(), for example")
        return self

    def continuing(self, other: "MaskDesign", asked: Collection[str]) -> "MaskDesign":
        """The design for more masks of a run: with options of its design, except those `asked` for.

        By default no option is kept.
        """
        return self

    def settings(self) -> dict[str, object]:
        """The design's name and parameters, as they are written to files.

        Example:
            >>> EverySize(2).settings()
            {'name': 'every-size', 'masks_per_size': 2}
        """
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class DrawnMasks:
    """Masks of a design for B observations: which observation each is of, its draw and its size.

    Attributes:
        design: how they were drawn.
        key: what they depend on.
        ids: shape (B,); the observations.
        maskable: shape (B, D).
        row: shape (n_masks,); the position 0..B-1 of each mask's observation.
        draw: shape (n_masks,).
        size: shape (n_masks,).
    """

    design: MaskDesign
    key: MaskKey
    ids: Int64[np.ndarray, " B"]
    maskable: Bool[np.ndarray, "B D"]
    row: Int64[np.ndarray, " n_masks"]
    draw: Int64[np.ndarray, " n_masks"]
    size: Int64[np.ndarray, " n_masks"]

    def __len__(self) -> int:
        return len(self.row)

    def masked(
        self, part: slice | Int64[np.ndarray, " n_part"] = slice(None)
    ) -> Bool[np.ndarray, "n_part D"]:
        """The masks themselves, or a part of them, shape (n_part, D)."""
        row = self.row[part]
        return self.design.masked(
            self.key, self.ids[row], self.draw[part], self.size[part], self.maskable[row]
        )

    def scored(
        self, part: slice | Int64[np.ndarray, " n_part"], masked: Bool[np.ndarray, "n_part D"]
    ) -> Bool[np.ndarray, "n_part D"]:
        """Which of the hidden tokens of some masks count for their scores, shape (n_part, D)."""
        row = self.row[part]
        return self.design.scored(self.key, self.ids[row], self.draw[part], masked, self.maskable[row])

    @property
    def weight(self) -> Float64[np.ndarray, " n_masks"]:
        """The weight of each mask's score, shape (n_masks,)."""
        return self.design.summation(self.maskable.sum(1)[self.row], self.draw, self.size).weight


def all_pairs(
    design: MaskDesign, n_tokens: Integers, repeats: range | None = None
) -> tuple[Int64[np.ndarray, " n_masks"], Int64[np.ndarray, " n_masks"]]:
    """Every pair of an observation and one of its masks.

    Args:
        design: how masks are drawn.
        n_tokens: shape (B,).
        repeats: which of the design's repeats, with a step of 1; by default all.

    Returns:
        The observation's position 0..B-1 and the mask's index, each of shape (n_masks,).

    Example:
        >>> row, index = all_pairs(LeaveOneOut(), np.array([2, 3]))
        >>> row.tolist(), index.tolist()
        ([0, 0, 1, 1, 1], [0, 1, 0, 1, 2])
    """
    repeats = range(design.n_repeats) if repeats is None else repeats
    per_repeat = design.draws_per_repeat(n_tokens)
    counts = per_repeat * len(repeats)
    check_n_masks(counts)
    row = np.repeat(np.arange(len(n_tokens)), counts)
    first = np.cumsum(counts) - counts - per_repeat * repeats.start
    index = np.arange(len(row)) - np.repeat(first, counts)
    wanted = design.wanted(n_tokens[row], index)
    return row[wanted], index[wanted]


def n_masks(design: MaskDesign, n_tokens: Integers, repeats: range | None = None) -> Integers:
    """How many masks each observation has, shape (B,); the arguments are those of `all_pairs`.

    Example:
        >>> n_masks(EverySize(4), np.array([2, 30])).tolist()
        [3, 117]
    """
    lengths, place = np.unique(n_tokens, return_inverse=True)
    counts = [len(all_pairs(design, lengths[k : k + 1], repeats)[0]) for k in range(len(lengths))]
    return np.array(counts, dtype=np.int64)[place]


def check_n_masks(n_draws: Integers) -> None:
    """Refuse more masks than this machine's memory holds.

    Args:
        n_draws: shape (B,); the number of masks of each observation.

    Raises:
        InputError: there are too many masks.
    """
    n_masks = int(n_draws.sum(dtype=np.float64))
    check_memory(
        n_masks * BYTES_PER_MASK,
        f"{n_masks:,} masks",
        "ask for fewer masks, or use fewer rows",
    )


def drawn_masks(
    design: MaskDesign,
    key: MaskKey,
    ids: Integers,
    maskable: BoolMatrix,
    pairs: tuple[Int64[np.ndarray, " n_masks"], Int64[np.ndarray, " n_masks"]] | None = None,
    position: Positions | None = None,
) -> DrawnMasks:
    """Draw masks of a design for observations.

    Args:
        design: how masks are drawn.
        key: what they depend on.
        ids: shape (B,); the observations.
        maskable: shape (B, D).
        pairs: position of the observation and index of the mask, each of shape (n_masks,); by default
            `all_pairs`.
        position: shape (B, 2); the position of each observation among all that are scored together, by
            `positions`; None if sizes follow the ids, as in training.

    Example:
        >>> masks = drawn_masks(EverySize(1), MaskKey(0), np.array([7]), np.array([[True, False, True]]))
        >>> masks.masked().sum(1).tolist(), masks.weight.tolist()
        ([1, 2], [1.0, 1.0])
    """
    n_tokens = maskable.sum(1)
    row, index = all_pairs(design, n_tokens) if pairs is None else pairs
    if position is None or not design.pooled:
        draw, size = design.plan(key, ids[row], n_tokens[row], index)
    else:
        draw, size = design.plan(key, ids[row], n_tokens[row], index, position[row])
    return DrawnMasks(design, key, ids, maskable, row, draw, size)


def masks_of_all_rows(design: MaskDesign, key: MaskKey, n_tokens: int) -> DrawnMasks:
    """The masks shared by complete observations of n tokens, drawn once for all of them."""
    first, maskable = np.zeros(1, dtype=np.int64), np.ones((1, n_tokens), dtype=np.bool_)
    return drawn_masks(design, key, first, maskable, position=positions(first))


def size_of_rate(rate: float | Float64[np.ndarray, " B"], n_tokens: Integers) -> Integers:
    """The mask size of a rate: max(1, floor(rate·n + 1e-9)), so that 15 % of 512 is 76.

    Example:
        >>> size_of_rate(0.15, np.array([512, 3])).tolist()
        [76, 1]
    """
    return np.maximum(1, np.floor(rate * n_tokens + 1e-9).astype(np.int64))


def _check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise InputError(f"{name}={count!r}; give a whole number of 1 or more")
        if count > _MAX_COUNT:
            raise InputError(f"{name}={count}; give {_MAX_COUNT:,} or fewer")


def _check_rates(*rates: float) -> None:
    for rate in rates:
        if not 0.0 < rate <= 1.0:
            raise InputError(f"mask rate {rate:g}; give a share of the tokens in (0, 1], such as 0.15")


def _constant(value: float, like: Integers) -> Float64[np.ndarray, " B"]:
    return np.full(like.shape, value, dtype=np.float64)


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
        >>> drawn_masks(EverySize(4), MaskKey(0), np.array([0]), maskable).size.tolist()
        [1, 2, 3, 1, 2, 1, 2]
    """

    masks_per_size: int = 4
    max_listed: ClassVar[int] = MAX_LISTED
    name: ClassVar[str] = "every-size"
    purpose: ClassVar[str] = "Unbiased for the sum over sizes: every size has its own random masks."
    extended_by: ClassVar[str] = "masks_per_size"

    def __post_init__(self) -> None:
        _check_counts(masks_per_size=self.masks_per_size)

    def in_training(self) -> MaskDesign:
        return IndependentMasks(self.masks_per_size) if type(self) is EverySize else self

    def n_draws(self, n_tokens: Integers) -> Integers:
        return self.masks_per_size * n_tokens

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        return index // n_tokens, index % n_tokens + 1

    def wanted(self, n_tokens: Integers, index: Integers) -> Bool[np.ndarray, " B"]:
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
        # Masks that are drawn without replacement have a stratum for each number of tokens.
        stratum = size + np.where(listed, (n_tokens + 1) * (n_tokens.max(initial=0) + 1), 0)
        return Summation(weight, stratum=stratum, replicate=draw, unseen=unseen)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True

    def unknown_error(self, n_tokens: Integers, masks: Masks) -> str | None:
        lengths, place = np.unique(n_tokens, return_inverse=True)
        sizes = [np.arange(1, n + 1) for n in lengths]
        listed = [n_subsets(np.full_like(m, len(m)), m, self.max_listed) for m in sizes]
        random = np.array([bool(((c == 0) | (c > self.masks_per_size)).any()) for c in listed])
        left_out = np.array([self._n_left_out(c) for c in listed])
        n_left_out = left_out[place].sum() if masks == "own" else left_out.max()
        if 0 < n_left_out < FEWEST_LEFT_OUT:
            return (
                f"{self.name} with {self.masks_per_size} masks per size leaves out only {n_left_out:.0f} of "
                f"all masks; give {max(int(c.max()) for c in listed)} or more, which scores them all"
            )
        return _too_few(self, self.masks_per_size, int(random[place].sum()), masks)

    def _n_left_out(self, n_masks: Integers) -> float:
        """How many masks of an observation are not scored; n_masks has those of each size, 0 for many."""
        if (n_masks == 0).any():
            return math.inf
        return float(np.maximum(n_masks - self.masks_per_size, 0).sum())


class IndependentMasks(EverySize):
    """`EverySize` in training: every mask is drawn independently, also where a size has few masks."""

    max_listed: ClassVar[int] = 0


def _too_few(design: MaskDesign, per_stratum: int, n_observations: int, masks: Masks) -> str | None:
    """Why the error of several strata is unknown: one of them may hold all of the variance.

    Args:
        design: how masks are drawn.
        per_stratum: P, the number of masks of each observation in a stratum.
        n_observations: how many observations have random masks.
        masks: "own" or "shared".
    """
    n = min(n_observations, 1) if masks == "shared" else n_observations
    if n == 0 or (per_stratum - 1) * n >= MIN_DF:
        return None
    return (
        f"{design.name} with {per_stratum} {masks} mask{'s' * (per_stratum > 1)} per size needs "
        f"{1 + math.ceil(MIN_DF / n)} or more for {n_observations} observation{'s' * (n_observations > 1)}"
    )


def _in_random_order(
    key: MaskKey, ids: Integers, size: Integers, maskable: BoolMatrix, first: BoolMatrix, limit: int
) -> Int64[np.ndarray, "B limit"]:
    """All subsets of the maskable tokens of a size in a random order that begins with a given subset."""
    n_tokens = maskable.sum(1)
    listed = listed_subsets(n_tokens, size, limit)
    columns = key.columns(ids, size, n_subsets(n_tokens, size, limit))
    bits = keyed_bits(key.seed, *columns.T[:, :, None], np.arange(limit))
    bits[listed == 0] = np.iinfo(np.uint64).max
    bits[listed == subset_of(first, maskable)[:, None]] = 0
    return np.take_along_axis(listed, np.argsort(bits, axis=1, kind="stable"), axis=1)


@dataclass(frozen=True)
class Orderings(MaskDesign):
    """`orders` random orders; each gives nested masks of all sizes 1..D.

    A single order is an unbiased estimate by the chain rule. The design is fast for a model that gives the
    conditionals at every prefix of an order at once. Weights: 1/n each; the standard error needs n >= 2.

    With bound="importance" the score of each mask is that of the one token which the order shows next, so
    that the scores of an order add up to log p_σ(x). The estimate of an observation is then

        log (1/n) Σ_σ p_σ(x),

    in place of the mean of the log p_σ(x). It is a lower bound on the evidence of the mixture over orders,
    log E_σ p_σ(x), never below the area on average, and rises to the mixture with n. The standard error (by
    the jackknife over orders) needs n >= 4; it is the error of the bound for n orders.

    Args:
        orders: n.
        bound: "area" or "importance".

    Source:
        Burda, Grosse, Salakhutdinov (2016), Importance Weighted Autoencoders, Theorem 1, on the bound.

    Example:
        >>> Orderings(8).n_draws(np.array([61])).tolist()
        [488]
        >>> Orderings(16, bound="importance").settings()
        {'name': 'orderings', 'orders': 16, 'bound': 'importance'}
    """

    orders: int = 8
    bound: Bound = "area"
    name: ClassVar[str] = "orderings"
    purpose: ClassVar[str] = "Unbiased for the sum over sizes: a random order hides its first M tokens."
    extended_by: ClassVar[str] = "orders"
    nested: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _check_counts(orders=self.orders)
        if self.bound not in ("area", "importance"):
            raise InputError(f"bound={self.bound!r}; give 'area' or 'importance'")

    @property
    def is_area(self) -> bool:
        return self.bound == "area"

    def scored(
        self, key: MaskKey, ids: Integers, draw: Integers, masked: BoolMatrix, maskable: BoolMatrix
    ) -> BoolMatrix:
        if self.bound == "area":
            return masked
        next_rank = masked.sum(1, keepdims=True) - 1
        return masked & (self.ranks(key, ids, draw, maskable) == next_rank)

    def unknown_error(self, n_tokens: Integers, masks: Masks) -> str | None:
        if self.bound == "area" or self.orders >= FEWEST_ORDERS:
            return super().unknown_error(n_tokens, masks)
        return f"the importance bound has {self.orders} orders and needs {FEWEST_ORDERS}"

    def n_draws(self, n_tokens: Integers) -> Integers:
        return self.orders * n_tokens

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        return index // n_tokens, index % n_tokens + 1

    def ranks(
        self, key: MaskKey, ids: Integers, draw: Integers, maskable: BoolMatrix
    ) -> Int64[np.ndarray, "B D"]:
        """The order of each draw: the mask of size M hides the maskable tokens of rank below M."""
        return keyed_ranks(key.seed, key.columns(ids, draw), maskable)

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        weight, unseen = _constant(1.0 / self.orders, size), (n_tokens > 1).astype(np.float64)
        return Summation(weight, stratum=np.zeros_like(draw), replicate=draw, unseen=unseen)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True


@dataclass(frozen=True)
class RandomSize(MaskDesign):
    """`draws` masks per observation, of uniformly random sizes, stratified over the whole data set.

    The size of draw k = r + R·c of the i-th of N observations that are scored together, ordered by id, is
    M = floor(u·D) + 1 with the u of `stratified` for row i in turn c of replicate r, which is independent of
    the R - 1 other `replicates`. Every single u is uniform, so that any prefix and any added draws stay
    unbiased. In each turn of a replicate, n <= 256 neighbours have one u in each of n equal intervals,
    assigned at random; the u of an observation are even over the turns. Whatever the scores are, the
    variance of the estimate is at most n/(n - 1) times that for independent sizes. Weights: D over the number
    of draws. In training, where a step has some of the observations only, i is the id, and u is that of the
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
        _check_counts(draws=self.draws)
        if self.replicates is None:
            best = max(r for r in range(1, MAX_REPLICATES + 1) if self.draws % r == 0)
            object.__setattr__(self, "replicates", best)
        assert self.replicates is not None
        _check_counts(replicates=self.replicates)
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
        """The smallest number of draws, this many or more, to which these replicates can be extended.

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
        """The design for more masks of a run, whose draws and replicates it keeps, except those `asked` for.

        Example:
            >>> RandomSize(16).continuing(RandomSize(4, 4), asked=["draws"])
            RandomSize(draws=16, replicates=4)
        """
        kept = {name: getattr(other, name) for name in ("draws", "replicates") if name not in asked}
        return replace(self, **kept)

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        replicate, turn = index % self.n_replicates, index // self.n_replicates
        if position is None:
            row = np.zeros_like(ids) if key.masks == "shared" else ids
            return index, scaled(kronecker(keyed_bits(key.seed, replicate), row, turn), n_tokens) + 1
        row, n_rows = position[:, 0], int(position[:, 1].max(initial=1))
        if key.masks == "shared":
            row, n_rows = np.zeros_like(row), 1
        share = stratified(key.seed, replicate, turn, row, n_rows)
        return index, scaled(share, n_tokens) + 1

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
        """The number of draws from which the error on observations of these numbers of tokens is known.

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
        if int(n_tokens.max()) == 1:  # there is nothing to draw
            return self.possible_draws(1)
        per_size = FEWEST_PER_SIZE * int(n_tokens.max())
        n_random = 1
        if masks == "own":
            n_random, per_size = max(1, int((n_tokens > 1).sum())), min(per_size, ENOUGH_MASKS)
        return self.possible_draws(max(FEWEST_MASKS[masks], per_size) / n_random)


@dataclass(frozen=True)
class Rates(MaskDesign):
    """`masks_per_size` masks at each of a list of mask rates, as in the paper's sweep of 1 %..99 %.

    Weights: D over the number of masks, so that the estimate is D times the mean score over the rates. Strata
    are the rates. With several rates the standard error needs as many masks as that of `EverySize`.

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
        _check_counts(masks_per_size=self.masks_per_size, rates=len(self.rates))
        _check_rates(*self.rates)

    def n_draws(self, n_tokens: Integers) -> Integers:
        return np.full_like(n_tokens, len(self.rates) * self.masks_per_size)

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
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
        return _too_few(self, self.masks_per_size, n_random, masks)


class FixedRate(Rates):
    """`Rates` with a single rate: D·S(x; M) at one size, a composite likelihood and not the evidence.

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


def _places(maskable: BoolMatrix) -> Int64[np.ndarray, "#B D"]:
    """The number of each maskable token among those of its row, from 0; any such number elsewhere."""
    if maskable.all():
        return np.arange(maskable.shape[1])[None]
    return np.maximum(np.cumsum(maskable, axis=1) - 1, 0)


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

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        return index, np.ones_like(index)

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        return maskable & (_places(maskable) == draw[:, None])

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        zero = np.zeros_like(draw)
        return Summation(_constant(1.0, draw), stratum=zero, replicate=zero)

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
        if not self.order_mixture:
            raise InputError(
                "blocks belong to the order mixture; add order_mixture=True (exhaustive:order-mixture)"
            )
        _check_counts(blocks=self.blocks)
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
        """The number of tokens of the blocks of each observation but the last one, shape (B,)."""
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

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        size = self.block_size(n_tokens)
        block, subset = index // (2**size - 1), index % (2**size - 1) + 1
        later = np.maximum(n_tokens - (block + 1) * size, 0)
        return (block << size) | subset, np.bitwise_count(subset) + later

    def subset(self, n_tokens: Integers, draw: Integers) -> tuple[Integers, Integers, Integers]:
        """The block of each mask, the hidden subset of it in binary digits, and its number of tokens."""
        size = self.block_size(n_tokens)
        block = draw >> size
        return block, draw & (2**size - 1), np.minimum(size, n_tokens - block * size)

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        if self.blocks is None:  # the draw is the subset
            return maskable & ((draw[:, None] >> _places(maskable)) & 1 == 1)
        after, hidden = self._hidden(draw, maskable)
        return maskable & (hidden | (after > 0))

    def scored(
        self, key: MaskKey, ids: Integers, draw: Integers, masked: BoolMatrix, maskable: BoolMatrix
    ) -> BoolMatrix:
        return masked if self.blocks is None else masked & self._hidden(draw, maskable)[1]

    def _hidden(self, draw: Integers, maskable: BoolMatrix) -> tuple[Int64[np.ndarray, "B D"], BoolMatrix]:
        """How many blocks each token comes after the block of its mask, and whether its subset hides it."""
        n_tokens = maskable.sum(1)
        size = self.block_size(n_tokens)[:, None]
        block, subset, _ = self.subset(n_tokens, draw)
        place = _places(maskable)
        after = place // size - block[:, None]
        return after, (after == 0) & ((subset[:, None] >> place % size) & 1 == 1)

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        span = range(MAX_TOKENS_EXHAUSTIVE + 1)
        masks_of_size = np.array([[math.comb(n, m) for m in span] for n in span], dtype=np.float64)
        _, subset, of_block = self.subset(n_tokens, draw)
        zero = np.zeros_like(draw)
        weight = 1.0 / masks_of_size[of_block, np.bitwise_count(subset)]
        return Summation(weight, stratum=zero, replicate=zero)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return True


@dataclass(frozen=True)
class Policy(MaskDesign):
    """The order in which a decoder writes: it chooses the next tokens by what is visible alone.

    All tokens are hidden at first, and each step shows `tokens_per_step` of them. Since the order depends on
    nothing that is still hidden, the chain rule along it is the exact log-probability that this decoder,
    which draws each value from the model, writes the observation. Tokens that are shown together are drawn
    independently, and their probabilities are multiplied. An observation takes one pass for each step.

    The next tokens are those of the first block with a hidden token which come first in the order, or whose
    distributions rank first (ties go to the earlier token):

    | policy | next |
    | --- | --- |
    | `left-to-right`, `right-to-left` | the first, or the last token |
    | `order` | the token that a given order lists first |
    | `confidence` | the largest probability of a value |
    | `margin` | the largest difference between the two most probable values |
    | `entropy` | the smallest entropy |

    Weights: how many tokens a step shows, so that the sum is log p of the policy. The scores are those of the
    shown tokens.

    Args:
        policy: one of the words above; the last three need a model with `log_distributions`.
        blocks: how many tokens form a block; blocks are written from left to right. None for one block.
        tokens_per_step: how many tokens of a block are shown together.
        order: for "order", the places 0, 1, ... of the tokens in the order in which they are shown; an
            observation of n tokens takes the places below n.

    Example:
        >>> Policy("confidence", blocks=4).n_draws(np.array([10])).tolist()
        [10]
        >>> policy = Policy("left-to-right", blocks=4, tokens_per_step=3)
        >>> policy.plan(MaskKey(), *[np.full(5, 10)] * 2, np.arange(5))[1].tolist()
        [10, 7, 6, 3, 2]
    """

    policy: str = "confidence"
    blocks: int | None = None
    tokens_per_step: int = 1
    order: tuple[int, ...] | None = None
    name: ClassVar[str] = "policy"
    purpose: ClassVar[str] = "Equal to the log-probability that a decoder writes the observation."
    deterministic: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise unknown_name("policy", self.policy, POLICIES)
        _check_counts(tokens_per_step=self.tokens_per_step)
        if self.blocks is not None:
            _check_counts(blocks=self.blocks)
        if (self.policy == "order") != (self.order is not None):
            raise InputError(
                'an order of places belongs to Policy("order", order=...), policy:order=FILE, and to it alone'
            )
        if self.order is not None and sorted(self.order) != list(range(len(self.order))):
            raise InputError(
                f"the order lists {len(self.order)} places; it must have each of 0 to n - 1 exactly once"
            )

    @property
    def is_area(self) -> bool:
        return False

    @property
    def learned_kind(self) -> LearnedKind:
        return "policy"

    @property
    def looks_at_values(self) -> bool:
        """Whether the next tokens depend on the distributions, and so on the visible values."""
        return self.policy in ADAPTIVE_POLICIES

    def steps(self, n_tokens: Integers, step: Integers) -> tuple[Integers, Integers, Integers]:
        """The block of each step, how many tokens are shown before it, and how many it shows."""
        size = n_tokens if self.blocks is None else np.full_like(n_tokens, self.blocks)
        per_block = -(-size // self.tokens_per_step)
        block, within = step // per_block, step % per_block * self.tokens_per_step
        in_block = np.minimum(size, n_tokens - block * size)
        return block, block * size + within, np.minimum(self.tokens_per_step, in_block - within)

    def n_draws(self, n_tokens: Integers) -> Integers:
        longest = int(n_tokens.max(initial=0))
        if self.order is not None and longest > len(self.order):
            raise InputError(f"the order lists {len(self.order)} places, an observation has {longest} tokens")
        size = n_tokens if self.blocks is None else np.full_like(n_tokens, self.blocks)
        size = np.maximum(size, 1)
        whole, rest = n_tokens // size, n_tokens % size
        return whole * -(-size // self.tokens_per_step) + -(-rest // self.tokens_per_step)

    def plan(
        self,
        key: MaskKey,
        ids: Integers,
        n_tokens: Integers,
        index: Integers,
        position: Positions | None = None,
    ) -> Plan:
        return index, n_tokens - self.steps(n_tokens, index)[1]

    def masked(
        self, key: MaskKey, ids: Integers, draw: Integers, size: Integers, maskable: BoolMatrix
    ) -> BoolMatrix:
        raise InputError("the masks of a policy depend on the model; estimate_evidence draws them")

    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        zero = np.zeros_like(draw)
        return Summation(self.steps(n_tokens, draw)[2].astype(np.float64), stratum=zero, replicate=zero)

    def covers_all_sizes(self, n_tokens: int) -> bool:
        return self.tokens_per_step == 1 or n_tokens == 1


ADAPTIVE_POLICIES = ("confidence", "margin", "entropy")
POLICIES = ("left-to-right", "right-to-left", "order", *ADAPTIVE_POLICIES)

DESIGNS: tuple[type[MaskDesign], ...] = (
    EverySize,
    RandomSize,
    Orderings,
    LeaveOneOut,
    Exhaustive,
    FixedRate,
    Rates,
    Policy,
)


def design_class(name: str) -> type[MaskDesign]:
    """The design with this name.

    Raises:
        InputError: an unknown name; the message lists the close matches.
    """
    by_name = {design.name: design for design in DESIGNS}
    if name not in by_name:
        raise unknown_name("design", name, by_name)
    return by_name[name]


def design_from_settings(settings: Mapping[str, object]) -> MaskDesign:
    """The design that `MaskDesign.settings` describes, as it is or after a way through JSON.

    Raises:
        InputError: a design that is not one of this package's, or options that it does not have.

    Example:
        >>> design_from_settings({"name": "rates", "rates": [0.2, 0.4], "masks_per_size": 1})
        Rates(rates=(0.2, 0.4), masks_per_size=1)
    """
    options = {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
    design = design_class(str(options.pop("name", None)))
    try:
        return design(**options)
    except TypeError as error:
        raise InputError(f"the design {dict(settings)} cannot be used: {error}") from error
