"""Build typer commands from functions whose options are declared as in `maskevidence.command.command_words`.

A command whose options differ by the kind of its MODEL has a parameter that stands for a dataclass of each
kind (`OptionsOf`). MODEL is looked up first among the words that were typed, and they are parsed with its
options.
"""

import inspect
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache, partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.core import TyperCommand

from maskevidence.command.command_words import Argument, Option, OptionsOf, declaration, flag
from maskevidence.core.errors import InputError
from maskevidence.core.kind import Kind, kinds
from maskevidence.core.support.files import check_place

_MAX_WHOLE = 2**63 - 1

Which = str  # a kind's name; "some": options that any kind has; "all": options that all kinds have


@dataclass(frozen=True)
class ModelArgument:
    """The MODEL argument of a command whose options depend on its kind."""

    command: str  # name under which kinds declare the options
    kind_of: Callable[[str], Kind]  # maps a MODEL word to its kind

    @property
    def kinds(self) -> list[Kind]:
        """The kinds that declare options of the command."""
        return [kind for kind in kinds() if self.command in kind.options]

    def pages(self, command: str) -> str:
        """Say on the help page without MODEL how to see the options of each kind."""
        named = [f"{kind.nouns} ({kind.examples.get(self.command) or kind.models[0]})" for kind in self.kinds]
        return f"**maskevidence {command} MODEL --help** shows the further options of {', '.join(named)}."


class Command(TyperCommand):
    """A command whose list options add up when repeated; other options may be given once."""

    def make_parser(self, ctx: Any) -> Any:
        parser = super().make_parser(ctx)
        if not ctx.resilient_parsing:
            for option in {*parser._long_opt.values()}:
                option.process = partial(_once, option, option.process)  # type: ignore[method-assign]
        return parser


def _once(option: Any, store: Callable[[Any, Any], None], value: Any, state: Any) -> None:
    """Store an option's value; append it to an earlier value if the metavar shows a list."""
    if option.dest in state.opts:
        before, (name, *_) = state.opts[option.dest], option.obj.opts
        if "[," not in (option.obj.metavar or ""):
            values = f" ({before} and {value})" if option.takes_value else ""
            raise InputError(f"{name} is given twice{values}; give it once")
        value = f"{before},{value}"
    store(value, state)


class CommandOfKinds(Command):
    """A command whose options depend on the kind of MODEL; completion offers the options of all kinds."""

    function: Callable[..., Any]
    models: ModelArgument

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the words with the options of MODEL's kind.

        Raises:
            InputError: an option that models of this kind do not have, and others have.
        """
        if extra.get("resilient_parsing"):  # shell completion
            return super().make_context(info_name, args, parent, **extra)
        model = self._model(info_name, list(args), parent)
        kind = None if model is None else self.models.kind_of(model)
        try:
            return self.of("all" if kind is None else kind.name).make_context(
                info_name, args, parent, **extra
            )
        except typer.TyperException as error:
            option = getattr(error, "option_name", None)
            owners = [
                kind
                for kind in self.models.kinds
                if any(option in each.opts for each in self.of(kind.name).params)
            ]
            if option is None or not owners or kind in owners:
                if kind is not None and getattr(error, "ctx", None) is not None:
                    error.ctx.info_name = f"{info_name} {shlex.quote(str(model))}"  # type: ignore[attr-defined]
                raise
            belongs = f"{option} belongs to {' and '.join(owner.nouns for owner in owners)}"
            if kind is None:
                raise InputError(f"{belongs}; name MODEL and DATA, too") from error
            raise InputError(f"{belongs}; {model!r} is one of {kind.nouns}") from error

    def of(self, which: Which) -> TyperCommand:
        """The command with the options of one kind, or with the options that all kinds have."""
        return _command(
            self.function, self.name, which, self.models.pages(self.name or "") if which == "all" else None
        )

    def _model(self, info_name: str | None, args: list[str], parent: Any) -> str | None:
        """The word in MODEL's place, if any; refuses nothing."""
        context = super().make_context(
            info_name,
            [*args, ""],  # a value in case the last option lacks one
            parent,
            resilient_parsing=True,
            ignore_unknown_options=True,
            allow_extra_args=True,
        )
        return context.params.get("model") or None


@cache
def _command(
    function: Callable[..., Any], name: str | None, which: Which, epilog: str | None
) -> TyperCommand:
    """Build a command with the options of one kind, or with the options that all kinds have."""
    alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    alone.command(name, cls=Command, epilog=epilog)(with_flat_signature(function, which))
    command = typer.main.get_command(alone)
    assert isinstance(command, TyperCommand)
    return command


def add_command(
    app: typer.Typer,
    function: Callable[..., Any],
    name: str | None = None,
    models: ModelArgument | None = None,
) -> None:
    """Register a function as a command of the application.

    Args:
        app: the app, or a group of its commands.
        function: its parameters are dataclasses of options, unions of them, or `Annotated` types that carry
            one `Option` or `Argument` each. The help page is its docstring.
        name: the name of the command; by default the name of the function.
        models: the models that MODEL may name, if a parameter is a union of dataclasses.
    """
    if models is None:
        app.command(name, cls=Command)(with_flat_signature(function))
        return
    attributes = {"function": staticmethod(function), "models": models}
    app.command(name, cls=type("CommandOfKinds", (CommandOfKinds,), attributes))(
        with_flat_signature(function)
    )


def with_flat_signature(function: Callable[..., Any], which: Which = "some") -> Callable[..., Any]:
    """Wrap a function for typer, with one parameter per option of its dataclasses.

    Args:
        function: as `add_command` takes it.
        which: the kind of model whose options it has, "some" for the options of all kinds together, and "all"
            for those that all kinds have. Only a command of a kind can be called, if kinds differ.

    Example:
        >>> from maskevidence.command.options import Sample
        >>> def greet(name: Annotated[str, Argument("NAME", "Whom to greet.")], sample: Sample) -> str:
        ...     return f"{name}: {sample.limit}"
        >>> flat = with_flat_signature(greet)
        >>> list(inspect.signature(flat).parameters)
        ['name', 'seed', 'limit']
        >>> flat(name="world", seed=0, limit=2)
        'world: 2'
    """
    parameters = inspect.signature(function).parameters.values()
    flat = [part for parameter in parameters for part in _flattened(parameter, which)]
    names = {each.name for each in flat}
    declared = {name: option for name, option in _declared(parameters) if name in names}

    @wraps(function)
    def command(**values: Any) -> Any:
        _check_sizes(values, declared)
        _check_places(values, declared)
        _use_threads(values.get("threads"))
        return function(
            **{each.name: _filled(each.annotation, each.name, values, which) for each in parameters}
        )

    command.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]  # rejects equal names
    command.__annotations__ = {each.name: each.annotation for each in flat}
    return command


def _flattened(
    parameter: inspect.Parameter, which: Which, owner: type | None = None
) -> Iterator[inspect.Parameter]:
    """Yield one parameter per option of a parameter."""
    annotation = parameter.annotation
    if by_kind := options_by_kind(annotation):
        options = {
            kind: {each.name: each for each in _flattened(parameter.replace(annotation=group), which)}
            for kind, group in by_kind.items()
        }
        if which in options:
            yield from options[which].values()
            return
        names = dict.fromkeys(name for group in options.values() for name in group)
        for name in names:
            has_it = [group[name] for group in options.values() if name in group]
            if which == "some" or len(has_it) == len(options):
                yield has_it[0]
    elif is_dataclass(annotation):
        assert isinstance(annotation, type)
        for field in fields(annotation):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            inner = parameter.replace(name=field.name, annotation=field.type, default=default)
            yield from _flattened(inner, which, annotation)
    else:
        yield parameter.replace(
            annotation=_for_typer(parameter.name, annotation, owner), kind=inspect.Parameter.KEYWORD_ONLY
        )


def options_by_kind(annotation: Any) -> dict[str, type]:
    """The dataclasses of a command's options by kind; {} for any other type."""
    of = next((part for part in get_args(annotation)[1:] if isinstance(part, OptionsOf)), None)
    if of is None:
        return {}
    return {kind.name: kind.options[of.command] for kind in kinds() if of.command in kind.options}


def _declared(parameters: Iterable[inspect.Parameter]) -> Iterator[tuple[str, Option]]:
    """Yield names and declarations of all options, also of options inside dataclasses."""
    for each in parameters:
        if by_kind := options_by_kind(each.annotation):
            yield from _declared(each.replace(annotation=group) for group in by_kind.values())
        elif is_dataclass(each.annotation):
            nested = fields(each.annotation)
            yield from _declared(each.replace(name=field.name, annotation=field.type) for field in nested)
        elif isinstance(option := declaration(each.annotation), Option):
            yield each.name, option


def _check_places(values: Mapping[str, Any], declared: Mapping[str, Option]) -> None:
    """Refuse places that cannot be written, hold another file or exclude each other."""
    places = {
        name: values[name] for name in declared if declared[name].writes and values[name] not in (None, "-")
    }
    for name, place in places.items():
        replaces = values.get("overwrite", True)
        check_place(place, folder=declared[name].writes == "folder", replaces=replaces)
    if "json" in places and "out" in places:
        json, out = str(places["json"]), str(places["out"])
        place, folder = (Path(os.path.realpath(path)) for path in (json, out))  # also resolves loops of links
        if place in (folder, *folder.parents):
            raise InputError(f"--json {json!r} is the place of --out {out!r}; give another file")


def _check_sizes(values: Mapping[str, Any], declared: Mapping[str, Option]) -> None:
    """Refuse numbers out of bounds and integers too large for torch and numpy."""
    for name, value in values.items():
        option = declared.get(name)
        if isinstance(value, int) and abs(value) > _MAX_WHOLE:
            raise InputError(f"{flag(name)} {value}; give a whole number below 2^63")
        if option is None or not isinstance(value, int | float):
            continue
        if option.min is not None and not value >= option.min:
            raise InputError(f"{flag(name)} {value}; give {option.min:g} or more")
        if option.max is not None and not value <= option.max:
            raise InputError(f"{flag(name)} {value}; give {option.max:g} or less")


def _filled(annotation: Any, name: str, values: Mapping[str, Any], which: Which) -> Any:
    """Return a parameter's value; build dataclasses from the values of their options."""
    for kind, group in options_by_kind(annotation).items():
        if kind == which:
            annotation = group
    if not is_dataclass(annotation):
        return values[name]
    assert isinstance(annotation, type)
    return annotation(
        **{each.name: _filled(each.type, each.name, values, which) for each in fields(annotation)}
    )


def _for_typer(name: str, annotation: Any, owner: type | None) -> Any:
    """Convert a parameter's type to an `Annotated` type for typer."""
    declared = declaration(annotation)
    assert declared is not None, f"{name} declares neither an option nor an argument"
    if isinstance(declared, Argument):
        words = declared.help if isinstance(declared.help, str) else declared.help()
        info: Any = typer.Argument(metavar=declared.metavar, help=words)
    else:
        info = typer.Option(
            flag(name),
            metavar=declared.metavar,
            help=declared.help,
            rich_help_panel=declared.panel or _panel(name, owner),
        )
    return Annotated[get_args(annotation)[0], info]


def _panel(name: str, owner: type | None) -> str | None:
    """The help page section of the class that declares a field."""
    for group in () if owner is None else owner.__mro__:
        if name in inspect.get_annotations(group):
            return getattr(group, "panel", None)
    return None


def _use_threads(threads: int | None) -> None:
    """Set torch's number of threads in this process."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
