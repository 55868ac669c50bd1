"""Which cells of a table are wrong, at a stated rate of false discoveries."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.model import DENSITY, check_conditionals
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import some_of, whole_number
from maskevidence.core.support.keyed_random import first_copies
from maskevidence.core.support.progress import Advance, progress
from maskevidence.core.table import Table, as_table, with_levels_of, with_values
from maskevidence.core.tokens import Tokens, column_names
from maskevidence.tables.base import TableModel, share_fitted
from maskevidence.tables.by_name import AUTO, COUNTS, KERNELS, TAKE_WORDS, declared, parse_model
from maskevidence.tables.choosing.auto import auto_word
from maskevidence.tables.choosing.choosing import varying_columns
from maskevidence.tables.counts.mixture_transition import MixtureTransition
from maskevidence.tables.counts.word_judge import MOST_LIKELIER, WordJudge
from maskevidence.tables.folds import folds_of
from maskevidence.tables.reading.dates import DateForm
from maskevidence.tables.reshaped import Reshaped
from maskevidence.tables.row_groups import RowGroups
from maskevidence.tables.table_files import dated_table
from maskevidence.tables.wrong_cells.cell_search import (
    FAULTS,
    OUTSIDE,
    CellJudge,
    Clues,
    Ints,
    Judged,
    Rows,
    facts_of,
)
from maskevidence.tables.wrong_cells.far_limits import far_limits
from maskevidence.tables.wrong_cells.found_cells import (
    WrongCell,
    WrongCells,
    judged_by_kernels,
    name_of_row,
    odd_cells,
    one_of,
    value_of,
    with_numbers,
)
from maskevidence.tables.wrong_cells.planted_cells import N_PLANTED, RESTS, Planted, Right, call, planted
from maskevidence.tables.wrong_cells.tails import Tails

_MOST_TRIED = 2**21  # cells of rows in which suggestions are tried at once
_MOST_KEPT = 50_000  # rows of a file that is read by row groups
_GROSS = 10.0  # nats of a cell that many would call
_MOST_AT_ONCE = 1000  # cells that are described in one call, which draws 100 values of each
_DRAWS = 100  # of an expected value
_SHIFTS = {"× 10": 10.0, "÷ 10": 0.1, "× 100": 100.0, "÷ 100": 0.01}
_UNITS = _SHIFTS | {"× 2.54": 2.54, "÷ 2.54": 1 / 2.54}


class Search(NamedTuple):
    """How to search a table.

    Attributes:
        rate: the share of false calls.
        seed: of the draws.
        n_planted: rows with planted cells; without any, no cell is called.
        most: cells that are described, the most suspicious first; None for all.
    """

    rate: float = 0.1
    seed: int = 0
    n_planted: int = N_PLANTED
    most: int | None = None


def wrong_cells(
    model: object,
    table: object,
    rate: float = 0.1,
    trusted: object = None,
    *,
    folds: int = 5,
    seed: int = 0,
) -> WrongCells:
    """Find the cells of a table that are probably wrong: typing errors, swapped columns, wrong units.

    Each cell x_j is judged by log q(x_j) - log p(x_j | the rest of its row), where q is the distribution of
    a wrong cell; the most surprising cell is hidden and the rest of the row judged again, as `CellJudge`
    says. A call names a cell, or, where several explain the same surprise, a set of cells of a row, one of
    which is wrong: of two columns that say the same it cannot be known which.

    Calls are those above the lowest suspicion at which their estimated false share is at most `rate`. False
    calls in right rows are counted in the trusted rows, which go through the same search. A right cell beside
    a wrong one looks wrong, too: so wrong cells (values of other rows, shifts, other units, swaps) are
    planted into trusted rows and searched for, with the number in a row and the columns that the table's
    calls show, and calls without a planted cell are false. **On average at most `rate` of the calls are false
    if right rows are like trusted ones, and wrong cells confuse the search no more than planted ones.**

    The p-value of a cell with suspicion s is its rank among the cells of trusted rows and of its own,
    (#{trusted > s} + ½ #{trusted = s} + #{own row ≥ s}) / (all of them).

    Without trusted rows, a p-value is the share of right cells that are as suspicious by the tail of the
    column, beyond the 90 % quantile of -log p: a generalised Pareto distribution of right cells and up to 2 %
    of wrong ones, whose shapes vary around a common one, as `Tails` says; the calmer half of the rows is
    planted into. The rate then rests on that tail, no cell of a column whose tail may have no mean is called,
    and no word or yes/no: a rare one need not be wrong.

    The word "mixture-transition" is fitted to all rows, each of which is judged by the counts without it, and
    words are called without trusted rows: how many right ones look wrong for lack of support shows in those
    that one or two rows support, as `WordJudge` says; and cells, also of numbers, of a value that the rows
    expect no more than others, if the rows of other values expect these. A p-value is then this share of
    right cells. Without trusted rows, numbers beside words are also judged by "kernel-gaussian", from the
    other numbers alone; half of that suspicion counts beside words, and both searches keep the rate.

    Args:
        model: a fitted model of rows, which has seen neither the table nor the trusted rows; or a MODEL word
            such as "auto", "kernel-gaussian" or "masked-net", which is fitted to all trusted rows but a fold,
            and judges that fold and a part of the table; without trusted rows, to all rows but a fold.
        table: shape (N, D), an array, `Table` or data frame; NaN where a value is missing. Holes are never
            called wrong. The command `cells` gives a Parquet file that memory does not hold by row groups, of
            which the most suspicious rows are kept.
        rate: the share of the calls that may be false on average, in (0, 1).
        trusted: rows with the same columns that are known to be right. The fewer there are, the more cells
            must be wrong for any to be called: about N / (rate × trusted rows).
        folds: parts of the rows, each of which is judged by a model that is fitted to the others.
        seed: of the folds and the draws.

    Raises:
        InputError: a rate outside (0, 1), tables whose columns differ, a model that was fitted to the trusted
            rows, or rows that the model cannot take.

    Source:
        Bates et al. (2023), Testing for Outliers with Conformal p-values; Pickands (1975), Statistical
        Inference Using Extreme Order Statistics (the tail).

    Example:
        >>> import maskevidence as me
        >>> x = me.models.PPCA(n_features=6, n_components=2, seed=1).sample(600, seed=0)
        >>> x[400:420, 3] *= 10
        >>> found = me.wrong_cells("gaussian", x[400:], trusted=x[:400])
        >>> found.cells[0].column, found.cells[0].suggestion
        ('c3', '÷ 10')
    """
    if not 0 < rate < 1:
        raise InputError(f"rate={rate}; give a share of false calls in (0, 1), such as 0.1")
    seed, folds = whole_number("seed", seed, 0), whole_number("folds", folds, 2)
    notes = list[str]()
    build, fitted = parse_model(model) if isinstance(model, str) else (None, model)
    of_numbers, how = None, Search(rate, seed)
    if build is None:
        task = _by_model(fitted, table, trusted)
    else:
        rows = dated_table(table, getattr(trusted, "forms", {}))
        known = None if trusted is None else dated_table(trusted, rows.forms)
        word = model
        if model == AUTO:
            word, of_auto = auto_word(rows if known is None else known, seed=seed)
            build, notes = parse_model(word)[0], [*of_auto]
        task = _by_word(build, rows, known, (folds, seed))
        if word == COUNTS and known is None:
            of_numbers = _numbers_by_kernels(task, rows, (folds, seed), how)
    if isinstance(of_numbers, WrongCells):
        task = task._replace(coded=replace(task.coded, limits={}))
    elif of_numbers is not None:
        notes.append(of_numbers)
    found = _found(task._replace(notes=[*notes, *task.notes]), how)
    return _as_given(with_numbers(found, of_numbers) if isinstance(of_numbers, WrongCells) else found, table)


def cells_by_folds(
    models: Sequence[TableModel],
    table: Table,
    folds: Sequence[Int64[np.ndarray, " _"]],
    known: Sequence[Float64[np.ndarray, "_ D"]],
    how: Search,
) -> WrongCells:
    """The wrong cells of a table, by models already fitted to all rows but a fold each.

    Args:
        models: one for each fold, of the columns of the table in their order.
        table: the rows, without trusted ones.
        folds: the positions of the rows that each model has not seen.
        known: for each fold, rows that its model may have seen, with suspicious cells missing.
    """
    sittings = []
    for model, places, train in zip(models, folds, known, strict=True):
        facts = facts_of(model, train, [table.columns.index(name) for name in table.levels])
        sittings.append(_Sitting(CellJudge(model, facts), places, table.values[:0]))
    return _found(_Task(table, table, sittings, []), how)


def _numbers_by_kernels(
    task: "_Task", table: Table, folding: tuple[int, int], how: Search
) -> WrongCells | str | None:
    """The wrong numbers of a table with words, by kernels of its numbers alone; a note if there are none."""
    numbers = [task.coded.columns[j] for j in np.flatnonzero(task.sittings[0].judge.facts.numbers).tolist()]
    if not numbers:
        return None
    rows = table.select(numbers)
    try:
        found = _found(_by_word(parse_model(KERNELS)[0], rows, None, folding), how)
    except (InputError, NumericalError) as error:
        return f"numbers are judged by {COUNTS}, which calls none without trusted rows: {error}"
    return replace(found, notes=(judged_by_kernels(rows), *found.notes))


def _found(task: "_Task", how: Search) -> WrongCells:
    """Search the table with the judges of its rows."""
    given, coded, sittings, notes, kept = task
    if kept is None:
        places = np.argsort(np.concatenate([each.places for each in sittings]))
        searched = _searched("judging cells", sittings, [coded.values[each.places] for each in sittings])
        judged, n_rows = _joined(searched).take(places), len(coded)
    else:
        judged, n_rows = kept.judged, kept.n_judged[0]
    judge = sittings[0].judge
    by_support = isinstance(judge, WordJudge)
    if isinstance(judge, WordJudge):
        p_values, suspicion, alone, by_value = judge.called(coded.values, judged, how.rate)
        judged, calls = judged._replace(suspicion=suspicion), _one_each(suspicion, alone)
        notes += judge.notes(coded.columns, suspicion, alone, by_value)
    else:
        p_values, calls = _judged_wrong(judged, sittings, coded.values, n_rows, how)
    n_trusted = sum(len(each.clean) for each in sittings)
    if not n_trusted and not by_support and how.n_planted:
        notes.append(
            "no trusted rows: the rate is estimated from the table itself, as if 2 % of its cells were wrong"
        )
        if not calls.any() and (np.nan_to_num(judged.suspicion) > _GROSS).any():
            notes.append(
                f"none of {some_of(coded.columns)} is called, since right cells may have tails as heavy: "
                "trusted rows would tell"
            )
    elif n_trusted and not calls.any():
        notes.append(
            f"with {count(n_trusted, 'trusted row')} for {count(n_rows, 'row')}, fewer than about "
            f"{math.ceil(n_rows / (how.rate * (n_trusted + 1))):,} calls cannot be made, however suspicious"
        )
    called = (calls > 0) & (np.bincount(calls.ravel()) == 1)[calls]
    found = WrongCells(
        (), given, judged.suspicion, p_values, called, calls, how.rate, n_trusted, tuple(notes)
    )
    found = found if kept is None else replace(found, n_judged=kept.n_judged)
    described = _described(found, coded, sittings, judged, how)
    judges = [(each.judge.asker.model, each.places) for each in sittings]
    limits, of_limits = far_limits(coded, judges, judged.suspicion)
    if limits:
        described = tuple(sorted((*described, *limits), key=lambda cell: -cell.suspicion))
    return replace(found, cells=(*odd_cells(given), *described), notes=(*found.notes, *of_limits))


def _one_each(suspicion: Rows, called: Bool[np.ndarray, "N D"]) -> Int64[np.ndarray, "N D"]:
    """Number the called cells, most suspicious first, each as a call of its own; 0 for others."""
    calls = np.zeros(called.shape, dtype=np.int64)
    row, column = np.nonzero(called)
    order = np.argsort(-suspicion[row, column], kind="stable")
    calls[row[order], column[order]] = 1 + np.arange(len(order))
    return calls


def _as_given(found: WrongCells, table: object) -> WrongCells:
    """The same, with the columns in a table's order."""
    place = {name: k for k, name in enumerate(column_names(table) or ())}
    names = sorted(found.table.columns, key=lambda name: place.get(name, len(place)))
    order = [found.table.columns.index(name) for name in names]
    return replace(
        found,
        table=found.table.select(names),
        suspicion=found.suspicion[:, order],
        p_values=found.p_values[:, order],
        called=found.called[:, order],
        calls=found.calls[:, order],
        n_judged=found.n_judged and (found.n_judged[0], found.n_judged[1][order]),
    )


def _judged_wrong(
    judged: Judged, sittings: Sequence["_Sitting"], table: Rows, n_rows: int, how: Search
) -> tuple[Rows, Int64[np.ndarray, "N D"]]:
    """The p-value of each cell, and the number of its call; 0 for none."""
    rng = np.random.default_rng(how.seed)
    numbers = np.logical_and.reduce([each.judge.facts.numbers for each in sittings])
    if any(len(each.clean) for each in sittings):
        bases = [each.clean for each in sittings]
        ends = np.cumsum([len(base) for base in bases])
        sources = np.split(np.arange(ends[-1]), ends[:-1])
        clean = _joined(_searched("judging trusted cells", sittings, bases))
        p_values, right = _ranks(judged.suspicion, clean.suspicion), Right(clean.clues, len(clean.suspicion))
    else:
        tail = Tails(judged)
        p_values = tail.share(judged.suspicion)
        # planted into the less suspicious half of the rows; a rare word is not a wrong one
        worst = np.where(np.isnan(judged.suspicion), -np.inf, judged.suspicion).max(axis=1)
        calm = worst <= np.median(worst)
        sources = [each.places[calm[each.places]] for each in sittings]
        bases = [table[source] for source in sources]
        right = Right(judged.clues, len(table), numbers, tail)
    trials = list[tuple[Judged, Any, Any, Any]]()
    pool, n = np.concatenate(bases), max(1, sum(map(len, bases)))
    for each, base, source in zip(sittings, bases, sources, strict=True):
        chosen = (
            rng.integers(len(base), size=-(-how.n_planted * len(base) // n)) if len(base) else np.arange(0)
        )
        spoilt, pattern = planted(rng, base[chosen], pool, each.judge.facts)
        wrong = (spoilt != base[chosen]) & ~np.isnan(spoilt)
        trials.append((each.judge.search(spoilt), wrong, source[chosen], pattern))
    of_clues, *others = zip(*trials, strict=True)
    trial = Planted(_joined(of_clues).clues, *map(np.concatenate, others))
    if not len(trial.wrong):
        return p_values, np.zeros(table.shape, dtype=np.int64)
    sets, calls = call(judged.clues, n_rows, right, trial, how.rate), np.zeros(table.shape, dtype=np.int64)
    place, column = np.nonzero(sets.cells)
    calls[sets.row[place], column] = 1 + place
    return p_values, calls


def _searched(what: str, sittings: Sequence["_Sitting"], parts: Sequence[Rows]) -> list[Judged]:
    """The results of each sitting, with a progress bar."""
    with progress(what, sum(int((~np.isnan(rows)).sum()) for rows in parts)) as advance:
        return [each.judge.search(rows, advance) for each, rows in zip(sittings, parts, strict=True)]


def _joined(parts: Sequence[Judged]) -> Judged:
    """The rows of several searches, one after the other."""
    starts = np.cumsum([0, *(len(part.fault) for part in parts)])
    row = np.concatenate([part.clues.row + start for part, start in zip(parts, starts, strict=False)])
    clues = Clues(row, np.concatenate([part.clues.suspicion for part in parts]))
    suspicion, hidden, fault, wrong = (np.concatenate([part[k] for part in parts]) for k in range(4))
    return Judged(suspicion, hidden, fault, wrong, clues)


class _Sitting(NamedTuple):
    """A model that judges some rows."""

    judge: CellJudge
    places: Int64[np.ndarray, " n"]  # of the rows of the table that it judges
    clean: Rows  # the trusted rows that it judges


class _Kept(NamedTuple):
    """The rows of a long file that look most suspicious, after the search."""

    judged: Judged
    n_judged: tuple[int, Int64[np.ndarray, " D"]]  # rows, and cells by column, of the file


class _Task(NamedTuple):
    """A table and the judges of its rows."""

    given: Table
    coded: Table  # in the codes of the model
    sittings: Sequence[_Sitting]
    notes: list[str]
    kept: _Kept | None = None  # if the rows are those of a long file


def _most_suspicious(judge: CellJudge, file: RowGroups) -> tuple[Table, _Kept, list[str]]:
    """Judge a file piece by piece; the rows that may be called or listed, the most suspicious of them."""
    width = len(file.columns)
    most = max(1, min(_MOST_KEPT, _MOST_TRIED // width))
    kept: tuple[Table, Judged] | None = None
    seen, n_left_out = np.zeros(width, dtype=np.int64), 0
    with progress("judging cells", file.n_rows * width) as advance:
        for piece, _ in file.checked_tables():
            n_cells = (~np.isnan(piece.values)).sum(0)
            judged, seen = judge.search(piece.values, advance), seen + n_cells
            advance(piece.values.size - int(n_cells.sum()))
            if kept is not None:
                rows = np.concatenate([kept[0].values, piece.values])
                piece = replace(piece, values=rows, ids=np.concatenate([kept[0].ids, piece.ids]))
                judged = _joined([kept[1], judged])
            strength = judged.strength(RESTS[-1])
            order = np.argsort(-strength, kind="stable")[: (strength > -np.inf).sum()]
            n_left_out += max(0, len(order) - most)
            chosen = np.sort(order[:most])
            kept = piece.take(chosen), judged.take(chosen)
    assert kept is not None
    notes = [file.note]
    if n_left_out:
        notes.append(
            f"of the rows with a suspicious cell the {most:,} most suspicious are kept, and {n_left_out:,} "
            "are not"
        )
    return kept[0], _Kept(kept[1], (file.n_rows, seen)), notes


def _by_model(model: Any, table: object, trusted: object) -> _Task:
    """The table as a fitted model reads it; the model judges all rows."""
    check_conditionals(model)
    levels, by_groups = getattr(model, "levels", {}), isinstance(table, RowGroups)
    rows, notes, kept = _columns_of(model, trusted if by_groups else table), list[str](), None
    coded = with_levels_of(rows, levels)
    known = coded if trusted is None or by_groups else with_levels_of(_columns_of(model, trusted), levels)
    marks = getattr(model, "fitted_rows", "")
    share = share_fitted(marks, Tokens.from_array(known.values, empty_rows=True)) if marks else 0.0
    if share and trusted is not None:
        raise InputError(
            f"the model was fitted to {share:.0%} of the trusted rows; give rows that it has not seen, or a "
            "MODEL word such as kernel-gaussian, which is fitted by folds"
        )
    if share:
        notes.append("the model was fitted to these rows: wrong cells surprise it less; give a MODEL word")
    facts = facts_of(model, known.values, [rows.columns.index(name) for name in levels])
    clean = known.values[:0] if trusted is None else known.values[np.unique(first_copies(known.values))]
    judge = CellJudge(model, facts)
    if isinstance(table, RowGroups):
        rows, kept, noted = _most_suspicious(judge, table)
        coded, notes = rows, [*noted, *notes]
    return _Task(rows, coded, [_Sitting(judge, np.arange(len(rows)), clean)], notes, kept)


def _check_columns(base: Table, table: Table) -> None:
    if sorted(base.columns) != sorted(table.columns):
        raise InputError(
            f"the trusted rows have the columns {', '.join(base.columns)}, the table has "
            f"{', '.join(table.columns)}; give rows with the same columns, or drop the others"
        )


def _by_word(build: Any, table: Table, trusted: Table | None, folding: tuple[int, int]) -> _Task:
    """Have each row judged by a new model that was fitted without it."""
    (folds, seed), base = folding, table if trusted is None else trusted
    _check_columns(base, table)
    example = build(len(base.columns)).for_table(base)
    if base.levels and not example.takes_words:
        raise InputError(
            f"column {next(iter(base.levels))!r} holds words, which {type(example).__name__} cannot take; "
            f"give {AUTO}, {' or '.join(TAKE_WORDS)}, or leave such columns out"
        )
    if len(base) < folds:
        raise InputError(
            f"{count(len(base), 'row' if trusted is None else 'trusted row')} for {folds} folds; give more "
            "rows, or fewer folds"
        )
    if trusted is None and isinstance(example, MixtureTransition):
        model: Any = declared(build(len(base.columns)), base, base.columns)
        model.fit(base.values[with_values(base.values)])
        facts = facts_of(model, base.values, [base.columns.index(name) for name in base.levels])
        judge_of_words = WordJudge(model, facts, base.values)
        return _Task(table, base, [_Sitting(judge_of_words, np.arange(len(base)), base.values[:0])], [])
    parts = folds_of(base.values, folds, np.random.default_rng(seed))
    kept = list(base.columns)
    if not example.keeps_units:
        kept = [name for name, other in zip(kept, varying_columns(base.values, parts), strict=True) if other]
    if not kept:
        raise InputError("no column has two different values in every fold; give rows that differ")
    notes = [f"left out, since it does not vary: {name}" for name in base.columns if name not in kept]
    rows, base = table.select(kept), base.select(kept)
    coded = with_levels_of(rows, base.levels)

    def judge(out: Int64[np.ndarray, " n"], advance: Advance) -> CellJudge:
        """A judge fitted to all rows but these."""
        model, train = declared(build(len(kept)), base, kept), np.delete(base.values, out, axis=0)
        filled = train[with_values(train)]
        reshapes = trusted is not None and model.base_measure == DENSITY  # wrong cells would bend the shape
        fitted = Reshaped(model, filled) if reshapes else model.fit(filled)
        advance(1)
        facts = facts_of(fitted, train, [kept.index(name) for name in base.levels])
        return CellJudge(fitted, facts)

    with progress("fits", folds, parts=True) as advance:
        judges = [judge(part, advance) for part in parts]
    if trusted is None:
        sittings = zip(judges, parts, strict=True)
        return _Task(rows, coded, [_Sitting(each, part, base.values[:0]) for each, part in sittings], notes)
    # one model judges a part of the trusted rows and of the others, which keeps them exchangeable
    others = np.array_split(np.random.default_rng(seed).permutation(len(rows)), len(parts))
    once = first_copies(base.values) == np.arange(len(base))  # copies of a row count once
    known = [base.values[part[once[part]]] for part in parts]
    return _Task(rows, coded, [_Sitting(*each) for each in zip(judges, others, known, strict=True)], notes)


def _columns_of(model: Any, table: object) -> Table:
    """A table with the columns of a model."""
    if not isinstance(model, TableModel):
        return as_table(table)
    rows = model.table(table)
    model.check_width(len(rows.columns))
    return rows


def _ranks(suspicion: Rows, clean: Float64[np.ndarray, "n D"]) -> Rows:
    """The p-value of each cell: its rank among the cells of clean rows and of its own row; NaN for holes."""
    from scipy.stats import rankdata

    ordered, seen = np.sort(clean[~np.isnan(clean)]), ~np.isnan(suspicion)
    above = (
        len(ordered)
        - (np.searchsorted(ordered, suspicion) + np.searchsorted(ordered, suspicion, "right")) / 2
    )
    own = rankdata(-np.where(seen, suspicion, -np.inf), method="max", axis=1)
    return np.where(seen, (above + own) / (len(ordered) + seen.sum(1, keepdims=True)), np.nan)


def _described(
    found: WrongCells, coded: Table, sittings: Sequence[_Sitting], judged: Judged, how: Search
) -> tuple[WrongCell, ...]:
    """The called, hidden or faulty cells, most suspicious first, with the expected values.

    Of equal ones, such as unknown words of a column, those come first whose right value is surer.
    """
    from maskevidence.tables.possible_values import floors

    listed = ((found.calls > 0) | judged.hidden | (judged.fault > 0)) & ~np.isnan(judged.suspicion)
    places = np.argwhere(listed)
    order = np.argsort(-judged.suspicion[listed], kind="stable")[: how.most]
    row, column = places[order].T
    expected = _expected(coded, sittings, judged, (row, column), how.seed)
    cells, table, lowest = [], found.table, floors(np.where(listed, np.nan, coded.values))
    sure = [-max((p for _, p in each.likelier), default=0.0) for each in expected]
    for k in np.lexsort((sure, -judged.suspicion[row, column])).tolist():
        i, j, of_cell = int(row[k]), int(column[k]), expected[k]
        ends: list[Any] = [None] * 3
        if of_cell.numbers is not None:
            ends = np.quantile(np.maximum(of_cell.numbers, lowest[j]), (0.5, 0.05, 0.95)).tolist()
            ends = [value_of(table, j, end) for end in ends]
        likelier = [(value_of(coded, j, value), p) for value, p in of_cell.likelier]
        given, nothing = value_of(coded, j, coded.values[i, j]), (None, None)
        suggested, probability = next((each for each in likelier if each[0] != given), nothing)
        cells.append(
            WrongCell(
                row=int(table.ids[i]),
                label=name_of_row(table, i),
                column=table.columns[j],
                value=value_of(table, j, table.values[i, j]),
                expected=ends[0],
                low=ends[1],
                high=ends[2],
                likelier=", ".join(f"{value} {p:.2g}" for value, p in likelier[:MOST_LIKELIER]),
                suspicion=float(found.suspicion[i, j]),
                p_value=float(found.p_values[i, j]),
                called=bool(found.called[i, j]),
                one_of=one_of(found.calls, found.table.columns, (i, j)),
                fault=FAULTS[judged.fault[i, j]],
                suggestion=of_cell.suggestion,
                suggested=suggested,
                probability=probability,
            )
        )
    return tuple(cells)


class _Expected(NamedTuple):
    """The prediction of a cell from the rest of its row."""

    numbers: Float64[np.ndarray, " n"] | None = None  # draws
    likelier: Sequence[tuple[float, float]] = ()  # words, the most probable first, and their probabilities
    suggestion: str = ""


def _expected(
    coded: Table, sittings: Sequence[_Sitting], judged: Judged, cells: tuple[Ints, Ints], seed: int
) -> list[_Expected]:
    """Predict each cell: draws of a number, or words with their probabilities."""
    row, column = cells
    rows, hidden = np.where(judged.fault[row] == OUTSIDE, np.nan, coded.values[row]), judged.hidden[row]
    blank = np.where(hidden, np.nan, rows)
    blank[np.arange(len(row)), column] = np.nan
    found, width = [_Expected()] * len(row), len(coded.columns)
    n_tried = 1 + _MOST_TRIED // (width * (width + len(_UNITS)))
    with progress("describing cells", len(row)) as advance:
        for each in sittings:
            left, numbers = np.flatnonzero(np.isin(row, each.places)), each.judge.facts.numbers[column]
            model, n_left = each.judge.asker.model, len(left)
            if isinstance(each.judge, WordJudge) and n_left:
                words = each.judge.likelier(coded.values, row[left], column[left], hidden[left])
                for k, likelier in zip(left.tolist(), words, strict=True):
                    found[k] = _Expected(likelier=likelier)
                left = left[[not likelier for likelier in words]]
                each.judge.own = None  # numbers that are tried below stand in no row
                advance(n_left - len(left))
            for these in np.split(left, range(_MOST_AT_ONCE, len(left), _MOST_AT_ONCE)):
                if len(these) and hasattr(model, "draw_missing"):
                    (tables,) = model.draw_missing(np.repeat(blank[these], _DRAWS, axis=0), 1, seed)
                    of_cells = tables[np.arange(len(tables)), np.repeat(column[these], _DRAWS)]
                    for k, drawn in zip(these.tolist(), of_cells.reshape(-1, _DRAWS), strict=True):
                        if numbers[k]:
                            found[k] = _Expected(drawn)
                        else:
                            times = Counter(drawn.tolist()).most_common()
                            found[k] = _Expected(likelier=[(value, n / _DRAWS) for value, n in times])
                advance(len(these))
                these = these[numbers[these]]
                for some in np.split(these, range(n_tried, len(these), n_tried)):
                    made = _suggested(each.judge, rows[some], hidden[some], column[some], coded)
                    for k, suggestion in zip(some.tolist(), made, strict=True):
                        found[k] = found[k]._replace(suggestion=suggestion)
    return found


def _suggested(
    judge: CellJudge,
    rows: Rows,
    hidden: Bool[np.ndarray, "n D"],
    column: Int64[np.ndarray, " n"],
    table: Table,
) -> list[str]:
    """The change of unit, or swap of two numbers, that makes a number fit its row; "" for none.

    A swap that explains two hidden cells comes before a change of unit that explains one of them.
    """
    facts, tries, probes = judge.facts, list[tuple[int, str]](), list[np.ndarray]()
    dates = np.array([isinstance(table.forms.get(name), DateForm) for name in table.columns])
    for k, (row, j) in enumerate(zip(rows, column.tolist(), strict=True)):
        counted = facts.decimals[j] == 0 and row[j].is_integer()  # whole counts and codes have no inches
        units = {} if dates[j] else _SHIFTS if counted else _UNITS
        meant = [(unit, row[j] * factor, j) for unit, factor in units.items()]
        others = np.flatnonzero(
            facts.numbers & ~np.isnan(row) & (row != row[j]) & (dates == dates[j])
        ).tolist()
        meant += [(f"swap with {table.columns[other]!r}", row[other], other) for other in others]
        for name, value, other in meant:
            probe, decimals = row.copy(), facts.decimals[j] if other == j and "2.54" in name else None
            probe[other], probe[j] = row[j], value if decimals is None else value.round(decimals)
            tries.append((k, name))
            probes.append(probe)
    answers = [""] * len(rows)
    if not tries:
        return answers
    tried, of_row = np.stack(probes), np.array([k for k, _ in tries])
    changed = (tried != rows[of_row]) & ~np.isnan(tried)
    fine = np.flatnonzero((~changed | (facts.faults(tried) == 0)).all(axis=1))
    if not len(fine):
        return answers
    tried, of_row, changed = tried[fine], of_row[fine], changed[fine]
    wrong = judge.log_wrong(np.where(changed, tried, np.nan))
    suspicion = wrong - judge.log_given(tried, hidden[of_row] | changed)
    total = np.where(changed, suspicion, 0.0).sum(axis=1)
    explained = (changed & hidden[of_row]).sum(axis=1)
    ordinary = (~changed | (suspicion < 0)).all(axis=1) | ((explained == 2) & (total < 0))
    for place in np.lexsort((-total, explained)).tolist():  # the most ordinary one last
        if ordinary[place]:
            answers[of_row[place]] = tries[fine[place]][1]
    return answers
