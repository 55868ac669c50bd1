"""The command line application: builds typer commands, prints results, turns errors into exit codes.

A command whose options differ by the kind of its MODEL has a parameter that stands for a dataclass of each
kind (`OptionsOf`). MODEL is looked up first among the words that were typed, and they are parsed with its
options.
"""

import codecs
import inspect
import io
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, partial, wraps
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console
from typer.core import TyperCommand

from maskevidence.command.check import check_command
from maskevidence.command.compare import compare_command
from maskevidence.command.failures import (
    DEBUG,
    failure,
    interrupted,
    is_of_output,
    say,
    typed_arguments,
    unforeseen_failure,
)
from maskevidence.command.options import (
    Argument,
    Json,
    Option,
    OptionsOf,
    OverwriteFiles,
    Result,
    Threads,
    declaration,
    flag,
    kind_of_model,
    kind_of_training,
)
from maskevidence.command.reporting import report
from maskevidence.command.score import score
from maskevidence.command.summarize import summarize
from maskevidence.command.train import train
from maskevidence.core.errors import (
    CollapsedWeightsWarning,
    ConvergenceWarning,
    InputError,
    MaskEvidenceError,
    UnknownTokensWarning,
    UntrustedFileWarning,
)
from maskevidence.core.kind import Kind, kinds, named
from maskevidence.core.show.words import plain
from maskevidence.core.support.checks import address_limit

_MAX_WHOLE = 2**63 - 1
_READABLE = "maskevidence.readable"  # name of the handler for characters that the output's encoding lacks
_IN_ASCII = str.maketrans(
    {"\N{MINUS SIGN}": "-", "±": "+/-", "×": "x", "─": "-", "●": "*", "┊": "|", "–": "-", "…": "..."}
)

Which = str  # a kind's name; "some": options that any kind has; "all": options that all kinds have


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
    kind_of: Callable[[str], Kind]  # maps a MODEL word to its kind

    @property
    def kinds(self) -> list[Kind]:
        """The kinds that declare options of the command."""
        return [kind for kind in kinds() if self.name in kind.options]

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the words with the options of MODEL's kind.

        Raises:
            InputError: an option that models of this kind do not have, and others have.
        """
        if extra.get("resilient_parsing"):  # shell completion
            return super().make_context(info_name, args, parent, **extra)
        model = self._model(info_name, list(args), parent)
        kind = None if model is None else type(self).kind_of(model)
        try:
            return self.of("all" if kind is None else kind.name).make_context(
                info_name, args, parent, **extra
            )
        except typer.TyperException as error:
            option = getattr(error, "option_name", None)
            owners = [
                kind for kind in self.kinds if any(option in each.opts for each in self.of(kind.name).params)
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
        return _command(self.function, self.name, which, self._pages() if which == "all" else None)

    def _pages(self) -> str:
        """Say on the help page without MODEL how to see the options of each kind."""
        named = [
            f"{kind.nouns} ({kind.examples.get(str(self.name)) or kind.models[0]})" for kind in self.kinds
        ]
        return f"**maskevidence {self.name} MODEL --help** shows the further options of {', '.join(named)}."

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
    kind_of: Callable[[str], Kind] | None = None,
) -> None:
    """Register a function as a command of the application.

    Args:
        app: the app, or a group of its commands.
        function: its parameters are dataclasses of options, unions of them, or `Annotated` types that carry
            one `Option` or `Argument` each. The help page is its docstring.
        name: the name of the command; by default the name of the function.
        kind_of: maps a MODEL word to its kind, if a parameter's options depend on that.
    """
    if kind_of is None:
        app.command(name, cls=Command)(with_flat_signature(function))
        return
    attributes = {"function": staticmethod(function), "kind_of": staticmethod(kind_of)}
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
    declared = {
        each.name: option for each in flat if isinstance(option := declaration(each.annotation), Option)
    }

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


def _check_places(values: Mapping[str, Any], declared: Mapping[str, Option]) -> None:
    """Refuse places that cannot be written, hold another file or exclude each other."""
    from maskevidence.core.support.files import check_place

    places = {
        name: values[name] for name in declared if declared[name].writes and values[name] not in (None, "-")
    }
    for name, place in places.items():
        replaces = values.get("overwrite", True)
        folder = declared[name].writes == "folder"
        words = (word for kind in kinds() for word in (*kind.data_sets, *kind.data))
        if folder and str(place) in {word.partition(":")[0] for word in words}:
            raise InputError(
                f"--out {place} is the name of a data set, which DATA would then look for in this folder; "
                f"give another, such as runs/{place}"
            )
        check_place(place, folder=folder, replaces=replaces)
    if "json" in places and "out" in places:
        json, out = str(places["json"]), str(places["out"])
        place, inside = (Path(os.path.realpath(path)) for path in (json, out))  # also resolves loops of links
        if place in (inside, *inside.parents):
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


@cache  # kinds share dataclasses of options
def _for_typer(name: str, annotation: Any, owner: type | None) -> Any:
    """Convert a parameter's type to an `Annotated` type for typer."""
    declared = declaration(annotation)
    if declared is None:
        of = "a command" if owner is None else owner.__qualname__
        raise InputError(f"{name!r} of {of} has neither Option nor Argument; annotate it (docs/plugins.md)")
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
    return Annotated[get_args(annotation)[0], info, declared]


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


app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="The log marginal likelihood of any model that predicts hidden tokens from visible ones, "
    "with error bars.",
    epilog="Start with: **maskevidence score ppca:8 digits**",
)


def shown(function: Callable[..., Result | None]) -> Callable[..., int]:
    """Add --json, --threads and --overwrite to a command, and print or write its result.

    Args:
        function: gives a result, or None where another process has it.

    Returns:
        A function that gives the exit code.
    """
    own = inspect.signature(function)
    added = {"threads": (Threads, None), "json": (Json, None), "overwrite": (OverwriteFiles, False)}
    for name in ("threads", "overwrite"):
        if name in own.parameters or any(
            hasattr(each, name)
            for parameter in own.parameters.values()
            for each in (parameter.annotation, *options_by_kind(parameter.annotation).values())
        ):
            del added[name]  # the command has its own, such as the threads of a run's workers

    @wraps(function)
    def command(*, json: str | None = None, **options: Any) -> int:
        with _output_elsewhere():  # output of a user's model is not part of the result
            result = function(**{name: options[name] for name in own.parameters})
        if result is None:
            return 0
        show(result, json)
        return result.code

    parameters = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in added.items()
    ]
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own.parameters.values()]
    command.__signature__ = inspect.Signature([*keywords, *parameters])  # type: ignore[attr-defined]
    return command


@contextmanager
def _output_elsewhere() -> Iterator[None]:
    """Send standard output to the error output, also from other languages and programs."""
    with redirect_stdout(sys.stderr), ExitStack() as stack:
        with suppress(OSError):  # if an output is closed
            kept = os.dup(1)
            stack.callback(os.close, kept)
            stack.callback(os.dup2, kept, 1)
            stack.callback(_write_buffers)
            os.dup2(2, 1)
        yield


def _write_buffers() -> None:
    """Flush the output buffers of other languages."""
    with suppress(OSError, TypeError, AttributeError):
        import ctypes

        ctypes.CDLL(None).fflush(None)


def write_readably(stream: object) -> None:
    """Replace characters that an output's encoding lacks, so that every text can be written.

    Args:
        stream: an output of this process; one of another kind than a text file's is left as it is.

    Example:
        >>> stream = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
        >>> write_readably(stream)
        >>> _ = stream.write("\N{MINUS SIGN}1 é \N{CYRILLIC SMALL LETTER A}"), stream.flush()
        >>> stream.buffer.getvalue()
        b'-1 \\xe9 \\\\u0430'
    """
    if isinstance(stream, io.TextIOWrapper):
        codecs.register_error(_READABLE, _in_ascii)
        stream.reconfigure(errors=_READABLE)


def _in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """Replace unencodable characters by a similar ASCII sign or their code points."""
    assert isinstance(error, UnicodeEncodeError)
    text = error.object[error.start : error.end].translate(_IN_ASCII)
    return text.encode("ascii", "backslashreplace").decode(), error.end


def show(result: Result, json: str | None) -> None:
    """Print a result (on the error output if its JSON goes to standard output), and write its JSON."""
    from maskevidence.core.show.terminal import print_page
    from maskevidence.core.support.files import json_text, write_json

    screen = Console(stderr=json == "-", highlight=False, soft_wrap=False, markup=False, emoji=False)
    with screen.capture() as printed:  # all of it or nothing
        print_page(screen, result.page)
    screen.file.write(printed.get())
    for line in result.lines:
        screen.print(plain(line), soft_wrap=True)
    if json == "-":
        sys.stdout.write(json_text(result.content))
    elif json is not None:
        write_json(json, result.content)


_broken: InputError | None = None  # a package that brings a kind, which `main` refuses in one line
try:
    add_command(app, shown(score), kind_of=kind_of_model)
    add_command(app, shown(check_command), "check", kind_of=kind_of_model)
    add_command(app, shown(summarize))
    add_command(app, shown(compare_command), "compare")
    add_command(app, shown(report))
    add_command(app, shown(train), kind_of=kind_of_training)
    for kind in kinds():
        for name, place in kind.commands.items():
            function = named(place)
            if "context" in inspect.signature(function).parameters:  # passes all words to another program
                app.command(
                    name, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
                )(function)
            else:
                add_command(app, shown(function), name)
except InputError as error:
    _broken = error


@app.callback(invoke_without_command=True)
def version_option(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show the traceback of an error; goes with every command.")
    ] = False,
) -> None:
    if version:
        from maskevidence import __version__

        typer.echo(f"maskevidence {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


def main() -> None:
    """Run the command line.

    The exit code is 0 after success, 1 if `check` found a fault, 2 after bad input, 70 after an error of this
    package (the last two with one line on the error output), and 130 after an interruption. With `--debug`,
    the traceback comes before the line.
    """
    for stream in (sys.stdout, sys.stderr):
        write_readably(stream)
    warnings.showwarning = _with_notes(warnings.showwarning)
    if address_limit() is not None:  # Arrow's own allocator reserves a gigabyte of addresses
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    # on a busy machine, threads that spin while they wait are four times slower
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    words = sorted(sys.argv[1:], key=lambda word: word != DEBUG)  # options of the app precede the command
    try:
        if _broken is not None:
            raise _broken
        _check_words(words)
        code = app(words, prog_name="maskevidence", standalone_mode=False)
        sys.stdout.flush()  # a full output fails here rather than when Python exits
        if code == 130:  # typer caught Ctrl-C
            say(interrupted(words))
    except MaskEvidenceError as error:
        code = failure(str(error))
    except typer.TyperException as error:  # unknown option or command, or missing argument
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "maskevidence"
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if message.startswith("Missing argument") and " " in (both := typed_arguments(context)):
            message = f"{message.rstrip('.')}: give {both}."
        code = failure(f"{message} Try: {command} --help") if message else 2  # typer printed the help
    except (KeyboardInterrupt, typer.Abort):
        say(interrupted(words))
        code = 130
    except BaseException as error:
        cause = error.__context__ if isinstance(error, SystemExit) else error  # typer exits on EPIPE
        if isinstance(cause, BrokenPipeError) and is_of_output(error):
            code = 0  # the reader closed the pipe, as `head` does
        else:
            code = unforeseen_failure(cause if isinstance(cause, BrokenPipeError) else error)
    _drop_unwritten()
    sys.exit(code if isinstance(code, int) else 0)


def _drop_unwritten() -> None:
    """Discard what a full or closed output has not taken: Python would write it on exit, and end with 120."""
    for stream in filter(None, (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__)):
        try:
            stream.flush()
        except OSError:
            with suppress(OSError), open(os.devnull, "wb") as nothing:
                os.dup2(nothing.fileno(), stream.fileno())
        except ValueError:  # it is closed
            continue


def _check_words(words: list[str]) -> None:
    """Refuse file names that are not UTF-8: JSON, CSV and Parquet cannot hold them."""
    for word in words:
        if any("\ud800" <= character <= "\udfff" for character in word):
            raise InputError(f"{word!r} is not UTF-8; rename the file or folder, and type its new name")


def _with_notes(show_warning: Any) -> Any:
    """Print warnings of this package as one-line notes; leave other warnings unchanged."""

    def shown(message: Any, category: Any, *where: Any) -> None:
        if issubclass(
            category,
            CollapsedWeightsWarning | ConvergenceWarning | UnknownTokensWarning | UntrustedFileWarning,
        ):
            say(f"note: {message}")
        else:
            show_warning(message, category, *where)

    return shown
