"""Mutual information and its relatives, with their errors."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from maskevidence.core.evidence.standard_errors import df_of_sum, t_half_width
from maskevidence.core.show.parts import Page, Table, Value, ValueRows
from maskevidence.core.show.shown import Columns, Shown
from maskevidence.core.show.words import digits_for, interval_95, number, plus_minus, standard_error, typeset

_Floats = Float64[np.ndarray, " n"]


def errors_of(
    held_out: Sequence[Float64[np.ndarray, "R _"]],
    seen: Sequence[Float64[np.ndarray, "R _"]],
    shares: Sequence[float],
) -> dict[str, Any]:
    """The errors of the mean over all folds, by their names in `Information`.

    s² / n is the variance of the mean over rows, masks included. Two models answer for the rows of fold k:
    that which has not seen them, and one that has. Their mean difference d_k varies with the fits, whose
    variance is τ² = max(0, s²(d_k) - mean(s²(d) / n_k)) (K - 1) / 2K, and fit_se² = τ² / K.

    Args:
        held_out: the values of each fold's rows, by each set of masks.
        seen: the same by models that have seen the rows; empty for a model that came fitted.
        shares: how many rows each fold counts as; rows with missing cells count as less than one.
    """
    values, n = np.concatenate([each.mean(0) for each in held_out]), sum(shares)
    by_set, n_sets = np.concatenate(held_out, axis=1).mean(1), len(held_out[0])
    mask_se = float(by_set.std(ddof=1)) / n_sets**0.5 if n_sets > 1 else 0.0
    of_rows = float(values.var(ddof=1)) / n - mask_se**2
    parts, fit_se = [(max(of_rows, 0.0), n - 1), (mask_se**2, n_sets - 1.0)], None
    if seen:
        gaps = [(out - saw).mean(0) for out, saw in zip(held_out, seen, strict=True)]
        numbers = [(len(gap), gap.mean(), gap.var()) for gap in gaps]
        fit_se = float(np.sqrt(variance_of_fits(*np.array(numbers).T)))
        parts.append((fit_se**2, len(gaps) - 1.0))
    total = math.sqrt(sum(part for part, _ in parts))
    data_se, df = math.sqrt(of_rows) if of_rows > 0 else None, df_of_sum(parts)
    return {"mask_se": mask_se, "data_se": data_se, "fit_se": fit_se, "standard_error": total, "df": df}


def variance_of_fits(n: Any, mean: Any, variance: Any) -> Any:
    """τ² / K from the number, mean and variance of each fold's differences, along the first axis."""
    n_folds = len(n)
    beyond = np.maximum(mean.var(axis=0, ddof=1) - (variance / n).mean(axis=0), 0.0)
    return beyond * (n_folds - 1) / (2 * n_folds) / n_folds


def p_values(nats: Any, error: Any, df: Any) -> Any:
    """One-sided p-values of "not above 0"; 1 where the error is 0.

    Example:
        >>> p_values(np.array([1.96, 0.0]), np.array([1.0, 1.0]), np.inf).round(3).tolist()
        [0.025, 0.5]
    """
    from scipy.special import stdtr

    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.asarray(error) > 0, stdtr(np.minimum(df, 1e9), -np.divide(nats, error)), 1.0)


def entropy(codes: Float64[np.ndarray, " n"]) -> float:
    """The plug-in entropy of the values, nats; (V - 1) / 2n too low on average for V values.

    Example:
        >>> round(entropy(np.array([0.0, 1.0])), 3)
        0.693
    """
    share = np.unique(codes[~np.isnan(codes)], return_counts=True)[1] / (~np.isnan(codes)).sum()
    return float(-(share * np.log(share)).sum())


@dataclass(frozen=True, repr=False)
class Information(Shown):
    """A mutual information, total correlation, dual total correlation or O-information, nats.

    Attributes:
        quantity: its name.
        nats: the mean of `held_out` and `seen`; of a model that came fitted, the mean over the rows.
        mask_se: the standard error of the masks, nats; 0 where none are drawn.
        data_se: of the sample of rows; None where it is not resolved beside the masks' error.
        fit_se: of fits to other rows with other seeds; None for a model that came fitted.
        standard_error: of all three.
        df: its degrees of freedom.
        held_out: the mean over rows that the models have not seen.
        seen: that over rows that they were fitted to; None for a model that came fitted. By a well-specified
            model it is, to first order, as much above the truth as `held_out` is below it (Akaike, 1974).
        with_more_rows: what `held_out` tends to with more rows, if what it lacks falls with the square root
            of their number; from the step between fits to half the rows and to all. At most the log of the
            number of values of a or b. None for a model that came fitted.
        zero: the number that the same model, fitted again, gives for rows with independent columns: shuffled,
            or, where columns are given, exchanged among rows with nearly the same values of these (Runge,
            2018); None for a model that came fitted.
        zero_se: its standard error, in a single fold.
        lower_bound: E log q(a | b) + H(a), if a or b is a single column and nothing is given, which is below
            the truth, whatever the model. H(a) of numbers is that of the normal scores of their ranks, and of
            words, categories or yes/no that of the shares of the values, on average a little too low. Else
            None: the model's own log q(a) can be wrong, too.
        symmetric_uncertainty: 2 I / (H(a) + H(b)), 0 to 1, for two such columns; else None.
        groups: the names of the columns, group by group, those that are given last.
        n_rows: the number of rows.
        model: the MODEL word or class.
        notes: one sentence each.
    """

    quantity: str
    nats: float
    mask_se: float
    data_se: float | None
    fit_se: float | None
    standard_error: float
    df: float
    held_out: float
    seen: float | None
    with_more_rows: float | None
    zero: float | None
    zero_se: float | None
    lower_bound: float | None
    symmetric_uncertainty: float | None
    groups: tuple[tuple[str, ...], ...]
    n_rows: int
    model: str
    notes: tuple[str, ...]

    @property
    def bits(self) -> float:
        """nats / log 2."""
        return self.nats / math.log(2)

    @property
    def correlation(self) -> float:
        """sqrt(1 - exp(-2 I)), 0 to 1: |r| of two normal columns with this information; 0 below 0."""
        return math.sqrt(-math.expm1(-2 * max(self.nats, 0.0)))

    @property
    def p_value(self) -> float:
        """One-sided, of `held_out` not above 0, or not above `zero` where this is higher."""
        return float(p_values(self.held_out - self._excess, self.standard_error, self.df))

    @property
    def _excess(self) -> float:
        """The estimate for independent columns."""
        return max(self.zero or 0.0, 0.0)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Student's t, from `held_out` less a `zero` above 0 to the higher of `seen` and `with_more_rows`.

        That of an O-information, which may be below 0, starts from the lowest of these numbers.
        """
        width = t_half_width(self.standard_error, self.df, level)
        known = [each for each in (self.held_out, self.seen, self.with_more_rows) if each is not None]
        low = min(known) if self.quantity == SIGNED else self.held_out
        return low - self._excess - width, max(known) + width

    def page(self) -> Page:
        """A page with the number, its errors and its other forms."""
        digits = digits_for(self.standard_error)
        low, high = self.interval()
        headline = f"{self._of()}: {typeset(self.nats, digits)} nats ({typeset(self.bits, digits)} bits)"
        nats, interval = number(self.nats, digits), interval_95(low, high, digits, number)
        line = f"Information({self.quantity}, {nats} nats, {interval})"
        errors = {"masks": self.mask_se, "rows": self.data_se, "fits": self.fit_se}
        named = {
            "of rows not seen in the fit": None if self.seen is None else self.held_out,
            "of rows seen in the fit": self.seen,
            "with more rows": self.with_more_rows,
            "lower bound": self.lower_bound,
            "symmetric uncertainty": self.symmetric_uncertainty,
            "as a correlation": self.correlation if self.quantity == MUTUAL else None,
        }
        rows = [[f"error of the {name}", standard_error(se, digits)] for name, se in errors.items()]
        rows += [[name, typeset(value, digits)] for name, value in named.items() if value is not None]
        if self.zero is not None:
            zero = plus_minus(self.zero, self.zero_se, digits)
            rows.append(["the same of independent columns", zero])
        aside = interval_95(low, high, digits)
        return Page(line, headline, aside, [Table([], rows)], self.notes)

    def _of(self) -> str:
        *asked, given = (", ".join(names) for names in self.groups)
        return f"{self.quantity} of {' and '.join(asked)}" + (f", given {given}" if given else "")

    def picture(self) -> tuple[ValueRows, str]:
        """The number and its interval, and the interval of independent columns."""
        values = [Value(self.model, self.nats, self.interval())]
        if self.zero is not None and self.zero_se is not None:
            ends = (self.zero - 1.96 * self.zero_se, self.zero + 1.96 * self.zero_se)
            values.append(Value("independent columns", self.zero, ends, number=1))
        return ValueRows(values, f"{self.quantity}  (nats)", zero=True), self._of()

    def columns(self) -> Columns:
        """One row with all numbers."""
        kept = {name: value for name, value in self.to_dict().items() if not isinstance(value, list)}
        return Columns({name: [value] for name, value in kept.items()})

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON values, with bits, interval and p-value."""
        low, high = self.interval()
        known = asdict(self) | {"bits": self.bits, "low": low, "high": high, "correlation": self.correlation}
        del known["df"]
        lists = {"groups": list(map(list, self.groups)), "notes": list(self.notes)}
        return known | {"p_value": self.p_value} | lists


MUTUAL = "mutual information"
SIGNED = "O-information"  # which may be below 0, so that what a model misses may raise it
NOT_CAUSE = "information says how well columns predict each other, not that one causes the other"
GIVEN_OTHERS = "given others: what the model misses of them counts for a column that repeats it"


def share_present(present: Any, groups: Sequence[Sequence[int]], rows: Int64[np.ndarray, " n"]) -> float:
    """The effective number of rows: a row with missing cells counts as the product of its groups' shares."""
    shares = [present[np.unique(rows)][:, list(group)].mean(1) for group in groups if len(group)]
    return float(np.prod(shares, axis=0).sum())
