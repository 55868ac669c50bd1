"""The surroundings of every test: the same whatever the user's shell has set."""

import os
import signal
import tempfile
from collections.abc import Mapping, MutableMapping

# What changes the output, the network, the caches or the processes of the libraries that are used here.
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
# Where a library would write into the home folder, if that cannot be written to.
OF_THE_HOME = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")


def cleared(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what the tests must not depend on."""
    kept = {
        name: value
        for name, value in environment.items()
        if name not in NAMES and not name.startswith(PREFIXES)
    }
    return kept | {"LC_ALL": "C.UTF-8"}


def make_calm(environment: MutableMapping[str, str]) -> "tempfile.TemporaryDirectory[str] | None":
    """Clear an environment in place, and let Ctrl-C interrupt, as in a terminal.

    Returns:
        A folder that takes the place of a home that cannot be written to, for the caller to remove; or None.
    """
    wanted = cleared(environment)
    for name in set(environment) - set(wanted):
        del environment[name]
    environment.update(wanted)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a background job of a shell
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
