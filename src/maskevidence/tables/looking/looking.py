"""Look at a table: read it, choose and fit a model, fill the holes and find the cells to look at."""

import math
import time
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.support.checks import in_short, join_words, whole_number
from maskevidence.core.support.progress import Course, course
from maskevidence.core.table import Table
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import AUTO, COUNTS, KERNELS, parse_model
from maskevidence.tables.choosing.choosing import held_out_fills
from maskevidence.tables.choosing.selection import Fill, error_left
from maskevidence.tables.looking.by_folds import Folds, Kept, Searched, folds_for
from maskevidence.tables.looking.links import links_of
from maskevidence.tables.looking.look_result import Look
from maskevidence.tables.looking.looked import Modelled
from maskevidence.tables.table_options import ImputeOptions, TableOptions

MINUTES = 2.0
_LEAST_SECONDS = 0.3  # of a fit, before one was measured
_PER_CELL = 4e-5  # seconds of a fit or of a search


class Budget(NamedTuple):
    """How long to look, and by which model."""

    word: str  # a MODEL word
    seconds: float
    seed: int


def look(
    table: object,
    *,
    model: str = AUTO,
    minutes: float = MINUTES,
    seed: int = 0,
    **reading: Any,
) -> Look:
    """Look at a table: what its columns are, what stood in its holes, and which cells may be wrong.

    Every column is described, and what needs a person is a finding, not a refusal. A model is chosen by how
    well it fills hidden cells, and fitted by folds: each cell is judged given the rest of its row by a model
    that has not seen the row, as `wrong_cells` does. Suspicious cells are hidden from a second round of fits
    and from the last fit, to all rows, which fills the holes by their conditional mean, or by the most
    probable word. The error of filled values is that of known values that are not suspicious, hidden one at a
    time.

    Args:
        table: a file or address as `me.data.read_table` takes it, a data frame, or a `Table`.
        model: a MODEL word such as "kernel-gaussian"; by default the table decides.
        minutes: about how long to work, above 0; with less time, fewer rounds.
        seed: of folds and draws.
        reading: options of `me.data.read_table`, such as missing=["-999"] or drop=["note"].

    Raises:
        InputError: a file that is no table, or options that do not fit it.

    Example:
        >>> import maskevidence as me, pandas
        >>> x = me.models.PPCA(n_features=3, n_components=1, seed=1).sample(200, seed=0).round(2)
        >>> x[3, 0], x[5, 1] = np.nan, 40.0
        >>> seen = me.look(pandas.DataFrame(x, columns=["a", "b", "c"]))
        >>> seen.cells[0].column, seen.to_frame()["a"].isna().sum().item()
        ('b', 0)
    """
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not 0 < minutes < math.inf:
        raise InputError(f"minutes={in_short(minutes)}; give a number above 0, such as 2")
    check_word(model)
    known = {field.name for field in fields(TableOptions)}
    for name in reading:
        if name not in known:
            raise InputError(f"{name}= is not an option of a table; give {', '.join(sorted(known))}")
    words = {name: _joined(value) for name, value in reading.items()}
    budget = Budget(model, 60.0 * minutes, whole_number("seed", seed, 0))
    data = str(table) if isinstance(table, Path) else table
    return look_at(data, TableOptions(**words), budget, Kept())


def check_word(word: str) -> None:
    """Refuse an unknown MODEL word, and a saved model."""
    if not isinstance(word, str):
        raise InputError(f"model={in_short(word)}; give a MODEL word, such as kernel-gaussian")
    if word != AUTO and parse_model(word)[0] is None:
        raise InputError(
            f"the model {word!r} is a saved one, which cannot judge rows that it has seen; give a word, such "
            "as kernel-gaussian"
        )


def _joined(value: Any) -> Any:
    """An option as the command line has it: words between commas."""
    if value is None or isinstance(value, str | bool):
        return value
    return join_words(map(str, value)) if isinstance(value, Sequence) else str(value)


def look_at(
    data: object, options: TableOptions, budget: Budget, kept: Kept, limit: int | None = None
) -> Look:
    """Look at a file or data frame; see `look`."""
    from maskevidence.tables.looking.reading import read_for_look  # pydantic, which `import *` spares

    start = time.perf_counter()
    raw, table, description, options = read_for_look(data, options)
    if limit is not None:
        table = table.head(limit)
    modelled, notes = None, list(table.notes)
    try:
        folds = folds_for(table, budget.seed, kept)
        if folds is None:
            notes.append("no model: fewer than two columns or four rows that vary")
        else:
            modelled = _modelled(folds, budget)
    except (InputError, NumericalError) as error:
        notes.append(f"no model, so that no hole is filled and no cell judged: {error}")
    if modelled is not None:
        notes += [*modelled.found.notes, *modelled.notes]
    return Look(
        description=description,
        raw=raw,
        table=table,
        given=None if isinstance(data, str) else data,
        modelled=modelled,
        options=options,
        seconds=time.perf_counter() - start,
        notes=tuple(notes),
    )


def _modelled(folds: Folds, budget: Budget) -> Modelled:
    """Fit by folds, search, measure, fit to all rows and fill, within the time."""
    from maskevidence.tables.filling import _fill, _possible

    table, n = folds.table, len(folds.parts)
    guess = _LEAST_SECONDS + _PER_CELL * table.values.size
    both = 2 if budget.word == AUTO and table.levels else 1
    steps = {"choose": both - 1, "fit": (1 + both) * n + 1, "cells": 2, "measure": 1, "fill": 1}
    with course("looking", {kind: (n_steps, guess) for kind, n_steps in steps.items()}) as plan:
        folds, searched, notes = _searched(folds, plan, budget)
        if searched.n_judged < len(table):
            of_all = f"{searched.n_judged:,} of {len(table):,} rows"
            notes.append(f"cells of {of_all} were judged; a longer --minutes judges more")
        values = searched.values
        cleaned = replace(table, values=values)
        with plan.step("measure", "filling hidden cells"):
            pairs = _pairs(table)
            every = range(len(table.columns))
            fills = held_out_fills(searched.models, cleaned, folds.parts, every, budget.seed, pairs)
            links = links_of(searched.models, values, folds.parts)
        with plan.step("fit", f"{folds.word}, fit to all rows"):
            model = folds.fit(values, "fit-all", np.arange(0))
        with plan.step("fill", "filling the holes"):
            holes = table.holes()
            filling = _possible(cleaned, _fill(model, cleaned, ImputeOptions()), holes, budget.seed)
    assert filling.deviation is not None
    return Modelled(
        word=folds.word,
        model=model,
        table=table,
        means=filling.values[0] if filling.means is None else filling.means,
        filled=np.where(holes, filling.values[0], table.values),
        deviation=np.where(holes, filling.deviation, 0.0),
        likeliest=filling.likeliest,
        fills=_with_holes(fills, table),
        found=searched.found,
        links=links,
        folds=n,
        notes=(*notes, *(each.replace("a column NAME_mean", "filled_sd.csv") for each in filling.notes)),
    )


def _searched(folds: Folds, plan: Course, budget: Budget) -> tuple[Folds, Searched, list[str]]:
    """Search for wrong cells, choose a model without the suspicious ones, and search again with it.

    Wrong cells would be filled badly by every model, and bend the ones that are fitted to them.
    """
    first = replace(folds, word=KERNELS if budget.word == AUTO else budget.word)
    limits = (budget.seconds, budget.seed)
    searched = first.search(first.fit_all(folds.table.values, plan, 1), folds.table.values, plan, limits)
    suspicious = (np.isnan(searched.values) & ~np.isnan(folds.table.values)).any()
    others = [COUNTS] if budget.word == AUTO and folds.table.levels else []
    if not suspicious and not others:
        return first, searched, []
    if plan.spent + plan.forecast > budget.seconds:
        minutes = math.ceil((plan.spent + plan.forecast) / 60)
        note = f"one round, in which suspicious cells had a part in the fits: --minutes {minutes} takes two"
        return first, searched, [note]
    values, words = searched.values, (first.word, *others)
    fitted = {word: replace(folds, word=word).fit_all(values, plan, 2) for word in words}
    word, notes = first.word, list[str]()
    if others:
        with plan.step("choose", "choosing a model"):
            word, why = _best(folds, fitted, searched.values, budget.seed)
            notes.append(why)
    chosen = replace(folds, word=word)
    return chosen, chosen.search(fitted[word], searched.values, plan, limits), notes


def _best(
    folds: Folds, fitted: dict[str, tuple[TableModel, ...]], values: Float64[np.ndarray, "N D"], seed: int
) -> tuple[str, str]:
    """The MODEL word that fills hidden cells best, suspicious ones aside, and why.

    Evidence would decide by the exactness of numbers, too, which a filled value does not need.
    """
    table, left = replace(folds.table, values=values), dict[str, float]()
    pairs, every = _pairs(table), range(len(table.columns))
    for word, models in fitted.items():
        fills = held_out_fills(models, table, folds.parts, every, seed, pairs)
        left[word] = float(np.mean([error_left(fill) for fill in fills.values()]))
    best = min(left, key=lambda word: left[word])
    shares = ", ".join(f"{word} {100 * share:.0f} %" for word, share in left.items())
    return (
        best,
        f"{AUTO}: {best} fills hidden cells best; errors left, of those of the mean or commonest: {shares}",
    )


def _pairs(table: Table) -> list[str]:
    """The columns of two numbers, such as yes and no."""
    pairs = []
    for name, column in zip(table.columns, table.values.T, strict=True):
        if name not in table.levels and len(np.unique(column[~np.isnan(column)])) == 2:
            pairs.append(name)
    return pairs


def _with_holes(fills: dict[str, Fill], table: Table) -> dict[str, Fill]:
    """The same with the holes of the table, of which suspicious cells are none."""
    holes: Float64[np.ndarray, " D"] = table.holes().sum(axis=0)
    return {name: fills[name]._replace(holes=int(n)) for name, n in zip(table.columns, holes, strict=True)}
