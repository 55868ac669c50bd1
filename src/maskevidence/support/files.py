"""Files that are there whole or not at all, also after a kill or a power cut."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maskevidence.errors import InputError

TEMPORARY = ".tmp"


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or not at all: a temporary file, fsync, rename, fsync of both.

    Raises:
        InputError: the place cannot be written.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "a.txt"
        >>> write_atomic(path, "text")
        >>> path.read_text()
        'text'
    """
    target = Path(path)
    temporary = None
    with writing(target):
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(TEMPORARY, f".{target.name}.", target.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(content.encode() if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
            os.replace(temporary, target)
            sync_folder(target.parent)
        except OSError:
            if temporary is not None:
                Path(temporary).unlink(missing_ok=True)
            raise


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """Turn what the system says about a place that cannot be written into one clear line (InputError)."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(
                f"no space is left for {str(place)!r}; free some and run the same command again, which goes "
                "on from what was saved"
            ) from error
        raise InputError(
            f"{str(place)!r} cannot be written ({error.strerror}); give another place"
        ) from error


@contextmanager
def reading(place: Path) -> Iterator[None]:
    """The same for a place that cannot be read."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{str(place)!r} cannot be read ({error.strerror}); check the path") from error


def sync_folder(folder: Path) -> None:
    """Make renames in a folder last through a power cut, where the system can."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
