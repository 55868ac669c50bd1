"""The time of a look: how fast models are, and how much of a step fits into its share."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float64

from maskevidence.core.support.progress import Course
from maskevidence.tables.looking.by_folds import Folds, Models
from maskevidence.tables.looking.links import links_of
from maskevidence.tables.wrong_cells.planted_cells import N_PLANTED, planted
from maskevidence.tables.wrong_cells.wrong_cells import Search

# the share of the time by whose end a step is done
ENDS = {"suspect": 0.3, "refit": 0.45, "choose": 0.5, "cells": 0.78, "measure": 0.86, "links": 0.92}
_MOST_FILLED = {"choose": 300, "measure": 1000}  # values of a column
_MOST_LINKED, _MOST_LINKED_COLUMNS = 120, 150  # rows of a fold
_FEWEST_FILLED, _FEWEST_LINKED, _FEWEST_JUDGED, _FEWEST_PLANTED, _FEWEST_DESCRIBED = 10, 8, 1, 100, 100
_DRAWS = 100  # of a described cell
_OF_COUNTS = 4.0  # a choice between two models takes as much longer
_TRIED, _TRIAL = 64, 0.1  # rows of a trial at most, and seconds at least

Values = Float64[np.ndarray, "N D"]


def seconds_per(work: Callable[[Values], object], rows: Values) -> float:
    """Seconds that work takes for each of some rows, by a trial with few of them."""
    n = 1
    while True:
        start = time.perf_counter()
        work(rows[:n])
        took = time.perf_counter() - start
        if (took > _TRIAL and n > 1) or took > 10 * _TRIAL or n >= len(rows):
            return max(took, 1e-9) / max(1, len(rows[:n]))
        n *= 4


class Clock:
    """The time of a look, and the paces of its models.

    Args:
        course: of its steps.
        seconds: of the whole course.
    """

    def __init__(self, course: Course, seconds: float) -> None:
        self.course, self.seconds = course, seconds
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
        return self.seconds * ENDS[step]

    def room(self, step: str) -> float:
        """Seconds for a step; a tenth of its share if earlier ones took longer than theirs."""
        before = [share for share in ENDS.values() if share < ENDS[step]]
        least = 0.1 * (self.end(step) - self.seconds * max(before, default=0.0))
        return max(self.end(step) - self.course.spent, least)

    def _some(self, step: str, wanted: int, fewest: int, seconds: tuple[float, float]) -> int:
        """How many fit into the step's room, with seconds of one and a share of the room; 0 below fewest."""
        each, share = seconds
        n = min(wanted, int(share * self.room(step) / each))
        return n if n >= min(wanted, fewest) else 0

    def forecast(self, folds: Folds, models: Models, seed: int, *, fewer: bool) -> None:
        """Forecast all later steps by trials; half of it if a model that may be faster is tried, too."""
        values, seconds = folds.table.values, self.course.seconds
        self.search(folds, models, values, seed)
        self.filled("measure", [models], values)
        seconds["choose"] = _OF_COUNTS * seconds["measure"]
        self.linked(models, folds)
        for step in ("cells", "measure", "links") if fewer else ():
            seconds[step] /= 2
        self.shortened.clear()

    def search(self, folds: Folds, models: Models, values: Values, seed: int) -> tuple[int, Search]:
        """How many rows to judge, and how: by trials of the first fold."""
        judge, rows = folds.judge(models, values, 0), values[folds.parts[0]]
        rng = np.random.default_rng(seed)
        spoilt, _ = planted(rng, rows[:_TRIED], rows, judge.facts)
        blank = rows[:1].repeat(_DRAWS, axis=0)
        blank[:, 0] = np.nan
        of_judging = seconds_per(judge.search, rows[:_TRIED])
        of_planting = seconds_per(judge.search, spoilt)
        model = models[0]
        of_describing = _DRAWS * seconds_per(lambda some: model.draw_missing(some, 1, seed), blank)
        n = max(self._some("cells", len(values), 1, (of_judging, 0.7)), min(len(values), _FEWEST_JUDGED))
        left = max(0.0, 0.8 - n * of_judging / self.room("cells"))  # of the room, which rows come before
        n_planted = self._some("cells", N_PLANTED, _FEWEST_PLANTED, (of_planting, left))
        most = max(_FEWEST_DESCRIBED, int(0.2 * self.room("cells") / of_describing))
        if n < len(values):
            self.shortened["judge"] = f"cells of {n:,} of {len(values):,} rows were judged"
        if not n_planted:
            self.shortened["plant"] = "no cell is called at a rate"
        expected = n_planted * of_planting + 0.02 * n * of_describing + n * of_judging
        self.course.seconds["cells"] = min(expected, self.room("cells"))
        self.course.seconds["suspect"] = min(len(values) * of_judging, self.room("suspect"))
        return n, Search(seed=seed, n_planted=n_planted, most=most)

    def filled(self, step: str, each: Sequence[Models], values: Values) -> int:
        """How many values of each column to hide, and to fill by each of some models."""
        hidden, wanted = values[:_TRIED].copy(), _MOST_FILLED[step]
        hidden[:, 0] = np.nan
        seconds = values.shape[1] * sum(seconds_per(models[0].impute, hidden) for models in each)
        n = max(self._some(step, min(wanted, len(values)), 1, (seconds, 1.0)), _FEWEST_FILLED)
        if step == "measure" and n < min(wanted, len(values)):
            self.shortened[step] = f"errors are those of {n:,} hidden values of a column"
        self.course.seconds[step] = min(n, len(values)) * seconds
        return n

    def linked(self, models: Models, folds: Folds) -> int:
        """How many rows of each fold show how columns are related; 0 for none."""

        def work(some: Values) -> object:
            rows = np.arange(len(some))
            return links_of(models[:1], replace(folds.table.take(rows), values=some), [rows])

        n, values = 0, folds.table.values
        if values.shape[1] <= _MOST_LINKED_COLUMNS:
            each = seconds_per(work, values[folds.parts[0]][:_TRIED])
            n = self._some("links", _MOST_LINKED, _FEWEST_LINKED, (len(models) * each, 1.0))
            self.course.seconds["links"] = len(models) * min(n, len(folds.parts[0])) * each
        if not n:
            self.shortened["links"] = "how columns are related was not measured"
        return n
