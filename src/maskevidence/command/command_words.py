"""Words of the command line: declare options; parse MODEL, columns and sizes.

An option is declared once, at the field of the dataclass that holds its value: the `Annotated` type of
the field carries an `Option` (or an `Argument`) with everything that is said about it. The dataclass may name
a `panel` of the help page, and the `kind` of model that it belongs to. Nothing here needs torch or typer:
Python users fill the dataclasses, and the command line builds its signatures from them.
"""

import csv
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from maskevidence.core.errors import InputError
from maskevidence.core.kind import Kind, ModelWord, kinds
from maskevidence.core.support.files import read_json
from maskevidence.core.support.hub import hub_file

_OWN = re.compile(r"(.+\.py)(:.*)?", re.S)
_ON_THE_HUB = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*")


@dataclass(frozen=True)
class Argument:
    """A positional argument of a command."""

    metavar: str  # name on the help page
    help: str | Callable[[], str]  # description; a function if it depends on the installed kinds


@dataclass(frozen=True)
class OptionsOf:
    """Marks a parameter whose options depend on the kind of MODEL."""

    command: str  # the name under which kinds declare the options


@dataclass(frozen=True)
class Option:
    """The declaration of an option; name, type and default are the field's own."""

    help: str  # one sentence for the help page
    metavar: str | None = None  # placeholder of the value on the help page; by default the type
    min: float | None = None  # smallest value
    max: float | None = None  # largest value
    panel: str | None = None  # section of the help page; by default the dataclass's
    # whether the value names a file or folder to write, which is checked before any work
    writes: Literal["file", "folder"] | None = None


def flag(name: str) -> str:
    """The command line flag of a field.

    Example:
        >>> flag("batch_size")
        '--batch-size'
    """
    return "--" + name.replace("_", "-")


def declaration(annotation: Any) -> Option | Argument | None:
    """The `Option` or `Argument` in an `Annotated` type; None if it has neither."""
    declared = (part for part in get_args(annotation)[1:] if isinstance(part, Option | Argument))
    return next(declared, None)


def kind_of_training(word: str) -> Kind:
    """The kind of a MODEL word of `train`.

    Example:
        >>> kind_of_training("ppca:8").name
        'rows'
    """
    return _claimed(ModelWord(word), "train")


def kind_of_model(word: str) -> Kind:
    """The kind of a MODEL word.

    Example:
        >>> kind_of_model("ppca:8").name, kind_of_model("google-bert/bert-base-uncased").name
        ('rows', 'texts')
    """
    return _claimed(_looked_up(word), "score")


def _claimed(word: ModelWord, command: str) -> Kind:
    """The kind of highest precedence that names a word; where none does, that claims it."""
    asked = [kind for kind in reversed(kinds()) if command in kind.options]
    naming = (kind for kind in asked if kind.names(word.text) and not word.is_folder)
    return next(naming, None) or next(kind for kind in asked if kind.claims(word))


def _looked_up(word: str) -> ModelWord:
    """Look up the config.json of a MODEL word; refuse a run of the user's own code."""
    folder = Path(word)
    for run in (folder, folder.parent):
        _refuse_code_of_run(run)
    if folder.is_dir():
        return ModelWord(word, is_folder=True, config=_config(folder / "config.json"))
    if _ON_THE_HUB.fullmatch(word) is None or own_file(word) is not None:
        return ModelWord(word)
    file = hub_file(word, "config.json")
    return ModelWord(word, on_hub=True, config=None if file is None else _config(file))


def _config(file: Path) -> Any:
    """Read a model's config.json; None if it is missing or damaged."""
    try:
        return read_json(file)
    except InputError:
        return None


def own_file(word: str) -> Path | None:
    """The Python file of a MODEL word FILE.py:FUNCTION; None for other words.

    Example:
        >>> own_file("/home/me/model.py:make").name, own_file("ppca:8")
        ('model.py', None)
    """
    match = _OWN.fullmatch(word)
    return None if match is None else Path(match[1]).resolve()


def _refuse_code_of_run(folder: Path) -> None:
    """Refuse a run of a user's own code: runs do not store code, and none is run from there."""
    run = _config(folder / "run.json") if (folder / "run.json").is_file() else None
    word = run.get("model") if isinstance(run, dict) else None
    if isinstance(word, str) and own_file(word) is not None:
        raise InputError(
            f"the run in {str(folder)!r} is of {word!r}, code that a run does not hold; type that as MODEL"
        )


def parse_words(option: str, text: str | None) -> list[str]:
    """Split words at commas; a word that contains a comma is in quotes.

    Example:
        >>> parse_words("columns", 'a,"b, in m"')
        ['a', 'b, in m']
    """
    if text is None:
        return []
    try:
        lines = list(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise InputError(
            f'{flag(option)} {text!r} cannot be read ({error}); write a,b or a,"b, c"'
        ) from error
    words = lines[0] if lines else []
    if not words or not all(words):
        raise InputError(f"{flag(option)} {text!r} lacks a word; write words between commas, such as a,b")
    if len(set(words)) < len(words):
        twice = next(word for number, word in enumerate(words) if word in words[:number])
        raise InputError(f"{flag(option)} names {twice!r} twice; name it once")
    return words


def parse_size(word: str | None) -> tuple[int, int] | None:
    """Parse a --resize word, such as "28x24" or "28", into (height, width); None stays None.

    Example:
        >>> parse_size("32x24"), parse_size("28")
        ((32, 24), (28, 28))
    """
    if word is None:
        return None
    parts = word.lower().split("x")
    if len(parts) > 2 or not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise InputError(f"{word!r} is not an image size; write 28x28 (height x width)")
    return int(parts[0]), int(parts[-1])
