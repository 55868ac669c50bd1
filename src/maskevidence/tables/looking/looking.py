"""Look at a table: read it, choose and fit a model, fill the holes and find the cells to look at."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.support.checks import in_short, join_words, some_of, whole_number
from maskevidence.core.support.progress import Course, course
from maskevidence.core.table import Table
from maskevidence.tables.by_name import AUTO, COUNTS, KERNELS, parse_model
from maskevidence.tables.choosing.choosing import held_out_fills
from maskevidence.tables.choosing.selection import Fill, best_filler, error_left
from maskevidence.tables.gaussian.kernel_choice import seconds_of_fit
from maskevidence.tables.looking.by_folds import MOST_FITTED, Folds, Models, folds_for
from maskevidence.tables.looking.determined import Rules, with_determined
from maskevidence.tables.looking.links import links_of
from maskevidence.tables.looking.look_result import Look
from maskevidence.tables.looking.looked import Modelled
from maskevidence.tables.looking.pace import ENDS, Clock
from maskevidence.tables.table_options import ImputeOptions, LookOptions, TableOptions
from maskevidence.tables.wrong_cells.found_cells import WrongCells, judged_by_kernels, with_numbers

if TYPE_CHECKING:
    from maskevidence.tables.filling import Filling


MINUTES = 2.0
_LEAST_SECONDS = 0.3  # of a fit, before one was measured
_PER_CELL = 4e-5  # seconds of a fit or of a search
_WRITING = 3.0  # times as long as reading


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
    seed = whole_number("seed", seed, 0)
    options = LookOptions(minutes=minutes, model=model, seed=seed, table=TableOptions(**words))
    return look_at(str(table) if isinstance(table, Path) else table, options)


def check_word(word: str) -> None:
    """Refuse unknown MODEL words and saved models."""
    if not isinstance(word, str):
        raise InputError(f"model={in_short(word)}; give a MODEL word, such as kernel-gaussian")
    if word != AUTO and parse_model(word)[0] is None:
        raise InputError(
            f"the model {word!r} is a saved one, which cannot judge rows that it has seen; give a word, such "
            "as kernel-gaussian"
        )


def _joined(value: Any) -> Any:
    """An option as on the command line: words separated by commas."""
    if value is None or isinstance(value, str | bool):
        return value
    return join_words(map(str, value)) if isinstance(value, Sequence) else str(value)


def look_at(
    data: object,
    options: LookOptions,
    kept: Path | None = None,
    write: Callable[[Look], None] | None = None,
) -> Look:
    """Look at a file or data frame, keep fits in a folder, and write what was seen; see `look`."""
    from maskevidence.tables.looking.reading import read_for_look  # pydantic, which `import *` spares

    modelled, steps = None, {"read": (1, 1.0), "write": (int(write is not None), 0.5)}
    with course("looking", steps | {"model": (1, 6.0 * options.minutes)}) as plan:
        with plan.step("read", "reading the table"):
            raw, table, description, used, rules = read_for_look(data, options.table, options.limit)
        plan.left["model"], plan.seconds["write"] = 0, max(0.5, _WRITING * plan.seconds["read"])
        notes = list(table.notes)
        try:
            folds = folds_for(table, options.seed, kept)
            if folds is None:
                notes.append("no model: fewer than two columns or four rows that vary")
            else:
                modelled = _modelled(folds, options, rules, plan)
        except (InputError, NumericalError) as error:
            notes.append(f"no model, so that no hole is filled and no cell judged: {error}")
        if modelled is not None:
            notes += [*modelled.found.notes, *modelled.notes, *filter(None, [modelled.of_time])]
        seen = Look(
            description=description,
            raw=raw,
            table=table,
            given=None if isinstance(data, str) else data,
            modelled=modelled,
            options=used,
            seconds=plan.spent,
            notes=tuple(notes),
        )
        if write is not None:
            with plan.step("write", "writing"):
                write(seen)
    return seen


def _modelled(folds: Folds, options: LookOptions, rules: Rules, plan: Course) -> Modelled:
    """Fit by folds, search for wrong cells, measure errors, refit to all rows and fill, within the time."""
    from maskevidence.tables.filling import fill_holes, possible_filling
    from maskevidence.tables.looking.reading import with_meant_words

    table, n, seed = folds.table, len(folds.parts), options.seed
    guess = _LEAST_SECONDS + _PER_CELL * min(table.values.size, MOST_FITTED * len(table.columns))
    words = _words(folds, options)
    steps = dict.fromkeys(words, n) | {words[0]: 2 * n, "choose": len(words) - 1}
    steps |= dict.fromkeys(("suspect", "cells", "measure", "links", "fit-all", "fill"), 1)
    plan.left |= steps
    plan.seconds |= dict.fromkeys(steps, guess)
    clock = Clock(plan, 60.0 * options.minutes)
    folds, models, values, notes = _chosen(folds, words, clock, seed)
    found = _searched(folds, models, values, clock, seed)
    values = folds.without(found, values)
    found = replace(found, cells=with_meant_words(found.table, found.cells))
    cleaned = replace(table, values=values)
    most = clock.filled("measure", [models], values)
    with plan.step("measure", "filling hidden cells"):
        fills = _with_holes(_fills(models, cleaned, folds, seed, most), table)
    n_linked = clock.linked(models, folds)
    with plan.step("links", "how columns are related"):
        links = links_of(models, cleaned, [part[:n_linked] for part in folds.parts])
    with plan.step("fit-all", f"{folds.word}, fit to all rows"):
        model = folds.fit(values, "fit-all", np.arange(0))
    with plan.step("fill", "filling the holes"):
        holes = table.holes()
        by_model = fill_holes(model, cleaned, ImputeOptions())
        filling, simple, fills = _simplest(table, values, by_model, fills)
        filling = possible_filling(cleaned, filling, holes, seed)
    assert filling.deviation is not None
    filled = np.where(holes, filling.values[0], table.values)
    deviation = np.where(holes, filling.deviation, 0.0)
    before = filled.copy()
    if by := with_determined(table, rules, filled, deviation):
        listed = ", ".join(f"{name} by {other}" for name, other in by.items())
        notes.append(f"holes of columns that follow from another are filled by it: {listed}")
    if simple:
        notes.append(
            f"filled without {folds.word}, which does no better: "
            + some_of([f"{name} ({how})" for name, how in simple.items()])
        )
    means = filling.values[0] if filling.means is None else filling.means
    return Modelled(
        word=folds.word,
        model=model,
        table=table,
        means=np.where(filled == before, means, filled),
        filled=filled,
        deviation=deviation,
        likeliest=filling.likeliest,
        fills=fills,
        simple=simple,
        found=found,
        links=links,
        folds=n,
        notes=(*notes, *(each.replace("a column NAME_mean", "filled_sd.csv") for each in filling.notes)),
        of_time=clock.sentence(),
    )


def _chosen(
    folds: Folds, words: Sequence[str], clock: Clock, seed: int
) -> tuple[Folds, Models, Float64[np.ndarray, "N D"], list[str]]:
    """The model with its fits by folds, and the values that they were fitted to, without suspicious ones.

    Wrong cells would be filled badly by every model, and bend the ones that are fitted to them.

    Args:
        words: the MODEL words to choose from; the first finds the suspicious values.
    """
    each, plan, n = {word: replace(folds, word=word) for word in words}, clock.course, len(folds.parts)
    first, *others = words
    models = each[first].fit_all(folds.table.values, plan, 1)
    clock.last_fit(each[first])
    clock.forecast(each[first], [models, *(clock.trial(each[word]) for word in others)], seed)
    for word in others:
        if n * plan.seconds[word] > clock.end("refit") - plan.spent:
            clock.without(word)
    values, suspicious, in_time = each[first].without_suspicious(models, plan, clock.end("suspect"))
    if not in_time:
        clock.shortened["fit"] = "suspicious cells of some rows stayed in the fits"
    until, fitted = plan.spent, {first: models}
    plan.left[first] = n if suspicious else 0
    for word in words:
        until += plan.left[word] * plan.seconds[word]
        if not plan.left[word]:
            continue
        if until > clock.end("refit") and word == first:
            plan.left[word] = 0
            values, clock.shortened["fit"] = folds.table.values, "suspicious cells stayed in the fits"
        elif until > clock.end("refit"):
            clock.without(word)
        else:
            fitted[word] = each[word].fit_all(values, plan, 2)
    if len(fitted) == 1:
        return each[first], fitted[first], values, []
    most = clock.filled("choose", list(fitted.values()), values)
    with plan.step("choose", "choosing a model"):
        table = replace(folds.table, values=values)
        of_each = {word: _fills(models, table, folds, seed, most) for word, models in fitted.items()}
        word, why = best_filler(of_each)
    if word != first:
        clock.last_fit(each[word])
    return each[word], fitted[word], values, [f"{AUTO}: {word}, {why}"]


def _searched(
    folds: Folds, models: Models, values: Float64[np.ndarray, "N D"], clock: Clock, seed: int
) -> WrongCells:
    """The wrong cells; where counts judge the words, kernels of the numbers alone judge these."""
    size, numbers = clock.search(folds, models, values, seed), folds.of_numbers()
    if numbers is None:
        return folds.search(models, values, clock.course, size)
    of_numbers = values[:, [folds.table.columns.index(name) for name in numbers.table.columns]]
    clock.course.left[KERNELS] = len(folds.parts)
    clock.course.seconds.setdefault(KERNELS, clock.course.seconds[folds.word])
    kernels = numbers.fit_all(of_numbers, clock.course, 3)
    (n, how), (most, how_numbers) = size, clock.search(numbers, kernels, of_numbers, seed)
    n = min(n, most)
    if n < len(values):
        clock.shortened["judge"] = f"cells of {n:,} of {len(values):,} rows were judged"
    found = folds.search(models, values, clock.course, (n, how))
    by_kernels = numbers.search(kernels, of_numbers, clock.course, (n, how_numbers))
    return with_numbers(
        found, replace(by_kernels, notes=(*by_kernels.notes, judged_by_kernels(numbers.table)))
    )


def _words(folds: Folds, options: LookOptions) -> list[str]:
    """Choose the MODEL words: the given one, or kernels (counts for words) unless they are too slow."""
    if options.model != AUTO:
        return [options.model]
    some, n, in_words = folds.table.values[:MOST_FITTED], len(folds.parts), bool(folds.table.levels)
    if (2 * n + 1) * seconds_of_fit(some, chooses=True) <= ENDS["refit"] * 60.0 * options.minutes:
        return [KERNELS, *[COUNTS] * in_words]
    return [COUNTS if in_words else f"factor-analysis:{max(1, min(5, len(some) // 8))}"]


def _fills(models: Models, table: Table, folds: Folds, seed: int, most: int) -> dict[str, Fill]:
    """How well hidden values of each column are filled."""
    judges = [*zip(models, folds.parts, strict=True)]
    return held_out_fills(judges, table, range(len(table.columns)), seed, _pairs(table), most=most)


def _simplest(
    table: Table, values: Float64[np.ndarray, "N D"], filling: "Filling", fills: Mapping[str, Fill]
) -> tuple["Filling", dict[str, str], dict[str, Fill]]:
    """Fill columns without the model where, on hidden cells, it does no better than the mean.

    The mean, or the median of a skewed column, is that of all known cells. The errors leave out cells that
    look wrong.

    Args:
        values: those of the table without suspicious ones.

    Returns:
        The filling; by column, with what it was filled; and the errors.
    """
    from scipy.stats import skew

    from maskevidence.tables.possible_values import SKEWED

    assert filling.deviation is not None
    new, deviation, by, holes = (
        filling.values.copy(),
        filling.deviation.copy(),
        dict[str, str](),
        table.holes(),
    )
    found = dict(fills)
    for name in (name for name, fill in fills.items() if fill.holes and error_left(fill) >= 1):
        j = table.columns.index(name)
        known, clean = (each[~np.isnan(each)] for each in (table.values[:, j], values[:, j]))
        different, n = np.unique(known, return_counts=True)
        of_word = name in table.levels or name in filling.likeliest
        if of_word or fills[name].words:
            by[name], value, error = "commonest", different[n.argmax()], n.max() / len(known)
            found[name] = fills[name]._replace(quality=fills[name].without)
        else:
            by[name] = "median" if abs(skew(known)) > SKEWED else "mean"
            value = getattr(np, by[name])(known)
            error = np.sqrt(np.mean((clean - value) ** 2))
            found[name] = fills[name]._replace(quality=float(error))
        new[0, holes[:, j], j], deviation[holes[:, j], j] = value, error
    return filling._replace(values=new, deviation=deviation), by, found


def _pairs(table: Table) -> list[str]:
    """The columns with two distinct numbers."""
    pairs = []
    for name, column in zip(table.columns, table.values.T, strict=True):
        if name not in table.levels and len(np.unique(column[~np.isnan(column)])) == 2:
            pairs.append(name)
    return pairs


def _with_holes(fills: dict[str, Fill], table: Table) -> dict[str, Fill]:
    """Count the holes of the table in each column; suspicious cells are no holes."""
    holes: Float64[np.ndarray, " D"] = table.holes().sum(axis=0)
    return {name: fills[name]._replace(holes=int(n)) for name, n in zip(table.columns, holes, strict=True)}
