"""Score mutants by several conventions, computing each context once, and correlate the scores."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64

from maskevidence import HasLogDistributions, HasUnmaskedLogDistributions, MaskedModel, RandomSize
from maskevidence.core.errors import InputError, unknown_name
from maskevidence.core.scores import Asker, Reads
from maskevidence.core.show import Columns, Histogram, Page, Shown, Table, count, typeset
from maskevidence.core.support.files import csv_text
from maskevidence.core.support.progress import progress
from maskevidence.core.table import place_of
from maskevidence.proteins.conventions import (
    CONVENTIONS,
    FEW_PASSES,
    MAX_SITES_ENUMERATED,
    OF_WHOLE_SEQUENCES,
    PER_RESIDUE,
    Asking,
    Pair,
)
from maskevidence.proteins.mutants import pairs_of_mutants, parse_mutants

_MAX_DRAWS = 10_000
_MOST_SHOWN, _LONGEST_NAME = 5, 12  # mutants shown on the page, and characters of their names
RESAMPLES, MIN_PAIRS = 1000, 3  # bootstrap resamples; fewest mutants for a rank correlation
_ROWS = 1024  # rows passed to the model at a time, to be packed into calls


@dataclass(frozen=True)
class VariantPlan:
    """The number of model passes for the scores of mutants.

    Attributes:
        asked: contexts that each convention asks for, one mutant at a time.
        distinct: contexts of each convention that differ.
        passes: contexts that differ over all conventions, each of which is one pass.
    """

    asked: dict[str, int]
    distinct: dict[str, int]
    passes: int

    def table(self) -> Table:
        """The number of contexts per convention and in total."""
        rows = [[name, f"{self.asked[name]:,}", f"{self.distinct[name]:,}"] for name in self.asked]
        rows.append(["all", f"{sum(self.asked.values()):,}", f"{self.passes:,}"])
        return Table(["convention", "contexts asked for", "distinct"], rows, "passes of the model")


@dataclass(frozen=True, repr=False)
class VariantScores(Shown):
    """Scores of mutants, nats; above 0 where the model prefers the mutant to the wild type.

    Attributes:
        mutants: the mutants as the user wrote them.
        scores: by convention, shape (N,); NaN where a convention has no score.
        mask_se: for conventions with random masks, their standard errors, shape (N,); 0 where all masks were
            scored.
        plan: the number of passes.
        notes: restrictions and choices, one sentence each.
        unranked: conventions whose scores do not rank these mutants, since they are sums over sequences of
            different lengths.
    """

    mutants: tuple[str, ...]
    scores: dict[str, Float64[np.ndarray, " N"]]
    mask_se: dict[str, Float64[np.ndarray, " N"]]
    plan: VariantPlan
    notes: tuple[str, ...] = ()
    unranked: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.mutants)

    def __getitem__(self, convention: str) -> Float64[np.ndarray, " N"]:
        """The scores by a convention, shape (N,)."""
        if convention not in self.scores:
            raise unknown_name("convention", convention, self.scores)
        return self.scores[convention]

    def agreement(self) -> dict[tuple[str, str], float]:
        """Spearman's rank correlation for every two conventions that rank these mutants."""
        return {(a, b): spearman(self.scores[a], self.scores[b]) for a, b in combinations(self.ranking(), 2)}

    def ranking(self) -> dict[str, Float64[np.ndarray, " N"]]:
        """The scores that rank these mutants, by name."""
        return {name: values for name, values in self.scores.items() if name not in self.unranked}

    def page(self) -> Page:
        """A page with the best and the worst mutants and the number of passes."""
        names, n = ", ".join(self.scores), count(len(self), "mutant")
        ranked = self.ranking() or self.scores
        best = best_and_worst(self.mutants, ranked, self.mask_se, _MOST_SHOWN)
        return Page(
            f"VariantScores({n} by {names}, {self.plan.passes:,} passes)",
            f"{n} scored by {count(len(self.scores), 'convention')} in {self.plan.passes:,} passes",
            parts=[self.plan.table(), best],
            notes=self.notes,
        )

    def picture(self) -> tuple[Histogram, str]:
        """The distribution of the first convention's scores."""
        name, values = next(iter(self.ranking().items()))
        title = f"{count(len(self), 'mutant')}, scored by {name}"
        return Histogram(values[~np.isnan(values)], f"{name}  (nats)", "number of mutants", zero=True), title

    def columns(self) -> Columns:
        """Scores and errors, one row per mutant."""
        values: dict[str, Sequence[object]] = {}
        for name, scores in self.scores.items():
            values[name] = scores.tolist()
            if name in self.mask_se:
                values[f"{name}_mask_se"] = self.mask_se[name].tolist()
        return Columns(values, self.mutants, "mutant")

    def rows(self) -> list[dict[str, object]]:
        """One dictionary per mutant for JSON; None where a convention has no score."""
        columns = {"mutant": self.mutants, **self.columns().values}
        return [
            {name: None if value != value else value for name, value in zip(columns, cells, strict=True)}
            for cells in zip(*columns.values(), strict=True)
        ]

    def to_csv(self, given: Mapping[str, Sequence[object]] | None = None) -> str:
        """CSV text with one row per mutant: its name, then a column per convention.

        Args:
            given: further columns by name, such as the measured effect, which stand after the mutants.
        """
        columns = {"mutant": self.mutants, **(given or {}), **self.columns().values}
        return csv_text(columns, zip(*columns.values(), strict=True))


def best_and_worst(
    mutants: Sequence[str],
    scores: Mapping[str, Float64[np.ndarray, " N"]],
    mask_se: Mapping[str, Float64[np.ndarray, " N"]],
    most: int,
    beside: Mapping[str, Float64[np.ndarray, " N"]] | None = None,
) -> Table:
    """The mutants with the highest and the lowest scores, with errors and ranks; 1 is the best rank.

    Args:
        scores: by convention, of which the first ranks the mutants.
        mask_se: the standard errors of conventions with random masks.
        most: the number of mutants at either end.
        beside: further columns, such as a measured effect.
    """
    (name, values), *others = scores.items()
    order = np.argsort(-values, kind="stable")[: int((~np.isnan(values)).sum())].tolist()
    left_out = len(order) > 2 * most
    rows = []
    for k in [*order[:most], *order[-most:]] if left_out else order:
        error = f" ± {typeset(float(mask_se[name][k]), 3)}" if name in mask_se else ""
        ranks = [_rank(each, k) for _, each in others if not np.isnan(each[k])]
        by_others = " to ".join(f"{rank:,}" for rank in sorted({min(ranks), max(ranks)})) if ranks else ""
        row = [f"{_rank(values, k):,}", _shortened(mutants[k]), typeset(float(values[k]), 3) + error]
        row += [_number(float(column[k])) for column in (beside or {}).values()]
        rows.append([*row, by_others] if others else row)
    if left_out:
        rows.insert(most, ["…", *[""] * (len(rows[0]) - 1)])
    columns = ["rank", "mutant", name, *(beside or {}), *["rank by the others"] * bool(others)]
    title = f"the best and the worst by {name}: mutant minus wild type, nats"
    return Table(columns, rows, title, words=(1,))


def _rank(values: Float64[np.ndarray, " N"], k: int) -> int:
    return 1 + int((values > values[k]).sum())


def _number(value: float) -> str:
    return "" if value != value else typeset(value, 3)


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def variants(
    model: MaskedModel,
    wild_type: str,
    mutants: Sequence[str],
    conventions: Sequence[str] = FEW_PASSES,
    *,
    start: int = 1,
    draws: int = 32,
    seed: int = 0,
) -> VariantScores:
    """Score mutants of a wild type by the conventions of protein, DNA and RNA language models.

    The conventions differ in the hidden sites and the visible letters; docs/proteins.md has the formulas.
    Each distinct context (a set of hidden sites and mutated letters) is computed once for all mutants and
    conventions: all single mutants of a site need one pass.

    Args:
        model: a masked language model whose tokens are single letters, with its tokenizer.
        wild_type: its letters.
        mutants: substitutions such as "A1P" or "A1P:D2N", or whole sequences.
        conventions: names among wild-type-fill, mutant-fill, match-fill, mask-fill, unmasked, joint,
            joint-mixture, pll and whole; by default all that need a few passes per mutant. pll needs one for
            each letter, whole one for each draw.
        start: the number of the first letter of the wild type.
        draws: random masks of `whole`, and of `joint` beyond 10 sites; mutant and wild type share them.
        seed: of these masks.

    Raises:
        InputError: mutants, letters, conventions or a model that cannot be used; the message names the first
            row, from 0.

    Example:
        >>> import torch
        >>> from maskevidence.texts.new_bert import new_bert
        >>> from maskevidence.texts.vocabulary import letter_tokenizer
        >>> model = new_bert(letter_tokenizer(["ACDEFGHIKLMNPQRSTVWY"]))
        >>> scores = variants(model, "MKTAYIAK", ["K2R", "K2A", "K2R:T3G"])
        >>> scores.plan.passes, scores.plan.asked["wild-type-fill"], scores.plan.distinct["wild-type-fill"]
        (6, 4, 2)
        >>> bool(abs(scores["joint"][0] - scores["mask-fill"][0]) < 1e-6)
        True

    Source:
        Meier et al. (2021), Language models enable zero-shot prediction of the effects of mutations on
        protein function, on four of the conventions.
    """
    if not 2 <= draws <= _MAX_DRAWS:
        raise InputError(f"draws={draws}; give 2 to {_MAX_DRAWS:,}: the error of the masks needs two")
    pairs, notes = _pairs(model, wild_type, mutants, conventions, start)
    reads = Reads(max(int(side.ids().max()) for pair in pairs for side in pair.both))
    reduce, asked, distinct = {}, {}, {}
    for name in conventions:
        before, asking = reads.n_asked, Asking(reads, RandomSize(draws), seed, set(), {})
        reduce[name] = [CONVENTIONS[name](pair, asking) for pair in pairs]
        asked[name], distinct[name] = reads.n_asked - before, len(asking.used)
    many_sites = max(len(pair.sites) for pair in pairs) > MAX_SITES_ENUMERATED
    if many_sites and "joint" in conventions:
        notes.append(
            f"mutants of more than {MAX_SITES_ENUMERATED} sites: joint takes {draws} masks of random sizes, "
            "and joint-mixture is not computed"
        )
    lengths = [len(pair.mutant) - len(pair.wild_type) for pair in pairs]
    of_sums = tuple(conventions) if any(lengths) else ()  # indels leave only these in the list
    if of_sums:
        notes.append(
            f"{count(sum(map(bool, lengths)), 'mutant')} of {len(pairs):,} shorter or longer than the wild "
            f"type: {' and '.join(of_sums)} are sums over the residues, in which a deletion looks harmless; "
            f"{' and '.join(name + PER_RESIDUE for name in of_sums)}, mean minus mean, compares lengths"
        )
    with progress("scoring contexts", len(reads)) as advance:
        answers = reads.answers(Asker(model, _ROWS, advance=advance))
    scores: dict[str, Float64[np.ndarray, " N"]] = {}
    mask_se: dict[str, Float64[np.ndarray, " N"]] = {}
    for name, of_mutants in reduce.items():
        values = np.array([score(answers) for score in of_mutants]).reshape(-1, 4)
        drawn = name == "whole" or (name == "joint" and many_sites)
        for column, each in ((0, name), (2, name + PER_RESIDUE))[: 1 + (name in of_sums)]:
            scores[each] = values[:, column]
            if drawn:
                mask_se[each] = values[:, column + 1]
    plan = VariantPlan(asked, distinct, len(reads))
    unranked = of_sums if len(set(lengths)) > 1 else ()
    return VariantScores(tuple(mutants), scores, mask_se, plan, tuple(notes), unranked)


def _pairs(
    model: Any, wild_type: str, mutants: Sequence[str], conventions: Sequence[str], start: int
) -> tuple[list[Pair], list[str]]:
    """Check the arguments and encode each mutant with the wild type; with notes."""
    wild_type = "".join(wild_type.split())
    if isinstance(mutants, str) or not len(mutants):
        raise InputError("there is no list of mutants; give one with a mutant or more, such as ['A1P']")
    if not wild_type:
        raise InputError("the wild type has no letter; give its sequence")
    _check_model(model, conventions)
    parsed = parse_mutants(wild_type, mutants, start)
    for row, mutant in enumerate(parsed):
        others = [name for name in conventions if name not in OF_WHOLE_SEQUENCES]
        if mutant.sequence is not None and others:
            raise InputError(
                f"{place_of(row, None)}, {mutant.name[:40]!r}, is an insertion or deletion, and "
                f"{others[0]} compares residues at the same sites; ask for pll and whole alone, which "
                "compare sequences"
            )
    return pairs_of_mutants(model, wild_type, parsed)


def _check_model(model: Any, conventions: Sequence[str]) -> None:
    if isinstance(conventions, str) or not len(conventions):
        raise InputError(f"there is no list of conventions; give names among {', '.join(CONVENTIONS)}")
    for name in conventions:
        if name not in CONVENTIONS:
            raise unknown_name("convention", name, CONVENTIONS)
    if not isinstance(model, HasLogDistributions) or not callable(getattr(model, "tokens", None)):
        raise InputError(
            f"{type(model).__name__} does not predict single letters; give a masked language model with "
            f"its tokenizer"
        )
    if "unmasked" in conventions and not isinstance(model, HasUnmaskedLogDistributions):
        raise InputError(
            f"{type(model).__name__} has no unmasked_log_distributions, which the convention unmasked "
            "needs; leave it out"
        )


class Correlation(NamedTuple):
    """Spearman's rank correlation with its interval."""

    value: float  # the correlation
    low: float  # the lower end of its interval
    high: float  # the upper end
    n: int  # mutants with both numbers


def spearman(a: Float64[np.ndarray, " N"], b: Float64[np.ndarray, " N"]) -> float:
    """Spearman's rank correlation; ties get the mean of their ranks.

    Pairs with a NaN are left out. The result is NaN if all values of `a` or all values of `b` are equal.

    Example:
        >>> round(spearman(np.array([1.0, 2.0, 3.0, np.nan]), np.array([5.0, 9.0, 8.0, 1.0])), 4)
        0.5
    """
    from scipy.stats import rankdata

    both = ~(np.isnan(a) | np.isnan(b))
    x, y = (rankdata(values[both]) for values in (a, b))
    x, y = x - x.mean() if len(x) else x, y - y.mean() if len(y) else y
    scale = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / scale if scale else float("nan")


def spearman_interval(
    a: Float64[np.ndarray, " N"], b: Float64[np.ndarray, " N"], seed: int = 0
) -> Correlation:
    """Spearman's rank correlation with a 95 % percentile interval from the bootstrap over pairs.

    Source:
        Efron and Tibshirani (1993), An Introduction to the Bootstrap, Section 13.3.

    Example:
        >>> x = np.arange(40.0)
        >>> value, low, high, n = spearman_interval(x, x**2 - 5 * x)
        >>> 0.9 < low < value < high <= 1, n
        (True, 40)
    """
    both = ~(np.isnan(a) | np.isnan(b))
    n = int(both.sum())
    if n < MIN_PAIRS:
        raise InputError(f"{n} mutants have both numbers; a rank correlation needs {MIN_PAIRS} or more")
    a, b = a[both], b[both]
    if np.isnan(spearman(a, b)):
        raise InputError(f"for the {n} mutants with both numbers, one of the numbers never varies")
    rng = np.random.default_rng(seed)
    resampled = [spearman(a[rows], b[rows]) for rows in (rng.integers(n, size=n) for _ in range(RESAMPLES))]
    low, high = np.nanquantile(resampled, [0.025, 0.975])
    return Correlation(spearman(a, b), float(low), float(high), n)
