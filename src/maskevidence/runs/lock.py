"""One process at a time in a run directory."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maskevidence.errors import InputError
from maskevidence.support.files import writing

LOCK = ".lock"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder for this process; the system lets go of it when the process ends, however it ends.

    Raises:
        InputError: another process holds it (names it), or the folder cannot be written.

    Example:
        >>> import tempfile
        >>> with locked(Path(tempfile.mkdtemp())):
        ...     pass
    """
    path = folder / LOCK
    with writing(path):
        folder.mkdir(parents=True, exist_ok=True)
        file = path.open("a+")
    with file:
        if not _take(file.fileno()):
            file.seek(0)
            holder = file.read().strip()
            raise InputError(
                f"process {holder or '(unknown)'} is writing into {str(folder)!r}; "
                "wait until it is done, or give another folder"
            )
        with writing(path):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield


def _take(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows has no flock; nothing guards the folder there
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
