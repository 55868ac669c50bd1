"""The addresses on which a process and its descendants listen, read from Linux's /proc."""

import contextlib
import os
import socket
from pathlib import Path


def listening(root: int) -> set[str]:
    """The addresses of TCP sockets on which a process and its descendants listen."""
    own = {inode for process in _with_descendants(root) for inode in _sockets(process)}
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == "0A" and cells[9] in own:  # state LISTEN
                words = bytes.fromhex(cells[1].partition(":")[0])  # four-byte words in little-endian order
                address = b"".join(words[i : i + 4][::-1] for i in range(0, len(words), 4))
                found.add(socket.inet_ntop(family, address))
    return found


def _with_descendants(root: int) -> set[int]:
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process has ended
            parents[int(file.parent.name)] = int(file.read_text().rpartition(")")[2].split()[1])
    family, before = {root}, set()
    while family != before:
        before = family
        family = before | {process for process, parent in parents.items() if parent in before}
    return family


def _sockets(process: int) -> set[str]:
    """The inodes of a process's open sockets."""
    links = []
    with contextlib.suppress(OSError):
        for entry in os.scandir(f"/proc/{process}/fd"):
            with contextlib.suppress(OSError):
                links.append(os.readlink(entry.path))
    return {link.removeprefix("socket:[").removesuffix("]") for link in links if link.startswith("socket:[")}
