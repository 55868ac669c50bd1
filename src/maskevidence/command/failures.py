"""What the command line says where a command fails, in one line, and its exit code."""

import errno
import select
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from maskevidence.command.options import own_file
from maskevidence.core.show.words import plain
from maskevidence.core.support.checks import is_out_of_memory
from maskevidence.core.support.provenance import without_passwords

DEBUG = "--debug"


def interrupted(words: list[str]) -> str:
    """Say after Ctrl-C how to go on."""
    if words[:1] in (["train"], ["look"]):
        return "interrupted; the same command goes on with what is saved"
    if words[:1] != ["score"]:
        kept = words[:1] == ["lm-eval"]  # the harness has a cache of its own
        return "interrupted" + ", and nothing is kept: the same command starts again" * (not kept)
    out = next((word for k, word in enumerate(words[1:], 1) if words[k - 1] == "--out"), None)
    out = next((word.partition("=")[2] for word in words if word.startswith("--out=")), out)
    if out is None:
        return "interrupted, and no score is kept; with --out FOLDER, the same command goes on from there"
    return f"interrupted; the same command goes on with the scores in {out!r}"


def is_of_output(error: BaseException) -> bool:
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


def typed_arguments(context: Any) -> str:
    """The arguments of a command in typing order."""
    arguments = [each for each in context.command.params if each.param_type_name == "argument"]
    return " ".join(each.metavar or each.name.upper() for each in arguments)


def failure(message: str) -> int:
    if DEBUG in sys.argv:
        say(traceback.format_exc())
    say("error: " + " ".join(message.split()))
    return 2


def unforeseen_failure(error: BaseException) -> int:
    """Report an unforeseen error in one line: lack of memory, an unusable file, or an internal error."""
    reason = " ".join(str(error).split())
    if is_out_of_memory(error):
        return failure(
            f"there is not enough memory ({reason or 'MemoryError'}); use fewer rows, masks or components"
        )
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EIO) and error.filename is None:
        return failure(f"the output cannot be written ({error.strerror}); send it to another place")
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return failure(f"{str(error.filename)!r} cannot be used ({error.strerror}); give another path")
    frames = traceback.extract_tb(error.__traceback__)
    own = {str(own_file(word)) for word in sys.argv}
    places = [f"{each.filename}, line {each.lineno}" for each in frames if each.filename in own]
    if isinstance(error, SyntaxError) and error.filename in own:
        places.append(f"{error.filename}, line {error.lineno}")
    if places:  # the error is in the user's code
        words = f"{type(error).__name__} in {places[-1]}: {reason or 'no message'}"
        return failure(f"{words}; mend it there ({DEBUG} shows the traceback)")
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
        say(traceback.format_exc())
    say(message if DEBUG in sys.argv else f"{message} ({DEBUG} shows the traceback)")
    return 70


def say(line: str) -> None:
    with suppress(OSError):  # a full or closed error output does not change the exit code
        print(plain(without_passwords(line)), file=sys.stderr)  # noqa: T201
