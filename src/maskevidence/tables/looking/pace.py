"""The time that `look` has: the speed of models, and how much of a step fits into its share."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.core.support.progress import Course
from maskevidence.tables.by_name import COUNTS
from maskevidence.tables.looking.by_folds import MOST_FITTED, Folds, Models
from maskevidence.tables.looking.links import links_of
from maskevidence.tables.wrong_cells.planted_cells import N_PLANTED, planted
from maskevidence.tables.wrong_cells.wrong_cells import Search

# the share of the time by whose end a step is done; the rest of the time is for the steps of `LAST`
ENDS = {"suspect": 0.32, "refit": 0.48, "choose": 0.53, "cells": 0.84, "measure": 0.93, "links": 1.0}
LAST = ("fit-all", "fill", "write")
_MOST_FILLED = {"choose": 300, "measure": 1000}  # values of a column
_MOST_LINKED, _MOST_LINKED_COLUMNS = 120, 150  # rows of a fold
_FEWEST_FILLED, _FEWEST_LINKED, _FEWEST_JUDGED, _FEWEST_PLANTED, _FEWEST_DESCRIBED = 10, 8, 1, 100, 100
_DRAWS = 100  # of a described cell
_TRIED, _MOST_TRIED, _TRIAL = 64, 4096, 0.1  # rows of a trial at most, of filling too, and seconds at least
_LEAST = 1e-3  # seconds for a step
_LEAST_EACH = 0.1  # of a trial's mean per row, the part that grows with the rows

Values = Float64[np.ndarray, "N D"]


class Pace(NamedTuple):
    """The seconds of some work with n rows: start + each * n."""

    start: float
    each: float

    def times(self, n: int) -> "Pace":
        """The seconds of the work done n times."""
        return Pace(n * self.start, n * self.each)

    def seconds(self, n: int) -> float:
        """The seconds of n rows; none without rows."""
        return (self.start + self.each * n) if n else 0.0

    def fits(self, seconds: float) -> int:
        """The number of rows that can be done in the time."""
        return max(0, int((seconds - self.start) / self.each))


def pace_of(work: Callable[[Values], object], rows: Values) -> Pace:
    """How long some work takes, by trials with few of its rows."""
    n, before = 1, (0, 0.0)
    while True:
        start = time.perf_counter()
        work(rows[:n])
        took = max(time.perf_counter() - start, 1e-9)
        if (took > _TRIAL and n > 1) or took > 10 * _TRIAL or n >= len(rows):
            n = max(1, len(rows[:n]))
            each = max((took - before[1]) / max(1, n - before[0]), _LEAST_EACH * took / n)
            return Pace(max(0.0, took - n * each), each)
        n, before = 4 * n, (n, took)


class Clock:
    """The time that `look` has, and the speeds of its models.

    Args:
        course: of its steps.
        seconds: of the whole course, with reading and writing.
    """

    def __init__(self, course: Course, seconds: float) -> None:
        self.course, self.seconds, self.begun = course, seconds, course.spent
        self.shortened = dict[str, str]()  # what was left out, by step

    def sentence(self) -> str:
        """What was left out because the time was short, and how to go on; "" for nothing."""
        left_out, minutes = "; ".join(self.shortened.values()), max(0.1, 2 * self.seconds / 60)
        return left_out and (
            f"the time was short: {left_out}. A slower or busier machine leaves out more, "
            f"which changes results; --minutes {minutes:.1f} --overwrite looks again, with more time"
        )

    def end(self, step: str) -> float:
        """Seconds of the course by which a step is done."""
        return self.begun + self._shared * ENDS[step]

    @property
    def _shared(self) -> float:
        """Seconds for all steps of `ENDS`."""
        left, seconds = self.course.left, self.course.seconds
        return max(0.0, self.seconds - self.begun - sum(left[step] * seconds[step] for step in LAST))

    def room(self, step: str) -> float:
        """Seconds for a step; a tenth of its share if earlier ones took longer than theirs."""
        before = [share for share in ENDS.values() if share < ENDS[step]]
        least = 0.1 * self._shared * (ENDS[step] - max(before, default=0.0))
        return max(self.end(step) - self.course.spent, least, _LEAST)

    def _some(self, step: str, wanted: int, fewest: int, pace: Pace, share: float = 1.0) -> int:
        """The number of rows that fit into a share of the step's time; 0 below `fewest`."""
        n = min(wanted, pace.fits(share * self.room(step)))
        return n if n >= min(wanted, fewest) else 0

    def trial(self, folds: Folds) -> Models:
        """A model fitted to some rows, which forecasts the pace of the fits by folds."""
        some = folds.table.values[:MOST_FITTED]
        start = time.perf_counter()
        model = replace(folds, kept=None).fit(some, "", np.arange(0))
        took, n = time.perf_counter() - start, len(folds.table) - len(folds.parts[0])
        self.course.seconds[folds.word] = took * max(1.0, n / len(some))
        return (model,)

    def last_fit(self, folds: Folds) -> None:
        """Forecast the fit to all rows by a fit of a fold, to few rows, and one to a tenth of all."""
        n, most, took = len(folds.table) // 10, MOST_FITTED, self.course.seconds[folds.word]
        if n > most and folds.word != COUNTS:  # whose fits take all rows
            start = time.perf_counter()
            replace(folds, kept=None).fit(folds.table.values[:n], "", np.arange(0))
            more = max(0.0, time.perf_counter() - start - took)
            took += more * (len(folds.table) - most) / (n - most)
        self.course.seconds["fit-all"] = took

    def without(self, word: str) -> None:
        """Leave a model out of the choice, for which the time is too short."""
        self.course.left |= {word: 0, "choose": 0}
        self.shortened["choose"] = f"{word} was not tried"

    def forecast(self, folds: Folds, tried: Sequence[Models], seed: int) -> None:
        """Forecast all later steps by trials: those of the chosen model by the mean of the tried ones."""
        values, seconds, each = folds.table.values, self.course.seconds, list[dict[str, float]]()
        for models in tried:
            self.search(folds, models, values, seed)
            self.filled("measure", [models], values)
            self.linked(models, folds)
            each.append(dict(seconds))
        for step in ("cells", "measure", "links", "fill"):
            seconds[step] = float(np.mean([of[step] for of in each]))
        share = min(1.0, _MOST_FILLED["choose"] / min(_MOST_FILLED["measure"], len(values)))
        seconds["choose"] = min(share * sum(of["measure"] for of in each), self.room("choose"))
        seconds["suspect"] = each[0]["suspect"]
        self.shortened.clear()

    def search(self, folds: Folds, models: Models, values: Values, seed: int) -> tuple[int, Search]:
        """How many rows to judge, and how: by trials of the first fold."""
        judge, rows = folds.judge(models, values, 0), values[folds.parts[0]]
        rng = np.random.default_rng(seed)
        spoilt, _ = planted(rng, rows[:_TRIED], rows, judge.facts)
        blank, words = rows[:1].repeat(_DRAWS, axis=0), [*map(folds.table.columns.index, folds.table.levels)]
        blank[:, (words or [0])[: min(3, rows.shape[1] - 1)]] = np.nan  # words take longest
        judging, planting = (pace_of(judge.search, some) for some in (rows[:_TRIED], spoilt))
        model, room = models[0], self.room("cells")
        describing = pace_of(lambda some: model.draw_missing(some, 1, seed), blank).seconds(_DRAWS)
        n = max(self._some("cells", len(values), 1, judging, 0.7), min(len(values), _FEWEST_JUDGED))
        left = max(0.0, 0.8 - judging.seconds(n) / room)  # of the room, which rows come before
        n_planted = self._some("cells", N_PLANTED, _FEWEST_PLANTED, planting, left)
        most = max(_FEWEST_DESCRIBED, int(0.2 * room / describing))
        if n < len(values):
            self.shortened["judge"] = f"cells of {n:,} of {len(values):,} rows were judged"
        if not n_planted:
            self.shortened["plant"] = "no cell is called at a rate"
        suspicious = int(np.isnan(values).sum() - np.isnan(folds.table.values).sum())
        described = min(most, max(0.02 * n, suspicious)) * describing
        expected = planting.seconds(n_planted) + described + judging.seconds(n)
        self.course.seconds["cells"] = min(expected, room)
        self.course.seconds["suspect"] = min(judging.seconds(len(values)), self.room("suspect"))
        return n, Search(seed=seed, n_planted=n_planted, most=most)

    def filled(self, step: str, each: Sequence[Models], values: Values) -> int:
        """The number of values of each column to hide, and to fill by each model."""
        hidden, wanted = values[:_TRIED].copy(), min(_MOST_FILLED[step], len(values))
        hidden[:, 0] = np.nan
        paces = [pace_of(models[0].impute, hidden) for models in each]
        pace = Pace(*(sum(each) for each in zip(*paces, strict=True))).times(values.shape[1])
        n = max(self._some(step, wanted, 1, pace), _FEWEST_FILLED)
        if step == "measure" and n < wanted:
            self.shortened[step] = f"errors are those of {n:,} hidden values of a column"
        self.course.seconds[step] = pace.seconds(min(n, len(values)))
        if len(holed := values[np.isnan(values).any(axis=1)]):
            self.course.seconds["fill"] = pace_of(each[0][0].impute, holed[:_MOST_TRIED]).seconds(len(holed))
        return n

    def linked(self, models: Models, folds: Folds) -> int:
        """The number of rows of each fold that show how columns are related; 0 for none."""

        def work(some: Values) -> object:
            rows = np.arange(len(some))
            return links_of(models[:1], replace(folds.table.take(rows), values=some), [rows])

        n, values = 0, folds.table.values
        if values.shape[1] <= _MOST_LINKED_COLUMNS:
            pace = pace_of(work, values[folds.parts[0]][:_TRIED]).times(len(folds.parts))
            n = self._some("links", _MOST_LINKED, _FEWEST_LINKED, pace)
            self.course.seconds["links"] = pace.seconds(min(n, len(folds.parts[0])))
        if not n:
            self.shortened["links"] = "how columns are related was not measured"
        return n
