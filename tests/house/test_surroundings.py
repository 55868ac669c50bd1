"""The tests pass whatever the user's environment says."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from surroundings import cleared

ROOT = Path(__file__).parents[2]
HOSTILE = {
    "HF_HUB_OFFLINE": "1",
    "HF_ENDPOINT": "http://127.0.0.1:9",
    "HF_HOME": "/dev/null/nowhere",
    "COLUMNS": "40",
    "LANG": "C",
    "LC_ALL": "C",
    "NO_COLOR": "1",
    "FORCE_COLOR": "1",
    "TERM": "dumb",
    "HOME": "/dev/null/nobody",
    "OMP_NUM_THREADS": "1",
    "MPLBACKEND": "no such backend",
    "RAY_ADDRESS": "127.0.0.1:9",
    "WORLD_SIZE": "2",
    "RANK": "1",
    "PYTHONWARNINGS": "error",
}
SENSITIVE = (
    "tests/house/test_surroundings.py::test_tests_see_nothing_of_it",
    "tests/core/show/test_terminal.py",
    "tests/command/test_help.py",
)


def test_nothing_of_a_hostile_environment_is_left() -> None:
    left = cleared(os.environ | HOSTILE)
    assert {name for name in HOSTILE if left.get(name) == HOSTILE[name]} == {
        "HOME",
        "OMP_NUM_THREADS",
        "HF_HUB_OFFLINE",
    }


def test_tests_see_nothing_of_it() -> None:
    """In this process, and, below, in one whose environment is hostile."""
    calm = cleared(os.environ)
    other = {name for name, value in os.environ.items() if calm.get(name) != value}
    # Ray sets two of them itself, and the lm-evaluation-harness the third
    assert other <= {"RAY_CLIENT_MODE", "RAY_AUTH_MODE", "HF_XET_HIGH_PERFORMANCE"}
    assert signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    with tempfile.TemporaryFile(dir=os.environ["HOME"]):
        pass


@pytest.mark.xfail(raises=pytest.fail.Exception, strict=True, reason="conftest.py makes such a test fail")
@pytest.mark.parametrize("host", ["192.0.2.1", "no-such-host.example"])
def test_a_connection_to_another_machine_is_red(host: str) -> None:
    """Even if the error that it gets is caught."""
    with contextlib.suppress(OSError):
        socket.create_connection((host, 80), timeout=0.1)


def test_connections_within_the_machine_are_let_through() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), timeout=5).close()


@pytest.mark.slow
def test_sensitive_tests_pass_in_a_hostile_environment_without_a_terminal() -> None:
    """Ctrl-C is ignored, as in a background job, and HOME cannot be written to."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SENSITIVE]
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command],
        cwd=ROOT,
        env=os.environ | HOSTILE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
