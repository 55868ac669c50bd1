"""A model and the rows to score it on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from maskevidence.data.tabular import Table
from maskevidence.tasks.image_rows import ImageRows
from maskevidence.tasks.text_rows import TextRows


@dataclass(frozen=True)
class Prepared:
    """A model that is ready, and the rows to score it on.

    Attributes:
        model: fitted or loaded; its `columns` are those of a table of numbers.
        table: the rows to score.
        notes: what was done to prepare them, one sentence each.
        test_fraction: the share of the rows that was held out and is scored; None if all rows are.
        fitted: whether the model was fitted for this score.
        source_fingerprint: of all rows, before some were held out; None unless the model was fitted.
        details: what else decides the numbers and is stored with them, such as the density of pixels.
        load: loads the same model in another process; None if the model itself can be sent.
        tokenizer: of a masked language model; None for other models.
    """

    model: Any
    table: Table | TextRows | ImageRows
    notes: tuple[str, ...]
    test_fraction: float | None = None
    fitted: bool = False
    source_fingerprint: str | None = None
    details: dict[str, Any] = field(default_factory=dict)
    load: Callable[[], Any] | None = None
    tokenizer: Any = None
