"""Compare models on the same observations by paired differences of their log evidence."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Float64, Integer

from maskevidence.core.comparing.along_rates import notes_on_rates, turns, with_turns
from maskevidence.core.comparing.comparable import check_comparable, in_same_tokens, same_data
from maskevidence.core.comparing.pairing import Pairing, Unit, paired_by
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.conditional_gains import ORDERS_DIFFER
from maskevidence.core.evidence.curve import Curve, curve_lines
from maskevidence.core.evidence.result import EstimateKind, EvidenceEstimate, EvidenceOfRows
from maskevidence.core.evidence.standard_errors import (
    Tails,
    df_of_sum,
    interval_with_tails,
    variances_with_df,
)
from maskevidence.core.show import words
from maskevidence.core.show.arviz import elpd_data
from maskevidence.core.show.parts import Page, Part, Table, Value, ValueRows
from maskevidence.core.show.pictures import Histogram, Lines
from maskevidence.core.show.shown import Columns, Shown

Verdict = Literal["better", "proves nothing", "not told apart", "not known"]
LEVEL = 0.95
_DENSITIES = ("exact", "unbiased")
_NAMED = 3  # most observations named as deciding a comparison
_LEGEND: dict[Verdict, tuple[str, int]] = {  # words for the legend, and the index of colour and mark
    "better": ("behind the best model", 1),
    "not told apart": ("cannot be told apart from it", 0),
    "proves nothing": ("the order proves nothing", 3),
    "not known": ("the error is not known", 3),
}


@dataclass(frozen=True, repr=False)
class Difference(Shown):
    """The difference between the log evidence of two models on the same observations.

    Attributes:
        first: the model with the higher log evidence if `difference` is positive.
        second: the other model.
        unit: "nats per observation", or "nats per byte" if the models cut the text into different tokens.
        difference: mean over observations of (first - second), in this unit.
        mask_se: Monte-Carlo standard error of the masks, given these observations; None if not known.
        mask_df: its degrees of freedom; None if unknown or infinite.
        data_se: sampling standard error of the observations; None for a single observation, and if mask_se is
            too large to resolve it. If mask_se is None, it includes the error of the masks, unless the masks
            are shared.
        pairing: "masks" if both models scored the same masks, otherwise "observations".
        masks_shared: whether all observations of a run had the same masks.
        log_bayes_factor: the difference summed over these observations, nats, if both numbers belong to
            densities of the same data; otherwise None.
        log_bayes_factor_se: its Monte-Carlo standard error; None if not known.
        n_observations: number of observations.
        curve: the difference by mask size or rate, nats per masked token; None unless paired by masks.
        per_observation: shape (n_observations,); the differences whose mean is `difference`.
        kinds: the kinds of the two estimates.
        notes: what a reader needs to know, one sentence each.
        n_pairs: the number of pairs of models that are compared together, which widens the interval; 1 in a
            comparison of two models.
        tails: how far masks too rare to be drawn move the ends of the interval, per unit of -log(1 - level)
            (standard_errors.py), in `unit`.
        no_interval: why the difference has no interval; None if both estimates have intervals.
        apart: why the order proves nothing although the interval excludes zero; None if it is not known to.
        turns: the rates at which the difference changes its sign; only of learned conditionals, for which
            two models can change places.
        integral_error: how far approximate numbers may be from the integrals behind them, by which the
            interval is wider on both sides; None if that is not known.
        whole: whether the observation is a whole data set (`evidence_of_rows`) and no sample of others: the
            error is then the masks' error.
    """

    first: str
    second: str
    unit: Unit
    difference: float
    mask_se: float | None
    data_se: float | None
    n_observations: int
    per_observation: Float64[np.ndarray, " n_observations"] = field(repr=False)
    kinds: tuple[EstimateKind, EstimateKind]
    mask_df: float | None = None
    pairing: Pairing = "observations"
    masks_shared: bool = False
    log_bayes_factor: float | None = None
    log_bayes_factor_se: float | None = None
    curve: Curve | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()
    n_pairs: int = 1
    tails: Tails = (0.0, 0.0)
    no_interval: str | None = None
    apart: str | None = None
    whole: bool = False
    turns: tuple[float, ...] = ()
    integral_error: float | None = None

    @property
    def win_share(self) -> float:
        """Share of the observations on which the first model is higher; ties count half."""
        return float((self.per_observation > 0).mean() + (self.per_observation == 0).mean() / 2)

    @property
    def standard_error(self) -> float | None:
        """√(mask_se² + data_se²), the standard error of the mean difference over the population.

        mask_se alone if it is too large to resolve data_se. None if the error is not known: for a single
        observation, and for shared masks without replicates, whose error is the same for all observations
        and therefore cannot be seen. For a `whole` data set it is mask_se.
        """
        if self.whole:
            return self.mask_se
        if self.per_observation.size == 1 or (self.mask_se is None and self.masks_shared):
            return None
        errors = [error for error in (self.mask_se, self.data_se) if error is not None]
        return math.hypot(*errors) if errors else None

    def interval(self, level: float = LEVEL) -> tuple[float, float] | None:
        """Student's t interval of the difference for masks and observations, widened by `tails`.

        The degrees of freedom are those of Welch and Satterthwaite for the sum of the observations' spread,
        which has n - 1, and of what masks add to it that the observations share. None without a standard
        error, and where an estimate has no interval.

        Args:
            level: nominal coverage, in (0, 1), of the intervals of all `n_pairs` pairs together; the level of
                this interval is 1 - (1 - level) / n_pairs.

        Raises:
            InputError: the level is outside (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise InputError(f"level={level}; give a share in (0, 1), such as 0.95")
        se = self.standard_error
        if se is None or self.no_interval is not None:
            return None
        df = df_of_sum(variances_with_df(self.per_observation, se, self.mask_df))
        low, high = interval_with_tails(self.difference, se, df, self.tails, self._level(level))
        return low - (self.integral_error or 0.0), high + (self.integral_error or 0.0)

    def _level(self, level: float) -> float:
        return 1.0 - (1.0 - level) / self.n_pairs

    @property
    def log_bayes_factor_data_se(self) -> float | None:
        """Sampling standard error of `log_bayes_factor` over new observations; None if not known."""
        if self.log_bayes_factor is None or self.data_se is None:
            return None
        return self.n_observations * self.data_se

    @property
    def excludes_zero(self) -> bool:
        """Whether the 95 % interval is known and does not contain zero."""
        interval = self.interval()
        return interval is not None and not interval[0] <= 0.0 <= interval[1]

    @property
    def verdict(self) -> Verdict:
        """What the 95 % interval says about the two models.

        A lower bound that lies below the evidence of another model "proves nothing", since the evidence
        behind it may be the larger one. A lower bound that lies above the evidence of another model does
        prove that its model is "better". An approximate number below any other "proves nothing", unless
        the error of its integral is known and in the interval; nor does an order per byte of tokens that
        spell different texts prove anything.
        """
        if self.interval() is None:
            return "not known"
        if not self.excludes_zero:
            return "not told apart"
        higher, lower = self.kinds if self.difference > 0 else self.kinds[::-1]
        unknown = lower == "approximate" and self.integral_error is None
        if self.apart or unknown or lower == "lower_bound" != higher:
            return "proves nothing"
        return "better"

    @property
    def told_apart(self) -> bool:
        """Whether the verdict is "better": the 95 % interval tells the two models apart."""
        return self.verdict == "better"

    def page(self) -> Page:
        """The verdict, and the difference by mask size."""
        digits, names = self._digits, f"{self.first} minus {self.second}"
        line = words.plus_minus(self.difference, self.standard_error, digits, words.number)
        error = words.plus_minus(self.difference, self.standard_error, digits)
        said = "worse" if self.told_apart and self.difference < 0 else self.verdict
        unit = self._unit
        parts: list[Part] = [f"{names}: {error} {unit}."]
        parts += [] if self.curve is None else [self.picture()[0]]
        return Page(
            f"Difference({names}: {line} {unit}, {said})",
            f"{verdict(self, digits)}.",
            parts=parts,
            notes=self.notes,
        )

    def picture(self) -> tuple[Lines | Histogram, str]:
        """The difference by mask size; without common masks, a histogram of the observations' differences."""
        names, title = f"{self.first} minus {self.second}", f"{verdict(self, self._digits)}."
        if self.curve is not None:
            lines = curve_lines({names: self.curve}, "difference of the scores", zero=True)
            return with_turns(lines, {names: self.turns}), title
        return Histogram(self.per_observation, f"{names}  ({self._unit})", zero=True), title

    @property
    def _unit(self) -> str:
        return self.unit.replace("observation", "data set") if self.whole else self.unit

    @property
    def _digits(self) -> int:
        return words.digits_for(self.mask_se, self.data_se)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        names = (
            "first second unit difference standard_error mask_se mask_df data_se pairing win_share "
            "log_bayes_factor log_bayes_factor_se n_observations told_apart verdict"
        )
        values = {name: getattr(self, name) for name in names.split()}
        interval, curve = self.interval(), None
        if self.curve is not None:
            names_of_point = ("size", "rate", "difference", "mask_se")
            points = zip(self.curve.size, self.curve.rate, self.curve.score, self.curve.mask_se, strict=True)
            numbers = ([None if math.isnan(x) else float(x) for x in point] for point in points)
            curve = [dict(zip(names_of_point, point, strict=True)) for point in numbers]
        return values | {
            "log_bayes_factor_data_se": self.log_bayes_factor_data_se,
            "interval_95": None if interval is None else list(interval),
            "interval_level": self._level(LEVEL),
            "by_rate": curve,
            "notes": list(self.notes),
        }


@dataclass(frozen=True, repr=False)
class Comparison(Shown):
    """A comparison of several models on the same observations, best first.

    Attributes:
        names: names of the models, the best one first.
        unit: unit of `log_evidence` and of the differences.
        log_evidence: the log evidence of each model, in the order of `names`.
        behind: the differences between the best model and each other model, in the order of `names[1:]`. The
            probability that one or more of their verdicts are wrong is at most 5 %.
        notes: what a reader needs to know about the comparison as a whole, one sentence each.
        estimates: the estimates by name.
    """

    names: tuple[str, ...]
    unit: Unit
    log_evidence: tuple[float, ...]
    behind: tuple[Difference, ...]
    notes: tuple[str, ...]
    estimates: Mapping[str, EvidenceEstimate] = field(repr=False)

    def between(self, first: str, second: str) -> Difference:
        """Return the difference between any two models, first minus second.

        Its interval holds together with the intervals of `behind` if one of the two is the best model,
        otherwise with the intervals of all pairs of models.

        Raises:
            InputError: the name of a model that was not compared.
        """
        for name in (first, second):
            if name not in self.estimates:
                raise InputError(f"{name!r} was not compared; these were: {', '.join(self.names)}")
        best = self.names[0]
        n_pairs = math.comb(len(self.names), 2)
        if best in (first, second) and first != second:
            other = second if first == best else first
            n_pairs = self.behind[self.names.index(other) - 1].n_pairs
        return replace(_difference(first, second, self.estimates, self.unit), n_pairs=n_pairs)

    def all_notes(self) -> list[str]:
        """All notes on the comparison and on its differences, without repetitions."""
        differences = (note for difference in self.behind for note in difference.notes)
        return list(dict.fromkeys([*self.notes, *self._apart(), *differences]))

    def _apart(self) -> list[str]:
        """A note if a paired difference visibly departs from the difference of the two numbers."""
        unit, digits = 10.0**-self._digits, self._digits
        for value, each in zip(self.log_evidence[1:], self.behind, strict=True):
            numbers = value - self.log_evidence[0]
            numbers = -numbers if each.first == self.names[0] else numbers
            if abs(numbers - each.difference) > unit:
                return [
                    f"{each.first} minus {each.second} is {words.number(each.difference, digits)} and not "
                    f"{words.number(numbers, digits)}, as the two numbers alone give: mask sizes explain a "
                    "part of each score, which is estimated for the differences by themselves, with less "
                    "error; quote the difference for which is better, and a number for a model alone"
                ]
        return []

    def page(self, noun: str | None = None) -> Page:
        """The conclusion, the ranking with the errors of the differences, and a picture of the differences.

        Args:
            noun: what an observation is; by default as the estimates call it.
        """
        noun = self.estimates[self.names[0]].noun if noun is None else noun
        digits = self._digits
        behind = [
            words.plus_minus(each.difference, each.standard_error, digits, words.number)
            for each in self.behind
        ]
        named = zip(self.behind, behind, strict=True)
        rest = ", ".join(f"{each.second} {by} ({_standing(each)})" for each, by in named)
        best = f"{self.names[0]} {words.number(self.log_evidence[0], digits)}"
        columns, rows = ranking(self, digits)
        verdicts = ["best", *map(_standing, self.behind)]
        rows = [[name, said, *cells] for (name, *cells), said in zip(rows, verdicts, strict=True)]
        best_model = self.estimates[self.names[0]]
        names = best_model.ids if best_model.labels is None else best_model.labels
        decided = filter(None, (decided_by_few(each, names, noun) for each in self.behind))
        headline, lead = answer(self, noun)
        return Page(
            f"Comparison({best} {self.unit.replace('observation', noun)}; behind it {rest})",
            headline,
            parts=[
                lead,
                Table([columns[0], "verdict", *columns[1:]], rows, words=(0, 1)),
                self._distances(noun),
                "± of a run's own number is the error of its masks, of a difference that of masks and data. "
                f"Wins: the share of the {noun}s on which the model is higher than the best one.",
            ],
            notes=[*decided, *self.all_notes()],
        )

    def picture(self) -> tuple[ValueRows, str]:
        """The distance of each model from the best one, with its interval."""
        return self._distances("observation"), answer(self)[0]

    def _distances(self, noun: str) -> ValueRows:
        values = [Value(self.names[0], 0.0, group="the best model", number=2)]
        for each in self.behind:
            group, mark = _LEGEND[each.verdict]
            values.append(Value(each.second, each.difference, each.interval(), group=group, number=mark))
        several = "simultaneous " if len(self.behind) > 1 else ""
        bars = f"Bars are {several}95 % intervals, for masks and data."
        unit = self.unit.replace("observation", noun)
        return ValueRows(values, f"behind the best model  ({unit})", True, bars)

    def columns(self) -> Columns:
        """One row per model, best first.

        `behind` is how far the best model is ahead, with its standard error and the ends of its 95 %
        interval, in the comparison's unit.
        """
        behind, nan = self.behind, math.nan
        intervals = [each.interval() or (nan, nan) for each in behind]
        errors = (each.standard_error for each in behind)
        values = {
            "log_evidence": self.log_evidence,
            "behind": [0.0, *(each.difference for each in behind)],
            "standard_error": [nan, *(nan if error is None else error for error in errors)],
            "low": [nan, *(low for low, _ in intervals)],
            "high": [nan, *(high for _, high in intervals)],
            "wins": [nan, *(1 - each.win_share for each in behind)],
            "verdict": ["best", *map(_standing, behind)],
            "kind": [behind[0].kinds[0], *(each.kinds[1] for each in behind)],
            "unit": [self.unit] * len(self.names),
        }
        return Columns(values, list(self.names), "model")

    @property
    def _digits(self) -> int:
        return words.digits_for(*(each.standard_error for each in self.behind))

    def to_arviz(self) -> dict[str, Any]:
        """Return the pointwise log evidence of each model in the form that ArviZ's `compare` takes.

        `arviz_plots.plot_compare(arviz_stats.compare(comparison.to_arviz()))` draws the table. ArviZ's errors
        come from the spread over the observations alone: they lack the error of masks that are shared by all
        of them.

        Returns:
            An `ELPDData` for each model, best first; sums over the observations, nats.

        Raises:
            InputError: the models were compared per byte.
            MissingExtraError: ArviZ is not installed.
        """
        if self.unit != "nats per observation":
            raise InputError(
                f"the models were compared in {self.unit}, and ArviZ compares sums over observations; use "
                "to_frame()"
            )
        ranked = {name: self.estimates[name] for name in self.names}
        return {name: elpd_data(each.per_observation, each.ids) for name, each in ranked.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        return {
            "unit": self.unit,
            "ranking": [
                {
                    "name": name,
                    "log_evidence": value,
                    "kind": self.estimates[name].kind,
                    "base_measure": self.estimates[name].base_measure,
                }
                for name, value in zip(self.names, self.log_evidence, strict=True)
            ],
            "differences": [difference.to_dict() for difference in self.behind],
            "notes": list(self.notes),
        }


def compare(
    estimates: Mapping[str, EvidenceEstimate] | Sequence[EvidenceEstimate], *, per_byte: bool = False
) -> Comparison:
    """Rank models by their log evidence on the same observations, with the errors of their differences.

    Two estimates with the same design, seed and observations have the same masks: their scores are
    subtracted mask by mask, Δ = (1/n) Σ_i Σ_k weight_ik (score_ik - score'_ik), and the errors are
    computed for this difference. What is hard for both models cancels, so that Δ has a smaller error than
    either estimate.
    If one has more masks than the other, as `Precise` may draw, the masks that both have are subtracted
    where that is better (pairing.py). Otherwise the estimates are subtracted observation by observation.

    Args:
        estimates: estimates by name, or a sequence of estimates, which get the names "1", "2", ...
        per_byte: compare per byte of text. This is always done if observations differ in tokens, because the
            models cut the same text in different ways.

    Raises:
        InputError: fewer than two estimates, different observations, or observations that differ in tokens
            and are not text.

    Example:
        >>> import maskevidence as me
        >>> truth = me.models.PPCA(n_features=6, n_components=2)
        >>> x = truth.sample(200, seed=1)
        >>> fits = {f"ppca:{k}": me.models.PPCA(6, k).fit(x) for k in (1, 2)}
        >>> result = me.compare({name: me.estimate_evidence(fit, x) for name, fit in fits.items()})
        >>> result.names, result.behind[0].told_apart
        (('ppca:2', 'ppca:1'), True)
    """
    if not isinstance(estimates, Mapping):
        estimates = {str(k): estimate for k, estimate in enumerate(estimates, 1)}
    if len(estimates) < 2:
        raise InputError(f"{words.count(len(estimates), 'estimate')} given; give two or more to compare")
    notes = check_comparable(estimates)
    notes += [
        f"{name}: {note}"
        for name, estimate in estimates.items()
        for note in estimate.notes
        if note.startswith(ORDERS_DIFFER)
    ]
    unit = _common_unit(estimates, per_byte=per_byte)
    value = {name: _mean(estimate, unit) for name, estimate in estimates.items()}
    names = tuple(sorted(value, key=lambda name: -value[name]))
    if len(names) > 2:
        notes.append(
            f"the {len(names) - 1} verdicts hold together at {100 * LEVEL:.0f} % (step-down Bonferroni over "
            "the pairs of models that are not yet told apart from the best one)"
        )
    return Comparison(
        names=names,
        unit=unit,
        log_evidence=tuple(value[name] for name in names),
        behind=held_together([_difference(names[0], other, estimates, unit) for other in names[1:]]),
        notes=tuple(notes),
        estimates=dict(estimates),
    )


def _common_unit(estimates: Mapping[str, EvidenceEstimate], *, per_byte: bool) -> Unit:
    """Nats per byte if `per_byte` or if the estimates score different tokens, else nats per observation."""
    if not per_byte and in_same_tokens(estimates):
        return "nats per observation"
    without = [name for name, estimate in estimates.items() if estimate.n_bytes is None]
    if without:
        raise InputError(
            f"the estimates have different tokens, and {without[0]!r} does not know the bytes of its "
            "text; estimate all on the same tokens, or on text"
        )
    return "nats per byte"


def difference_by_rows(
    names: tuple[str, str],
    values: tuple[Float64[np.ndarray, " n_observations"], Float64[np.ndarray, " n_observations"]],
) -> Difference:
    """Compare two models that have closed forms or accurate integrals, without masks.

    Example:
        >>> a, b = np.array([-1.0, -2.0, -1.5]), np.array([-1.5, -2.0, -2.5])
        >>> difference = difference_by_rows(("a", "b"), (a, b))
        >>> difference.difference, round(difference.data_se, 3), difference.mask_se
        (0.5, 0.289, 0.0)
    """
    each = values[0] - values[1]
    n = len(each)
    return Difference(
        first=names[0],
        second=names[1],
        unit="nats per observation",
        difference=float(each.mean()),
        mask_se=0.0,
        data_se=float(each.std(ddof=1) / math.sqrt(n)) if n > 1 else None,
        n_observations=n,
        per_observation=each,
        kinds=("exact", "exact"),
    )


def held_together(behind: Sequence[Difference]) -> tuple[Difference, ...]:
    """Set each difference's number of pairs so that all verdicts hold together.

    The best model is chosen by the same data, so that with K equal models any of the K (K - 1)/2 pairs may
    become one of the best and another. Each verdict therefore has the level 1 - 0.05 / (K (K - 1)/2). The
    models that are told apart from the best one are then left out of K, and the rest are tested again, until
    no further model is told apart (after Holm 1979). Under these levels, the probability of one false verdict
    or more is at most 5 % (measured in benchmarks/comparison.py).
    """
    differences, remaining = list(behind), list(range(len(behind)))
    while remaining:
        n_pairs = math.comb(len(remaining) + 1, 2)
        for k in remaining:
            differences[k] = replace(differences[k], n_pairs=n_pairs)
        close = [k for k in remaining if not differences[k].excludes_zero]
        if len(close) == len(remaining):
            break
        remaining = close
    return tuple(differences)


def _mean(estimate: EvidenceEstimate, unit: Unit) -> float:
    if unit == "nats per observation" or estimate.n_bytes is None:
        return estimate.log_evidence
    return estimate.log_evidence * estimate.n_observations / estimate.n_bytes


def _difference(first: str, second: str, estimates: Mapping[str, EvidenceEstimate], unit: Unit) -> Difference:
    a, b = estimates[first], estimates[second]
    paired, of_masks = paired_by(a, b, unit)
    notes = [] if of_masks is None else [f"{first} and {second} {of_masks}"]
    if unit == "nats per byte":
        notes = ["compared per byte of text only, since the models cut it into different tokens"]
        if a.n_bytes != b.n_bytes:
            notes.append(
                f"the tokens of {first} stand for {a.n_bytes:,} bytes, of {second} for {b.n_bytes:,}"
            )
    if paired.mask_se is None:
        notes.append("the masks' error is not known; give each run more masks per observation")
    blind = [
        name for name, estimate in ((first, a), (second, b)) if estimate.mask_se == 0 and estimate.no_interval
    ]
    no_interval = None
    if blind:
        no_interval = f"the error of the conditionals of {' and '.join(blind)} is not known"
        notes.append(f"the difference between {first} and {second} has no interval: {no_interval}")
    apart = None
    if unit == "nats per byte" and same_data(a.spelled_fingerprint, b.spelled_fingerprint) is False:
        apart = "the tokens of one lose more of the text (capital letters, accents, blanks), which favours it"
        notes.append(f"per byte, {first} and {second} have no order: {apart}")
    curve, changes = paired.curve, tuple[float, ...]()
    if curve is not None and len(curve.rate) > 1 and "learned" in (a.conditionals, b.conditionals):
        notes += notes_on_rates(curve, first, second)
        changes = turns(curve)
    densities = a.kind in _DENSITIES and b.kind in _DENSITIES and unit == "nats per observation"
    n = a.n_observations
    return Difference(
        first=first,
        second=second,
        unit=unit,
        **paired._asdict(),
        masks_shared="shared" in (a.masks, b.masks),
        log_bayes_factor=n * paired.difference if densities else None,
        log_bayes_factor_se=n * paired.mask_se if densities and paired.mask_se is not None else None,
        n_observations=n,
        kinds=(a.kind, b.kind),
        notes=tuple(notes),
        no_interval=no_interval,
        apart=apart,
        whole=isinstance(a, EvidenceOfRows) and isinstance(b, EvidenceOfRows),
        turns=changes,
    )


def answer(comparison: Comparison, noun: str = "observation") -> tuple[str, str]:
    """Say which model is best and by how much, or which models cannot be told apart.

    Returns:
        The best model and those that cannot be told apart from it; its lead, with the error.

    Example:
        >>> import maskevidence as me
        >>> x = me.models.PPCA(n_features=6, n_components=2, seed=1).sample(200)
        >>> models = {f"ppca:{k}": me.models.PPCA(n_features=6, n_components=k).fit(x) for k in (1, 2)}
        >>> compared = me.compare({n: me.estimate_evidence(m, x) for n, m in models.items()})
        >>> headline, words = answer(compared, "row")
        >>> headline
        'ppca:2 has the highest log evidence; it is better than ppca:1'
        >>> "nats per row ahead of ppca:1, 95 % interval" in words
        True
    """
    best, behind = comparison.names[0], comparison.behind
    ties = [each for each in behind if each.verdict == "not told apart"]
    unknown = [each for each in behind if each.verdict in ("proves nothing", "not known")]
    statements = []
    if ties:
        statements.append(f"{_listed(ties)} cannot be told apart from it")
    if unknown:
        statements.append(f"nothing is known about {_listed(unknown)}")
    if not statements:
        others = {1: behind[0].second, 2: "both others"}.get(len(behind), f"all {len(behind)} others")
        statements.append(f"it is better than {others}")
    headline = (
        f"{best} has the highest {common_name(comparison.estimates.values())}; {', and '.join(statements)}"
    )
    nearest = (unknown or ties or behind)[0]
    digits = words.digits_for(nearest.standard_error)
    if unknown:
        return headline, f"{verdict(nearest, digits, noun)}."
    by = words.plus_minus(nearest.difference, nearest.standard_error, digits)
    unit = comparison.unit.replace("observation", noun)
    interval = nearest.interval()
    simultaneous = "simultaneous " if nearest.n_pairs > 1 else ""
    between = ""
    if interval is not None:
        sides = words.wider(interval[0], nearest.difference, interval[1], digits)
        between = f", {simultaneous}{words.interval_95(*interval, digits)}{sides}"
    lead = f"{by} {unit} ahead of {nearest.second}{between}."
    if ties and (rest := len(behind) - len(ties)):
        lead += f" It is better than {'the other model' if rest == 1 else f'the other {rest} models'}."
    return headline, lead


def common_name(estimates: Iterable[EvidenceEstimate]) -> str:
    """The common name of estimates, such as "log evidence"; "number" if they have different names.

    Example:
        >>> common_name([])
        'number'
    """
    names = {words.evidence_name(estimate.kind, estimate.design["name"]) for estimate in estimates}
    return names.pop() if len(names) == 1 else "number"


def ranking(comparison: Comparison, digits: int) -> tuple[list[str], list[list[str]]]:
    """The table of a comparison, best model first: headings and rows."""
    name = common_name(comparison.estimates.values())

    def own(name: str, value: float) -> str:
        estimate = comparison.estimates[name]
        same = math.isclose(estimate.log_evidence, value, rel_tol=1e-9)  # and not per byte, or in closed form
        return words.plus_minus(value, (estimate.mask_se or None) if same else None, digits)

    rows = [[comparison.names[0], own(comparison.names[0], comparison.log_evidence[0]), "best", ""]]
    for value, difference in zip(comparison.log_evidence[1:], comparison.behind, strict=True):
        behind = words.plus_minus(difference.difference, difference.standard_error, digits)
        wins = f"{words.typeset(100 * (1 - difference.win_share), 0)} %"
        rows.append([difference.second, own(difference.second, value), behind, wins])
    columns = ["run", name, "behind best", "wins"]
    if name == "number":  # the kinds differ
        columns.append("which is")
        for row in rows:
            estimate = comparison.estimates[row[0]]
            row.append(words.evidence_name(estimate.kind, estimate.design["name"]))
    return columns, rows


def decided_by_few(
    difference: Difference, names: Sequence[object] | Integer[np.ndarray, " N"], noun: str = "observation"
) -> str | None:
    """Name the few observations that put a model ahead although it is lower on most; None otherwise.

    They are the fewest observations without which the model would not be ahead.

    Args:
        names: the names of the observations, in the order of `difference.per_observation`.
    """
    sign = 1.0 if difference.difference > 0 else -1.0
    ahead, other = (difference.first, difference.second)[:: int(sign)]
    wins = difference.win_share if sign > 0 else 1.0 - difference.win_share
    gains = sign * difference.per_observation
    if wins >= 0.5 or len(gains) < 2:
        return None
    order = np.argsort(-gains, kind="stable")
    few = int(np.count_nonzero(np.cumsum(gains[order]) < gains.sum())) + 1
    digits, unit = (1, "nats") if difference.unit == "nats per observation" else (3, difference.unit)
    listed = [f"{names[k]} by {words.typeset(float(gains[k]), digits)}" for k in order[: min(few, _NAMED)]]
    more = f" and {few - _NAMED:,} more" if few > _NAMED else ""
    share = words.typeset(100 * (1 - wins), 0)
    return (
        f"{other} is higher on {share} % of the {noun}s; {ahead} is ahead because of {few:,} of "
        f"{len(gains):,}: {', '.join(listed)} {unit}{more}"
    )


def verdict(difference: Difference, digits: int, noun: str = "observation") -> str:
    """One sentence: which model is better, or that the two cannot be told apart."""
    first, second, interval = difference.first, difference.second, difference.interval()
    if interval is None:
        why = difference.no_interval or "the error is not known"
        return f"{first} and {second} cannot be told apart: {why}"
    between = f"{words.interval_95(*interval, digits)} {difference.unit.replace('observation', noun)}"
    if difference.n_pairs > 1:
        between = f"simultaneous {between}"
    sides = words.wider(interval[0], difference.difference, interval[1], digits)
    if difference.told_apart:
        return f"{first} is better than {second}: {between}{sides}"
    if difference.verdict == "proves nothing":
        lower, kind = (
            (second, difference.kinds[1]) if difference.difference > 0 else (first, difference.kinds[0])
        )
        why = f"{lower} is a lower bound on a log evidence that may be larger"
        if kind == "approximate":
            why = f"the error of {lower}'s approximate conditionals is not in this interval"
        why = difference.apart or why
        differ = f"{first} and {second} differ: {between}{sides}"
        return f"{differ}, but their order proves nothing, since {why}"
    return f"{first} and {second} cannot be told apart: {between}, which contains zero{sides}"


def _standing(difference: Difference) -> str:
    """The verdict on a model other than the best, as tables show it."""
    return "behind" if difference.verdict == "better" else difference.verdict


def _listed(differences: Sequence[Difference]) -> str:
    names = [each.second for each in differences]
    if len(names) > 4:
        return f"{', '.join(names[:3])} and {len(names) - 3} others"
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
