"""Shades for log-probabilities, in steps that a legend can name."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from maskevidence.show.words import typeset


@dataclass(frozen=True)
class Shades:
    """Steps from certain (0, no shade) to least expected (5, the darkest).

    Attributes:
        edges: five decreasing log-probabilities; a value at or above the first has step 0.
        names: six phrases, one for each step.
        unit: what the values are.
    """

    edges: tuple[float, ...]
    names: tuple[str, ...]
    unit: str

    def step(self, log_prob: float) -> int:
        """The shade of a log-probability.

        Example:
            >>> of_probabilities().step(-0.01), of_probabilities().step(-10.0)
            (0, 5)
        """
        return sum(log_prob < edge for edge in self.edges)


def of_probabilities() -> Shades:
    """Shades for words: the steps are at probabilities of 1/2, 1/10, 1/100, 1/1000 and 1/10,000."""
    edges = tuple(float(np.log(p)) for p in (0.5, 0.1, 0.01, 0.001, 0.0001))
    first, *others = ("1/2", "1/10", "1/100", "1/1000", "1/10,000")
    names = (f"p ≥ {first}", *(f"≥ {share}" for share in others), f"< {others[-1]}")
    return Shades(edges, names, "probability of the token")


def of_densities(scores: Sequence[Float64[np.ndarray, " D"]]) -> Shades:
    """Shades for numbers, whose log-densities have no natural steps: the 50, 25, 10, 5 and 1 % quantiles."""
    values = np.concatenate(scores)
    edges = tuple(float(edge) for edge in np.quantile(values, (0.5, 0.25, 0.1, 0.05, 0.01)))
    shown = [typeset(edge) for edge in edges]
    return Shades(edges, (*(f"≥ {edge}" for edge in shown), f"< {shown[-1]}"), "log-density, nats")
