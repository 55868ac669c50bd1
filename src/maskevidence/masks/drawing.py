"""The masks that a design draws for given observations."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64, Integer

from maskevidence.masks.design import BoolMatrix, Integers, MaskDesign, MaskKey, Positions
from maskevidence.support.checks import check_memory
from maskevidence.tokens import positions

MASKS_AT_ONCE = 2**19  # drawn or summarised at once; what they take then does not grow with the others
BYTES_PER_MASK = 80  # while it is scored and summarised


def compact(values: Integer[np.ndarray, " n"]) -> Integer[np.ndarray, " n"]:
    """Whole numbers in 32 bits, if all of them fit."""
    room = np.iinfo(np.int32)
    fit = values.min(initial=0) >= room.min and values.max(initial=0) <= room.max
    return values.astype(np.int32, copy=False) if fit else values


@dataclass(frozen=True)
class DrawnMasks:
    """Masks of a design for B observations: the observation, draw and size of each mask."""

    design: MaskDesign  # how they were drawn
    key: MaskKey  # the seed of the masks, and whether all observations share them
    ids: Int64[np.ndarray, " B"]  # the observations
    maskable: Bool[np.ndarray, "B D"]
    row: Integer[np.ndarray, " n_masks"]  # the position 0..B-1 of each mask's observation
    draw: Integer[np.ndarray, " n_masks"]
    size: Integer[np.ndarray, " n_masks"]

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
        """Which of the hidden tokens count for the scores of some masks, shape (n_part, D)."""
        row = self.row[part]
        return self.design.scored(self.key, self.ids[row], self.draw[part], masked, self.maskable[row])

    @property
    def weight(self) -> Float64[np.ndarray, " n_masks"]:
        """The weight of each mask's score, shape (n_masks,)."""
        return self.design.summation(self.maskable.sum(1)[self.row], self.draw, self.size).weight


def all_pairs(
    design: MaskDesign, n_tokens: Integers, repeats: range | None = None
) -> tuple[Integer[np.ndarray, " n_masks"], Integer[np.ndarray, " n_masks"]]:
    """Every pair of an observation and one of its masks.

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
    """How many masks each observation has, shape (B,); with the arguments of `all_pairs`.

    Example:
        >>> import maskevidence as me
        >>> n_masks(me.EverySize(4), np.array([2, 30])).tolist()
        [3, 117]
    """
    lengths, group = np.unique(n_tokens, return_inverse=True)
    counts = [len(all_pairs(design, lengths[k : k + 1], repeats)[0]) for k in range(len(lengths))]
    return np.array(counts, dtype=np.int64)[group]


def check_n_masks(n_draws: Integers) -> None:
    """Refuse more masks than fit into the memory that is free."""
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
    pairs: tuple[Integer[np.ndarray, " n_masks"], Integer[np.ndarray, " n_masks"]] | None = None,
    position: Positions | None = None,
) -> DrawnMasks:
    """Draw masks of a design for observations.

    Args:
        pairs: position of the observation and index of the mask, each of shape (n_masks,); by default
            `all_pairs`.
        position: shape (B, 2); the position of each observation among all that are scored together, by
            `positions`; None if sizes follow the ids, as in training.

    Example:
        >>> import maskevidence as me
        >>> masks = drawn_masks(me.EverySize(1), MaskKey(0), np.array([7]), np.array([[True, False, True]]))
        >>> masks.masked().sum(1).tolist(), masks.weight.tolist()
        ([1, 2], [1.0, 1.0])
    """
    n_tokens = maskable.sum(1)
    row, index = all_pairs(design, n_tokens) if pairs is None else pairs
    parts = []
    for start in range(0, max(1, len(row)), MASKS_AT_ONCE):  # a plan takes more memory than its masks
        here = row[start : start + MASKS_AT_ONCE]
        place = (position[here],) if position is not None and design.pooled else ()
        own_index = index[start : start + MASKS_AT_ONCE].astype(np.int64)
        plan = design.plan(key, ids[here], n_tokens[here], own_index, *place)
        parts.append([compact(column) for column in plan])
    draw, size = map(np.concatenate, zip(*parts, strict=True))
    return DrawnMasks(design, key, ids, maskable, row, draw, size)


def masks_of_all_rows(design: MaskDesign, key: MaskKey, n_tokens: int) -> DrawnMasks:
    """The masks shared by complete observations of n tokens, drawn once for all of them."""
    first, maskable = np.zeros(1, dtype=np.int64), np.ones((1, n_tokens), dtype=np.bool_)
    return drawn_masks(design, key, first, maskable, position=positions(first))
