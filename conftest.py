"""Settings of every test and doctest: one thread, no network, and none of the user's environment variables.

CHECK_CALLS=1 checks shapes and types of every call of the package, which takes a third more time.
"""

import gc
import os
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from surroundings import make_calm, refuse_connections

_HOME = make_calm(os.environ)
_ASKED = refuse_connections()

gc.disable()  # until all modules are imported

import jaxtyping  # noqa: E402
import torch  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

if os.environ.get("CHECK_CALLS"):  # before anything imports the packages
    # A whole number passes for a float, as in Python's own typing.
    jaxtyping.install_import_hook(
        ("maskevidence", "paper"), "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
    )

# The arrays are small; workers that use all cores each would fight over them.
torch.set_num_threads(1)
threadpool_limits(1)


# This module subclasses a class of the harness; the tests do without it where that is not installed.
collect_ignore = [] if find_spec("lm_eval") else ["src/maskevidence/lm_eval/model.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the tests of real data sets where there are none."""
    if "MASKEVIDENCE_DATA" not in os.environ:
        for item in items:
            if item.get_closest_marker("data"):
                item.add_marker(pytest.mark.skip(reason="MASKEVIDENCE_DATA is not set: no real data sets"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that asks for a connection beyond this machine fails, whatever it made of the refusal."""
    before = len(_ASKED)
    try:
        return (yield)
    finally:
        if hosts := _ASKED[before:]:
            pytest.fail(f"{item.nodeid} wanted a connection to {', '.join(hosts)}; no test has a network")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep what the modules hold out of the garbage collector, which transformers' Trainer calls each time.

    The millions of objects of transformers, scikit-learn and others stay until the end, and to look through
    them takes a second.
    """
    gc.freeze()
    gc.enable()


def _cpu_seconds() -> float:
    """CPU seconds of this process and of its ended children so far."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the CPU seconds before a test; its teardown's report says what it took."""
    item.user_properties.append(("cpu_start", _cpu_seconds()))
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """The CPU seconds of a test, its fixtures included, on the report of its teardown."""
    report = yield
    if report.when == "teardown":
        start = dict(item.user_properties)["cpu_start"]
        report.user_properties = [("cpu", _cpu_seconds() - start)]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """CPU seconds by folder."""
    seconds: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            cpu = dict(getattr(report, "user_properties", ())).get("cpu")
            if cpu is not None:
                seconds[str(Path(report.nodeid.split("::")[0]).parent)] += cpu
    terminalreporter.section("CPU seconds by folder")
    for folder, cpu in seconds.most_common():
        terminalreporter.write_line(f"{cpu:7.1f}  {folder}")
    terminalreporter.write_line(f"{seconds.total():7.1f}  together")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove what stood in for a home that cannot be written to."""
    if _HOME is not None:
        _HOME.cleanup()
