"""How results leave the command line: tables on the terminal, JSON to a file or to standard output."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from maskevidence.errors import InputError, MaskEvidenceError
from maskevidence.show.terminal import print_page
from maskevidence.support import files

if TYPE_CHECKING:
    from maskevidence.tasks.score import Scored


def console(json_target: str | None) -> Console:
    """The console for tables: standard output, or the error output if JSON goes to standard output."""
    return Console(stderr=json_target == "-", highlight=False, soft_wrap=False, markup=False, emoji=False)


def write_json(content: Mapping[str, Any], target: str | None) -> None:
    """Write JSON to a file, to standard output for "-", or nowhere for None."""
    if target is None:
        return
    if target == "-":
        sys.stdout.write(files.json_text(content))
    else:
        files.write_json(target, content)


@contextmanager
def read_from(file: Path | None, screen: Console) -> Iterator[None]:
    """Print what was read from a file that a finished command has written, as a whole or not at all.

    Args:
        file: the file; None if the result was not read from one.
        screen: where the block prints.

    Raises:
        InputError: the file was changed: an entry is missing, or has another type.
    """
    if file is None:
        yield
        return
    try:
        with screen.capture() as shown:
            yield
    except MaskEvidenceError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{str(file)!r} was changed after it was written ({type(error).__name__}: {error}); restore it, "
            "or use --overwrite"
        ) from error
    screen.file.write(shown.get())


def show_scored(screen: Console, scored: "Scored") -> None:
    """Print an estimate, and the files of the run directory that holds it."""
    from maskevidence.evidence.result import page_of_numbers

    file = scored.folder / "estimate.json" if scored.folder and scored.finished_before else None
    with read_from(file, screen):
        print_page(screen, page_of_numbers(scored.result))
    if scored.finished_before:
        screen.print(f"This run in {scored.folder} was finished before; --overwrite computes it again.")
    elif scored.folder is not None:
        screen.print(f"Written to {scored.folder}: {', '.join(scored.files)}")
    if scored.missing:
        screen.print(scored.missing)
