"""The search for wrong cells: hide the most surprising cell of a row, and judge the others again."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.model import MASS, base_measure_of, to_device_of
from maskevidence.core.scores.ask import Asker, MaskedRows, RowIndex, slices
from maskevidence.core.support.progress import Advance
from maskevidence.core.table import spreads
from maskevidence.core.tokens import Tokens

Rows = Float64[np.ndarray, "N D"]
Cells = Bool[np.ndarray, "N D"]
Ints = Int64[np.ndarray, " n"]

OFF_GRID = "off the grid"
BEYOND = "beyond the range"
FAULTS = ("", "unknown word", BEYOND, OFF_GRID)
OUTSIDE, _RANGE, _GRID = 1, 2, 3  # places among them
_UNKNOWN = 0.5  # the share of wrong cells that are values which known rows do not have
OF_GRID = np.log(1000)  # added to that of a cell with more decimals than its column has
_STOP = 3.0  # nats; a less suspicious cell is not hidden
_LEAST = 1.0  # nats of a set that may be called
_MOST_HIDDEN = 10  # cells of a row
_PRIOR = 0.01  # the odds of a wrong cell, by which explanations of a row are weighed
_WIDE = 0.5  # the weight of the wide component of a wrong cell's distribution
_MOST_DECIMALS = 6
_ROWS = 1024  # in a call, of which each visible cell is asked for
_RARE = 0.02  # the share of cells off the grid of a column that has one


class Facts(NamedTuple):
    """Facts on D columns from known rows."""

    values: tuple[Float64[np.ndarray, " V"] | None, ...]  # all that a column can hold; None for numbers
    centre: Float64[np.ndarray, " D"]  # the median
    scale: Float64[np.ndarray, " D"]  # half the distance of the 16 % and 84 % quantiles
    low: Float64[np.ndarray, " D"]
    high: Float64[np.ndarray, " D"]
    decimals: tuple[int | None, ...]  # with which 98 % of the cells are written; None for no grid
    unknown: Float64[np.ndarray, " D"]  # nats of suspicion of a value that known rows do not have

    @property
    def numbers(self) -> Bool[np.ndarray, " D"]:
        """Which columns are numbers."""
        return np.array([values is None for values in self.values])

    def faults(self, rows: Rows) -> Int64[np.ndarray, "N D"]:
        """The formal fault of each cell, as an index of `FAULTS`."""
        found = np.where((rows < self.low) | (rows > self.high), _RANGE, 0) * self.numbers
        for j, (values, decimals) in enumerate(zip(self.values, self.decimals, strict=True)):
            if values is not None:
                found[:, j] = np.where(np.isin(rows[:, j], values), 0, OUTSIDE)
            elif decimals is not None:
                found[~_on_grid(rows[:, j], decimals), j] = _GRID
        return np.where(np.isnan(rows), 0, found)


def facts_of(model: object, known: Rows, categories: Sequence[int] = ()) -> Facts:
    """The facts of the columns of known rows; the model says which columns hold few values.

    Args:
        known: shape (n, D), NaN for holes.
        categories: the columns of words, which the model takes an unseen word of, too.

    Example:
        >>> facts = facts_of(None, np.array([[1.0, 0.25], [3.0, 0.5], [2.0, 0.75]]))
        >>> facts.decimals, facts.faults(np.array([[2.5, 4.0]])).tolist()
        ((0, 2), [[3, 2]])
    """
    values: list[Float64[np.ndarray, " V"] | None] = []
    for j in range(known.shape[1]):
        listed = model.values_of(j) if hasattr(model, "values_of") else None
        each = None if listed is None else listed.cpu().double().numpy()
        unseen = listed is not None and (len(listed) > 2 or j in categories)
        if each is None and base_measure_of(model) == MASS:  # of 0 and 1
            each = np.unique(known[~np.isnan(known[:, j]), j])
        values.append(each[:-1] if each is not None and unseen else each)
    quantiles = np.nanquantile(known, (0.1587, 0.5, 0.8413), axis=0)
    scale = (quantiles[2] - quantiles[0]) / 2
    scale = np.where(scale > 0, scale, spreads(known))
    decimals = tuple(map(_decimals, known.T))
    low, high = np.nanmin(known, axis=0), np.nanmax(known, axis=0)
    unknown = np.array([_unknown(column) for column in known.T])
    return Facts(tuple(values), quantiles[1], np.where(scale > 0, scale, 1.0), low, high, decimals, unknown)


class Clues(NamedTuple):
    """For each possible wrong cell of a row, how well each cell of the row would explain it."""

    row: Ints
    suspicion: Float64[np.ndarray, "n D"]  # nats; NaN for cells that are out of the question

    def sets(self, rests: Sequence[float]) -> list["Sets"]:
        """The smallest set per row that leaves others at most each share of the odds; at most half the row.

        T_S = log Σ_S exp T_l - log(1 + π Σ_{l not in S} exp T_l). Of the sets of a row that share a cell,
        the most suspicious one is kept; those of less than a nat, mostly what a call leaves over, are out.
        """
        odds = np.where(np.isnan(self.suspicion), -np.inf, self.suspicion)
        total = np.logaddexp.reduce(odds, axis=1)
        some = np.flatnonzero(total > _LEAST)  # T_S is less than the sum over all cells
        row, odds, total = self.row[some], odds[some], total[some]
        order = np.argsort(-odds, axis=1, kind="stable")
        share = np.cumsum(np.exp(np.take_along_axis(odds, order, 1) - total[:, None]), axis=1)
        place, n_seen, found = np.argsort(order, axis=1), np.isfinite(odds).sum(1), list[Sets]()
        most = np.minimum(np.maximum(n_seen // 2, 2), n_seen)
        for rest in rests:
            inside = place < np.minimum((share < 1 - rest).sum(1) + 1, most)[:, None]
            whole = np.logaddexp.reduce(np.where(inside, odds, -np.inf), axis=1)
            others = np.logaddexp.reduce(np.where(inside, -np.inf, odds), axis=1)
            suspicion = whole - np.logaddexp(0.0, others + np.log(_PRIOR))
            found.append(Sets(row, inside, suspicion, order[:, 0])._disjoint())
        return found


class Sets(NamedTuple):
    """Sets of cells of a row, one of which may be wrong."""

    row: Ints
    cells: Bool[np.ndarray, "n D"]
    suspicion: Float64[np.ndarray, " n"]  # nats
    first: Ints  # the column of the most suspicious cell

    def take(self, kept: np.ndarray) -> "Sets":
        """Keep some of the sets."""
        return Sets(*(each[kept] for each in self))

    def rank(self) -> Ints:
        """The number of sets of the same row that are at least as suspicious."""
        order = np.lexsort((-self.suspicion, self.row))
        starts = np.searchsorted(self.row[order], self.row[order])
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = 1 + np.arange(len(order)) - starts
        return rank

    def _disjoint(self) -> "Sets":
        """The sets above one nat that share no cell with a more suspicious set of their row."""
        found = self.take(np.flatnonzero(self.suspicion > _LEAST))
        rank, kept = found.rank(), np.ones(len(found.row), dtype=bool)
        taken = np.zeros((found.row.max(initial=-1) + 1, self.cells.shape[1]), dtype=bool)
        for k in range(1, rank.max(initial=0) + 1):
            these = np.flatnonzero(rank == k)
            kept[these] = ~(taken[found.row[these]] & found.cells[these]).any(1)
            these = these[kept[these]]
            taken[found.row[these]] |= found.cells[these]
        return found.take(kept)


class Judged(NamedTuple):
    """The results of the search for the cells of N rows."""

    suspicion: Rows  # nats; NaN for holes
    hidden: Cells  # the cells that were hidden, holes aside
    fault: Int64[np.ndarray, "N D"]  # places among `FAULTS`
    log_wrong: Rows  # log q of each cell, nats; NaN for holes
    clues: Clues

    def take(self, rows: Ints) -> "Judged":
        """Some or all of the rows, in their order."""
        place = np.full(len(self.fault), -1)
        place[rows] = np.arange(len(rows))
        kept = place[self.clues.row] >= 0
        clues = Clues(place[self.clues.row[kept]], self.clues.suspicion[kept])
        return Judged(self.suspicion[rows], self.hidden[rows], self.fault[rows], self.log_wrong[rows], clues)

    def strength(self, rest: float) -> Float64[np.ndarray, " N"]:
        """The suspicion of the most suspicious set or listed cell of each row; -inf for none."""
        listed = (self.hidden | (self.fault > 0)) & ~np.isnan(self.suspicion)
        most = np.where(listed, self.suspicion, -np.inf).max(axis=1, initial=-np.inf)
        (sets,) = self.clues.sets([rest])
        np.maximum.at(most, sets.row, sets.suspicion)
        return most


class CellJudge:
    """Judges cells by log q(x_j) - log p(x_j | visible cells of the row), with more surprising cells hidden.

    q is the distribution of a wrong cell: half the model's own marginal of the column, as of a cell with the
    value of another row, and half a wide one, a Cauchy distribution for numbers and equal probabilities for
    words. A row ends when no cell has 3 nats, or half of its cells or 10 are hidden. At the end, each hidden
    cell is judged given the visible ones, and so are these given it: where two cells explain the same
    surprise, each loses what speaks for the other.

    Args:
        model: any model of rows.
        facts: of its columns.
        batch_size: rows in a call of the model.
    """

    def __init__(self, model: Any, facts: Facts, batch_size: int | None = None) -> None:
        self.asker, self.facts = Asker(model, batch_size), facts

    def search(self, rows: Rows, advance: Advance | None = None) -> Judged:
        """Judge all cells of some rows, NaN for holes; `advance` counts the cells."""
        fault = self.facts.faults(rows)
        outside = fault == OUTSIDE
        rows = np.where(outside, np.nan, rows)
        wrong = self.log_wrong(rows) + OF_GRID * (fault == _GRID)
        hidden = np.zeros(rows.shape, dtype=bool)
        self.asker.advance = advance
        suspicion = wrong - self._alone(rows, hidden)
        self.asker.advance = None
        most = np.minimum((~np.isnan(rows)).sum(1) // 2, _MOST_HIDDEN)
        active = np.arange(len(rows))
        while len(active):
            seen = np.where(hidden[active], -np.inf, np.nan_to_num(suspicion[active], nan=-np.inf))
            worst = seen.argmax(1)
            go = (seen.max(1) > _STOP) & (hidden[active].sum(1) < most[active])
            active, worst = active[go], worst[go]
            hidden[active, worst] = True
            suspicion[active] = wrong[active] - self._alone(rows[active], hidden[active], active)
        suspicion, clues = self._judged_again(rows, wrong, hidden, suspicion)
        unknown = np.where(outside, self.facts.unknown, np.nan)
        row, column = np.nonzero(outside)
        alone = np.where(np.arange(rows.shape[1]) == column[:, None], unknown[row], np.nan)
        clues = Clues(np.concatenate([clues.row, row]), np.concatenate([clues.suspicion, alone]))
        return Judged(np.where(outside, unknown, suspicion), hidden | outside, fault, wrong, clues)

    def _judged_again(self, rows: Rows, wrong: Rows, hidden: Cells, suspicion: Rows) -> tuple[Rows, Clues]:
        """Put each hidden cell back in turn: its own suspicion, and the highest one of each visible cell."""
        row, column = np.nonzero(hidden)
        place = np.arange(len(row))
        others = hidden[row]
        others[place, column] = False
        again = wrong[row] - self._alone(rows[row], others, row)
        share = _beside_others(np.where(others, np.nan, again))
        final = suspicion.copy()
        final[hidden] = -np.inf
        np.maximum.at(final, row, np.where(others, -np.inf, np.nan_to_num(share, nan=-np.inf)))
        final[row, column] = share[place, column]
        left = np.where(hidden, np.nan, suspicion)  # in rows as they are at the end
        more = np.flatnonzero((left > -np.log(rows.shape[1])).any(1))
        clues = Clues(
            np.concatenate([row, more]), np.concatenate([np.where(others, np.nan, again), left[more]])
        )
        return np.where(np.isnan(rows), np.nan, final), clues

    def log_wrong(self, rows: Rows) -> Rows:
        """log q of each cell, in the measure of the model, nats."""
        facts, marginal = self.facts, self.log_given(rows, np.ones(rows.shape, dtype=bool))
        with np.errstate(invalid="ignore"):
            far = (rows - facts.centre) / (2 * facts.scale)
            wide = -np.log(2 * np.pi * facts.scale) - np.log1p(far**2)
            for j, values in enumerate(facts.values):
                if values is not None:
                    wide[:, j] = -np.log(len(values)) if len(values) > 2 else marginal[:, j]
            return np.logaddexp(np.log(1 - _WIDE) + marginal, np.log(_WIDE) + wide)

    def log_given(self, rows: Rows, masks: Cells) -> Rows:
        """log p of the masked cells of each row given the others, nats; NaN for holes and visible cells."""
        masks = masks & ~np.isnan(rows)
        row, answers = np.flatnonzero(masks.any(axis=1)), np.full(rows.shape, np.nan)
        for part, answer in self._ask(rows, row, masks.sum(1)[row], lambda part: masks[row[part]]):
            answers[row[part]] = answer
        return np.where(masks, answers, np.nan)

    def _alone(self, rows: Rows, hidden: Cells, places: Ints | None = None) -> Rows:
        """log p of each cell that is not hidden, given the others that are not; NaN elsewhere.

        Args:
            places: of the rows in the search, which are the ids of the tokens.
        """
        seen, answers = ~np.isnan(rows), np.full(rows.shape, np.nan)
        visible = seen & ~hidden
        if hasattr(self.asker.model, "log_leave_one_out"):
            for some in slices(len(rows), self.asker.batch_size or _ROWS):
                answers[some] = self._each_alone(self.asker.model, rows[some], visible[some])
            return answers
        column, row = np.nonzero(visible.T)  # rows with equal masks are neighbours

        def masks(part: RowIndex) -> Cells:
            masked = hidden[row[part]] & seen[row[part]]
            masked[np.arange(len(masked)), column[part]] = True
            return masked

        for part, answer in self._ask(rows, row, hidden.sum(1)[row] + 1, masks, places):
            answers[row[part], column[part]] = answer[np.arange(len(answer)), column[part]]
        return answers

    def _each_alone(self, model: Any, rows: Rows, visible: Cells) -> Rows:
        """Judge all cells in one pass, by the model's leave-one-out formula."""
        tokens = to_device_of(model, Tokens.from_array(rows, empty_rows=True))
        with torch.no_grad():
            answer = model.log_leave_one_out(tokens, torch.from_numpy(visible).to(tokens.ids.device))
        if self.asker.advance is not None:
            self.asker.advance(int(visible.sum()))
        return np.where(visible, answer.double().cpu().numpy(), np.nan)

    def _ask(
        self,
        rows: Rows,
        row: Ints,
        n_hidden: Ints,
        masks: Callable[[RowIndex], Cells],
        places: Ints | None = None,
    ) -> Iterator[tuple[RowIndex, Rows]]:
        """The model's answers for masks of some rows, call by call."""
        if not len(row):
            return
        tokens = to_device_of(self.asker.model, Tokens.from_array(rows, places, empty_rows=True))
        contexts = MaskedRows(tokens, row, n_hidden, lambda part: torch.from_numpy(masks(part)))
        for answer in self.asker.conditionals(contexts):
            yield answer.part, answer.log_probs.double().cpu().numpy()


def _beside_others(suspicion: Rows) -> Rows:
    """T_k - log(1 + π Σ_{l ≠ k} exp T_l): the odds of k against no wrong cell and against another."""
    weight = np.nan_to_num(suspicion, nan=-np.inf) + np.log(_PRIOR)
    before, after = np.zeros_like(weight), np.full_like(weight, -np.inf)
    before[:, 1:], after[:, 1:] = weight[:, :-1], weight[:, :0:-1]
    before, after = (np.logaddexp.accumulate(side, axis=1) for side in (before, after))
    return suspicion - np.logaddexp(before, after[:, ::-1])


def _unknown(column: Float64[np.ndarray, " n"]) -> float:
    """log of the share of unknown values among wrong cells, less that among right ones.

    The latter is estimated by the values that occur once (Good and Turing).
    """
    _, times = np.unique(column[~np.isnan(column)], return_counts=True)
    return float(np.log(_UNKNOWN) - np.log((1 + (times == 1).sum()) / (2 + times.sum())))


def _decimals(column: Float64[np.ndarray, " n"]) -> int | None:
    """The number of decimals that nearly all cells of a column need; None above six."""
    seen = column[~np.isnan(column)]
    fits = (np.mean(_on_grid(seen, d)) >= 1 - _RARE for d in range(_MOST_DECIMALS + 1))
    return next((d for d, fit in enumerate(fits) if fit), None)


def _on_grid(column: Float64[np.ndarray, " n"], decimals: int) -> Bool[np.ndarray, " n"]:
    """Whether cells have at most this many decimals."""
    multiples = column * 10.0**decimals
    with np.errstate(invalid="ignore"):
        return np.abs(multiples - np.round(multiples)) <= 1e-9 * np.maximum(np.abs(multiples), 1.0)
