"""Row-wise log-probabilities of some columns given others; all remaining columns are hidden.

A cell that is hidden and not asked for has the role "absent" of `Tokens`, as a missing value has. A Gaussian,
PPCA or factor analysis integrates over it in closed form, `BernoulliPCA` and a VAE by their nodes or samples,
and a masked network has learned to answer without it, since a random half of its training hides it.
"""

import copy
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.errors import InputError, NumericalError
from maskevidence.core.evidence.precise import estimate_evidence
from maskevidence.core.masks.sizes import Exhaustive, FixedRate, LeaveOneOut, RandomSize
from maskevidence.core.model import as_tokens, check_conditionals
from maskevidence.core.show.words import count
from maskevidence.core.support.checks import in_short, some_of, whole_number
from maskevidence.core.support.keyed_random import equal_rows, first_copies, keyed_bits
from maskevidence.core.support.progress import progress
from maskevidence.core.table import Table, as_table, blank_note, varies, with_levels_of, with_values
from maskevidence.core.tokens import Tokens, number_labels
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import AUTO, COUNTS, GAUSSIAN, KERNELS, declared, parse_model
from maskevidence.tables.choosing.auto import auto_word
from maskevidence.tables.folds import folds_of
from maskevidence.tables.gaussian.kernel_gaussian import KernelGaussian
from maskevidence.tables.gaussian.mixed_kernels import MixedKernelGaussian
from maskevidence.tables.information.mixture import Mixture
from maskevidence.tables.network.masked_network import MaskedNetwork
from maskevidence.tables.table_files import dated_table

FOLDS = 5
REPLICATES, _MASKS = 8, 4  # independent sets of masks for groups of more than six columns, and masks in each
_ENUMERATED = 6  # most columns whose masks are enumerated
_FILLS = 5  # draws of the missing cells of a row
_FEWEST = 3  # rows of a fold
_FEW_VALUES, _FEW_SHARE = 20, 0.2  # values of a category, at most, also as a share of the rows
_LARGEST = 0.05  # share of a row above which its equals are parted
_BY_CATEGORIES = (AUTO, KERNELS, COUNTS)  # words that take few values as categories; a network knows counts
_OF_SUMS = (AUTO, GAUSSIAN, KERNELS)  # words to which a column that others determine tells nothing more
_BANDWIDTHS, _HELD_OUT = (0.05, 0.07, 0.1, 0.14, 0.2, 0.28, 0.4, 0.6, 0.8, 0.97), 150
_FEWEST_SHARPENED = 20
_SUM = 1e-4  # of the largest singular value, below which columns are weighted sums of each other
_EXACT = 0.02  # of the steps between next but one rows: the largest errors of a function
_SINGULAR = 1e-9  # of correlations whose matrix has no inverse; pairs change by about as many nats
_SPIKE = 0.1  # share of rows with one number, above which ties are broken at random for densities

TableRows = Float64[np.ndarray, "N D"]
_Ints = Int64[np.ndarray, " N"]
_Columns = Bool[np.ndarray, " D"]


class Term(NamedTuple):
    """weight × E log p(asked | visible): jointly, each column alone, or each given the rest of the asked."""

    weight: float
    asked: _Columns
    visible: _Columns
    how: Literal["joint", "alone", "given the rest"] = "joint"

    def log_probs(self, model: Any, tokens: Tokens, seed: int) -> Float64[np.ndarray, "R N"]:
        """Nats of each row, by R independent sets of masks; R is 1 if no masks are drawn."""
        asked, visible = torch.from_numpy(self.asked), torch.from_numpy(self.visible)
        present, n = tokens.maskable, int(self.asked.sum())
        roles = replace(tokens, maskable=present & asked.to(present), context=present & visible.to(present))
        if self.how == "joint" and n > 1 and hasattr(model, "log_evidence"):
            with torch.no_grad():
                return model.log_evidence(roles).double().cpu().numpy()[None]
        ask = partial(estimate_evidence, model, roles, refine=False, check=False)
        designs = {"joint": Exhaustive(), "alone": FixedRate(1.0, 1), "given the rest": LeaveOneOut()}
        if self.how != "joint" or n <= _ENUMERATED:
            return ask(designs[self.how if n > 1 else "alone"]).per_observation[None]
        seeds = range(REPLICATES * seed, REPLICATES * (seed + 1))
        return np.stack([ask(RandomSize(_MASKS, 1), seed=each).per_observation for each in seeds])


def gains(
    model: Any, values: TableRows, rows: Int64[np.ndarray, " n"], terms: Sequence[Term], seed: int
) -> tuple[Int64[np.ndarray, " m"], Float64[np.ndarray, "T R m"]]:
    """The terms of some rows; the model draws missing cells of the columns in question five times.

    Returns:
        The places of the rows, which repeat where cells were drawn, without rows that have no cell in these
        columns; and their terms, without the weights.
    """
    some = values[rows]
    union = np.logical_or.reduce([term.asked | term.visible for term in terms])
    holes = np.isnan(some[:, union])
    whole, torn = np.flatnonzero(~holes.any(1)), np.flatnonzero(holes.any(1) & ~holes.all(1))
    parts, places = [some[whole]], [whole]
    if len(torn) and hasattr(model, "draw_missing"):
        parts += list(model.draw_missing(some[torn], _FILLS, seed))
        places += [torn] * _FILLS
    place = np.concatenate(places)
    table = np.where(union, np.concatenate(parts), np.nan)
    if not len(place):
        return rows[place], np.zeros((len(terms), 1, 0))
    tokens = as_tokens(model, Tokens.from_array(table, empty_rows=True))
    answers = [term.log_probs(model, tokens, seed) for term in terms]
    return rows[place], np.stack(np.broadcast_arrays(*answers))


def weighted_sum(terms: Sequence[Term], answers: Float64[np.ndarray, "T R n"]) -> Float64[np.ndarray, "R n"]:
    """The weighted sum of the terms of each row."""
    return np.tensordot([term.weight for term in terms], answers, axes=1)


class Fold(NamedTuple):
    """A model, its held-out rows, and a model of another fold that was fitted to those rows."""

    model: Any
    out: Int64[np.ndarray, " n"]
    other: Any | None  # None for a model that came fitted
    again: Callable[[TableRows], Any] | None  # fits a new model in the same way to other values of the rows


class Fitted(NamedTuple):
    """Models of a table."""

    name: str
    table: Table  # in the columns and codes of the models
    groups: list[list[int]]  # the places of the columns in question
    folds: list[Fold]
    notes: tuple[str, ...]
    seed: int
    target: str | None  # the column that is told about
    half: Any | None = None  # a model of the first folds alone, about half as many as the others have
    ranked: _Columns | None = None  # the columns whose ranks stand for them
    copies: Mapping[str, str] = {}  # columns that are left out since they repeat another one, and that one

    def mask(self, group: Sequence[int]) -> _Columns:
        """A group as booleans."""
        return np.isin(np.arange(len(self.table.columns)), np.asarray(group, dtype=np.int64))

    def is_ranked(self, group: Sequence[int]) -> bool:
        """Whether a group has a column whose ranks stand for it."""
        return self.ranked is not None and bool(self.ranked[list(group)].any())

    @property
    def symmetric(self) -> bool:
        """Whether I(A; B) equals I(B; A), as for a joint density."""
        return self.folds[0].model.conditionals == "exact"


def fitted(
    model: Any,
    data: object,
    groups: Sequence[Any] | None,
    folding: tuple[int, int],
    *,
    target: Any = None,
    pairs: bool = False,
) -> Fitted:
    """The given fitted model, or models of a MODEL word, each fitted to all folds but one.

    Args:
        groups: the columns in question, by name or place, with `...` for all others; None for all columns,
            each of its own, without those that are constant or repeat another.
        folding: the number of folds, and the seed of them and of the fits.
        target: the column that is told about, if groups is None.
        pairs: whether columns are asked given one other alone; kernels are as sharp as such answers want.
    """
    folds, seed = whole_number("folds", folding[0], 3), whole_number("seed", folding[1], 0)
    build, saved = parse_model(model) if isinstance(model, str) else (None, model)
    if build is None:
        return _came_fitted(saved, data, groups, target, seed)
    table = _once(dated_table(data))
    labels = number_labels(data)
    name, places = _target_of(table, target, labels), _groups_of(table, groups, labels)
    if groups is not None and model in _OF_SUMS:
        table, places = _without_sums(table, places)
    table = table.select([table.columns[j] for group in places for j in group])
    table = _once(table.take(np.flatnonzero(with_values(table.values))))
    if len(table) < (few := folds * _FEWEST):
        n = count(len(table), "different row")
        raise InputError(f"{n} for {folds} folds; give {few} or more, or fewer folds")
    alike, rng = _alike(table.values), np.random.default_rng(seed)
    parts = [np.sort(part) for part in folds_of(table.values, folds, rng, alike)]
    raw = table
    table, ranked, copies = _usable(model, table, parts, name, each=groups is None)
    sums = [] if pairs else _sums(raw.select(list(table.columns)))
    numbers = [name for name, each in zip(table.columns, ranked, strict=True) if each]
    table = replace(table, notes=(*table.notes, *sums, *_functions(raw.select(numbers))))
    if model == AUTO:
        counts = groups is None and len(table.levels) == len(table.columns)
        model, of_auto = auto_word(table, counts=counts, seed=seed)
        table = replace(table, notes=(*table.notes, *of_auto))
    ends = pairwise(np.cumsum([0, *map(len, places)]).tolist())
    own = _groups_of(table, None) if groups is None else [list(range(start, end)) for start, end in ends]
    made, half = _by_word(model, table, (parts, alike, seed), sums, sizes=groups is not None, pairs=pairs)
    return Fitted(model, table, own, made, table.notes, seed, name, half, ranked, copies)


def _came_fitted(model: Any, data: object, groups: Sequence[Any] | None, target: Any, seed: int) -> Fitted:
    """A fitted model, which answers for all rows."""
    check_conditionals(model)
    table = _once(_read(model, data))
    notes = list(table.notes)
    if hasattr(model, "refine"):
        model = copy.deepcopy(model)
        notes.append(model.refine(as_tokens(model, table.tokens())))
    notes.append("the model came fitted: its own error is not in the interval; a MODEL word shows it")
    if isinstance(model, TableModel) and model.fitted_rows:
        notes += model.notes_on(as_tokens(model, Tokens.from_array(table.values, empty_rows=True)))
    fold = Fold(model, np.flatnonzero(with_values(table.values)), None, None)
    labels = number_labels(data)
    own, about = _groups_of(table, groups, labels), _target_of(table, target, labels)
    return Fitted(type(model).__name__, table, own, [fold], tuple(notes), seed, about)


def _target_of(table: Table, target: Any, labels: Mapping[Any, str]) -> str | None:
    """The name of the target."""
    if target is None:
        return None
    if len(places := places_of(table, target, labels)) != 1:
        raise InputError(f"target={in_short(target)}; give one column, by name or position")
    return table.columns[places[0]]


def _once(table: Table) -> Table:
    """The table without copies of rows, which add no information; the cells determine the order of the rows.

    So folds and draws are those of the same rows in any order, of the same columns in any order, and of
    increasing maps of the columns.
    """
    once = np.flatnonzero(first_copies(table.values) == np.arange(len(table)))
    keys = np.zeros((2, len(once)), dtype=np.uint64)
    for name, column in zip(table.columns, table.values[once].T, strict=True):
        rank = np.unique(column, return_inverse=True)[1]
        keys += np.stack([keyed_bits(*name.encode(), rank), keyed_bits(rank)])  # the last one sorts first
    notes, n = table.notes, len(table) - len(once)
    if n:
        notes = (*notes, f"{count(n, 'row')} of {len(table):,} repeat others: copies count once")
    return replace(table.take(once[np.lexsort(keys)]), notes=notes)


def _alike(values: TableRows) -> _Ints:
    """The first row that each stays together with: the first equal one, if a column holds numbers, or itself.

    A density knows a number that it has seen, and what stood beside it, however wide the numbers lie apart.
    Where all columns have few values, or of a row that fills 5 % of the table, each fit has to see it.
    """
    alone = np.arange(len(values))
    if max(len(np.unique(column)) for column in values.T) <= _FEW_VALUES:
        return alone
    first, group, n = equal_rows(values)
    return np.where(n[group] > _LARGEST * len(values), alone, first[group])


def _groups_of(table: Table, groups: Sequence[Any] | None, labels: Mapping[Any, str] = {}) -> list[list[int]]:
    """The indices of disjoint groups of columns."""
    if groups is None:
        return [[j] for j in range(len(table.columns))]
    places = [[] if group is ... else places_of(table, group, labels) for group in groups]
    others = [j for j in range(len(table.columns)) if not any(j in group for group in places)]
    places = [others if given is ... else group for given, group in zip(groups, places, strict=True)]
    listed = [j for group in places for j in group]
    twice = next((j for k, j in enumerate(listed) if j in listed[:k]), None)
    if twice is not None:
        raise InputError(f"column {table.columns[twice]!r} is given twice; give each in one group, once")
    return places


def _read(model: Any, data: object) -> Table:
    """Recode rows for a fitted model; texts are refused."""
    if isinstance(model, TableModel):
        table = with_levels_of(model.table(data), model.levels)
        model.check_width(len(table.columns))
        return table
    tokens = data if isinstance(data, Tokens) else None
    if tokens is None and callable(getattr(type(model), "tokens", None)):
        tokens = as_tokens(model, data)
    if tokens is None:
        return as_table(data)
    if tokens.n_bytes is not None or tokens.values.ndim > 2:
        raise InputError(
            f"{type(model).__name__} does not read rows: no check finds a model of texts calibrated with "
            "many tokens hidden (a BERT finds nats of information in shuffled pairs); give a model of rows"
        )
    return as_table(torch.where(tokens.maskable, tokens.values.double(), torch.nan).cpu().numpy())


def _by_word(
    word: str,
    table: Table,
    division: tuple[list[Any], _Ints, int],
    sums: Sequence[str],
    *,
    sizes: bool,
    pairs: bool,
) -> tuple[list[Fold], Any]:
    """Fit a new model to all rows but those of each part, and one to half of the rows if `sizes`."""
    (parts, alike, seed), (build, _) = division, parse_model(word)
    assert build is not None
    if table.levels and not build(len(table.columns)).for_table(table).takes_words:
        name = next(iter(table.levels))
        raise InputError(f"column {name!r} holds words, which {word} cannot take; give masked-net or auto")
    n_levels = [len(table.levels.get(name, ())) for name in table.columns] if sizes else None

    def fit(rows: Int64[np.ndarray, " n"], number: int, values: TableRows) -> Any:
        model = declared(build(len(table.columns)), replace(table, values=values), list(table.columns))
        rows = rows[with_values(values[rows])]
        train = values[rows]
        if isinstance(model, MaskedNetwork):
            model.seed = (len(parts) + 1) * seed + number
            return model.fit(train, seed=model.seed)
        if isinstance(model, KernelGaussian | MixedKernelGaussian):
            _, first, place = np.unique(alike[rows], return_index=True, return_inverse=True)
            return _sharpened(model, train, first[place], n_levels, pairs)
        try:
            return model.fit(train)
        except NumericalError as error:
            if word != GAUSSIAN or not (pairs or (sums and len(train) > train.shape[1])):
                raise
            if sizes and number < len(parts):
                raise InputError(f"{sums[0]}; leave one out") from error
            kernels = KernelGaussian(train.shape[1])
            return kernels.fit(train, shrinkage=_SINGULAR, bandwidth=0.5).gaussian

    made, half = [], None
    with progress("fits", len(parts) + 1, parts=True) as advance:
        with suppress(NumericalError):  # too few rows
            some = np.sort(np.concatenate(parts[: n_half(len(parts))]))
            half = fit(some, len(parts), table.values) if sizes else None
        advance(1)
        for number, part in enumerate(parts):
            again = partial(fit, np.setdiff1d(np.arange(len(table)), part), number)
            made.append(Fold(again(table.values), part, None, again))
            advance(1)
    return [fold._replace(other=made[number - 1].model) for number, fold in enumerate(made)], half


def n_half(folds: int) -> int:
    """The folds that the half model sees; each of the others sees all but one."""
    return (folds - 1) // 2


def _usable(
    word: str, table: Table, parts: list[Any], target: str | None, *, each: bool
) -> tuple[Table, _Columns, dict[str, str]]:
    """What `_restated` gives; if `each` is a variable, only those with new information."""
    fits = np.stack([varies(np.delete(table.values, part, axis=0)) for part in parts])
    constant = np.array(table.columns)[~fits.all(0)].tolist()
    table, ranked, copies = _restated(word, table)
    one = {name: f"column {name!r} has one value or none in all rows of a fit" for name in constant}
    blank = [note for name in constant if (note := blank_note(name)) in table.notes]
    said = list(one.values())
    said += [f"column {name!r} is {first!r}, by another name or unit" for name, first in copies.items()]
    if not said:
        return table, ranked, copies
    if target in constant:
        raise InputError(f"{'; '.join([one[target], *blank])}; choose another target")
    if not each or target in (*copies, *copies.values()):
        why = ": two copies of a number have infinite information on each other" if copies else ""
        raise InputError(f"{'; '.join([*said, *blank])}{why}; leave {'one' if copies else 'it'} out")
    kept = [j for j, name in enumerate(table.columns) if name not in (*constant, *copies)]
    notes = (*table.notes, *(f"{each}: left out" for each in said))
    return replace(table.select([table.columns[j] for j in kept]), notes=notes), ranked[kept], copies


def _without_sums(table: Table, places: list[list[int]]) -> tuple[Table, list[list[int]]]:
    """Two groups and given columns, without numbers that are weighted sums of others of the same side.

    Their information stays the same; notes name the columns. Of one group alone no column is left out.
    """
    *asked, given = places
    kept, notes = [list(group) for group in places], list[str]()
    for side, group in enumerate(asked if len(asked) > 1 else [[]]):
        numbers = [j for j in (*given, *group) if table.columns[j] not in table.levels]
        x = table.values[:, numbers]
        x = x[~np.isnan(x).any(1)]
        if not numbers or len(x) <= len(numbers):
            continue
        moves = varies(x)
        x = (x - x.mean(0)) / np.where(moves, x.std(0), 1.0) / len(x) ** 0.5
        beyond_earlier = np.abs(np.diag(np.linalg.qr(x, mode="r")))
        for j in np.array(numbers)[moves & (beyond_earlier < _SUM)].tolist():
            own = kept[side if j in group else -1]
            if j in own:
                own.remove(j)
                notes.append(f"column {table.columns[j]!r} is a weighted sum of others beside it: left out")
        if group and not kept[side]:
            names = some_of([table.columns[j] for j in group])
            raise InputError(f"the given columns determine {names}: the information is 0")
    return replace(table, notes=(*table.notes, *notes)), kept


def _sums(table: Table) -> list[str]:
    """A note where a column of numbers is a weighted sum of others."""
    numbers = [j for j, name in enumerate(table.columns) if name not in table.levels]
    x = table.values[:, numbers]
    x = x[~np.isnan(x).any(1)]
    x = x[:, moves := varies(x)] if len(x) else x[:, :0]
    if x.shape[1] < 3 or len(x) <= x.shape[1]:
        return []
    _, size, axes = np.linalg.svd((x - x.mean(0)) / x.std(0), full_matrices=False)
    if size[-1] > _SUM * size[0]:
        return []
    of = np.array(numbers)[moves][np.abs(axes[-1]) > _SUM]
    names = some_of([table.columns[j] for j in of])
    return [
        f"{names}: one is a weighted sum of the others, so groups that part them have infinite information"
    ]


def _functions(table: Table) -> list[str]:
    """A note on columns of numbers that another one tells without an error that neighbouring rows show."""
    found = list[str]()
    for j, name in enumerate(table.columns):
        rows = table.values[np.argsort(table.values[:, j])]
        before, at, after = (each[~np.isnan(rows[2:, j])] for each in (rows[:-2], rows[1:-1], rows[2:]))
        width, step = (after - before)[:, [j]], after - before
        share = np.divide((at - before)[:, [j]], width, out=np.zeros_like(width), where=width > 0)
        off = np.abs(at - before - share * step)
        known = ~np.isnan(off)
        errors, steps = (np.where(known, each, 0).sum(0) for each in (off, np.abs(step)))
        exact = (known.sum(0) >= _FEWEST_SHARPENED) & (errors < _EXACT * steps)
        found += [f"{table.columns[k]} of {name}" for k in np.flatnonzero(exact).tolist() if k != j]
    said = "a function, as far as rows tell: the information of groups that part the two may be infinite"
    return [f"{some_of(found)}: {said}"] if found else []


def _restated(word: str, table: Table) -> tuple[Table, _Columns, dict[str, str]]:
    """Columns with the same information: numbers as normal quantiles of ranks, few values as categories.

    For "gaussian" few values stay numbers, and in other units they are copies.

    Equal numbers get ranks at random if many rows share one, since kernels would see an infinite density; the
    information stays the same, because the number is a function of its rank.

    Returns:
        The table, which columns are ranks, and for columns that repeat another one its name.
    """
    from scipy import special

    values, ranked = table.values.copy(), np.zeros(len(table.columns), dtype=bool)
    rng, levels, names = np.random.default_rng(0), dict(table.levels), dict[bytes, str]()
    copies = dict[str, str]()
    for j, (name, column) in enumerate(zip(table.columns, values.T, strict=True)):
        seen = ~np.isnan(column)
        each, place, n_each = np.unique(column[seen], return_inverse=True, return_counts=True)
        if name in levels or len(each) < 2:
            continue
        ranked[j] = len(each) > min(_FEW_VALUES, seen.sum() * _FEW_SHARE)
        if not ranked[j] and word != GAUSSIAN:
            if word in _BY_CATEGORIES and name not in table.kinds:
                column[seen], levels[name] = place, tuple(map(str, each.tolist()))
            continue
        scaled = (column - column[seen].mean()) / column[seen].std()
        if ranked[j]:
            share = (np.cumsum(n_each) - n_each / 2)[place]
            column[seen] = special.ndtri(share / seen.sum())
            scaled = column
        same, opposite = (np.nan_to_num(of.round(6) + 0.0, nan=99).tobytes() for of in (scaled, -scaled))
        first = names.get(same, names.get(opposite))
        if first is not None:
            copies[name] = first
        names.setdefault(same, first or name)
        if word in (AUTO, KERNELS) and n_each.max() > _SPIKE * seen.sum():
            order = np.argsort(np.lexsort((rng.random(len(place)), place)))
            column[seen] = special.ndtri((order + 0.5) / seen.sum())
    return replace(table, values=values, levels=levels), ranked, copies


def _sharpened(model: Any, train: TableRows, first: _Ints, sizes: Sequence[int] | None, pairs: bool) -> Any:
    """The density of the highest held-out evidence: kernels of some bandwidth, or a mixture.

    A mixture of more than one component then gets twice as many: what it overfits cancels in the mean over
    rows seen and not seen, what it misses does not.

    Args:
        first: for each row, the first one that is held out together with it.
        sizes: the number of words of each column, 0 for numbers; None for kernels alone.
        pairs: whether the evidence is that of all other columns given a random one.
    """
    kernels = isinstance(model, KernelGaussian)  # others are of words, and have no joint density
    if len(train) < _FEWEST_SHARPENED or not (kernels or sizes):
        return model.fit(train)
    rng, width, held_out, mixtures = np.random.default_rng(0), train.shape[1], list[Any](), list[Any]()
    shrinkage = model.fit(train, bandwidth=0.5).shrinkage if kernels else None
    by_content = np.lexsort(train[::-1])  # which makes the draws independent of the columns' order
    for part in folds_of(train, FOLDS, rng, first)[: -(-_HELD_OUT * FOLDS // len(train))]:
        left, out = np.delete(train, part, axis=0), train[part]
        if sizes is not None:
            mixtures.append(Mixture.path(left, sizes, shrinkage, out=out)[1])
        if kernels:
            seen = by_content[rng.integers(width, size=(len(part), 1))]
            asked = np.arange(width) != seen if pairs else None
            model.fit(left, shrinkage=shrinkage, bandwidth=0.5)
            held_out.append([_evidence(model, bandwidth, out, asked) for bandwidth in _BANDWIDTHS])
    n_tried = min(map(len, mixtures), default=0)
    of_mixture, of_kernels = (np.sum(each, axis=0) for each in ([m[:n_tried] for m in mixtures], held_out))
    if sizes is not None and (not kernels or of_mixture.max() > of_kernels.max()):
        best = int(of_mixture.argmax())
        return Mixture.path(train, sizes, shrinkage, 2 ** (best + (best > 0 or any(sizes))))[0]
    return model.fit(train, shrinkage=shrinkage, bandwidth=_BANDWIDTHS[int(of_kernels.argmax())])


def _evidence(model: KernelGaussian, bandwidth: float, rows: TableRows, asked: Any) -> float:
    """log p of the rows, or of the columns asked, by kernels of another bandwidth."""
    model.bandwidth_logit.data.fill_(math.log(bandwidth / (1 - bandwidth)))
    tokens = model.tokens(rows)
    with torch.no_grad():
        if asked is None:
            return float(model.log_evidence(tokens).sum())
        return float(model.log_conditionals(tokens, tokens.maskable & torch.from_numpy(asked)).sum())


def places_of(table: Table, group: Any, labels: Mapping[Any, str] = {}) -> list[int]:
    """The indices of one or several columns, given by name or index, or by the number that labels them.

    Example:
        >>> places_of(Table("t", np.ones((1, 3)), ("a", "b", "c"), np.arange(1)), ["c", 0])
        [2, 0]
    """
    several = isinstance(group, Iterable) and not isinstance(group, str)
    names = list(group) if several else [] if group is None else [group]
    places: dict[Any, int] = {name: j for j, name in enumerate(table.columns)}
    places |= {label: places[name] for label, name in labels.items() if name in places}
    places |= {} if labels else {j: j for j in range(len(places))}
    for name in names:
        if isinstance(name, bool) or not isinstance(name, str | int | np.integer) or name not in places:
            number = "a label here, not a position" if labels else "a position, from 0"
            position = "" if isinstance(name, str) else f"; a number is {number}"
            known = some_of(table.columns)
            raise InputError(f"there is no column {in_short(name)}; the columns are {known}{position}")
    return [places[name] for name in names]
