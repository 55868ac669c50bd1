"""Progress shows as a bar in terminals and notebooks, and as a line every 30 seconds elsewhere."""

import os
import signal
import sys
import threading
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tqdm.std import tqdm

from forked import exit_code, fork
from maskevidence.core.support.progress import course, progress


def work() -> None:
    with progress("scoring masks", total=3) as advance:
        for _ in range(3):
            advance(1)
        advance(0, "done")


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that tqdm looks at."""
    clock = Clock()
    monkeypatch.setattr("tqdm.std.time", clock)
    return clock


def test_long_work_writes_a_line_every_30_seconds(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with progress("scoring", total=100) as advance:
        for _ in range(100):
            clock.now += 1.3
            advance(1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "scoring: 24 of 100 (24 %) in 00:31, about 01:38 left",
        "scoring: 48 of 100 (48 %) in 01:02, about 01:07 left",
        "scoring: 72 of 100 (72 %) in 01:33, about 00:36 left",
        "scoring: 96 of 100 (96 %) in 02:04, about 00:05 left",
        "scoring: 100 of 100 (100 %) in 02:09, about 00:00 left",
    ]


def test_a_slow_step_writes_one_line(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with progress("training", total=10) as advance:
        clock.now += 4000.0
        advance(1, "training, objective -3.1")
        clock.now += 1.0
        advance(9)
    assert capsys.readouterr().err.splitlines() == [
        "training, objective -3.1: 1 of 10 (10 %) in 1:06:40, about 10:00:00 left",
        "training, objective -3.1: 10 of 10 (100 %) in 1:06:41, about 00:00 left",
    ]


def test_work_that_fails_writes_no_end(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    def fail() -> None:
        with progress("scoring", total=10) as advance:
            clock.now += 40.0
            advance(2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert capsys.readouterr().err.splitlines() == ["scoring: 2 of 10 (20 %) in 00:40, about 02:40 left"]


def test_only_the_first_process_of_a_training_writes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setenv("RANK", "1")
    with progress("training", total=2) as advance:
        clock.now += 100.0
        advance(2)
    assert capsys.readouterr() == ("", "")


def test_a_program_without_stderr_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    work()


def test_it_shows_in_a_terminal_on_stderr_and_disappears(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress("scoring masks", total=3) as advance:
        for _ in range(3):
            clock.now += 1.0
            advance(1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "scoring masks" in err
    assert "3/3" in err
    assert err.split("\r")[-2].strip() == ""


def in_kernel(monkeypatch: pytest.MonkeyPatch, *, widgets: ModuleType | None) -> None:
    """Let this process look like a kernel of Jupyter, with or without widgets."""
    module = ModuleType("IPython")
    module.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setattr("maskevidence.core.support.progress.find_spec", lambda _name: widgets)


def test_short_work_leaves_nothing_anywhere(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    work()
    in_kernel(monkeypatch, widgets=None)
    work()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    work()
    assert capsys.readouterr() == ("", "")


def test_it_shows_as_a_widget(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[Any] = []

    class Widget:
        def __init__(self, **options: Any) -> None:
            shown.append(options)

        def __enter__(self) -> "Widget":
            return self

        def __exit__(self, *_error: object) -> None:
            shown.append("end")

        def update(self, steps: int) -> None:
            shown.append(steps)

        def set_description_str(self, text: str, *, refresh: bool) -> None:
            assert not refresh
            shown.append(text)

    in_kernel(monkeypatch, widgets=ModuleType("ipywidgets"))
    monkeypatch.setattr("tqdm.notebook.tqdm_notebook", Widget)
    work()
    assert (shown[0]["desc"], shown[0]["total"]) == ("scoring masks", 3)
    assert shown[1:] == [1, 1, 1, "done", 0, "end"]
    assert capsys.readouterr() == ("", "")


def test_a_forked_process_has_its_own_lock_for_bars() -> None:
    """Otherwise it waits for ever for a thread that it does not have, and its death blocks its parent."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with tqdm.get_lock():
            held.set()
            done.wait()

    def show_a_bar() -> None:
        signal.alarm(20)
        work()

    def die_with_the_lock() -> None:
        tqdm.get_lock().acquire()
        os.kill(os.getpid(), signal.SIGKILL)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = fork(show_a_bar)
    done.set()
    thread.join()
    assert exit_code(child) == 0
    assert exit_code(fork(die_with_the_lock)) == -signal.SIGKILL
    assert tqdm.get_lock().acquire(False)
    tqdm.get_lock().release()


def test_steps_that_show_a_progress_themselves_are_one_bar(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    with progress("fits", total=2, parts=True) as fits:
        for fold in (1, 2):
            fits(0, f"fits: fold {fold} of 2")
            with progress("training", total=100) as epochs:
                for epoch in range(10):
                    clock.now += 10.0
                    epochs(1, "objective -3.1", 20 if epoch < 5 else 10)  # a forecast that shrinks
            with progress("scoring masks", total=5) as masks:
                clock.now += 10.0
                masks(5)
            fits(1)
    assert capsys.readouterr().err.splitlines() == [
        "fits: fold 1 of 2: 7 % in 00:30, about 06:54 left",
        "fits: fold 1 of 2: 27 % in 01:00, about 02:29 left",
        "fits: fold 1 of 2: 40 % in 01:30, about 02:06 left",
        "fits: fold 2 of 2: 52 % in 02:00, about 01:48 left",
        "fits: fold 2 of 2: 59 % in 02:30, about 01:53 left",
        "fits: fold 2 of 2: 81 % in 03:00, about 00:37 left",
        "fits: fold 2 of 2: 95 % in 03:30, about 00:10 left",
        "fits: fold 2 of 2: 100 % in 03:40, about 00:00 left",
    ]


def test_a_forecast_replaces_the_total(capsys: pytest.CaptureFixture[str], clock: Clock) -> None:
    with progress("training", total=1000) as advance:
        for epoch in range(8):
            clock.now += 10.0
            advance(1, None, 12 if epoch < 6 else 8)
    assert capsys.readouterr().err.splitlines() == [
        "training: 3 of 12 (25 %) in 00:30, about 01:30 left",
        "training: 6 of 12 (50 %) in 01:00, about 01:00 left",
        "training: 8 of 8 (100 %) in 01:20, about 00:00 left",
    ]


def test_steps_beyond_the_forecast_leave_no_negative_time(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    with progress("fits", total=2) as advance:
        clock.now += 40.0
        advance(5, None, 3)
    assert capsys.readouterr().err.splitlines() == ["fits: 5 of 5 (100 %) in 00:40, about 00:00 left"]


def test_a_step_that_ends_before_its_forecast_takes_its_progress_back(
    capsys: pytest.CaptureFixture[str], clock: Clock
) -> None:
    with course("look", {"fit": (1, 60.0), "fill": (1, 40.0)}) as plan:
        plan.clock, plan.begun = lambda: clock.now, clock.now
        with plan.step("fit", "fitting"), progress("inner", total=2) as inner:
            clock.now += 1.0
            inner(2)  # nine tenths of a minute
        with plan.step("fill", "filling"), progress("inner", total=2) as inner:
            clock.now += 31.0
            inner(1)
            clock.now += 9.0
            inner(1)
    assert capsys.readouterr().err.splitlines() == [
        "filling: 46 % in 00:32, about 00:09 left",
        "filling: 100 % in 00:41, about 00:00 left",
    ]
