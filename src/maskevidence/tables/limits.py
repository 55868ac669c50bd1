"""Score limits such as <0.5 by the probability of their interval."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn

from maskevidence.core.model import Conditionals, as_tokens, device_of
from maskevidence.core.show.words import count
from maskevidence.core.table import Table
from maskevidence.core.tokens import Tokens

_WIDE = 1e7  # the width of a half-line, in ranges of its column


class WithLimits(nn.Module):
    """A model of rows that also scores limits: log P(X < 0.5 | visible) for <0.5, log P(X > 100 | visible)
    for >100.

    Other cells keep the model's log-probability. A visible limit is hidden: conditioning on an interval is
    not built. Each order of the cells gives a distribution, but these differ, so that the area is a lower
    bound. A half-line is a cell of the width 10⁷ times the column's range, by the model's `log_cells`.

    Args:
        model: a fitted model with `log_cells`.
        table: rows with `limits`; their ids name the rows that are scored.
        columns: of the model, in its order; by default those of the table.

    Example:
        >>> import maskevidence as me
        >>> values, limits = np.array([[1.0, 0.0], [np.nan, 0.0]]), {"a": {1: (0.0, 0.5)}}
        >>> table = Table("t", values, ("a", "b"), np.arange(2), limits=limits)
        >>> model = WithLimits(me.models.Gaussian(torch.zeros(2), torch.eye(2)), table)
        >>> hidden = torch.tensor([[True, False]] * 2)
        >>> answer = model.log_conditionals(model.tokens(table), hidden).exp()
        >>> answer[:, 0].tolist()  # a density, and P(X < 0.5)
        [0.2419..., 0.6914...]
    """

    conditionals: Conditionals = "learned"
    width: Tensor

    def __init__(self, model: Any, table: Table, columns: Sequence[str] | None = None) -> None:
        super().__init__()
        self.table, self.columns = table, columns
        self.model, self.base_measure = model, f"{model.base_measure}, of limits a probability"
        names = [*(columns or table.columns)]
        places = [table.columns.index(name) for name in names]
        self.ends = {
            (row, names.index(name)): both
            for name, rows in table.limits.items()
            if name in names
            for row, both in rows.items()
        }
        self.columns_of_row: dict[int, list[int]] = {}
        for row, j in self.ends:
            self.columns_of_row.setdefault(row, []).append(j)
        width = _WIDE * _ranges(table.values[:, places], self.ends)
        self.register_buffer("width", torch.from_numpy(width).to(device_of(model) or "cpu"), persistent=False)

    def tokens(self, x: object) -> Tokens:
        """Rows as tokens, with limits among those that can be hidden: the middle of their half-line."""
        tokens = as_tokens(self.model, x)  # `Tokens` stay as they are
        place = {row: k for k, row in enumerate(tokens.ids.tolist())}
        values, maskable = tokens.values.clone(), tokens.maskable.clone()
        for (row, j), (low, high) in self.ends.items():
            if row in place:
                middle = low + self.width[j] / 2 if np.isinf(high) else high - self.width[j] / 2
                values[place[row], j], maskable[place[row], j] = middle, True
        return replace(tokens, values=values, maskable=maskable)

    def _limits(self, tokens: Tokens) -> Bool[Tensor, "B D"]:
        """Which tokens are limits."""
        found = torch.zeros(len(tokens), tokens.width, dtype=torch.bool)
        for place, row in enumerate(tokens.ids.tolist()):
            if row in self.columns_of_row:
                found[place, self.columns_of_row[row]] = True
        return found.to(tokens.values.device)

    def log_conditionals(self, tokens: Tokens, masked: Bool[Tensor, "B D"]) -> Float[Tensor, "B D"]:
        """log p(x_j | x_visible), of a limit log P, nats, shape (B, D); 0 where not masked."""
        limits = self._limits(tokens)
        tokens = replace(tokens, maskable=tokens.maskable & (masked | ~limits))
        answer = self.model.log_conditionals(tokens, masked)
        some = torch.nonzero((limits & masked).any(1)).flatten()
        if len(some):
            masses = self.model.log_cells(tokens[some], masked[some], self.width) + torch.log(self.width)
            answer[some] = torch.where(limits[some], masses.to(answer) * masked[some], answer[some])
        return answer

    def notes_on(self, tokens: Tokens, data: object = None) -> tuple[str, ...]:
        """The wrapped model's notes, and one on the limits."""
        of_model = getattr(self.model, "notes_on", None)
        n = int(self._limits(tokens).sum())
        note = f"{count(n, 'limit')} {'is' if n == 1 else 'are'} scored by the probability of the interval"
        return (*(() if of_model is None else of_model(tokens, data)), *([note] if n else []))

    def save(self, folder: str | Path) -> None:
        """Save the wrapped model."""
        self.model.save(folder)

    def reloaded(self, folder: str | Path) -> "WithLimits":
        """Load the wrapped model from a folder, for the same rows."""
        return WithLimits(self.model.reloaded(folder), self.table, self.columns)

    def in_words(self) -> str | None:
        """The wrapped model's short description."""
        return getattr(self.model, "in_words", lambda: None)()

    def fingerprint_settings(self) -> dict[str, Any]:
        """The wrapped model's class and settings."""
        of_model = getattr(self.model, "fingerprint_settings", dict)
        return {"model": type(self.model).__name__, "limits": len(self.ends), **of_model()}


def with_limits(
    model: Any, table: Table, columns: Sequence[str] | None = None
) -> tuple[Any, tuple[str, ...]]:
    """The model that also scores the limits of a table, or itself and a note if it cannot."""
    names = columns or table.columns
    if not any(rows for name, rows in table.limits.items() if name in names):
        return model, ()
    if hasattr(model, "log_cells"):
        return WithLimits(model, table, columns), ()
    return model, (
        f"limits such as <0.5 are not scored: {type(model).__name__} has no distribution function",
    )


def _ranges(
    values: Float64[np.ndarray, "N D"], ends: dict[tuple[int, int], Any]
) -> Float64[np.ndarray, " D"]:
    """The range of each column with its limits; 1 where that is 0 or unknown."""
    low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
    for (_, j), both in ends.items():
        for end in filter(np.isfinite, both):
            low[j], high[j] = np.fmin(low[j], end), np.fmax(high[j], end)
    spread = high - low
    return np.where(spread > 0, spread, 1.0)
