"""How an option is declared: once, beside the field of the dataclass that holds its value.

A field's `Annotated` type carries an `Option` (or an `Argument`) with everything that is said about it. The
dataclass may name a `panel` of the help page, and the `kinds` of model that its options belong to. Nothing in
this module needs torch or typer: Python users fill the dataclasses, and the command line builds its
signatures from them.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, get_args

from maskevidence.errors import InputError

Kind = Literal["rows", "texts", "images"]
_NOUNS: dict[Kind, tuple[str, str]] = {
    "rows": ("a model of rows", "models of rows"),
    "texts": ("a masked language model", "masked language models"),
    "images": ("a masked image model", "masked image models"),
}


@dataclass(frozen=True)
class Argument:
    """A word of the command line that is given by its place.

    Attributes:
        metavar: its name on the help page.
        help: what it is.
    """

    metavar: str
    help: str


@dataclass(frozen=True)
class Option:
    """Everything that is said about an option, apart from its name, type and default.

    Attributes:
        help: one sentence for the help page.
        metavar: what stands for the value on the help page; by default the type.
        min: the smallest value.
        max: the largest value.
        panel: the part of the help page; by default that of the dataclass.
        kinds: the kinds of model that it belongs to; by default those of the dataclass, or all.
        writes: what is written to the place that it names. The place is checked before any work.
    """

    help: str
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    panel: str | None = None
    kinds: tuple[Kind, ...] | None = None
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


def given(options: Any, *, but: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[Kind, ...] | None]]:
    """The options of a dataclass whose values are not their defaults, with those of nested dataclasses.

    Args:
        options: the filled dataclass.
        but: names of fields to leave out.

    Yields:
        The name of each, and the kinds of model that it belongs to; None for all.

    Example:
        >>> from maskevidence.tasks.options import ImageOptions
        >>> list(given(ImageOptions(density="gaussian")))
        [('density', ('images',))]
    """
    for field in fields(options):
        value = getattr(options, field.name)
        if is_dataclass(value):
            yield from given(value, but=but)
        elif value != field.default and field.name not in but:
            option = declaration(field.type)
            yield field.name, getattr(option, "kinds", None) or getattr(options, "kinds", None)


def refuse_other_kinds(kind: Kind, model: str, *groups: Any) -> None:
    """Refuse options that belong to other kinds of model.

    Args:
        kind: the kind of the model.
        model: its word, for the message.
        groups: filled dataclasses of options.

    Raises:
        InputError: an option was given that this kind of model does not have.

    Example:
        >>> from maskevidence.tasks.options import ImageOptions
        >>> refuse_other_kinds("rows", "ppca:8", ImageOptions(density="gaussian"))
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: --density belongs to masked image models; leave it out for 'ppca:8', a
        model of rows
    """
    for group in groups:
        for name, kinds in given(group):
            if kinds is not None and kind not in kinds:
                owners = " and ".join(_NOUNS[owner][1] for owner in kinds)
                raise InputError(
                    f"{flag(name)} belongs to {owners}; leave it out for {model!r}, {_NOUNS[kind][0]}"
                )


def refuse_unless(needed: str, options: Any, *, but: tuple[str, ...] = ()) -> None:
    """Refuse the options of a dataclass that mean something only beside another option.

    Args:
        needed: the other option, such as "--engine ray".
        options: the filled dataclass.
        but: names of fields that may be given.

    Raises:
        InputError: one of them was given.
    """
    for name, _ in given(options, but=but):
        raise InputError(f"{flag(name)} belongs to {needed}; add that")
