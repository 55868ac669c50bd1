"""Which cells of a table are wrong, at a stated rate of false discoveries."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.comparing.cell_search import FAULTS, OUTSIDE, CellJudge, Judged, Rows, facts_of
from maskevidence.comparing.choosing import as_table, varying_columns
from maskevidence.comparing.found_cells import Expected, WrongCell, WrongCells, name_of_row
from maskevidence.data.table import Table, with_columns_of, with_levels_of
from maskevidence.errors import InputError
from maskevidence.evidence.imputation import HasDrawMissing
from maskevidence.model import DENSITY
from maskevidence.models.base import TableModel
from maskevidence.models.by_name import parse_model
from maskevidence.models.fingerprints import share_fitted
from maskevidence.models.reshaped import Reshaped
from maskevidence.support.checks import whole_number
from maskevidence.tokens import Tokens, column_names

_MOST_LISTED = 1000
_MOST_LIKELIER = 3  # words
_DRAWS = 100  # for the interval of an expected value
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
    a wrong cell; see `CellJudge`. A wrong cell makes its neighbours look wrong, so the most surprising cell
    is hidden and the rest of the row judged again, one cell after the other.

    Trusted rows go through the same search. The p-value of a cell with suspicion s is its rank among the
    cells of these rows and of its own, (#{trusted > s} + ½ #{trusted = s} + #{own row ≥ s}) / (all of them),
    and the procedure of Benjamini and Hochberg calls cells wrong.

    Without trusted rows, a p-value is the share of the table's own cells that are as suspicious. Beyond the
    90 % quantile it is the tail of a generalised Pareto distribution through the 90, 96 and 98 % quantiles,
    which at most 2 % of wrong cells leave as they are. The rate then rests on that tail.

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
    if whole_number("seed", seed) < 0 or whole_number("folds", folds) < 2:
        raise InputError(f"seed={seed}, folds={folds}; give a seed of 0 or more and 2 folds or more")
    if isinstance(model, str):
        given, coded, sittings, notes = _by_word(model, table, trusted, folds, seed, batch_size)
    else:
        given, coded, sittings, notes = _by_model(model, table, trusted, batch_size)
    judged = Judged(*(np.zeros(coded.shape, kind) for kind in (np.float64, np.bool_, np.int64)))
    for sitting in sittings:
        for whole, part in zip(judged, sitting.judge.search(coded[sitting.places]), strict=True):
            whole[sitting.places] = part
    if trusted is None:
        p_values = _by_the_tail(judged.suspicion)
        notes.append(
            "no trusted rows: the rate rests on the tail of the table's own cells, 2 % of them wrong"
        )
    else:
        clean = [each.judge.search(each.clean).suspicion for each in sittings if len(each.clean)]
        p_values = _ranks(judged.suspicion, np.concatenate(clean))
    called = _called(p_values, rate)
    tested = _Tested(p_values, called, _listed(judged, called))
    cells = [
        cell
        for each in sittings
        if len(each.places)
        for cell in _described(each, given, coded, judged, tested, seed)
    ]
    cells.sort(key=lambda cell: (-cell.suspicion, cell.row, cell.column))
    n_trusted = sum(len(each.clean) for each in sittings)
    return WrongCells(tuple(cells), given, judged.suspicion, p_values, called, rate, n_trusted, tuple(notes))


class _Sitting(NamedTuple):
    """A model that judges some rows."""

    judge: CellJudge
    places: Int64[np.ndarray, " n"]  # of the rows of the table that it judges
    clean: Rows  # the trusted rows that it judges


class _Tested(NamedTuple):
    """The cells that are called wrong, and the cells that are described."""

    p_values: Rows
    called: Bool[np.ndarray, "N D"]
    listed: Int64[np.ndarray, "n 2"]  # row and column


_Prepared = tuple[Table, Rows, list[_Sitting], list[str]]


def _by_model(model: Any, table: object, trusted: object, batch_size: int | None) -> _Prepared:
    """The table, and the same table in the codes of the fitted model that judges it."""
    rows, notes = _columns_of(model, table), list[str]()
    levels = getattr(model, "levels", {})
    coded = with_levels_of(rows, levels).values
    known = coded if trusted is None else with_levels_of(_columns_of(model, trusted), levels).values
    facts = facts_of(model, known, [rows.columns.index(name) for name in levels])
    judge = CellJudge(model, facts, batch_size)
    marks = getattr(model, "fitted_rows", "")
    share = share_fitted(marks, Tokens.from_array(known, empty_rows=True)) if marks else 0.0
    if share and trusted is not None:
        raise InputError(
            f"the model was fitted to {share:.0%} of the trusted rows; give rows that it has not seen, or a "
            "MODEL word such as kernel-gaussian, which is fitted by folds"
        )
    if share:
        notes.append("the model was fitted to these rows: wrong cells surprise it less; give a MODEL word")
    clean = known[:0] if trusted is None else known
    return rows, coded, [_Sitting(judge, np.arange(len(coded)), clean)], notes


def _by_word(
    word: str, table: object, trusted: object, folds: int, seed: int, batch_size: int | None
) -> _Prepared:
    """The same for a MODEL word, fitted by folds: no row is judged by a model that was fitted to it."""
    build, saved = parse_model(word)
    if build is None:
        return _by_model(saved, table, trusted, batch_size)
    rows, example = as_table(table), build(2)
    base = rows if trusted is None else as_table(trusted)
    if base.levels and not example.takes_words:
        raise InputError(
            f"column {next(iter(base.levels))!r} holds words, which {word} cannot take; give masked-net, or "
            "leave such columns out"
        )
    if len(base) < folds:
        raise InputError(f"{len(base)} rows for {folds} folds; give more rows, or fewer folds")
    parts = np.array_split(np.random.default_rng(seed).permutation(len(base)), folds)
    kept = list(base.columns)
    if not example.keeps_units:
        kept = [name for name, other in zip(kept, varying_columns(base.values, parts), strict=True) if other]
    notes = [f"left out, since it does not vary: {name}" for name in base.columns if name not in kept]
    rows, base = rows.select(kept), base.select(kept)
    coded = with_levels_of(rows, base.levels).values

    def judge(out: Int64[np.ndarray, " n"]) -> CellJudge:
        """A judge that was fitted to all rows but these."""
        model, train = build(len(kept)), np.delete(base.values, out, axis=0)
        model.columns = kept
        model.declare(base)
        filled = train[~np.isnan(train).all(axis=1)]
        reshapes = trusted is not None and model.base_measure == DENSITY  # wrong cells would bend the shape
        fitted = Reshaped(model, filled) if reshapes else model.fit(filled)
        facts = facts_of(fitted, train, [kept.index(name) for name in base.levels])
        return CellJudge(fitted, facts, batch_size)

    if trusted is None:
        sittings = [_Sitting(judge(part), part, coded[:0]) for part in parts]
    else:  # one model judges a part of the trusted rows and of the others, which keeps them exchangeable
        others = np.array_split(np.random.default_rng(seed).permutation(len(coded)), folds)
        sittings = [
            _Sitting(judge(part), other, base.values[part]) for part, other in zip(parts, others, strict=True)
        ]
    return rows, coded, sittings, notes


def _columns_of(model: Any, data: object) -> Table:
    """A table with the columns of a model."""
    table, names = as_table(data), getattr(model, "columns", None)
    if names is not None and column_names(data) is not None:
        return with_columns_of(table, names)
    if isinstance(model, TableModel):
        model.check_width(len(table.columns))
    return table if names is None else replace(table, columns=tuple(names))


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


def _listed(judged: Judged, called: Bool[np.ndarray, "N D"]) -> Int64[np.ndarray, "n 2"]:
    """Row and column of the cells that are called, hidden or faulty, the most suspicious first."""
    places = np.argwhere((called | judged.hidden | (judged.fault > 0)) & ~np.isnan(judged.suspicion))
    order = np.argsort(-judged.suspicion[tuple(places.T)], kind="stable")
    return places[order[:_MOST_LISTED]]


def _described(
    sitting: _Sitting, given: Table, coded: Rows, judged: Judged, tested: _Tested, seed: int
) -> list[WrongCell]:
    """The listed cells of a sitting, with what its model expects in their place."""
    places = tested.listed[np.isin(tested.listed[:, 0], sitting.places)]
    row, column = places.T
    hidden, rows = judged.hidden[row], np.where(judged.fault[row] == OUTSIDE, np.nan, coded[row])
    hidden[np.arange(len(row)), column] = True
    expected = _expected(sitting.judge, np.where(hidden, np.nan, rows), column, seed)
    suggestions = _suggested(sitting.judge, rows, hidden, column, tested.called[row, column], given.columns)
    found = []
    for k, (i, j) in enumerate(places.tolist()):
        words, value = given.levels.get(given.columns[j]), float(given.values[i, j])
        found.append(
            WrongCell(
                row=int(given.ids[i]),
                label=name_of_row(given, i),
                column=given.columns[j],
                value=value if words is None else words[int(value)],
                suspicion=float(judged.suspicion[i, j]),
                p_value=float(tested.p_values[i, j]),
                called=bool(tested.called[i, j]),
                expected=expected[k],
                fault=FAULTS[judged.fault[i, j]],
                suggestion=suggestions[k],
            )
        )
    return found


def _expected(judge: CellJudge, blank: Rows, column: Int64[np.ndarray, " n"], seed: int) -> list[Expected]:
    """What the model expects of a hidden cell of each row: an interval by draws, or the likelier words."""
    model, answers = judge.asker.model, [Expected()] * len(blank)
    levels, names = getattr(model, "levels", {}), getattr(model, "columns", None)
    number = np.flatnonzero(judge.facts.numbers[column])
    if len(number) and isinstance(model, HasDrawMissing):
        (drawn,) = model.draw_missing(np.repeat(blank[number], _DRAWS, axis=0), 1, seed)
        of_cells = drawn[np.arange(len(drawn)), np.repeat(column[number], _DRAWS)].reshape(-1, _DRAWS)
        for k, ends in zip(number, np.quantile(of_cells, (0.5, 0.05, 0.95), axis=1).T, strict=True):
            value, low, high = map(float, ends)
            answers[k] = Expected(value, low, high)
    for j in np.unique(column).tolist():
        these, values = np.flatnonzero(column == j), judge.facts.values[j]
        if values is None:
            continue
        probes = np.repeat(blank[these], len(values), axis=0)
        probes[:, j] = np.tile(values, len(these))
        asked = np.zeros(probes.shape, dtype=bool)
        asked[:, j] = True
        shares = np.exp(judge.log_given(probes, asked)[:, j]).reshape(-1, len(values))
        words = levels.get(names[j]) if names else None
        for k, of_values in zip(these, shares, strict=True):
            best = np.argsort(-of_values, kind="stable")[:_MOST_LIKELIER]
            named = [f"{values[v]:g}" if words is None else words[int(values[v])] for v in best]
            answers[k] = Expected(likelier=tuple(zip(named, of_values[best].tolist(), strict=True)))
    return answers


def _suggested(
    judge: CellJudge,
    rows: Rows,
    hidden: Bool[np.ndarray, "n D"],
    column: Int64[np.ndarray, " n"],
    called: Bool[np.ndarray, " n"],
    names: Sequence[str],
) -> list[str]:
    """The unit, or the swap of two numbers, that makes a called cell ordinary given its row; "" for none."""
    numbers, tries, probes = judge.facts.numbers, list[tuple[int, str, list[int]]](), list[Any]()
    for k, j in enumerate(column.tolist()):
        if not (called[k] and numbers[j]):
            continue
        for unit, factor in _UNITS.items():
            tries.append((k, unit, [j]))
            probes.append(rows[k].copy())
            probes[-1][j] *= factor
            if "2.54" in unit and judge.facts.decimals[j] is not None:
                probes[-1][j] = np.round(probes[-1][j], judge.facts.decimals[j])
        for other in np.flatnonzero(numbers & ~np.isnan(rows[k]) & (rows[k] != rows[k, j])).tolist():
            tries.append((k, f"swap with {names[other]!r}", [j, other]))
            probes.append(rows[k].copy())
            probes[-1][[j, other]] = rows[k, [other, j]]
    answers = [""] * len(rows)
    if not tries:
        return answers
    tried, changed = np.stack(probes), np.zeros((len(probes), len(numbers)), dtype=bool)
    for place, (_, _, columns) in enumerate(tries):
        changed[place, columns] = True
    suspicion = judge.log_wrong(tried) - judge.log_given(tried, hidden[[k for k, _, _ in tries]] | changed)
    ordinary = (~changed | ((suspicion < 0) & (judge.facts.faults(tried) == 0))).all(axis=1)
    total = np.where(changed, suspicion, 0.0).sum(axis=1)
    for place in np.argsort(-total, kind="stable").tolist():  # the most ordinary one last
        if ordinary[place]:
            answers[tries[place][0]] = tries[place][1]
    return answers
