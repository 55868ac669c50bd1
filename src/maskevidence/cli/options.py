"""Typer commands built from functions whose options are declared as in `maskevidence.tasks.declaring`."""

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from maskevidence.errors import InputError
from maskevidence.support.files import check_place
from maskevidence.tasks.declaring import Argument, declaration, flag

_MAX_WHOLE = 2**63 - 1


def add_command(app: typer.Typer, function: Callable[..., Any], name: str | None = None) -> None:
    """Make a function a command of the app.

    Args:
        app: the app, or a group of its commands.
        function: its parameters are dataclasses of options, or `Annotated` types that carry one `Option` or
            `Argument` each. Its docstring is the help page.
        name: the name of the command; by default that of the function.
    """
    app.command(name)(with_flat_signature(function))


def with_flat_signature(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function for typer, with one parameter for each option of its dataclasses.

    Example:
        >>> from maskevidence.tasks.options import Common
        >>> def greet(name: Annotated[str, Argument("NAME", "Whom to greet.")], common: Common) -> str:
        ...     return f"{name}: {common.threads}"
        >>> flat = with_flat_signature(greet)
        >>> list(inspect.signature(flat).parameters)
        ['name', 'threads', 'json']
        >>> flat(name="world", threads=2, json=None)
        'world: 2'
    """
    parameters = inspect.signature(function).parameters.values()
    flat = [part for parameter in parameters for part in _flattened(parameter)]
    places = dict(_places(parameters))

    @wraps(function)
    def command(**values: Any) -> Any:
        _check_sizes(values)
        _check_places({name: values[name] for name in places if values[name] not in (None, "-")}, places)
        return function(**{one.name: _filled(one.annotation, one.name, values) for one in parameters})

    command.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]  # rejects equal names
    command.__annotations__ = {one.name: one.annotation for one in flat}
    return command


def _flattened(parameter: inspect.Parameter, owner: type | None = None) -> Iterator[inspect.Parameter]:
    annotation = parameter.annotation
    if is_dataclass(annotation):
        assert isinstance(annotation, type)
        for one in fields(annotation):
            default = inspect.Parameter.empty if one.default is MISSING else one.default
            inner = parameter.replace(name=one.name, annotation=one.type, default=default)
            yield from _flattened(inner, annotation)
    else:
        yield parameter.replace(
            annotation=_for_typer(parameter.name, annotation, owner), kind=inspect.Parameter.KEYWORD_ONLY
        )


def _places(parameters: Iterable[inspect.Parameter]) -> Iterator[tuple[str, str]]:
    """The names of the options that name a place to be written, with what is written there."""
    for one in parameters:
        if is_dataclass(one.annotation):
            nested = fields(one.annotation)
            yield from _places(one.replace(name=field.name, annotation=field.type) for field in nested)
        elif (writes := getattr(declaration(one.annotation), "writes", None)) is not None:
            yield one.name, writes


def _check_places(values: Mapping[str, str | Path], places: Mapping[str, str]) -> None:
    """Refuse places that cannot be written, or not beside each other."""
    for name, place in values.items():
        check_place(place, folder=places[name] == "folder")
    if "json" in values and "out" in values:
        json, out = str(values["json"]), str(values["out"])
        place, folder = (Path(os.path.realpath(path)) for path in (json, out))  # loops of links, too
        if place in (folder, *folder.parents):
            raise InputError(f"--json {json!r} is the place of --out {out!r}; give another file")


def _check_sizes(values: Mapping[str, Any]) -> None:
    """Refuse whole numbers that torch and numpy cannot hold."""
    for name, value in values.items():
        if isinstance(value, int) and abs(value) > _MAX_WHOLE:
            raise InputError(f"{flag(name)} {value}; give a whole number below 2^63")


def _filled(annotation: Any, name: str, values: dict[str, Any]) -> Any:
    if not is_dataclass(annotation):
        return values[name]
    assert isinstance(annotation, type)
    return annotation(**{one.name: _filled(one.type, one.name, values) for one in fields(annotation)})


def _for_typer(name: str, annotation: Any, owner: type | None) -> Any:
    """Translate the type of a parameter into the `Annotated` type that typer reads."""
    declared = declaration(annotation)
    assert declared is not None, f"{name} declares neither an option nor an argument"
    if isinstance(declared, Argument):
        info: Any = typer.Argument(metavar=declared.metavar, help=declared.help)
    else:
        info = typer.Option(
            flag(name),
            metavar=declared.metavar,
            help=declared.help,
            min=declared.min,
            max=declared.max,
            rich_help_panel=declared.panel or getattr(owner, "panel", None),
        )
    return Annotated[get_args(annotation)[0], info]


def use_threads(threads: int | None) -> None:
    """Set the number of threads that torch uses in this process."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
