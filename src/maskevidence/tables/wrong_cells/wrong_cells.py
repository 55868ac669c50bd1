"""Which cells of a table are wrong, at a stated rate of false discoveries."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.errors import InputError
from maskevidence.core.fingerprints import share_fitted
from maskevidence.core.model import DENSITY
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import whole_number
from maskevidence.core.support.folds import folds_of
from maskevidence.core.support.progress import Advance, progress
from maskevidence.core.table import Table, as_table, with_levels_of
from maskevidence.core.tokens import Tokens, column_names
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import parse_model
from maskevidence.tables.choosing.choosing import varying_columns
from maskevidence.tables.imputation import HasDrawMissing
from maskevidence.tables.reshaped import Reshaped
from maskevidence.tables.wrong_cells.cell_search import FAULTS, OUTSIDE, CellJudge, Judged, Rows, facts_of
from maskevidence.tables.wrong_cells.found_cells import WrongCell, WrongCells, name_of_row, value_of

_MOST_TRIED = 2**21  # cells of rows in which suggestions are tried at once
_MOST_AT_ONCE = 1000  # cells that are described in one call, which draws 100 values of each
_MOST_LIKELIER = 3  # words
_DRAWS = 100  # of an expected value
_UNITS = {"× 10": 10.0, "÷ 10": 0.1, "× 100": 100.0, "÷ 100": 0.01, "× 2.54": 2.54, "÷ 2.54": 1 / 2.54}


def wrong_cells(
    model: object,
    table: object,
    rate: float = 0.1,
    trusted: object = None,
    *,
    folds: int = 5,
    seed: int = 0,
    batch_size: int | None = None,
) -> WrongCells:
    """Find the cells of a table that are probably wrong: typing errors, swapped columns, wrong units.

    Each cell x_j is judged by log q(x_j) - log p(x_j | the rest of its row), where q is the distribution of
    a wrong cell; the most surprising cell is hidden and the rest of the row judged again, as `CellJudge`
    says. Trusted rows go through the same search. The p-value of a cell with suspicion s is its rank among
    the cells of these rows and of its own, (#{trusted > s} + ½ #{trusted = s} + #{own row ≥ s}) / (all of
    them), and the procedure of Benjamini and Hochberg calls cells wrong.

    Without trusted rows, a p-value is the share of the table's own cells that are as suspicious, beyond the
    90 % quantile by the tail of a generalised Pareto distribution, which at most 2 % of wrong cells leave as
    it is. The rate then rests on that tail.

    Args:
        model: a fitted model of rows, which has seen neither the table nor the trusted rows; or a MODEL word
            such as "kernel-gaussian" or "masked-net", which is fitted to all trusted rows but a fold, and
            judges that fold and a part of the table; without trusted rows, to all rows but a fold.
        table: shape (N, D), an array, `Table` or data frame; NaN where a value is missing. Holes are never
            called wrong.
        rate: the share of the calls that may be false on average, in (0, 1).
        trusted: rows with the same columns that are known to be right. The fewer there are, the more cells
            must be wrong for any to be called: about N / (rate × trusted rows).
        folds: parts of the rows, each of which is judged by a model that is fitted to the others.
        seed: of the folds and the draws.
        batch_size: rows in a call of the model.

    Raises:
        InputError: a rate outside (0, 1), tables whose columns differ, a model that was fitted to the trusted
            rows, or rows that the model cannot take.

    Source:
        Bates et al. (2023), Testing for Outliers with Conformal p-values; Pickands (1975), Statistical
        Inference Using Extreme Order Statistics (a tail from its quantiles).

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
    build, fitted = parse_model(model) if isinstance(model, str) else (None, model)
    if build is None:
        given, coded, sittings, notes = _by_model(fitted, table, trusted, batch_size)
    else:
        rows, known = as_table(table), None if trusted is None else as_table(trusted)
        given, coded, sittings, notes = _by_word(build, rows, known, (folds, seed), batch_size)
    judged = Judged(*(np.zeros(coded.values.shape, kind) for kind in (np.float64, np.bool_, np.int64)))
    for each in sittings:
        for whole, part in zip(judged, each.judge.search(coded.values[each.places]), strict=True):
            whole[each.places] = part
    if trusted is None:
        p_values = _by_the_tail(judged.suspicion)
        notes.append(
            "no trusted rows: the rate rests on the tail of the table's own cells, 2 % of them wrong"
        )
    else:
        clean = [each.judge.search(each.clean).suspicion for each in sittings if len(each.clean)]
        p_values = _ranks(judged.suspicion, np.concatenate(clean))
    n_trusted = sum(len(each.clean) for each in sittings)
    found = WrongCells(
        (), given, judged.suspicion, p_values, _called(p_values, rate), rate, n_trusted, tuple(notes)
    )
    return _as_given(replace(found, cells=_described(found, coded, sittings, judged, seed)), table)


def _as_given(found: WrongCells, table: object) -> WrongCells:
    """The same with its columns in the order of a table."""
    place = {name: k for k, name in enumerate(column_names(table) or ())}
    names = sorted(found.table.columns, key=lambda name: place.get(name, len(place)))
    order = [found.table.columns.index(name) for name in names]
    return replace(
        found,
        table=found.table.select(names),
        suspicion=found.suspicion[:, order],
        p_values=found.p_values[:, order],
        called=found.called[:, order],
    )


class _Sitting(NamedTuple):
    """A model that judges some rows."""

    judge: CellJudge
    places: Int64[np.ndarray, " n"]  # of the rows of the table that it judges
    clean: Rows  # the trusted rows that it judges


# the table, the table in the codes of the model, who judges which rows, and notes
_Prepared = tuple[Table, Table, list[_Sitting], list[str]]


def _by_model(model: Any, table: object, trusted: object, batch_size: int | None) -> _Prepared:
    """The table as a fitted model reads it, which judges all rows."""
    rows, notes = _columns_of(model, table), list[str]()
    levels = getattr(model, "levels", {})
    coded = with_levels_of(rows, levels)
    known = coded if trusted is None else with_levels_of(_columns_of(model, trusted), levels)
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
    clean = known.values[:0] if trusted is None else known.values
    sitting = _Sitting(CellJudge(model, facts, batch_size), np.arange(len(rows)), clean)
    return rows, coded, [sitting], notes


def _by_word(
    build: Any, table: Table, trusted: Table | None, folding: tuple[int, int], batch_size: int | None
) -> _Prepared:
    """The same by new models: no row is judged by a model that was fitted to it."""
    (folds, seed), base = folding, table if trusted is None else trusted
    if sorted(base.columns) != sorted(table.columns):
        raise InputError(
            f"the trusted rows have the columns {', '.join(base.columns)}, the table has "
            f"{', '.join(table.columns)}; give rows with the same columns, or drop the others"
        )
    example = build(len(base.columns))
    if base.levels and not example.takes_words:
        raise InputError(
            f"column {next(iter(base.levels))!r} holds words, which {type(example).__name__} cannot take; "
            "give masked-net, or leave such columns out"
        )
    if len(base) < folds:
        raise InputError(
            f"{count(len(base), 'row' if trusted is None else 'trusted row')} for {folds} folds; give more "
            "rows, or fewer folds"
        )
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
        """A judge that was fitted to all rows but these."""
        model, train = build(len(kept)), np.delete(base.values, out, axis=0)
        model.columns = kept
        model.declare(base)
        filled = train[~np.isnan(train).all(axis=1)]
        reshapes = trusted is not None and model.base_measure == DENSITY  # wrong cells would bend the shape
        fitted = Reshaped(model, filled) if reshapes else model.fit(filled)
        advance(1)
        facts = facts_of(fitted, train, [kept.index(name) for name in base.levels])
        return CellJudge(fitted, facts, batch_size)

    with progress("fits", folds, parts=True) as advance:
        judges = [judge(part, advance) for part in parts]
    if trusted is None:
        sittings = zip(judges, parts, strict=True)
        return rows, coded, [_Sitting(each, part, base.values[:0]) for each, part in sittings], notes
    # one model judges a part of the trusted rows and of the others, which keeps them exchangeable
    others = np.array_split(np.random.default_rng(seed).permutation(len(rows)), folds)
    triples = zip(judges, parts, others, strict=True)
    return rows, coded, [_Sitting(each, other, base.values[part]) for each, part, other in triples], notes


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


def _by_the_tail(suspicion: Rows) -> Rows:
    """The p-value of each cell by the table's own cells and a generalised Pareto tail; NaN for holes.

    With the excesses a and b of the 96 and 98 % quantiles over the 90 % quantile, the shape ξ >= 0 solves
    b / a = (5^ξ - 1) / (2.5^ξ - 1), and the scale is b ξ / (5^ξ - 1).
    """
    seen = ~np.isnan(suspicion)
    ordered = np.sort(suspicion[seen])
    start, *others = np.quantile(ordered, (0.9, 0.96, 0.98))
    above = (len(ordered) - np.searchsorted(ordered, suspicion)) / len(ordered)
    a, b = np.array(others) - start
    if not 0 < a < b:  # equal values, which have no tail
        return np.where(seen, above, np.nan)
    shapes = np.linspace(0.01, 4, 400)
    shape = shapes[np.abs((5**shapes - 1) / (2.5**shapes - 1) - b / a).argmin()]
    far = np.maximum(suspicion - start, 0) * (5**shape - 1) / b
    return np.where(seen, np.where(suspicion > start, 0.1 * np.exp(-np.log1p(far) / shape), above), np.nan)


def _called(p_values: Rows, rate: float) -> Bool[np.ndarray, "N D"]:
    """The cells that Benjamini and Hochberg call wrong."""
    ordered = np.sort(p_values[~np.isnan(p_values)])
    kept = np.flatnonzero(ordered <= rate * np.arange(1, len(ordered) + 1) / len(ordered))
    return p_values <= (ordered[kept[-1]] if len(kept) else -1.0)


def _described(
    found: WrongCells, coded: Table, sittings: Sequence[_Sitting], judged: Judged, seed: int
) -> tuple[WrongCell, ...]:
    """The cells that are called, hidden or faulty, the most suspicious first, and what is expected there."""
    listed = (found.called | judged.hidden | (judged.fault > 0)) & ~np.isnan(judged.suspicion)
    places = np.argwhere(listed)
    order = np.argsort(-judged.suspicion[listed], kind="stable")
    row, column = places[order].T
    rows, hidden = np.where(judged.fault[row] == OUTSIDE, np.nan, coded.values[row]), judged.hidden[row]
    blank = np.where(hidden, np.nan, rows)
    blank[np.arange(len(row)), column] = np.nan
    drawn, is_number = np.full((len(row), _DRAWS), np.nan), np.zeros(len(row), dtype=bool)
    suggestions, width = [""] * len(row), len(coded.columns)
    n_tried = 1 + _MOST_TRIED // (width * (width + len(_UNITS)))
    for each in sittings:
        of_sitting, model = np.flatnonzero(np.isin(row, each.places)), each.judge.asker.model
        is_number[of_sitting] = each.judge.facts.numbers[column[of_sitting]]
        for these in np.split(of_sitting, range(_MOST_AT_ONCE, len(of_sitting), _MOST_AT_ONCE)):
            if len(these) and isinstance(model, HasDrawMissing):
                (tables,) = model.draw_missing(np.repeat(blank[these], _DRAWS, axis=0), 1, seed)
                of_cells = tables[np.arange(len(tables)), np.repeat(column[these], _DRAWS)]
                drawn[these] = of_cells.reshape(-1, _DRAWS)
            these = these[is_number[these] & found.called[row[these], column[these]]]
            for some in np.split(these, range(n_tried, len(these), n_tried)):
                made = _suggested(each.judge, rows[some], hidden[some], column[some], coded.columns)
                for k, suggestion in zip(some.tolist(), made, strict=True):
                    suggestions[k] = suggestion
    cells, table = [], found.table
    for k, (i, j) in enumerate(zip(row.tolist(), column.tolist(), strict=True)):
        known = not np.isnan(drawn[k]).any()
        ends = np.quantile(drawn[k], (0.5, 0.05, 0.95)).tolist() if known and is_number[k] else [None] * 3
        cells.append(
            WrongCell(
                row=int(table.ids[i]),
                label=name_of_row(table, i),
                column=table.columns[j],
                value=value_of(table, j, table.values[i, j]),
                expected=ends[0],
                low=ends[1],
                high=ends[2],
                likelier=_likelier(coded, j, drawn[k]) if known and not is_number[k] else "",
                suspicion=float(found.suspicion[i, j]),
                p_value=float(found.p_values[i, j]),
                called=bool(found.called[i, j]),
                fault=FAULTS[judged.fault[i, j]],
                suggestion=suggestions[k],
            )
        )
    return tuple(cells)


def _likelier(coded: Table, column: int, draws: Float64[np.ndarray, " n"]) -> str:
    """The words that were drawn most often, and their shares."""
    words = Counter(value_of(coded, column, code) for code in draws.tolist())
    return ", ".join(f"{word} {n / len(draws):.2g}" for word, n in words.most_common(_MOST_LIKELIER))


def _suggested(
    judge: CellJudge,
    rows: Rows,
    hidden: Bool[np.ndarray, "n D"],
    column: Int64[np.ndarray, " n"],
    names: Sequence[str],
) -> list[str]:
    """The unit, or the swap of two numbers, that makes a number ordinary given its row; "" for none."""
    facts, tries, probes = judge.facts, list[tuple[int, str]](), list[np.ndarray]()
    for k, (row, j) in enumerate(zip(rows, column.tolist(), strict=True)):
        meant = [(unit, row[j] * factor, j) for unit, factor in _UNITS.items()]
        others = np.flatnonzero(facts.numbers & ~np.isnan(row) & (row != row[j])).tolist()
        meant += [(f"swap with {names[other]!r}", row[other], other) for other in others]
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
    suspicion = judge.log_wrong(tried) - judge.log_given(tried, hidden[of_row] | changed)
    ordinary = (~changed | ((suspicion < 0) & (facts.faults(tried) == 0))).all(axis=1)
    total = np.where(changed, suspicion, 0.0).sum(axis=1)
    for place in np.argsort(-total, kind="stable").tolist():  # the most ordinary one last
        if ordinary[place]:
            answers[tries[place][0]] = tries[place][1]
    return answers
