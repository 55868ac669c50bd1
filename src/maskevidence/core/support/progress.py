"""The progress of all long work: a bar in terminals and notebooks, a line every 30 seconds in log files."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Protocol, runtime_checkable

from tqdm.std import tqdm

from maskevidence.core.errors import import_extra

_LOG_EVERY = 30.0  # seconds
SHOW_AFTER = 0.5  # seconds
_LINE = "{desc}: {n:,} of {total:,} ({percentage:.0f} %) in {elapsed}, about {remaining} left"


@runtime_checkable
class Advance(Protocol):
    """Tells how many steps were done since the last call, and optionally a new description."""

    def __call__(self, steps: int, description: str | None = None, /) -> None: ...


@contextmanager
def progress(description: str, total: int) -> Iterator[Advance]:
    """Show the progress of long work, where somebody would see it.

    In a terminal, and in a notebook with ipywidgets, this is a bar of tqdm that disappears when the work is
    done. Elsewhere, as in a log file, it is a line on stderr every 30 seconds. Short work shows nothing. Of
    the processes of a distributed training, only the first one shows its progress.

    Yields:
        A function that takes the number of steps that were just done, and optionally a new description.

    Example:
        >>> with progress("scoring", total=3) as advance:
        ...     for _ in range(3):
        ...         advance(1)
    """
    if sys.stderr is None or os.environ.get("RANK", "0") != "0":
        yield lambda _steps, _description=None: None
        return
    options = {
        "desc": description,
        "total": total,
        "leave": False,
        "dynamic_ncols": True,
        "delay": SHOW_AFTER,
    }
    with _bar_class()(**options) as bar:

        def advance(steps: int, description: str | None = None) -> None:
            if description is not None:
                bar.set_description_str(description, refresh=False)
            bar.update(steps)

        yield advance
        if isinstance(bar, _LogLines):
            bar.end()


class _Bar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A bar without the thread by which tqdm watches slow bars."""

    monitor_interval = 0


class _LogLines(_Bar):
    """A line every 30 seconds, and a last line at the end of work that has written any."""

    def __init__(self, **options: Any) -> None:
        options |= {"bar_format": _LINE, "mininterval": _LOG_EVERY, "delay": _LOG_EVERY, "miniters": 1}
        super().__init__(**options)
        self._written = 0

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Write the line, unless tqdm clears a bar."""
        if msg is None and self.n > self._written:
            self._written = self.n
            self.fp.write(f"{self}\n")
            self.fp.flush()
        return False

    def clear(self, nolock: bool = False) -> None:
        """Leave the lines in the log."""

    def end(self) -> None:
        """Write the last line."""
        if self._written:
            self.display()


def _bar_class() -> type[Any]:
    """The bar for where this process writes."""
    if sys.stderr.isatty():
        return _Bar
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    in_a_notebook = getattr(shell, "kernel", None) is not None  # IPython in a script has none
    if not in_a_notebook or find_spec("ipywidgets") is None:
        return _LogLines
    from tqdm.notebook import tqdm_notebook

    return tqdm_notebook


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and log messages of transformers."""
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
