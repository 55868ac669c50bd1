"""What users type: whole numbers, sizes that fit into memory, and words between commas."""

import operator
import os
import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import SupportsIndex

from maskevidence.errors import InputError

# A number in the digits 0 to 9, in the words of `re` and pyarrow; Python's float takes 1_000 and ١٢٣, too.
NUMBER = r"(?i)^[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)$"


def whole_number(name: str, value: object) -> int:
    """A whole number as Python's int, whether Python, numpy or torch holds it.

    Example:
        >>> import numpy as np
        >>> whole_number("seed", np.int64(3))
        3
    """
    if not isinstance(value, SupportsIndex):
        raise InputError(f"{name}={value!r}; give a whole number")
    try:
        return operator.index(value)
    except TypeError as error:
        raise InputError(f"{name}={value!r}; give a whole number") from error


_MEMORY_INFO = "/proc/meminfo"
_CONTAINER = (  # the limit of a container and what it uses, in both versions of control groups
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def plain_number(text: str) -> float:
    """A number in the digits 0 to 9; ValueError for another text.

    Example:
        >>> plain_number("1e3")
        1000.0
    """
    if not re.match(NUMBER, text):
        raise ValueError(text)
    return float(text)


def check_memory(n_bytes: int, what: str, remedy: str) -> None:
    """Refuse to allocate more memory than is free.

    Example:
        >>> check_memory(2**60, "10^15 masks", "ask for fewer")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        maskevidence.errors.InputError: 10^15 masks need about 1,073,741,824 GiB of ...
    """
    available = machine_memory()
    if available is not None and n_bytes > available:
        raise InputError(
            f"{what} need about {n_bytes / 2**30:,.0f} GiB of memory, this machine has "
            f"{available / 2**30:,.0f} free; {remedy}"
        )


def machine_memory() -> int | None:
    """The bytes of memory that are free: of the machine, and below the limit of a container.

    They are those of the whole machine on macOS, and None on systems other than Linux and macOS.
    """
    try:
        whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None
    free = re.search(r"^MemAvailable: +(\d+) kB", _content(_MEMORY_INFO), re.MULTILINE)
    bounds = [whole] if free is None else [whole, 1024 * int(free[1])]
    for limit_file, usage_file in _CONTAINER:
        limit, usage = _content(limit_file).strip(), _content(usage_file).strip()
        if limit.isdecimal() and usage.isdecimal():  # "max" without a limit
            bounds.append(max(0, int(limit) - int(usage)))
    return min(bounds)


def _content(file: str) -> str:
    """The text of a file of the system; empty where there is none."""
    try:
        return Path(file).read_text()
    except OSError:
        return ""


def join_words(words: Iterable[str]) -> str:
    """Words between commas, as options such as --drop read them.

    Example:
        >>> join_words(["a", "b, in m"])
        'a,"b, in m"'
    """

    def quoted(word: str) -> str:
        plain = word == word.strip() and not re.search('[,"]', word)
        return word if plain else '"{}"'.format(word.replace('"', '""'))

    return ",".join(map(quoted, words))


def typed(words: Iterable[str]) -> str:
    """The same as it is typed in a shell.

    Example:
        >>> typed(["a", "b"]), typed(["patient id"])
        ('a,b', "'patient id'")
    """
    return shlex.quote(join_words(words))
