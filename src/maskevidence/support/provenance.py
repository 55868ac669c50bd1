"""What a result was made with: versions and command."""

import platform
import sys
from importlib import metadata
from pathlib import Path


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a number may depend on.

    Example:
        >>> sorted(versions())[:2]
        ['maskevidence', 'numpy']
    """
    found = {"python": platform.python_version()}
    for package in ("maskevidence", "torch", "numpy", "scikit-learn", "transformers"):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def command() -> str:
    """The command line of this process, as the user typed it but for the folder of the program."""
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])
