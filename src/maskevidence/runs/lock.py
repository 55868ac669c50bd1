"""A lock that lets one process at a time write into a run directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from maskevidence.errors import InputError
from maskevidence.support.files import write_atomic, writing

LOCK = ".lock"
HOLDER = ".lock.pid"  # a file of its own: Windows lets nobody read a file that is locked


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; the system releases it when the process ends, however it ends.

    Raises:
        InputError: another process holds the folder, the lock is a symbolic link, or the folder cannot be
            written.

    Example:
        >>> import tempfile
        >>> with locked(Path(tempfile.mkdtemp())):
        ...     pass
    """
    path, holder = folder / LOCK, folder / HOLDER
    if path.is_symlink():
        raise InputError(f"{str(path)!r} is a symbolic link; remove it, or give another folder")
    lock = FileLock(path)
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise InputError(
                f"process {_read_pid(holder)} is writing into {str(folder)!r}; "
                "wait until it is done, or give another folder"
            ) from error
    try:
        with writing(holder):
            holder.unlink(missing_ok=True)  # a symbolic link would be written through
        write_atomic(holder, f"{os.getpid()}\n")
        yield
    finally:
        with suppress(OSError):  # a file that is left does no harm: the next holder replaces it
            holder.unlink(missing_ok=True)
        lock.release()


def _read_pid(path: Path) -> str:
    with suppress(OSError, ValueError):
        return str(int(path.read_text(encoding="ascii")))
    return "(unknown)"
