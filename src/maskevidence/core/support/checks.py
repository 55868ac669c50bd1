"""Check what users type (whole numbers, sizes, comma-separated words), and how much memory is free."""

import operator
import os
import re
import shlex
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from maskevidence.core.errors import InputError

_ROOT = Path("/")
_UNKNOWN = (AttributeError, OSError, ValueError)
# For each version of cgroups: files with the limit, the usage, and the droppable file cache.
_LIMITS = {
    "sys/fs/cgroup": ("memory.max", "memory.current", "inactive_file"),
    "sys/fs/cgroup/memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def is_out_of_memory(error: object) -> bool:
    """Whether an error says that Python or torch has too little memory.

    Example:
        >>> is_out_of_memory(RuntimeError("CUDA out of memory")), is_out_of_memory(KeyError("out of memory"))
        (True, False)
    """
    words = ("can't allocate memory", "not enough memory", "out of memory")  # of torch's RuntimeErrors
    of_torch = isinstance(error, RuntimeError) and any(word in str(error) for word in words)
    return of_torch or isinstance(error, MemoryError)


def free_memory() -> int | None:
    """Bytes free on the machine and in its container; without Linux, all bytes; None if not known."""
    rooms = []
    with suppress(*_UNKNOWN):
        rooms.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(*_UNKNOWN):
        rooms.append(1024 * _number_after("MemAvailable:", _ROOT / "proc/meminfo"))
    with suppress(*_UNKNOWN):
        for line in (_ROOT / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                root = "sys/fs/cgroup/memory" if controllers else "sys/fs/cgroup"
                rooms += _left_within(_ROOT / root, Path(path.lstrip("/")), *_LIMITS[root])
    if (most := address_limit()) is not None:
        with suppress(*_UNKNOWN):
            rooms.append(most - 1024 * _number_after("VmSize:", _ROOT / "proc/self/status"))
    return max(0, min(rooms)) if rooms else None


def address_limit() -> int | None:
    """Bytes of addresses that this process may have (`ulimit -v`); None without a limit."""
    with suppress(*_UNKNOWN, ImportError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]
        return None if most == resource.RLIM_INFINITY else most
    return None


def _left_within(root: Path, own: Path, limit: str, used: str, dropped: str) -> list[int]:
    """Bytes left in each limited control group of this process."""
    left = []
    for folder in (root / own, *(root / above for above in own.parents)):
        with suppress(*_UNKNOWN):  # no file if a container's group is its root; or "max"
            room = int((folder / limit).read_text()) - int((folder / used).read_text())
            left.append(room + _number_after(dropped, folder / "memory.stat"))
    return left


def _number_after(name: str, file: Path) -> int:
    """Find the number after a name in a file of names and numbers."""
    words = file.read_text().split()
    return int(words[words.index(name) + 1])


# A number in the digits 0 to 9, for `re` and pyarrow; Python's float also takes 1_000 and ١٢٣.
NUMBER = r"(?i)^[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?|inf|infinity|nan)$"
MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL")
MAX_WHOLE = 2**53  # up to here, float64 holds every whole number
_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))\.0+")  # pandas writes 1.0 for 1 in a column with missing cells
_MAX_SHOWN = 60  # characters of a value in an error
_NEVER_REFUSED = 2**26  # bytes; a query of free memory takes as long as to allocate them


def whole_number(name: str, value: object, least: int | None = None, most: int | None = None) -> int:
    """Convert a whole number of Python, numpy or torch to int; refuse True and False.

    Args:
        name: of the argument, for the error.
        least: the smallest number that is taken.
        most: the largest.

    Example:
        >>> import numpy as np
        >>> whole_number("seed", np.int64(3))
        3
        >>> whole_number("draws", 0, 1)
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: draws=0; give a whole number of 1 or more
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        more = "" if least is None else f" of {least} or more"
        raise InputError(f"{name}={in_short(value)}; give a whole number{more}")
    if most is not None and number > most:
        raise InputError(f"{name}={number}; give {most:,} or fewer")
    return number


def in_short(value: object) -> str:
    """A value in one short line, or its type.

    Example:
        >>> in_short(2.5), in_short([1.0] * 100)
        ('2.5', '<list>')
    """
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN and "\n" not in text else f"<{type(value).__name__}>"


def some_of(words: Sequence[str], most: int = 6, between: str = ", ") -> str:
    """List the first words and count the rest.

    Example:
        >>> some_of(["a", "b"]), some_of(["a", "b", "c", "d"], most=2)
        ('a, b', 'a, b and 2 more')
    """
    more = f" and {len(words) - most:,} more" if len(words) > most else ""
    return between.join(words[:most]) + more


def word_of(cell: object) -> str:
    """Read a cell as a category: "2" for 2 and 2.0, "" for a missing cell.

    Example:
        >>> word_of(" red "), word_of(2.0), word_of("2.0"), word_of("02"), word_of(None)
        ('red', '2', '2', '02', '')
    """
    text = "" if cell is None else str(cell).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def plain_number(text: str) -> float:
    """Parse a number in the digits 0 to 9; raise a ValueError for other text.

    Example:
        >>> plain_number("1e3")
        1000.0
    """
    if not re.match(NUMBER, text):
        raise ValueError(text)
    return float(text)


def check_memory(n_bytes: int, what: str, remedy: str) -> None:
    """Raise an InputError for more memory than is free.

    Example:
        >>> check_memory(2**60, "10^15 masks", "ask for fewer")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        maskevidence.core.errors.InputError: 10^15 masks need about 1,073,741,824 GiB of ...
    """
    free = free_memory() if n_bytes > _NEVER_REFUSED else None
    if free is not None and n_bytes > free:
        needed, left = n_bytes / 2**30, free / 2**30
        raise InputError(f"{what} need about {needed:,.0f} GiB of memory, {left:,.0f} are free; {remedy}")


def join_words(words: Iterable[str]) -> str:
    """Join words by commas in the form that options such as --drop read.

    Example:
        >>> join_words(["a", "b, in m"])
        'a,"b, in m"'
    """

    def quoted(word: str) -> str:
        plain = word == word.strip() and not re.search('[,"]', word)
        return word if plain else '"{}"'.format(word.replace('"', '""'))

    return ",".join(map(quoted, words))


def typed(words: Iterable[str]) -> str:
    """Join words by commas and quote them for a shell.

    Example:
        >>> typed(["a", "b"]), typed(["patient id"])
        ('a,b', "'patient id'")
    """
    return shlex.quote(join_words(words))


def counted_weights(names: Collection[str]) -> str:
    """Count weights and name the first.

    Example:
        >>> counted_weights({"c", "b"}), counted_weights(["b"])
        ('2 weights (the first is b)', '1 weight (the first is b)')
    """
    return f"{len(names):,} weight{'s' * (len(names) != 1)} (the first is {min(names)})"


def is_number(cell: str) -> bool:
    """Whether a cell is a number in the digits 0 to 9 or a word for "missing".

    Example:
        >>> is_number("1e3"), is_number("NA"), is_number("red"), is_number("1_000")
        (True, True, False, False)
    """
    return re.match(NUMBER, cell.strip()) is not None or cell.strip() in MISSING
