"""How an option is declared: once, beside the field of the dataclass that holds its value.

A field's `Annotated` type carries an `Option` (or an `Argument`) with everything that is said about it. The
dataclass may name a `panel` of the help page, and the `kind` of model that it belongs to. Nothing in this
module needs torch or typer: Python users fill the dataclasses, and the command line builds its signatures
from them.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

ModelKind = Literal["rows", "texts", "images"]
KINDS: tuple[ModelKind, ...] = get_args(ModelKind)
NOUNS: dict[ModelKind, str] = {
    "rows": "models of rows",
    "texts": "masked language models",
    "images": "masked image models",
}


@dataclass(frozen=True)
class Argument:
    """A word of the command line that is given by its place."""

    metavar: str  # its name on the help page
    help: str  # what it is


@dataclass(frozen=True)
class Option:
    """Everything that is said about an option, apart from its name, type and default."""

    help: str  # one sentence for the help page
    metavar: str | None = None  # what stands for the value on the help page; by default the type
    min: float | None = None  # the smallest value
    max: float | None = None  # the largest value
    panel: str | None = None  # the part of the help page; by default that of the dataclass
    # what is written to the place that it names. The place is checked before any work.
    writes: Literal["file", "folder"] | None = None


def flag(name: str) -> str:
    """The flag of a field.

    Example:
        >>> flag("batch_size")
        '--batch-size'
    """
    return "--" + name.replace("_", "-")


def declaration(annotation: Any) -> Option | Argument | None:
    """The `Option` or `Argument` that an `Annotated` type carries, or None."""
    declared = (part for part in get_args(annotation)[1:] if isinstance(part, Option | Argument))
    return next(declared, None)
