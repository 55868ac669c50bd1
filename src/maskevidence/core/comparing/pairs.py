"""Compare pairs of texts under one model: which text is more probable; undecided pairs are ties."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.core.comparing.comparable import check_same_quantity
from maskevidence.core.comparing.comparison import LEVEL
from maskevidence.core.errors import InputError
from maskevidence.core.evidence.result import EvidenceEstimate
from maskevidence.core.evidence.score_means import (
    contributions,
    curves_of,
    drawn_together,
    errors_of_sums,
    summation_of,
)
from maskevidence.core.evidence.standard_errors import (
    ErrorSums,
    MeanWithErrors,
    df_of_sum,
    interval_with_tails,
    student_t_quantile,
    t_half_widths,
    tails_of_each,
    variances_with_df,
)
from maskevidence.core.scores.record import Scores, ScoreTable
from maskevidence.core.show import words
from maskevidence.core.show.parts import Page, Part, Table, Value, ValueRows
from maskevidence.core.show.pictures import Histogram
from maskevidence.core.show.shown import Columns, Shown

# Upper limit of the rounding differences between calls: nats per token, and for half precision nats per
# square root of the number of tokens, as their errors are independent. Under a small BERT with large
# weights, equal sentences differ by up to 0.02 of these in bfloat16.
_ROUNDING = 1e-5
_IN_HALF = {"bfloat16": 0.05, "float16": 0.006}
MOST_SHOWN = 20


@dataclass(frozen=True, repr=False)
class TextPairs(Shown):
    """Pairs of texts under one model, such as a good and a bad sentence each.

    A pair is a tie if the 95 % interval of its difference, for the error of the masks, contains 0, and if the
    two numbers are equal up to rounding. The few masks of a pair may have met none of the rare bad ones: the
    ends of its interval are moved by the error of these over all pairs. No tie is decided by the order of
    the texts: each counts half.
    """

    names: tuple[str, str]  # names of the two sets of texts
    labels: tuple[str, ...]  # the label of each pair, or its id
    # log p of the first text minus that of the second, nats
    difference: Float64[np.ndarray, " n_pairs"] = field(repr=False)
    # 0 if every mask was scored; NaN if not known, which makes the pair a tie
    mask_se: Float64[np.ndarray, " n_pairs"] = field(repr=False)
    mask_df: Float64[np.ndarray, " n_pairs"] = field(repr=False)  # NaN if there are no degrees of freedom
    # 1 if the first text is more probable, -1 if the second is, 0 for a tie
    call: Int64[np.ndarray, " n_pairs"] = field(repr=False)
    # whether both numbers are equal up to rounding; see `pair_texts`
    equal: Bool[np.ndarray, " n_pairs"] = field(repr=False)
    mean: MeanWithErrors
    estimates: tuple[EvidenceEstimate, EvidenceEstimate] = field(repr=False)
    # the texts of both sets, in the order of the pairs; None if not known
    texts: tuple[Sequence[str], Sequence[str]] | None = field(default=None, repr=False)
    groups: Sequence[str] | None = field(default=None, repr=False)  # the group of each pair; None without
    notes: tuple[str, ...] = ()  # on how the pairs were scored, one sentence each

    @property
    def accuracy(self) -> float:
        """Share of pairs whose first text is more probable; ties count half."""
        return float((self.call + 1).mean() / 2)

    @property
    def accuracy_by_sign(self) -> float:
        """The accuracy by the sign of each difference, whatever its error; equal numbers count half."""
        return float((np.where(self.equal, 0.0, np.sign(self.difference)) + 1).mean() / 2)

    def interval(self) -> tuple[float, float]:
        """Wilson's 95 % interval of `accuracy` over pairs; ties make it conservative."""
        return _wilson(self.accuracy, len(self.call))

    def by_group(self) -> list[dict[str, Any]]:
        """Accuracy, interval, pairs and ties of each group, by first pairs; [] without groups."""
        if self.groups is None:
            return []
        listed, groups = [], np.array(self.groups)
        for name in dict.fromkeys(self.groups):
            call = self.call[groups == name]
            accuracy = float((call + 1).mean() / 2)
            counts = {"n_pairs": len(call), "ties": int((call == 0).sum())}
            interval = list(_wilson(accuracy, len(call)))
            listed.append({"group": name, "accuracy": accuracy, "interval_95": interval, **counts})
        return listed

    def page(self) -> Page:
        """The accuracy with its interval, the number of ties, and the difference of each pair."""
        (first, second), n, mean = self.names, len(self.call), self.mean
        low, high = self.interval()
        between = words.interval_95(100 * low, 100 * high, 1)
        share = f"{100 * self.accuracy:.1f} % of {words.count(n, 'pair')}"
        ties, equal = int((self.call == 0).sum()), int(self.equal.sum())
        digits = words.digits_for(mean.mask_se, mean.data_se)
        a, b = self.estimates
        rows = [
            ["accuracy", f"{share}, a tie counts half ({between} %, over pairs)"],
            [f"{first} higher", f"{int((self.call > 0).sum()):,}"],
            [f"{second} higher", f"{int((self.call < 0).sum()):,}"],
            [
                "ties",
                f"{ties:,} ({equal:,} equal up to rounding, {ties - equal:,} whose interval has 0: of "
                "the masks, 95 %, wider for masks that were not drawn)",
            ],
            ["by sign", f"{100 * self.accuracy_by_sign:.1f} %, where the sign of each difference decides"],
            ["difference", f"{words.typeset(mean.mean, digits)} nats per pair, {first} minus {second}"],
            ["mask error", words.standard_error(mean.mask_se, digits)],
            ["data error", words.data_error(mean.data_se, mean.mask_se, n, digits)],
            ["kind", f"{words.kind_name(a.kind)}: {words.kind_words(a.kind, a.design['name'])}"],
            ["scored", f"{words.count(2 * n, 'text')}, {words.count(a.n_masks + b.n_masks, 'mask')}"],
            ["design", f"{a.design['name']}, {a.masks} masks, seed {a.seed}"],
        ]
        shown = [
            [
                row["pair"],
                words.typeset(row["difference"], 4),
                words.standard_error(row["mask_se"], 4),
                row["more_probable"],
                row.get("first", ""),
            ]
            for row in self._rows()[:MOST_SHOWN]
        ]
        columns = ["pair", "difference", "mask error", "more probable", first]
        title = f"{first} minus {second}, nats per pair"
        title += f"; the first {MOST_SHOWN} of {n:,} pairs" if n > MOST_SHOWN else ""
        notes = dict.fromkeys(note for each in self.estimates for note in each.notes)
        return Page(
            f"TextPairs({first} above {second} in {share}, {words.count(ties, 'tie')} counted half)",
            f"{first} is more probable than {second} in {share}",
            parts=[
                Table((), rows, words=(0, 1)),
                *self._of_groups(),
                Table(columns, shown, title, words=(0, 3, 4)),
                self.picture()[0],
            ],
            notes=[*self.notes, *notes],
        )

    def _of_groups(self) -> list[Part]:
        """A table and a picture of the groups; nothing without groups."""
        rows, values = [], []
        for each in self.by_group():
            name, share, ends = each["group"], 100 * each["accuracy"], each["interval_95"]
            low, high = (100 * end for end in ends)
            counts = (f"{each['n_pairs']:,}", f"{each['ties']:,}")
            rows.append([name, f"{share:.1f} %", f"{low:.1f} to {high:.1f} %", *counts])
            values.append(Value(name, share, (low, high)))
        if not rows:
            return []
        title = f"how often {self.names[0]} is more probable, a tie counts half"
        label = f"{self.names[0]} more probable  (% of pairs)"
        columns = ["group", "accuracy", "95 % over pairs", "pairs", "ties"]
        bars = ValueRows(values, label, words="Bars are 95 % intervals, over pairs.")
        return [Table(columns, rows, title, words=(0,)), bars]

    def picture(self) -> tuple[Histogram, str]:
        """A histogram of the differences."""
        first, second = self.names
        title = f"{first} minus {second}: {100 * self.accuracy:.1f} % above, ties half"
        return Histogram(
            self.difference, f"{first} minus {second}  (nats)", "number of pairs", zero=True
        ), title

    def columns(self) -> Columns:
        """One row per pair: the difference with its error, and the more probable text or "tie"."""
        names = {1: self.names[0], -1: self.names[1], 0: "tie"}
        values: dict[str, Any] = {
            "difference": self.difference,
            "mask_se": self.mask_se,
            "mask_df": self.mask_df,
            "more_probable": [names[call] for call in self.call.tolist()],
        }
        if self.groups is not None:
            values["group"] = list(self.groups)
        if self.texts is not None:
            beginnings = ([*map(words.beginning, texts)] for texts in self.texts)
            values |= zip(("first", "second"), beginnings, strict=True)
        return Columns(values, list(self.labels), "pair")

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        a, b = self.estimates
        return {
            "first": self.names[0],
            "second": self.names[1],
            "n_pairs": len(self.call),
            "accuracy": self.accuracy,
            "interval_95": list(self.interval()),
            "accuracy_by_sign": self.accuracy_by_sign,
            "ties": int((self.call == 0).sum()),
            "equal": int(self.equal.sum()),
            "difference": self.mean.mean,
            "mask_se": self.mean.mask_se,
            "data_se": self.mean.data_se,
            "log_evidence": [a.log_evidence, b.log_evidence],
            "kind": a.kind,
            "design": a.design,
            "masks": a.masks,
            "seed": a.seed,
            "n_masks": a.n_masks + b.n_masks,
            "groups": self.by_group(),
            "pairs": self._rows(),
        }

    def _rows(self) -> list[dict[str, Any]]:
        """One dictionary per pair; None for unknown numbers."""
        values, index, _ = self.columns()
        listed = [[None if x != x else x for x in np.asarray(each).tolist()] for each in values.values()]
        return [dict(zip(("pair", *values), row, strict=True)) for row in zip(index, *listed, strict=True)]


def _wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of n pairs.

    Source:
        Wilson (1927), Probable inference, the law of succession, and statistical inference.

    Example:
        >>> [round(end, 3) for end in _wilson(0.5, 10)]
        [0.237, 0.763]
    """
    z = student_t_quantile(0.975, math.inf)
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(share * (1 - share) / n + (z / (2 * n)) ** 2) / (1 + z * z / n)
    return max(0.0, middle - half), min(1.0, middle + half)


def pair_texts(
    first: EvidenceEstimate,
    second: EvidenceEstimate,
    names: tuple[str, str] = ("first", "second"),
    *,
    dtypes: Sequence[str | None] = (),
) -> TextPairs:
    """Subtract the estimates of two sets of texts under one model, pair by pair.

    Texts with the same label are a pair; without labels, texts with the same id. Both texts of a pair with
    the same id, seed and number of tokens have the same masks, so that part of the error cancels. mask_se of
    a pair comes from the spread of the replicates of its difference, whether masks are common or not.

    Args:
        first: the estimate of the first texts, nats per text.
        second: the estimate of the second texts, by the same design.
        names: what the two sets are called.
        dtypes: the precision of the model in both, such as "bfloat16": numbers are equal up to 1e-5 nats per
            token; in bfloat16 up to 0.05 nats times the root of the number of tokens, in float16 0.006.

    Raises:
        InputError: texts that are not pairs, or numbers or designs that differ.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> x = model.sample(50, seed=1)
        >>> pairs = me.pair_texts(*(me.estimate_evidence(model, each) for each in (x, 3 * x)))
        >>> pairs.accuracy > 0.9, int((pairs.call == 0).sum()) >= 0
        (True, True)
        >>> same = me.pair_texts(*[me.estimate_evidence(model, x)] * 2)
        >>> same.accuracy, int(same.equal.sum())
        (0.5, 50)
    """
    second = _in_order_of(first, second, names)
    check_same_quantity(names[0], first, names[1], second)
    if (first.design, first.masks) != (second.design, second.masks):
        raise InputError(f"{names[0]} and {names[1]} have different masks; score both with the same --design")
    design = first.how.design
    tables = [first.scores, second.scores]
    curves = [curves_of(each.record, design, each.how.key) for each in (first, second)]
    added = [contributions(table, design, curve) for table, curve in zip(tables, curves, strict=True)]
    contribution = np.concatenate([added[0], -added[1]])
    both = ScoreTable.join([replace(table, hidden=None) for table in tables])
    _, pair = np.unique(both.id, return_inverse=True)
    summation = summation_of(both, design)
    mask_se, mask_df = errors_of_sums(contribution, pair, summation, design)
    difference = first.per_observation - second.per_observation
    n_tokens = [each.record.n_tokens for each in (first, second)]
    rounding = _rounding(np.add(*n_tokens), dtypes)
    equal = np.abs(difference) <= rounding
    mask_se = np.where(equal & ~(mask_se > rounding), 0.0, mask_se)
    stratum, unit = drawn_together(summation, design, both.draw)
    cell = pair * (stratum.max() + 1) + stratum
    below, above = tails_of_each(contribution, pair, cell, unit, summation.unseen)
    half = t_half_widths(mask_se, np.where(np.isnan(mask_df), np.inf, mask_df), LEVEL)
    decided = ~equal & ((difference > half + below) | (-difference > half + above))  # False where half is NaN
    joint = first.masks == "shared" or (design.pooled and None in curves)
    sums = ErrorSums(design.n_replicates, joint=joint)
    sums.add(contribution, pair, summation)
    unknown = design.unknown_error(np.maximum(*n_tokens), first.masks)
    return TextPairs(
        names=names,
        labels=tuple(first.names),
        difference=difference,
        mask_se=mask_se,
        mask_df=mask_df,
        call=np.where(decided, np.sign(difference), 0).astype(np.int64),
        equal=equal,
        mean=sums.mean_with_errors(enough_masks=unknown is None),
        estimates=(first, second),
    )


def _rounding(n_tokens: Int64[np.ndarray, " N"], dtypes: Sequence[str | None]) -> Float64[np.ndarray, " N"]:
    """The largest difference of equal numbers, by the number of tokens of both texts, nats."""
    of_half = max((_IN_HALF.get(str(dtype), 0.0) for dtype in dtypes), default=0.0)
    return np.maximum(_ROUNDING * n_tokens, of_half * np.sqrt(n_tokens))


@dataclass(frozen=True, repr=False)
class SetDifference(Shown):
    """The difference between the means of two unpaired sets of observations under one model."""

    names: tuple[str, str]  # names of the two sets
    difference: float  # mean of the first set minus mean of the second, nats per observation
    # for masks and data of both sets; None if the error of either is not known
    standard_error: float | None
    # 95 %, for masks and data; None without `standard_error`
    interval_95: tuple[float, float] | None
    estimates: tuple[EvidenceEstimate, EvidenceEstimate] = field(repr=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader, one sentence each."""
        notes = ["the two sets are not pairs: the data errors of both add up"]
        if self.interval_95 is None:
            why = zip(self.names, map(_unknown_error, self.estimates), strict=True)
            unknown = "; ".join(f"{name}: {reason}" for name, reason in why if reason is not None)
            notes.append(f"the difference has no interval: {unknown}")
        if self.estimates[0].seed == self.estimates[1].seed:
            notes.append(
                "both runs have the same seed: the errors of their masks may not be independent; score one "
                "with another --seed"
            )
        return tuple(notes)

    def page(self) -> Page:
        """Both means and their difference, with errors and interval."""
        difference, interval, both = self.difference, self.interval_95, self.estimates
        digits = words.digits_for(*(error for each in both for error in (each.mask_se, each.data_se)))
        rows = [
            [
                name,
                words.typeset(each.log_evidence, digits),
                words.standard_error(each.mask_se, digits),
                words.data_error(each.data_se, each.mask_se, each.n_observations, digits),
                f"{each.n_observations:,}",
            ]
            for name, each in zip(self.names, both, strict=True)
        ]
        error = words.plus_minus(difference, self.standard_error, digits)
        line = f"{self.names[0]} minus {self.names[1]}, unpaired: {error} nats per observation"
        between = "The error is not known"
        if interval is not None:
            sides = words.wider(interval[0], difference, interval[1], digits)
            between = f"{words.capital(words.interval_95(*interval, digits))}, for masks and data{sides}"
        name = words.evidence_name(both[0].kind, both[0].design["name"])
        columns = ["run", name, "mask error", "data error", "observations"]
        return Page(line, line, parts=[Table(columns, rows), f"{between}."], notes=list(self.notes))

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        both = self.estimates
        return {
            "pairing": "none",
            "first": self.names[0],
            "second": self.names[1],
            "unit": "nats per observation",
            "difference": self.difference,
            "standard_error": self.standard_error,
            "interval_95": None if self.interval_95 is None else list(self.interval_95),
            "log_evidence": [each.log_evidence for each in both],
            "mask_se": [each.mask_se for each in both],
            "data_se": [each.data_se for each in both],
            "n_observations": [each.n_observations for each in both],
            "notes": list(self.notes),
        }


def subtract_sets(
    first: EvidenceEstimate, second: EvidenceEstimate, names: tuple[str, str] = ("first", "second")
) -> SetDifference:
    """Subtract the means of two unpaired sets of observations under one model.

    The squared errors of masks and data of both sets add up. The interval is Welch's, its ends moved for rare
    masks (standard_errors.py); there is none if the error of one of the sets is not known.

    Args:
        first: the estimate of the first set, nats per observation.
        second: the estimate of the second set, by another seed, so that the mask errors are independent.
        names: what the sets are called.

    Raises:
        InputError: numbers that are not the same quantity, for example in two base measures.

    Example:
        >>> import maskevidence as me
        >>> model = me.models.PPCA(n_features=6, n_components=2)
        >>> x, y = model.sample(50, seed=1), 2 * model.sample(60, seed=2)
        >>> both = [me.estimate_evidence(model, each, seed=k) for k, each in enumerate((x, y))]
        >>> found = me.subtract_sets(*both, names=("right", "doubled"))
        >>> found.interval_95[0] > 0
        True
    """
    check_same_quantity(names[0], first, names[1], second)
    difference = first.log_evidence - second.log_evidence
    return SetDifference(names, difference, *_welch(difference, (first, second)), (first, second))


def _welch(
    difference: float, both: tuple[EvidenceEstimate, EvidenceEstimate]
) -> tuple[float | None, tuple[float, float] | None]:
    """Standard error and 95 % interval of a difference of independent means; None if not known.

    Rare masks of the first set move the ends as `tails` says, those of the second set the other way.
    """
    if any(_unknown_error(each) is not None for each in both):
        return None, None
    errors = [math.hypot(each.mask_se or 0.0, each.data_se or 0.0) for each in both]
    parts = [
        part
        for each, error in zip(both, errors, strict=True)
        for part in variances_with_df(each.per_observation, error, each.mask_df)
    ]
    se, df = math.hypot(*errors), df_of_sum(parts)
    (below, above), (rise, drop) = both[0].tails, both[1].tails[::-1]
    return se, interval_with_tails(difference, se, df, (below + rise, above + drop), LEVEL)


def _unknown_error(estimate: EvidenceEstimate) -> str | None:
    """Why the error of a set's mean is not known; None if it is known."""
    if estimate.n_observations < 2:
        return "the data error cannot be estimated from a single observation"
    if estimate.mask_se is None and estimate.masks == "shared":
        return f"{estimate.no_interval}; give more masks"
    if estimate.mask_se == 0 and estimate.no_interval is not None:
        return "the error of its conditionals is not known"
    if not estimate.mask_se and not estimate.data_se:
        return "neither the masks' nor the data error is known"
    return None


def _in_order_of(
    first: EvidenceEstimate, second: EvidenceEstimate, names: tuple[str, str]
) -> EvidenceEstimate:
    """The second estimate, with its texts numbered like the first estimate's texts of the same labels."""
    labels = [each.names for each in (first, second)]
    if any(len(set(each)) < len(each) for each in labels):
        raise InputError(
            f"a name stands twice among the texts of {' or '.join(names)}; give each pair its own"
        )
    if set(labels[0]) != set(labels[1]):
        other = sorted(set(labels[0]) ^ set(labels[1]))[0]
        raise InputError(f"{names[0]} and {names[1]} are not pairs: only one of them has a text {other!r}")
    if labels[0] == labels[1] and np.array_equal(first.ids, second.ids):
        return second
    place = {name: k for k, name in enumerate(labels[0])}
    order = np.array([place[name] for name in labels[1]])
    table = second.scores
    renamed = replace(table, id=first.ids[order][np.searchsorted(second.ids, table.id)])
    return replace(
        second,
        record=Scores.of(renamed),
        per_observation=second.per_observation[np.argsort(order)],
        ids=first.ids,
        labels=first.labels,
    )
