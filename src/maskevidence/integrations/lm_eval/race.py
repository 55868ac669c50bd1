"""A race: which of several choices has the largest mean, decided with few draws.

Each draw gives one value to every choice that still runs, on the same masks. At a look after m draws, the
choice with the largest mean leads. Another choice is out if its paired differences d_1..d_m to the leader
pass Student's t-test:

    mean(d) > t_{m-1}(1 - ε_l / (C - 1)) · sd(d) / √m

for C choices. The looks l = 1..L share the error probability ε in proportion to (2/3)^l: the first looks have
few draws and large quantiles of t, so they gain most from a larger share. By Bonferroni, the best choice is
lost with a probability of at most ε, as far as the mean of independent differences follows Student's t;
benchmarks/race.py counts losses where it follows least.

A control c_k with expectation 0, such as the size of mask k, removes variance: b·c_k is subtracted with the
slope b of the straight line through the values, and

    mean(d - b·c) > t_{m-2}(1 - ε_l / (C - 1)) · sd(d - b·c) · √(1/m + mean(c)² / Σ(c - mean(c))²)

Few draws can miss rare events: small masks seldom hide the one wrong token of a choice, so its differences
vary too little. The larger of the sample variance and a lower limit, if the caller gives one, is used.

A tie is called when the leader is unlikely to win. If its nearest rival is z standard errors behind after m
of K draws, it will be behind by about a normal number with mean z·√(K/m) and variance (K - m)/m after all K.
A tie is called if that number exceeds the last threshold with a probability below `hope`·m/K. The factor m/K
makes early calls rare, because early forecasts are uncertain.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
from jaxtyping import Bool, Float64, Int64

from maskevidence.errors import InputError
from maskevidence.evidence.standard_errors import student_t_quantile

Values = Float64[np.ndarray, "n_draws n_choices"]
Choices = Bool[np.ndarray, " n_choices"]
Control = Float64[np.ndarray, " n_draws"]
Least = Float64[np.ndarray, "n_choices n_choices"]
_FEWEST = 4  # draws to fit a line to
_NEXT_SHARE = 2 / 3  # the error probability of a look, relative to the previous look


@dataclass(frozen=True)
class Race:
    """When a race looks at its values, and how sure it has to be.

    Args:
        looks: after how many draws the race looks, increasing; the last one is the cap.
        hope: a tie is called after m of K draws where the chance to avoid it is below hope·m/K; 0 to go on to
            the cap.

    Example:
        >>> race = Race(0.99, looks=(4, 8))
        >>> values = np.array([[0.0, -9.0], [0.1, -9.2], [-0.1, -9.1], [0.2, -8.9]])
        >>> race.running(values, np.array([True, True]))
        array([ True, False])
    """

    confidence: float = 0.995
    looks: tuple[int, ...] = (8, 12, 16, 20, 24, 32, 40, 48, 64)
    hope: float = 0.6

    def __post_init__(self) -> None:
        if not 0.5 < self.confidence < 1.0:
            raise InputError(f"confidence={self.confidence:g}; give a probability above 0.5 and below 1")
        if not 0.0 <= self.hope < 1.0:
            raise InputError(f"hope={self.hope:g}; give a probability of 0 or more and below 1")
        steps = np.diff(np.array([1, *self.looks]))
        if not self.looks or (steps <= 0).any():
            raise InputError(f"looks={self.looks}; give numbers of draws that increase, from 2 or more")

    def threshold(self, look: int, df: int, n_choices: int) -> float:
        """The number of standard errors that a choice has to be behind to be out.

        Example:
            >>> round(Race(0.99, looks=(4,)).threshold(0, 3, 2), 4)
            4.5407
        """
        shares = [_NEXT_SHARE**number for number in range(len(self.looks))]
        return _quantile((1 - self.confidence) * shares[look] / sum(shares), n_choices, df)

    def running(
        self, values: Values, running: Choices, control: Control | None = None, least: Least | None = None
    ) -> Choices:
        """Which choices still run after a look.

        Args:
            values: shape (n_draws, n_choices); the values of the choices that run, one row per draw, as many
                as one of the looks has. The columns of choices that are out are not read.
            control: shape (n_draws,); a number of each draw whose expectation is 0. With fewer than 4 draws
                it is not used.
            least: shape (n_choices, n_choices); a lower limit of the variance of the difference between two
                choices in one draw. None for 0.

        Returns:
            Shape (n_choices,). At least the leader runs on; if it is alone, it has won.
        """
        if len(values) not in self.looks:
            raise InputError(f"{len(values)} draws; the race looks after {self.looks}, give as many of them")
        among = np.flatnonzero(running)
        if len(among) < 2:
            return running
        ahead, df = _standard_errors_ahead(values, among, control, least)
        result = running.copy()
        threshold = self.threshold(self.looks.index(len(values)), df, len(running))
        result[among[ahead > threshold]] = False
        return result

    def is_tie(
        self, values: Values, running: Choices, control: Control | None = None, least: Least | None = None
    ) -> bool:
        """Whether a tie is called after a look between the choices that run on."""
        among = np.flatnonzero(running)
        if len(among) < 2 or len(values) >= self.looks[-1]:
            return len(among) > 1
        ahead, df = _standard_errors_ahead(values, among, control, least)
        more = self.looks[-1] / len(values)
        needed = self.threshold(len(self.looks) - 1, df + self.looks[-1] - len(values), len(running))
        foreseen = np.sort(ahead)[1] * np.sqrt(more)  # the leader is 0 ahead of itself
        chance = math.erfc((needed - foreseen) / math.sqrt(2 * (more - 1))) / 2
        return chance < self.hope / more


def _standard_errors_ahead(
    values: Values, among: Int64[np.ndarray, " _"], control: Control | None, least: Least | None
) -> tuple[Float64[np.ndarray, " _"], int]:
    """The lead over each running choice in standard errors, and the degrees of freedom."""
    used = None if control is None or len(values) < _FEWEST else control
    level = without_line(values[:, among], used)
    leader = int(level.mean(0).argmax())
    behind = level[:, [leader]] - level
    df = len(values) - (1 if used is None else 2)
    centre, spread = (0.0, 1.0) if used is None else (used.mean(), ((used - used.mean()) ** 2).sum())
    variance = behind.var(0) * len(values) / df
    if least is not None:
        variance = np.maximum(variance, least[among[leader], among])
    error = np.sqrt(variance * (1 / len(values) + centre**2 / spread))
    distance = behind.mean(0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(distance > 0, distance / error, 0.0), df


@cache
def _quantile(error: float, n_choices: int, df: int) -> float:
    return student_t_quantile(1 - error / max(1, n_choices - 1), df)


def without_line(values: Values, control: Control | None) -> Values:
    """Values minus their linear dependence on a control: the values at control 0.

    Example:
        >>> control = np.array([-0.5, 0.0, 1.0])
        >>> without_line(np.array([[1.0], [2.0], [4.0]]), control).ravel()
        array([2., 2., 2.])
    """
    if control is None:
        return values
    centred = control - control.mean()
    slope = centred @ values / (centred @ centred)
    return values - control[:, None] * slope
