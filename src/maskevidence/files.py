"""Files that are there whole or not at all."""

import os
import tempfile
from pathlib import Path

from maskevidence.errors import InputError


def write_atomic(path: str | Path, content: str | bytes) -> None:
    """Write a file so that it is there whole or not at all: a temporary file, fsync, rename.

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
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, target)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise InputError(
            f"{str(target)!r} cannot be written ({error.strerror}); give another place"
        ) from error
