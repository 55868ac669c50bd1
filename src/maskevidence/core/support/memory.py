"""Memory still free for this process, on the machine and in its container."""

import os
from contextlib import suppress
from pathlib import Path

_ROOT = Path("/")
_UNKNOWN = (AttributeError, OSError, ValueError)
# For each version of cgroups: files with the limit, the usage, and the droppable file cache.
_LIMITS = {
    "sys/fs/cgroup": ("memory.max", "memory.current", "inactive_file"),
    "sys/fs/cgroup/memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


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
    with suppress(*_UNKNOWN, ImportError):
        import resource

        most = resource.getrlimit(resource.RLIMIT_AS)[0]  # ulimit -v
        if most != resource.RLIM_INFINITY:
            rooms.append(most - 1024 * _number_after("VmSize:", _ROOT / "proc/self/status"))
    return max(0, min(rooms)) if rooms else None


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
