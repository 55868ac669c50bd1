"""How much memory this process can still take, on the machine and within its container."""

import os
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/")
_UNKNOWN = (AttributeError, OSError, ValueError)
# By the folder of each version of cgroups: a limit, what is used, and files in memory that can be dropped.
_LIMITS = {
    "sys/fs/cgroup": ("memory.max", "memory.current", "inactive_file"),
    "sys/fs/cgroup/memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def free_memory() -> int | None:
    """The bytes that are free; without Linux those of the machine, and None if neither is known."""
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
    return max(0, min(rooms)) if rooms else None


def _left_within(root: Path, own: Path, limit: str, used: str, dropped: str) -> list[int]:
    """The bytes left in the group of this process and in those above it, of those that are limited."""
    left = []
    for folder in (root / own, *(root / above for above in own.parents)):
        with suppress(*_UNKNOWN):  # no such file where a container sees its own group as the root; or "max"
            room = int((folder / limit).read_text()) - int((folder / used).read_text())
            left.append(room + _number_after(dropped, folder / "memory.stat"))
    return left


def _number_after(name: str, file: Path) -> int:
    """The number that stands after a name in a file of names and numbers."""
    words = file.read_text().split()
    return int(words[words.index(name) + 1])
