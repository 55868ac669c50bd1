"""What made a result: the versions of packages, and the command."""

import platform
import sys
from importlib import metadata
from pathlib import Path

from maskevidence import __version__


def versions() -> dict[str, str]:
    """Versions of Python and of the packages on which a number may depend.

    Example:
        >>> sorted(versions())[:2]
        ['maskevidence', 'numpy']
    """
    by_package = {"python": platform.python_version(), "maskevidence": __version__}
    for package in ("torch", "numpy", "scikit-learn", "transformers"):
        try:
            by_package[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return by_package


def command() -> str:
    """The command line of this process, without the folder of the program."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
