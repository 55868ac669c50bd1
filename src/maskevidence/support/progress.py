"""One progress bar for everything long; silent where the error output is no terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

from maskevidence.errors import import_extra


@runtime_checkable
class Advance(Protocol):
    """Tells the bar how many steps were just done, and what to say now in place of its description."""

    def __call__(self, steps: int, description: str | None = None, /) -> None: ...


@contextmanager
def progress(description: str, total: int) -> Iterator[Advance]:
    """A bar on the error output that is gone when the work is done.

    Args:
        description: what is going on, in a few words.
        total: the number of steps.

    Yields:
        A function that takes the number of steps just done, and a new description where there is one.

    Example:
        >>> with progress("scoring", total=3) as advance:
        ...     for _ in range(3):
        ...         advance(1)
    """
    if not sys.stderr.isatty():
        yield lambda _steps, _description=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total)
        yield lambda steps, text=None: bar.update(task, advance=steps, description=text)


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bars and reports of transformers, which are not this package's to print."""
    log = import_extra("transformers", "hf", "a masked language model").utils.logging
    verbosity, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(verbosity)
        if bars:
            log.enable_progress_bar()
