"""Nodes of integrals over the latent space N(0, I_K): grids and quasi-Monte-Carlo points."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from maskevidence.core.errors import InputError

MAX_AXES = 3
_MAX_NODES = 2**22


class Nodes(NamedTuple):
    """Points z_q and log weights of a quadrature: Σ_q w_q f(z_q) ≈ E f(z), z ~ N(0, I_K)."""

    points: Float[Tensor, "Q K"]
    # shape (Q,); normalised, Σ_q w_q = 1, so that the quadrature is itself a density: a mixture of Q
    # components
    log_weights: Float[Tensor, " Q"]


@dataclass(frozen=True)
class Grid:
    """Nodes shared by all observations, evenly spaced on [-half_width, half_width] in each dimension.

    The weights are the normalised density of the standard normal. Once the spacing is below the width of the
    posteriors, the error falls faster than any power of the spacing: the integrand is smooth and vanishes at
    the ends, as the trapezoidal rule needs.

    Args:
        per_axis: number of nodes in each dimension, 2 or more.
        half_width: the end of the grid; one in 1.7 million draws of a dimension falls beyond 5.

    Raises:
        InputError: fewer than 2 nodes, or a width that is not finite and above 0.

    Source:
        Trefethen and Weideman (2014), The Exponentially Convergent Trapezoidal Rule.

    Example:
        >>> Grid(per_axis=3, half_width=1.0).nodes(1).points.flatten().tolist()
        [-1.0, 0.0, 1.0]
    """

    per_axis: int = 20
    half_width: float = 5.0

    def __post_init__(self) -> None:
        if self.per_axis < 2 or not 0 < self.half_width < float("inf"):
            raise InputError(
                f"a grid of {self.per_axis} nodes per axis to ±{self.half_width:g}; give 2 nodes or more and "
                "a finite width above 0, such as Grid(20, 5.0)"
            )

    def n_nodes_over(self, n_components: int) -> int:
        """The number of nodes in K dimensions."""
        return self.per_axis**n_components

    def finer(self) -> "Grid":
        """A grid with twice as many nodes in each dimension, up to 1.5 times as wide."""
        return Grid(2 * self.per_axis, min(1.5 * self.half_width, 10.0))

    def check(self, n_components: int) -> None:
        """Refuse a grid with too many dimensions or nodes."""
        if n_components > MAX_AXES or self.n_nodes_over(n_components) > _MAX_NODES:
            raise InputError(
                f"a grid of {self.per_axis} nodes per axis has {self.per_axis}^{n_components} nodes over "
                f"K={n_components} dimensions; a grid is for K up to {MAX_AXES} and {_MAX_NODES:,} nodes: "
                "give integration=Importance() instead"
            )

    def nodes(
        self, n_components: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> Nodes:
        """The nodes in K dimensions."""
        self.check(n_components)
        axis = torch.linspace(
            -self.half_width, self.half_width, self.per_axis, dtype=torch.float64, device=device
        )
        log_axis = torch.log_softmax(-0.5 * axis.square(), 0)
        points = torch.cartesian_prod(*[axis] * n_components).reshape(-1, n_components)
        log_weights = torch.cartesian_prod(*[log_axis] * n_components).reshape(-1, n_components).sum(1)
        return Nodes(points.to(dtype), log_weights.to(dtype))


@dataclass(frozen=True)
class Importance:
    """Nodes for each observation and mask, by importance sampling at quasi-Monte-Carlo points.

    Half of the points come from the prior, half from a Gaussian at the mode of the posterior given the
    visible tokens, with 1.5 times the standard deviations of the curvature. The weights use the mixture of
    both in the denominator, so that no weight exceeds twice the mean weight under the prior.

    Args:
        n_nodes: a power of two, 4 or more.
        seed: of the scrambling of the Sobol points.

    Raises:
        InputError: a number that is not a power of two, or below 4.

    Source:
        Owen and Zhou (2000), Safe and Effective Importance Sampling.
    """

    n_nodes: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n_nodes < 4 or self.n_nodes & (self.n_nodes - 1):
            raise InputError(f"n_nodes={self.n_nodes}; give a power of two from 4 on, such as 512")

    def n_nodes_over(self, n_components: int) -> int:
        """The number of nodes, the same in any number of dimensions."""
        return self.n_nodes

    def finer(self) -> "Importance":
        """A rule with twice as many nodes."""
        return Importance(2 * self.n_nodes, self.seed)

    def normal_points(
        self, n_components: int, dtype: torch.dtype = torch.float64, device: torch.device | str = "cpu"
    ) -> Float[Tensor, "n K"]:
        """Quasi-random points of N(0, I_K), half as many as nodes, shape (n_nodes / 2, K)."""
        engine = torch.quasirandom.SobolEngine(n_components, scramble=True, seed=self.seed)  # type: ignore[no-untyped-call]
        uniform = engine.draw(self.n_nodes // 2, dtype=torch.float64)
        inside = uniform.clamp(2.0**-40, 1 - 2.0**-40)
        return torch.special.ndtri(inside).to(dtype).to(device)


Integration = Grid | Importance
