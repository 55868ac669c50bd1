"""How log-probabilities become shades, in steps that a legend can name."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from maskevidence.wording import typeset

N_STEPS = 6


@dataclass(frozen=True)
class Shades:
    """Steps from certain (0, no shade) to least expected (5, the darkest).

    Attributes:
        edges: five log-probabilities, falling; a value at or above the first has step 0.
        names: six phrases, one a step.
        unit: of the values.
    """

    edges: tuple[float, ...]
    names: tuple[str, ...]
    unit: str

    def step(self, log_prob: float) -> int:
        """Which shade a log-probability has.

        Example:
            >>> of_probabilities().step(-0.01), of_probabilities().step(-10.0)
            (0, 5)
        """
        return sum(log_prob < edge for edge in self.edges)


def of_probabilities() -> Shades:
    """For tokens that are words: steps at probabilities of ½, 1/10, 1/100, 1/1000 and 1/10,000."""
    probabilities = (0.5, 0.1, 0.01, 0.001, 0.0001)
    shown = ("1/2", "1/10", "1/100", "1/1000", "1/10,000")
    names = (f"p ≥ {shown[0]}", *(f"≥ {share}" for share in shown[1:]), f"< {shown[-1]}")
    return Shades(tuple(float(np.log(p)) for p in probabilities), names, "probability of the token")


def of_densities(scores: Sequence[Float64[np.ndarray, " D"]]) -> Shades:
    """For numbers, whose log-densities have no natural steps: at the run's quantiles 50, 25, 10, 5, 1 %."""
    values = np.concatenate(scores)
    edges = tuple(float(edge) for edge in np.quantile(values, (0.5, 0.25, 0.1, 0.05, 0.01)))
    shown = [typeset(edge) for edge in edges]
    names = (*(f"≥ {edge}" for edge in shown), f"< {shown[-1]}")
    return Shades(edges, names, "log-density, nats")
