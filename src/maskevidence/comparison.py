"""Models compared on the same observations, by paired differences of their log evidence."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from maskevidence.comparability import check_comparable, in_same_tokens
from maskevidence.curve import Curve
from maskevidence.errors import InputError
from maskevidence.estimate import EvidenceEstimate, Kind
from maskevidence.pairing import Floats, Unit, paired_by
from maskevidence.standard_errors import Tails, interval_with_tails

Verdict = Literal["better", "proves nothing", "not told apart", "not known"]
LEVEL = 0.95
_DENSITIES = ("exact", "unbiased")


@dataclass(frozen=True)
class Difference:
    """The difference between the log evidence of two models on the same observations.

    Attributes:
        first: the model with the higher log evidence if `difference` is positive.
        second: the other model.
        unit: "nats per observation", or "nats per byte" if the models cut the text into different tokens.
        difference: mean over observations of (first - second), in this unit.
        mask_se: Monte-Carlo standard error of the masks, given these observations; None if not known.
        mask_df: its degrees of freedom; None if unknown or infinite.
        data_se: sampling standard error of the observations; None for a single one, and if it is not
            resolved beside mask_se. If mask_se is None, it includes the error of the masks, unless the masks
            are shared.
        pairing: "masks" if both models scored the same masks, otherwise "observations".
        masks_shared: whether all observations of a run had the same masks.
        win_share: share of the observations on which the first model is higher; ties count half.
        log_bayes_factor: the difference summed over these observations, nats, if both numbers belong to
            densities of the same data; otherwise None.
        log_bayes_factor_se: its Monte-Carlo standard error; None if not known.
        n_observations: number of observations.
        curve: the difference by mask size or rate, nats per masked token; None unless paired by masks.
        per_observation: shape (n_observations,); the differences whose mean is `difference`.
        kinds: the kinds of the two estimates.
        notes: what a reader needs to know, one sentence each.
        n_pairs: the number of pairs of models among which this is one, which widens its interval; 1 in a
            comparison of two models.
        tails: how far masks too rare to be drawn move the ends of the interval, per unit of -log(1 - level)
            (standard_errors.py), in `unit`.
        no_interval: why the difference has no interval; None if both estimates have one.
    """

    first: str
    second: str
    unit: Unit
    difference: float
    mask_se: float | None
    mask_df: float | None
    data_se: float | None
    pairing: Literal["masks", "observations"]
    masks_shared: bool
    win_share: float
    log_bayes_factor: float | None
    log_bayes_factor_se: float | None
    n_observations: int
    curve: Curve | None = field(repr=False)
    per_observation: Floats = field(repr=False)
    kinds: tuple[Kind, Kind]
    notes: tuple[str, ...] = ()
    n_pairs: int = 1
    tails: Tails = (0.0, 0.0)
    no_interval: str | None = None

    @property
    def standard_error(self) -> float | None:
        """√(mask_se² + data_se²), for the mean difference over the population of the observations.

        mask_se alone if data_se is not resolved beside it. None if the error is not known: for a single
        observation, and for shared masks without replicates, whose error is the same for all observations
        and therefore cannot be seen.
        """
        if self.per_observation.size == 1 or (self.mask_se is None and self.masks_shared):
            return None
        known = [error for error in (self.mask_se, self.data_se) if error is not None]
        return math.hypot(*known) if known else None

    def interval(self, level: float = LEVEL) -> tuple[float, float] | None:
        """Student's t interval of the difference, for masks and observations, its ends moved by `tails`.

        The degrees of freedom are those of Welch and Satterthwaite for the sum of the two variances. None
        without a standard error, and where an estimate has no interval.

        Args:
            level: nominal coverage, in (0, 1), of the intervals of all `n_pairs` pairs together; this one has
                1 - (1 - level) / n_pairs.

        Raises:
            InputError: the level is outside (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise InputError(f"level={level}; give a share in (0, 1), such as 0.95")
        se = self.standard_error
        if se is None or self.no_interval is not None:
            return None
        parts = [
            ((self.data_se or 0.0) ** 2, self.per_observation.size - 1),
            ((self.mask_se or 0.0) ** 2, self.mask_df),
        ]
        spread = sum(variance**2 / df for variance, df in parts if df)
        df = se**4 / spread if spread else None
        return interval_with_tails(self.difference, se, df, self.tails, self._level(level))

    def _level(self, level: float) -> float:
        return 1.0 - (1.0 - level) / self.n_pairs

    @property
    def log_bayes_factor_data_se(self) -> float | None:
        """Sampling standard error of such a sum over other observations; None where it is not known."""
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
        prove that its model is "better". An approximate number below any other "proves nothing", since the
        error of its conditionals is not in the interval.
        """
        if self.interval() is None:
            return "not known"
        if not self.excludes_zero:
            return "not told apart"
        higher, lower = self.kinds if self.difference > 0 else self.kinds[::-1]
        if lower == "approximate" or lower == "lower_bound" != higher:
            return "proves nothing"
        return "better"

    @property
    def told_apart(self) -> bool:
        """Whether one of the models is better: the verdict of the 95 % interval."""
        return self.verdict == "better"

    def __repr__(self) -> str:
        from maskevidence.display.comparison import difference_line

        return difference_line(self)

    def _repr_html_(self) -> str:
        """What the interval says, and the difference by mask size, for a notebook."""
        from maskevidence.display.comparison import difference_html

        return difference_html(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw the difference by mask size, or by observation if the masks differ; needs matplotlib.

        Args:
            ax: axes of matplotlib; by default those of a new figure.

        Returns:
            The axes.
        """
        from maskevidence.display.comparison import difference_plot

        return difference_plot(self, ax)

    def to_dict(self) -> dict[str, Any]:
        """The numbers in a form for JSON."""
        names = (
            "first second unit difference standard_error mask_se mask_df data_se pairing win_share "
            "log_bayes_factor log_bayes_factor_se n_observations told_apart verdict"
        )
        values = {name: getattr(self, name) for name in names.split()}
        interval, curve = self.interval(), None
        if self.curve is not None:
            points = zip(self.curve.size, self.curve.rate, self.curve.score, self.curve.mask_se, strict=True)
            names_of_point = ("size", "rate", "difference", "mask_se")
            curve = [
                {
                    name: None if math.isnan(x) else float(x)
                    for name, x in zip(names_of_point, point, strict=True)
                }
                for point in points
            ]
        return values | {
            "log_bayes_factor_data_se": self.log_bayes_factor_data_se,
            "interval_95": None if interval is None else list(interval),
            "interval_level": self._level(LEVEL),
            "by_rate": curve,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Comparison:
    """Several models on the same observations, the best one first.

    Attributes:
        names: names of the models, the best one first.
        unit: unit of `log_evidence` and of the differences.
        log_evidence: the log evidence of each model, in the order of `names`.
        behind: the differences between the best model and each other one, in the order of `names[1:]`. Their
            verdicts hold together: one or more of them is wrong with a probability of at most 5 %.
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
        """The difference between any two models, first minus second.

        Its interval holds together with those of `behind` if one of the two is the best model, otherwise with
        those of all pairs of models.

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
        """The notes on the comparison and on the differences from the best model, each one once."""
        differences = (note for difference in self.behind for note in difference.notes)
        return list(dict.fromkeys([*self.notes, *differences]))

    def __repr__(self) -> str:
        from maskevidence.display.comparison import comparison_line

        return comparison_line(self)

    def _repr_html_(self) -> str:
        """The ranking with the errors of the differences, for a notebook."""
        from maskevidence.display.comparison import comparison_html

        return comparison_html(self)

    def plot(self, ax: Any = None) -> Any:
        """Draw how far each model is behind the best one, with 95 % intervals; needs matplotlib.

        Args:
            ax: axes of matplotlib; by default those of a new figure.

        Returns:
            The axes.

        Raises:
            MissingExtraError: matplotlib is not installed.
        """
        from maskevidence.display.comparison import comparison_plot

        return comparison_plot(self, ax)

    def to_frame(self) -> Any:
        """A data frame of pandas with a row for each model, the best one first.

        `behind` is how far the best model is ahead, with its standard error and the ends of its 95 %
        interval, in the comparison's unit.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        from maskevidence.display.comparison import comparison_frame

        return comparison_frame(self)

    def to_arviz(self) -> dict[str, Any]:
        """The pointwise log evidence of each model, as ArviZ's `compare` reads it.

        `arviz_plots.plot_compare(arviz_stats.compare(comparison.to_arviz()))` draws the table. ArviZ's errors
        come from the spread over the observations alone: they lack the error of masks that are shared by all
        of them.

        Returns:
            An `ELPDData` for each model, best first; sums over the observations, nats.

        Raises:
            InputError: the models were compared per byte.
            MissingExtraError: ArviZ is not installed.
        """
        from maskevidence.display.arviz import elpd_by_model

        return elpd_by_model(self.unit, {name: self.estimates[name] for name in self.names})

    def to_dict(self) -> dict[str, Any]:
        """The numbers in a form for JSON."""
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
    subtracted mask by mask, Δ = (1/n) Σ_i Σ_k weight_ik (score_ik - score'_ik), and the errors are those of
    this one estimate. What is hard for both models cancels, so that Δ is known better than either of them.
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
        estimates = {str(place): estimate for place, estimate in enumerate(estimates, 1)}
    if len(estimates) < 2:
        raise InputError(f"{len(estimates)} estimate(s) given; give two or more to compare")
    notes = check_comparable(estimates)
    per_byte = per_byte or not in_same_tokens(estimates)
    if per_byte:
        without = [name for name, estimate in estimates.items() if estimate.n_bytes is None]
        if without:
            raise InputError(
                f"the estimates have different tokens, and {without[0]!r} does not know the bytes of its "
                "text; estimate all on the same tokens, or on text"
            )
    unit: Unit = "nats per byte" if per_byte else "nats per observation"
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


def difference_by_rows(names: tuple[str, str], values: tuple[Floats, Floats]) -> Difference:
    """The difference between two models with a closed form or an accurate integral, without masks.

    Args:
        names: of the models.
        values: the log evidence of each observation, nats, of both models.

    Example:
        >>> one, other = np.array([-1.0, -2.0, -1.5]), np.array([-1.5, -2.0, -2.5])
        >>> difference = difference_by_rows(("a", "b"), (one, other))
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
        mask_df=None,
        data_se=float(each.std(ddof=1) / math.sqrt(n)) if n > 1 else None,
        pairing="observations",
        masks_shared=False,
        win_share=float((each > 0).mean() + (each == 0).mean() / 2),
        log_bayes_factor=None,
        log_bayes_factor_se=None,
        n_observations=n,
        curve=None,
        per_observation=each,
        kinds=("exact", "exact"),
    )


def held_together(behind: Sequence[Difference]) -> tuple[Difference, ...]:
    """The same differences, with the number of pairs of models that each verdict has to hold for.

    The best model is chosen by the same data, so that with K equal models any of the K (K - 1)/2 pairs may
    become one of the best and another. Each verdict therefore has the level 1 - 0.05 / (K (K - 1)/2). The
    models that are told apart from the best one are then left out of K, and the rest are tested again, until
    no further model is told apart (after Holm 1979). Under these levels, the probability of one false verdict
    or more is at most 5 % (measured in benchmarks/comparison.py).
    """
    differences, remaining = list(behind), list(range(len(behind)))
    while remaining:
        n_pairs = math.comb(len(remaining) + 1, 2)
        for place in remaining:
            differences[place] = replace(differences[place], n_pairs=n_pairs)
        close = [place for place in remaining if not differences[place].excludes_zero]
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
    paired, common = paired_by(a, b, unit)
    notes = []
    if unit == "nats per byte":
        notes.append("compared per byte of text only, since the models cut it into different tokens")
        if a.n_bytes != b.n_bytes:
            notes.append(
                f"the tokens of {first} stand for {a.n_bytes:,} bytes, of {second} for {b.n_bytes:,}"
            )
    elif common is None:
        notes.append(
            f"{first} and {second} have other masks (design, seed or number): paired by observation "
            "only, which makes the error larger"
        )
    elif common.in_words is not None:
        notes.append(f"{first} and {second} have different numbers of masks: {common.in_words}")
    if paired.mask_se is None:
        notes.append("the masks' error is not known; give each run more masks per observation")
    blind = [name for name, one in ((first, a), (second, b)) if one.mask_se == 0 and one.no_interval]
    no_interval = None
    if blind:
        no_interval = f"the error of the conditionals of {' and '.join(blind)} is not known"
        notes.append(f"the difference between {first} and {second} has no interval: {no_interval}")
    densities = a.kind in _DENSITIES and b.kind in _DENSITIES and unit == "nats per observation"
    n = a.n_observations
    sign = np.sign(paired.per_observation)
    return Difference(
        first=first,
        second=second,
        unit=unit,
        **paired._asdict(),
        pairing="observations" if common is None else "masks",
        masks_shared="shared" in (a.masks, b.masks),
        win_share=float((sign > 0).mean() + (sign == 0).mean() / 2),
        log_bayes_factor=n * paired.difference if densities else None,
        log_bayes_factor_se=n * paired.mask_se if densities and paired.mask_se is not None else None,
        n_observations=n,
        kinds=(a.kind, b.kind),
        notes=tuple(notes),
        no_interval=no_interval,
    )
