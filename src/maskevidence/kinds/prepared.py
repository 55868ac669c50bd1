"""A model and the observations to score it on."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from maskevidence.model import device_of
from maskevidence.runs import DataSource
from maskevidence.tokens import Tokens


@dataclass(frozen=True)
class Prepared:
    """A model that is ready, and the observations to score it on."""

    model: Any  # fitted or loaded
    tokens: Tokens  # the observations
    # where they come from, as run.json says it, with notes on what was done to prepare them
    source: DataSource
    fitted: bool = False  # whether the model was fitted for this score
    # what else decides the numbers and is stored with them, such as the density of pixels
    details: dict[str, Any] = field(default_factory=dict)
    code: str | None = None  # SHA-256 of the user's file that made the model; None for other models
    revision: str | None = None  # branch, tag or commit of a model on the hub, if it was given
    # loads the same model in another process; None if the model itself can be sent
    load: Callable[[], Any] | None = None
    tokenizer: Any = None  # of a masked language model; None for other models
    # the texts that are scored, one or two for each observation unless they were split or joined; None for
    # other models
    texts: tuple[tuple[str, ...], ...] | None = None
    labels: tuple[str, ...] | None = None  # a name for each observation; None if they have none

    @property
    def notes(self) -> list[str]:
        """What was done to prepare the model and the data, one sentence each."""
        return self.source.notes

    def with_note(self, note: str) -> "Prepared":
        """The same with one more note."""
        return replace(self, source=self.source.model_copy(update={"notes": [*self.notes, note]}))

    def read_with(self, data: str, options: dict[str, Any]) -> "Prepared":
        """Record the DATA word, and the options that the data were read with; None and False are left out."""
        chosen = {name: value for name, value in options.items() if value}
        return replace(self, source=self.source.model_copy(update={"name": data, "options": chosen}))


def recorded(model: Any) -> dict[str, str | None]:
    """The names of a model's precision and device; None for a model without parameters.

    Example:
        >>> import maskevidence as me
        >>> recorded(me.models.PPCA(3, 1))
        {'dtype': 'float64', 'device': 'cpu'}
    """
    device = device_of(model)
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    parameters = (parameter for module in modules[:1] for parameter in module.parameters())
    dtype = getattr(model, "dtype", None) or next((each.dtype for each in parameters), None)
    if any(getattr(module, "in_bfloat16", False) for module in modules):
        dtype = torch.bfloat16
    return {
        "dtype": None if dtype is None else str(dtype).removeprefix("torch."),
        "device": None if device is None else str(device),
    }
