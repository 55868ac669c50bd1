"""Find wrong words by counts without their row, and estimate how many suspicious words are right."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.scores.ask import slices
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import some_of
from maskevidence.core.support.progress import progress
from maskevidence.core.table import with_values
from maskevidence.tables.counts.column_codes import cells_of
from maskevidence.tables.counts.counted import ALL, Batch, Own
from maskevidence.tables.counts.mixture_transition import MixtureTransition
from maskevidence.tables.counts.spelling import Near, habits, log_any, rough_shape
from maskevidence.tables.wrong_cells.cell_search import CellJudge, Cells, Facts, Judged

_Rows = Float64[np.ndarray, "N D"]
_Ints = Int64[np.ndarray, " n"]

_RARE = 3  # cells with a word that may be wrong everywhere
_ALL_WRONG = np.log(0.1)  # the odds that a rare word's cells are all wrong, if one is
_LEAST = 1.0  # nats; less suspicious cells are not called
_BEFORE = 0.25  # cells of each column, added to both counts
_FEWEST = 3  # cells of a value that break a rule
_EVERYWHERE = 0.02  # the highest probability of a value that rows of all kinds may have by mistake
_NEARLY_ALL = 0.9  # of the other rows
_HALF = 0.5  # of a column, which a row says of it, if it is to break a rule
_ANYWHERE = 1.0  # right cells, added to those of all columns
_NEAR_UNIQUE = 0.3  # the share of words that occur once, above which a new one is not called
_DISTRIBUTIONS = 3  # of a wrong word
_MOST_TOLD = 300  # words that tell how right ones look
_FLOOR = 1e-3  # the least share of wrong cells
_SECOND = np.log(50)  # even odds of a second writing, where those of another cell are .01
_PRIOR = 0.01  # the probability of a wrong cell
_SWEEPS = 100
_ROWS = 8192  # that are judged at once
MOST_LIKELIER = 3  # words that a cell may have meant


class _Spelling(NamedTuple):
    """How the words of a column are written."""

    near: Near
    habits: Near
    log_odd: Float64[np.ndarray, " V"]  # log q as any signs, or in another format
    log_whatever: Float64[np.ndarray, " V"]  # log q as a wrong word, whatever is right
    counts: Int64[np.ndarray, " V"]
    as_most: Bool[np.ndarray, " V"]  # whether most cells are written in the word's format


class WordJudge(CellJudge):
    """Judges the rows that a `MixtureTransition` was fitted to, each by the counts without it.

    q, the distribution of a wrong cell, is for a known word half that of another row's value and half equal
    for all; for an unseen word it is the mean of three distributions over strings: a word that the row
    expects, mistyped; any signs; a string of the column in another format. A word of at most three cells may
    also be wrong in all of them, and is judged as unseen. A second writing of a word (see `habits`) has even
    odds.

    Args:
        model: fitted.
        facts: of its columns.
        rows: that the model was fitted to, and those without a value among them.
    """

    own: Own | None  # the training row of each row that is searched; None for other rows

    def __init__(self, model: MixtureTransition, facts: Facts, rows: _Rows) -> None:
        super().__init__(model, facts)
        self.model, self.counted = model, model.counted
        there, cells = with_values(rows), np.full(rows.shape, np.nan)
        copies = np.zeros(len(rows), dtype=np.int64)
        cells[there], copies[there] = self.counted.rows, self.counted.copies
        self.own = Own(cells, copies)
        self.words = [self._spelling(j) for j in range(model.n_features)]

    def _spelling(self, j: int) -> _Spelling | None:
        """How the words of a column are written; None for numbers and yes/no."""
        words = self.counted.words[j]
        if words is None:
            return None
        counts = self.counted.n_each[j]
        shapes, which = np.unique([rough_shape(word) for word in words], return_inverse=True)
        alike = np.bincount(which, counts)[which]
        others = alike - counts
        share = (others + 0.5) / (counts.sum() - counts + 0.5 * (len(shapes) + 1))
        rare = np.maximum(-np.log(share) - np.log(len(shapes) + 1), -30.0)
        odd = np.logaddexp(log_any(words), self.counted.log_spelled(j) + rare) - np.log(_DISTRIBUTIONS)
        other_row = 0.5 * counts / max(1, counts.sum()) + 0.5 / len(counts)
        whatever = np.where(counts <= _RARE, odd, np.log(other_row))
        as_most = alike > counts.sum() / 2
        return _Spelling(self.counted.near[j], habits(words, counts), odd, whatever, counts, as_most)

    def log_wrong(self, rows: _Rows, everywhere: bool = True, given: _Rows | None = None) -> _Rows:
        """log q of each cell, nats.

        Args:
            everywhere: whether a rare word may be wrong in all its cells, even by no typing error, and a
                second writing wherever it stands.
            given: log p of each cell given the rest of its row, if known.
        """
        seen, marginal = ~np.isnan(rows), self._marginal(rows)
        given = self._alone(rows, np.zeros_like(seen)) if given is None else given
        wrong, own = np.full(rows.shape, np.nan), self.own
        for j, spelling in enumerate(self.words):
            there = np.flatnonzero(seen[:, j])
            if spelling is None:
                wrong[there, j] = np.logaddexp(
                    marginal[there, j], self.counted.log_wide(j, rows[there, j])
                ) - np.log(2)
                continue
            place = np.searchsorted(self.counted.listed[j], rows[there, j])
            n = spelling.counts[place] - (0 if own is None else own.copies[there])
            rare = n < _RARE
            known = np.logaddexp(marginal[there, j], -np.log(len(spelling.counts))) - np.log(2)
            strange = self._log_strange(j, rows, there[rare], place[rare])
            whole = self._without_word(rows, there[rare], j) if own is not None else given[there[rare], j]
            meant = (
                strange if everywhere else self._log_strange(j, rows, there[rare], place[rare], typed=True)
            )
            all_wrong = given[there[rare], j] + _ALL_WRONG + meant + np.log(0.5) - whole
            by_chance = given[there[rare], j] < whole + np.log(2)  # no other row makes the word likelier
            unseen = (n[rare] <= 0) | by_chance
            known[rare] = np.where(unseen, np.log(0.5) + strange, np.logaddexp(known[rare], all_wrong))
            near, which = _pairs(spelling.habits, place if everywhere else place[:0])
            meant = self._log_meant(j, rows, there[which], near.meant)
            np.logaddexp.at(known, which, meant + near.log_typed + _SECOND)
            wrong[there, j] = known
        return wrong

    def _alone(self, rows: _Rows, hidden: Cells, places: _Ints | None = None) -> _Rows:
        """log p of each cell that is not hidden, given the others that are not; NaN elsewhere."""
        visible = ~np.isnan(rows) & ~hidden
        return self._log_each(rows, visible, visible, np.arange(len(rows)) if places is None else places)

    def _left_out(self, places: _Ints) -> Own | None:
        """The training rows at these places, which are not counted."""
        return None if self.own is None else self.own.take(places)

    def _others_of(self, rows: _Rows, j: int, places: _Ints) -> Batch:
        """Rows in codes, without a column; `places` are those of the rows in the search."""
        visible = ~np.isnan(rows) & (np.arange(rows.shape[1]) != j)
        return self.counted.batch(np.where(visible, rows, np.nan), visible, self._left_out(places))

    def _log_each(self, rows: _Rows, asked: Cells, visible: Cells, places: _Ints) -> _Rows:
        """log p of the cells asked for given the visible ones."""
        answer, advance = np.full(rows.shape, np.nan), self.asker.advance
        for some in slices(len(rows), _ROWS):
            own = self._left_out(places[some])
            answer[some] = self.model.log_each(rows[some], asked[some], visible[some], own)
            if advance is not None:
                advance(int(asked[some].sum()))
        return answer

    def _marginal(self, rows: _Rows) -> _Rows:
        """log p of all cells of a row without any other."""
        nothing = np.zeros(rows.shape, dtype=bool)
        return self._log_each(rows, ~np.isnan(rows), nothing, np.arange(len(rows)))

    def _log_strange(
        self, j: int, rows: _Rows, row: _Ints, place: _Ints, *, typed: bool = False
    ) -> Float64[np.ndarray, " n"]:
        """log q of words as if they were unseen; `typed` by typing errors alone."""
        spelling = self.words[j]
        assert spelling is not None
        mistyped = np.full(len(row), -np.inf)
        near, which = _pairs(spelling.near, place)
        np.logaddexp.at(mistyped, which, self._log_meant(j, rows, row[which], near.meant) + near.log_typed)
        mistyped = mistyped - np.log(_DISTRIBUTIONS)
        if typed:
            return mistyped
        new = self.counted.log_spelled(j)[place]
        return np.maximum(np.logaddexp(mistyped, spelling.log_odd[place]), new - 3.0)

    def _log_meant(
        self, j: int, rows: _Rows, row: _Ints, meant: _Ints, places: _Ints | None = None
    ) -> Float64[np.ndarray, " n"]:
        """log p of other words in some cells, given the rest of their rows."""
        if not len(row):
            return np.zeros(0)
        other = rows[row].copy()
        other[:, j] = self.counted.listed[j][meant]
        return self._one_column(other, j, row if places is None else places)

    def _one_column(self, rows: _Rows, j: int, places: _Ints) -> Float64[np.ndarray, " n"]:
        """log p of a column's cells given the rest of their rows."""
        visible = ~np.isnan(rows)
        asked = visible & (np.arange(rows.shape[1]) == j)
        return self._log_each(rows, asked, visible, places)[:, j]

    def _without_word(self, rows: _Rows, row: _Ints, j: int) -> Float64[np.ndarray, " n"]:
        """log p of words by the counts without all rows that have them."""
        own = self.own
        assert own is not None
        if not len(row):
            return np.zeros(0)
        self.own = Own(own.cells, np.full_like(own.copies, ALL))
        answer = self._one_column(rows[row], j, row)
        self.own = own
        return answer

    def _ordinary(self, rows: _Rows, given: _Rows, more: int) -> Cells:
        """Words of more than three cells that their row makes no less probable: rare is not wrong.

        Args:
            more: cells of each word that are taken away.
        """
        found = given > self._marginal(rows) - 1.0
        for j, spelling in enumerate(self.words):
            there = np.flatnonzero(~np.isnan(rows[:, j]))
            if spelling is not None:
                place = np.searchsorted(self.counted.listed[j], rows[there, j])
                found[there, j] &= spelling.counts[place] - more > _RARE
        return found

    def _share_of_rare(self, rows: _Rows, there: _Ints, j: int) -> Float64[np.ndarray, " n"]:
        """The share of right cells among those of rare words that look as wrong; 0 for cells of other words.

        Words of more than three cells, which are right, tell how many right ones look so, as if no other row
        had them: town 20 beside town 21. How many right words are rare is told by those of four to six and of
        seven to nine cells, each for two cells, as M₂ and M₃ in `called`.
        """
        spelling = self.words[j]
        assert spelling is not None
        share, place = np.zeros(len(there)), np.searchsorted(self.counted.listed[j], rows[there, j])
        order = np.argsort(place, kind="stable")
        turn = np.empty(len(place), dtype=np.int64)  # among the cells of the word
        turn[order] = np.arange(len(place)) - np.searchsorted(place[order], place[order])
        common = np.flatnonzero(spelling.counts > _RARE)
        common = common[:: 1 + len(common) // _MOST_TOLD]
        told = np.flatnonzero(np.isin(place, common) & (turn < _RARE))
        rare = np.flatnonzero(spelling.counts[place] <= _RARE)
        if len(rare):
            looks = (self._looks_wrong(rows, there[some], place[some], j) for some in (told, rare))
            shares = [
                _least_below(first, (_n_above(right, first) / _RARE + _BEFORE) / _n_above(first, first))
                for right, first in zip(*looks, strict=True)
            ]
            n_cells = [
                2 * ((spelling.counts > n) & (spelling.counts <= n + _RARE)).sum() for n in (_RARE, 2 * _RARE)
            ]
            n_right = min(_n_right(*n_cells), len(rare))
            share[rare] = np.minimum(*shares) * n_right / (len(common) + 10 * _BEFORE)
        return share

    def _looks_wrong(self, rows: _Rows, row: _Ints, place: _Ints, j: int) -> Float64[np.ndarray, "2 n"]:
        """How far a typing error, and an odd writing, beat a right word that no other row has, nats."""
        spelling = self.words[j]
        assert spelling is not None
        others = np.log1p(-np.exp(np.minimum(self._one_column(rows[row], j, row), -1e-9)))
        typed = self._log_strange(j, rows, row, place, typed=True) - others
        return np.stack([typed, spelling.log_odd[place]]) - self._without_word(rows, row, j)

    def _near_unique(self, j: int) -> bool:
        """Whether too many words of a column occur once to tell right words from wrong ones."""
        spelling = self.words[j]
        return spelling is not None and (spelling.counts == 1).sum() > _NEAR_UNIQUE * spelling.counts.sum()

    def notes(self, names: Sequence[str], suspicion: _Rows, called: Cells, by_value: Cells) -> list[str]:
        """What the calls rest on, and the columns without calls; `by_value` are those of `_broken_share`."""
        found = ["no trusted rows: the rate rests on how many right words only one or two other rows support"]
        words = np.array([spelling is not None for spelling in self.words])
        alike = [name for j, name in enumerate(names) if self._near_unique(j) and not called[:, j].any()]
        looks = (suspicion > -np.log(_PRIOR)) & words & ~called.any(0) & ~np.isin(names, alike)
        if looks.any():
            found.append(
                f"{count(int(looks.sum()), 'cell')} of {_columns(names, looks)} may be wrong, but right ones "
                "that look like them cannot be told apart: they are listed, and none is called"
            )
        if by_value.any():
            found.append(
                f"{count(int(by_value.sum()), 'cell')} of {_columns(names, by_value)} are called since the "
                "rest of the row speaks for other values of the column, but not for theirs: false if that "
                'stands for no value, such as "unknown"'
            )
        pairs = [names[j] for j in np.flatnonzero(~words & ~self.facts.numbers & ~called.any(0)).tolist()]
        if alike:
            found.append(
                f"right and wrong words cannot be told apart where most occur once: none of "
                f"{some_of(alike)} is called"
            )
        if pairs:
            found.append(f"no yes/no is called without trusted rows: {some_of(pairs)}")
        return found

    def likelier(
        self, rows: _Rows, row: _Ints, column: _Ints, hidden: Cells
    ) -> list[list[tuple[float, float]]]:
        """The most probable right words of some cells, and their probabilities, if the cell is wrong.

        A word v has p(v | visible) q(written | v), where q is the probability of the typing error, or of a
        wrong word whatever is right.

        Args:
            rows: all rows.
            row, column: the places of the cells.
            hidden: the cells of each row that are left out.

        Returns:
            The codes and probabilities, the most probable first; none for columns of numbers.
        """
        found: list[list[tuple[float, float]]] = [[] for _ in row]
        blank = np.where(hidden, np.nan, rows[row])
        for j in np.unique(column).tolist():
            spelling, these = self.words[j], np.flatnonzero(column == j)
            if spelling is None:
                continue
            written, at = rows[row[these], j], row[these]
            place = np.searchsorted(self.counted.listed[j], written)
            batch = self._others_of(blank[these], j, at)
            likeliest, _ = self.model.likeliest(j, batch, without=written)
            near, which = _pairs(spelling.near, place)
            which = np.concatenate([np.arange(len(at)), which])
            meant = np.concatenate([np.searchsorted(self.counted.listed[j], likeliest), near.meant])
            log_p = self._log_meant(j, blank[these], which, meant, at[which])
            other = spelling.log_whatever[place]
            typed = np.concatenate([np.full(len(at), -np.inf), near.log_typed])
            joint = log_p + np.logaddexp(typed - np.log(_DISTRIBUTIONS), other[which])
            total = other.copy()
            np.logaddexp.at(total, which, log_p + typed - np.log(_DISTRIBUTIONS))
            p, words = np.exp(np.minimum(joint - total[which], 0.0)), self.counted.listed[j][meant]
            for k in np.argsort(-joint, kind="stable").tolist():
                of_cell = found[these[which[k]]]
                if len(of_cell) < MOST_LIKELIER and words[k] not in [word for word, _ in of_cell]:
                    of_cell.append((float(words[k]), float(p[k])))
        return found

    def called(self, rows: _Rows, judged: Judged, rate: float) -> tuple[_Rows, _Rows, Cells, Cells]:
        """The share of right cells among those of their column that are as suspicious, and what is called.

        A right cell that no other row supports is suspicious. How many there are is not known, but how many
        become so suspicious when one, or two, of the rows that support them are taken away is: with M₂ and M₃
        of them, about M₂² / M₃ right cells of a column have no support, if they become fewer with each row
        by the same factor or a larger one (Good and Turing's reasoning), and at least M₂. Of the M₁ cells of
        a column that are as suspicious, this is the share of right ones, with ¼ added to M₂ and M₃. It is
        raised by the odds that another cell of the row explains the surprise, and one cell more is taken to
        be right among all that are called. Rare words are wrong in all their cells as typing errors alone.

        Returns:
            The share, shape (N, D), NaN for holes; the suspicion less the log of its column's share, which
            makes columns comparable, or that of an exception if it is higher; the calls, and those that
            `_broken_share` alone makes.
        """
        own, hidden, marginal = self.own, judged.hidden, self._marginal(rows)
        assert own is not None
        levels, breaks, others = list[_Rows](), list[_Rows](), self._others(rows)
        gain = self.log_wrong(rows) - judged.suspicion - marginal
        alone, of_known = (_drawn_alone(np.where(others >= n, gain, np.nan)) for n in (0, _RARE))
        with progress("checking calls", 3) as advance:
            for more in range(3):
                self.own = Own(own.cells, own.copies + more)
                whole = self._alone(rows, np.zeros_like(hidden))
                wrong = self.log_wrong(rows, everywhere=False, given=whole)
                each = wrong - self._alone(rows, hidden)
                again, _ = self._judged_again(rows, wrong, hidden, each)
                given = wrong - again
                again = np.where(self._ordinary(rows, given, more), -np.inf, again)
                most = np.fmax(given, whole)  # hidden cells may be right
                broken = np.where(others - more >= _RARE, _exceptions(most - marginal, of_known), -np.inf)
                levels.append(again if not more else np.fmax(levels[-1], again))
                breaks.append(broken if not more else np.fmax(breaks[-1], broken))
                advance(1)
        self.own = own
        silent = self._silent(rows, breaks[-1])
        breaks = [np.where(silent, -np.inf, each) for each in breaks]
        share = np.where(np.isnan(judged.suspicion), np.nan, 1.0)
        of_values = share.copy()
        for j, spelling in enumerate(self.words):
            there = np.flatnonzero(~np.isnan(judged.suspicion[:, j]))
            if spelling is not None and len(there) and not self._near_unique(j):
                share[there, j] = _right_share(levels[0][there, j], [each[there, j] for each in levels])
                share[there, j] = np.maximum(share[there, j], self._share_of_rare(rows, there, j))
            of_values[there, j] = _broken_share(rows[there, j], [each[there, j] for each in breaks])
            called = np.minimum(share[there, j], of_values[there, j]) <= rate
            if spelling is not None:
                place = np.searchsorted(self.counted.listed[j], rows[there, j])
                called &= spelling.counts[place] > _RARE
            for value in np.unique(rows[there[called], j]):
                own = there[rows[there, j] == value]
                by_row = self._expected_share(rows, there, j, value)
                share[own, j] = np.maximum(share[own, j], by_row)
                of_values[own, j] = np.maximum(of_values[own, j], by_row)
            if spelling is not None:  # "none" among codes may stand in rows of all kinds
                of_values[there[~spelling.as_most[place]], j] = 1.0
        with np.errstate(invalid="ignore"):  # NaN for holes
            suspicion = judged.suspicion - np.log(np.maximum(share, _FLOOR))
            suspicion = np.logaddexp(suspicion, _exceptions(gain, alone))
        share = 1 - (1 - share) * _told_apart(judged, share)
        of_values = 1 - (1 - of_values) * _best_share(np.where(breaks[0] > _LEAST, breaks[0], -np.inf))
        level = _of_all_columns(np.minimum(share, of_values))
        return level, suspicion, level <= rate, (level <= rate) & (of_values < share)

    def _expected_share(self, rows: _Rows, there: _Ints, j: int, value: float) -> Float64[np.ndarray, " n"]:
        """The share of right cells among those of a value that their rows expect as little.

        Rows that expect the value with a probability p have it in a share p of them: the few pears among
        apples of the same price. The p that nearly all other rows have at most, up to .02, is left out.

        Args:
            there: the rows with a value in the column.
        """
        other = rows[there].copy()
        own = other[:, j] == value
        other[:, j] = value
        p = np.exp(self._one_column(other, j, there) + self.counted.log_unit[j])
        everywhere = np.quantile(p[~own], _NEARLY_ALL) if not own.all() else 0.0
        p = np.maximum(p - min(everywhere, _EVERYWHERE), 0.0)
        ordered, of_own = np.sort(p), p[own]
        expected = np.append(0.0, np.cumsum(ordered))[np.searchsorted(ordered, of_own, "right")]
        share: Float64[np.ndarray, " n"] = np.minimum(
            expected / np.searchsorted(np.sort(of_own), of_own, "right"), 1.0
        )
        return share

    def _silent(self, rows: _Rows, breaks: _Rows) -> Cells:
        """Of cells that may break a rule, those of whose column their row says less than half."""
        found = np.zeros(rows.shape, dtype=bool)
        for j in range(rows.shape[1]):
            there = np.flatnonzero(breaks[:, j] >= _LEAST)
            if len(there):
                found[there, j] = self.model.said(j, self._others_of(rows[there], j, there)) < _HALF
        return found

    def _others(self, rows: _Rows) -> Int64[np.ndarray, "N D"]:
        """How many other rows have the value of each cell; of numbers, rounded as they are counted."""
        assert self.own is not None
        found = np.zeros(rows.shape, dtype=np.int64)
        for j, (listed, n_each) in enumerate(zip(self.counted.listed, self.counted.n_each, strict=True)):
            there = np.flatnonzero(~np.isnan(rows[:, j]))
            cells = cells_of(self.counted.columns[j], rows[there, j])
            found[there, j] = n_each[np.searchsorted(listed, cells)] - self.own.copies[there]
        return found


def _columns(names: Sequence[str], cells: Cells) -> str:
    """The columns of some cells."""
    return some_of([names[j] for j in np.flatnonzero(cells.any(0)).tolist()])


def _drawn_alone(gain: _Rows) -> Float64[np.ndarray, " D"]:
    """The share β of each column's cells that are drawn by frequency alone, by EM; see `_exceptions`."""
    odds, beta = np.expm1(np.clip(gain, 1e-300, 500.0)), np.full(gain.shape[1], 0.1)
    n = np.maximum((~np.isnan(odds)).sum(0), 1)
    for _ in range(_SWEEPS):
        beta = np.clip(np.nansum(1 / (1 + odds * (1 - beta) / beta), axis=0) / n, 1e-4, 1 - 1e-4)
    return beta


def _exceptions(gain: _Rows, beta: Float64[np.ndarray, " D"]) -> _Rows:
    """The suspicion of cells that break what their rows say of their column, nats; NaN for holes.

    With p(b | row) = (1 - β) d(b | row) + β p(b), d is what the row adds to the frequency. An exception,
    which the second part explains, is wrong with a probability of .01 / β, at most ½: where few cells break a
    rule these are wrong, and where the row says nothing none is.

    Args:
        gain: log p(b | row) - log p(b).
        beta: of each column.
    """
    odds = np.expm1(np.clip(gain, 1e-300, 500.0))
    p = np.minimum(0.5, _PRIOR / beta) / (1 + odds * (1 - beta) / beta)
    return np.log(p + 1e-300) - np.log1p(-p) - np.log(_PRIOR)


def _broken_share(x: Float64[np.ndarray, " n"], breaks: Sequence[np.ndarray]) -> Float64[np.ndarray, " n"]:
    """The share of right cells among those of a value that break what their rows say of their column.

    How many right cells break it the other values tell, as in `WordJudge.called`: wrong cells with the same
    value support one another. A value with more cells than all others is taken to have as many times more.

    Args:
        x: the values of a column.
        breaks: the suspicion of an exception, and that without one or two of the rows that support it.
    """
    share, (values, code, n_each) = np.ones(len(x)), np.unique(x, return_inverse=True, return_counts=True)
    some = np.flatnonzero(breaks[-1] >= _LEAST)  # no other one counts
    code, levels = code[some], [each[some] for each in breaks]
    n_broken = np.bincount(code[levels[0] >= _LEAST], minlength=len(values))
    for k in np.flatnonzero(n_broken >= _FEWEST).tolist():
        own, times = code == k, max(1.0, n_each[k] / max(1, len(x) - n_each[k]))
        share[some[own]] = _right_share(levels[0][own], [each[~own] for each in levels], times)
    return share


def _pairs(near: Near, place: _Ints) -> tuple[Near, _Ints]:
    """The pairs of some cells' words with others, and the cell of each pair."""
    start = np.searchsorted(near.word, place)
    n = np.searchsorted(near.word, place, "right") - start
    which = np.repeat(np.arange(len(place)), n)
    pair = np.arange(len(which)) - np.repeat(np.cumsum(n) - n, n) + start[which]
    return Near(near.word[pair], near.meant[pair], near.log_typed[pair], near.n_words), which


def _told_apart(judged: Judged, share: _Rows) -> _Rows:
    """The odds of the best cell of a row among all that would explain its surprise; 0 for others.

    Cells count by how rarely right ones of their column are as suspicious.
    """
    clues, found = judged.clues, np.zeros(judged.suspicion.shape)
    with np.errstate(invalid="ignore"):
        weight = (1 - share[clues.row]) / np.maximum(share[clues.row], _FLOOR)
        odds = clues.suspicion + np.log(np.maximum(weight, _FLOOR))
        odds = np.where(clues.suspicion > _LEAST, odds, -np.inf)
    np.maximum.at(found, clues.row, _best_share(odds))
    return found


def _best_share(odds: _Rows) -> _Rows:
    """The share of the best cell of a row in the odds, which are given as logs; 0 for others."""
    with np.errstate(invalid="ignore"):  # rows of -inf alone
        share = np.exp(odds - np.logaddexp.reduce(odds, axis=1, keepdims=True))
    best: Cells = np.arange(odds.shape[1]) == odds.argmax(1)[:, None]
    return np.where(best & np.isfinite(odds), share, 0.0)


def _right_share(
    first: Float64[np.ndarray, " n"], levels: Sequence[np.ndarray], times: float = 1.0
) -> Float64[np.ndarray, " n"]:
    """The least estimated share of right cells at the suspicion of each cell or a lower one.

    Args:
        first: the suspicion of the cells.
        levels: of the cells that tell how many are right, with no, one and two rows taken away.
        times: as many right cells as these tell.
    """
    n_first, *n_each = (_n_above(each, first) for each in (first, *levels))
    gone_one, gone_two = n_each[1] - n_each[0], n_each[2] - n_each[1]
    right = _n_right(gone_one, gone_two) * times
    return _least_below(first, np.where(first >= _LEAST, np.minimum(right / n_first, 1.0), 1.0))


def _n_right(gone_one: _Ints, gone_two: _Ints) -> Float64[np.ndarray, " n"]:
    """How many right cells have no support, from those that one row less, and two, would leave without."""
    return (gone_one + _BEFORE) * np.maximum((gone_one + _BEFORE) / (gone_two + _BEFORE), 1.0)


def _n_above(x: Float64[np.ndarray, " m"], level: Float64[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
    """How many of x are at each level or above."""
    return len(x) - np.searchsorted(np.sort(x), level)


def _least_below(
    level: Float64[np.ndarray, " n"], share: Float64[np.ndarray, " n"]
) -> Float64[np.ndarray, " n"]:
    """The least share at the level of each cell or a lower one."""
    order, best = np.argsort(level, kind="stable"), np.empty_like(share)
    best[order] = np.minimum.accumulate(share[order])
    return best


def _of_all_columns(share: _Rows) -> _Rows:
    """The least share t + 1 / n at a level t of a cell's share or above, with n cells up to t; at most 1."""
    ordered = np.sort(share[~np.isnan(share)])
    n_below = np.searchsorted(ordered, ordered, "right")
    level = np.minimum(ordered + _ANYWHERE / n_below, 1.0)
    best = np.minimum.accumulate(level[::-1])[::-1]
    place = np.minimum(np.searchsorted(ordered, share), max(len(ordered) - 1, 0))
    return np.where(np.isnan(share), np.nan, best[place] if len(ordered) else 1.0)
