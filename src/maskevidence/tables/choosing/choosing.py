"""Choose a family of models and its number of components by held-out evidence."""

import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.comparing.comparison import (
    LEVEL,
    Comparison,
    Difference,
    compare,
    difference_by_rows,
    held_together,
)
from maskevidence.core.errors import ConvergenceWarning, InputError, NumericalError, unknown_name
from maskevidence.core.evidence.precise import estimate_evidence
from maskevidence.core.evidence.result import EstimateKind, EvidenceEstimate, HowScored, summarize_scores
from maskevidence.core.masks.design import MaskDesign, MaskKey
from maskevidence.core.masks.design_words import as_design
from maskevidence.core.masks.sizes import EverySize
from maskevidence.core.model import (
    DENSITY,
    MaskedModel,
    as_tokens,
    base_measure_of,
)
from maskevidence.core.scores.record import ScoreTable
from maskevidence.core.show.words import kind_name
from maskevidence.core.support.checks import in_short, some_of, whole_number
from maskevidence.core.support.keyed_random import first_copies
from maskevidence.core.support.progress import Advance, progress
from maskevidence.core.table import Table, as_table, varies, with_values
from maskevidence.core.tokens import Tokens, column_names
from maskevidence.tables.base import TableModel
from maskevidence.tables.by_name import (
    FAMILIES,
    LOW_RANK,
    SINGLE,
    TAKE_WORDS,
    declared,
    fit_each,
    is_network,
    parse_components,
    parse_model,
    takes_words,
)
from maskevidence.tables.cell_mass import CellMass
from maskevidence.tables.choosing.selection import Candidate, Fill, Selection, best_filler
from maskevidence.tables.folds import folds_of
from maskevidence.tables.latent.bernoulli_pca import BernoulliPCA
from maskevidence.tables.limits import with_limits
from maskevidence.tables.network.network_columns import (
    MIXED,
    Column,
    base_measure,
    columns_of,
    declared_columns,
)
from maskevidence.tables.reading.table_notes import note_on_codes, note_on_copies

COMPONENTS = tuple(range(1, 21))
FOLDS, MANY_FOLDS, FEW_ROWS = 5, 20, 200
_MAX_NAMED = 8
_QUICK = "random-size:4"  # the masks of `first_candidate`
_MOST_FILLED, _FEW = 1_000, 100  # known values per column to hide and fill; by `first_candidate`
_ROUNDING = 1e-9  # differences below this may be rounding

_Rows = Float64[np.ndarray, "N D"]
Held = Int64[np.ndarray, "_"]


class _Word(NamedTuple):
    """A candidate before its fit: its family and K, or None for a family without components."""

    family: str
    k: int | None

    def __str__(self) -> str:
        return self.family if self.k is None else f"{self.family}:{self.k}"

    def build(self, width: int) -> TableModel:
        """Build a new model for `width` columns."""
        build, _ = parse_model(str(self))
        assert build is not None
        return build(width)

    def example(self, table: Table) -> TableModel:
        """Build a small model of the family, to ask for properties that all its models share."""
        width = len(table.columns)
        small = self.build(width) if takes_words(self.family) else self._replace(k=self.k and 1).build(2)
        return small.for_table(table)


class _Scores(NamedTuple):
    """A candidate's scores over the folds fitted so far."""

    n_parameters: int  # free parameters of its models
    # log evidence of each row, in closed form or as an integral; NaN where unknown
    by_row: Float64[np.ndarray, " N"]
    estimates: list[EvidenceEstimate]  # one per fold, if scored by masks
    fit_notes: tuple[str, ...]  # of the first fold
    errors: list[float]  # one per fold: errors of the integrals, if the candidate is scored by masks, too
    models: list[TableModel]  # one per fold, if the table has holes


@dataclass(frozen=True)
class _Plan:
    """The candidates, folds and masks of a selection."""

    table: Table  # N rows of D columns that vary in every fold
    words: tuple[_Word, ...]  # the candidates
    folds: tuple[Held, ...]  # the rows of each fold
    first: Held  # the first copy of each row; only this copy is scored
    design: MaskDesign | None  # the mask design; None to use the closed form
    key: MaskKey  # of the masks
    names: list[str] | None  # of the columns, if the data have names for them
    columns: tuple[Column, ...] | None  # the columns' kinds if a network is among the candidates

    @property
    def values(self) -> _Rows:
        """The table's values, shape (N, D)."""
        return self.table.values

    @property
    def scored(self) -> Held:
        """The rows to score: of identical rows, only the first."""
        return np.unique(self.first)

    def build(self, word: _Word) -> TableModel:
        """Build a candidate for the columns; a model that takes words sees all rows first."""
        return declared(word.build(len(self.table.columns)), self.table, self.names)

    def measured(self, model: TableModel, train: _Rows) -> MaskedModel:
        """The model in the common base measure: next to a network, a density is scored by the mass of
        cells.
        """
        if self.columns is None or model.base_measure != DENSITY:
            return model
        return CellMass(model, columns_of(train, self.columns))


def select(
    data: object,
    families: str | Sequence[str] = ("ppca", "factor-analysis"),
    components: int | str | Sequence[int] = COMPONENTS,
    *,
    folds: int | None = None,
    design: MaskDesign | str | None = None,
    seed: int = 0,
) -> Selection:
    """Choose a family of models and its number of components by held-out evidence.

    The rows are divided at random into folds. Every candidate is fitted to all folds but one and scored on
    the rows of that fold, so that every row is held out once. The choice is the candidate with the highest
    log evidence of the held-out rows. Copies of a row are in one fold and scored once.

    All pairs of candidates are compared on the same rows. `smallest` is the candidate with the fewest
    parameters that no other candidate beats; its `behind` is the evidence it gives up. The tests of all pairs
    are simultaneous: the probability that any of the best models is called worse is at most about 5 %. The
    tests do not cover the randomness of the fits: another seed moved the log evidence of a network by .14 to
    .29 nats where we measured it.

    If every candidate has a closed form, rows are scored by it. Otherwise, or if a design is given, the area
    under the curve is the estimate, with the same masks for all candidates; the intervals of "bernoulli-pca"
    are widened by the difference between its approximate areas and its integrals. Next to a network,
    densities of numbers are scored by the mass of the network's cells (`me.models.CellMass`).

    Args:
        data: shape (N, D), an array, `Table` or data frame; NaN where a value is missing. Rows without any
            value, and columns that do not vary, are left out.
        families: words such as "masked-net", "ppca", "factor-analysis", "bernoulli-pca", "gaussian",
            "kernel-gaussian", or one model such as "ppca:3"; or several between commas.
        components: numbers of components to try, for families that have some: one, several, or a word of the
            command line such as "1-20".
        folds: the number of parts of the rows, 2 or more. By default 5, and 20 for fewer than 200 rows if
            every candidate has a closed form: with few rows, fits to four fifths of them favour small models.
        design: how masks are drawn, or a word such as "every-size:4,shared"; by default the closed form is
            used where there is one, and `EverySize(masks_per_size=2)` otherwise.
        seed: of the division of the rows and of the masks.

    Raises:
        InputError: unknown words, fewer than two candidates, families that cannot be compared, or data that
            cannot be used.
        NumericalError: no candidate could be fitted.

    Example:
        >>> import maskevidence as me
        >>> x = me.models.PPCA(n_features=8, n_components=2, seed=1).sample(200, seed=0)
        >>> selection = me.select(x, ["ppca", "gaussian"], range(1, 6))
        >>> selection.choice, selection.model.n_components
        ('ppca:2', 2)
    """
    key = MaskKey(whole_number("seed", seed, 0))
    plan, notes = _plan(data, candidates(families, _numbers(components)), folds, design, key)
    scores, noted = _fitted(plan)
    notes += noted
    ranked, kinds = _ranked(plan, scores)
    if len(set(kinds.values())) > 1:
        of_each = ", ".join(f"{one.name} {kind_name(kinds[one.name])}" for one in ranked)
        notes.append(f"the numbers are of several kinds: {of_each}")
    best = next(word for word in scores if str(word) == ranked[0].name)
    model = plan.build(best).fit(plan.values)
    if len(ranked) > 2:
        notes.append(
            f"the comparisons of all pairs are simultaneous at {100 * LEVEL:.0f} % (step-down Bonferroni "
            "over the pairs of candidates that are not yet beaten)"
        )
    return Selection(
        candidates=ranked,
        model=model,
        kind=kinds[ranked[0].name],
        base_measure=base_measure_of(plan.measured(plan.build(best), plan.values)),
        n_observations=len(plan.scored),
        folds=len(plan.folds),
        design=None if plan.design is None else plan.design.settings(),
        seed=plan.key.seed,
        column_names=plan.table.columns,
        notes=tuple(notes),
        fills=_fills(plan, scores[best].models, with_holes(plan.values)),
    )


def first_candidate(
    data: Table, families: Sequence[str], seed: int, *, folds: int, epochs: int
) -> tuple[str, str, Difference | None]:
    """The best candidate without a fit to all rows, and why; and its evidence less the network's.

    A network among the families is fitted to all folds but the first, for some epochs, and compared with the
    best of the others on the rows of that fold alone.
    """
    plan, network, others = _with_network(data, families, seed, folds)
    scores, _ = _fitted(others)
    first, *rest = _ranked(others, scores)[0]
    behind = ", ".join(f"{each.name} {first.log_evidence - each.log_evidence:.3g}" for each in rest)
    why = f"the highest held-out evidence of {len(data):,} rows; nats per row behind it: {behind}"
    if network is None:
        return first.name, why, None
    train, rows = _fold(plan, plan.folds[0])
    new: Any = plan.build(network)
    model = new.fit(train, epochs=epochs, seed=seed)
    names = first.name, str(network)
    of_first = next(score.estimates[0] for word, score in scores.items() if str(word) == first.name)
    both = of_first, _estimated(plan, model, train, rows)
    return first.name, why, compare(dict(zip(names, both, strict=True))).between(*names)


def first_filler(
    data: Table, families: Sequence[str], columns: Collection[str], seed: int, *, folds: int, epochs: int
) -> tuple[str, str]:
    """The candidate that fills hidden cells of some columns best, and why.

    A network among the families is fitted to all folds but the first, for some epochs, and compared with the
    best of the others on all cells of that fold.
    """
    plan, network, others = _with_network(data, families, seed, folds)
    scores, _ = _fitted(others, evidence=False)
    models = {str(word): score.models for word, score in scores.items()}
    holed = [j for j, name in enumerate(plan.table.columns) if name in columns]
    name, why = best_filler({word: _fills(others, of, holed, _FEW) for word, of in models.items()})
    train, rows = _fold(plan, plan.folds[0])
    part, every = plan.table.take(rows), np.arange(len(rows))
    holed = [j for j in holed if not np.isnan(part.values[:, j]).all()]
    if network is None or not holed:
        return name, why
    model: Any = plan.build(network)
    model.columns_to_fill = holed
    both = {name: models[name][0], str(network): model.fit(train, epochs=epochs, seed=seed)}
    trial = {word: held_out_fills([(each, every)], part, holed, seed) for word, each in both.items()}
    best, beside = best_filler(trial)
    return (best, f"{beside} after {epochs} epochs on one of {folds} folds") if best != name else (name, why)


def _with_network(
    data: Table, families: Sequence[str], seed: int, folds: int
) -> tuple[_Plan, _Word | None, _Plan]:
    """The plan of a quick choice, its network, and the plan of the other candidates."""
    plan, _ = _plan(data, candidates(families, COMPONENTS), folds, _QUICK, MaskKey(seed))
    networks = [word for word in plan.words if is_network(word.family)]
    others = replace(plan, words=tuple(word for word in plan.words if word not in networks))
    return plan, networks[0] if networks else None, others


def _fitted(plan: _Plan, evidence: bool = True) -> tuple[dict[_Word, _Scores], list[str]]:
    """The candidates' scores, or without evidence their models alone, and notes on their fits."""
    scores, failed, slow = _scored(plan, evidence)
    reason, notes = next(iter(failed.values()), ""), list[str]()
    if not scores:
        raise NumericalError(f"no candidate could be fitted: {reason}")
    if failed:
        shown = some_of([str(word) for word in failed], _MAX_NAMED)
        notes.append(f"could not be fitted, and left out: {shown} ({reason})")
    if slow:
        notes.append(f"{slow} of the {len(plan.folds) * len(plan.words)} fits ended before they converged")
    return scores, notes + [f"{word}: {note}" for word, score in scores.items() for note in score.fit_notes]


def _fills(
    plan: _Plan, models: Sequence[TableModel], columns: Iterable[int], most: int = _MOST_FILLED
) -> dict[str, Fill]:
    """How well the models fill some columns."""
    judges = [*zip(models, plan.folds, strict=True)] if models else []
    return held_out_fills(judges, plan.table, columns, plan.key.seed, most=most) if judges else {}


def held_out_fills(
    judges: Sequence[tuple[TableModel, Held]],
    table: Table,
    columns: Iterable[int],
    seed: int = 0,
    pairs: Collection[str] = (),
    *,
    most: int = _MOST_FILLED,
) -> dict[str, Fill]:
    """Hide up to 1,000 known values of each column, and fill them by models of the other folds.

    Args:
        judges: a model for each fold, and the positions of the fold's rows, which it has not seen.
        columns: the positions of the columns to fill.
        seed: of the choice of values.
        pairs: columns of two values, which are filled by the nearer one and counted as words are.
        most: values of a column to hide.
    """
    fills, rng = {}, np.random.default_rng(seed)
    for j in columns:
        known, name = np.flatnonzero(~np.isnan(table.values[:, j])), table.columns[j]
        some = np.sort(rng.permutation(known)[:most])
        truth, filled = table.values[:, j], np.full(len(table), np.nan)
        for model, rows in judges:
            these = np.intersect1d(rows, some)
            hidden = table.values[these].copy()
            hidden[:, j] = np.nan
            if len(these):
                filled[these] = model.impute(hidden).values[:, j]
        in_words = name in table.levels or name in pairs
        if name in pairs:
            low, high = np.nanmin(truth), np.nanmax(truth)
            filled = np.where(filled < (low + high) / 2, low, high)
        if in_words:
            commonest = float(np.unique(truth[known], return_counts=True)[1].max())
            quality, without = float(np.mean(filled[some] == truth[some])), commonest / len(known)
        else:
            quality = float(np.sqrt(np.mean((filled[some] - truth[some]) ** 2)))
            without = float(truth[known].std())
        fills[name] = Fill(len(table) - len(known), quality, without, in_words)
    return fills


def with_holes(values: _Rows) -> list[int]:
    """The positions of the columns with a missing value.

    Example:
        >>> with_holes(np.array([[1.0, np.nan], [2.0, 3.0]]))
        [1]
    """
    return np.flatnonzero(np.isnan(values).any(axis=0)).tolist()


def _numbers(components: int | str | Sequence[int]) -> list[int]:
    """Numbers of components from a number, several numbers, or a word such as "1-20"."""
    if isinstance(components, str):
        components = parse_components(components)
    numbers = components if isinstance(components, Iterable) else [components]
    return [whole_number("components", number) for number in numbers]


def _plan(
    data: object,
    words: tuple[_Word, ...],
    folds: int | None,
    design: MaskDesign | str | None,
    key: MaskKey,
) -> tuple[_Plan, list[str]]:
    """Plan the selection; the notes say which rows, columns and candidates are left out."""
    folds = None if folds is None else whole_number("folds", folds)
    if design is not None:
        drawn = as_design(design).without_tokens("select")
        design, key = drawn.design, MaskKey(key.seed, drawn.masks)
    table = as_table(data)
    values, columns = table.values, table.columns
    given = table.take(np.flatnonzero(with_values(values)))
    values = given.values
    table = replace(given, ids=np.arange(len(values)), labels=None)
    words, notes = _taking_words(table, words)
    examples = [word.example(table) for word in words]
    by_cells = _check_measures(table, words, examples)
    table, of_limits = _with_scored_limits(given, table, examples)
    notes += of_limits
    closed = not table.limits and all(hasattr(example, "log_evidence") for example in examples)
    if folds is None:
        folds = min(len(values), MANY_FOLDS if closed and len(values) < FEW_ROWS else FOLDS)
    if not 2 <= folds <= len(values):
        raise InputError(f"folds={folds} of {len(values)} rows with a value; give 2 to {len(values)}")
    held = tuple(np.sort(part) for part in folds_of(values, folds, np.random.default_rng(key.seed)))
    # a `Table` already has these notes
    notes += [] if isinstance(data, Table) else note_on_codes(values, columns) + note_on_copies(values)
    any_values = all(example.keeps_units for example in examples)
    kept = (_known_columns if any_values else varying_columns)(values, held)
    if not kept.all():
        names = ", ".join(name for name, other in zip(columns, kept, strict=True) if not other)
        verb = "have a value" if any_values else "vary"
        notes.append(f"left out columns that do not {verb} in all folds: {names}")
        values, columns = values[:, kept], tuple(np.array(columns)[kept].tolist())
        some = with_values(values)
        if not some.all():
            place = given.place(int(np.argmin(some)))
            raise InputError(f"{place} has no value in the other columns; leave it out")
    alone = len(words) == 1 and bool(notes)
    words, left_out = _possible(words, values.shape[1], len(values) - max(map(len, held)))
    if left_out:
        notes.append(f"left out {left_out}: components are fewer than the columns and the rows of a fit")
    if len(words) < 2 and not (words and alone):
        raise InputError(
            f"{'one model' if words else 'no model'} to choose from for {values.shape[1]} columns that vary; "
            "give several families or numbers of components; impute and score take a single model"
        )
    if design is None and not closed:
        design = EverySize(masks_per_size=2)
    table, cells = table.select(list(columns)), None
    if by_cells is not None:
        cells = tuple(declared_columns(table, table.values))
        if len({example.base_measure for example in examples}) > 1:
            notes.append(f"every candidate is scored by the {base_measure(cells)}, as {by_cells} is")
    named = list(table.columns) if column_names(data) is not None else None
    return _Plan(table, words, held, first_copies(given.values), design, key, named, cells), notes


def _with_scored_limits(
    given: Table, table: Table, examples: Sequence[TableModel]
) -> tuple[Table, list[str]]:
    """The table with the limits of the given one, by their new ids, if all candidates can score them."""
    place = {int(key): k for k, key in enumerate(given.ids)}
    limits = {
        name: {place[row]: both for row, both in rows.items() if row in place}
        for name, rows in given.limits.items()
        if name in table.columns
    }
    n, note = sum(map(len, limits.values())), "are scored by the probability of their half-line, by masks"
    cannot = {type(example).__name__ for example in examples if not hasattr(example, "log_cells")}
    if cannot and n:
        limits, note = {}, f"are not scored: {' and '.join(sorted(cannot))} cannot"
    return replace(table, limits=limits if n else {}), [f"limits such as <0.5 {note}"] if n else []


def _taking_words(table: Table, words: tuple[_Word, ...]) -> tuple[tuple[_Word, ...], list[str]]:
    """The candidates that can take the table's columns, and a note on the others."""
    kept = tuple(word for word in words if takes_words(word.family))
    if not table.levels or len(kept) == len(words):
        return words, []
    cannot = ", ".join(dict.fromkeys(word.family for word in words if word not in kept))
    holds = f"column {next(iter(table.levels))!r} holds words"
    if not kept:
        raise InputError(
            f"{holds}, which {cannot} cannot take; {', '.join(TAKE_WORDS)} can, or leave such columns out "
            "(--drop) or encode them (--one-hot)"
        )
    return kept, [f"{holds}: left out {cannot}, which cannot take words"]


def _check_measures(table: Table, words: Sequence[_Word], examples: Sequence[TableModel]) -> str | None:
    """Refuse families with different base measures; return one that scores cells, as all others then are."""
    for example in examples:
        example.declare(table)
    measures = {example.base_measure for example in examples}
    of_cells = [
        (word.family, example) for word, example in zip(words, examples, strict=True) if example.takes_words
    ]
    by_cells = None
    if of_cells:
        by_cells = of_cells[0][0]
        if MIXED not in measures:  # without words, numbers have the measure of cells
            measures = measures - {DENSITY} | {of_cells[0][1].base_measure}
    if len(measures) > 1:
        raise InputError(
            f"{' and '.join(dict.fromkeys(word.family for word in words))} cannot be compared: their numbers "
            f"are relative to {' and '.join(sorted(measures))}; choose among families of one kind"
        )
    return by_cells


def candidates(families: str | Sequence[str], components: Sequence[int]) -> tuple[_Word, ...]:
    """The candidates named by words and numbers of components, without repeats; see `select`.

    Example:
        >>> [str(one) for one in candidates("gaussian,ppca,ppca:7", (2, 1))]
        ['gaussian', 'ppca:1', 'ppca:2', 'ppca:7']
    """
    if not isinstance(families, str | Sequence) or not all(isinstance(name, str) for name in families):
        raise InputError(
            f"families={in_short(families)}; give words such as 'gaussian' or ['ppca', 'masked-net']"
        )
    names = families.split(",") if isinstance(families, str) else list(families)
    words: list[_Word] = []
    for name in (name.strip() for name in names):
        family, colon, k = name.partition(":")
        if colon and family in FAMILIES:
            parse_model(name)
            words.append(_Word(family, int(k)))
        elif name in SINGLE or is_network(name):
            parse_model(name)
            words.append(_Word(name, None))
        elif name in FAMILIES:
            words += [_Word(name, int(k)) for k in sorted(set(components))]
        else:
            raise unknown_name("family", name, [*SINGLE, *FAMILIES])
    if any(word.k is not None and word.k < 1 for word in words):
        raise InputError(f"components={list(components)}; give whole numbers of 1 or more")
    return tuple(dict.fromkeys(words))


def varying_columns(values: _Rows, held: Sequence[Held]) -> np.ndarray:
    """Which columns have at least two different values in the training rows of every fold."""
    return np.all([varies(np.delete(values, rows, axis=0)) for rows in held], axis=0)


def _known_columns(values: _Rows, held: Sequence[Held]) -> np.ndarray:
    """Which columns have a value in the training rows of every fold."""
    return np.all([with_values(np.delete(values, rows, axis=0).T) for rows in held], axis=0)


def _possible(words: tuple[_Word, ...], width: int, n_rows: int) -> tuple[tuple[_Word, ...], str]:
    """Split off the candidates with too many components for the columns and rows; name them."""
    largest = min(width, n_rows) - 1
    kept = tuple(word for word in words if word.family not in LOW_RANK or (word.k or 0) <= largest)
    out = [str(word) for word in words if word not in kept]
    return kept, some_of(out, _MAX_NAMED)


def _scored(plan: _Plan, evidence: bool) -> tuple[dict[_Word, _Scores], dict[_Word, str], int]:
    """Fit and score all candidates: their scores, the failed ones, and the number of fits that did not
    converge.
    """
    scores: dict[_Word, _Scores] = {}
    failed: dict[_Word, str] = {}
    holes = bool(np.isnan(plan.values).any())
    with (
        warnings.catch_warnings(record=True) as caught,
        progress("fits", len(plan.folds) * len(plan.words), parts=True) as advance,
    ):
        warnings.simplefilter("always", ConvergenceWarning)
        for fold, rows in enumerate(plan.folds, 1):
            train, rows = _fold(plan, rows)
            tokens = Tokens.from_array(plan.values[rows], ids=rows)
            of_fold = f"fold {fold} of {len(plan.folds)}"
            for word, model in _fits(plan, train, failed, advance, of_fold):
                if word not in scores:
                    scores[word] = _Scores(
                        model.n_parameters, np.full(len(plan.values), np.nan), [], model.fit_notes, [], []
                    )
                if holes or not evidence:
                    scores[word].models.append(model)
                if evidence and plan.design is None:
                    scores[word].by_row[rows] = model.score_samples(tokens)
                elif evidence:
                    scores[word].estimates.append(_estimated(plan, model, train, rows))
                    if isinstance(model, BernoulliPCA):
                        _integrate(model, tokens, scores[word], rows)
    slow = [warning for warning in caught if issubclass(warning.category, ConvergenceWarning)]
    for warning in caught:
        if warning not in slow:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return {word: score for word, score in scores.items() if word not in failed}, failed, len(slow)


def _fold(plan: _Plan, rows: Held) -> tuple[_Rows, Held]:
    """The training values of a fold, and the first copies of its rows, which are scored."""
    return np.delete(plan.values, rows, axis=0), rows[plan.first[rows] == rows]


def _estimated(plan: _Plan, model: TableModel, train: _Rows, rows: Held) -> EvidenceEstimate:
    """The evidence of held-out rows by the masks of the plan."""
    scored, _ = with_limits(plan.measured(model, train), plan.table)
    tokens = as_tokens(scored, Tokens.from_array(plan.values[rows], ids=rows))
    assert plan.design is not None
    return estimate_evidence(scored, tokens, plan.design, seed=plan.key.seed, masks=plan.key.masks)


def _integrate(model: BernoulliPCA, tokens: Tokens, scores: _Scores, rows: Held) -> None:
    """Add the exact integrals of the fold's rows and their error, if the quadrature succeeds."""
    try:
        integral = model.integrate(tokens)
    except NumericalError:
        return
    scores.by_row[rows] = integral.log_evidence.cpu().double().numpy()
    scores.errors.append(integral.error)


def _fits(
    plan: _Plan, train: _Rows, failed: dict[_Word, str], advance: Advance, of_fold: str
) -> Iterator[tuple[_Word, TableModel]]:
    """Fit the candidates one by one; record those that fail in `failed`."""
    for family in dict.fromkeys(word.family for word in plan.words):
        words = sorted((word for word in plan.words if word.family == family), key=lambda word: word.k or 0)
        chain = None
        if family in LOW_RANK:
            chain = fit_each(family, train, [word.k or 0 for word in words], plan.names)
        for word in words:
            advance(0, f"fits: {word}, {of_fold}")
            try:
                yield word, plan.build(word).fit(train) if chain is None else next(chain)
            except (NumericalError, StopIteration) as error:  # a failed chain has ended
                failed.setdefault(word, str(error) or "see the number of components before")
            advance(1)


def _ranked(
    plan: _Plan, scores: Mapping[_Word, _Scores]
) -> tuple[tuple[Candidate, ...], Mapping[str, EstimateKind]]:
    """Candidates with their comparisons, highest evidence first, and the kind of each number."""
    between: Callable[[str, str], Difference]
    kinds: dict[str, EstimateKind]
    behind: tuple[Difference, ...] = ()
    if plan.design is not None:
        estimates = {str(word): _pooled(plan, word, score.estimates) for word, score in scores.items()}
        values = {
            name: (estimate.log_evidence, estimate.mask_se, estimate.data_se)
            for name, estimate in estimates.items()
        }
        kinds = {name: estimate.kind for name, estimate in estimates.items()}
        if len(estimates) > 1:
            comparison = compare(estimates)
            off = {
                str(word): abs(values[str(word)][0] - float(score.by_row[plan.scored].mean()))
                + max(score.errors, default=math.nan)
                for word, score in scores.items()
                if kinds[str(word)] == "approximate"
            }
            between = partial(_widened, comparison, off)
            behind = held_together([between(each.first, each.second) for each in comparison.behind])
    else:
        kinds = {
            str(word): "exact" if plan.build(word).conditionals == "exact" else "approximate"
            for word in scores
        }
        by_row = {str(word): score.by_row[plan.scored] for word, score in scores.items()}
        n = len(plan.scored)
        values = {
            name: (float(x.mean()), 0.0, float(x.std(ddof=1) / np.sqrt(n))) for name, x in by_row.items()
        }
        between = partial(_by_rows, by_row)
        best, *others = sorted(by_row, key=lambda name: -values[name][0])
        behind = held_together([between(best, name) for name in others])
    beaten = beaten_candidates(sorted(values, key=lambda name: -values[name][0]), between) if behind else {}
    behind_best = {difference.second: difference for difference in behind}
    ranked = []
    for word, score in scores.items():
        name = str(word)
        compared = behind_best.get(name), beaten.get(name)
        ranked.append(Candidate(name, word.family, word.k, score.n_parameters, *values[name], *compared))
    ranked.sort(key=lambda candidate: (-candidate.log_evidence, candidate.n_parameters))
    return tuple(ranked), kinds


def _widened(comparison: Comparison, off: Mapping[str, float], first: str, second: str) -> Difference:
    """The difference of two candidates, with its interval widened by the known error of approximate
    numbers.
    """
    error = sum(off.get(name, 0.0) for name in (first, second))
    known = None if math.isnan(error) else error
    return replace(comparison.between(first, second), n_pairs=1, integral_error=known)


def _by_rows(by_row: Mapping[str, Float64[np.ndarray, " N"]], first: str, second: str) -> Difference:
    return difference_by_rows((first, second), (by_row[first], by_row[second]))


def beaten_candidates(ranked: Sequence[str], between: Callable[[str, str], Difference]) -> dict[str, str]:
    """Map each beaten candidate to a candidate that beats it.

    A round compares all pairs of the K remaining candidates, each at the level 1 - 0.05 / (K (K - 1)/2), and
    drops the beaten ones. The rounds end when no candidate is beaten. Comparing with the best candidate alone
    would not suffice: if its evidence rests on a few rows, its error is large, and it cannot beat a candidate
    that others with small errors do beat.

    Source:
        Hansen, Lunde and Nason (2011), The Model Confidence Set, with Bonferroni's level after Holm (1979).
    """
    differences = {
        (better, other): between(better, other)
        for number, other in enumerate(ranked)
        for better in ranked[:number]
    }
    left, beaten = list(ranked), dict[str, str]()
    while len(left) > 1:
        n_pairs = math.comb(len(left), 2)
        lost: dict[str, str] = {}
        for number, other in enumerate(left):
            for better in left[:number]:
                difference = replace(differences[better, other], n_pairs=n_pairs)
                if difference.told_apart and difference.difference > _ROUNDING:
                    lost.setdefault(other, better)
        if not lost:
            break
        beaten |= lost
        left = [name for name in left if name not in lost]
    return beaten


def _pooled(plan: _Plan, word: _Word, estimates: Sequence[EvidenceEstimate]) -> EvidenceEstimate:
    """Join the estimates of the folds into one estimate of all rows."""
    assert plan.design is not None
    table = ScoreTable.join([estimate.scores for estimate in estimates])
    model = plan.measured(plan.build(word), plan.values)
    n_calls = sum(estimate.n_model_calls for estimate in estimates)
    how = HowScored(plan.design, plan.key, model.conditionals, base_measure_of(model))
    return summarize_scores(table, how, n_calls)
