"""Show the progress of long work: a bar in terminals and notebooks, a line every 30 seconds in logs."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import Any

from tqdm.std import tqdm

from maskevidence.core.errors import import_extra

_LOG_EVERY = 30.0  # seconds
SHOW_AFTER = 0.5  # seconds
_LINE = "{desc}: {n:,} of {total:,} ({percentage:.0f} %) in {elapsed}, about {remaining} left"
_LINE_OF_PARTS = "{desc}: {percentage:.0f} % in {elapsed}, about {remaining} left"
_BAR_OF_PARTS = "{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}"
_SHARE = 0.9  # share of a step's remainder that its inner progress can fill


# Called as advance(steps, description=None, total=None) when some steps of a task are done; the description
# and the total may change.
Advance = Callable[..., None]


def silent(_steps: int, _description: str | None = None, _total: int | None = None, /) -> None:
    """Show nothing."""


# the current step of a bar whose steps report progress themselves
_STEP: ContextVar["_Step | None"] = ContextVar("step", default=None)


@contextmanager
def progress(description: str, total: float, *, parts: bool = False) -> Iterator[Advance]:
    """Show the progress of long work if somebody can see it.

    In a terminal, and in a notebook with ipywidgets, this is a bar of tqdm that disappears when the work is
    done. Elsewhere, as in a log file, it is a line on stderr every 30 seconds. Short work shows nothing. Of
    the processes of a distributed training, only the first one shows its progress.

    Args:
        parts: whether each step shows a progress itself: all are one bar then, whose steps they fill.

    Yields:
        A function that takes the number of steps that were just done, and optionally a new description, or a
        new forecast of the total.

    Example:
        >>> with progress("scoring", total=3) as advance:
        ...     for _ in range(3):
        ...         advance(1)
    """
    if sys.stderr is None or os.environ.get("RANK", "0") != "0":
        yield silent
        return
    if (step := _STEP.get()) is not None:
        yield step.part(total)
        return
    options = {
        "desc": description,
        "total": total,
        "leave": False,
        "dynamic_ncols": True,
        "delay": SHOW_AFTER,
    }
    bar_class = _bar_class()
    if parts and issubclass(bar_class, _Bar):
        options |= {"bar_format": _LINE_OF_PARTS if bar_class is _LogLines else _BAR_OF_PARTS, "miniters": 0}
    with bar_class(**options) as bar:

        def advance(steps: float, description: str | None = None, total: int | None = None) -> None:
            if description is not None:
                bar.set_description_str(description, refresh=False)
            if total is not None:
                bar.total = max(total, bar.n + steps)
            bar.update(steps)

        if parts:
            step = _Step(bar.update)
            token = _STEP.set(step)
            try:
                yield lambda steps, *more: advance(step.rest(steps), *more)
            finally:
                _STEP.reset(token)
        else:
            yield advance
        if isinstance(bar, _LogLines):
            bar.end()


class _Step:
    """The current step of a bar, which may be partly done."""

    def __init__(self, update: Callable[[float], object]) -> None:
        self.update, self.done, self.size = update, 0.0, 1.0

    def rest(self, steps: float) -> float:
        """Return the part of `steps` finished steps that the bar does not show yet."""
        left = steps - self.done if steps else 0.0
        self.done = 0.0 if steps else self.done
        return left

    def part(self, total: float) -> Advance:
        """Return the progress of a part of the step."""
        begun, n = self.done, 0

        def advance(steps: int, _description: str | None = None, new: int | None = None) -> None:
            nonlocal n, total
            n, total = n + steps, total if new is None else new
            done = begun + _SHARE * max(0.0, self.size - begun) * min(1.0, n / max(1, total))
            if done > self.done:  # the total may have grown
                self.update(done - self.done)
                self.done = done

        return advance


class _Bar(tqdm):  # type: ignore[misc]  # tqdm has no types
    """A bar without tqdm's monitoring thread."""

    monitor_interval = 0


class _LogLines(_Bar):
    """A line every 30 seconds, plus a last line if any was written."""

    def __init__(self, **options: Any) -> None:
        of_log = {"mininterval": _LOG_EVERY, "delay": _LOG_EVERY}
        super().__init__(**{"bar_format": _LINE, "miniters": 1} | options | of_log)
        self._written = 0

    def display(self, msg: str | None = None, pos: int | None = None) -> bool:
        """Write a line, unless tqdm asks to clear one."""
        if msg is None and self.n > self._written:
            self._written = self.n
            self.fp.write(f"{self}\n")
            self.fp.flush()
        return False

    def clear(self, nolock: bool = False) -> None:
        """Keep the lines in the log."""

    def end(self) -> None:
        """Write the last line."""
        if self._written:
            self.display()


def _bar_class() -> type[Any]:
    """Choose the kind of bar for this process's output."""
    if sys.stderr.isatty():
        return _Bar
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    in_a_notebook = getattr(shell, "kernel", None) is not None  # None for IPython in a script
    if not in_a_notebook or find_spec("ipywidgets") is None:
        return _LogLines
    from tqdm.notebook import tqdm_notebook

    return tqdm_notebook


class Course:
    """Work in steps of several kinds, whose forecast is what the last step of each kind took.

    Args:
        show: of the bar, in seconds.
        expected: by kind, the number of steps and the seconds of one, as far as they are known.
        bar: the step of the bar, if it is the course's own.
        clock: seconds.
    """

    def __init__(
        self,
        show: Callable[..., None],
        expected: Mapping[str, tuple[int, float]],
        bar: "_Step | None" = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.bar = bar
        self.left = {kind: n for kind, (n, _) in expected.items()}
        self.seconds = {kind: each for kind, (_, each) in expected.items()}
        self.show, self.clock, self.begun = show, clock, clock()

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - self.begun

    @property
    def forecast(self) -> float:
        """Seconds that the steps left will take."""
        return sum(n * self.seconds[kind] for kind, n in self.left.items())

    @contextmanager
    def step(self, kind: str, description: str) -> Iterator[None]:
        """Do a step; its own progress is a part of the bar."""
        if self.bar is not None:
            self.bar.size = max(self.seconds[kind], 1e-3)
        self.show(0, description, self.spent + self.forecast)
        start = self.clock()
        yield
        took = self.clock() - start
        self.left[kind], self.seconds[kind] = max(0, self.left[kind] - 1), took
        self.show(took, None, self.spent + self.forecast)


@contextmanager
def course(description: str, expected: Mapping[str, tuple[int, float]]) -> Iterator[Course]:
    """Show one bar for steps of several kinds; see `Course`.

    Example:
        >>> with course("work", {"fits": (2, 0.1)}) as plan:
        ...     with plan.step("fits", "first fit"):
        ...         pass
        >>> plan.left
        {'fits': 1}
    """
    total = sum(n * seconds for n, seconds in expected.values())
    outer = _STEP.get()
    with progress(description, total, parts=True) as advance:
        yield Course(advance, expected, _STEP.get() if outer is None else None)


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the progress bars and logs of transformers."""
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
