"""A uniform environment for all tests: independent of the user's shell, and without a network."""

import ipaddress
import os
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, MutableMapping

# Variables that change output, network, caches or processes of the libraries used here.
PREFIXES = (
    "ACCELERATE_",
    "CLICOLOR",
    "HF_",
    "HUGGINGFACE_",
    "LC_",
    "MPL",
    "RAY_",
    "SLURM_",
    "TENSORBOARD_",
    "TORCHELASTIC_",
    "TRANSFORMERS_",
    "TTY_",
    "TYPER_",
    "WANDB_",
)
NAMES = (
    "COLUMNS",
    "FORCE_COLOR",
    "LANG",
    "LANGUAGE",
    "LINES",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASKEVIDENCE_SAVE_EVERY",
    "MASTER_PORT",
    "NO_COLOR",
    "PYTHONWARNINGS",
    "RANK",
    "TERM",
    "WORLD_SIZE",
)
ALWAYS = {"LC_ALL": "C.UTF-8", "HF_HUB_OFFLINE": "1"}
# Folders in the home, into which libraries write; replaced if the home is read-only.
OF_THE_HOME = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")


def cleared(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without variables that tests must not depend on."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in NAMES and not name.startswith(PREFIXES)
    }
    return kept | ALWAYS


def refuse_connections() -> list[str]:
    """Refuse connections of this process to other machines from now on.

    Returns:
        A list of all hosts asked for, even if the error was caught.
    """
    asked: list[str] = []

    def refuse(event: str, details: tuple[object, ...]) -> None:
        host = None
        if event == "socket.getaddrinfo":
            host = details[0]
        elif event == "socket.connect" and _leaves_through(details[0]) and isinstance(details[1], tuple):
            host = details[1][0]
        if host is not None and not _on_this_machine(_as_text(host)):
            asked.append(_as_text(host))
            raise OSError(f"the tests have no network: {_as_text(host)}")

    sys.addaudithook(refuse)
    return asked


def _leaves_through(connected: object) -> bool:
    """Whether a connection sends data: a datagram socket only chooses an address, as Ray does to learn its
    own.
    """
    return not (isinstance(connected, socket.socket) and connected.type & socket.SOCK_DGRAM)


def _as_text(host: object) -> str:
    return host.decode() if isinstance(host, bytes) else str(host)


def _on_this_machine(host: str) -> bool:
    if host in ("", "localhost", socket.gethostname()):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    if address.is_loopback or address.is_unspecified:
        return True
    with socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET) as bound:
        try:
            bound.bind((host, 0))  # fails unless the address is this machine's
        except OSError:
            return False
    return True


def make_calm(environment: MutableMapping[str, str]) -> "tempfile.TemporaryDirectory[str] | None":
    """Clear an environment in place, and let Ctrl-C interrupt as in a terminal.

    Returns:
        A folder that takes the place of a home that cannot be written to, for the caller to remove; or None.
    """
    wanted = cleared(environment)
    for name in set(environment) - set(wanted):
        del environment[name]
    environment.update(wanted)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if _can_be_written_to(environment.get("HOME")):
        return None
    home = tempfile.TemporaryDirectory(prefix="maskevidence-tests-")
    for name in OF_THE_HOME:
        environment.pop(name, None)
    environment["HOME"] = home.name
    return home


def _can_be_written_to(folder: str | None) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder or os.devnull):
            return True
    except OSError:
        return False
