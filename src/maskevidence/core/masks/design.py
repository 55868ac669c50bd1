"""Mask designs: which masks are drawn and scored, and how their scores are weighted.

A design lists the masks of an observation: one of n tokens gets `n_draws(n)` masks, each with a draw number
and a size. The estimate of the log evidence is Σ weight · score, nats per observation (Eq. 2). The tokens of
a mask are a function of (seed, observation id, draw, size), without the id if all rows share their masks;
random sizes depend on the place of the observation among all that are scored together, too.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64, Integer

from maskevidence.core.errors import InputError
from maskevidence.core.support.checks import check_memory, in_short, whole_number
from maskevidence.core.support.keyed_random import keyed_subset

Masks = Literal["own", "shared"]
Bound = Literal["area", "importance"]
LearnedKind = Literal["lower_bound", "mixture", "policy"]
Integers = Integer[np.ndarray, " B"]
PerMask = Float64[np.ndarray, " n_masks"]  # a number of each mask
Indices = Integer[np.ndarray, " n_masks"]
BoolMatrix = Bool[np.ndarray, "B D"]
Positions = Int64[np.ndarray, "B 2"] | None  # ranks, and how many observations there are
Plan = tuple[Integers, Integers]  # draw number and size of each mask
_MAX_COUNT = 2**31 - 1
MAX_LISTED = 32
MIN_DF = 3
FEWEST_LEFT_OUT = 10  # fewest masks not scored for which an error is given
MASKS_AT_ONCE = 2**19  # masks drawn or summarised at once, which bounds the memory
_CELLS_AT_ONCE = 2**18  # of masks that are drawn together, whatever the calls of a model
BYTES_PER_MASK = 80  # memory of a mask while it is scored and summarised


@dataclass(frozen=True)
class MaskKey:
    """The seed of a run's masks, and whether all observations share them.

    Attributes:
        seed: any whole number.
        masks: "own" draws separate masks for each observation, "shared" the same masks for all.

    Raises:
        InputError: a seed that is not a whole number, or another word for the masks.

    Example:
        >>> import maskevidence as me
        >>> masks = [me.shared_masks(me.EverySize(1), MaskKey(seed, "shared"), 6)[0] for seed in (3, 3, 4)]
        >>> bool((masks[0] == masks[1]).all()), bool((masks[0] == masks[2]).all())
        (True, False)
    """

    checks_arguments: ClassVar[bool] = True  # itself, since any whole number is a seed here

    seed: int = 0
    masks: Masks = "own"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole_number("seed", self.seed))
        if not isinstance(self.masks, str) or self.masks not in ("own", "shared"):
            raise InputError(f"masks={in_short(self.masks)}; give 'own' or 'shared'")

    def columns(self, ids: Integers, *draw: Integers) -> Integer[np.ndarray, "B n_keys"]:
        """The keys of each mask, shape (B, n_keys): its draw, after the observation's id if not shared."""
        return np.stack(draw if self.masks == "shared" else (ids, *draw), axis=1)


class Summation(NamedTuple):
    """How the scores of masks add up to the estimate, one entry per mask, each of shape (B,)."""

    # Σ weight · score over an observation's masks estimates its log evidence
    weight: Float64[np.ndarray, " B"]
    stratum: Integers  # strata are independent of each other, and their contributions add up
    replicate: Integers  # 0..R-1; the replicates of one stratum are independent and equally distributed
    # finite-population correction of the variance: 1 - k/C if k of the C masks of a size were drawn without
    # replacement (0 if all were drawn); None for 1 everywhere
    unseen: Float64[np.ndarray, " B"] | None = None


class MaskDesign(ABC):
    """How mask sizes and masks are drawn, and how their scores are weighted.

    Attributes:
        name: the design's name, the first part of its words (by_name.py).
        purpose: one sentence on what the weighted sum of scores is unbiased for.
        extended_by: the option that says how often the design repeats its masks; None if nothing repeats.
            A larger value adds masks and keeps the earlier ones, so that a run can be extended.
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
        """How often the design repeats its masks: the value of the option `extended_by`, or 1.

        Raises:
            InputError: a design whose `extended_by` does not name such an option.

        Example:
            >>> import maskevidence as me
            >>> me.EverySize(masks_per_size=4).n_repeats, me.LeaveOneOut().n_repeats
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
        """R, the number of independent replicates of each stratum; by default each repeat is a replicate."""
        return self.n_repeats

    @abstractmethod
    def n_draws(self, n_tokens: Integers) -> Integers:
        """Number of masks of an observation of n tokens, over all repeats."""

    def plan(
        self, key: MaskKey, ids: Integers, n_tokens: Integers, index: Integers, position: Positions = None
    ) -> Plan:
        """Draw number and mask size of the index-th mask (0..n_draws-1) of each observation.

        Equal shares of consecutive indices belong to the repeats, in their order. A `pooled` design is given
        the positions of the observations among all that are scored together (`positions`), so that ids with
        gaps do not make its sizes uneven. A step of training has some of the observations only, and gives no
        positions; sizes then follow the ids.
        By default these follow from the index alone: `sizes`.
        """
        return self.sizes(n_tokens, index)

    def sizes(self, n_tokens: Integers, index: Integers) -> Plan:
        """The `plan` of a design in which draw number and size follow from the index of a mask."""
        raise InputError(f"{type(self).__name__} has no sizes; define sizes(n_tokens, index), or plan")

    def is_scored(self, n_tokens: Integers, index: Integers) -> Bool[np.ndarray, " B"]:
        """Whether each mask is scored; False for a repetition of another mask of the observation."""
        return np.ones(index.shape, dtype=np.bool_)

    def unknown_error(self, n_tokens: Integers, masks: Masks) -> str | None:
        """Why the mask error is not known for these numbers of tokens; None if it is known.

        An interval from too few independent masks covers less than its nominal share (measured in
        benchmarks/coverage.py), so that no interval is given.
        """
        if self.n_replicates >= self.min_replicates:
            return None
        return f"{self.name} has {self.n_replicates} independent masks and needs {self.min_replicates}"

    @abstractmethod
    def summation(self, n_tokens: Integers, draw: Integers, size: Integers) -> Summation:
        """Return weight, stratum, replicate and correction of each mask."""

    @abstractmethod
    def covers_all_sizes(self, n_tokens: int) -> bool:
        """Whether every size 1..n has its weight in Eq. 2, so that the sum estimates the log evidence."""

    def weight_by_size(self, n_tokens: Integers, size: Integers) -> Float64[np.ndarray, " B"] | None:
        """Expected total weight of the masks of a size, E[Σ weight], which is 1 in Eq. 2.

        None if it is 1 for every size, or if masks of some sizes are never drawn.
        """
        return None

    def own_size(self, n_tokens: Integers, draw: Integers, size: Integers) -> tuple[Integers, Integers]:
        """The numbers of tokens and hidden tokens in the observation, or in the block that a mask scores."""
        return n_tokens, size

    @property
    def learned_kind(self) -> LearnedKind:
        """The kind of an estimate from learned conditionals: by default "lower_bound", the area."""
        return "lower_bound"

    @property
    def is_area(self) -> bool:
        """Whether the estimate is a weighted sum of mean scores of masks that do not depend on the data."""
        return True

    def scored(
        self, key: MaskKey, ids: Integers, draw: Integers, masked: BoolMatrix, maskable: BoolMatrix
    ) -> BoolMatrix:
        """The hidden tokens that count for each mask's score, shape (B, D); by default all."""
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
        """Number of masks of an observation of n tokens in one repeat.

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
        """The design that training uses; by default this design.

        Raises:
            InputError: a design whose estimate is not the area under the curve.

        Example:
            >>> import maskevidence as me
            >>> me.RandomSize(1).in_training()
            RandomSize(draws=1, replicates=1)
        """
        if not self.is_area:
            raise InputError(f"{self} is for scoring only; train with random-size, RandomSize(), for example")
        return self

    def continuing(self, other: "MaskDesign", asked: Collection[str]) -> "MaskDesign":
        """The design that adds masks to a run of `other`, with the options of that run.

        It does not keep those that the user `asked` for. By default no option is kept.
        """
        return self

    def settings(self) -> dict[str, object]:
        """The design's name and parameters, in the form written to files.

        Example:
            >>> import maskevidence as me
            >>> me.EverySize(2).settings()
            {'name': 'every-size', 'masks_per_size': 2}
        """
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]


def check_counts(design: MaskDesign, *names: str) -> None:
    """Check that options are counts, and store them as Python ints, which JSON needs."""
    for name in names:
        object.__setattr__(design, name, whole_number(name, getattr(design, name), 1, _MAX_COUNT))


def constant(value: float, like: Integers) -> Float64[np.ndarray, " B"]:
    return np.full(like.shape, value, dtype=np.float64)


def too_few(design: MaskDesign, per_stratum: int, n_observations: int, masks: Masks) -> str | None:
    """Why the error is not known with so few masks per stratum; None if it is known."""
    n = min(n_observations, 1) if masks == "shared" else n_observations
    if n == 0 or (per_stratum - 1) * n >= MIN_DF:
        return None
    return (
        f"{design.name} with {per_stratum} {masks} mask{'s' * (per_stratum > 1)} per size needs "
        f"{1 + math.ceil(MIN_DF / n)} or more for {n_observations} observation{'s' * (n_observations > 1)}"
    )


def token_numbers(maskable: BoolMatrix) -> Int64[np.ndarray, "#B D"]:
    """Number the maskable tokens of each row from 0; other entries are meaningless."""
    if maskable.all():
        return np.arange(maskable.shape[1])[None]
    return np.maximum(np.cumsum(maskable, axis=1) - 1, 0)


def compact(values: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
    """Convert to int32 if all numbers fit."""
    room = np.iinfo(np.int32)
    fit = values.min(initial=0) >= room.min and values.max(initial=0) <= room.max
    return values.astype(np.int32, copy=False) if fit else values


@dataclass(frozen=True)
class DrawnMasks:
    """Masks drawn for B observations: the observation, draw and size of each mask."""

    design: MaskDesign  # the design that drew them
    key: MaskKey  # seed, and whether all observations share the masks
    ids: Int64[np.ndarray, " B"]  # ids of the observations
    maskable: Bool[np.ndarray, "B D"]
    row: Indices  # position of each mask's observation, 0..B-1
    draw: Indices
    size: Indices

    def __len__(self) -> int:
        return len(self.row)

    def masked(
        self, part: slice | Int64[np.ndarray, " n_part"] = slice(None)
    ) -> Bool[np.ndarray, "n_part D"]:
        """The masks, or part of them, as a boolean matrix of shape (n_part, D)."""
        return self._drawn(part) if self._all is None else self._all[part]

    @cached_property
    def _all(self) -> Bool[np.ndarray, "n_masks D"] | None:
        """All masks if they are few, since to draw some for each call of a model takes longer."""
        return self._drawn() if len(self) * self.maskable.shape[1] <= _CELLS_AT_ONCE else None

    def _drawn(
        self, part: slice | Int64[np.ndarray, " n_part"] = slice(None)
    ) -> Bool[np.ndarray, "n_part D"]:
        row = self.row[part]
        return self.design.masked(
            self.key, self.ids[row], self.draw[part], self.size[part], self.maskable[row]
        )

    def scored(
        self, part: slice | Int64[np.ndarray, " n_part"], masked: Bool[np.ndarray, "n_part D"]
    ) -> Bool[np.ndarray, "n_part D"]:
        """The hidden tokens that count for the scores of these masks, shape (n_part, D)."""
        row = self.row[part]
        return self.design.scored(self.key, self.ids[row], self.draw[part], masked, self.maskable[row])

    @property
    def weight(self) -> PerMask:
        """The weight of each mask's score, shape (n_masks,)."""
        return self.design.summation(self.maskable.sum(1)[self.row], self.draw, self.size).weight


def all_pairs(
    design: MaskDesign, n_tokens: Integers, repeats: range | None = None
) -> tuple[Indices, Indices]:
    """List every pair of an observation and a mask.

    Returns:
        The observation's position 0..B-1 and the mask's index, each of shape (n_masks,).

    Example:
        >>> import maskevidence as me
        >>> row, index = all_pairs(me.LeaveOneOut(), np.array([2, 3]))
        >>> row.tolist(), index.tolist()
        ([0, 0, 1, 1, 1], [0, 1, 0, 1, 2])
    """
    repeats = range(design.n_repeats) if repeats is None else repeats
    per_repeat = design.draws_per_repeat(n_tokens)
    counts = per_repeat * len(repeats)
    check_n_masks(counts)
    parts = [(np.zeros(0, dtype=np.int32),) * 2]
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts):
        room = ends[start] - counts[start] + MASKS_AT_ONCE
        some = slice(start, max(start + 1, int(np.searchsorted(ends, room, side="right"))))
        row = np.repeat(np.arange(len(counts))[some], counts[some])
        first = ends[some] - counts[some] - per_repeat[some] * repeats.start
        index = np.arange(int(ends[some][-1] - counts[some].sum()), int(ends[some][-1]))
        index -= np.repeat(first, counts[some])
        scored = design.is_scored(n_tokens[row], index)
        parts.append((compact(row[scored]), compact(index[scored])))
        start = some.stop
    row, index = map(np.concatenate, zip(*parts, strict=True))
    return row, index


def n_masks(design: MaskDesign, n_tokens: Integers, repeats: range | None = None) -> Integers:
    """Number of masks of each observation, shape (B,); arguments as in `all_pairs`.

    Example:
        >>> import maskevidence as me
        >>> n_masks(me.EverySize(4), np.array([2, 30])).tolist()
        [3, 117]
    """
    return n_masks_by_length(design, lengths_of(n_tokens)[0], repeats)[n_tokens]


def n_masks_by_length(
    design: MaskDesign, lengths: Integers, repeats: range | None = None
) -> Int64[np.ndarray, " most"]:
    """Number of masks of an observation with each number of tokens 0, 1, ...; 0 for others than `lengths`."""
    counts = np.zeros(int(lengths.max(initial=0)) + 1, dtype=np.int64)
    counts[lengths] = [len(all_pairs(design, lengths[k : k + 1], repeats)[0]) for k in range(len(lengths))]
    return counts


def lengths_of(n_tokens: Integers) -> tuple[Integer[np.ndarray, " L"], Integer[np.ndarray, " L"]]:
    """The numbers of tokens that observations have, ascending, and how many have each."""
    n_rows = np.zeros(int(n_tokens.max(initial=0)) + 1, dtype=np.int64)
    for first in range(0, len(n_tokens), MASKS_AT_ONCE):  # numpy copies what it counts
        n_rows += np.bincount(n_tokens[first : first + MASKS_AT_ONCE], minlength=len(n_rows))
    lengths = np.flatnonzero(n_rows)
    return lengths, n_rows[lengths]


def check_n_masks(n_draws: Integers) -> None:
    """Raise an InputError for more masks than fit into free memory."""
    n_masks = int(n_draws.sum(dtype=np.float64))
    check_memory(n_masks * BYTES_PER_MASK, f"{n_masks:,} masks", "ask for fewer masks, or use fewer rows")


def drawn_masks(
    design: MaskDesign,
    key: MaskKey,
    ids: Integers,
    maskable: BoolMatrix,
    pairs: tuple[Indices, Indices] | None = None,
    position: Positions = None,
) -> DrawnMasks:
    """Draw masks for observations.

    Args:
        pairs: position of the observation and index of the mask, each of shape (n_masks,); by default
            `all_pairs`.
        position: shape (B, 2); the position of each observation among all that are scored together, by
            `tokens.positions`; None if sizes follow the ids, as in training.

    Example:
        >>> import maskevidence as me
        >>> masks = drawn_masks(me.EverySize(1), MaskKey(0), np.array([7]), np.array([[True, False, True]]))
        >>> masks.masked().sum(1).tolist(), masks.weight.tolist()
        ([1, 2], [1.0, 1.0])
    """
    n_tokens = maskable.sum(1)
    row, index = all_pairs(design, n_tokens) if pairs is None else pairs
    parts = []
    for start in range(0, max(1, len(row)), MASKS_AT_ONCE):  # a plan takes more memory than masks
        here = row[start : start + MASKS_AT_ONCE]
        place = (position[here],) if position is not None and design.pooled else ()
        own_index = index[start : start + MASKS_AT_ONCE].astype(np.int64)
        plan = design.plan(key, ids[here], n_tokens[here], own_index, *place)
        parts.append([compact(column) for column in plan])
    draw, size = map(np.concatenate, zip(*parts, strict=True))
    return DrawnMasks(design, key, ids, maskable, row, draw, size)


def masks_of_all_rows(design: MaskDesign, key: MaskKey, n_tokens: int, position: Positions) -> DrawnMasks:
    """Draw the masks that all complete observations of n tokens share."""
    first, maskable = np.zeros(1, dtype=np.int64), np.ones((1, n_tokens), dtype=np.bool_)
    return drawn_masks(design, key, first, maskable, position=position)
