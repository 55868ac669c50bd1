"""The command line application: registers commands, prints results, turns errors into exit codes."""

import errno
import inspect
import os
import select
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from maskevidence.command.check import check_command
from maskevidence.command.command_words import kind_of_model, kind_of_training, own_file
from maskevidence.command.compare import compare_command
from maskevidence.command.options import Json, OverwriteFiles, Result, Threads
from maskevidence.command.parser import ModelArgument, add_command, options_by_kind
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
from maskevidence.core.kind import kinds, named
from maskevidence.core.show.terminal import print_page, write_readably
from maskevidence.core.show.words import plain
from maskevidence.core.support import files
from maskevidence.core.support.provenance import without_passwords

DEBUG = "--debug"
_NO_MEMORY = ("can't allocate memory", "out of memory")  # in the messages of torch's RuntimeErrors

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


def show(result: Result, json: str | None) -> None:
    """Print a result (on the error output if its JSON goes to standard output), and write its JSON."""
    screen = Console(stderr=json == "-", highlight=False, soft_wrap=False, markup=False, emoji=False)
    with screen.capture() as printed:  # all of it or nothing
        print_page(screen, result.page)
    screen.file.write(printed.get())
    for line in result.lines:
        screen.print(plain(line), soft_wrap=True)
    if json == "-":
        sys.stdout.write(files.json_text(result.content))
    elif json is not None:
        files.write_json(json, result.content)


_broken: InputError | None = None  # a package that brings a kind, which `main` refuses in one line
try:
    add_command(app, shown(score), models=ModelArgument("score", kind_of_model))
    add_command(app, shown(check_command), "check", models=ModelArgument("check", kind_of_model))
    add_command(app, shown(summarize))
    add_command(app, shown(compare_command), "compare")
    add_command(app, shown(report))
    add_command(app, shown(train), models=ModelArgument("train", kind_of_training))
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
    words = sorted(sys.argv[1:], key=lambda word: word != DEBUG)  # options of the app precede the command
    try:
        if _broken is not None:
            raise _broken
        _check_words(words)
        code = app(words, prog_name="maskevidence", standalone_mode=False)
        sys.stdout.flush()  # a full output fails here rather than when Python exits
        if code == 130:  # typer caught Ctrl-C
            _say(_interrupted(words))
    except MaskEvidenceError as error:
        code = _failed(str(error))
    except typer.TyperException as error:  # unknown option or command, or missing argument
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "maskevidence"
        message = error.format_message() if hasattr(error, "format_message") else str(error)
        if message.startswith("Missing argument") and " " in (both := _arguments(context)):
            message = f"{message.rstrip('.')}: give {both}."
        code = _failed(f"{message} Try: {command} --help") if message else 2  # typer printed the help
    except (KeyboardInterrupt, typer.Abort):
        _say(_interrupted(words))
        code = 130
    except BaseException as error:
        cause = error.__context__ if isinstance(error, SystemExit) else error  # typer exits on EPIPE
        if isinstance(cause, BrokenPipeError) and _is_of_output(error):
            code = 0  # the reader closed the pipe, as `head` does
        else:
            code = _failed_unexpectedly(cause if isinstance(cause, BrokenPipeError) else error)
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


def _interrupted(words: list[str]) -> str:
    """Say after Ctrl-C how to go on."""
    if words[:1] != ["score"]:
        return "interrupted"
    out = next((word for k, word in enumerate(words[1:], 1) if words[k - 1] == "--out"), None)
    out = next((word.partition("=")[2] for word in words if word.startswith("--out=")), out)
    if out is None:
        return "interrupted, and no score is kept; with --out FOLDER, the same command goes on from there"
    return f"interrupted; the same command goes on with the scores in {out!r}"


def _is_of_output(error: BaseException) -> bool:
    """Whether a broken pipe belongs to an output rather than to the user's model."""
    if any(frame.name == "on_broken_pipe" for frame in traceback.extract_tb(error.__traceback__)):
        return True  # rich has replaced the output by /dev/null
    if not hasattr(select, "poll"):  # Windows
        return True
    outputs = select.poll()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a closed stream, or one without a file descriptor
            outputs.register(stream, 0)
    return any(event & select.POLLERR for _, event in outputs.poll(0))


def _arguments(context: Any) -> str:
    """The arguments of a command in typing order."""
    arguments = [each for each in context.command.params if each.param_type_name == "argument"]
    return " ".join(each.metavar or each.name.upper() for each in arguments)


def _check_words(words: list[str]) -> None:
    """Refuse file names that are not UTF-8: JSON, CSV and Parquet cannot hold them."""
    for word in words:
        if any("\ud800" <= character <= "\udfff" for character in word):
            raise InputError(f"{word!r} is not UTF-8; rename the file or folder, and type its new name")


def _failed(message: str) -> int:
    if DEBUG in sys.argv:
        _say(traceback.format_exc())
    _say("error: " + " ".join(message.split()))
    return 2


def _failed_unexpectedly(error: BaseException) -> int:
    """Report an unforeseen error in one line: lack of memory, an unusable file, or an internal error."""
    reason = " ".join(str(error).split())
    if isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in reason for words in _NO_MEMORY)
    ):
        return _failed(
            f"there is not enough memory ({reason or 'MemoryError'}); use fewer rows, masks or components"
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO) and error.filename is None:
        return _failed(f"the output cannot be written ({error.strerror}); send it to another place")
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return _failed(f"{str(error.filename)!r} cannot be used ({error.strerror}); give another path")
    frames = traceback.extract_tb(error.__traceback__)
    own = {str(own_file(word)) for word in sys.argv}
    places = [f"{each.filename}, line {each.lineno}" for each in frames if each.filename in own]
    if isinstance(error, SyntaxError) and error.filename in own:
        places.append(f"{error.filename}, line {error.lineno}")
    if places:  # the error is in the user's code
        words = f"{type(error).__name__} in {places[-1]}: {reason or 'no message'}"
        return _failed(f"{words}; mend it there ({DEBUG} shows the traceback)")
    if not isinstance(error, Exception):
        raise error
    package = str(Path(__file__).parents[1])
    frame = next((each for each in reversed(frames) if each.filename.startswith(package)), frames[-1])
    file = Path(frame.filename)
    where = file.relative_to(Path(package).parent) if file.is_relative_to(package) else file.name
    message = (
        f"internal error, please report: {type(error).__name__} in {where}, line {frame.lineno}: {reason}"
    )
    if DEBUG in sys.argv:
        _say(traceback.format_exc())
    _say(message if DEBUG in sys.argv else f"{message} ({DEBUG} shows the traceback)")
    return 70


def _say(line: str) -> None:
    with suppress(OSError):  # a full or closed error output does not change the exit code
        print(plain(without_passwords(line)), file=sys.stderr)  # noqa: T201


def _with_notes(show_warning: Any) -> Any:
    """Print warnings of this package as one-line notes; leave other warnings unchanged."""

    def shown(message: Any, category: Any, *where: Any) -> None:
        if issubclass(
            category,
            CollapsedWeightsWarning | ConvergenceWarning | UnknownTokensWarning | UntrustedFileWarning,
        ):
            _say(f"note: {message}")
        else:
            show_warning(message, category, *where)

    return shown
