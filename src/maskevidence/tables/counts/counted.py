"""The counts of training rows, from which each column's conditionals are mixed."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.support.keyed_random import first_copies
from maskevidence.core.support.progress import progress
from maskevidence.tables.counts.column_codes import cells_of, codes_of, log_far
from maskevidence.tables.counts.pair_counts import PRIOR, PairCounts
from maskevidence.tables.counts.spelling import Near, log_new, neighbours
from maskevidence.tables.network.network_columns import Column

CodedRows = Float64[np.ndarray, "B D"]
_Cells = Bool[np.ndarray, "B D"]
_Floats = Float64[np.ndarray, " B"]
_Ints = Int64[np.ndarray, " B"]

_Counts = Int64[np.ndarray, "C B"]
_Places = Int64[np.ndarray, " _"]
_Values = Float64[np.ndarray, " _"]

WAYS = 2  # to count a column
TINY = 1e-300
ALL = -1
_AT_ONCE = 2**16  # counts


class Own(NamedTuple):
    """The training rows that equal the judged rows, and are left out of the counts."""

    cells: CodedRows
    copies: (
        _Ints  # how many are equal; ALL to count no row with the same value in the column that is asked for
    )

    def take(self, rows: _Places) -> "Own":
        """Select rows."""
        return Own(self.cells[rows], self.copies[rows])


class CountedPart(NamedTuple):
    """A component of a column's mixture, with indices of the ways to count columns."""

    way: int  # of the column
    given: int | None  # of the one that is given; None for the frequencies alone
    counts: PairCounts
    weight: int  # its place among the column's weights


class Batch(NamedTuple):
    """Rows in the codes of all ways to count columns."""

    cells: CodedRows  # numbers as cells
    visible: _Cells
    codes: Int64[np.ndarray, "E B"]
    own: Int64[np.ndarray, "E B"]  # of the training rows that they are; -1 for none
    copies: _Ints

    def take(self, rows: _Places) -> "Batch":
        """Select rows."""
        parts = (self.cells[rows], self.visible[rows], self.codes[:, rows])
        return Batch(*parts, self.own[:, rows], self.copies[rows])


class Counted:
    """The counts of training rows.

    Args:
        rows: shape (N, D), NaN for holes.
        columns: their kinds.
        words: of each column; None for numbers.
    """

    def __init__(
        self, rows: CodedRows, columns: Sequence[Column], words: Sequence[Sequence[str] | None]
    ) -> None:
        self.columns, self.n_rows = columns, len(rows)
        self.rows = np.column_stack([cells_of(column, x) for column, x in zip(columns, rows.T, strict=True)])
        self.copies = np.bincount(first_copies(rows), minlength=len(rows))[first_copies(rows)]
        each = [
            codes_of(j, column, x) for j, (column, x) in enumerate(zip(columns, self.rows.T, strict=True))
        ]
        self.ways = [codes for some in each for codes in some]
        self.of_rows = np.stack([codes.of(self.rows[:, codes.column]) for codes in self.ways])
        numbers = any(column.kind == "number" for column in columns)
        unit = [np.diff(of.values)[0] if of.kind == "yes/no" else of.step for of in columns]
        density = [of.kind == "number" or (of.kind == "yes/no" and numbers) for of in columns]
        self.log_unit = np.where(density, np.log(unit), 0.0)
        self.words = list[list[str] | None]()
        self.listed, self.n_each = list[np.ndarray](), list[np.ndarray]()
        self.near: dict[int, Near] = {}  # of the columns of words
        self._new, self._unseen = list[np.ndarray](), list[float]()  # log p_new of each; of all without a row
        with progress("counting words", len(columns)) as advance:
            for j, (column, listed) in enumerate(zip(columns, words, strict=True)):
                values, counts = np.unique(self.rows[~np.isnan(self.rows[:, j]), j], return_counts=True)
                every = values if listed is None else np.union1d(values, np.arange(len(listed)))
                every = np.array(column.values) if column.kind == "yes/no" else every
                n_each = np.zeros(len(every), dtype=np.int64)
                n_each[np.searchsorted(every, values)] = counts
                named = [
                    listed[int(v)] if listed is not None and v < len(listed) else f"{v:g}" for v in every
                ]
                self.listed.append(every)
                self.n_each.append(n_each)
                self.words.append(named if column.kind == "category" else None)
                self._new.append(self._log_new(j))
                others = np.exp(self._new[-1])[np.append(n_each == 0, True)].sum()
                self._unseen.append(math.log(max(others, TINY)))
                advance(1)
        self._parts: dict[int, list[CountedPart]] = {}

    def _log_new(self, j: int) -> _Values:
        """log p_new of all listed values of a column, and of all others together."""
        words = self.words[j]
        if words is None:
            return np.full(len(self.listed[j]) + 1, -math.log(len(self.listed[j])))
        near = self.near[j] = neighbours(words, self.n_each[j])
        found = log_new(words, self.n_each[j], near)
        found = found - max(0.0, float(np.logaddexp.reduce(found)) - math.log(0.999))
        return np.append(found, math.log1p(-np.exp(found).sum()))

    def own(self, rows: _Places) -> Own:
        """Training rows that are not counted, with their copies."""
        return Own(self.rows[rows], self.copies[rows])

    def batch(self, x: CodedRows, visible: _Cells, own: Own | None) -> Batch:
        """Rows in codes; NaN for cells that are not read."""
        cells = np.column_stack([cells_of(column, v) for column, v in zip(self.columns, x.T, strict=True)])
        codes = np.stack([way.of(cells[:, way.column]) for way in self.ways])
        if own is None:
            return Batch(cells, visible, codes, np.full_like(codes, -1), np.zeros(len(x), dtype=np.int64))
        of_own = np.stack([way.of(own.cells[:, way.column]) for way in self.ways])
        return Batch(cells, visible, codes, of_own, own.copies)

    def parts(self, j: int) -> list[CountedPart]:
        """The components of a column's mixture; the frequencies of its values come first."""
        if j not in self._parts:
            found, place, width = [], 0, 1 + WAYS * len(self.columns)
            for t, target in enumerate(self.ways):
                if target.column != j:
                    continue
                of_target, size = self.of_rows[t], len(target.values)
                start = 2 + place * width
                found.append(CountedPart(t, None, PairCounts(None, of_target, (1, size)), start))
                seen = dict[int, int]()
                for e, given in enumerate(self.ways):
                    seen[given.column] = seen.get(given.column, -1) + 1
                    if given.column != j and len(given.values) > 1:
                        counts = PairCounts(self.of_rows[e], of_target, (len(given.values), size))
                        weight = start + 1 + WAYS * given.column + seen[given.column]
                        found.append(CountedPart(t, e, counts, weight))
                place += 1
            self._parts[j] = found
        return self._parts[j]

    def shares(
        self, parts: Sequence[CountedPart], batch: Batch
    ) -> tuple[Float64[np.ndarray, "B C"], Float64[np.ndarray, "B C"]]:
        """Which components a row has, as 0 and 1, and p of its cell by each of them; 0 for others."""
        use, p = (np.zeros((len(batch.cells), len(parts))) for _ in range(2))
        alone = [k for k, part in enumerate(parts) if part.given is None]
        at_once = max(1, _AT_ONCE // max(1, len(batch.cells)))
        seen = set(np.flatnonzero(batch.visible.any(0)).tolist())
        for first, end in pairwise([*alone, len(parts)]):
            way = self.ways[parts[first].way]
            size = np.exp(-way.log_size[np.maximum(batch.codes[parts[first].way], 0)])
            n, n_ab = (each[0] for each in self._counts(parts[first : first + 1], batch))
            frequency = n_ab / np.maximum(n, 1)
            use[:, first], p[:, first] = 1.0, frequency * size
            given = [
                (k, self.ways[part.given].column)
                for k, part in enumerate(parts[:end])
                if k > first and part.given is not None and self.ways[part.given].column in seen
            ]
            for start in range(0, len(given), at_once):
                some, columns = (list(each) for each in zip(*given[start : start + at_once], strict=True))
                n, n_ab = self._counts([parts[k] for k in some], batch)
                there = (n > 0) & batch.visible.T[columns]
                use[:, some] = there.T
                p[:, some] = np.where(there, (n_ab + PRIOR * frequency) / (n + PRIOR) * size, 0.0).T
        return use, p

    def _counts(self, parts: Sequence[CountedPart], batch: Batch) -> tuple[_Counts, _Counts]:
        """n_a and n_ab of parts that count the same column in the same way, without a row's own copies."""
        b = batch.codes[parts[0].way]
        given = [part.given for part in parts if part.given is not None]
        a = batch.codes[given] if given else 0 * b[None]
        n = np.stack([part.counts.of(each) for part, each in zip(parts, a, strict=True)])
        n_ab = np.stack([part.counts.pairs(each, b) for part, each in zip(parts, a, strict=True)])
        same, none = b == batch.own[parts[0].way], batch.copies == ALL
        own = np.where(none, n_ab, self._own(parts, batch, a))
        return np.maximum(n - own, 0), np.maximum(n_ab - own * (same | none), 0)

    def _own(self, parts: Sequence[CountedPart], batch: Batch, a: _Counts) -> _Counts:
        """The number of a row's own copies with the code a."""
        given = [part.given for part in parts if part.given is not None]
        a_own = batch.own[given] if given else 0 * a
        return batch.copies * ((a == a_own) & (a >= 0) & (batch.own[parts[0].way] >= 0))

    def log_new(self, j: int, batch: Batch, spelled: bool) -> _Floats:
        """log p_new of the cells of a column, or of all unseen words together."""
        if self.columns[j].kind == "number":
            far = log_far(self.columns[j], batch.cells[:, j])
            alone = [each for each in self.parts(j) if each.given is None and self.ways[each.way].bins]
            near = self.shares(alone, batch)[1].sum(1)  # the frequencies of the bins
            with np.errstate(divide="ignore"):
                return np.logaddexp(np.log(0.5 * near), math.log(0.5) + far) if alone else far
        listed, x = self.listed[j], batch.cells[:, j]
        place = np.minimum(np.searchsorted(listed, x), len(listed) - 1)
        place = np.where(listed[place] == x, place, len(listed))
        found = self._new[j][place]
        if spelled or self.words[j] is None:
            return found
        return np.where(np.append(self.n_each[j], 0)[place] > 0, found, self._unseen[j])

    def log_spelled(self, j: int) -> _Values:
        """log p_new of all listed words of a column."""
        return self._new[j][:-1]

    def log_wide(self, j: int, x: _Values) -> _Values:
        """log of a wide distribution of a number, or of equal probabilities of both values of a yes/no."""
        if self.columns[j].kind != "number":
            return np.full(len(x), -math.log(2))
        return log_far(self.columns[j], cells_of(self.columns[j], x)) - self.log_unit[j]

    def distribution(
        self, parts: Sequence[CountedPart], share: Float64[np.ndarray, "B C"], batch: Batch
    ) -> Float64[np.ndarray, "B V"]:
        """p of all known words of a column in each row, for components with these weights."""
        n_all = np.repeat(parts[0].counts.dense_counts()[None], len(share), 0)
        b_own, p = batch.own[parts[0].way], np.zeros((len(share), n_all.shape[1]))
        known = np.flatnonzero(b_own >= 0)
        n_all[known, b_own[known]] -= batch.copies[known]
        base = n_all / np.maximum(n_all.sum(1, keepdims=True), 1)
        of_base = share[:, 0].copy()
        for k, part in enumerate(parts[1:], 1):
            a = batch.codes[part.given]
            own = self._own([part], batch, a[None])[0]
            n = part.counts.of(a) - own
            factor = np.where(n > 0, share[:, k] / (n + PRIOR), 0.0)
            of_base += PRIOR * factor
            for i in np.flatnonzero(factor > 0).tolist():
                found, counts = part.counts.rows_of(int(a[i]))
                p[i, found] += factor[i] * counts
                p[i, b_own[i]] -= factor[i] * own[i]
        return p + of_base[:, None] * base

    def moments(self, j: int, part: CountedPart, batch: Batch) -> Float64[np.ndarray, "2 B"]:
        """E x and E x² of a column of numbers or of yes/no by a part in each row."""
        column, target = self.columns[j], self.ways[part.way]
        size = np.exp(target.log_size)
        values = (target.values + (size - 1) / 2) * column.step + column.centre
        if column.kind != "number":
            values = target.values
        both = np.stack([values, values**2 + column.step**2 * (size**2 - 1) / 12])
        n_b = self._frequency(j, part).dense_counts()
        base = (both @ n_b / max(n_b.sum(), 1))[:, None]
        if part.given is None:
            return np.repeat(base, len(batch.cells), 1)
        a, counts = batch.codes[part.given], part.counts
        row, column_of = np.divmod(counts.keys, counts.n_b)
        sums = [np.bincount(row, counts.counts * of[column_of], len(counts.of_a)) for of in both]
        return (np.where(a >= 0, np.stack(sums)[:, a], 0.0) + PRIOR * base) / (counts.of(a) + PRIOR)

    def _frequency(self, j: int, part: CountedPart) -> PairCounts:
        """The frequencies of the codes that a part predicts."""
        return next(each.counts for each in self.parts(j) if each.given is None and each.way == part.way)

    def drawn(self, j: int, part: CountedPart, batch: Batch, uniform: Float64[np.ndarray, "B 2"]) -> _Floats:
        """A cell of a column by a part in each row."""
        column, target, frequency = self.columns[j], self.ways[part.way], self._frequency(j, part)
        zero, first = np.zeros(len(batch.cells), dtype=np.int64), uniform[:, 0]
        rows = frequency.drawn(zero, first)
        if part.given is not None:
            a = batch.codes[part.given]
            n = part.counts.of(a)
            level = first * (n + PRIOR)
            rest = np.maximum(level - PRIOR, 0.0) / np.maximum(n, 1)
            alone = frequency.drawn(zero, np.minimum(level / PRIOR, 1.0))
            rows = np.where(level > PRIOR, part.counts.drawn(a, rest), alone)
        code = self.of_rows[part.way][rows]
        cell = target.values[code] + np.floor(uniform[:, 1] * (1 - 1e-12) * np.exp(target.log_size[code]))
        return cell * column.step + column.centre if column.kind == "number" else cell
