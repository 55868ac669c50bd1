"""The masks that a design draws for given observations."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.masks.design import BoolMatrix, Integers, MaskDesign, MaskKey, Positions
from maskevidence.support.checks import check_memory
from maskevidence.tokens import positions

BYTES_PER_MASK = 240  # while it is scored and summarised: row, draw, size, score, weight, and copies


@dataclass(frozen=True)
class DrawnMasks:
    """Masks of a design for B observations: the observation, draw and size of each mask."""

    design: MaskDesign  # how they were drawn
    key: MaskKey  # the seed of the masks, and whether all observations share them
    ids: Int64[np.ndarray, " B"]  # the observations
    maskable: Bool[np.ndarray, "B D"]
    row: Int64[np.ndarray, " n_masks"]  # the position 0..B-1 of each mask's observation
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
        """Which of the hidden tokens count for the scores of some masks, shape (n_part, D)."""
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
    row = np.repeat(np.arange(len(n_tokens)), counts)
    first = np.cumsum(counts) - counts - per_repeat * repeats.start
    index = np.arange(len(row)) - np.repeat(first, counts)
    scored = design.is_scored(n_tokens[row], index)
    return row[scored], index[scored]


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
    pairs: tuple[Int64[np.ndarray, " n_masks"], Int64[np.ndarray, " n_masks"]] | None = None,
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
    if position is None or not design.pooled:
        draw, size = design.plan(key, ids[row], n_tokens[row], index)
    else:
        draw, size = design.plan(key, ids[row], n_tokens[row], index, position[row])
    return DrawnMasks(design, key, ids, maskable, row, draw, size)


def masks_of_all_rows(design: MaskDesign, key: MaskKey, n_tokens: int) -> DrawnMasks:
    """The masks shared by complete observations of n tokens, drawn once for all of them."""
    first, maskable = np.zeros(1, dtype=np.int64), np.ones((1, n_tokens), dtype=np.bool_)
    return drawn_masks(design, key, first, maskable, position=positions(first))
