"""Choose which suspicious sets to call; planted wrong cells estimate the rate of false calls."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.tables.wrong_cells.cell_search import Cells, Clues, Facts, Ints, Rows, Sets

RESTS = (0.5, 0.3, 0.2, 0.1, 0.05, 0.02)  # of the odds that a set leaves to other cells
_NEARLY_ALL = 0.97  # of the calls of the best of these
N_PLANTED = 600  # rows
_MOST_IN_ROW = 0.6  # of the cells of a row are planted
_MANY = 4  # cells of a row that are shifted by equal steps
_MOST_COUNTED = 4  # calls of a row
_PRIOR_CALLS = 2.0  # planted calls of all columns that are added to those of each
_STEPS = 100  # of EM
_FEW = 2  # values of a column in which no other number is planted
KINDS = ("other row", "shift", "unit", "swap")
_FACTORS = (10.0, 0.1, 100.0, 0.01, 2.54, 1 / 2.54)


class Planted(NamedTuple):
    """Right rows with planted wrong cells, after the search."""

    clues: Clues
    wrong: Cells
    source: Ints  # the right row that each was
    pattern: Ints  # of each row: the number of cells, and their kind


def planted(rng: np.random.Generator, rows: Rows, pool: Rows, facts: Facts) -> tuple[Rows, Ints]:
    """Rows with one or more wrong cells each, and their patterns: 4 (number of cells - 1) + kind.

    A number gets the value of another row, is shifted by 2 to 6 scales, has another unit, or is swapped with
    another number; a cell with few values gets another one of them. The number of cells is m with a
    probability in proportion to 1/m, at most 60 % of the row; 4 or more are shifted by equal steps, as by one
    cause, which confuses the search most.

    Args:
        rows: shape (n, D), NaN for holes.
        pool: all rows whose values may be planted.
    """
    y, d = rows.copy(), rows.shape[1]
    sizes = 1 / np.arange(1, max(1, int(_MOST_IN_ROW * d)) + 1)
    n_cells = 1 + rng.choice(len(sizes), size=len(rows), p=sizes / sizes.sum())
    kind = rng.integers(len(KINDS), size=len(rows))
    seen = [column[~np.isnan(column)] for column in pool.T]
    listed = [
        np.unique(column) if values is None else values
        for column, values in zip(seen, facts.values, strict=True)
    ]
    number = np.array([len(each) > _FEW for each in listed]) & facts.numbers
    for i, row in enumerate(y):
        there, steps = rng.permutation(np.flatnonzero(~np.isnan(row))), 0.0
        for j in there[: n_cells[i]].tolist():
            how = KINDS[kind[i]]
            partners = there[number[there] & (there != j)]
            if not number[j]:
                values = listed[j] if kind[i] % 2 else seen[j]
                row[j] = _one_of(rng, values[values != rows[i, j]], row[j])
            elif how == "shift" or how == "unit":
                new = row[j] * rng.choice(_FACTORS)
                if how == "shift":
                    steps = steps if steps and n_cells[i] >= _MANY else rng.uniform(2, 6)
                    new = row[j] + facts.scale[j] * steps * rng.choice((-1, 1))
                places = facts.decimals[j]
                row[j] = new if places is None else np.round(new, places)
            elif how == "swap" and len(partners):
                k = int(rng.choice(partners))
                row[j], row[k] = row[k], row[j]
            else:
                row[j] = _one_of(rng, seen[j], row[j])
    return y, len(KINDS) * (n_cells - 1) + kind


def _one_of(rng: np.random.Generator, values: Float64[np.ndarray, " n"], otherwise: float) -> float:
    return float(rng.choice(values)) if len(values) else otherwise


class Right(NamedTuple):
    """The right rows, or the rows taken for right."""

    clues: Clues
    n_rows: int
    may_be_called: Bool[np.ndarray, " D"] | bool = True  # the columns
    tail: Any = None  # of the table's own cells, if no row is trusted

    def sets(self, clues: Clues) -> list[Sets]:
        """Sets of some rows, by `RESTS`; with a tail, suspicion is the rarity of right sets like them."""
        found = clues.sets(RESTS)
        if self.tail is None:
            return found
        rare = [np.maximum(self.tail.of_sets(sets), 1e-300) for sets in found]
        return [sets._replace(suspicion=-np.log(each)) for sets, each in zip(found, rare, strict=True)]

    def per_row(self, level: Sets, right: Sets) -> Float64[np.ndarray, " n"]:
        """The number of sets of a right row that are at least as suspicious as each of these."""
        if self.tail is not None:
            return np.exp(-level.suspicion)
        return (_above(right.suspicion, level.suspicion) + level.rank()) / (self.n_rows + 1)


def call(clues: Clues, n_rows: int, right: Right, trial: Planted, rate: float) -> Sets:
    """The longest list of sets, most suspicious first, of which at most a share `rate` is false on average.

    With R sets above a suspicion, the share is estimated by A/R + (1 - A/R) B/(B + C). A is the number of
    sets in as many right rows. B and C count the false and the true sets in planted rows, which have weights
    that make them like the called rows in the number of sets and their columns; false ones of rows that had
    one before planting are left to A. The sets are as small as they can be while at most `rate` of those of
    one cell are false, and nearly as many are called.
    """
    sets, tried = right.sets(clues), right.sets(trial.clues)
    of_right = sets if right.clues is clues else right.sets(right.clues)
    found = zip(sets, of_right, tried, strict=True)
    options = [_called(each, n_rows, right, trial, rate) for each in found]
    enough = _NEARLY_ALL * max(len(sets.row) for sets, _ in options)
    kept = [option for option in options if len(option[0].row) >= enough]
    return next((sets for sets, alone in kept if alone <= rate), min(kept, key=lambda option: option[1])[0])


def _called(
    found: tuple[Sets, Sets, Sets], n_rows: int, rows: Right, trial: Planted, rate: float
) -> tuple[Sets, float]:
    """Call sets by comparison with right and planted rows; estimate the false share among single cells."""
    sets, right, tried = found
    sets = sets.take(np.flatnonzero(~(sets.cells & ~np.bool_(rows.may_be_called)).any(1)))
    sets = sets.take(np.argsort(-sets.suspicion, kind="stable"))
    level, n_above = sets.suspicion, np.arange(1, len(sets.row) + 1)
    by_chance = np.minimum(n_rows * rows.per_row(sets, right) / n_above, 1.0)
    true = (trial.wrong[tried.row] & tried.cells).any(1)
    before = np.full(rows.n_rows, -np.inf)
    np.maximum.at(before, right.row, right.suspicion)
    also_before = np.minimum(tried.suspicion, before[trial.source[tried.row]])
    search = _Search(sets, tried, true, also_before)
    everywhere, alone = np.ones(len(true), dtype=bool), tried.cells.sum(1) == 1
    allowed, of_single = by_chance, by_chance
    for _ in range(2):  # the weights are those of the calls that they allow
        if not (allowed <= rate).any():
            return sets.take(np.arange(0)), 0.0
        weight = _weights(sets, level[np.flatnonzero(allowed <= rate)[-1]], trial, tried)[tried.row]
        shares = (
            search.false_share(weight, everywhere, np.ones(len(level), dtype=bool)),
            search.false_share(weight, alone, sets.cells.sum(1) == 1),
        )
        allowed, of_single = (by_chance + (1 - by_chance) * share for share in shares)
    n_called = int(np.flatnonzero(np.append(True, allowed <= rate))[-1])
    return sets.take(np.arange(n_called)), float(of_single[n_called - 1]) if n_called else 0.0


class _Search(NamedTuple):
    """Search results on the table and on planted cells."""

    sets: Sets  # the most suspicious first
    tried: Sets
    true: Bool[np.ndarray, " n"]  # which of those that were tried hold a planted cell
    before: Float64[np.ndarray, " n"]  # the suspicion that is left if another set of its row had it, too

    def counts(
        self, weight: Float64[np.ndarray, " n"], of: Bool[np.ndarray, " n"]
    ) -> tuple[Float64[np.ndarray, " K"], Float64[np.ndarray, " K"]]:
        """The numbers of false and of all sets above the suspicion of each set of the table."""
        level, wrongly, rightly = self.sets.suspicion, of & ~self.true, of & self.true
        false = _above(self.tried.suspicion[wrongly], level, weight[wrongly])
        false = false - _above(self.before[wrongly], level, weight[wrongly])
        return false, false + _above(self.tried.suspicion[rightly], level, weight[rightly])

    def false_share(
        self, weight: Float64[np.ndarray, " n"], of: Bool[np.ndarray, " n"], called: Bool[np.ndarray, " K"]
    ) -> Float64[np.ndarray, " K"]:
        """The false share among planted sets; by column, in the proportions of the table's sets."""
        false, every = self.counts(weight, of)
        overall, share = false / np.maximum(every, 1e-300), np.zeros(len(called))
        for j in np.unique(self.sets.first):
            false, every = self.counts(weight, of & (self.tried.first == j))
            own = np.cumsum(called & (self.sets.first == j)) / np.maximum(np.cumsum(called), 1)
            share += own * (false + _PRIOR_CALLS * overall) / (every + _PRIOR_CALLS)
        return share


def _weights(sets: Sets, level: float, trial: Planted, tried: Sets) -> Float64[np.ndarray, " n"]:
    """Weights that make the called planted rows resemble the called rows of the table.

    They have as many calls with their pattern, and these are in the same columns with that of the wrong cell.
    """
    n, d = trial.wrong.shape
    called, found = (each.take(np.flatnonzero(each.suspicion >= level)) for each in (sets, tried))
    n_calls = np.bincount(found.row, minlength=n).clip(0, _MOST_COUNTED)
    table_calls = np.bincount(called.row).clip(0, _MOST_COUNTED)
    of_pattern = _shares(
        trial.pattern, n_calls, np.bincount(table_calls, minlength=_MOST_COUNTED + 1)[1:], len(KINDS), 8.0
    )
    single = np.flatnonzero(trial.wrong.sum(1) == 1)
    best = np.zeros(n, dtype=np.int64)
    top = found.take(np.flatnonzero(found.rank() == 1))
    best[top.row] = 1 + top.first
    of_column = _shares(
        trial.wrong[single].argmax(1), best[single], np.bincount(called.first, minlength=d), d, 2.0
    )
    column = np.zeros(d)
    column[: len(of_column)] = of_column
    weight = of_pattern[trial.pattern] / np.bincount(trial.pattern)[trial.pattern]
    weight *= (trial.wrong @ column) / np.maximum(trial.wrong.sum(1), 1)
    return weight * n / max(weight.sum(), 1e-300)


def _shares(
    cause: Ints, seen: Ints, counts: Int64[np.ndarray, " F"], n_equal: int, before: float
) -> Float64[np.ndarray, " S"]:
    """The frequency of each cause among the table's wrong rows, by EM.

    Args:
        cause: of each planted row.
        seen: what is called in it, 1 to F; 0 for nothing.
        counts: of the table's called rows, by what is called.
        n_equal: how many causes are equally probable before; the next as many are 4, 9, ... times rarer.
        before: called rows that this is worth.
    """
    table = np.zeros((int(cause.max(initial=0)) + 1, len(counts) + 1))
    np.add.at(table, (cause, seen), 1.0)
    n_each = table.sum(1)
    shown = table[:, 1:].sum(1) / np.maximum(n_each, 1)
    given = table[:, 1:] + (table[:, 1:].sum(0) + 0.5) / (table[:, 1:].sum() + 1)
    given /= given.sum(1, keepdims=True)
    first = (n_each > 0) / (1 + np.arange(len(table)) // n_equal) ** 2 * np.maximum(shown, 0.02)
    share = first = first / max(first.sum(), 1e-300)
    for _ in range(_STEPS):
        joint = share[:, None] * given
        found = (joint / np.maximum(joint.sum(0), 1e-300) * counts).sum(1) + before * first
        share = found / found.sum()
    return share * (n_each > 0) / np.maximum(shown, 0.05)


def _above(
    values: Float64[np.ndarray, " n"],
    levels: Float64[np.ndarray, " K"],
    weights: Float64[np.ndarray, " n"] | None = None,
) -> Float64[np.ndarray, " K"]:
    """The total weight of the values at or above each level."""
    order = np.argsort(-values, kind="stable")
    total = np.cumsum(np.ones(len(values)) if weights is None else weights[order])
    return np.concatenate([[0.0], total])[np.searchsorted(-values[order], -levels, side="right")]
