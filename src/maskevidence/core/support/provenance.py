"""The package versions and the command behind a result, and the SHA-256 by which data are recognised."""

import hashlib
import platform
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

_FINGERPRINT = re.compile(r"[0-9a-f]{64}(-[0-9a-f]{64})?")
_MAX_SHOWN = 60  # characters of a value in an error


def versions() -> dict[str, str]:
    """Versions of Python and the packages that may affect a number.

    Example:
        >>> sorted(versions())[:2]
        ['maskevidence', 'numpy']
    """
    from maskevidence import __version__

    return {"python": platform.python_version(), "maskevidence": __version__, **_of_other_packages()}


def origin() -> dict[str, Any]:
    """Versions and command, as every saved result records them."""
    return {"versions": versions(), "command": command()}


def made_of(result: Mapping[str, Any]) -> dict[str, str]:
    """Name the command, model, data and versions behind a saved result, for a page.

    Args:
        result: with `command` and `versions`, and where they are known `model` and `data`.

    Example:
        >>> made_of({"command": "maskevidence cells", "model": "gaussian", "versions": {"torch": "2"}})
        {'Command': 'maskevidence cells', 'Model': 'gaussian', 'Versions': 'torch 2'}
    """
    named = {"command": "Command", "model": "Model", "data": "Data", "wild_type": "Wild type"}
    made = {title: str(result[name]) for name, title in named.items() if name in result}
    return made | {"Versions": ", ".join(f"{name} {value}" for name, value in result["versions"].items())}


def differences(these: Mapping[str, Any], others: Mapping[str, Any]) -> list[str]:
    """How what two results were made of differs, a phrase each; empty if it is equal.

    Example:
        >>> differences({"seed": 1, "rates": [0.5]}, {"seed": 2, "rates": [0.5], "limit": 9})
        ['seed 1 instead of 2', 'limit none instead of 9']
    """
    return [
        f"{name} {_short(these.get(name))} instead of {_short(others.get(name))}"
        for name in {**others, **these}
        if these.get(name) != others.get(name)
    ]


def _short(value: Any) -> str:
    """Shorten a long value for an error."""
    if isinstance(value, str) and _FINGERPRINT.fullmatch(value):
        return "-".join(part[:12] for part in value.split("-"))
    text = "none" if value is None else str(value)
    return text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + "..."


@cache  # reading versions takes as long as scoring a small table
def _of_other_packages() -> dict[str, str]:
    installed = {}
    for package in ("torch", "numpy", "scikit-learn", "transformers"):
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def command() -> str:
    """The command line of this process as typed in a shell, without the program's folder.

    Example:
        >>> import sys
        >>> arguments, sys.argv = sys.argv, ["/bin/maskevidence", "score", "ppca:8", "my table.csv"]
        >>> command()
        "maskevidence score ppca:8 'my table.csv'"
        >>> sys.argv = arguments
    """
    words = without_passwords(shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]))
    return words.encode("utf-8", "backslashreplace").decode()  # file names may have another encoding


def without_passwords(text: str) -> str:
    """Remove user names and passwords from addresses in a text.

    Example:
        >>> without_passwords("https://me:secret@example.org/t.csv is missing")
        'https://...@example.org/t.csv is missing'
    """
    return re.sub(r"://[^/\s'\"]+@", "://...@", text)


def digest(*parts: Any) -> str:
    """The SHA-256 in hexadecimal of parts that follow each other without a gap.

    Args:
        parts: text, which is read as UTF-8, bytes, arrays and tensors, whose numbers are read in C order, or
            iterators of these.

    Example:
        >>> import numpy as np
        >>> digest("ab", iter([b"c"])) == digest("abc"), digest(np.ones(2)) == digest(np.ones((1, 2)))
        (True, True)
    """
    sha = hashlib.sha256()
    for part in parts:
        for each in part if isinstance(part, Iterator) else [part]:
            sha.update(_bytes(each))
    return sha.hexdigest()


def _bytes(part: Any) -> Any:
    """The bytes of a part."""
    if isinstance(part, str):
        return part.encode(errors="surrogatepass")
    if hasattr(part, "detach"):
        import torch  # commands without a model do not load it

        return part.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return part.tobytes() if hasattr(part, "tobytes") else part
