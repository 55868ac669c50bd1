"""A learning rate schedule that lowers the rate when the held-out evidence stops rising."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from maskevidence.core.errors import InputError


@dataclass(frozen=True)
class Pace:
    """Lower the learning rate when the held-out evidence stops rising.

    After some epochs without a higher held-out evidence, training goes on from the best parameters at a lower
    learning rate: too high a rate is left after a few epochs, and a fit that still gains takes more of them.
    Training ends where the rate would be below the lowest.

    Args:
        patience: epochs without a higher held-out evidence before the rate falls.
        factor: the factor by which the rate falls.
        lowest: the lowest rate, relative to the highest.
        share: a longer patience, in shares of the epochs so far: what climbs slowly is given longer.

    Raises:
        InputError: a patience below 1, a factor or lowest rate outside (0, 1), or a share outside [0, 1).

    Example:
        >>> pace = Pace(patience=2, factor=0.5, lowest=0.5)
        >>> [pace.rate([-9.0, -5.0, -6.0, -5.5][:n]) for n in (0, 2, 3, 4)], pace.rate([-5.0, -6, -6, -6, -6])
        ([1.0, 1.0, 1.0, 0.5], 0.0)
    """

    patience: int = 2
    factor: float = 0.3
    lowest: float = 0.02
    share: float = 0.0

    def __post_init__(self) -> None:
        if not (self.patience >= 1 and 0 < self.factor < 1 and 0 < self.lowest < 1 and 0 <= self.share < 1):
            raise InputError(
                f"{self}; give a patience of 1 or more, a factor and a lowest rate in (0, 1), and a share in "
                "[0, 1)"
            )

    def rate(self, held_out: Sequence[float]) -> float:
        """The learning rate after these held-out evidences, relative to the highest; 0 at the end.

        Args:
            held_out: the held-out evidence before the first epoch and after each epoch.
        """
        rate, _ = self._fallen(held_out)
        return rate if rate >= self.lowest else 0.0

    def forecast(self, held_out: Sequence[float]) -> int:
        """Forecast the number of epochs, if the rate keeps falling as often as so far.

        Example:
            >>> Pace().forecast([-9.0, *range(10)]), Pace().forecast([-9.0, *range(10), 0.0, 0.0])
            (30, 24)
        """
        n, (_, fallen) = len(held_out) - 1, self._fallen(held_out)
        left = 1 + math.floor(math.log(self.lowest) / math.log(self.factor)) - fallen
        return n + math.ceil(left * max(self.patience, n / (fallen + 2)))

    def _fallen(self, held_out: Sequence[float]) -> tuple[float, int]:
        """The rate, ignoring the lowest allowed, and the number of times it has fallen."""
        rate, fallen, best, last = 1.0, 0, 0, 0  # epochs of the best evidence and of the last fall
        for k in range(1, len(held_out)):
            if held_out[k] > held_out[best]:
                best = k
            elif k - max(best, last) >= max(self.patience, self.share * k):
                rate, fallen, last = rate * self.factor, fallen + 1, k
        return rate, fallen
