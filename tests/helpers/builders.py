"""The type of fixtures that build a model with random parameters."""

from collections.abc import Callable

from oracles import GaussianModel

BuildModel = Callable[..., GaussianModel]
