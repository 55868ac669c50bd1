"""Score a density of numbers like a masked network: by the probability mass of each cell, over its step."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from maskevidence.core.errors import InputError
from maskevidence.core.model import (
    DENSITY,
    MASS,
    Conditionals,
    as_tokens,
    base_measure_of,
    device_of,
)
from maskevidence.core.tokens import Tokens
from maskevidence.tables.network.network_columns import Column, base_measure, columns_of


class CellMass(nn.Module):
    """A model of rows whose log-probability of a value x is log [P(x - δ/2 < X < x + δ/2) / δ].

    δ is the step of the column, as `MaskedNetwork` reads it: 1 for whole numbers, 0.1 for measurements with a
    decimal, 1/1000 of its scale for a column without steps, and the distance of the two values of a yes/no
    column. A density may exceed 1/δ without bound where a column has few values; the mass of a cell cannot,
    so that both models have one measure. Each cell is conditional on exact visible values: no single joint
    has these conditionals, and the area is a lower bound.

    Args:
        model: a density of numbers with `log_cells`: `Gaussian`, `PPCA`, `FactorAnalysis`, `KernelGaussian`,
            a `VAE`, or your own.
        cells: the training rows, shape (N, D), by whose values the steps are known; or `Column`s, such as
            `network.cells.columns` of a `MaskedNetwork`.

    Raises:
        InputError: a model without a density of cells, or a column of categories.

    Example:
        >>> import maskevidence as me
        >>> x = np.round(np.random.default_rng(0).normal(50, 10, size=(200, 2)))
        >>> model = me.models.CellMass(me.models.Gaussian(n_features=2).fit(x), x)
        >>> estimate = me.estimate_evidence(model, x)
        >>> estimate.kind, estimate.base_measure
        ('lower_bound', 'mass of each cell over its step')
    """

    conditionals: Conditionals = "learned"
    step: Tensor

    def __init__(self, model: Any, cells: object) -> None:
        super().__init__()
        check_cell_mass(model)
        if not (isinstance(cells, Sequence) and all(isinstance(column, Column) for column in cells)):
            rows = as_tokens(model, cells)
            cells = columns_of(np.where(rows.maskable.cpu(), rows.values.cpu().double(), np.nan))
        if any(column.kind == "category" for column in cells):
            raise InputError(f"{type(model).__name__} takes numbers, and a column holds categories; drop it")
        self.model, self.cells, self.base_measure = model, tuple(cells), base_measure(cells)
        steps = [np.diff(of.values)[0] if of.kind == "yes/no" else of.step for of in cells]
        step = torch.tensor(steps, dtype=torch.float64, device=device_of(model))
        self.register_buffer("step", step, persistent=False)

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """The log mass of each masked value's cell, divided by its step unless all columns are yes/no."""
        answer = self.model.log_cells(tokens, masked, self.step)
        return answer + masked * torch.log(self.step) if self.base_measure == MASS else answer

    def log_cells(
        self, tokens: Tokens, masked: Bool[Tensor, "B D"], step: Float[Tensor, " D"]
    ) -> Float[Tensor, "B D"]:
        """The log mass of cells of another width, over it."""
        return self.model.log_cells(tokens, masked, step)

    def tokens(self, x: object) -> Tokens:
        """Rows as the model's tokens."""
        return as_tokens(self.model, x)

    def save(self, folder: str | Path) -> None:
        """Save the wrapped model; `reloaded` attaches the same cells again."""
        self.model.save(folder)

    def reloaded(self, folder: str | Path) -> "CellMass":
        """Load the wrapped model from a folder, with the same cells."""
        return CellMass(self.model.reloaded(folder), self.cells)

    def in_words(self) -> str | None:
        """The wrapped model's short description."""
        return getattr(self.model, "in_words", lambda: None)()

    def notes_on(self, tokens: Tokens, data: object = None) -> tuple[str, ...]:
        """The wrapped model's notes."""
        of_model = getattr(self.model, "notes_on", None)
        return () if of_model is None else of_model(tokens, data)

    def fingerprint_settings(self) -> dict[str, Any]:
        """The wrapped model's class and settings, and the steps of the columns."""
        of_model = getattr(self.model, "fingerprint_settings", dict)
        return {"model": type(self.model).__name__, "step": self.step.tolist(), **of_model()}


def check_cell_mass(model: object) -> None:
    """Check that the model is a density that can be integrated over cells."""
    if not hasattr(model, "log_cells") or base_measure_of(model) != DENSITY:
        raise InputError(
            f"{type(model).__name__} gives no mass of cells; give a density of numbers, such as gaussian, "
            "ppca, factor-analysis, kernel-gaussian or vae"
        )
