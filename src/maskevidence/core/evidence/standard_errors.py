"""Standard errors of masked scores: the Monte-Carlo error of masks and the sampling error of observations.

Let e_i = Σ_k contribution_ik be observation i's estimate, ē their mean over n observations. Within a stratum
the R replicates are independent and equally distributed, and strata are independent, so that the variance of
a stratum's mean is estimated by s²/R, s² the sample variance of its replicate totals.

- Own masks: every (observation, stratum) is a stratum; mask_se² = (1/n²) Σ s²/R.
  Predicted scores of random sizes count as own masks, too (control_variates.py).
- Shared or pooled masks: all observations move together; their mean is taken first, then mask_se² = Σ s²/R.
- Degrees of freedom by Welch and Satterthwaite: (Σ v)² / Σ v²/(R - 1), v = s²/R. They are too low on average,
  as E s⁴ = σ⁴ (1 + 2/(R - 1)) for normal scores. But scores have heavier tails, for which the corrected
  (R + 1) (Σ v)²/Σ v² - 2 makes intervals too narrow (both are measured in benchmarks/coverage.py).
- data_se: with v̄ the mean mask variance of a single e_i and c the mean covariance of two of them, Var(ē |
  data) = v̄/n + (1 - 1/n)·c and E s²(e) = σ² + v̄ - c, so data_se² = (s²(e) - v̄ + c)/n. With own masks c = 0
  and this is s²(e)/n - mask_se². If it is not above 0, the masks' error is too large to resolve the
  observations' error, and data_se is None.
- If k of the C masks of a stratum are drawn without replacement, the variance of its mean is s²/k·(1 - k/C).
- Replicates that are equal may be equal by chance, so that mask_se is None, unless every mask is scored.

Masks that were not drawn may be far worse than those that were. Where scores have a heavy tail, Student's t
interval lies too high in the runs that met few of the rare bad masks. By the rule of three, an event that
none of n independent masks showed has, at this confidence, a probability of at most -log(1 - level)/n, 3/n
at 95 %. If such a mask is lower by d than the other masks of its row, the mean is lower by up to 3·d/n. The
largest drop L of the run stands for d, as if no unseen drop were larger, less the largest drop that n normal
numbers of the same width would show anyway:

    d = max(0, L - shown·s̃·√(2 log n)),   L = max_k (mean of the other masks of the row - v_k),

where v_k is the estimate of ē by mask k, and s̃ = 1.4826 times the median of |drops| is a standard deviation
that rare masks do not move. Few masks cannot show that a tail is light: shown = 1 - √(8/n), 0 up to 8 masks.
In a difference of two models with shared masks, what is rare and bad for both cancels, and both ends are
moved, so that this would make the interval of 8 shared orders nearly twice as wide. There, the m drops of the
single rows, which are many, show whether tails are light, with s₁ for s̃ and their largest size L₁:

    shown = (1 - √(8/m))·min(1, 2 s₁·√(2 log m)/L₁),   2 because rows differ in width.

A mask that is bad for all rows alike, among rows that show no other bad masks, is not seen by this.
The lower end of an interval lies 3·d/n below the end of Student's t interval. Differences are widened at both
ends, above by the largest rise. Masks that are drawn without replacement have √(1 - k/C) times their drop.
Normal scores make the interval 0.3 % wider at 800 masks and 2 % wider at 160; benchmarks/coverage.py measures
the coverage.
"""

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Integer

from maskevidence.core.masks.design import Indices, PerMask, Summation

OfCells = Float64[np.ndarray, " n_cells"]
Sums = Float64[np.ndarray, "n_cells R"]  # of each cell and replicate
Tails = tuple[float, float]  # d/n below and above the estimate
_MANY_DF = 1000  # from which an expansion is as precise
_MANY_STEPS, _CLOSE = 500, 1e-14  # of iterations that end long before
_UNKNOWN_TAILS = 8  # this many masks cannot show whether a tail is light


class MeanWithErrors(NamedTuple):
    """A mean over observations and its two standard errors, None if not known."""

    mean: float  # the estimate
    mask_se: float | None  # Monte-Carlo standard error of the masks, given the observations
    mask_df: float | None  # degrees of freedom of mask_se; infinite without Monte-Carlo error
    # sampling standard error of the observations; None for a single observation, and if the masks' error is
    # too large to resolve it. If mask_se is None, it includes the error of own masks (shared masks move all
    # observations together, which the spread of the observations does not show).
    data_se: float | None
    tails: Tails = (0.0, 0.0)  # d/n below and above in the unit of the mean; 0 for light tails

    def interval(self, level: float) -> tuple[float, float]:
        """The interval for the mask error, with the lower end extended for rare masks.

        The upper end is not moved, since log-probabilities have a heavy tail only below.
        """
        assert self.mask_se is not None
        return interval_with_tails(self.mean, self.mask_se, self.mask_df, (self.tails[0], 0.0), level)


class ErrorSums:
    """Accumulates the sums behind a mean of Σ contribution over observations and its errors (formulas above).

    Args:
        joint: True if the masks of different observations are drawn together (shared or pooled).

    Example:
        >>> from maskevidence.core.masks.design import Summation
        >>> one = Summation(np.ones(2) / 2, stratum=np.zeros(2, int), replicate=np.arange(2))
        >>> sums = ErrorSums(2, joint=False)
        >>> for values in ([0.5, 1.0], [0.5, 1.5]):
        ...     sums.add(np.array(values), np.zeros(2, int), one)
        >>> sums.mean_with_errors()[:2]
        (1.75, 0.5590169943749475)
    """

    def __init__(self, n_replicates: int, *, joint: bool) -> None:
        self.n_replicates, self.joint = n_replicates, joint
        self.estimates = Spread()
        self.random = False
        self._own = self._squares = 0.0  # variances of single observations' cells, and their squares
        self.shared = Totals(n_replicates)  # totals of the strata over all observations

    def add(self, contribution: PerMask, observation: Indices, summation: Summation) -> None:
        """Add all masks of some observations, numbered from 0; the weights are in `contribution`."""
        _, stratum, replicate, unseen = summation
        self.estimates.add(np.bincount(observation, weights=contribution))
        random = unseen is None or bool(unseen.any())
        self.random |= random
        if self.n_replicates < 2:
            return
        if self.joint:
            self.shared.add(contribution, stratum, replicate, unseen)
        if random:
            cell = observation * (stratum.max() + 1) + stratum
            own = cell_variances(contribution, cell, replicate, self.n_replicates, unseen)
            self._own += float(own.sum())
            self._squares += float((own**2).sum())

    def mean_with_errors(self, *, enough_masks: bool = True) -> MeanWithErrors:
        """The mean with its errors; mask_se is None without enough independent masks."""
        n, mean = self.estimates.n, self.estimates.mean
        spread = self.estimates.square / (n - 1) if n > 1 else None
        whole_error = math.sqrt(spread / n) if spread else None
        if not self.random:
            return MeanWithErrors(mean, 0.0, math.inf, whole_error)
        unknown = MeanWithErrors(mean, None, None, whole_error)
        if not enough_masks or self.n_replicates < 2:
            return unknown
        single = self._own / n  # v̄
        mask_variance, square = self._own / n**2, self._squares / n**4
        if self.joint:
            parts = variances_of_cells(*self.shared.table()) / n**2
            mask_variance, square = float(parts.sum()), float((parts**2).sum())
        if equal_by_chance(mask_variance, mean):
            return unknown
        mask_df = mask_variance**2 / square * (self.n_replicates - 1)
        if spread is None:
            return MeanWithErrors(mean, math.sqrt(mask_variance), mask_df, None)
        covariance = (mask_variance - single / n) / (1 - 1 / n)
        data_variance = (spread - single + covariance) / n
        data_se = math.sqrt(data_variance) if data_variance > 0 else None
        return MeanWithErrors(mean, math.sqrt(mask_variance), mask_df, data_se)


class Spread:
    """Accumulates a mean and the sum of squares around it, group by group.

    Source:
        Chan, Golub, LeVeque (1983), Algorithms for computing the sample variance, The American Statistician.

    Example:
        >>> spread = Spread()
        >>> for values in ([1.0, 2.0], [6.0]):
        ...     spread.add(np.array(values))
        >>> spread.n, spread.mean, spread.square
        (3, 3.0, 14.0)
    """

    def __init__(self) -> None:
        self.n, self.mean, self.square = 0, 0.0, 0.0

    def add(self, values: Float64[np.ndarray, " n"]) -> None:
        mean, n = float(values.mean()), len(values)
        apart = mean - self.mean if self.n else 0.0
        self.square += float(((values - mean) ** 2).sum()) + apart**2 * self.n * n / (self.n + n)
        self.mean = self.mean + apart * n / (self.n + n) if self.n else mean
        self.n += n


class Totals:
    """Accumulates the replicate sums and finite-population correction of each cell."""

    def __init__(self, n_replicates: int) -> None:
        self.n_replicates = n_replicates
        self._cells: dict[int, tuple[Float64[np.ndarray, " R"], float]] = {}

    def add(self, contribution: PerMask, cell: Indices, replicate: Indices, unseen: PerMask | None) -> None:
        cells = totals_of_cells(contribution, cell, replicate, self.n_replicates, unseen)
        for number, total, corrected in zip(*cells, strict=True):
            before, largest = self._cells.get(int(number), (0.0, 0.0))
            self._cells[int(number)] = before + total, max(largest, float(corrected))

    def table(self) -> tuple[Sums, OfCells]:
        """The sums, shape (n_cells, R), and the corrections, ordered by cell number."""
        totals, correction = zip(*(self._cells[number] for number in sorted(self._cells)), strict=True)
        return np.array(totals), np.array(correction)


def cell_variances(
    contribution: PerMask, cell: Indices, replicate: Indices, n_replicates: int, unseen: PerMask | None = None
) -> OfCells:
    """Variance of each cell's sum of contributions: R times the sample variance of the replicate sums.

    It is multiplied by the finite-population correction of the cell, the largest one of its masks.
    """
    return variances_of_cells(*totals_of_cells(contribution, cell, replicate, n_replicates, unseen)[1:])


def variances_of_cells(totals: Sums, correction: OfCells) -> OfCells:
    """Variance of each cell's sum from its replicate sums and finite-population correction."""
    return totals.var(axis=1, ddof=1) * totals.shape[1] * correction


def totals_of_cells(
    contribution: PerMask, cell: Indices, replicate: Indices, n_replicates: int, unseen: PerMask | None
) -> tuple[Integer[np.ndarray, " n_cells"], Sums, OfCells]:
    """The cells in order, the sums of their replicates, and their finite-population corrections."""
    cells, dense = np.unique(cell, return_inverse=True)
    n_cells = len(cells)
    totals = np.bincount(
        dense * n_replicates + replicate, weights=contribution, minlength=n_cells * n_replicates
    )
    correction = np.full(n_cells, 1.0 if unseen is None else 0.0)
    if unseen is not None:
        np.maximum.at(correction, dense, unseen)
    return cells, totals.reshape(n_cells, n_replicates), correction


class Drops:
    """Accumulates drops: how far each random mask lies below the others of its cell (formula above).

    Masks of a cell that are drawn together are a unit. The width of the drops comes from every k-th cell.

    Example:
        >>> light = np.random.default_rng(0).normal(size=(100, 8))
        >>> drops = Drops()
        >>> _ = drops.add(light[:50], np.ones(50)), drops.add(light[50:], np.ones(50))
        >>> round(drops.tails()[0], 1)
        0.8
        >>> light[2, 1] = -30.0
        >>> drops = Drops()
        >>> _ = drops.add(light, np.ones(100))
        >>> round(drops.tails()[0], 1)
        26.7
    """

    def __init__(self, every: int = 1) -> None:
        self._every = every
        self._n, self._lowest, self._highest, self._largest = 0, 0.0, 0.0, 0.0
        self._widths: list[Float64[np.ndarray, " n"]] = []

    def add(
        self, totals: Float64[np.ndarray, "n_cells n_units"], correction: OfCells
    ) -> Float64[np.ndarray, " n_drops"]:
        """Add the unit sums of some cells; return their drops."""
        random = totals[correction > 0]
        if totals.shape[1] < 2 or random.size == 0:
            return np.zeros(1)
        drop = (random.sum(1, keepdims=True) - random) / (random.shape[1] - 1) - random
        self._n += drop.size
        self._widths.append(np.abs(drop[:: self._every]).ravel())
        self._largest = max(self._largest, drop.max(), -drop.min())
        drop *= np.sqrt(correction[correction > 0, None])
        self._lowest, self._highest = min(self._lowest, drop.min()), max(self._highest, drop.max())
        return drop.ravel()

    def light(self, shown: float | None = None) -> float:
        """`shown` times the largest drop expected of n normal numbers; subtracted from the largest drop."""
        return (self._shown if shown is None else shown) * self._normal_largest

    def lightness(self) -> float:
        """Evidence that the tail is light: near 1 for many normal drops, 0 for few drops or outliers.

        Example:
            >>> drops, heavy = Drops(), Drops()
            >>> values = np.random.default_rng(0).normal(size=(100, 8))
            >>> _ = drops.add(values, np.ones(100)), heavy.add(values**3, np.ones(100))
            >>> round(drops.lightness(), 2), round(heavy.lightness(), 2)
            (0.9, 0.18)
        """
        if self._n == 0:
            return 0.0
        return float(
            self._shown * (min(1.0, 2 * self._normal_largest / self._largest) if self._largest else 1.0)
        )

    def tails(self, shown: float | None = None) -> Tails:
        """d/n below and above the estimate; `shown` as in `light`."""
        light = self.light(shown)
        return max(0.0, float(self._highest) - light), max(0.0, -float(self._lowest) - light)

    @property
    def _shown(self) -> float:
        """Evidence for a light tail that this number of masks can give, in [0, 1)."""
        return max(0.0, 1.0 - math.sqrt(_UNKNOWN_TAILS / self._n)) if self._n else 0.0

    @property
    def _normal_largest(self) -> float:
        """The largest drop expected of n normal numbers of the same width."""
        if self._n == 0:
            return 0.0
        width = 1.4826 * float(np.median(np.concatenate(self._widths)))
        return width * math.sqrt(2.0 * math.log(self._n))


def tails_of_each(
    contribution: PerMask, observation: Indices, cell: Indices, unit: Indices, unseen: PerMask | None = None
) -> Tails:
    """The error of rare masks for one observation's sum, below and above, from all observations.

    The few masks of an observation may show none of the rare ones, while the masks of all observations show
    how often they are met. It is the root of the sum over masks of (drop beyond those of normal numbers)²,
    on average over observations: the part of the variance that many observations do not see of themselves.

    Example:
        >>> cell, unit = (grid.ravel() for grid in np.indices((100, 8)))
        >>> values = np.random.default_rng(0).normal(size=800)
        >>> values[[17, 93]] = -30.0
        >>> [round(end, 2) for end in tails_of_each(values, cell, cell, unit)]
        [3.79, 0.45]
    """
    drops = Drops()
    drop = drops.add(*totals_of_cells(contribution, cell, unit, int(unit.max()) + 1, unseen)[1:])
    light = drops.light()
    n = int(observation.max()) + 1
    below, above = (
        math.sqrt(float((np.maximum(sign * drop - light, 0.0) ** 2).sum()) / n) for sign in (1.0, -1.0)
    )
    return below, above


def interval_with_tails(
    mean: float, standard_error: float, df: float | None, tails: Tails, level: float
) -> tuple[float, float]:
    """Student's t interval with each end extended by -log(1 - level)·d/n for undrawn rare masks.

    Example:
        >>> [round(end, 2) for end in interval_with_tails(0.0, 1.0, None, (0.5, 0.0), 0.95)]
        [-3.46, 1.96]
    """
    half, share = t_half_width(standard_error, math.inf if df is None else df, level), -math.log1p(-level)
    return mean - half - share * tails[0], mean + half + share * tails[1]


def variances_with_df(
    per_observation: Float64[np.ndarray, " n"], standard_error: float, mask_df: float | None
) -> list[tuple[float, float]]:
    """Split the squared error into s²(e)/n and the rest, each with its degrees of freedom.

    Example:
        >>> variances_with_df(np.array([1.0, 3.0, 5.0, 7.0]), 1.5, 9.0)
        [(1.6666666666666667, 3.0), (0.5833333333333333, 9.0)]
    """
    n, total = len(per_observation), standard_error**2
    of_rows = min(total, float(per_observation.var(ddof=1)) / n) if n > 1 else 0.0
    return [(of_rows, n - 1.0), (total - of_rows, math.inf if mask_df is None else mask_df)]


def df_of_sum(parts: Iterable[tuple[float, float]]) -> float:
    """Welch-Satterthwaite degrees of freedom of a sum of variances; infinite for a sum of 0.

    Example:
        >>> df_of_sum([(1.0, 4.0), (1.0, 4.0)]), df_of_sum([(1.0, 4.0), (0.0, 2.0)])
        (8.0, 4.0)
    """
    known = [(variance, df) for variance, df in parts if variance > 0]
    lost = sum(variance**2 / df for variance, df in known)
    return sum(variance for variance, _ in known) ** 2 / lost if lost else math.inf


def equal_by_chance(variance: Any, mean: Any) -> Any:
    """Whether the variance of a mean is zero up to rounding; numbers, or arrays of them.

    Example:
        >>> equal_by_chance(1e-33, -3.0), equal_by_chance(1e-12, -3.0)
        (True, False)
    """
    return variance <= (1e-14 * mean) ** 2


def student_t_quantile(probability: float, df: float) -> float:
    """The quantile of Student's t distribution; the normal distribution's for infinite df.

    Example:
        >>> round(student_t_quantile(0.975, 3), 4), round(student_t_quantile(0.975, math.inf), 4)
        (3.1824, 1.96)
    """
    if probability < 0.5:
        return -student_t_quantile(1 - probability, df)
    if math.isnan(df) or not probability < 1:
        return math.nan
    z = NormalDist().inv_cdf(probability)
    if df > _MANY_DF:  # the expansion of Cornish and Fisher; the next term is of order df^-5
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
            (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
        )
        return z + sum(term / df**power for power, term in enumerate(terms, 1))
    t = z
    for _ in range(_MANY_STEPS if z else 0):  # Newton's method for log P(T > t) in log t: it is concave
        tail, density = _student_t_tail(t, df)
        step = math.log(tail / (1 - probability)) * tail / (t * density)
        t *= math.exp(step)
        if abs(step) < _CLOSE:
            break
    return t


def _student_t_tail(t: float, df: float) -> tuple[float, float]:
    """P(T > t) = I_x(df/2, 1/2)/2, x = df/(df + t²), and the density at t > 0.

    The incomplete beta function I, or 1 - I where that converges faster, is a continued fraction (DLMF
    8.17.22) by Lentz's method.
    """
    a, b, x = df / 2, 0.5, df / (df + t * t)
    front = t / math.sqrt(df + t * t)
    front *= math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) - a * math.log1p(t * t / df))
    swapped = x > (a + 1) / (a + b + 2)
    if swapped:
        a, b, x = b, a, t * t / (df + t * t)
    fraction, above, below = 1.0, 1.0, 0.0
    for m in range(_MANY_STEPS):
        for coefficient in (
            -(a + m) * (a + b + m) / ((a + 2 * m) * (a + 2 * m + 1)),
            (m + 1) * (b - m - 1) / ((a + 2 * m + 1) * (a + 2 * m + 2)),
        ):
            above, below = 1 + coefficient * x / above, 1 / (1 + coefficient * x * below)
            change = above * below
            fraction *= change
        if abs(change - 1) < _CLOSE / 16:
            break
    part = front / (a * fraction)
    return (1 - part if swapped else part) / 2, front / t


def t_half_width(standard_error: float, df: float, level: float) -> float:
    """Half the width of the two-sided t interval at `level`, in the unit of the standard error.

    Example:
        >>> round(t_half_width(1.0, 3, 0.95), 4)
        3.1824
    """
    return standard_error * student_t_quantile(0.5 + level / 2, df) if standard_error else 0.0


def t_half_widths(
    standard_error: Float64[np.ndarray, "*any"], df: Float64[np.ndarray, "*any"], level: float
) -> Float64[np.ndarray, "*any"]:
    """`t_half_width` of many numbers, to rounding.

    Example:
        >>> t_half_widths(np.array([1.0, 0.0]), np.array([3.0, 5.0]), 0.95).round(4).tolist()
        [3.1824, 0.0]
    """
    from scipy import special

    quantiles = np.where(np.isinf(df), special.ndtri(0.5 + level / 2), special.stdtrit(df, 0.5 + level / 2))
    return np.multiply(
        standard_error, quantiles, out=np.zeros(np.shape(quantiles)), where=standard_error != 0
    )
